//! The edge's notes for those who ask what is in the pool.

use super::{Edge, Ticket, Waits};
use crate::diary::Diary;
use crate::shape::Layout;
use crate::words::Entry;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Edge {
    /// Says what time it is, on a clock that other processes have as well and that is never set. Requests that come, and what workers
    /// do for them, are noted with this time until the next call.
    #[inline]
    pub fn tell_time(&mut self, now: Duration) {
        self.now = nanoseconds(now);
    }

    /// Notes that a request has waited for longer: it was in the pool before, and its worker was lost.
    pub fn backdate(&mut self, ticket: Ticket, came: Duration) {
        if self.current(ticket.0).is_some() {
            self.notes.words()[Layout::since(ticket.0.slot)].store(nanoseconds(came), Relaxed);
        }
    }

    /// A worker has done something for a request, or goes on that had to wait for its client.
    pub(super) fn note_progress(&mut self, entry: Entry) {
        self.note(entry, |diary, passed| diary.progress = Some(passed));
    }

    /// A worker was seen to have a request.
    pub(super) fn note_taken(&mut self, entry: Entry) {
        self.note(entry, |diary, passed| _ = diary.progress.get_or_insert(passed));
    }

    /// The app has asked for another deadline, counted from now on.
    pub(super) fn note_deadline(&mut self, entry: Entry, time: Option<Duration>) {
        self.note(entry, |diary, _| diary.asked = Some(time));
    }

    /// A worker has begun to answer, and says when it took the request. It is believed only that it did so between then and now.
    #[inline]
    pub(super) fn note_wait(&mut self, worker: u32, area: u32, slot: u32) {
        let taken = self.places[worker as usize].answers.words()[Layout::taken_at(area)].load(Relaxed);
        let since = self.notes.words()[Layout::since(slot)].load(Relaxed);
        let wait = taken.min(self.now).saturating_sub(since);
        let (all, longest) = self.waits;
        self.waits = (all.saturating_add(wait), longest.max(wait));
    }

    /// How long the requests have waited for their workers that these have begun to answer since the last call.
    #[inline]
    pub fn take_waits(&mut self) -> Waits {
        let (all, longest) = std::mem::take(&mut self.waits);
        Waits { all: Duration::from_nanos(all), longest: Duration::from_nanos(longest) }
    }

    fn note(&mut self, entry: Entry, change: impl FnOnce(&mut Diary, Duration)) {
        let words = self.notes.words();
        let passed = self.now.saturating_sub(words[Layout::since(entry.slot)].load(Relaxed));
        let word = &words[Layout::diary(entry.slot)];
        let mut diary = Diary::from_bits(word.load(Relaxed));
        change(&mut diary, Duration::from_nanos(passed));
        word.store(diary.bits(), Relaxed);
    }
}

/// They last for centuries.
const fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(time.subsec_nanos() as u64)
}
