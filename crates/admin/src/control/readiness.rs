//! Waits for the edges' answers to the question whether they are ready, for `oribi ctl health`.

use oribi_control_api::{Answer, Health};
use std::time::{Duration, Instant};

/// The time in which a healthy edge answers, even on a busy machine. It is less than the time that `oribi ctl health` waits.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which this process looks for answers.
pub(super) const LOOKS: Duration = Duration::from_millis(2);

/// The progress of a question for the readiness of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadinessProgress {
    /// The edge with this name has not answered.
    Pending(String),
    /// All edges have answered, or the answer does not depend on them.
    Known(Health),
}

/// Returns the answer for the client; `None` if it must wait. An edge that has not answered by the time `until` hangs.
pub(super) fn answer(progress: ReadinessProgress, until: Instant) -> Option<String> {
    let health = match progress {
        ReadinessProgress::Known(health) => health,
        ReadinessProgress::Pending(_) if Instant::now() < until => return None,
        ReadinessProgress::Pending(edge) => Health::not_ready("hung", format!("{edge} has not answered within {PATIENCE:?}")),
    };
    Some(Answer::Done(health).to_json())
}
