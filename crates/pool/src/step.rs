//! The points at which a worker may die or be overtaken: before each of its writes to shared memory. Tests try each of them.

#[cfg(test)]
use std::cell::RefCell;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

/// The step before which this process kills itself, for tests only.
#[cfg(test)]
pub(crate) static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// The step before which this thread is interrupted, and the action of another process at that point.
#[cfg(test)]
type Meanwhile = (u64, Box<dyn FnOnce()>);

#[cfg(test)]
thread_local! {
    pub(crate) static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

/// Call it before each write to shared memory.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    {
        die_if_told();
        overtake_if_told();
    }
}

#[cfg(test)]
fn die_if_told() {
    if LAST.load(Ordering::Relaxed) != u64::MAX && LAST.fetch_sub(1, Ordering::Relaxed) == 0 {
        // SIGKILL stops the process at any point, and nothing more runs.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

#[cfg(test)]
fn overtake_if_told() {
    let due = MEANWHILE.with_borrow_mut(|meanwhile| match meanwhile {
        Some((0, _)) => meanwhile.take(),
        Some((steps, _)) => {
            *steps -= 1;
            None
        }
        None => None,
    });
    if let Some((_, act)) = due {
        act();
    }
}
