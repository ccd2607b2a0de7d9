//! One turn of the loop: hands operations to the kernel, processes completions, and reports events.

use super::Uring;
use super::buffers::BUFFER_BYTES;
use super::name::{Name, Operation};
use super::ring::Completion;
use super::sockets::{Far, Key, UNOPENED};
use crate::Event;
use rustix::event::PollFlags;
use std::io;
use std::time::Duration;

/// The most received bytes of one socket that may wait outside the kernel's buffers. Beyond this nothing more is received
/// until the caller has taken them, so that the client's window closes as it would without a ring.
const SPILL_BYTES: usize = 64 << 10;

/// The number of small receives in a row (below the size of a buffer) that end the bulk mode of a connection. A client that has
/// filled a buffer at once is likely to continue. So in bulk mode its bytes are received directly into their final place,
/// instead of being copied there, until the connection has small requests again.
const BULK_ENDS_AFTER: u8 = 16;

/// The longest wait while there are connections that were closed with unsent bytes: after each wait, those whose time is over
/// are given up.
const LINGERING_TURN: Duration = Duration::from_secs(1);

impl Uring {
    /// Hands over urgent operations and processes completions. Receives and accepts wait for [`Uring::look`].
    pub(super) fn turn(&mut self) -> io::Result<()> {
        self.hand_over()?;
        self.complete(false, None)
    }

    /// Hands over everything and, with `patient`, waits for the first completion unless there are events already.
    pub(super) fn look(&mut self, patient: bool, timeout: Option<Duration>) -> io::Result<()> {
        self.hand_over()?;
        self.hand_over_receives()?;
        self.hand_over_listeners()?;
        self.complete(patient, timeout)
    }

    fn complete(&mut self, patient: bool, timeout: Option<Duration>) -> io::Result<()> {
        let patient = patient && self.news.is_empty() && self.others.is_empty() && !self.has_connections();
        let timeout =
            if self.lingering.is_empty() { timeout } else { Some(timeout.unwrap_or(LINGERING_TURN).min(LINGERING_TURN)) };
        self.ring.enter(patient, timeout)?;
        self.completed = 0;
        self.take_completions()?;
        self.settle_outgoing();
        Ok(())
    }

    fn hand_over_receives(&mut self) -> io::Result<()> {
        while let Some(key) = self.to_receive.pop() {
            let Some(state) = self.sockets.find_open(key).filter(|state| !state.paused && !state.ended && !state.broken) else {
                continue;
            };
            if state.in_bulk > 0 {
                if !state.polled {
                    state.polled = true;
                    let events = PollFlags::IN | PollFlags::RDHUP;
                    self.ring.poll(state.number(), events.bits() as i16, true, key.name(Operation::Ready))?;
                }
            } else if !state.receiving {
                state.receiving = true;
                self.ring.receive(state.number(), state.lasting, key.name(Operation::Receive))?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        while let Some(key) = self.to_watch.pop() {
            if let Some(state) = self.sockets.find(key) {
                state.watched = true;
                self.ring.poll(state.number(), PollFlags::OUT.bits() as i16, false, key.name(Operation::Room))?;
            }
        }
        while let Some(key) = self.to_break.pop() {
            if let Some(state) = self.sockets.find_open(key) {
                // An end that was seen is reported again at once; later events are reported as they occur.
                state.guarded = true;
                self.ring.poll(state.number(), 0, true, key.name(Operation::Break))?;
            }
        }
        self.hand_over_outgoing()
    }

    /// Moves received bytes that the caller has not taken since the last report out of the kernel's buffers, which other
    /// sockets need.
    pub(super) fn spill(&mut self) {
        for key in self.told.drain(..) {
            let Some(state) = self.sockets.find(key) else { continue };
            if state.received.is_empty() {
                continue;
            }
            let mut bytes = vec![0; self.ring.buffers.size(state.received)];
            self.ring.buffers.take(&mut state.received, &mut bytes);
            let spilled = state.spilled.get_or_insert_default();
            spilled.extend(bytes);
            if spilled.len() > SPILL_BYTES && state.receiving && !state.paused {
                state.paused = true;
                self.to_cancel.push(key.name(Operation::Receive));
            }
        }
    }

    /// Processes all completions, including those that did not fit their ring. Otherwise a receive without the ring could
    /// overtake the bytes of a waiting completion.
    pub(super) fn take_completions(&mut self) -> io::Result<()> {
        loop {
            while let Some(completion) = self.ring.completion() {
                self.completed += 1;
                self.handle(completion)?;
            }
            if !self.ring.overflown() {
                return Ok(());
            }
            self.ring.enter(false, None)?;
        }
    }

    fn handle(&mut self, completion: Completion) -> io::Result<()> {
        let Name { operation, place, generation } = Name::of(completion.name);
        let key = Key { place, generation };
        match operation {
            Operation::Receive => self.received(key, completion),
            Operation::Ready => self.is_ready(key, completion),
            Operation::Room => self.has_room(key),
            Operation::Break => self.may_be_broken(key, completion),
            Operation::Send => self.sent_in_part(key, completion.result),
            Operation::Connection => self.is_waited_at(place as usize, generation, completion.result),
            Operation::Accept => self.has_accepted(place as usize, completion.result),
            Operation::Wake => {
                if completion.result > 0 {
                    self.others.push(Event::Wake);
                }
                if !completion.more {
                    self.watch_again()?;
                }
            }
            Operation::Doorbell => {
                if completion.result > 0 {
                    self.others.push(Event::Doorbell);
                }
                if !completion.more {
                    self.watch_doorbell_again(place as usize)?;
                }
            }
            Operation::Indifferent => {}
        }
        Ok(())
    }

    /// Reports writes to the watched pipe from now on.
    pub(super) fn watch_again(&mut self) -> io::Result<()> {
        let Some(pipe) = self.watched else { return Ok(()) };
        let name = Name { operation: Operation::Wake, ..Name::INDIFFERENT };
        self.ring.poll(pipe, PollFlags::IN.bits() as i16, true, name.number())
    }

    /// Reports writes to the doorbell with this index from now on.
    pub(super) fn watch_doorbell_again(&mut self, index: usize) -> io::Result<()> {
        let Some(doorbell) = self.doorbells.get(index) else { return Ok(()) };
        let name = Name { operation: Operation::Doorbell, place: index as u32, ..Name::INDIFFERENT };
        self.ring.poll(*doorbell, PollFlags::IN.bits() as i16, true, name.number())
    }

    fn received(&mut self, key: Key, completion: Completion) {
        let Some(state) = self.sockets.find_open(key) else {
            if let Some(buffer) = completion.buffer {
                self.ring.buffers.drop_one(buffer);
            }
            return;
        };
        state.receiving = completion.more;
        let result = completion.result;
        match completion.buffer {
            Some(buffer) if result > 0 => self.ring.buffers.append(&mut state.received, buffer, result as usize),
            Some(buffer) => self.ring.buffers.drop_one(buffer),
            None => {}
        }
        match result {
            1.. => {
                state.lasting = true;
                // Not every kind of socket reports that there is more; a full buffer implies it.
                let full = result as usize >= BUFFER_BYTES;
                state.rest = completion.rest || full;
                state.readable = true;
                if full && state.in_bulk == 0 {
                    state.in_bulk = BULK_ENDS_AFTER;
                    if completion.more {
                        self.to_cancel.push(key.name(Operation::Receive));
                        self.to_receive.push(key);
                    }
                }
            }
            0 => {
                state.ended = true;
                state.readable = true;
                self.to_break.push(key);
            }
            // Earlier completions have brought the bytes that the cancelled receive had taken.
            _ if result == -libc::ECANCELED => {}
            _ if result == -libc::ENOBUFS => {
                state.rest = true;
                self.ring.buffers.grow();
            }
            _ => {
                state.broken = true;
                state.readable = true;
            }
        }
        let (tell, again) = (state.readable, !completion.more && !state.ended && !state.broken && !state.paused);
        if tell {
            self.note(key);
        }
        if again {
            self.to_receive.push(key);
        }
    }

    fn is_ready(&mut self, key: Key, completion: Completion) {
        let Some(state) = self.sockets.find_open(key) else { return };
        state.polled = completion.more;
        if completion.result >= 0 {
            let flags = PollFlags::from_bits_retain(completion.result as u16);
            state.far = state.far.max(if flags.intersects(PollFlags::ERR | PollFlags::HUP) {
                Far::Broken
            } else if flags.contains(PollFlags::RDHUP) {
                Far::Ended
            } else {
                Far::Open
            });
            state.rest = true;
        } else if completion.result != -libc::ECANCELED {
            state.broken = true;
        }
        if completion.result != -libc::ECANCELED {
            state.readable = true;
            self.note(key);
            if !completion.more {
                self.to_receive.push(key);
            }
        }
    }

    /// Notes that `size` bytes have been received without the ring; with `whole`, the socket had no more.
    pub(super) fn received_in_bulk(&mut self, key: Key, size: usize, whole: bool) {
        let Some(state) = self.sockets.find(key) else { return };
        state.in_bulk = if whole && size < BUFFER_BYTES { state.in_bulk - 1 } else { BULK_ENDS_AFTER };
        if state.in_bulk == 0 {
            if state.polled {
                self.to_cancel.push(key.name(Operation::Ready));
            }
            self.to_receive.push(key);
        }
    }

    fn may_be_broken(&mut self, key: Key, completion: Completion) {
        let Some(state) = self.sockets.find_open(key) else { return };
        state.guarded = completion.more;
        let wrong = PollFlags::ERR | PollFlags::HUP;
        if !state.broken && PollFlags::from_bits_retain(completion.result as u16).intersects(wrong) && completion.result > 0 {
            state.broken = true;
            state.readable = true;
            self.note(key);
        }
    }

    /// Puts a socket into the next report.
    pub(super) fn note(&mut self, key: Key) {
        if let Some(state) = self.sockets.find(key)
            && !state.noted
        {
            state.noted = true;
            self.news.push(key);
        }
    }

    /// Reports all events.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) {
        self.report_connections();
        events.append(&mut self.others);
        for key in self.news.drain(..) {
            let Some(state) = self.sockets.find_open(key) else { continue };
            state.noted = false;
            if state.token == UNOPENED {
                continue;
            }
            events.push(Event::Socket {
                token: state.token,
                readable: std::mem::take(&mut state.readable),
                writable: std::mem::take(&mut state.writable),
                ended: state.ended || state.broken || state.far >= Far::Ended,
                broken: state.broken || state.far == Far::Broken,
            });
            self.told.push(key);
        }
    }
}
