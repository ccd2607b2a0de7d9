//! Lets one generation take over from another, or gives it up if it cannot serve completely.

use super::super::notify::Reloading;
use super::super::reloads::ReloadOutcome;
use super::super::server::{Phase, Server};
use super::Molds;
use oribi_stats::totals::Counter;

impl Molds<'_> {
    /// Makes generation `number` serve alone: all earlier generations finish.
    pub(super) fn take_over(&mut self, server: &mut Server<'_>, number: u64) {
        let patience = self.patience();
        for generation in self.generations.iter_mut().filter(|generation| generation.number < number && generation.stays()) {
            generation.leave(patience);
        }
        for pool in server.pools(self.index) {
            if let Err(error) = pool.begin_generation() {
                log::error!("cannot inform an edge that {} was reloaded: {error}", self.label);
            }
        }
        let fresh = self.generations.iter_mut().find(|generation| generation.number == number);
        let (pid, failure) = fresh.map(|generation| (generation.pid, generation.failure.take())).unzip();
        if let Some(why) = failure.flatten() {
            // In development a generation that cannot load the app serves, and only shows the reason in browsers.
            self.reloads.end(number, ReloadOutcome::Failed(why));
        }
        log::info!(
            "generation {number}{} has taken over{}",
            self.label.of(),
            pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
        );
        self.reloads.end(number, ReloadOutcome::TakenOver);
        server.notifier.took_over(Reloading::App(self.index), &format!("serving, generation {number}{}", self.label.of()));
    }

    /// Gives up generations of which some workers cannot start, if another generation serves.
    pub(super) fn give_up_incomplete(&mut self, server: &mut Server<'_>) {
        let patience = self.patience();
        let serving = self.generations.iter().find(|generation| generation.ready && generation.stays());
        let Some(present) = serving.map(|generation| generation.number) else { return self.leave_it_to_server_before(server) };
        for generation in self.generations.iter_mut().filter(|generation| generation.stays() && !generation.ready) {
            if std::mem::take(&mut generation.incomplete) {
                let number = generation.number;
                let why = generation.failure.clone().unwrap_or_else(|| "not all of its workers can start".to_owned());
                log::error!(
                    "{} could not be reloaded: generation {number}: {why}; generation {present} keeps serving",
                    self.label
                );
                server.notifier.reloaded(Reloading::App(self.index), "the app could not be reloaded; serving the one before");
                self.reloads.end(number, ReloadOutcome::Failed(why));
                server.totals.count(Counter::GenerationsFailed);
                generation.leave(patience);
            }
        }
    }

    /// Makes this server fail if it is to replace the previous server and not all of its workers can start.
    fn leave_it_to_server_before(&mut self, server: &mut Server<'_>) {
        if server.phase != Phase::Serving || !server.succession.is_not_ready() {
            return;
        }
        let Some(generation) = self.generations.iter().find(|generation| generation.incomplete) else { return };
        let why = generation.failure.clone().unwrap_or_else(|| "not all of its workers can start".to_owned());
        log::error!("this server cannot take over from the old one: {why}");
        self.fail_to_start(server);
    }
}
