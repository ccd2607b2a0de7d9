//! Limits the pace at which processes are started.
//!
//! A process that dies before it can serve is likely to have a successor that does the same, so the pauses between starts
//! double. The death of a process that has served does not predict the fate of its successor, so the successor starts at once:
//! a request that kills its worker must not make other requests wait. An [`Allowance`] only limits the number of such starts,
//! so that they do not burden the machine.

use super::allowance::Allowance;
use std::time::{Duration, Instant};

/// A process that lived this long did not fail at its start: after its failure the pauses are short again.
const GOOD_LIFE: Duration = Duration::from_secs(10);

/// The longest pause between two attempts: long enough to spare the machine, short enough for an operator who waits for a
/// repair to take effect.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The first pause by default.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The limits for the replacement of processes that had served: the number that is replaced at once, and the interval after
/// which one more is.
const REPLACEMENTS: (u32, Duration) = (20, Duration::from_millis(100));

/// The limits for log lines about the ends of processes that had served: the number at once, and the interval after which one
/// more is logged.
const LINES: (u32, Duration) = (20, Duration::from_secs(5));

/// The shortest interval between two warnings that replacements have to wait.
const WARNINGS: Duration = Duration::from_secs(60);

/// Decides when the next process may start. The pauses grow while processes keep failing.
#[derive(Debug)]
pub(super) struct Pace {
    /// The shortest time between two starts.
    between: Duration,
    /// The time before which `between` permits no further start.
    spaced_until: Option<Instant>,
    /// The pause after the first failure.
    first_pause: Duration,
    /// The end of the last pause, and its length.
    last_pause: Option<(Instant, Duration)>,
    not_before: Option<Instant>,
    /// The number of pauses since the last success.
    in_a_row: u32,
    /// The number of missing processes that had served. The pauses after failures do not apply to their replacements.
    lost: u32,
    replacements: Allowance,
    lines: Allowance,
    /// The number of ends that were not logged since the last log line about an end.
    left_out: u32,
    warnings: Allowance,
}

impl Pace {
    pub(super) const fn new(between: Duration, first_pause: Duration) -> Self {
        Self {
            between,
            spaced_until: None,
            first_pause,
            last_pause: None,
            not_before: None,
            in_a_row: 0,
            lost: 0,
            replacements: Allowance::new(REPLACEMENTS.0, REPLACEMENTS.1),
            lines: Allowance::new(LINES.0, LINES.1),
            left_out: 0,
            warnings: Allowance::new(1, WARNINGS),
        }
    }

    /// Limits replacements to `burst` processes at once, and then one in each `interval`.
    pub(super) const fn replacing(mut self, burst: u32, interval: Duration) -> Self {
        self.replacements = Allowance::new(burst, interval);
        self
    }

    /// Returns the time to wait before the next start; zero if it is permitted now.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let until = |time: Option<Instant>| time.map_or(Duration::ZERO, |time| time.saturating_duration_since(now));
        let pause = if self.lost > 0 { self.replacements.wait(now) } else { until(self.not_before) };
        pause.max(until(self.spaced_until))
    }

    /// Records the start of a process.
    pub(super) fn started(&mut self, now: Instant) {
        self.spaced_until = self.spaced_until.max(Some(now + self.between));
        if self.lost > 0 {
            self.lost -= 1;
            self.replacements.take(now);
        }
    }

    /// Records the end of a process that had served and must be replaced. Returns whether to log a warning that its replacement
    /// has to wait.
    pub(super) fn lost(&mut self, now: Instant) -> bool {
        self.lost = self.lost.saturating_add(1);
        !self.replacements.wait(now).is_zero() && self.warnings.try_take(now)
    }

    /// Records that no process is missing.
    pub(super) fn is_complete(&mut self) {
        self.lost = 0;
    }

    /// Returns the last part of the log line about the end of a process that had served. `None` if there were too many such
    /// lines, so that this end must not be logged.
    pub(super) fn end_of_line(&mut self, now: Instant) -> Option<String> {
        if !self.lines.try_take(now) {
            self.left_out += 1;
            return None;
        }
        Some(match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            others => format!("; {others} others have ended since the last such line"),
        })
    }

    /// Whether the last end of a process was not logged.
    pub(super) const fn leaves_lines_out(&self) -> bool {
        self.left_out > 0
    }

    /// Records that the system has refused to start a process. Replacements must wait as well then.
    pub(super) fn refused(&mut self, now: Instant) {
        self.lost = 0;
        self.failed(now, Duration::ZERO);
    }

    /// Records that a process has failed after it lived for `lived`. Returns the pause that begins now. `None` if a pause is in
    /// progress, because several simultaneous failures count as one.
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
        self.not_before = self.not_before.max(Some(now + pause));
        Some(pause)
    }

    /// Describes the number of failures in a row, in words that follow the length of a pause. Empty after the first failure.
    pub(super) fn how_often(&self) -> String {
        if self.in_a_row > 1 { format!(" (failure {} in a row)", self.in_a_row) } else { String::new() }
    }

    /// Forgets failures, so that the next start is permitted now.
    pub(super) fn forgive(&mut self) {
        (self.last_pause, self.not_before, self.spaced_until, self.in_a_row) = (None, None, None, 0);
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

    #[test]
    fn processes_that_have_served_are_replaced_at_once_despite_a_pause() {
        let mut pace = Pace::new(Duration::ZERO, SECOND * 60);
        let now = Instant::now();
        pace.failed(now, SECOND);
        for number in 0..REPLACEMENTS.0 {
            assert!(!pace.lost(now), "{number}");
            assert_eq!(pace.wait(now), Duration::ZERO, "{number}");
            pace.started(now);
            assert_eq!(pace.wait(now), SECOND * 60, "the others wait");
        }
        assert!(pace.lost(now), "the first one that waits");
        assert_eq!(pace.wait(now), REPLACEMENTS.1);
        assert!(!pace.lost(now), "it has been said");
        let mut now = now;
        for _ in 0..100 {
            now += REPLACEMENTS.1;
            assert_eq!(pace.wait(now), Duration::ZERO);
            pace.started(now);
            pace.lost(now);
        }
        assert_eq!(pace.how_often(), "", "nothing has failed in a row");
    }

    #[test]
    fn no_start_is_owed_when_none_is_missing_or_none_can_be_made() {
        let mut pace = Pace::new(Duration::ZERO, SECOND);
        let now = Instant::now();
        pace.failed(now, SECOND);
        pace.lost(now);
        pace.is_complete();
        assert_eq!(pace.wait(now), SECOND);
        pace.lost(now);
        assert_eq!(pace.wait(now), Duration::ZERO);
        pace.refused(now);
        assert_eq!(pace.wait(now), SECOND);
    }

    #[test]
    fn replacements_keep_the_time_between_starts() {
        let mut pace = Pace::new(SECOND * 3, SECOND);
        let now = Instant::now();
        pace.started(now);
        pace.lost(now + SECOND);
        assert_eq!(pace.wait(now + SECOND), SECOND * 2);
    }

    #[test]
    fn many_ends_make_few_lines() {
        let mut pace = Pace::new(Duration::ZERO, SECOND);
        let now = Instant::now();
        let lines = (0..1000).filter(|_| pace.end_of_line(now).is_some()).count();
        assert_eq!(lines, LINES.0 as usize);
        let line = pace.end_of_line(now + LINES.1).expect("another one");
        assert_eq!(line, "; 980 others have ended since the last such line");
        assert_eq!(pace.end_of_line(now + LINES.1 * 2).as_deref(), Some(""));
    }
}
