//! The servers before and after a server process.

use super::super::scaled::Scaled;
use super::super::server_totals::ADDS_EVERY;
use super::guardian::{self, GuardianLink, WatchedMasters};
use super::predecessor::{self, Predecessor};
use super::program::Program;
use super::successor::{Dismissed, Estate, Kinship, Successor};
use oribi_admin::control::Progress;
use oribi_listen::Listener;
use rustix::process::{Pid, WaitStatus};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The interval at which a new server checks whether its edges serve, which no event reports.
const LOOK_FOR_EDGES: Duration = Duration::from_millis(5);

/// The servers before and after this one.
pub(in super::super) struct Succession {
    /// The program to start for an upgrade. `None` if this server cannot be started again.
    program: Option<Program>,
    /// The previous server, until it has ended.
    pub(in super::super) before: Option<Predecessor>,
    /// The socket to the first process of this server, the guardian, if that is another process.
    pub(in super::super) guardian: Option<GuardianLink>,
    /// The next server, from its start until it serves or is given up.
    pub(in super::super) successor: Option<Successor>,
    /// The socket on which later masters report to this process, if this process becomes the guardian.
    reports: Option<OwnedFd>,
    /// New servers that were given up before they served, and that must end.
    dismissed: Vec<Dismissed>,
    /// The outcome of the last upgrade.
    pub(in super::super) outcome: Progress,
    /// The server that serves instead of this one, with the socket by which that server notices the end of this one.
    pub(in super::super) after: Option<Successor>,
    pub(in super::super) watched_masters: Option<WatchedMasters>,
    /// If this process is the guardian: the exit status of the server, when no master is left to watch. In another process: the
    /// exit status of the server that serves instead of this one, if that server has ended.
    pub(in super::super) ended: Option<i32>,
    /// The number of workers that was set while the previous server served, until this server has taken it over.
    pub(in super::super) scaled: Option<Scaled>,
}

impl Succession {
    /// Returns the succession of this process, whose `program` can be started again, and the listeners of the previous server,
    /// if there was one.
    ///
    /// # Errors
    /// A listener of the previous server is unusable.
    pub(in super::super) fn of_process() -> Result<(Self, Option<Vec<Listener>>), String> {
        let (before, listeners) = Predecessor::of_environment()?.unzip();
        let guardian = if before.is_some() { predecessor::guardian() } else { None };
        let scaled = before.as_ref().and_then(|before| Scaled::left_by(before.pid()));
        Ok((Self { program: Some(Program::of_process()), before, guardian, scaled, ..Self::none() }, listeners))
    }

    /// Returns the succession of a process without a predecessor and a successor.
    pub(in super::super) fn none() -> Self {
        Self {
            program: None,
            before: None,
            guardian: None,
            successor: None,
            reports: None,
            dismissed: Vec::new(),
            outcome: Progress::Failed("no upgrade was requested".to_owned()),
            after: None,
            watched_masters: None,
            ended: None,
            scaled: None,
        }
    }

    /// Whether this process can start a successor. If so, it waits for all its children, and also for descendants whose parents
    /// have died.
    pub(in super::super) fn is_possible(&self) -> bool {
        self.program.is_some()
    }

    /// In a process that has just been forked: closes the sockets to other servers. These servers notice the end of this server
    /// by the end of its sockets.
    pub(in super::super) fn close(&mut self) {
        *self = Self::none();
    }

    /// Whether the previous server still serves, so that this server has not taken over.
    pub(in super::super) fn is_not_ready(&self) -> bool {
        self.before.as_ref().is_some_and(Predecessor::serves)
    }

    /// Whether another server serves instead of this one.
    pub(in super::super) fn has_yielded(&self) -> bool {
        self.after.is_some()
    }

    /// Returns the process id by which other programs know this server.
    pub(in super::super) fn known_as(&self) -> u32 {
        self.guardian.as_ref().map_or_else(std::process::id, GuardianLink::process)
    }

    /// Returns the outcome of the last upgrade.
    pub(in super::super) fn outcome(&self) -> Progress {
        self.outcome.clone()
    }

    /// Returns the descriptors to watch.
    pub(in super::super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let before = self.before.as_ref().filter(|before| !before.serves()).map(Predecessor::descriptor);
        let end = self.successor.as_ref().and_then(Successor::end_descriptor);
        before.into_iter().chain(self.successor.as_ref().map(Successor::descriptor)).chain(end)
    }

    /// Returns the longest time that this process may sleep. `None` without a deadline. `served`: whether the app has served.
    pub(in super::super) fn patience(&self, served: bool, now: Instant) -> Option<Duration> {
        if served && self.is_not_ready() {
            return Some(LOOK_FOR_EDGES);
        }
        let late = self.successor.as_ref().map(Successor::late_at);
        let enters = self.has_yielded().then(|| now + ADDS_EVERY);
        let next = late.into_iter().chain(self.dismissed.iter().map(Dismissed::end_at)).chain(enters).min();
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Makes later servers serve by this file with apps.
    pub(in super::super) fn use_applied(&mut self, file: &std::path::Path) {
        self.program.iter_mut().for_each(|program| program.use_applied(file.to_owned()));
    }

    /// Starts the program again; returns the process id of the new server.
    pub(in super::super) fn start_successor(
        &mut self,
        estate: Estate<'_>,
        has_manager: bool,
        limit: Duration,
    ) -> Result<Pid, String> {
        let program = self.program.as_ref().ok_or(super::super::signals::NO_UPGRADE)?;
        if self.is_not_ready() {
            return Err("not upgraded: the server is starting".to_owned());
        }
        if let Some(successor) = &self.successor {
            return Err(format!("an upgrade is under way already (pid {})", successor.pid));
        }
        // No guardian is needed if a service manager follows the id of the main process.
        let kinship = if self.guardian.is_none() && has_manager { Kinship::Sibling } else { Kinship::Child };
        let own = if self.guardian.is_none() && !has_manager { guardian::socket().map(Some) } else { Ok(None) };
        let started = own.and_then(|own| {
            // Later servers become children of the guardian when the server that has started them has ended.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
            let link = own.as_ref().map(|(_, link)| link).or(self.guardian.as_ref());
            let successor = Successor::start(program, link, estate, (limit, kinship))?;
            Ok((successor, own.map(|(reports, _)| reports)))
        });
        let (successor, reports) = started.map_err(|error| format!("cannot start {}: {error}", program.file().display()))?;
        let pid = successor.pid;
        (self.successor, self.reports, self.outcome) = (Some(successor), reports, Progress::Pending);
        Ok(pid)
    }

    /// Gives up the new server, which has not taken over, for the reason `why`. It is killed if it has not ended after
    /// `patience`.
    pub(in super::super) fn dismiss(&mut self, why: String, patience: Duration) {
        self.reports = None;
        self.dismissed.extend(self.successor.take().map(|successor| successor.dismiss(patience)));
        self.outcome = Progress::Failed(why);
    }

    /// Kills given-up servers that have not ended in time.
    pub(in super::super) fn end_dismissed(&mut self, now: Instant) {
        self.dismissed.retain(|dismissed| !dismissed.has_ended());
        self.dismissed.iter_mut().for_each(|dismissed| dismissed.end_if_late(now));
    }

    /// Waits for given-up servers, before this process ends.
    pub(in super::super) fn wait_for_dismissed(&mut self) {
        for dismissed in std::mem::take(&mut self.dismissed) {
            dismissed.wait();
        }
    }

    /// Forgets the new server, which has ended and was no child of this process; returns its process id.
    pub(in super::super) fn forget_successor(&mut self) -> Option<Pid> {
        self.successor.take().map(|successor| successor.pid)
    }

    /// Records that the new server serves; returns its process id. `None` if there is no new server.
    pub(in super::super) fn yield_to_successor(&mut self) -> Option<Pid> {
        let after = self.successor.take()?;
        let pid = after.pid;
        self.after = Some(after);
        self.watched_masters = self.reports.take().map(|reports| WatchedMasters::new(pid, reports));
        if self.watched_masters.is_none()
            && let Err(error) = rustix::process::set_child_subreaper(None)
        {
            // The new server may be replaced by yet another server before this process has finished. That third server must
            // then become the child of the guardian, which waits for it, and whose death it follows.
            log::error!("cannot make the first process the parent of later servers: {}", std::io::Error::from(error));
        }
        self.outcome = Progress::Done(format!("the new server has taken over (pid {pid})"));
        Some(pid)
    }

    /// Records the end of process `pid`; returns the relation of that process to this server.
    pub(in super::super) fn note_end(&mut self, pid: Pid, status: WaitStatus) -> EndedProcess {
        if self.successor.take_if(|successor| successor.pid == pid).is_some() {
            self.reports = None;
            return EndedProcess::Successor;
        }
        let is_after = self.after.as_ref().is_some_and(|after| after.pid == pid);
        match &mut self.watched_masters {
            Some(watched_masters) => self.ended = watched_masters.note_end(pid, exit_status(status)),
            None if is_after => self.ended = Some(exit_status(status)),
            None => {}
        }
        let dismissed = self.dismissed.len();
        self.dismissed.retain(|dismissed| dismissed.pid != pid);
        let known = dismissed > self.dismissed.len() || is_after;
        if known { EndedProcess::Other } else { EndedProcess::Stranger }
    }

    /// If another server serves, passes on the signals that have arrived. Returns `false` if the signals are for this process.
    pub(in super::super) fn pass_signals_on(&mut self) -> bool {
        match (&mut self.watched_masters, &self.after) {
            // The other server has ended.
            _ if self.ended.is_some() || self.after.as_ref().is_some_and(Successor::has_ended) => return false,
            (Some(watched_masters), _) => _ = watched_masters.pass_signals_on(),
            (None, Some(after)) => _ = guardian::pass_signals_on(&[after.pid]),
            (None, None) => return false,
        }
        true
    }
}

/// The relation of an ended process to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum EndedProcess {
    /// A server that was to take over, and had not.
    Successor,
    /// Another server before or after this one.
    Other,
    /// Not a server.
    Stranger,
}

pub(in super::super) fn exit_status(status: WaitStatus) -> i32 {
    status.exit_status().unwrap_or(1)
}
