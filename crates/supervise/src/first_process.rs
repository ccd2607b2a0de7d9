//! The first process of a server, with its workforce.

mod drain_period;
mod edges;
mod ends;
mod helper_processes;
mod orders;
mod stopping;
mod upgrading;
mod waiting;

use super::edges::Edges;
use super::notify::Reloading;
use super::server::{Phase, Server};
use super::signals::{self, StopRequests};
use super::watch;
use super::workforce::{Apply, Workforce};
use oribi_admin::control;
use oribi_admin::metrics::{self, Metrics};
use oribi_listen::Listener;
use rustix::process::Signal;
use std::time::Instant;

pub(super) struct FirstProcess<'a> {
    server: Server<'a>,
    workforce: Box<dyn Workforce + 'a>,
    stop_requests: StopRequests,
}

impl<'a> FirstProcess<'a> {
    pub(super) fn new(server: Server<'a>, workforce: Box<dyn Workforce + 'a>) -> Self {
        Self { server, workforce, stop_requests: StopRequests::default() }
    }

    /// Serves until a signal or an order stops the server. Returns the exit status for the process: 0, or 1 if the server could
    /// not start or requests had to be cut off. After an upgrade it may be the exit status of a later server.
    pub(super) fn serve(mut self) -> i32 {
        self.keep_scale();
        let status = self.run();
        self.end_certifier();
        self.end_relay();
        self.end_exporter();
        let status = self.conclude(status);
        self.server.take_listeners().iter_mut().for_each(Listener::end);
        self.server.metrics.iter_mut().for_each(Metrics::end);
        status
    }

    fn run(&mut self) -> i32 {
        self.keep_edges();
        self.workforce.begin(&mut self.server);
        loop {
            self.server.signals.rearm();
            self.workforce.rearm();
            self.handle_signals();
            self.advance_drain_period();
            self.reap();
            self.handle_edge_requests();
            self.workforce.step(&mut self.server);
            self.server.end_leaving_listeners();
            self.keep_watchdog();
            self.advance_upgrade();
            if self.server.succession.has_yielded() {
                // The other server displays these totals.
                self.add_counts();
            }
            if self.server.phase != Phase::Failed {
                self.keep_exporter();
                self.keep_relay();
            }
            if self.server.phase != Phase::Serving {
                self.end_certifier();
            }
            if let Some(status) = self.act() {
                control::say_end(self, status);
                return status;
            }
            metrics::attend(self);
            if !control::steer(self) {
                self.sleep();
            }
        }
    }

    /// Acts for the current phase. If the phase changes, also acts for the next one. Returns the exit status if everything has
    /// ended.
    fn act(&mut self) -> Option<i32> {
        loop {
            let phase = self.server.phase;
            let status = self.act_in(phase);
            if status.is_some() || self.server.phase == phase {
                return status;
            }
        }
    }

    fn act_in(&mut self, phase: Phase) -> Option<i32> {
        match phase {
            Phase::Serving => {
                self.keep_edges();
                self.keep_certifier();
                self.workforce.keep_running(&mut self.server);
            }
            Phase::Draining => {
                self.workforce.keep_running(&mut self.server);
                self.drain_edges();
            }
            Phase::Leaving { .. } => {
                if self.workforce.let_next_leave(&mut self.server) {
                    self.stop();
                }
            }
            Phase::Stopping { .. } => return self.finish_up(),
            Phase::Failed => return (self.workforce.is_gone() && self.server.is_alone()).then_some(1),
        }
        None
    }

    fn handle_signals(&mut self) {
        let server = &mut self.server;
        if server.succession.pass_signals_on() {
            return;
        }
        self.handle_stop_signals();
        let server = &mut self.server;
        let hup_arrived = signals::take(Signal::HUP) > 0;
        let file_touched = server.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        let app_changed = watch::look(server.watch.as_mut());
        let certificates_changed = server.certificates.have_changed(Instant::now());
        let users_changed = server.users.have_changed(Instant::now());
        // Workers without an edge are given certificates when they start.
        let replaces_workers = certificates_changed && server.edges.is_none();
        if server.stays() {
            if hup_arrived && self.workforce.has_file() {
                self.apply_for_signal();
            } else if hup_arrived || file_touched || app_changed || replaces_workers {
                self.reload();
            } else if certificates_changed {
                server.renew_certificates();
            }
        }
        let server = &mut self.server;
        if users_changed && server.stays() {
            server.renew_users();
        }
        if signals::take(Signal::USR1) > 0 && !self.leave_slowly() {
            self.reopen_logs();
        }
        self.handle_upgrade_signals();
    }

    /// Reads the file again, and loads all apps again.
    fn apply_for_signal(&mut self) {
        let apply = Apply { reloads: true, ..Apply::default() };
        // A service manager waits for the end of what it has begun by the signal.
        self.server.notifier.reloading(Reloading::Program);
        if let Err(why) = self.workforce.apply(&mut self.server, apply) {
            log::error!("nothing was changed or reloaded: {why}");
        }
        if !self.workforce.is_applying() {
            self.server.notifier.reloaded(Reloading::Program, "serving");
        }
    }

    /// Loads all apps again, or replaces the workers.
    fn reload(&mut self) {
        if let Err(why) = self.workforce.reload(&mut self.server, None) {
            log::error!("{why}");
        }
    }

    /// Reopens the log files in all processes.
    fn reopen_logs(&self) {
        self.server.reopen_logs();
        self.workforce.reopen_logs();
    }

    /// Adds the counters of all processes since the last time to the totals.
    fn add_counts(&self) {
        self.server.add_counts();
        self.workforce.add_counts(&self.server.totals, !self.server.has_edges());
    }

    /// Reports to the service manager that this server is alive, while its edges and its app are there.
    fn keep_watchdog(&mut self) {
        let Self { server: Server { notifier, edges, phase, .. }, workforce, .. } = self;
        let alive = || *phase != Phase::Serving || workforce.is_alive() && edges.as_mut().is_none_or(Edges::are_all_live);
        notifier.keep_watchdog(Instant::now(), alive);
    }
}
