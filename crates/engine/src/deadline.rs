//! Deadlines without a heap: each kind has the same length for all connections, so a list in order of start is in order of
//! expiry. Setting, moving and clearing a deadline take a few writes.

use super::slots::{grow_gently, with_room};
use super::timestamp::Timestamp;
use std::time::Duration;

/// The kinds of deadlines, each named after the awaited event. A connection has at most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Deadline {
    /// The rest of a request head.
    Head = 0,
    /// The rest of the content.
    Content = 1,
    /// The next request on an idle connection.
    Idle = 2,
    /// Room in the socket for the next part of the response.
    Write = 3,
    /// The end of input on a connection that is ending.
    Linger = 4,
    /// The next request on a connection that a web server keeps.
    Kept = 5,
}

pub(super) const KINDS: usize = 6;
const ALL: [Deadline; KINDS] =
    [Deadline::Head, Deadline::Content, Deadline::Idle, Deadline::Write, Deadline::Linger, Deadline::Kept];
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    since: Timestamp,
    kind: Option<Deadline>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    lasts: Duration,
}

/// The deadlines of all connections of an engine, by the number of the connection.
#[derive(Debug)]
pub(super) struct Deadlines {
    links: Vec<Link>,
    lists: [List; KINDS],
    /// The number of deadlines of each kind.
    counts: [u32; KINDS],
    /// No deadline expires before this time. The time is recomputed only once it has passed, so most checks only compare two
    /// times.
    quiet_until: Duration,
}

impl Deadlines {
    pub(super) fn new(lasts: impl Fn(Deadline) -> Duration) -> Self {
        let lists = ALL.map(|kind| List { first: NONE, last: NONE, lasts: lasts(kind) });
        Self { links: Vec::new(), lists, counts: [0; KINDS], quiet_until: Duration::ZERO }
    }

    /// Reserves room for this many connections.
    pub(super) fn for_many(mut self, connections: usize) -> Self {
        self.links = with_room(connections);
        self
    }

    /// Shortens a kind to `lasts`. Running deadlines of that kind expire at `now` plus `lasts`, unless they would have expired
    /// earlier.
    pub(super) fn shorten(&mut self, kind: Deadline, lasts: Duration, now: Duration) {
        let list = &mut self.lists[kind as usize];
        if list.lasts <= lasts {
            return;
        }
        let sooner = list.lasts - lasts;
        list.lasts = lasts;
        self.quiet_until = Duration::ZERO;
        let mut index = list.first;
        while index != NONE {
            let link = &mut self.links[index as usize];
            // The start moves so that the deadline expires at the earlier of its old end and `now` plus the new length.
            link.since = (link.since.time() + sooner).min(now).into();
            index = link.next;
        }
    }

    /// Starts a deadline, which replaces the running deadline of the connection.
    pub(super) fn set(&mut self, index: u32, kind: Deadline, now: Duration) {
        self.set_here(index, kind, now);
    }

    /// Like [`Deadlines::set`], inlined for the one place that every request passes: there, a call would cost as much as the
    /// work itself.
    #[inline(always)]
    pub(super) fn set_here(&mut self, index: u32, kind: Deadline, now: Duration) {
        self.clear(index);
        if self.links.len() <= index as usize {
            self.make_room(index);
        }
        self.counts[kind as usize] += 1;
        let list = &mut self.lists[kind as usize];
        let last = list.last;
        list.last = index;
        if last == NONE {
            list.first = index;
        } else {
            self.links[last as usize].next = index;
        }
        self.links[index as usize] = Link { previous: last, next: NONE, since: now.into(), kind: Some(kind) };
    }

    /// Starts a deadline with only `left` remaining at the time `now`, at most its whole length.
    pub(super) fn set_rest(&mut self, index: u32, kind: Deadline, left: Duration, now: Duration) {
        let lasts = self.lists[kind as usize].lasts;
        let since = (now + left.min(lasts)).saturating_sub(lasts);
        self.quiet_until = Duration::ZERO;
        self.set(index, kind, now);
        // The position of this deadline is before those that began later.
        let mut next = index;
        let mut previous = self.links[index as usize].previous;
        while previous != NONE && self.links[previous as usize].since.time() > since {
            next = previous;
            previous = self.links[previous as usize].previous;
        }
        self.links[index as usize].since = since.into();
        if next == index {
            return;
        }
        self.clear(index);
        self.counts[kind as usize] += 1;
        self.links[index as usize] = Link { previous, next, since: since.into(), kind: Some(kind) };
        self.links[next as usize].previous = index;
        if previous == NONE {
            self.lists[kind as usize].first = index;
        } else {
            self.links[previous as usize].next = index;
        }
    }

    /// The rest of the deadline, if one of that kind runs.
    pub(super) fn left(&self, index: u32, kind: Deadline, now: Duration) -> Option<Duration> {
        let link = self.links.get(index as usize).filter(|link| link.kind == Some(kind))?;
        Some((link.since.time() + self.lists[kind as usize].lasts).saturating_sub(now))
    }

    #[cold]
    fn make_room(&mut self, index: u32) {
        while self.links.len() <= index as usize {
            grow_gently(&mut self.links);
            self.links.push(Link { previous: NONE, next: NONE, since: Timestamp::ZERO, kind: None });
        }
    }

    /// Whether a deadline of that kind runs.
    pub(super) fn runs(&self, index: u32, kind: Deadline) -> bool {
        self.links.get(index as usize).is_some_and(|link| link.kind == Some(kind))
    }

    /// Clears the deadline, if one is running.
    #[inline]
    pub(super) fn clear(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else { return };
        let Some(kind) = link.kind.take() else { return };
        let (previous, next) = (link.previous, link.next);
        self.counts[kind as usize] -= 1;
        let list = &mut self.lists[kind as usize];
        if previous == NONE {
            list.first = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next == NONE {
            list.last = previous;
        } else {
            self.links[next as usize].previous = previous;
        }
    }

    /// The number of connections with a deadline of each kind.
    #[inline]
    pub(super) const fn counts(&self) -> &[u32; KINDS] {
        &self.counts
    }

    /// The connection whose deadline of that kind has run longest.
    pub(super) fn oldest(&self, kind: Deadline) -> Option<u32> {
        let first = self.lists[kind as usize].first;
        (first != NONE).then_some(first)
    }

    /// The connections with a deadline of that kind, and its start, the oldest first.
    pub(super) fn of(&self, kind: Deadline) -> impl Iterator<Item = (u32, Duration)> {
        let link = |index: u32| self.links.get(index as usize).map(|link| (index, link));
        let all = std::iter::successors(link(self.lists[kind as usize].first), move |(_, before)| link(before.next));
        all.map(|(index, link)| (index, link.since.time()))
    }

    /// Whether exactly one connection has a deadline of that kind.
    pub(super) fn is_single(&self, kind: Deadline) -> bool {
        let list = &self.lists[kind as usize];
        list.first != NONE && list.first == list.last
    }

    /// The time at which the next deadline expires.
    #[inline]
    pub(super) fn next(&self) -> Option<Duration> {
        let ends = |list: &List| (list.first != NONE).then(|| self.links[list.first as usize].since.time() + list.lasts);
        self.lists.iter().filter_map(ends).min()
    }

    /// Whether a deadline has expired at `now`. No deadline that is set after this call may start before `now`.
    #[inline]
    pub(super) fn has_expired(&mut self, now: Duration) -> bool {
        now >= self.quiet_until && self.look_for_expired(now)
    }

    #[inline(never)]
    fn look_for_expired(&mut self, now: Duration) -> bool {
        let next = self.next().unwrap_or(Duration::MAX);
        // Deadlines set from now on last at least as long as the shortest kind.
        let shortest = self.lists.iter().map(|list| list.lasts).min().unwrap_or_default();
        self.quiet_until = next.min(now.saturating_add(shortest));
        next <= now
    }

    /// Whether no deadline is known to expire before `time`, without a check of each kind.
    #[inline]
    pub(super) fn are_quiet_until(&self, time: Duration) -> bool {
        time <= self.quiet_until
    }

    /// Returns a connection whose deadline has expired, and clears the deadline.
    pub(super) fn expired(&mut self, now: Duration) -> Option<(u32, Deadline)> {
        let kind = ALL.into_iter().find(|&kind| {
            let list = &self.lists[kind as usize];
            list.first != NONE && self.links[list.first as usize].since.time() + list.lasts <= now
        })?;
        let index = self.lists[kind as usize].first;
        self.clear(index);
        Some((index, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::{Deadline, Deadlines, KINDS};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn deadlines() -> Deadlines {
        Deadlines::new(|kind| if kind == Deadline::Idle { 10 * SECOND } else { 3 * SECOND })
    }

    #[test]
    fn expiry_follows_the_order_of_start_within_a_kind() {
        let mut deadlines = deadlines();
        for index in 0..3 {
            deadlines.set(index, Deadline::Idle, SECOND * index);
        }
        deadlines.set(1, Deadline::Idle, SECOND * 5);
        assert_eq!(deadlines.next(), Some(SECOND * 10));
        assert_eq!(deadlines.expired(SECOND * 9), None);
        assert_eq!(deadlines.expired(SECOND * 12), Some((0, Deadline::Idle)));
        assert_eq!(deadlines.expired(SECOND * 12), Some((2, Deadline::Idle)));
        assert_eq!(deadlines.expired(SECOND * 12), None);
        assert_eq!(deadlines.oldest(Deadline::Idle), Some(1));
        assert!(deadlines.is_single(Deadline::Idle) && !deadlines.is_single(Deadline::Head));
        deadlines.set(0, Deadline::Idle, SECOND * 13);
        assert!(!deadlines.is_single(Deadline::Idle));
    }

    #[test]
    fn a_connection_has_one_deadline_at_a_time() {
        let mut deadlines = deadlines();
        deadlines.set(4, Deadline::Head, Duration::ZERO);
        deadlines.set(4, Deadline::Write, SECOND);
        assert!(!deadlines.runs(4, Deadline::Head));
        assert_eq!(deadlines.counts(), &[0, 0, 0, 1, 0, 0], "by their kinds");
        assert_eq!(deadlines.next(), Some(SECOND * 4));
        deadlines.clear(4);
        assert_eq!(deadlines.next(), None);
        deadlines.clear(4);
    }

    #[test]
    fn an_expiry_is_seen_although_a_later_one_was_found_before() {
        let mut deadlines = deadlines();
        deadlines.set(0, Deadline::Idle, SECOND);
        assert!(!deadlines.has_expired(SECOND * 2));
        // The shortest kind lasts for three seconds.
        assert!(deadlines.are_quiet_until(SECOND * 5) && !deadlines.are_quiet_until(SECOND * 6));
        deadlines.set(1, Deadline::Head, SECOND * 2);
        assert!(!deadlines.has_expired(SECOND * 4));
        assert!(deadlines.has_expired(SECOND * 5));
        deadlines.clear(1);
        assert!(!deadlines.has_expired(SECOND * 6));
        deadlines.set_rest(2, Deadline::Head, SECOND, SECOND * 6);
        assert!(!deadlines.are_quiet_until(SECOND * 7) && deadlines.has_expired(SECOND * 7));
        deadlines.clear(2);
        assert!(!deadlines.has_expired(SECOND * 7));
        deadlines.shorten(Deadline::Idle, SECOND, SECOND * 7);
        assert!(deadlines.has_expired(SECOND * 8), "the first, which has lasted until now");
    }

    #[test]
    fn shortening_reaches_those_that_run() {
        let mut deadlines = deadlines();
        deadlines.set(0, Deadline::Idle, Duration::ZERO);
        deadlines.set(1, Deadline::Idle, SECOND * 5);
        deadlines.shorten(Deadline::Idle, SECOND, SECOND * 19 / 2);
        // The first would have expired after ten seconds anyway, the other gets a second from now on.
        assert_eq!(deadlines.next(), Some(SECOND * 10));
        assert_eq!(deadlines.expired(SECOND * 10), Some((0, Deadline::Idle)));
        assert_eq!(deadlines.next(), Some(SECOND * 21 / 2));
        // A second call changes nothing.
        deadlines.shorten(Deadline::Idle, SECOND, SECOND * 10);
        assert_eq!(deadlines.next(), Some(SECOND * 21 / 2));
    }

    #[test]
    fn what_is_left_of_a_deadline_goes_on_elsewhere_in_its_order() {
        let mut deadlines = deadlines();
        for index in 0..4 {
            deadlines.set(index, Deadline::Head, SECOND * 10 + SECOND / 4 * index);
        }
        // They expire at 13, 13.25, 13.5 and 13.75.
        let now = SECOND * 11;
        assert_eq!(deadlines.left(2, Deadline::Head, now), Some(SECOND * 5 / 2));
        assert_eq!((deadlines.left(2, Deadline::Idle, now), deadlines.left(9, Deadline::Head, now)), (None, None));
        assert_eq!(deadlines.left(0, Deadline::Head, SECOND * 20), Some(Duration::ZERO));
        deadlines.set_rest(7, Deadline::Head, SECOND * 7 / 3, now);
        deadlines.set_rest(8, Deadline::Head, SECOND, now);
        deadlines.set_rest(9, Deadline::Head, Duration::ZERO, now);
        deadlines.set_rest(10, Deadline::Head, SECOND * 100, now);
        assert_eq!(deadlines.counts(), &[8, 0, 0, 0, 0, 0]);
        assert_eq!(deadlines.next(), Some(now));
        let expired: Vec<u32> = std::iter::from_fn(|| deadlines.expired(SECOND * 14)).map(|(index, _)| index).collect();
        assert_eq!(expired, [9, 8, 0, 1, 7, 2, 3, 10]);
        assert_eq!(deadlines.counts(), &[0; KINDS]);
        // Alone, at a time before its length has passed once.
        deadlines.set_rest(3, Deadline::Idle, SECOND, SECOND * 2);
        assert!(deadlines.is_single(Deadline::Idle));
        assert_eq!(deadlines.expired(SECOND * 10), Some((3, Deadline::Idle)));
    }
}
