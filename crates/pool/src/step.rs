//! Where a worker may die: before each of its writes to shared memory. Tests have it die at each of them.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the step before which this process ends itself; none in products.
#[cfg(test)]
pub(crate) static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// To be called before a write to shared memory.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    if LAST.load(Ordering::Relaxed) != u64::MAX && LAST.fetch_sub(1, Ordering::Relaxed) == 0 {
        // As SIGKILL does it: nothing runs any more, wherever the process is.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}
