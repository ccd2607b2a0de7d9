//! The deadlines of an app that answers a request.

use super::{Settings, Timeouts};
use std::time::Duration;

const NEVER: Duration = Timeouts::NEVER;

/// The deadlines of an app. The times count from the start of the app or from the last bytes that it sent to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppDeadlines {
    /// The time until the position of the app is logged.
    pub warning: Duration,
    /// The time until the app is interrupted.
    pub timeout: Duration,
    /// The time until the worker of the app is stopped.
    pub kill: Duration,
}

impl AppDeadlines {
    /// The deadlines of the settings.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self { warning: settings.request_warning, timeout: settings.timeouts.request, kill: settings.kill_after() }
    }

    /// Returns the deadlines of an app that asked for the time `asked`; `None` means unlimited time. The time between the
    /// interruption of the app and the end of the worker stays the same. There is no warning, because the app knows that the
    /// request takes a long time.
    #[must_use]
    pub fn moved(self, asked: Option<Duration>) -> Self {
        let Some(timeout) = asked else { return Self { warning: NEVER, timeout: NEVER, kill: NEVER } };
        let grace = match (self.timeout, self.kill) {
            (_, NEVER) => NEVER,
            (NEVER, _) => Settings::KILL_AFTER,
            (timeout, kill) => kill.saturating_sub(timeout),
        };
        Self { warning: NEVER, timeout, kill: timeout.saturating_add(grace).min(NEVER) }
    }

    /// The time of the first deadline.
    #[must_use]
    pub fn shortest(self) -> Duration {
        self.warning.min(self.timeout).min(self.kill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_own_deadline_moves_the_end_of_the_worker_along() {
        let moved = |warning, timeout, kill| AppDeadlines { warning, timeout, kill }.moved(Some(SECOND * 60));
        let expected = |timeout, kill| AppDeadlines { warning: NEVER, timeout, kill };
        assert_eq!(moved(SECOND, SECOND * 5, SECOND * 12), expected(SECOND * 60, SECOND * 67));
        assert_eq!(moved(SECOND, NEVER, SECOND * 12), expected(SECOND * 60, SECOND * 65));
        assert_eq!(moved(SECOND, SECOND * 5, NEVER), expected(SECOND * 60, NEVER));
        // A deadline shorter than the configured one also stops the worker earlier.
        assert_eq!(moved(SECOND, SECOND * 100, SECOND * 105), expected(SECOND * 60, SECOND * 65));
        let of_settings = AppDeadlines { warning: SECOND, timeout: SECOND * 5, kill: SECOND * 12 };
        assert_eq!(of_settings.moved(None), expected(NEVER, NEVER));
    }
}
