//! The signals that the master and a supervisor answer.

use oribi_io::process::{Effect, Watch, watch};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// How often each signal has arrived and was not looked at yet. A process has its signals only once, hence a static.
static ARRIVED: [(Signal, AtomicU32); 9] = [
    (Signal::TERM, AtomicU32::new(0)),
    (Signal::INT, AtomicU32::new(0)),
    (Signal::QUIT, AtomicU32::new(0)),
    (Signal::HUP, AtomicU32::new(0)),
    (Signal::USR1, AtomicU32::new(0)),
    (Signal::USR2, AtomicU32::new(0)),
    (Signal::TTIN, AtomicU32::new(0)),
    (Signal::TTOU, AtomicU32::new(0)),
    (Signal::CHILD, AtomicU32::new(0)),
];

/// Nobody reads how often SIGPIPE came: a write to a closed connection says so by itself.
static BROKEN_PIPES: AtomicU32 = AtomicU32::new(0);

/// Handlers for the signals of a server process. They outlive a fork (in the child they count for the child) and are reset in
/// programs that are executed, so an app's children start with the default actions.
#[derive(Debug)]
pub(super) struct Signals {
    arrival: OwnedFd,
    watches: Vec<Watch>,
}

impl Signals {
    /// Sets the handlers. `children` says whether SIGCHLD is wanted: in a process that runs an app's code it is better left
    /// alone, because the app may have set it to ignore, or may sleep.
    ///
    /// # Errors
    /// The system's refusal.
    pub(super) fn watch(children: bool) -> io::Result<Self> {
        let (arrival, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut watches = Vec::new();
        for (signal, count) in &ARRIVED {
            if children || *signal != Signal::CHILD {
                watches.push(watch(*signal, count, Effect::Count, vec![waker.try_clone()?])?);
            }
        }
        Ok(Self { arrival, watches })
    }

    /// Readable when a signal has arrived.
    pub(super) fn arrival(&self) -> BorrowedFd<'_> {
        self.arrival.as_fd()
    }

    /// Makes [`Signals::arrival`] wait for the next signal. To be called before the signals are taken.
    pub(super) fn rearm(&self) {
        empty(&self.arrival);
    }

    /// Stops counting. Signals are ignored from then on, save those with another handler.
    pub(super) fn release(&mut self) {
        self.watches.clear();
    }
}

/// How often `signal` has arrived since the last look.
pub(super) fn take(signal: Signal) -> u32 {
    ARRIVED.iter().find(|(known, _)| *known == signal).map_or(0, |(_, count)| count.swap(0, SeqCst))
}

/// Keeps SIGPIPE from ending the process. A handler that does nothing, because an ignored signal would stay ignored in the
/// programs that an app executes, many of which rely on it.
///
/// # Errors
/// The system's refusal.
pub(super) fn survive_broken_pipes() -> io::Result<Watch> {
    watch(Signal::PIPE, &BROKEN_PIPES, Effect::Count, Vec::new())
}

/// Reads what is in a non-blocking pipe and forgets it.
pub(super) fn empty(pipe: impl AsFd) {
    let mut buffer = [0; 64];
    while matches!(rustix::io::read(&pipe, &mut buffer), Ok(64)) {}
}
