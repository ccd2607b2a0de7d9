//! How an edge gives way: it lets the worker that it has just woken run before it rests.
//!
//! Where both share a processor, the worker then answers at once, and neither must the edge sleep for that answer nor the worker
//! wake it: two system calls less, for one. Where they do not, the call returns at once and is of no use. Where other programs want
//! the processor, too, they all run first, and the client waits for them. So the edge counts how often giving way was of use, looks at
//! the clock now and then, and only gives way to a worker that has all that the edge waits for.

use super::EdgeLoop;
use oribi_io::Backend;
use std::time::{Duration, Instant};

/// How many times at most the edge does not give way, after giving way was of no use.
const MOST_LEFT_OUT: u32 = 255;

/// Giving way is of no use if it takes longer: the two system calls that it saves are cheaper, or others have had the processor.
const LONGEST: Duration = Duration::from_micros(500);

/// Giving way is timed once in so many times.
const TIMED_EVERY: u32 = 16;

/// Whether giving way is worth its system call.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// How many times it will give way without looking at the clock.
    untimed: u32,
    /// How many times it will not give way, and the number with which it began to count down.
    left_out: u32,
    leaves_out: u32,
}

impl Way {
    /// Whether to give way this time.
    const fn is_worth_it(&mut self) -> bool {
        if self.left_out == 0 {
            return true;
        }
        self.left_out -= 1;
        false
    }

    /// When it begins to give way, if that is to be timed.
    fn begin(&mut self, clock: impl Fn() -> Instant) -> Option<Instant> {
        self.untimed = self.untimed.checked_sub(1).unwrap_or(TIMED_EVERY - 1);
        (self.untimed == TIMED_EVERY - 1).then(clock)
    }

    /// The edge has given way for `time`, if that was measured; `answered`: a worker has answered meanwhile.
    fn note(&mut self, answered: bool, time: Option<Duration>) {
        self.leaves_out = if time.is_some_and(|time| time > LONGEST) {
            // The next time is timed again.
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

impl<B: Backend> EdgeLoop<'_, B> {
    /// Gives way to the worker that was woken for the only request in the pool, and passes its answer on.
    pub(super) fn give_way(&mut self) {
        if self.pool.take_rung() && self.table.used() == 1 && self.way.is_worth_it() {
            let since = self.way.begin(Instant::now);
            rustix::thread::sched_yield();
            let time = since.map(|since| since.elapsed());
            let answered = self.handle_answers(true);
            self.way.note(answered, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Way};
    use std::time::{Duration, Instant};

    /// How many of that many times it gives way, if each is answered or not.
    fn times(way: &mut Way, most: usize, answered: bool) -> usize {
        (0..most).filter(|_| way.is_worth_it().then(|| way.note(answered, None)).is_some()).count()
    }

    #[test]
    fn it_gives_way_while_that_is_of_use_and_hardly_ever_otherwise() {
        let mut way = Way::default();
        assert_eq!(times(&mut way, 1000, true), 1000);
        assert_eq!(times(&mut way, 2560, false), 8 + 9, "after 0, 1, 3 and so on up to 127, then one of 256");
        assert!(times(&mut way, 2560, true) > 2300);
    }

    /// How many of that many times it gives way, if each is answered and takes that long.
    fn times_of(way: &mut Way, most: usize, time: Duration) -> usize {
        let give_way = |way: &mut Way| {
            let since = way.begin(Instant::now);
            way.note(true, since.map(|_| time));
        };
        (0..most).filter(|_| way.is_worth_it().then(|| give_way(way)).is_some()).count()
    }

    #[test]
    fn it_gives_way_to_no_other_program_for_long() {
        let mut way = Way::default();
        assert_eq!(times_of(&mut way, 1000, LONGEST), 1000);
        let slow = times_of(&mut way, 2560, LONGEST * 2);
        assert!((10..=10 + 16).contains(&slow), "{slow}: at most 16 until it is noticed, then one of 256");
        assert!(times_of(&mut way, 2560, LONGEST) > 2300);
    }
}
