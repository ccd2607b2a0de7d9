//! The deadlines of an app that answers a request.

use super::{Settings, Timeouts};
use std::time::Duration;

const NEVER: Duration = Timeouts::NEVER;

/// What happens to an app that takes long, and when. The times count from when it began or last did something for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppDeadlines {
    /// When the log says where the app is.
    pub warning: Duration,
    /// When the app is interrupted.
    pub timeout: Duration,
    /// When its worker is ended.
    pub kill: Duration,
}

impl AppDeadlines {
    /// Those that the settings ask for.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self { warning: settings.request_warning, timeout: settings.timeouts.request, kill: settings.kill_after() }
    }

    /// Those of an app that has asked for so much time; `None`: for any time. Between its interruption and the end of its worker
    /// is the same time as without that. There is no warning, because the app knows that it takes long.
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

    /// Nothing happens earlier.
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
        // A shorter deadline than that of the settings ends the worker earlier.
        assert_eq!(moved(SECOND, SECOND * 100, SECOND * 105), expected(SECOND * 60, SECOND * 65));
        let of_settings = AppDeadlines { warning: SECOND, timeout: SECOND * 5, kill: SECOND * 12 };
        assert_eq!(of_settings.moved(None), expected(NEVER, NEVER));
    }
}
