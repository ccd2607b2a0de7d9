//! Yields the processor: an edge lets the worker that it has just woken run before it sleeps itself.
//!
//! If the edge and the worker share a processor, the worker then answers at once. So the edge need not sleep until that
//! answer, and the worker need not wake it: one system call instead of two. If they do not share a processor, the call
//! returns at once without effect. But if other programs also need the processor, all of them run first, and the client
//! waits. So the edge counts how often yielding was useful, measures the duration of the call from time to time, and yields
//! only if the woken worker has the only pending request.

use super::AppPool;
use oribi_io::Backend;
use std::time::{Duration, Instant};

/// The most times in a row that the edge does not yield, after yielding was useless.
const MOST_LEFT_OUT: u32 = 255;

/// The longest useful duration of the call. If it takes longer, it costs more than the two system calls that it saves, or
/// other processes have used the processor.
const LONGEST: Duration = Duration::from_micros(500);

/// The duration of the call is measured once in this many times.
const TIMED_EVERY: u32 = 16;

/// Decides whether yielding is worth its system call.
#[derive(Debug, Default)]
pub(super) struct Yielding {
    /// The number of times to yield before the next measurement.
    untimed: u32,
    /// The number of times that the edge still does not yield, and the number that was chosen for that at the last time.
    left_out: u32,
    leaves_out: u32,
}

impl Yielding {
    /// Whether to yield this time.
    const fn is_worth_it(&mut self) -> bool {
        if self.left_out == 0 {
            return true;
        }
        self.left_out -= 1;
        false
    }

    /// Returns the start of yielding, if its duration is to be measured.
    fn begin(&mut self, clock: impl Fn() -> Instant) -> Option<Instant> {
        self.untimed = self.untimed.checked_sub(1).unwrap_or(TIMED_EVERY - 1);
        (self.untimed == TIMED_EVERY - 1).then(clock)
    }

    /// Records the result of yielding: whether a worker `answered` meanwhile, and the duration, if it was measured.
    fn note(&mut self, answered: bool, time: Option<Duration>) {
        self.leaves_out = if time.is_some_and(|time| time > LONGEST) {
            // The next time is measured again.
            self.untimed = 0;
            MOST_LEFT_OUT
        } else if answered {
            0
        } else {
            (self.leaves_out * 2 + 1).min(MOST_LEFT_OUT)
        };
        self.left_out = self.leaves_out;
    }
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// If one worker was woken for the only request in the pool, yields to that worker, and handles its answer.
    pub(in super::super) fn yield_to_worker(&mut self) {
        if self.pool.take_woken() && self.table.used() == 1 && self.yielding.is_worth_it() {
            let since = self.yielding.begin(Instant::now);
            rustix::thread::sched_yield();
            let time = since.map(|since| since.elapsed());
            let answered = self.handle_answers(true);
            self.yielding.note(answered, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Yielding};
    use std::time::{Duration, Instant};

    /// Returns how often the edge yields in `most` attempts, if each or none of them is `answered`.
    fn times(yielding: &mut Yielding, most: usize, answered: bool) -> usize {
        (0..most).filter(|_| yielding.is_worth_it().then(|| yielding.note(answered, None)).is_some()).count()
    }

    #[test]
    fn it_yields_while_that_is_of_use_and_hardly_ever_otherwise() {
        let mut yielding = Yielding::default();
        assert_eq!(times(&mut yielding, 1000, true), 1000);
        assert_eq!(times(&mut yielding, 2560, false), 8 + 9, "after 0, 1, 3 and so on up to 127, then one of 256");
        assert!(times(&mut yielding, 2560, true) > 2300);
    }

    /// Returns how often the edge yields in `most` attempts, if each is answered and takes `time`.
    fn times_of(yielding: &mut Yielding, most: usize, time: Duration) -> usize {
        let yield_to_worker = |yielding: &mut Yielding| {
            let since = yielding.begin(Instant::now);
            yielding.note(true, since.map(|_| time));
        };
        (0..most).filter(|_| yielding.is_worth_it().then(|| yield_to_worker(yielding)).is_some()).count()
    }

    #[test]
    fn it_yields_to_no_other_program_for_long() {
        let mut yielding = Yielding::default();
        assert_eq!(times_of(&mut yielding, 1000, LONGEST), 1000);
        let slow = times_of(&mut yielding, 2560, LONGEST * 2);
        assert!((10..=10 + 16).contains(&slow), "{slow}: at most 16 until it is noticed, then one of 256");
        assert!(times_of(&mut yielding, 2560, LONGEST) > 2300);
    }
}
