//! When the next process may be started.

use std::time::{Duration, Instant};

/// A process that lived this long was not broken from the start.
const GOOD_LIFE: Duration = Duration::from_secs(10);

/// The longest pause between two attempts: long enough to spare the machine, short enough for an operator who waits for a
/// repair to take effect.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The first pause if none is set.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Spaces starts; the pauses grow while processes go on failing.
#[derive(Debug)]
pub(super) struct Pace {
    /// Time between two starts.
    between: Duration,
    /// Pause after the first failure.
    first_pause: Duration,
    /// When the last pause ended or will end, and its length.
    last_pause: Option<(Instant, Duration)>,
    not_before: Option<Instant>,
    /// Pauses since something went well.
    in_a_row: u32,
}

impl Pace {
    pub(super) const fn new(between: Duration, first_pause: Duration) -> Self {
        Self { between, first_pause, last_pause: None, not_before: None, in_a_row: 0 }
    }

    /// How long to wait before the next start; zero if it is allowed now.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |not_before| not_before.saturating_duration_since(now))
    }

    /// A process has been started.
    pub(super) fn started(&mut self, now: Instant) {
        self.hold_until(now + self.between);
    }

    /// Records that a process has failed after `lived`, or could not be started. Returns the pause that begins now; `None` if
    /// one is running already, because several simultaneous failures count as one.
    pub(super) fn failed(&mut self, now: Instant, lived: Duration) -> Option<Duration> {
        let (pause, before) = match self.last_pause {
            Some((until, _)) if now < until => return None,
            Some((until, pause)) if lived < GOOD_LIFE && now < until + GOOD_LIFE => {
                ((pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE), self.in_a_row)
            }
            _ => (self.first_pause, 0),
        };
        self.in_a_row = before + 1;
        self.last_pause = Some((now + pause, pause));
        self.hold_until(now + pause);
        Some(pause)
    }

    /// In words that follow the length of a pause: how often processes have failed without a good life in between; empty for the
    /// first time.
    pub(super) fn how_often(&self) -> String {
        if self.in_a_row > 1 { format!(" (failure {} in a row)", self.in_a_row) } else { String::new() }
    }

    /// What has failed is forgotten: the next start may be made now.
    pub(super) fn forgive(&mut self) {
        (self.last_pause, self.not_before, self.in_a_row) = (None, None, 0);
    }

    fn hold_until(&mut self, moment: Instant) {
        self.not_before = self.not_before.max(Some(moment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn starts_are_spaced_out() {
        let mut pace = Pace::new(SECOND * 3, SECOND);
        let now = Instant::now();
        assert_eq!(pace.wait(now), Duration::ZERO);
        pace.started(now);
        assert_eq!(pace.wait(now + SECOND), SECOND * 2);
        assert_eq!(pace.wait(now + SECOND * 3), Duration::ZERO);
    }

    #[test]
    fn pauses_double_up_to_a_minute_while_processes_keep_dying_young() {
        let mut pace = Pace::new(Duration::ZERO, SECOND);
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = pace.failed(now, SECOND).expect("no pause is running");
            assert_eq!(pace.wait(now), pause);
            let number = pauses.len() + 1;
            let told = if number == 1 { String::new() } else { format!(" (failure {number} in a row)") };
            assert_eq!(pace.how_often(), told);
            pauses.push(pause.as_secs());
            now += pause + SECOND;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn those_that_fail_during_a_pause_do_not_lengthen_it() {
        let mut pace = Pace::new(Duration::ZERO, SECOND);
        let now = Instant::now();
        assert_eq!(pace.failed(now, SECOND), Some(SECOND));
        assert_eq!(pace.failed(now, SECOND), None);
        assert_eq!(pace.failed(now + SECOND / 2, SECOND), None);
        assert_eq!(pace.wait(now + SECOND), Duration::ZERO);
    }

    #[test]
    fn what_is_forgiven_begins_anew() {
        let mut pace = Pace::new(Duration::ZERO, SECOND);
        let now = Instant::now();
        pace.failed(now, SECOND);
        pace.failed(now + SECOND * 2, SECOND);
        pace.forgive();
        assert_eq!(pace.wait(now + SECOND * 2), Duration::ZERO);
        assert_eq!(pace.failed(now + SECOND * 2, SECOND), Some(SECOND));
    }

    #[test]
    fn a_good_life_or_a_quiet_time_begins_anew() {
        let mut pace = Pace::new(Duration::ZERO, SECOND);
        let mut now = Instant::now();
        pace.failed(now, SECOND);
        now += SECOND * 2;
        assert_eq!(pace.failed(now, SECOND), Some(SECOND * 2));
        now += SECOND * 3;
        assert_eq!(pace.failed(now, GOOD_LIFE), Some(SECOND), "it had lived long enough");
        now += SECOND * 2;
        assert_eq!(pace.failed(now, SECOND), Some(SECOND * 2));
        now += SECOND * 600;
        assert_eq!(pace.failed(now, SECOND), Some(SECOND), "nothing had happened for long");
    }

    #[test]
    fn no_pause_at_all_becomes_one_when_failures_do_not_end() {
        let mut pace = Pace::new(Duration::ZERO, Duration::ZERO);
        let now = Instant::now();
        assert_eq!(pace.failed(now, Duration::ZERO), Some(Duration::ZERO));
        assert_eq!(pace.failed(now, Duration::ZERO), Some(SHORTEST_PAUSE));
    }
}
