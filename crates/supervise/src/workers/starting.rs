//! Starts the first worker, reports the start of the server, and decides about further attempts if a worker cannot start.

use super::super::announce;
use super::super::inheritance::Message;
use super::super::member::Member;
use super::super::notify::Reloading;
use super::super::server::Server;
use super::super::workforce::Workforce;
use super::Workers;
use oribi_admin::control::Control;
use oribi_engine::shortage::explain;
use oribi_stats::scoreboard::{WorkerCommand, WorkerState};
use oribi_stats::totals::Counter;
use std::time::{Duration, Instant};

impl Workers<'_> {
    /// Reports, only once, that workers accept connections: to the app; to the master, if there is one; otherwise to the
    /// service manager and in the log.
    pub(super) fn report_start(&mut self, server: &mut Server<'_>) {
        if self.announced {
            return;
        }
        let accepts = |member: &&Member| matches!(member.slot.state(), WorkerState::Ready | WorkerState::Retiring);
        let ready = self.members.iter().filter(accepts).count();
        if ready > 0 && !self.served {
            self.served = true;
            server.set_title("");
            self.runtime.server_ready();
        }
        if !self.served {
            return;
        }
        // After this report, the workers of the previous generation or server retire. So all workers here must serve before it.
        if ready < self.wanted && (self.generation > 1 || self.is_to_be_complete || server.succession.is_not_ready()) {
            return;
        }
        match &self.master {
            // The service manager is notified when this server takes over.
            None if server.succession.is_not_ready() => {}
            None => {
                self.scoreboard.parent_account.count(Counter::GenerationsLoaded);
                server.notifier.ready("serving");
                announce(&server.listeners, self.settings, self.wanted);
                server.control.iter_mut().for_each(Control::take_name);
            }
            Some(master) => master.send(Message::Ready),
        }
        self.announced = true;
    }

    /// Handles the end of a worker that could not serve, for the reason `why`. Returns `true` if no other worker must be
    /// started, because it would fail as well: if no worker has served so far, the server fails; if all workers are being
    /// replaced, the replacement is given up, and the current workers stay. `outdated`: whether the worker was started before
    /// the replacement was requested. Such a worker does not predict the result of the replacement.
    pub(super) fn start_has_failed(&mut self, server: &mut Server<'_>, outdated: bool, why: &str) -> bool {
        if !self.served {
            self.failed_starts += 1;
            // A few may be slower than the first one that fails.
            if self.failed_starts < self.wanted && !self.members.is_empty() {
                return false;
            }
            log::error!("no worker could start: fix the errors above, then try again");
            if let Some(master) = &self.master {
                master.send_failure(why);
            }
            self.fail(server);
            return true;
        }
        if server.succession.is_not_ready() && !self.announced {
            self.failed_starts += 1;
            if self.failed_starts >= self.wanted {
                log::error!("this server cannot take over from the old one: {why}");
                self.fail(server);
                return true;
            }
            return false;
        }
        if let Some(master) = self.master.as_ref().filter(|_| !self.announced) {
            self.failed_starts += 1;
            if self.failed_starts >= self.wanted {
                self.failed_starts = 0;
                // The master knows whether another generation serves, and decides.
                master.send_failure(why);
                master.send(Message::Incomplete);
            }
            return false;
        }
        self.report_shortage(why);
        if !self.replacing || outdated {
            return false;
        }
        self.failed_starts += 1;
        // If a new worker serves, the other new workers may succeed at a second try.
        let fresh_accepts = self.members.iter().any(|member| !member.outdated && member.accepts());
        let gives_up = !fresh_accepts || self.failed_starts >= self.wanted;
        if gives_up {
            self.give_up_replacing(server, why);
        }
        gives_up
    }

    /// Gives up the replacement; the current workers stay.
    fn give_up_replacing(&mut self, server: &mut Server<'_>, why: &str) {
        self.replacing = false;
        self.scoreboard.parent_account.count(Counter::GenerationsFailed);
        self.members.iter_mut().for_each(|member| member.outdated = false);
        server.notifier.reloaded(Reloading::App(0), "the workers could not be replaced; serving with those before");
        log::error!("the current workers stay: fix the errors above, then send HUP again");
        self.replacement_failure = Some(format!("a new worker could not serve, so the current workers stay: {why}"));
    }

    /// Handles the refusal of the system to fork a worker, and reports the reason to the client or master that waits for the
    /// worker. Missing workers are started later, unless the server fails or the replacement is given up.
    pub(super) fn fork_has_failed(&mut self, server: &mut Server<'_>, why: &str) {
        self.report_shortage(why);
        match &self.master {
            // The master knows whether another generation or another server serves, and decides.
            Some(master) if !self.announced => {
                master.send_failure(why);
                master.send(Message::Incomplete);
            }
            None if !self.announced && server.succession.is_not_ready() => {
                log::error!("this server cannot take over from the old one: {why}");
                self.fail(server);
            }
            _ if self.replacing => self.give_up_replacing(server, why),
            _ => {}
        }
    }

    /// Starts the first worker. An error that prevents the first fork would prevent all others.
    pub(super) fn start_first(&mut self, server: &mut Server<'_>) {
        if let Err(error) = self.start_worker(server, WorkerCommand::Serve, self.vacant_shard(server)) {
            let why = explain(&error);
            log::error!("cannot start a worker: {why}");
            self.master.iter().for_each(|master| master.send_failure(&format!("a worker cannot be started: {why}")));
            self.fail(server);
        }
    }

    /// Makes the server fail, and kills the workers.
    fn fail(&mut self, server: &mut Server<'_>) {
        server.fail();
        self.give_up();
    }

    /// Kills workers that take too long to start.
    pub(super) fn end_late_starters(&mut self) {
        let (now, patience) = (Instant::now(), self.settings.life.boot_timeout);
        for member in self.members.iter_mut().filter(|member| starts(member)) {
            if now.saturating_duration_since(member.started_at) >= patience {
                member.late = true;
                member.end();
            }
        }
    }

    /// Returns the time until a starting worker has taken too long. `None` if no worker is starting.
    pub(super) fn next_late_starter(&self, now: Instant) -> Option<Duration> {
        let starting = self.members.iter().filter(|member| starts(member));
        starting.map(|member| (member.started_at + self.settings.life.boot_timeout).saturating_duration_since(now)).min()
    }
}

/// Whether this worker is starting, or ends because it could not start.
fn starts(member: &Member) -> bool {
    member.serving() == Some(WorkerState::Starting) || member.has_given_up()
}
