//! The steps of an upgrade, in a first process that starts its successor or that was started as one.

use super::super::edges::Edges;
use super::super::notify::{self, Notifier, Reloading};
use super::super::pid_file::PidFile;
use super::super::scaled::Scaled;
use super::super::scaling;
use super::super::server::Phase;
use super::super::signals;
use super::super::title::Title;
use super::super::upgrade::{EndedProcess, Estate, Succession, SuccessorProgress, exit_status};
use super::super::watched_files::WatchedFiles;
use super::super::workforce::Finish;
use super::super::{announce, describe_end};
use super::FirstProcess;
use oribi_admin::control::{self, Control, Steered};
use oribi_admin::metrics::{self, Metrics};
use oribi_control_api::WorkerTarget;
use oribi_ipc::handover::Sender;
use oribi_listen::{Listener, fit_sockets};
use oribi_stats::totals::Counter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use std::time::{Duration, Instant};

/// The time that a new server has to end after it was given up, beyond the time for running requests.
const GRACE: Duration = Duration::from_secs(5);

/// The state of a server with regard to an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// A part of the server does not serve yet.
    Starts,
    Serves,
    /// The server stops, or is in its drain period.
    Ends,
}

impl FirstProcess<'_> {
    fn condition(&self) -> Condition {
        if !self.server.stays() {
            Condition::Ends
        } else if self.workforce.is_complete() {
            Condition::Serves
        } else {
            Condition::Starts
        }
    }

    /// Starts a new server from the program's file. The new server takes over as soon as it serves; if it cannot, the log says
    /// why, and this server continues.
    ///
    /// # Errors
    /// No new server was started; the message says why.
    pub(super) fn upgrade(&mut self) -> Result<(), String> {
        let (condition, wanted) = (self.condition(), self.workforce.wanted());
        let server = &mut self.server;
        if server.succession.is_possible() && condition != Condition::Serves {
            return Err("not upgraded: the server is starting or stopping".to_owned());
        }
        if self.workforce.is_applying() {
            return Err("not upgraded: the file is being applied".to_owned());
        }
        // The end of process 1 would be the end of all others.
        let has_manager = Notifier::is_wanted() && std::process::id() != 1;
        let limit = server.settings.life.upgrade_timeout;
        let scaled = self.workforce.has_one_app().then(|| Scaled::of(server.settings, wanted, self.workforce.follows_load()));
        let estate = Estate {
            listeners: &server.listeners,
            totals: &server.totals,
            metrics: server.metrics.as_ref(),
            boxes: server.edges.as_ref().map(|edges| &**edges.posts()),
            scaled: scaled.flatten(),
        };
        let pid = server.succession.start_successor(estate, has_manager, limit)?;
        log::info!("upgrading: a new server is starting (pid {pid})");
        server.notifier.reloading(Reloading::Program);
        Ok(())
    }

    /// Sets the number of workers that was set while the previous server served, unless the configured number has changed
    /// since.
    pub(super) fn keep_scale(&mut self) {
        let Some(scaled) = self.server.succession.scaled.take() else { return };
        let (configured, Scaled { configured: before, wanted, follows_load }) =
            (self.server.settings.workers.at_start(), scaled);
        if follows_load && self.server.settings.workers.follows_load() {
            return self.workforce.begin_with(wanted);
        }
        if configured != before {
            log::info!(
                "workers: {configured}: the configuration has changed from {before}, so the {wanted} that were set since are \
                 given up"
            );
        } else if let Err(why) = self.scale(None, WorkerTarget::Number(wanted)) {
            log::warn!("the number of workers that was set in the old server, {wanted}, cannot be kept: {why}");
        }
    }

    /// Handles signals that correspond to orders on the control socket: an upgrade, or another number of workers.
    pub(super) fn handle_upgrade_signals(&mut self) {
        if signals::take(Signal::USR2) > 0
            && let Err(why) = self.upgrade()
        {
            log::warn!("{why}");
        }
        let (more, fewer) = (signals::take(Signal::TTIN) as usize, signals::take(Signal::TTOU) as usize);
        if more + fewer > 0 {
            let (present, most) = (self.workforce.wanted(), self.workforce.most_workers(&self.server));
            let target = WorkerTarget::Number(scaling::changed(most, present, more, fewer));
            if let Err(why) = self.scale(None, target) {
                log::warn!("{why}");
            }
        }
    }

    /// Takes the next step of an upgrade, if one is due.
    pub(super) fn advance_upgrade(&mut self) {
        self.take_over_when_ready();
        let (now, condition) = (Instant::now(), self.condition());
        let server = &mut self.server;
        server.succession.end_dismissed(now);
        let Some(successor) = &mut server.succession.successor else { return };
        let patience = server.settings.timeouts.graceful.saturating_add(GRACE);
        if condition == Condition::Ends {
            log::info!("the upgrade is given up, because the server stops");
            return server.succession.dismiss("the upgrade was given up, because the server stops".to_owned(), patience);
        }
        match successor.progress(now) {
            SuccessorProgress::Loading => {}
            SuccessorProgress::Ended => {
                if let Some(pid) = server.succession.forget_successor() {
                    self.note_failed_upgrade(pid, "ended");
                }
            }
            SuccessorProgress::Serves(edges) => self.yield_to(&edges),
            SuccessorProgress::Late => {
                let (pid, limit) = (successor.pid, server.settings.life.upgrade_timeout.as_secs_f64());
                let why = format!(
                    "the new server (pid {pid}) does not serve after {limit} s (--upgrade-timeout) and is stopped; this one \
                     keeps serving"
                );
                log::error!("{why}");
                server.succession.dismiss(why, patience);
                server.totals.count(Counter::UpgradesFailed);
                server.notifier.reloaded(Reloading::Program, "the program could not be upgraded; serving with the one before");
            }
        }
    }

    /// Finishes everything here, because the new server serves. `edges` are the destinations for connections. If there are
    /// none, the new server takes no connections of this version, or has no edges.
    fn yield_to(&mut self, edges: &[Sender]) {
        let server = &mut self.server;
        let Some(pid) = server.succession.yield_to_successor() else { return };
        log::info!("the new server (pid {pid}) has taken over; this one finishes what it has");
        if server.edges.is_some() && edges.is_empty() {
            log::warn!("the new server takes no connections from this one: they close after their next responses");
        }
        server.notifier.yields_to(pid);
        self.add_counts();
        self.server.listeners.iter_mut().for_each(Listener::lend);
        self.finish_for_successor(edges);
        // The new server has a socket at the same path, but some clients may have connected to this one before.
        control::steer(self);
        control::say_replaced(self);
        self.server.control = None;
        self.server.metrics.iter_mut().for_each(Metrics::pass_on);
    }

    fn finish_for_successor(&mut self, edges: &[Sender]) {
        let server = &mut self.server;
        (server.restart_file, server.watch) = (None, None);
        (server.certificates, server.users) = (WatchedFiles::default(), WatchedFiles::default());
        match &mut server.edges {
            Some(own) => {
                let deadline = Instant::now() + server.settings.timeouts.graceful;
                own.hand_over(edges, deadline);
                server.stop_by = Some(deadline);
                server.phase = Phase::Draining;
            }
            None => self.workforce.stop(server, Finish::Replaced),
        }
        self.server.set_title("handing over");
    }

    /// Takes over from the previous server as soon as this one serves. Afterwards records the end of the previous server.
    fn take_over_when_ready(&mut self) {
        let condition = self.condition();
        let server = &mut self.server;
        let known_as = server.succession.known_as();
        let Some(before) = &mut server.succession.before else { return };
        if !before.serves() {
            return self.note_end_of_predecessor();
        }
        if condition != Condition::Serves {
            if condition == Condition::Starts && before.has_ended(None) {
                log::error!("the old server has ended before this one has taken over");
                self.fail();
            }
            return;
        }
        let Some(receivers) = server.edges.as_mut().map_or(Some(Vec::new()), Edges::successors) else { return };
        server.control = Control::take_place(server.settings, known_as).unwrap_or_else(|why| {
            log::error!("`oribi ctl` cannot reach this server: {why}");
            None
        });
        server.metrics.iter_mut().for_each(Metrics::take_over);
        before.take_over(&receivers, &mut server.listeners, server.succession.guardian.as_ref());
        let kept = server.listeners.iter().filter(|listener| !listener.lent || listener.stored);
        fit_sockets(kept, server.settings, server.privileges.owner_of_sockets());
        server.totals.count(Counter::Upgrades);
        if !server.listeners.iter().any(|listener| listener.lent) {
            self.workforce.own_listeners();
        }
        if server.succession.guardian.is_none() {
            // Without a guardian, other programs know the server by the id of this process from now on.
            match server.settings.pid_file.as_deref().map(PidFile::write).transpose() {
                Ok(file) => server.pid_file = file,
                Err(message) => log::error!("{message}"),
            }
        }
        server.notifier = Notifier::of_environment();
        server.notifier.ready("serving, upgraded");
        announce(&server.listeners, server.settings, self.workforce.wanted());
    }

    fn note_end_of_predecessor(&mut self) {
        let server = &mut self.server;
        let Succession { before, guardian, .. } = &mut server.succession;
        let Some(before) = before.take_if(|before| before.has_ended(guardian.as_ref())) else { return };
        if server.stays() {
            // The service manager takes this process for the server only now.
            before.forgotten().iter().for_each(|name| notify::forget_listener(name));
            server.notifier.store(&mut server.listeners, server.settings);
        }
        let succession = &mut self.server.succession;
        let Some(guardian) = &succession.guardian else { return };
        if guardian.follow() {
            log::info!("the old server has ended; this server follows the first process, which passes signals on");
        } else {
            log::error!("the first process of this server has died");
            self.stop();
        }
    }

    /// Records the end of a process. Returns `false` if the process was not another server.
    pub(super) fn note_end_of_server(&mut self, pid: Pid, status: WaitStatus) -> bool {
        let server = &mut self.server;
        match server.succession.note_end(pid, status) {
            EndedProcess::Stranger => false,
            EndedProcess::Other => true,
            EndedProcess::Successor => {
                self.note_failed_upgrade(pid, &describe_end(status));
                true
            }
        }
    }

    /// Records that the new server has ended before it has taken over.
    fn note_failed_upgrade(&mut self, pid: Pid, end: &str) {
        let server = &mut self.server;
        let why = format!("the new server (pid {pid}) {end}, so this one keeps serving");
        log::error!("{why}");
        server.succession.outcome = control::Progress::Failed(why);
        server.totals.count(Counter::UpgradesFailed);
        server.notifier.reloaded(Reloading::Program, "the program could not be upgraded; serving with the one before");
    }

    /// Waits until the old server has finished, at most for the time that running requests have, or until another signal to stop.
    /// When the process that a service manager follows ends, systemd kills all others (`KillMode=mixed`).
    fn wait_for_predecessor(&mut self) {
        let server = &mut self.server;
        let Succession { before: Some(before), guardian: None, .. } = &server.succession else { return };
        if before.serves() || before.has_ended(None) {
            return;
        }
        log::info!("waiting for the old server, which finishes its requests");
        let deadline = Instant::now() + server.settings.timeouts.graceful;
        let stops = || [Signal::TERM, Signal::INT, Signal::QUIT].into_iter().map(signals::take).sum::<u32>() > 0;
        while !before.has_ended(None) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || stops() {
                return log::warn!("the old server has not finished its requests");
            }
            server.signals.rearm();
            let watched = [Some(before.descriptor()), server.signals.arrival()].into_iter().flatten();
            let mut polled: Vec<_> = watched.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
            let _ = poll(&mut polled, Timespec::try_from(left).ok().as_ref());
        }
    }

    /// Returns the exit status for the process, when everything of this server has ended. A guardian waits until the last
    /// server has ended, and returns the exit status of that server.
    pub(super) fn conclude(&mut self, status: i32) -> i32 {
        self.server.succession.wait_for_dismissed();
        self.wait_for_predecessor();
        if !self.server.succession.has_yielded() {
            return status;
        }
        metrics::finish(self);
        let server = &mut self.server;
        if server.succession.watched_masters.is_none() {
            // If this process has collected the exit status of the next server, it must end with that status: the guardian
            // learns it in no other way.
            return server.succession.ended.unwrap_or(0);
        }
        Title { role: "guardian", generation: None, state: "" }.show(server.settings, server.runtime);
        drop(server.take_listeners());
        (server.edges, server.metrics) = (None, None);
        // Closing this socket shows the new server that nothing is left here.
        server.succession.after = None;
        let succession = &mut server.succession;
        let Some(watched_masters) = &mut succession.watched_masters else { return 0 };
        loop {
            server.signals.rearm();
            // If the log was rotated away, its old file would occupy the disk as long as this process has it open.
            if watched_masters.pass_signals_on()
                && let Err(error) = oribi_log::reopen_error_log(server.settings)
            {
                log::error!("cannot open the error log again: {error}");
            }
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                succession.ended = watched_masters.note_end(pid, exit_status(status)).or(succession.ended);
            }
            if let Some(status) = succession.ended {
                return status;
            }
            // Only a signal that must be handled can interrupt this wait.
            let arrival = server.signals.arrival();
            let mut polled: Vec<_> =
                arrival.map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).into_iter().collect();
            let _ = poll(&mut polled, None);
        }
    }
}
