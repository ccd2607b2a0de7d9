//! Settings of numbers of workers that follow the load.

use std::time::Duration;

/// The settings of an app whose number of workers follows the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerScaling {
    /// The waiting time of requests above which one more worker starts.
    pub up_wait: Duration,
    /// The share of the processors, in percent, above which no further worker starts. 100: none is too high.
    pub up_cpu: u8,
    /// The time without a request after which a surplus worker ends.
    pub down_idle: Duration,
}

impl Default for WorkerScaling {
    fn default() -> Self {
        Self {
            // People notice a delay of this length.
            up_wait: Duration::from_millis(100),
            // With busier processors one more worker only slows the others down.
            up_cpu: 90,
            // Many times what it takes to start most workers, so that a pause of the load costs none of them.
            down_idle: Duration::from_secs(60),
        }
    }
}
