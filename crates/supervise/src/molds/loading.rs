//! Loads the app: at the start, at a reload, and after the death of the process that has loaded it.

use super::super::inheritance::Message;
use super::super::notify::Reloading;
use super::super::reloads::ReloadOutcome;
use super::super::scaling;
use super::super::server::{Phase, Server};
use super::{Generation, Molds, Role};
use oribi_engine::shortage::explain;
use oribi_stats::scoreboard::Board;
use oribi_stats::totals::Counter;
use std::io;
use std::time::Instant;

impl Molds<'_> {
    /// Loads the app again, even if it was stopped; returns the number of the new generation. The current generation serves until
    /// the new one is ready.
    pub(in super::super) fn load_again(&mut self, server: &mut Server<'_>) -> u64 {
        // Whether the app fails will be known when it is loaded.
        (self.stopped, self.failed) = (false, self.failed && !self.stopped);
        self.wake();
        self.roll_back(ReloadOutcome::GivenUp);
        let patience = self.patience();
        // A load in progress began before this request, and may have read old code, so it is given up.
        for generation in self.generations.iter_mut().filter(|generation| !generation.ready) {
            generation.leave(patience);
            self.reloads.end(generation.number, ReloadOutcome::GivenUp);
        }
        // The cause of earlier failures may have been fixed.
        self.pace.forgive();
        server.notifier.reloading(Reloading::App(self.index));
        match self.start_generation(server) {
            Ok(number) => {
                self.reloads.begin(number);
                log::info!("reloading {}, as generation {number}", self.label);
                number
            }
            Err(error) => {
                let why = format!("{}: {}", self.mold.get_program().display(), explain(&error));
                log::error!("cannot reload {}: {why}", self.label);
                server.totals.count(Counter::GenerationsFailed);
                self.reloads.begin(self.started);
                self.reloads.end(self.started, ReloadOutcome::Failed(why));
                server.notifier.reloaded(Reloading::App(self.index), "the app could not be reloaded; serving the one before");
                self.started
            }
        }
    }

    /// Reads and handles the messages of the molds.
    pub(super) fn listen_to_molds(&mut self, server: &mut Server<'_>) {
        let mut newest = None;
        let mut termination_requested = false;
        let mut fresh = Vec::new();
        for generation in &mut self.generations {
            let ready = generation.has_become_ready();
            termination_requested |= std::mem::take(&mut generation.termination_requested) && generation.stays();
            if !ready {
                continue;
            }
            fresh.push(generation.number);
            server.totals.count(Counter::GenerationsLoaded);
            if generation.end_by.is_some() {
                // The mold could not read the command to stop while it was loading the app.
                generation.retire();
            } else if self.served {
                newest = Some(generation.number);
            } else {
                self.served = true;
                self.reloads.end(generation.number, ReloadOutcome::TakenOver);
            }
            self.failed = false;
        }
        self.give_up_incomplete(server);
        if termination_requested && server.stays() {
            self.load_again(server);
        }
        for generation in self.generations.iter().filter(|generation| fresh.contains(&generation.number)) {
            server.drain_period.iter().for_each(|drain_period| generation.announce_drain_state(drain_period.announced()));
        }
        let Some(newest) = newest else { return };
        let before = |generation: &&Generation| generation.number < newest && generation.ready && generation.stays();
        let present = self.generations.iter().filter(before).map(|generation| generation.number).max();
        if server.phase != Phase::Serving || !self.begin_rolling(server, newest, present) {
            self.take_over(server, newest);
        }
    }

    /// Starts a mold if no mold serves or loads the app, and no pause after a failure is in progress.
    pub(in super::super) fn keep_a_mold(&mut self, server: &mut Server<'_>) {
        let stays = self.generations.iter().any(Generation::stays);
        // A joining app that cannot be loaded is given up.
        let waits = self.stopped || self.is_asleep() || self.role == Role::Joining;
        if waits || stays || !self.pace.wait(Instant::now()).is_zero() {
            return;
        }
        match self.start_generation(server) {
            Ok(number) => log::debug!("generation {number}{} started", self.label.of()),
            Err(error) => {
                log::error!("cannot start {}: {}", self.mold.get_program().display(), explain(&error));
                self.pace.refused(Instant::now());
                if !self.served {
                    self.fail_to_start(server);
                }
            }
        }
    }

    /// Starts a generation and returns its number.
    pub(super) fn start_generation(&mut self, server: &mut Server<'_>) -> io::Result<u64> {
        self.started += 1;
        let settings = self.settings;
        let board =
            Board::new(scaling::room(settings.workers.most()), settings.watched_threads(), settings.routes_of_workers())?;
        // The path of the directory may lead to a new release by now.
        match self.directory.path().filter(|_| !self.label.is_unnamed()) {
            Some(path) => _ = self.mold.current_dir(path),
            None => self.directory.enter(),
        }
        self.directory.describe_to(&mut self.mold);
        let mut generation =
            Generation::start(self.started, &mut self.mold, &server.listeners, server.pools(self.index), board)?;
        let serves = self.generations.iter().any(|generation| generation.ready && generation.stays());
        let workers = if serves && self.rolls(server) { 1 } else { self.wanted };
        self.pace.started(generation.started_at);
        if server.succession.is_not_ready() || self.role == Role::Joining {
            generation.link.send(Message::Complete);
        }
        if workers != self.settings.workers.at_start() {
            generation.scale(workers);
        }
        self.generations.push(generation);
        Ok(self.started)
    }
}
