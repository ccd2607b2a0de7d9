//! The edge's notes for the inspection of a pool, and the wait times of requests.

use super::{Edge, Ticket, Waits};
use crate::progress_note::ProgressNote;
use crate::shape::Layout;
use crate::words::Entry;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Edge {
    /// Sets the time, on a clock that all processes share and that is never set back. Until the next call, arrivals of
    /// requests and progress of workers are noted with this time.
    #[inline]
    pub fn set_time(&mut self, now: Duration) {
        self.now = nanoseconds(now);
    }

    /// Sets the arrival of a request to an earlier time, for a request that was in the pool before and whose worker was lost.
    pub fn backdate(&mut self, ticket: Ticket, came: Duration) {
        if self.current(ticket.0).is_some() {
            self.notes.words()[Layout::since(ticket.0.slot)].store(nanoseconds(came), Relaxed);
        }
    }

    /// Notes that a worker made progress with a request, or continues after waiting for its client.
    pub(super) fn note_progress(&mut self, entry: Entry) {
        self.note(entry, |progress_note, passed| progress_note.progress = Some(passed));
    }

    /// Notes that a worker has a request.
    pub(super) fn note_taken(&mut self, entry: Entry) {
        self.note(entry, |progress_note, passed| _ = progress_note.progress.get_or_insert(passed));
    }

    /// Notes another deadline that the app asked for, counted from now on.
    pub(super) fn note_deadline(&mut self, entry: Entry, time: Option<Duration>) {
        self.note(entry, |progress_note, _| progress_note.own_deadline = Some(time));
    }

    /// Notes the wait of a request whose answer has begun. The worker reports when it took the request; a time before the
    /// arrival counts as the arrival, and a time after now as now.
    #[inline(always)]
    pub(super) fn note_wait(&mut self, slot: u32, worker: u32) {
        let taken = self.claims.words()[self.layout.taken_at(slot)].load(Relaxed);
        let since = self.notes.words()[Layout::since(slot)].load(Relaxed);
        let wait = taken.min(self.now).saturating_sub(since);
        let (all, longest) = self.waits;
        self.waits = (all.saturating_add(wait), longest.max(wait));
        let record = &mut self.records[slot as usize];
        (record.waited, record.worker) = (Some(wait), worker);
    }

    /// The place of the worker that has a request or has answered it, as far as the edge knows. After the answer the place is
    /// known until the next request enters the slot.
    #[must_use]
    pub fn worker_of(&self, ticket: Ticket) -> Option<u32> {
        let record = &self.records[ticket.0.slot as usize];
        record.waited.map(|_| record.worker).or_else(|| self.holder(ticket))
    }

    /// The time, in nanoseconds, that a request waited until its worker took it, as far as this is known, or until now if no
    /// worker has taken it. After a whole answer it is known until the next request enters the slot.
    #[inline]
    #[must_use]
    pub fn wait_of(&self, ticket: Ticket) -> u64 {
        let slot = ticket.0.slot;
        self.records[slot as usize].waited.unwrap_or_else(|| self.wait_without_answer(ticket))
    }

    fn wait_without_answer(&self, ticket: Ticket) -> u64 {
        let slot = ticket.0.slot;
        let since = self.notes.words()[Layout::since(slot)].load(Relaxed);
        let claimed = self.claims.words()[self.layout.taken_at(slot)].load(Relaxed);
        // A time before the arrival belongs to the former request of the slot: a worker that has just taken this request has
        // not yet written its time.
        let taken = if self.holder(ticket).is_some() && claimed >= since { claimed.min(self.now) } else { self.now };
        taken.saturating_sub(since)
    }

    /// Returns the waits of the requests whose answers have begun since the last call.
    #[inline]
    pub fn take_waits(&mut self) -> Waits {
        let (all, longest) = std::mem::take(&mut self.waits);
        Waits { all: Duration::from_nanos(all), longest: Duration::from_nanos(longest) }
    }

    fn note(&mut self, entry: Entry, change: impl FnOnce(&mut ProgressNote, Duration)) {
        let words = self.notes.words();
        let passed = self.now.saturating_sub(words[Layout::since(entry.slot)].load(Relaxed));
        let word = &words[Layout::progress_note(entry.slot)];
        let mut progress_note = ProgressNote::from_bits(word.load(Relaxed));
        change(&mut progress_note, Duration::from_nanos(passed));
        word.store(progress_note.bits(), Relaxed);
    }
}

/// 64 bits of nanoseconds last for centuries.
const fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(time.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Memory, Shape, Worker};

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 1, areas: 2, area_bytes: 512 };

    fn waited(edge: &Edge, ticket: Ticket) -> Duration {
        Duration::from_nanos(edge.wait_of(ticket))
    }

    /// The wait that the edge records for a request that arrives at 1 s and whose answer it reads at 2 s, if the worker
    /// claims to have taken it after `taken_after` nanoseconds.
    fn wait(taken_after: u64, whole: bool) -> (Waits, Duration) {
        let memory = Memory::new(SHAPE).expect("memory");
        let (mut edge, mut worker) =
            (Edge::new(&memory).expect("memory"), Worker::attach_free(&memory).expect("there is a place"));
        edge.set_time(Duration::from_secs(1));
        let reserved = edge.reserve().expect("a slot");
        let ticket = edge.submit(reserved, 1);
        worker.set_time(taken_after);
        let mut taken = worker.take().expect("a request");
        if whole {
            worker.respond(taken, b"head", &[b"content"]).expect("there is room");
        } else {
            worker.head(&mut taken, b"head").expect("there is room");
            worker.finish(taken);
        }
        edge.set_time(Duration::from_secs(2));
        edge.gather();
        while edge.next(&mut Vec::new()).is_some() {}
        let waits = edge.take_waits();
        assert_eq!(edge.take_waits(), Waits::default(), "it is told once");
        (waits, waited(&edge, ticket))
    }

    #[test]
    fn a_request_that_nobody_answers_has_waited_until_it_was_seen_to_be_taken_or_until_now() {
        let memory = Memory::new(Shape { workers: 2, ..SHAPE }).expect("memory");
        let (mut edge, mut worker) =
            (Edge::new(&memory).expect("memory"), Worker::attach(&memory, 1).expect("there is a place"));
        let tell = |edge: &mut Edge, milliseconds| edge.set_time(Duration::from_millis(milliseconds));
        tell(&mut edge, 1000);
        let reserved = edge.reserve().expect("a slot");
        let ticket = edge.submit(reserved, 1);
        tell(&mut edge, 1200);
        assert_eq!((waited(&edge, ticket), edge.worker_of(ticket)), (Duration::from_millis(200), None));
        worker.set_time(1_300_000_000);
        let taken = worker.take().expect("a request");
        tell(&mut edge, 1900);
        assert_eq!((waited(&edge, ticket), edge.worker_of(ticket)), (Duration::from_millis(300), Some(1)));
        // The answer is read long after its worker has taken the next request.
        worker.respond(taken, b"head", &[]).expect("there is room");
        let reserved = edge.reserve().expect("a slot");
        let next = edge.submit(reserved, 1);
        worker.set_time(2_000_000_000);
        let _held = worker.take().expect("a request");
        tell(&mut edge, 2100);
        edge.gather();
        while edge.next(&mut Vec::new()).is_some() {}
        let passed = Duration::from_millis(300);
        assert_eq!((waited(&edge, ticket), edge.take_waits()), (passed, Waits { all: passed, longest: passed }));
        assert_eq!(edge.worker_of(ticket), Some(1), "it is known who has answered");
        assert_eq!(waited(&edge, next), Duration::from_millis(100));
        let reserved = edge.reserve().expect("a slot");
        let other = edge.submit(reserved, 1);
        edge.withdraw(other);
        assert_eq!((waited(&edge, other), edge.worker_of(other)), (Duration::ZERO, None));
    }

    #[test]
    fn what_workers_say_of_waits_is_believed_as_far_as_it_can_be() {
        for whole in [true, false] {
            for (taken_after, milliseconds) in [(1_300_000_000, 300), (0, 0), (999, 0), (u64::MAX, 1000), (2_000_000_001, 1000)]
            {
                let time = Duration::from_millis(milliseconds);
                assert_eq!(wait(taken_after, whole), (Waits { all: time, longest: time }, time), "{taken_after}");
            }
        }
    }
}
