//! Requests for the positions of apps, for backtraces.

/// Makes a language report the positions of a worker's apps.
pub trait Tracing: Send + Sync {
    /// Requests a report from each thread that runs an app. `question` is the number by which the reports are identified.
    ///
    /// Called in a signal handler, on any thread of the process. It may do only what a signal handler may do
    /// (signal-safety(7)): set flags, so that each thread that runs an app reports its position at the next moment that is
    /// safe. It must not allocate, lock, or panic. The server defines how threads report; a report that does not arrive soon
    /// is given up.
    fn trace(&self, question: u32);

    /// Whether the signal may disturb an app that waits in a system call. If so, an app on the first thread of the process is
    /// asked for its position only while that thread runs.
    fn disturbs(&self) -> bool {
        true
    }
}
