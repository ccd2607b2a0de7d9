//! A helper process of the first process, which serves no requests: the certifier, the exporter, or the relay. It may wait and
//! block, so that the first process need not.

use super::describe_end;
use super::foreground::leave_report;
use super::pace::Pace;
use super::signals::{self, Signals};
use oribi_io::process::{Effect, Fork, Heirs, Watch, exit_now, watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// The interval at which the parent checks for the end of a helper, on systems without pidfds.
const LOOK: Duration = Duration::from_millis(5);

/// The signal that makes a helper finish. TERM and INT, by which people and service managers stop servers, reach all processes
/// of a group, and a helper must outlive the processes that still send data to it.
const END: Signal = Signal::ALARM;

/// A helper, in its parent process.
#[derive(Debug)]
pub(super) struct HelperProcess {
    /// A description for the log: "the process that ...".
    description: &'static str,
    process: Option<RunningProcess>,
    pace: Pace,
}

/// A process that has not been waited for yet.
#[derive(Debug)]
struct RunningProcess {
    pid: Pid,
    /// A pidfd, readable when the process has ended. `None` on systems without pidfds.
    descriptor: Option<OwnedFd>,
    started_at: Instant,
}

/// The parameters of a new helper.
pub(super) struct ForkedHelper {
    description: &'static str,
    parent: Pid,
    heirs: Heirs,
}

impl HelperProcess {
    /// `pause`: the time before the next start after a failure.
    pub(super) const fn new(description: &'static str, pause: Duration) -> Self {
        Self { description, process: None, pace: Pace::new(Duration::ZERO, pause) }
    }

    /// Starts the helper if it is missing and no pause after a failure is in progress. In the new process it returns the
    /// parameters of the helper: the caller must close the parent's descriptors, and then call [`ForkedHelper::run_and_exit`].
    /// Returns `None` in the parent.
    pub(super) fn keep_running(&mut self, fork: impl Fn() -> io::Result<Fork>) -> Option<ForkedHelper> {
        if self.process.is_some() || !self.pace.wait(Instant::now()).is_zero() {
            return None;
        }
        let (parent, heirs) = (rustix::process::getpid(), Heirs::begin());
        match fork() {
            Ok(Fork::Parent(pid)) => {
                let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
                self.process = Some(RunningProcess { pid, descriptor, started_at: Instant::now() });
                log::debug!("{} started (pid {pid})", self.description);
                None
            }
            Ok(Fork::Child) => {
                leave_report();
                Some(ForkedHelper { description: self.description, parent, heirs })
            }
            Err(error) => {
                log::error!("cannot start {}: {error}", self.description);
                self.pace.failed(Instant::now(), Duration::ZERO);
                None
            }
        }
    }

    /// Collects the exit status of the helper, if it has ended.
    pub(super) fn reap(&mut self) {
        let Some(pid) = self.process.as_ref().map(|process| process.pid) else { return };
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) => _ = self.ended(pid, Some(status)),
            // An app may have set SIGCHLD to be ignored: then the exit status is lost.
            Err(_) => _ = self.ended(pid, None),
        }
    }

    /// Records that a process has ended; returns whether the process was this helper. `status` is `None` if the exit status is
    /// lost.
    pub(super) fn ended(&mut self, pid: Pid, status: Option<WaitStatus>) -> bool {
        let Some(process) = self.process.take_if(|process| process.pid == pid) else { return false };
        let now = Instant::now();
        let pause = self.pace.failed(now, now - process.started_at).unwrap_or_else(|| self.pace.wait(now)).as_secs_f64();
        let end = status.map_or_else(|| "ended".to_owned(), describe_end);
        log::error!("{} (pid {pid}) {end}; another one starts in {pause:.1} s", self.description);
        true
    }

    /// Makes it reopen its log.
    pub(super) fn reopen_logs(&self) {
        if let Some(process) = &self.process {
            // The helper has not been waited for, so its process id cannot belong to another process.
            let _ = kill_process(process.pid, Signal::USR1);
        }
    }

    /// Kills the helper.
    pub(super) fn end(self) {
        if let Some(RunningProcess { pid, .. }) = self.process {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }

    /// Sends the helper the signal to finish, and waits up to `patience` for its end. Then kills it.
    pub(super) fn finish(self, patience: Duration) {
        let Some(RunningProcess { pid, descriptor, .. }) = &self.process else { return };
        let _ = kill_process(*pid, END);
        let end_by = Instant::now() + patience;
        while let Ok(None) | Err(rustix::io::Errno::INTR) = waitpid(Some(*pid), WaitOptions::NOHANG) {
            let left = end_by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                log::error!("{} (pid {pid}) does not end, and is killed", self.description);
                return self.end();
            }
            match descriptor {
                Some(descriptor) => {
                    let left = Timespec::try_from(left).ok();
                    let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], left.as_ref());
                }
                None => std::thread::sleep(LOOK.min(left)),
            }
        }
    }

    /// Returns the descriptor for the parent to watch.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref()?.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Returns the longest time that the parent may sleep. `None` without a deadline.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        match &self.process {
            None => Some(self.pace.wait(now)),
            Some(process) => process.descriptor.is_none().then_some(super::LOOK_FOR_ENDED),
        }
    }
}

/// The signals that are meant for the parent, which ends the helper itself. The helper ignores them.
const OF_PARENT: [Signal; 7] = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR2, Signal::TTIN, Signal::TTOU];

/// The counter of ignored signals, which is never read.
static DISREGARDED: AtomicU32 = AtomicU32::new(0);

/// The number of signals to reopen the log.
static REOPENINGS: AtomicU32 = AtomicU32::new(0);

/// The number of signals to finish.
static ENDS: AtomicU32 = AtomicU32::new(0);

/// The reaction of a helper to the death of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnParentDeath {
    /// The helper ends at once, because it has nothing to finish.
    Kill,
    /// The helper finishes its work, and then ends.
    Finish,
}

/// The state of a helper, in its own process.
pub(super) struct HelperContext {
    parent: Pid,
    /// The read end of the pipe that is readable after a signal.
    wake: OwnedFd,
    _watches: Vec<Watch>,
}

impl ForkedHelper {
    /// Does the `work` of the helper, and ends the process: with status 0 if `work` returns without an error, otherwise with 1.
    pub(super) fn run_and_exit(self, signals: &mut Signals, work: impl FnOnce(&HelperContext) -> Result<(), String>) -> ! {
        let Self { description, parent, heirs } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&HelperContext::begin(parent, signals, heirs)?)));
        let status = match outcome {
            Ok(Ok(())) => 0,
            Ok(Err(why)) => {
                log::error!("{description}: {why}");
                1
            }
            Err(_) => {
                log::error!(
                    "{description} has failed because of a fault in Oribi; please report this with the message of the panic"
                );
                1
            }
        };
        // The exit handlers of the app and of its language must not run here.
        exit_now(status)
    }
}

impl HelperContext {
    fn begin(parent: Pid, signals: &mut Signals, heirs: Heirs) -> Result<Self, String> {
        let failed = |act: &str, error: io::Error| format!("cannot {act}: {error}");
        let (wake, waker) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|error| failed("make a pipe", error.into()))?;
        let watches = take_over_signals(waker, signals, heirs).map_err(|error| failed("watch signals", error))?;
        Ok(Self { parent, wake, _watches: watches })
    }

    /// Makes the helper react to the death of its parent. Must be called when the process has its final user, because a change
    /// of the user cancels the signal.
    ///
    /// # Errors
    /// The parent has died already, or the system refuses.
    pub(super) fn follow_parent(&self, reaction: OnParentDeath) -> Result<(), String> {
        let signal = match reaction {
            OnParentDeath::Kill => Signal::KILL,
            OnParentDeath::Finish => END,
        };
        rustix::process::set_parent_process_death_signal(Some(signal))
            .map_err(|error| format!("cannot ask for a signal when the parent dies: {}", io::Error::from(error)))?;
        if rustix::process::getppid() == Some(self.parent) { Ok(()) } else { Err("the parent has died".to_owned()) }
    }

    /// Whether the signal to reopen the log has arrived since the last call.
    pub(super) fn must_reopen_log(&self) -> bool {
        REOPENINGS.swap(0, SeqCst) > 0
    }

    /// Whether the signal to finish has arrived.
    pub(super) fn must_end(&self) -> bool {
        ENDS.load(SeqCst) > 0
    }

    /// Waits for input or a signal, at most for `time`.
    pub(super) fn wait(&self, input: Option<BorrowedFd<'_>>, time: Option<Duration>) {
        if !self.must_end() {
            self.wait_for(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)), time);
        }
    }

    /// Waits for one of these events or a signal, at most for `time`; also if the signal to finish has arrived.
    pub(super) fn wait_for<'a>(&'a self, events: impl IntoIterator<Item = PollFd<'a>>, time: Option<Duration>) {
        signals::empty(&self.wake);
        if REOPENINGS.load(SeqCst) > 0 {
            return;
        }
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(events);
        // Everything is checked afterwards, whatever the result.
        let _ = poll(&mut polled, time.and_then(|time| Timespec::try_from(time).ok()).as_ref());
    }
}

/// Replaces the parent's signal handlers.
fn take_over_signals(waker: OwnedFd, signals: &mut Signals, heirs: Heirs) -> io::Result<Vec<Watch>> {
    let mut watches = signals::survive_failing_writes()?;
    watches.push(watch(END, &ENDS, Effect::Count, vec![waker.try_clone()?], None)?);
    watches.push(watch(Signal::USR1, &REOPENINGS, Effect::Count, vec![waker], None)?);
    for signal in OF_PARENT {
        watches.push(watch(signal, &DISREGARDED, Effect::Nothing, Vec::new(), None)?);
    }
    signals.release();
    drop(heirs);
    Ok(watches)
}
