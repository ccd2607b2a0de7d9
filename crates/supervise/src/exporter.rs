//! The exporter: the process that sends the spans of requests to a collector (`--trace-export`).
//!
//! The processes that answer requests send the exporter each sampled request, without waiting, by a socket that all of them
//! have inherited ([`oribi_ipc::spans`]). The process that has opened the socket keeps it open, so that messages sent while no
//! exporter runs wait for the next exporter. The exporter ends after all other processes, so that the last requests are also
//! exported.

use super::helper_process::{ForkedHelper, HelperContext, HelperProcess, OnParentDeath};
use super::privileges::Privileges;
use super::signals::Signals;
use oribi_config::Settings;
use oribi_io::process::{Fork, environment};
use oribi_ipc::spans::SpanSender;
use oribi_otlp::{Exporter as Deliverer, LARGEST_MESSAGE};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, WaitStatus};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause before the next start of an exporter that has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The time that the exporter has to export its last spans when it ends.
const LAST: Duration = Duration::from_millis(1500);

/// The time for which the parent waits for the end of the exporter.
const PATIENCE: Duration = Duration::from_millis(2500);

/// The number of messages read before the exporter checks its signals: more than the socket holds.
const IN_A_ROW: usize = 1000;

/// The exporter, in its parent process.
#[derive(Debug)]
pub(super) struct Exporter {
    helper_process: HelperProcess,
    /// The source of spans.
    receiver: OwnedFd,
}

/// The parameters of a new exporter.
pub(super) struct ForkedExporter {
    forked: ForkedHelper,
    receiver: OwnedFd,
}

impl Exporter {
    /// Opens the socket for spans. `None` if spans are not exported.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub(super) fn new(settings: &Settings) -> Result<Option<Self>, String> {
        let Some(url) = settings.trace_export.endpoint.as_ref().filter(|_| settings.traces) else { return Ok(None) };
        let receiver = SpanSender::open().map_err(|error| format!("cannot open a socket for spans: {error}"))?;
        log::info!("spans of sampled requests go to {url}");
        Ok(Some(Self { helper_process: HelperProcess::new("the process that exports spans", PAUSE), receiver }))
    }

    /// Starts the exporter if it is missing. In the new process it returns the parameters of the exporter: the caller must
    /// close the parent's descriptors, and then call [`ForkedExporter::run_and_exit`]. Returns `None` in the parent.
    pub(super) fn keep_running(&mut self, fork: impl Fn() -> io::Result<Fork>) -> Option<ForkedExporter> {
        let forked = self.helper_process.keep_running(fork)?;
        match self.receiver.try_clone() {
            Ok(receiver) => Some(ForkedExporter { forked, receiver }),
            Err(error) => {
                log::error!("the process that exports spans: {error}");
                oribi_io::process::exit_now(1)
            }
        }
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

    /// Makes the exporter export its last spans and end. Called when all other processes have ended.
    pub(super) fn finish(self) {
        self.helper_process.finish(PATIENCE);
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

impl ForkedExporter {
    /// Runs the exporter, and ends the process.
    pub(super) fn run_and_exit(self, settings: &Settings, privileges: &Privileges, signals: &mut Signals) -> ! {
        let Self { forked, receiver } = self;
        forked.run_and_exit(signals, |context| work(context, &receiver, settings, privileges))
    }
}

fn work(context: &HelperContext, receiver: &OwnedFd, settings: &Settings, privileges: &Privileges) -> Result<(), String> {
    // The collector is prepared before the privileges are dropped, because perhaps only root can read the file of authorities.
    // The deliverer's thread is started after that, because a thread keeps the rights of the thread that starts it.
    let prepared = oribi_otlp::Collector::new(&settings.trace_export, environment::variable)?;
    privileges.drop_in_client()?;
    context.follow_parent(OnParentDeath::Finish)?;
    let deliverer = Deliverer::start(prepared, resource(settings))?;
    let mut message = vec![0; LARGEST_MESSAGE];
    let mut is_open = true;
    loop {
        if context.must_reopen_log()
            && let Err(error) = oribi_log::reopen_error_log(settings)
        {
            log::error!("cannot open the error log again: {error}");
        }
        // Messages sent before the signal to finish are still read.
        let ends = context.must_end();
        for _ in 0..IN_A_ROW {
            match recv(receiver, message.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    // Another process with a copy of the socket has shut it down.
                    log::error!(
                        "spans: the socket for them was shut down, and nothing more is exported until the server is restarted"
                    );
                    is_open = false;
                    break;
                }
                Ok((size, _)) => deliverer.take(&message[..size.min(LARGEST_MESSAGE)])?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(format!("cannot read spans: {}", io::Error::from(error))),
            }
        }
        if ends {
            deliverer.finish(Instant::now() + LAST);
            return Ok(());
        }
        context.wait(is_open.then(|| receiver.as_fd()), None);
    }
}

/// Returns the attributes of this server for the collector.
fn resource(settings: &Settings) -> Vec<(&'static str, String)> {
    let file = Path::new(&settings.app_name).file_name().and_then(|name| name.to_str());
    let name = match (settings.trace_export.service.as_str(), file) {
        ("", Some(name)) => name,
        ("", None) => "unknown_service:oribi",
        (name, _) => name,
    };
    let system = rustix::system::uname();
    let host = system.nodename().to_str().unwrap_or_default().to_owned();
    vec![("service.name", name.to_owned()), ("host.name", host)]
}
