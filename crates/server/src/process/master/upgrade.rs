//! A master that starts another one in its place, or that another one has started: see [`super::super::upgrade`].

use super::super::edges::Edges;
use super::super::inheritance::Word;
use super::super::notify::Notifier;
use super::super::pid_file::PidFile;
use super::super::upgrade::guardian::{self, GuardianLink, Ward};
use super::super::upgrade::predecessor::{self, Predecessor};
use super::super::upgrade::program::Program;
use super::super::upgrade::successor::{Progress, Successor};
use super::super::{announce, describe_end};
use super::books::ENTERS_EVERY;
use super::{Master, Stage, entitle};
use crate::config::Settings;
use crate::control::Control;
use crate::handover::Sender;
use crate::listen::Listener;
use crate::totals::{Counter, Totals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often a new master looks whether its edges serve; no event reports it.
const LOOK_FOR_EDGES: Duration = Duration::from_millis(5);

/// The totals of the server: those of the master before, if this one can read them.
pub(super) fn totals(is_first: bool) -> io::Result<Totals> {
    match if is_first { None } else { predecessor::totals() } {
        Some(Ok(totals)) => return Ok(totals),
        Some(Err(why)) => log::warn!("all counters of the server begin anew: those of the one before cannot be read: {why}"),
        None if is_first => {}
        None => log::warn!("all counters of the server begin anew: the one before has not passed them on"),
    }
    Totals::in_file()
}

/// The masters before and after this one.
pub(super) struct Succession {
    program: Program,
    /// The master before, until it has ended.
    before: Option<Predecessor>,
    /// The first process of this server, if that is another one.
    guardian: Option<GuardianLink>,
    /// A master that does not serve yet.
    successor: Option<Successor>,
    /// Where later masters report to this process, if it becomes the guardian.
    reports: Option<OwnedFd>,
    /// The master that serves instead of this one, and the socket by which it learns of the end of this one.
    after: Option<Successor>,
    ward: Option<Ward>,
    /// The exit status of the server, if the ward has ended.
    ward_ended: Option<i32>,
    /// The control socket is still to be opened: the master before has it.
    lacks_control: bool,
}

impl Succession {
    /// The succession of this process, and the listeners of the master before, if there was one.
    ///
    /// # Errors
    /// Such a listener cannot be used.
    pub(super) fn of_process() -> Result<(Self, Option<Vec<Listener>>), String> {
        let program = Program::of_process();
        let (before, listeners) = Predecessor::of_environment()?.unzip();
        let guardian = if before.is_some() { predecessor::guardian() } else { None };
        let (successor, reports, after, ward, ward_ended) = (None, None, None, None, None);
        let lacks_control = before.is_some();
        Ok((Self { program, before, guardian, successor, reports, after, ward, ward_ended, lacks_control }, listeners))
    }

    /// In a new edge: closes the sockets to other masters, which learn by that of the end of this one.
    pub(super) fn close(&mut self) {
        (self.before, self.guardian, self.reports, self.ward) = (None, None, None, None);
        (self.successor, self.after) = (None, None);
    }

    /// Whether the server before this one still serves.
    pub(super) fn is_not_ready(&self) -> bool {
        self.before.as_ref().is_some_and(Predecessor::serves)
    }

    /// Whether another master serves instead of this one.
    pub(super) fn hands_over(&self) -> bool {
        self.after.is_some()
    }

    /// What the master watches.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let before = self.before.as_ref().filter(|before| !before.serves()).map(Predecessor::descriptor);
        before.into_iter().chain(self.successor.as_ref().map(Successor::descriptor))
    }

    /// How long the master may sleep at most; `None`: as long as nothing happens.
    pub(super) fn patience(&self, served: bool, now: Instant) -> Option<Duration> {
        let late = self.successor.as_ref().map(|successor| successor.late_at().saturating_duration_since(now));
        let enters = self.hands_over().then_some(ENTERS_EVERY);
        late.into_iter().chain(enters).chain((served && self.lacks_control).then_some(LOOK_FOR_EDGES)).min()
    }
}

impl Master<'_> {
    /// Starts a new master from the program's file. It takes over as soon as it serves; if it cannot, the log says why, and this one
    /// goes on.
    ///
    /// # Errors
    /// Says why no new master was started.
    pub(super) fn upgrade(&mut self) -> Result<(), String> {
        if self.stage != Stage::Serving || !self.served || self.farewell.is_some() || self.succession.is_not_ready() {
            return Err("not upgraded: the server is starting or stopping".to_owned());
        }
        if let Some(successor) = &self.succession.successor {
            return Err(format!("an upgrade is under way already (pid {})", successor.pid));
        }
        // A service manager follows the number of the main process; nobody else does.
        let own =
            if self.succession.guardian.is_none() && !Notifier::is_wanted() { guardian::socket().map(Some) } else { Ok(None) };
        let started = own.and_then(|own| {
            let link = own.as_ref().map(|(_, link)| link).or(self.succession.guardian.as_ref());
            let totals = self.books.totals();
            let successor = Successor::start(&self.succession.program, &self.listeners, link, totals)?;
            Ok((successor, own.map(|(reports, _)| reports)))
        });
        let (successor, reports) = started.map_err(|error| format!("cannot start a new server: {error}"))?;
        log::info!("upgrading: a new server is starting (pid {})", successor.pid);
        self.notifier.reloading();
        (self.succession.successor, self.succession.reports) = (Some(successor), reports);
        Ok(())
    }

    pub(super) fn go_on_with_upgrade(&mut self) {
        self.take_over_when_ready();
        let now = Instant::now();
        let Some(successor) = &mut self.succession.successor else { return };
        if self.stage != Stage::Serving {
            log::info!("the upgrade is given up, because the server stops");
            return self.give_up_upgrade();
        }
        match successor.progress(now) {
            Progress::Loading => {}
            Progress::Serves(edges) => self.yield_to(&edges, now),
            Progress::Late => {
                log::error!("the new server (pid {}) takes too long and is ended; this one serves on", successor.pid);
                self.give_up_upgrade();
                self.books.count(Counter::UpgradesFailed);
                self.notifier.reloaded("the program could not be upgraded; serving with the one before");
            }
        }
    }

    fn give_up_upgrade(&mut self) {
        self.succession.reports = None;
        if let Some(successor) = self.succession.successor.take() {
            successor.end();
        }
    }

    /// The new master serves: everything here finishes.
    fn yield_to(&mut self, edges: &[Sender], now: Instant) {
        let Some(after) = self.succession.successor.take() else { return };
        let pid = after.pid;
        log::info!("the new server (pid {pid}) has taken over; this one finishes what it has");
        self.succession.after = Some(after);
        self.succession.ward = self.succession.reports.take().map(|reports| Ward::new(pid, reports));
        self.notifier.yields_to(pid);
        self.keep_books();
        // The new master opens one at the same place.
        self.control = None;
        self.listeners.iter_mut().for_each(Listener::lend);
        self.restart_file = None;
        entitle(self.settings, "handing over");
        let patience = self.patience();
        match &mut self.edges {
            Some(own) => {
                if edges.is_empty() {
                    log::warn!("the new server takes no connections from this one: they close after their next responses");
                }
                own.hand_over(edges, now + self.settings.timeouts.graceful);
                self.stage = Stage::Draining { deadline: now + patience };
            }
            None => {
                self.generations.iter_mut().for_each(|generation| generation.leave(patience));
                self.stage = Stage::Stopping { deadline: now + patience, cut: false };
            }
        }
    }

    /// Takes over from the master before as soon as this one serves, and notes its end.
    fn take_over_when_ready(&mut self) {
        let Some(before) = &mut self.succession.before else { return };
        if before.serves() {
            if !self.served || self.stage != Stage::Serving {
                if before.has_ended(None) {
                    log::error!("the server before has ended, and this one has not taken over");
                    self.stage = Stage::Ended { status: 1 };
                }
                return;
            }
            let Some(edges) = self.edges.as_mut().map_or(Some(Vec::new()), Edges::successors) else { return };
            before.take_over(&edges, &mut self.listeners);
            self.books.count(Counter::Upgrades);
            if !self.listeners.iter().any(|listener| listener.lent) {
                self.generations.iter().for_each(|generation| generation.link.say(Word::Own));
            }
            match &self.succession.guardian {
                Some(guardian) => guardian.report(),
                None => self.take_over_number(),
            }
            self.notifier = Notifier::of_environment();
            self.notifier.ready("serving, upgraded");
            announce(&self.listeners, self.settings);
            return;
        }
        let has_ended = before.has_ended(self.succession.guardian.as_ref());
        if self.succession.lacks_control {
            match Control::open(self.settings) {
                // It is open at the master before, until that has heard of this one.
                Err(_) if !has_ended => {}
                opened => {
                    self.succession.lacks_control = false;
                    self.control = opened.unwrap_or_else(|why| {
                        log::error!("`oribi ctl` cannot reach this server: {why}");
                        None
                    });
                }
            }
        }
        if has_ended {
            self.succession.before = None;
            let Some(guardian) = &self.succession.guardian else { return };
            if guardian.follow() {
                log::info!("this server follows the first process");
            } else {
                log::error!("the first process of this server has died");
                self.stop();
            }
        }
    }

    /// From now on the server is known by the number of this process.
    fn take_over_number(&mut self) {
        match self.settings.pid_file.as_deref().map(PidFile::write).transpose() {
            Ok(file) => self.pid_file = file,
            Err(message) => log::error!("{message}"),
        }
    }

    /// Notes the end of a process; `false`: it was no other master.
    pub(super) fn note_end_of_master(&mut self, pid: Pid, status: WaitStatus) -> bool {
        let Succession { successor, reports, after, ward, ward_ended, .. } = &mut self.succession;
        if successor.take_if(|successor| successor.pid == pid).is_some() {
            *reports = None;
            self.books.count(Counter::UpgradesFailed);
            log::error!("the new server (pid {pid}) {}, so this one serves on", describe_end(status));
            self.notifier.reloaded("the program could not be upgraded; serving with the one before");
            return true;
        }
        if ward.as_mut().is_some_and(|ward| ward.is(pid)) {
            *ward_ended = Some(exit_status(status));
            return true;
        }
        after.as_ref().is_some_and(|after| after.pid == pid)
    }

    /// Passes signals on if another master serves; `false`: they are for this one.
    pub(super) fn pass_signals_on(&mut self) -> bool {
        match (&mut self.succession.ward, &self.succession.after) {
            (Some(ward), _) => ward.pass_signals_on(),
            (None, Some(after)) => guardian::pass_signals_on(after.pid),
            (None, None) => return false,
        }
        true
    }

    /// Everything of this master has ended: returns the exit status for the process. The guardian of a server waits for its last
    /// master.
    pub(super) fn conclude(&mut self, status: i32) -> i32 {
        if self.succession.after.is_none() {
            return status;
        }
        let Some(ward) = &mut self.succession.ward else { return 0 };
        entitle_guardian(self.settings);
        self.listeners.clear();
        self.edges = None;
        // The new master learns by this that nothing is left here.
        self.succession.after = None;
        loop {
            self.signals.rearm();
            ward.pass_signals_on();
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                if ward.is(pid) {
                    self.succession.ward_ended = Some(exit_status(status));
                }
            }
            if let Some(status) = self.succession.ward_ended {
                return status;
            }
            // It is interrupted by nothing but what ends it.
            let mut polled: Vec<_> =
                self.signals.arrival().map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).into_iter().collect();
            let _ = poll(&mut polled, None);
        }
    }
}

fn entitle_guardian(settings: &Settings) {
    super::Title { role: "guardian", generation: None, state: "" }.show(settings, None);
}

fn exit_status(status: WaitStatus) -> i32 {
    status.exit_status().unwrap_or(1)
}
