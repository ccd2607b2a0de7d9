//! Asking a language where its apps are.

/// How the apps of a worker are asked where they are.
pub trait Tracing: Send + Sync {
    /// Somebody has asked; `question` is a number by which the answers are known.
    ///
    /// Called in a signal handler, on any thread of the process. It may do only what a signal handler may do (signal-safety(7)): set
    /// flags by which each thread that runs an app learns, at the next moment that is safe, that it is to tell where it is. It
    /// must not allocate, lock, or panic. How threads answer is the server's; what is not answered soon is given up.
    fn trace(&self, question: u32);

    /// Whether an app that waits in a system call may notice the signal. If the app runs on the first thread of the process, it is
    /// then asked only while that thread runs.
    fn disturbs(&self) -> bool {
        true
    }
}
