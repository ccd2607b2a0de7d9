//! The active streams of a connection, those that have ended early, and the choice of the next one to send.

use super::priority::Priority;
use alloc::collections::VecDeque;

/// The most ended streams that are remembered because the client may still send frames for them. Frames for an ended stream
/// that has been forgotten are a violation: a client with frames for more streams in transit breaks the rules or is very slow.
const MOST_ABANDONED: usize = 256;

/// The progress of reading the request of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Content or trailers may follow.
    Open,
    /// Like `Open`, but the request has been refused: further input is skipped.
    Skipped,
    /// The client has ended the stream.
    Ended,
}

/// The progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Not begun.
    Nothing,
    /// The head has ended the stream: the response has no content, even if some is offered.
    Dropped,
    /// This many bytes of content are still promised; the stream ends with the last. `over`: more than that has been offered.
    Length { left: u64, over: bool },
    /// The end of the stream ends the content.
    UntilEnd,
    /// Trailers have ended the stream.
    Ended,
}

/// An active stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// The number of bytes of content that may be sent; negative after the client has made its windows smaller.
    pub(super) window: i32,
    /// The number of bytes of content that the client may send.
    pub(super) allowed: u32,
    /// Content that the caller has got and not consumed.
    pub(super) held: u32,
    /// Bytes that the client may send again, but for which no window update has been written yet.
    pub(super) credit: u32,
    /// The turn in which the stream was last served.
    turn: u32,
    /// The bytes of content that may still arrive: the rest of the announced length or, without one, of the limit.
    pub(super) left: u64,
    pub(super) writing: Writing,
    pub(super) priority: Priority,
    pub(super) reading: Reading,
    /// The content has been announced.
    pub(super) announced: bool,
    pub(super) bodiless: bool,
    pub(super) tunnel: bool,
    /// The response opens the tunnel.
    pub(super) opened: bool,
    pub(super) expects_continue: bool,
    /// The caller has content that it could not send yet.
    waiting: bool,
}

/// The final state of a stream that is no longer active.
pub(super) struct Removed {
    pub(super) id: u32,
    /// As [`Stream::held`].
    pub(super) held: u32,
    pub(super) writing: Writing,
    pub(super) reading: Reading,
}

impl Stream {
    pub(super) const fn new(id: u32, window: i32, allowed: u32, reading: Reading) -> Self {
        Self {
            id,
            window,
            allowed,
            held: 0,
            credit: 0,
            turn: 0,
            left: 0,
            writing: Writing::Nothing,
            priority: Priority { urgency: 3, incremental: true },
            reading,
            announced: false,
            bodiless: false,
            tunnel: false,
            opened: false,
            expects_continue: false,
            waiting: false,
        }
    }
}

/// The streams of a connection. About eighty bytes for each active one, and four for each abandoned one.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    /// In the order of their ids, which only grow. Mostly the oldest ends first.
    active: VecDeque<Stream>,
    /// Ids of streams that ended while the client was still sending.
    abandoned: VecDeque<u32>,
    /// The number of waiting streams.
    waiting: u32,
    /// The number of the last turn.
    turn: u32,
    /// The place where a stream was found last: one response looks up its stream several times, and the next response mostly
    /// looks for the stream that has moved to the same place.
    found: u32,
}

/// The number of streams for which a connection keeps memory when it carries none.
const KEPT_STREAMS: usize = 16;

impl Streams {
    pub(super) const fn new() -> Self {
        Self { active: VecDeque::new(), abandoned: VecDeque::new(), waiting: 0, turn: 0, found: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    #[inline]
    pub(super) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.place(id)?;
        self.found = place as u32;
        self.active.get_mut(place)
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.active.get(self.place(id)?)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.active.iter_mut()
    }

    /// Adds a stream, whose id is greater than all before.
    #[inline]
    pub(super) fn add(&mut self, stream: Stream) {
        debug_assert!(self.active.back().is_none_or(|last| last.id < stream.id));
        self.active.push_back(stream);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<Removed> {
        let place = self.place(id)?;
        self.found = place as u32;
        let &Stream { held, writing, reading, waiting, .. } = self.active.get(place)?;
        self.waiting -= u32::from(waiting);
        if place == 0 {
            self.active.pop_front();
        } else {
            self.active.remove(place);
        }
        if self.active.is_empty() && self.active.capacity() > KEPT_STREAMS {
            self.active.shrink_to(KEPT_STREAMS);
        }
        Some(Removed { id, held, writing, reading })
    }

    #[inline(always)]
    fn place(&self, id: u32) -> Option<usize> {
        let found = self.found as usize;
        if self.active.get(found).is_some_and(|stream| stream.id == id) { Some(found) } else { self.search(id) }
    }

    #[inline(never)]
    fn search(&self, id: u32) -> Option<usize> {
        self.active.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Remembers a stream that has ended while the client was still sending.
    pub(super) fn abandon(&mut self, id: u32) {
        if self.abandoned.len() == MOST_ABANDONED {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back(id);
    }

    #[inline]
    pub(super) fn is_abandoned(&self, id: u32) -> bool {
        self.abandoned.contains(&id)
    }

    /// Forgets an abandoned stream that the client has ended.
    pub(super) fn forget(&mut self, id: u32) {
        self.abandoned.retain(|&abandoned| abandoned != id);
        if self.abandoned.is_empty() {
            self.abandoned = VecDeque::new();
        }
    }

    /// Whether any stream has content that it could not send.
    #[inline]
    pub(super) const fn any_waits(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn set_waiting(&mut self, id: u32, waiting: bool) {
        let Some(place) = self.place(id) else { return };
        let Some(stream) = self.active.get_mut(place) else { return };
        if stream.waiting != waiting {
            stream.waiting = waiting;
            self.waiting = if waiting { self.waiting + 1 } else { self.waiting - 1 };
        }
    }

    /// Returns the stream to serve next, among those that wait and have room: one of the most urgent streams. Of these, the
    /// incremental streams take turns with one another and with the first of the other streams; the others are served one after
    /// the other (RFC 9218, section 10).
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let mut best = None::<(u8, u32, usize)>;
        // Urgencies at which a stream that is not incremental has been seen: only the first takes part.
        let mut seen = 0_u8;
        for (place, stream) in self.active.iter().enumerate() {
            if !stream.waiting || stream.window <= 0 {
                continue;
            }
            let Priority { urgency, incremental } = stream.priority;
            let bit = 1 << urgency;
            if !incremental && seen & bit != 0 {
                continue;
            }
            seen |= if incremental { 0 } else { bit };
            if best.is_none_or(|(lowest, oldest, _)| (urgency, stream.turn) < (lowest, oldest)) {
                best = Some((urgency, stream.turn, place));
            }
        }
        let (_, _, place) = best?;
        self.turn = self.turn.wrapping_add(1);
        if self.turn == 0 {
            // After four thousand million turns all begin again.
            self.active.iter_mut().for_each(|stream| stream.turn = 0);
            self.turn = 1;
        }
        let stream = self.active.get_mut(place)?;
        stream.turn = self.turn;
        Some(stream.id)
    }

    #[cfg(test)]
    pub(super) fn abandoned(&self) -> usize {
        self.abandoned.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn streams(priorities: &[(u8, bool)]) -> Streams {
        let mut streams = Streams::new();
        for (number, &(urgency, incremental)) in priorities.iter().enumerate() {
            let id = 1 + 2 * number as u32;
            let mut stream = Stream::new(id, 100, 0, Reading::Ended);
            stream.priority = Priority { urgency, incremental };
            streams.add(stream);
            streams.set_waiting(id, true);
        }
        streams
    }

    fn turns(streams: &mut Streams, count: usize) -> Vec<u32> {
        (0..count).map_while(|_| streams.next()).collect()
    }

    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 80, "{}", size_of::<Stream>());
        assert!(size_of::<Streams>() <= 80, "{}", size_of::<Streams>());
    }

    #[test]
    fn equal_streams_take_turns() {
        let mut all = streams(&[(3, true), (3, true), (3, true)]);
        assert_eq!(turns(&mut all, 7), [1, 3, 5, 1, 3, 5, 1]);
        all.set_waiting(3, false);
        assert_eq!(turns(&mut all, 4), [5, 1, 5, 1]);
        all.set_waiting(3, true);
        assert_eq!(turns(&mut all, 3), [3, 5, 1]);
    }

    #[test]
    fn urgent_streams_come_first() {
        let mut all = streams(&[(5, true), (0, false), (3, true), (0, false)]);
        assert_eq!(turns(&mut all, 3), [3, 3, 3]);
        all.remove(3);
        assert_eq!(turns(&mut all, 2), [7, 7]);
        all.set_waiting(7, false);
        assert_eq!(turns(&mut all, 2), [5, 5]);
        all.find(5).expect("a stream").window = 0;
        assert_eq!(turns(&mut all, 2), [1, 1]);
        all.find(1).expect("a stream").window = -5;
        assert_eq!(all.next(), None);
    }

    #[test]
    fn what_is_not_incremental_is_served_in_order_beside_what_is() {
        let mut all = streams(&[(3, false), (3, true), (3, false), (3, true)]);
        assert_eq!(turns(&mut all, 6), [1, 3, 7, 1, 3, 7]);
        all.remove(1);
        assert_eq!(turns(&mut all, 4), [5, 3, 7, 5]);
    }

    #[test]
    fn ended_streams_are_remembered_within_bounds() {
        let mut all = Streams::new();
        for number in 0..1000 {
            all.abandon(2 * number + 1);
        }
        assert_eq!(all.abandoned(), MOST_ABANDONED);
        assert!(!all.is_abandoned(1) && all.is_abandoned(1999));
        all.forget(1999);
        assert!(!all.is_abandoned(1999));
        (0..1000).for_each(|number| all.forget(2 * number + 1));
        assert_eq!(all.abandoned.capacity(), 0);
    }
}
