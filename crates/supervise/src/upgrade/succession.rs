//! What is before and after a server process: the one that has started it in its place, and the one that it starts in its place.

use super::super::books::{Books, ENTERS_EVERY};
use super::super::scaled::Scaled;
use super::guardian::{self, GuardianLink, Ward};
use super::predecessor::{self, Predecessor};
use super::program::Program;
use super::successor::{Dismissed, Successor};
use oribi_admin::control::Progress;
use oribi_admin::metrics::Metrics;
use oribi_listen::Listener;
use rustix::process::{Pid, WaitStatus};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often a new server looks whether its edges serve; no event reports it.
const LOOK_FOR_EDGES: Duration = Duration::from_millis(5);

/// The servers before and after this one.
pub(in super::super) struct Succession {
    /// `None`: nobody knows how to start this server anew.
    program: Option<Program>,
    /// The server before, until it has ended.
    pub(super) before: Option<Predecessor>,
    /// The first process of this server, if that is another one.
    pub(super) guardian: Option<GuardianLink>,
    /// A server that does not serve yet.
    pub(super) successor: Option<Successor>,
    /// Where later servers report to this process, if it becomes the guardian.
    reports: Option<OwnedFd>,
    /// Servers that were to come after this one, and are to end.
    dismissed: Vec<Dismissed>,
    /// What has become of the last upgrade.
    pub(super) outcome: Progress,
    /// The server that serves instead of this one, and the socket by which it learns of the end of this one.
    pub(super) after: Option<Successor>,
    pub(super) ward: Option<Ward>,
    /// The exit status of the server, if no ward is left, or without any if the server that serves instead of this one has ended.
    pub(super) ended: Option<i32>,
    /// The number of workers that the server before has left, until it is set here.
    pub(super) scaled: Option<Scaled>,
}

impl Succession {
    /// The succession of a process whose `program` can be started anew, and the listeners of the server before, if there was one.
    ///
    /// # Errors
    /// Such a listener cannot be used.
    pub(in super::super) fn of_process() -> Result<(Self, Option<Vec<Listener>>), String> {
        let (before, listeners) = Predecessor::of_environment()?.unzip();
        let guardian = if before.is_some() { predecessor::guardian() } else { None };
        let scaled = before.as_ref().and_then(|before| Scaled::left_by(before.pid()));
        Ok((Self { program: Some(Program::of_process()), before, guardian, scaled, ..Self::none() }, listeners))
    }

    /// That of a process which has none.
    pub(in super::super) fn none() -> Self {
        Self {
            program: None,
            before: None,
            guardian: None,
            successor: None,
            reports: None,
            dismissed: Vec::new(),
            outcome: Progress::Failed("nobody has asked for an upgrade".to_owned()),
            after: None,
            ward: None,
            ended: None,
            scaled: None,
        }
    }

    /// Whether this process can start another one in its place. Then it waits for all its children, and those of processes below it
    /// that have died.
    pub(in super::super) fn is_possible(&self) -> bool {
        self.program.is_some()
    }

    /// In a process that has just been forked: closes the sockets to other servers, which learn by that of the end of this one.
    pub(in super::super) fn close(&mut self) {
        *self = Self::none();
    }

    /// Whether the server before this one still serves.
    pub(in super::super) fn is_not_ready(&self) -> bool {
        self.before.as_ref().is_some_and(Predecessor::serves)
    }

    /// Whether another server serves instead of this one.
    pub(in super::super) fn has_yielded(&self) -> bool {
        self.after.is_some()
    }

    /// The process that others know this server by.
    pub(in super::super) fn known_as(&self) -> u32 {
        self.guardian.as_ref().map_or_else(std::process::id, GuardianLink::process)
    }

    /// What has become of the last upgrade.
    pub(in super::super) fn outcome(&self) -> Progress {
        self.outcome.clone()
    }

    /// What the server watches.
    pub(in super::super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let before = self.before.as_ref().filter(|before| !before.serves()).map(Predecessor::descriptor);
        before.into_iter().chain(self.successor.as_ref().map(Successor::descriptor))
    }

    /// How long the server may sleep at most; `None`: as long as nothing happens. `served` says that its app serves.
    pub(in super::super) fn patience(&self, served: bool, now: Instant) -> Option<Duration> {
        if served && self.is_not_ready() {
            return Some(LOOK_FOR_EDGES);
        }
        let late = self.successor.as_ref().map(Successor::late_at);
        let enters = self.has_yielded().then(|| now + ENTERS_EVERY);
        let next = late.into_iter().chain(self.dismissed.iter().map(Dismissed::end_at)).chain(enters).min();
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Starts the program anew.
    pub(super) fn start_successor(
        &mut self,
        listeners: &[Listener],
        books: &Books,
        metrics: Option<&Metrics>,
        has_manager: bool,
        limit: Duration,
        scaled: Option<Scaled>,
    ) -> Result<Pid, String> {
        let program = self.program.as_ref().ok_or(super::super::signals::NO_UPGRADE)?;
        if self.is_not_ready() {
            return Err("not upgraded: the server is starting".to_owned());
        }
        if let Some(successor) = &self.successor {
            return Err(format!("an upgrade is under way already (pid {})", successor.pid));
        }
        // A service manager follows the number of the main process; nobody else does.
        let own = if self.guardian.is_none() && !has_manager { guardian::socket().map(Some) } else { Ok(None) };
        let started = own.and_then(|own| {
            // Later servers become children of the guardian when the one before them has ended.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
            let link = own.as_ref().map(|(_, link)| link).or(self.guardian.as_ref());
            let successor = Successor::start(program, listeners, link, books, metrics, (limit, scaled))?;
            Ok((successor, own.map(|(reports, _)| reports)))
        });
        let (successor, reports) = started.map_err(|error| format!("cannot start {}: {error}", program.file().display()))?;
        let pid = successor.pid;
        (self.successor, self.reports, self.outcome) = (Some(successor), reports, Progress::Pending);
        Ok(pid)
    }

    /// The new server is to end, because it has not taken over.
    pub(super) fn dismiss(&mut self, why: String, patience: Duration) {
        self.reports = None;
        self.dismissed.extend(self.successor.take().map(|successor| successor.dismiss(patience)));
        self.outcome = Progress::Failed(why);
    }

    /// Ends dismissed servers that have not ended by themselves.
    pub(super) fn end_dismissed(&mut self, now: Instant) {
        self.dismissed.iter_mut().for_each(|dismissed| dismissed.end_if_late(now));
    }

    /// Before this process ends: waits for dismissed servers.
    pub(super) fn wait_for_dismissed(&mut self) {
        for dismissed in std::mem::take(&mut self.dismissed) {
            dismissed.wait();
        }
    }

    /// The new server serves.
    pub(super) fn yield_to_successor(&mut self) -> Option<Pid> {
        let after = self.successor.take()?;
        let pid = after.pid;
        self.after = Some(after);
        self.ward = self.reports.take().map(|reports| Ward::new(pid, reports));
        if self.ward.is_none()
            && let Err(error) = rustix::process::set_child_subreaper(None)
        {
            // It may take longer to finish than that server takes to be replaced by yet another one. That one is to be the guardian's
            // child then, who waits for it and whose death it follows.
            log::error!("cannot leave the processes of later servers to the first one: {}", std::io::Error::from(error));
        }
        self.outcome = Progress::Done(format!("the new server has taken over (pid {pid})"));
        Some(pid)
    }

    /// Notes the end of a process.
    pub(super) fn note_end(&mut self, pid: Pid, status: WaitStatus) -> Ended {
        if self.successor.take_if(|successor| successor.pid == pid).is_some() {
            self.reports = None;
            return Ended::Successor;
        }
        let is_after = self.after.as_ref().is_some_and(|after| after.pid == pid);
        match &mut self.ward {
            Some(ward) => self.ended = ward.note_end(pid, exit_status(status)),
            None if is_after => self.ended = Some(exit_status(status)),
            None => {}
        }
        let dismissed = self.dismissed.len();
        self.dismissed.retain(|dismissed| dismissed.pid != pid);
        let known = dismissed > self.dismissed.len() || is_after;
        if known { Ended::Other } else { Ended::Stranger }
    }

    /// Passes signals on if another server serves; `false`: they are for this one.
    pub(in super::super) fn pass_signals_on(&mut self) -> bool {
        match (&mut self.ward, &self.after) {
            // Nobody else is left.
            _ if self.ended.is_some() => return false,
            (Some(ward), _) => _ = ward.pass_signals_on(),
            (None, Some(after)) => _ = guardian::pass_signals_on(&[after.pid]),
            (None, None) => return false,
        }
        true
    }
}

/// Whose end was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// That of a server that was to take over, and had not.
    Successor,
    /// That of another server before or after this one.
    Other,
    /// It was none of them.
    Stranger,
}

pub(super) fn exit_status(status: WaitStatus) -> i32 {
    status.exit_status().unwrap_or(1)
}
