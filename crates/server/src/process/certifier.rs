//! The certifier: the process that orders and renews certificates (ACME).
//!
//! It talks to an authority, waits for it and blocks, so the process that forks it, the master or a supervisor without one, need
//! not. No request passes through it: lanes answer the authority's challenges by themselves, those that are made in a handshake from a
//! file which it writes (`listen/secure.rs`). What it has ordered it writes into
//! files, and the first process sees that they have changed. It keeps the rights that the server was started with, so that keys
//! stay readable for that user alone.

use super::foreground::leave_report;
use super::pace::Pace;
use super::privileges::Privileges;
use super::signals::{self, Signals};
use super::{describe_end, reopen_error_log};
use crate::config::{Protocol, Settings};
use crate::listen::{self, Listener};
use crate::totals::{Account, Counter, Counts};
use oribi_acme::{Answers, Client, Done};
use oribi_io::process::{Effect, Fork, Heirs, Watch, exit_now, shared_lines, watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// The pause before the next start of a certifier that has failed. Nobody waits for it.
const PAUSE: Duration = Duration::from_secs(10);

/// Makes what must be there before certificates are read: see [`oribi_acme::prepare`]. Returns what listeners need to answer
/// challenges; `None`: no certificate is ordered.
///
/// # Errors
/// Says which file or folder cannot be used, and why.
pub(super) fn prepare(settings: &Settings) -> Result<Option<Answers>, String> {
    let is_wanted = !settings.acme.certificates.is_empty();
    is_wanted.then(|| oribi_acme::prepare(&settings.acme)).transpose()
}

/// Has challenges answered at these listeners.
pub(super) fn answer_challenges(listeners: &mut [Listener], answers: Option<Answers>) {
    let thumbprint: Option<Arc<str>> = match answers {
        Some(Answers::Http(thumbprint)) => Some(thumbprint.into()),
        Some(Answers::TlsAlpn(file)) => {
            listen::answer_in_handshakes(listeners, file);
            None
        }
        None => None,
    };
    for listener in listeners.iter_mut().filter(|listener| listener.protocol == Protocol::Http) {
        listener.thumbprint.clone_from(&thumbprint);
    }
}

/// The certifier, in the process that has started it.
#[derive(Debug)]
pub(super) struct Certifier {
    process: Option<Process>,
    pace: Pace,
    /// What it counts; `None`: there was no memory for that.
    account: Option<Account>,
}

/// One that has not been waited for yet.
#[derive(Debug)]
struct Process {
    pid: Pid,
    /// Readable when it has ended; `None` if the system has no descriptors for processes.
    descriptor: Option<OwnedFd>,
    born: Instant,
}

/// What a new certifier gets.
pub(super) struct Birth {
    parent: Pid,
    heirs: Heirs,
    account: Option<Account>,
}

impl Certifier {
    /// `None`: no certificate is ordered.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let is_wanted = !settings.acme.certificates.is_empty();
        let account = || shared_lines(Account::LINES).ok().and_then(Account::first_of);
        is_wanted.then(|| Self { process: None, pace: Pace::new(Duration::ZERO, PAUSE), account: account() })
    }

    /// What it has counted, and those before it.
    pub(super) fn counts(&self) -> Counts {
        self.account.map(|account| account.read()).unwrap_or_default()
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
                log::debug!("the certifier started (pid {pid})");
                None
            }
            Ok(Fork::Child) => {
                leave_report();
                Some(Birth { parent, heirs, account: self.account })
            }
            Err(error) => {
                log::error!("cannot start the process that orders certificates: {error}");
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

    /// Records that a process has ended; returns whether it was the certifier.
    pub(super) fn ended(&mut self, pid: Pid, status: Option<WaitStatus>) -> bool {
        let Some(process) = self.process.take_if(|process| process.pid == pid) else { return false };
        let now = Instant::now();
        let pause = self.pace.failed(now, now - process.born).unwrap_or_else(|| self.pace.wait(now)).as_secs_f64();
        let end = status.map_or_else(|| "ended".to_owned(), describe_end);
        log::error!("the process that orders certificates (pid {pid}) {end}; another one starts in {pause:.1} s");
        true
    }

    /// Has it open its log again.
    pub(super) fn reopen_logs(&self) {
        if let Some(process) = &self.process {
            // It has not been waited for, so its process id cannot belong to another process.
            let _ = kill_process(process.pid, Signal::USR1);
        }
    }

    /// Ends it. It has nothing to finish: files are replaced as a whole, and what it has begun is begun anew.
    pub(super) fn end(self) {
        if let Some(Process { pid, .. }) = self.process {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
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

impl Birth {
    /// Runs the certifier, and ends the process only if it cannot go on.
    pub(super) fn live(self, settings: &Settings, privileges: &Privileges, signals: &mut Signals) -> ! {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work(settings, privileges, signals)));
        match outcome {
            Ok(Err(why)) => log::error!("the process that orders certificates: {why}"),
            Ok(Ok(())) => {}
            Err(_) => log::error!("the process that orders certificates: panic"),
        }
        // Neither the app's exit handlers nor the language's may run here.
        exit_now(1)
    }

    fn work(self, settings: &Settings, privileges: &Privileges, signals: &mut Signals) -> Result<(), String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        // It has nothing to finish.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| failed("ask for a signal when the parent dies", error.into()))?;
        if rustix::process::getppid() != Some(self.parent) {
            return Err("the parent has died".to_owned());
        }
        let (wake, waker) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|error| failed("make a pipe", error.into()))?;
        let _watches = take_over_signals(waker, signals, self.heirs).map_err(|error| failed("watch signals", error))?;
        Privileges::hold_in_certifier()?;
        let mut client = Client::new(&settings.acme);
        loop {
            let until = Instant::now() + client.turn();
            let Done { ordered, failed } = client.take_done();
            if let Some(account) = self.account {
                account.add(Counter::CertificatesOrdered, ordered);
                account.add(Counter::CertificatesFailed, failed);
            }
            loop {
                if REOPENINGS.swap(0, SeqCst) > 0 {
                    reopen_error_log(settings, privileges);
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                signals::empty(&wake);
                if REOPENINGS.load(SeqCst) > 0 {
                    continue;
                }
                // However it ends, there is a look at the clock.
                let _ = poll(&mut [PollFd::new(&wake, PollFlags::IN)], Timespec::try_from(left).ok().as_ref());
            }
        }
    }
}

/// Replaces the parent's signal handlers.
fn take_over_signals(waker: OwnedFd, signals: &mut Signals, heirs: Heirs) -> io::Result<Vec<Watch>> {
    let mut watches =
        vec![signals::survive_broken_pipes()?, watch(Signal::USR1, &REOPENINGS, Effect::Count, vec![waker], None)?];
    for signal in PARENTS {
        watches.push(watch(signal, &DISREGARDED, Effect::Nothing, Vec::new(), None)?);
    }
    signals.release();
    drop(heirs);
    Ok(watches)
}
