//! Sleeping and waking.
//!
//! The edge does not wake a worker for each request: a worker that has just answered takes the next request sooner than a
//! sleeping worker could. With [`Edge::prepare_to_rest`] the edge wakes one worker if none was active since the last call, and
//! one more each time requests have waited for two rounds. A doze without news, or several if new requests may have ended them
//! early, shows that the app is slow. The edge then wakes one worker for each waiting request. During its next sleeps, each
//! request wakes a worker at once, and the edge does not doze first, because each doze costs a system call. The more dozes in a
//! row bring no news, the longer it leaves them out.

use super::Edge;
use crate::shape::Layout;
use crate::sleep::{Sleep, Waits};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;
use std::time::Duration;

/// The length of a doze: see [`Rest::Doze`]. Shorter times save fewer rings; longer ones delay the answers after a slow one.
pub const DOZE: Duration = Duration::from_micros(100);

/// The most sleeps in a row without dozing first, after dozes without news.
const MOST_LEFT_OUT: u32 = 63;

/// The number of dozes without news after which the app counts as slow, even if requests of clients may have ended all of
/// them early.
const MOST_WITHOUT_NEWS: u32 = 4;

/// The kind of sleep that the edge may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// No rest, because there is news.
    No,
    /// Sleep for at most [`DOZE`].
    Doze,
    /// Sleep until a worker rings.
    Sleep,
}

/// The edge's measure of the pace of its workers.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The edge has dozed, and no news has arrived since.
    dozed: bool,
    /// The number of dozes in a row without news.
    without_news: u32,
    /// The number of sleeps left without dozing first, and the number at which this countdown began.
    left_out: u32,
    leaves_out: u32,
    /// The tail of the queue at the last two rests.
    tails: [u64; 2],
}

impl Pace {
    /// A worker has published something.
    #[inline]
    pub(super) const fn note_published(&mut self) {
        if self.dozed {
            *self = Self { tails: self.tails, dozed: false, without_news: 0, left_out: 0, leaves_out: 0 };
        }
    }
}

impl Edge {
    /// Wakes as many sleeping workers as requests have been put into the queue since the last call, and the workers that
    /// wait for room and now have it. Call it once for each batch.
    pub fn wake_workers(&mut self) {
        let count = std::mem::take(&mut self.unannounced);
        self.wake(count);
    }

    /// Wakes `count` sleeping workers for requests, and those that wait for room and now have it.
    fn wake(&mut self, mut count: usize) {
        self.count_workers();
        for worker_record in &mut self.workers[..self.workers_in_use] {
            if count == 0 && !worker_record.read {
                continue;
            }
            let (read, ordered) = (std::mem::take(&mut worker_record.read), std::mem::take(&mut worker_record.ordered));
            if read {
                // The position up to which the edge has read is written without sequential consistency. Without this fence
                // the processor could delay that write beyond the read of the sleeper's word, and the worker would repeat
                // its check too early.
                fence(SeqCst);
            }
            let sleep = Sleep::from_bits(worker_record.answers.words()[Layout::WORKER_SLEEP].load(SeqCst));
            if worker_record.broken || worker_record.dying || !sleep.is_to_be_woken(worker_record.rung) {
                continue;
            }
            let for_work = sleep.waits.for_work() && count > 0;
            if for_work || ordered || (read && sleep.waits.for_room()) {
                worker_record.rung = sleep;
                worker_record.doorbell.ring();
                self.rung = true;
                count -= usize::from(for_work);
            }
        }
    }

    /// Whether a worker was woken since the last call.
    pub const fn take_woken(&mut self) -> bool {
        std::mem::replace(&mut self.rung, false)
    }

    /// Whether requests have been put into the queue since workers were last woken.
    #[inline]
    #[must_use]
    pub const fn has_unannounced(&self) -> bool {
        self.unannounced > 0
    }

    /// Wakes workers for the requests that have been put into the queue since the last call, except for requests that the
    /// active workers will take. If these do not take them, a later [`Edge::prepare_to_rest`] wakes other workers.
    pub fn wake_some_workers(&mut self) {
        let count = self.workers_to_wake();
        self.unannounced = 0;
        self.wake(count);
    }

    /// Wakes workers and announces that the edge is about to sleep, unless it has news. Call it once for each round, and
    /// [`Edge::awake`] afterwards.
    pub fn prepare_to_rest(&mut self) -> Rest {
        let dozed = std::mem::take(&mut self.pace.dozed);
        self.pace.without_news += u32::from(dozed);
        if dozed && (self.tail == self.pace.tails[1] || self.pace.without_news >= MOST_WITHOUT_NEWS) {
            self.pace.without_news = 0;
            self.pace.leaves_out = (self.pace.leaves_out * 2 + 1).min(MOST_LEFT_OUT);
            self.pace.left_out = self.pace.leaves_out;
            // The worker that was expected to take the waiting requests may be busy with a slow one.
            self.unannounced = self.depth();
        }
        let is_idle = self.free.len() == self.records.len();
        let waits = if self.pace.left_out > 0 || is_idle { Waits::Work } else { Waits::Dozes };
        if !self.begin_to_rest(waits) {
            return Rest::No;
        }
        self.pace.left_out = self.pace.left_out.saturating_sub(1);
        self.pace.dozed = waits == Waits::Dozes;
        if self.pace.dozed { Rest::Doze } else { Rest::Sleep }
    }

    /// Like [`Edge::prepare_to_rest`], for an edge that sleeps for a fixed time of its own choice, because requests wait in the
    /// queue for longer than that time anyway. Workers then do not ring for each answer, but only when they find nothing more
    /// to take. Returns `true` if the edge may sleep.
    pub fn prepare_to_nap(&mut self) -> bool {
        self.pace.dozed = false;
        self.begin_to_rest(Waits::Dozes)
    }

    fn begin_to_rest(&mut self, waits: Waits) -> bool {
        self.wake_some_workers();
        self.pace.tails = [self.pace.tails[1], self.tail];
        self.announce_sleep(waits)
    }

    /// The number of workers to wake for requests.
    fn workers_to_wake(&mut self) -> usize {
        if self.pace.left_out > 0 || self.unannounced == 0 && self.waiting.is_empty() {
            return self.unannounced;
        }
        let is_awake = |worker_record: &super::WorkerRecord| {
            Sleep::from_bits(worker_record.answers.words()[Layout::WORKER_SLEEP].load(SeqCst)).waits == Waits::No
        };
        let is_active = self.workers[..self.workers_in_use]
            .iter()
            .any(|worker_record| worker_record.read && !worker_record.broken && is_awake(worker_record));
        self.forget_taken();
        let has_backlog = self.waiting.front().is_some_and(|oldest| oldest.position < self.pace.tails[0]);
        usize::from(!is_active && self.unannounced > 0) + usize::from(has_backlog)
    }

    /// Wakes a worker if a request waits. Call it from time to time: the worker that was woken for the request may have died or
    /// been stopped before taking it, while other workers sleep.
    pub fn wake_another(&mut self) {
        if self.oldest().is_some() {
            self.unannounced = self.unannounced.max(1);
            self.wake_workers();
        }
    }

    /// Announces that the edge is about to sleep, and checks once more for news: `true` if it may sleep. Workers that publish
    /// something then make the edge's [`descriptor`](Self::descriptor) readable. Call [`Edge::awake`] afterwards.
    pub fn prepare_to_sleep(&mut self) -> bool {
        self.wake_workers();
        self.announce_sleep(Waits::Work)
    }

    fn announce_sleep(&mut self, waits: Waits) -> bool {
        self.sleep = self.sleep.next(waits);
        self.requests.words()[Layout::EDGE_SLEEP].store(self.sleep.bits(), SeqCst);
        // A worker that arrived after the last count may have answered already.
        self.count_workers();
        let has_unread = |worker_record: &super::WorkerRecord| {
            !worker_record.broken && worker_record.answers.words()[Layout::UNREAD].load(SeqCst) != 0
        };
        let may_sleep =
            self.lively.is_empty() && self.found.is_empty() && !self.workers[..self.workers_in_use].iter().any(has_unread);
        if !may_sleep {
            self.awake();
        }
        may_sleep
    }

    /// Announces that the edge is awake.
    pub fn awake(&mut self) {
        if self.sleep.waits != Waits::No {
            self.sleep = self.sleep.ended();
            self.requests.words()[Layout::EDGE_SLEEP].store(self.sleep.bits(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Memory, Shape, Worker};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::thread;
    use std::time::Instant;

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 1, areas: 1, area_bytes: 512 };

    /// The number of pieces that the worker writes. On a busy machine it stops earlier, after half a second.
    const PIECES: u32 = 50_000;

    /// Another thread makes room at any moment, even between two steps: only this reveals the effects of writes that a
    /// processor delays.
    #[test]
    fn room_that_is_made_while_a_worker_goes_to_sleep_is_not_slept_through() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach_free(&memory).expect("a place");
        let mut reserved = edge.reserve().expect("a slot");
        edge.room(&mut reserved)[0] = b'x';
        let ticket = edge.submit(reserved, 1);
        let mut taken = worker.take().expect("a request");
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let (mut bytes, mut ended) = (Vec::new(), false);
                while !ended {
                    edge.gather();
                    while let Some(event) = edge.next(&mut bytes) {
                        ended |= matches!(event, Event::Finished(of) | Event::Abandoned(of) if of == ticket);
                    }
                    edge.wake_workers();
                    thread::yield_now();
                }
            });
            let mut slept_through = false;
            let end = Instant::now() + Duration::from_millis(500);
            for piece in (0..PIECES).take_while(|_| Instant::now() < end) {
                // The edge takes about as long to read. The worker goes to sleep a little later in that time with each piece.
                (0..piece % 1024).for_each(|turn| _ = std::hint::black_box(turn));
                while !slept_through && worker.content(&mut taken, &[7; 400]) == 0 {
                    worker.announce_sleep(false, true);
                    if worker.content(&mut taken, &[7; 400]) > 0 {
                        break;
                    }
                    let mut doorbell = [PollFd::from_borrowed_fd(worker.descriptor(), PollFlags::IN)];
                    let timeout = Timespec { tv_sec: 3, tv_nsec: 0 };
                    slept_through = poll(&mut doorbell, Some(&timeout)) == Ok(0);
                    let _ = rustix::io::read(worker.descriptor(), &mut [0; 8]);
                    worker.awake();
                }
                worker.flush(&taken);
            }
            worker.abandon(taken);
            reader.join().expect("it understands everything");
            assert!(!slept_through, "there was room, and nobody has rung for it");
        });
    }
}
