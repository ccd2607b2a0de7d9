//! The log lines about tasks for which there was no memory, at their start or later: a script may have thousands.

use crate::host::log_failure;
use crate::state_context::Failure;
use std::path::Path;
use std::time::{Duration, Instant};

/// The shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts the tasks that got no line.
#[derive(Default)]
pub(super) struct OutOfMemory {
    last_line: Option<Instant>,
    left_out: u64,
}

impl OutOfMemory {
    /// Logs that there was no memory for a task, or counts it if there was a line within the last second.
    pub(super) fn log(&mut self, script: &Path, failure: &Failure) {
        if self.last_line.is_some_and(|last| last.elapsed() < PAUSE) {
            self.left_out += 1;
            return;
        }
        self.last_line = Some(Instant::now());
        self.tell_rest();
        log_failure(script, failure);
    }

    fn tell_rest(&mut self) {
        if self.left_out > 0 {
            log::error!("{} more tasks had not enough memory since the last such line", self.left_out);
            self.left_out = 0;
        }
    }
}

impl Drop for OutOfMemory {
    fn drop(&mut self) {
        self.tell_rest();
    }
}
