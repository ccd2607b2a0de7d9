//! Loads the app: at the start, at a reload, and after the death of the process that has loaded it.

use super::super::certificates;
use super::super::edges::Edges;
use super::super::inheritance::Word;
use super::super::reloads::Outcome;
use super::super::scaling;
use super::{Generation, Master, Stage, entitle};
use oribi_admin::control::Control;
use oribi_engine::shortage::explain;
use oribi_stats::scoreboard::Board;
use oribi_stats::totals::Counter;
use std::io;
use std::time::Instant;

impl Master<'_> {
    /// Loads the app again. The present generation serves until the new one is ready.
    pub(super) fn reload(&mut self) -> u64 {
        self.roll_back(Outcome::GivenUp);
        let patience = self.patience();
        // A load in progress began before this request, so it is abandoned.
        for generation in self.generations.iter_mut().filter(|generation| !generation.ready) {
            generation.leave(patience);
            self.reloads.end(generation.number, Outcome::GivenUp);
        }
        // The cause of earlier failures may have been fixed.
        self.pace.forgive();
        self.notifier.reloading();
        certificates::renew(&mut self.certificates, &self.listeners, self.edges.as_ref());
        match self.start_generation() {
            Ok(number) => {
                self.reloads.begin(number);
                log::info!("loading the app anew, as generation {number}");
                number
            }
            Err(error) => {
                let why = format!("{}: {}", self.mold.get_program().display(), explain(&error));
                log::error!("cannot load the app anew: {why}");
                self.books.count(Counter::GenerationsFailed);
                self.reloads.begin(self.started);
                self.reloads.end(self.started, Outcome::Failed(why));
                self.notifier.reloaded("the app could not be loaded anew; serving the one before");
                self.started
            }
        }
    }

    pub(super) fn listen_to_molds(&mut self) {
        let mut newest = None;
        let mut told = false;
        let mut fresh = Vec::new();
        for generation in &mut self.generations {
            let ready = generation.has_become_ready();
            told |= std::mem::take(&mut generation.told) && generation.stays();
            if !ready {
                continue;
            }
            fresh.push(generation.number);
            self.books.count(Counter::GenerationsLoaded);
            if generation.end_by.is_some() {
                // The stop was requested before this generation could receive messages.
                generation.retire();
            } else if self.served {
                newest = Some(generation.number);
            } else {
                self.served = true;
                self.notifier.ready("serving");
                entitle(self.settings, "");
                if !self.succession.is_not_ready() {
                    super::super::announce(&self.listeners, self.settings, self.wanted);
                    self.control.iter_mut().for_each(Control::take_name);
                }
            }
        }
        self.give_up_incomplete();
        if told && self.stage == Stage::Serving && self.farewell.is_none() {
            self.reload();
        }
        for generation in self.generations.iter().filter(|generation| fresh.contains(&generation.number)) {
            self.tell_of_farewell(generation);
        }
        let Some(newest) = newest else { return };
        let before = |generation: &&Generation| generation.number < newest && generation.ready && generation.stays();
        let present = self.generations.iter().filter(before).map(|generation| generation.number).max();
        if self.stage != Stage::Serving || !self.begin_rolling(newest, present) {
            self.take_over(newest);
        }
    }

    /// While serving: starts a mold if none serves or loads.
    pub(super) fn keep_running(&mut self) {
        if self.generations.iter().any(Generation::stays) || !self.pace.wait(Instant::now()).is_zero() {
            return;
        }
        match self.start_generation() {
            Ok(number) => log::debug!("generation {number} started"),
            Err(error) => {
                log::error!("cannot start {}: {}", self.mold.get_program().display(), explain(&error));
                self.pace.refused(Instant::now());
                if !self.served {
                    self.fail_to_start();
                }
            }
        }
    }

    /// Starts a generation and returns its number.
    pub(super) fn start_generation(&mut self) -> io::Result<u64> {
        self.started += 1;
        let pools = self.edges.as_ref().map_or(&[][..], Edges::pools);
        let settings = self.settings;
        let board = Board::new(scaling::room(settings.workers), settings.watched_threads(), settings.routes_of_workers())?;
        // The directory may lead to a new release by now.
        self.directory.enter();
        self.directory.describe_to(&mut self.mold);
        let mut generation = Generation::start(self.started, &mut self.mold, &self.listeners, pools, board)?;
        let serves = self.generations.iter().any(|generation| generation.ready && generation.stays());
        let workers = if serves && self.rolls() { 1 } else { self.wanted };
        self.pace.started(generation.born);
        if self.succession.is_not_ready() {
            generation.link.say(Word::Complete);
        }
        if workers != self.settings.workers.max(1) {
            generation.scale(workers);
        }
        self.generations.push(generation);
        Ok(self.started)
    }
}
