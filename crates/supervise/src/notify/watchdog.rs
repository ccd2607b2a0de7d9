//! The watchdog of the service manager: it restarts a service that has not reported for some time that it is alive.

use std::time::{Duration, Instant};

/// The longest time supported: about thirty years.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// The longest wait before a server that was not alive is asked again.
const LOOK: Duration = Duration::from_secs(1);

/// The time of the next report that this server is alive.
#[derive(Debug)]
pub(super) struct Watchdog {
    interval: Duration,
    next: Instant,
}

impl Watchdog {
    /// Reads the time after which the service manager restarts process `own` without a report, in microseconds. `variable`
    /// returns the value of a variable of the environment. `None` if the service manager does not watch this process.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>, own: u32, now: Instant) -> Option<Self> {
        let watched = variable("WATCHDOG_PID").is_none_or(|pid| pid.trim() == own.to_string());
        let time = variable("WATCHDOG_USEC")?.trim().parse().ok().map(Duration::from_micros).filter(|time| !time.is_zero())?;
        // Half of the time, as sd_watchdog_enabled(3) recommends.
        watched.then(|| Self { interval: (time / 2).min(LONGEST), next: now })
    }

    /// Whether a report is due. If so, the next report is due after the interval.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.interval;
        }
        due
    }

    /// Asks again soon, because this server was not alive: it may be before the interval is over, and then has too little time left.
    pub(super) fn ask_again(&mut self, now: Instant) {
        self.next = now + (self.interval / 4).min(LOOK);
    }

    /// Returns the time until the next report.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watchdog(time: &str, pid: Option<&str>) -> Option<Watchdog> {
        let variable = |name: &str| match name {
            "WATCHDOG_USEC" => Some(time.to_owned()),
            "WATCHDOG_PID" => pid.map(str::to_owned),
            _ => None,
        };
        Watchdog::of(variable, 7, Instant::now())
    }

    #[test]
    fn it_is_fed_twice_within_its_time() {
        let mut watchdog = watchdog("3000000", Some("7")).expect("it watches this process");
        let start = watchdog.next;
        let later = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(watchdog.is_due(start), "at once");
        assert!(!watchdog.is_due(later(1499)));
        assert_eq!(watchdog.wait(later(1499)), Duration::from_millis(1));
        assert!(watchdog.is_due(later(1500)));
        assert!(!watchdog.is_due(later(1501)));
    }

    #[test]
    fn who_is_not_watched_feeds_nobody() {
        assert!(watchdog("3000000", None).is_some());
        assert!(watchdog("3000000", Some("8")).is_none(), "another process is watched");
        for nonsense in ["", "0", "-1", "3s"] {
            assert!(watchdog(nonsense, None).is_none(), "{nonsense:?}");
        }
        assert!(watchdog(&u64::MAX.to_string(), None).is_some_and(|mut watchdog| watchdog.is_due(Instant::now())));
    }
}
