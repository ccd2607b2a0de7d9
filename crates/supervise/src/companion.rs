//! A companion: a process that the first process keeps beside those that serve, and through which no request passes. The certifier is
//! one, and the exporter. It may wait and block, so that the first process need not.

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

/// How often to look whether a process has ended that was told to, if the system has no descriptors for processes.
const LOOK: Duration = Duration::from_millis(5);

/// The signal that ends a companion. TERM and INT, by which people and service managers stop servers, reach all processes of a group,
/// and a companion must outlive those that still send to it.
const END: Signal = Signal::ALARM;

/// A companion, in the process that has started it.
#[derive(Debug)]
pub(super) struct Companion {
    /// What it is, for the log: "the process that ...".
    what: &'static str,
    process: Option<Process>,
    pace: Pace,
}

/// One that has not been waited for yet.
#[derive(Debug)]
struct Process {
    pid: Pid,
    /// Readable when it has ended; `None` if the system has no descriptors for processes.
    descriptor: Option<OwnedFd>,
    born: Instant,
}

/// What a new companion gets.
pub(super) struct Birth {
    what: &'static str,
    parent: Pid,
    heirs: Heirs,
}

impl Companion {
    /// `pause`: that before the next start of one that has failed.
    pub(super) const fn new(what: &'static str, pause: Duration) -> Self {
        Self { what, process: None, pace: Pace::new(Duration::ZERO, pause) }
    }

    /// Starts it if it is missing. In the new process it returns what that needs; the caller releases what belongs to the parent,
    /// and calls [`Birth::live`].
    pub(super) fn keep_running(&mut self, fork: impl Fn() -> io::Result<Fork>) -> Option<Birth> {
        if self.process.is_some() || !self.pace.wait(Instant::now()).is_zero() {
            return None;
        }
        let (parent, heirs) = (rustix::process::getpid(), Heirs::begin());
        match fork() {
            Ok(Fork::Parent(pid)) => {
                let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
                self.process = Some(Process { pid, descriptor, born: Instant::now() });
                log::debug!("{} started (pid {pid})", self.what);
                None
            }
            Ok(Fork::Child) => {
                leave_report();
                Some(Birth { what: self.what, parent, heirs })
            }
            Err(error) => {
                log::error!("cannot start {}: {error}", self.what);
                self.pace.failed(Instant::now(), Duration::ZERO);
                None
            }
        }
    }

    /// Waits for it, if it has ended.
    pub(super) fn reap(&mut self) {
        let Some(pid) = self.process.as_ref().map(|process| process.pid) else { return };
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) => _ = self.ended(pid, Some(status)),
            // An app may have set SIGCHLD to be ignored: then the system does not tell how it ended.
            Err(_) => _ = self.ended(pid, None),
        }
    }

    /// Records that a process has ended; returns whether it was this companion.
    pub(super) fn ended(&mut self, pid: Pid, status: Option<WaitStatus>) -> bool {
        let Some(process) = self.process.take_if(|process| process.pid == pid) else { return false };
        let now = Instant::now();
        let pause = self.pace.failed(now, now - process.born).unwrap_or_else(|| self.pace.wait(now)).as_secs_f64();
        let end = status.map_or_else(|| "ended".to_owned(), describe_end);
        log::error!("{} (pid {pid}) {end}; another one starts in {pause:.1} s", self.what);
        true
    }

    /// Has it open its log again.
    pub(super) fn reopen_logs(&self) {
        if let Some(process) = &self.process {
            // It has not been waited for, so its process id cannot belong to another process.
            let _ = kill_process(process.pid, Signal::USR1);
        }
    }

    /// Ends it at once.
    pub(super) fn end(self) {
        if let Some(Process { pid, .. }) = self.process {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }

    /// Has it finish what it has begun, and waits for that, but no longer than `patience`.
    pub(super) fn finish(self, patience: Duration) {
        let Some(Process { pid, descriptor, .. }) = &self.process else { return };
        let _ = kill_process(*pid, END);
        let end_by = Instant::now() + patience;
        while let Ok(None) | Err(rustix::io::Errno::INTR) = waitpid(Some(*pid), WaitOptions::NOHANG) {
            let left = end_by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                log::error!("{} (pid {pid}) does not end, and is ended", self.what);
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

    /// What its parent watches.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref()?.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// How long its parent may sleep at most; `None`: as long as nothing happens.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        match &self.process {
            None => Some(self.pace.wait(now)),
            Some(process) => process.descriptor.is_none().then_some(super::LOOK_FOR_ENDED),
        }
    }
}

/// The signals that are for its parent, which ends it.
const PARENTS: [Signal; 7] = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR2, Signal::TTIN, Signal::TTOU];

/// The count of ignored signals, which nobody reads.
static DISREGARDED: AtomicU32 = AtomicU32::new(0);

/// How often this process was told to open its log again.
static REOPENINGS: AtomicU32 = AtomicU32::new(0);

/// How often it was told to come to its end.
static ENDS: AtomicU32 = AtomicU32::new(0);

/// What becomes of a companion when its parent dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphan {
    /// It ends at once: it has nothing to finish.
    Ends,
    /// It is told to come to its end.
    Finishes,
}

/// The life of a companion, in its own process.
pub(super) struct Life {
    parent: Pid,
    /// Readable when it was told something.
    wake: OwnedFd,
    _watches: Vec<Watch>,
}

impl Birth {
    /// Does the `work` of the companion, and ends the process: well, if that returns without an error.
    pub(super) fn live(self, signals: &mut Signals, work: impl FnOnce(&Life) -> Result<(), String>) -> ! {
        let Self { what, parent, heirs } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&Life::begin(parent, signals, heirs)?)));
        let status = match outcome {
            Ok(Ok(())) => 0,
            Ok(Err(why)) => {
                log::error!("{what}: {why}");
                1
            }
            Err(_) => {
                log::error!("{what}: panic");
                1
            }
        };
        // Neither the app's exit handlers nor the language's may run here.
        exit_now(status)
    }
}

impl Life {
    fn begin(parent: Pid, signals: &mut Signals, heirs: Heirs) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let (wake, waker) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|error| failed("make a pipe", error.into()))?;
        let watches = take_over_signals(waker, signals, heirs).map_err(|error| failed("watch signals", error))?;
        Ok(Self { parent, wake, _watches: watches })
    }

    /// Does not outlive the parent. Call this when the process has the user that it will have: the system forgets it with a change.
    ///
    /// # Errors
    /// The parent has died already, or the system refuses.
    pub(super) fn follow_parent(&self, orphan: Orphan) -> Result<(), String> {
        let signal = match orphan {
            Orphan::Ends => Signal::KILL,
            Orphan::Finishes => END,
        };
        rustix::process::set_parent_process_death_signal(Some(signal))
            .map_err(|error| format!("cannot ask for a signal when the parent dies: {}", io::Error::from(error)))?;
        if rustix::process::getppid() == Some(self.parent) { Ok(()) } else { Err("the parent has died".to_owned()) }
    }

    /// Whether it was told to open its log again since the last call.
    pub(super) fn is_to_reopen_log(&self) -> bool {
        REOPENINGS.swap(0, SeqCst) > 0
    }

    /// Whether it was told to come to its end.
    pub(super) fn is_to_end(&self) -> bool {
        ENDS.load(SeqCst) > 0
    }

    /// Waits until there is something to read, or it was told something; `time`: at most so long.
    pub(super) fn wait(&self, input: Option<BorrowedFd<'_>>, time: Option<Duration>) {
        signals::empty(&self.wake);
        if REOPENINGS.load(SeqCst) > 0 || self.is_to_end() {
            return;
        }
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
        // However it ends, there is a look at everything.
        let _ = poll(&mut polled, time.and_then(|time| Timespec::try_from(time).ok()).as_ref());
    }
}

/// Replaces the parent's signal handlers.
fn take_over_signals(waker: OwnedFd, signals: &mut Signals, heirs: Heirs) -> io::Result<Vec<Watch>> {
    let mut watches = signals::survive_failing_writes()?;
    watches.push(watch(END, &ENDS, Effect::Count, vec![waker.try_clone()?], None)?);
    watches.push(watch(Signal::USR1, &REOPENINGS, Effect::Count, vec![waker], None)?);
    for signal in PARENTS {
        watches.push(watch(signal, &DISREGARDED, Effect::Nothing, Vec::new(), None)?);
    }
    signals.release();
    drop(heirs);
    Ok(watches)
}
