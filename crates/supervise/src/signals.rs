//! The signals of the master and the supervisor.

use oribi_io::process::{Effect, OF_WRITES, Watch, survive_own_signals, watch};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// The answer to `oribi ctl upgrade` and to USR2 in a program that has called Oribi.
pub(super) const NO_UPGRADE: &str = "not upgraded: this server is part of a program that has called it, such as plackup or rackup, and \
     what that program has done before cannot be done a second time beside it: run the program under start_server, whose HUP starts \
     a new one and then stops this one, or run the app by `oribi`, which can be upgraded";

/// How often each signal has arrived since it was last taken. Signals concern the whole process, so this is a static.
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

/// The counter of signals that accompany a failing write. It is never read.
static FAILING_WRITES: AtomicU32 = AtomicU32::new(0);

/// The signal handlers of a server process. In a new worker they still count signals until the worker has set its own handlers.
/// Processes that an app forks have the default actions, whether they execute another program or not.
#[derive(Debug)]
pub(super) struct Signals {
    /// The read end of the pipe to which the handlers write. `None` after [`Signals::release`].
    arrival: Option<OwnedFd>,
    watches: Vec<Watch>,
}

impl Signals {
    /// Sets the handlers. `children`: whether to handle SIGCHLD. This must be `false` in a process that runs an app's code,
    /// because the app may ignore SIGCHLD, and the signal could interrupt its sleep.
    ///
    /// # Errors
    /// The system refuses a handler or a pipe.
    pub(super) fn watch(children: bool) -> io::Result<Self> {
        survive_own_signals()?;
        let (arrival, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut watches = survive_failing_writes()?;
        for (signal, count) in &ARRIVED {
            if children || *signal != Signal::CHILD {
                watches.push(watch(*signal, count, Effect::Count, vec![waker.try_clone()?], None)?);
            }
        }
        Ok(Self { arrival: Some(arrival), watches })
    }

    /// Returns the descriptor that is readable when a signal has arrived.
    pub(super) fn arrival(&self) -> Option<BorrowedFd<'_>> {
        self.arrival.as_ref().map(AsFd::as_fd)
    }

    /// Empties the pipe, so that [`Signals::arrival`] waits for the next signal. Must be called before the signals are taken.
    pub(super) fn rearm(&self) {
        self.arrival.iter().for_each(empty);
    }

    /// Removes the handlers. From then on, signals without another handler are ignored.
    pub(super) fn release(&mut self) {
        self.watches.clear();
        self.arrival = None;
    }
}

/// The meaning of the TERM and INT signals that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopRequest {
    /// None, or only the echo of an earlier signal.
    Nothing,
    /// Stop.
    Stop,
    /// End at once.
    EndNow,
}

/// Distinguishes a second request to stop from an echo of the first. timeout(1) and many wrappers send a signal to their child
/// and then to the whole group, so the signal arrives twice within a short time. That must not cut off requests. A person takes
/// longer to send a second signal.
#[derive(Debug, Default)]
pub(super) struct StopRequests {
    first: Option<Instant>,
}

/// The time within which another signal counts as an echo: about as long as a quick double press of Ctrl-C.
const ECHO: Duration = Duration::from_millis(250);

impl StopRequests {
    /// Marks the first request as handled: after the time of an echo from `now` on, another signal counts as the second
    /// request.
    pub(super) fn restart(&mut self, now: Instant) {
        self.first = Some(now);
    }

    /// Evaluates `arrived` signals at the time `now`. `stopping`: whether the process is stopping already, for any reason.
    pub(super) fn evaluate(&mut self, arrived: u32, stopping: bool, now: Instant) -> StopRequest {
        if arrived == 0 {
            return StopRequest::Nothing;
        }
        match self.first {
            Some(first) if now - first < ECHO => StopRequest::Nothing,
            None if !stopping => {
                self.first = Some(now);
                StopRequest::Stop
            }
            _ => StopRequest::EndNow,
        }
    }
}

/// Returns how often `signal` has arrived since the last call.
pub(super) fn take(signal: Signal) -> u32 {
    ARRIVED.iter().find(|(known, _)| *known == signal).map_or(0, |(_, count)| count.swap(0, SeqCst))
}

/// Prevents SIGPIPE and SIGXFSZ from ending the process, by a handler that does nothing: the failing write returns an error
/// anyway. The signals are not ignored instead, because programs that an app executes would inherit that, and many programs
/// rely on the signals.
///
/// # Errors
/// The system refuses a handler or a pipe.
pub(super) fn survive_failing_writes() -> io::Result<Vec<Watch>> {
    OF_WRITES.into_iter().map(|signal| watch(signal, &FAILING_WRITES, Effect::Count, Vec::new(), None)).collect()
}

/// Empties a non-blocking pipe.
pub(super) fn empty(pipe: impl AsFd) {
    let mut buffer = [0; 64];
    while matches!(rustix::io::read(&pipe, &mut buffer), Ok(64)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_no_second_wish() {
        let mut stop_requests = StopRequests::default();
        let start = Instant::now();
        assert_eq!(stop_requests.evaluate(0, false, start), StopRequest::Nothing);
        assert_eq!(stop_requests.evaluate(2, false, start), StopRequest::Stop);
        assert_eq!(stop_requests.evaluate(1, true, start + ECHO / 2), StopRequest::Nothing);
        assert_eq!(stop_requests.evaluate(1, true, start + ECHO), StopRequest::EndNow);
    }

    #[test]
    fn a_first_wish_while_it_stops_already_is_a_second_one() {
        assert_eq!(StopRequests::default().evaluate(1, true, Instant::now()), StopRequest::EndNow);
    }
}
