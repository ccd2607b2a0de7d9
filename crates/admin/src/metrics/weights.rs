//! The memory use of workers. The kernel takes a moment to measure each process and blocks this process meanwhile. So the
//! numbers are cached, and measured again only on request, for a few processes at a time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The age up to which a number is not measured again.
const FRESH: Duration = Duration::from_secs(5);
/// The time for which this process may measure at once. The remaining workers are measured the next time.
const AT_ONCE: Duration = Duration::from_millis(50);

/// The memory of processes in bytes, with the time of the measurement.
#[derive(Debug, Default)]
pub(super) struct Weights(HashMap<u32, (Instant, u64)>);

impl Weights {
    /// Measures those of `processes` whose numbers are outdated, the oldest numbers first, until the time is over. `weigh`
    /// returns the memory of a process in bytes. Forgets all processes that are not among `processes`.
    pub(super) fn renew(&mut self, processes: &[u32], weigh: impl Fn(u32) -> Option<u64>) {
        self.0.retain(|process, _| processes.contains(process));
        let begun = Instant::now();
        let looked_at = |process: &u32| self.0.get(process).map(|(looked_at, _)| *looked_at);
        let mut due: Vec<u32> =
            processes.iter().copied().filter(|process| looked_at(process).is_none_or(|then| begun - then >= FRESH)).collect();
        due.sort_by_key(looked_at);
        for process in due {
            if let Some(weight) = weigh(process) {
                self.0.insert(process, (Instant::now(), weight));
            }
            if begun.elapsed() >= AT_ONCE {
                return;
            }
        }
    }

    /// Returns the bytes that a process uses; `None` if it has not been measured.
    pub(super) fn of(&self, process: u32) -> Option<u64> {
        self.0.get(&process).map(|(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn processes_are_looked_at_rarely_and_forgotten_with_their_end() {
        let (mut weights, looks) = (Weights::default(), Cell::new(0));
        let weigh = |process: u32| {
            looks.set(looks.get() + 1);
            (process != 9).then_some(u64::from(process) * 1000 + looks.get())
        };
        weights.renew(&[1, 2, 9], weigh);
        assert_eq!([1, 2, 9, 3].map(|process| weights.of(process)), [Some(1001), Some(2002), None, None]);
        weights.renew(&[2, 9], weigh);
        assert_eq!([1, 2].map(|process| weights.of(process)), [None, Some(2002)], "it was looked at a moment ago");
        for (then, _) in weights.0.values_mut() {
            *then -= FRESH;
        }
        weights.renew(&[2], weigh);
        assert_eq!(weights.of(2), Some(2005));
    }

    #[test]
    fn all_have_their_turn_although_each_look_takes_long() {
        let mut weights = Weights::default();
        let processes = [1, 2, 3];
        for looked_at in 1..=3 {
            weights.renew(&processes, |process| {
                std::thread::sleep(AT_ONCE);
                Some(u64::from(process))
            });
            assert_eq!(weights.0.len(), looked_at, "one at a time, the one that has waited longest");
        }
    }
}
