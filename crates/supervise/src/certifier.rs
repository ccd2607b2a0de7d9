//! The certifier: the process that orders and renews certificates (ACME).
//!
//! The certifier waits for an authority and may block, so that its parent, the first process, need not. No request passes
//! through it: lanes answer the authority's challenges themselves. For challenges in a TLS handshake, they read the proof from
//! a file that the certifier writes (`listen/secure.rs`). The certifier writes new certificates into files, and the first
//! process notices the change. The certifier keeps the server's original user, so that only this user can read the keys.

use super::helper_process::{ForkedHelper, HelperContext, HelperProcess, OnParentDeath};
use super::privileges::Privileges;
use super::reopen_error_log;
use super::signals::Signals;
use oribi_acme::{Answers, Client, Done};
use oribi_config::{Protocol, Settings};
use oribi_io::process::{Fork, shared_lines};
use oribi_listen::Listener;
use oribi_stats::totals::{Account, Counter, Counts};
use rustix::process::{Pid, WaitStatus};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause before the next start of a certifier that has failed. Nothing depends on a faster one.
const PAUSE: Duration = Duration::from_secs(10);

/// Creates the files and folders that must exist before certificates are read: see [`oribi_acme::prepare`]. Returns the data
/// that listeners need to answer challenges. `None` if no certificate is ordered.
///
/// # Errors
/// A file or folder is unusable; the message says which, and why.
pub(super) fn prepare(settings: &Settings) -> Result<Option<Answers>, String> {
    let is_wanted = !settings.acme.certificates.is_empty();
    is_wanted.then(|| oribi_acme::prepare(&settings.acme)).transpose()
}

/// Makes these listeners answer challenges.
pub(super) fn answer_challenges(listeners: &mut [Listener], answers: Option<Answers>) {
    let thumbprint: Option<Arc<str>> = match answers {
        Some(Answers::Http(thumbprint)) => Some(thumbprint.into()),
        Some(Answers::TlsAlpn(file)) => {
            oribi_listen::answer_in_handshakes(listeners, file);
            None
        }
        None => None,
    };
    for listener in listeners.iter_mut().filter(|listener| listener.protocol == Protocol::Http) {
        listener.thumbprint.clone_from(&thumbprint);
    }
}

/// The certifier, in its parent process.
#[derive(Debug)]
pub(super) struct Certifier {
    helper_process: HelperProcess,
    /// The memory for its counters. `None` if the system had none.
    account: Option<Account>,
}

/// The parameters of a new certifier.
pub(super) struct ForkedCertifier {
    forked: ForkedHelper,
    account: Option<Account>,
}

impl Certifier {
    /// Returns `None` if no certificate is ordered.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let is_wanted = !settings.acme.certificates.is_empty();
        let account = || shared_lines(Account::LINES).ok().and_then(Account::first_of);
        let helper_process = HelperProcess::new("the process that orders certificates", PAUSE);
        is_wanted.then(|| Self { helper_process, account: account() })
    }

    /// Returns the counters of the certifier and of those before it.
    pub(super) fn counts(&self) -> Counts {
        self.account.map(|account| account.read()).unwrap_or_default()
    }

    /// Starts the certifier if it is missing. In the new process it returns the parameters of the certifier: the caller must
    /// close the parent's descriptors, and then call [`ForkedCertifier::run_and_exit`]. Returns `None` in the parent.
    pub(super) fn keep_running(&mut self, fork: impl Fn() -> io::Result<Fork>) -> Option<ForkedCertifier> {
        let forked = self.helper_process.keep_running(fork)?;
        Some(ForkedCertifier { forked, account: self.account })
    }

    /// Collects its exit status: see [`HelperProcess::reap`].
    pub(super) fn reap(&mut self) {
        self.helper_process.reap();
    }

    /// Records that a process has ended: see [`HelperProcess::ended`].
    pub(super) fn ended(&mut self, pid: Pid, status: Option<WaitStatus>) -> bool {
        self.helper_process.ended(pid, status)
    }

    /// Makes it reopen its log: see [`HelperProcess::reopen_logs`].
    pub(super) fn reopen_logs(&self) {
        self.helper_process.reopen_logs();
    }

    /// Kills the certifier. It has nothing to finish: it replaces files atomically, and the next certifier continues an order
    /// that may have been issued.
    pub(super) fn end(self) {
        self.helper_process.end();
    }

    /// Returns the descriptor to watch: see [`HelperProcess::descriptor`].
    // Valgrind complains of the inlined function, which would read the descriptor before the check whether there is a helper.
    // That read would be sound.
    #[inline(never)]
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.helper_process.descriptor()
    }

    /// Returns the longest time to sleep: see [`HelperProcess::patience`].
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.helper_process.patience(now)
    }
}

impl ForkedCertifier {
    /// Runs the certifier, and ends the process: when the parent has sent the signal to finish, or when the certifier cannot
    /// continue.
    pub(super) fn run_and_exit(self, settings: &Settings, privileges: &Privileges, signals: &mut Signals) -> ! {
        let Self { forked, account } = self;
        forked.run_and_exit(signals, |context| work(context, account, settings, privileges))
    }
}

fn work(context: &HelperContext, account: Option<Account>, settings: &Settings, privileges: &Privileges) -> Result<(), String> {
    context.follow_parent(OnParentDeath::Kill)?;
    Privileges::hold_in_certifier()?;
    let mut client = Client::new(&settings.acme);
    while !context.must_end() {
        let until = Instant::now() + client.turn();
        let Done { ordered, failed } = client.take_done();
        if let Some(account) = account {
            account.add(Counter::CertificatesOrdered, ordered);
            account.add(Counter::CertificatesFailed, failed);
        }
        while !context.must_end() {
            if context.must_reopen_log() {
                reopen_error_log(settings, privileges);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            context.wait(None, Some(left));
        }
    }
    Ok(())
}
