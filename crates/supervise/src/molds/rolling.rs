//! A rolling reload: one worker of the new generation starts, then one worker of the current generation ends, and so on, so
//! that there is never more than one extra worker. The first process sends target numbers of workers; each mold reports when it
//! has reached its number.

use super::super::notify::Reloading;
use super::super::reloads::ReloadOutcome;
use super::super::server::{Phase, Server};
use super::Molds;
use oribi_config::ReloadMode;
use oribi_stats::totals::Counter;

/// A rolling reload in progress.
#[derive(Debug)]
pub(super) struct Rolling {
    /// The number of the new generation.
    number: u64,
    /// The number of the generation that the new one replaces.
    present: u64,
    /// The number of workers of the new generation that take requests.
    up: usize,
}

impl Molds<'_> {
    /// Whether a reload starts one worker at a time.
    pub(super) fn rolls(&self, server: &Server<'_>) -> bool {
        let own_sockets = server.edges.is_none() && self.settings.sockets_of_address() > 1;
        self.settings.life.reload_mode == ReloadMode::Rolling && self.wanted > 1 && !own_sockets
    }

    /// Begins a rolling reload from generation `present` to generation `number`. Called when the first worker of generation
    /// `number` takes requests. Returns `false`, and does nothing, if reloads do not roll, or if `present` is `None` because no
    /// earlier generation serves.
    pub(super) fn begin_rolling(&mut self, server: &Server<'_>, number: u64, present: Option<u64>) -> bool {
        let Some(present) = present.filter(|_| self.rolls(server)) else { return false };
        for generation in &mut self.generations {
            (generation.settled, generation.incomplete) = (false, false);
        }
        log::info!("generation {number}{} takes over one worker after the other", self.label.of());
        self.rolling = Some(Rolling { number, present, up: 1 });
        self.scale_one(present, self.wanted - 1);
        true
    }

    /// During a rolling reload: takes the next step after the messages of the molds, and gives up if the new generation
    /// cannot continue.
    pub(super) fn roll(&mut self, server: &mut Server<'_>) {
        if server.phase != Phase::Serving {
            self.rolling = None;
        }
        let Some(Rolling { number, present, up }) = self.rolling else { return };
        let stays = |wanted: u64| self.generations.iter().any(|one| one.number == wanted && one.stays());
        let has_settled = |wanted: u64| self.generations.iter().any(|one| one.number == wanted && one.settled);
        if !stays(number) || self.generations.iter().any(|one| one.number == number && one.incomplete) {
            return self.give_up_rolling(server);
        }
        // If the current generation has died, the new generation takes all the work.
        let grown = has_settled(number);
        let up = if grown { up + 1 } else { up };
        if !stays(present) || up >= self.wanted {
            self.rolling = None;
            self.scale_one(number, self.wanted);
            self.take_over(server, number);
        } else if grown {
            self.rolling = Some(Rolling { number, present, up });
            self.scale_one(present, self.wanted - up);
        } else if has_settled(present) {
            self.scale_one(number, up + 1);
        }
        self.generations.iter_mut().for_each(|generation| generation.settled = false);
    }

    /// Gives up the rolling reload, because the new generation cannot get all its workers.
    fn give_up_rolling(&mut self, server: &mut Server<'_>) {
        let Some(Rolling { number, present, .. }) = self.rolling else { return };
        let failure = self.generations.iter().find(|one| one.number == number).and_then(|one| one.failure.clone());
        let why = failure.unwrap_or_else(|| "the process that loaded the app has ended".to_owned());
        log::error!("{} could not be reloaded: generation {number}: {why}; generation {present} keeps serving", self.label);
        server.notifier.reloaded(Reloading::App(self.index), "the app could not be reloaded; serving the one before");
        server.totals.count(Counter::GenerationsFailed);
        self.roll_back(ReloadOutcome::Failed(why));
    }

    /// Ends a rolling reload with this outcome, if one is in progress: the new generation leaves, and the current generation
    /// gets its workers back.
    pub(super) fn roll_back(&mut self, outcome: ReloadOutcome) {
        let Some(Rolling { number, present, .. }) = self.rolling.take() else { return };
        let patience = self.patience();
        self.generations.iter_mut().filter(|one| one.number == number && one.stays()).for_each(|one| one.leave(patience));
        self.scale_one(present, self.wanted);
        self.reloads.end(number, outcome);
    }

    /// Sends generation `number` its target number of workers.
    fn scale_one(&mut self, number: u64, workers: usize) {
        self.generations.iter_mut().filter(|one| one.number == number).for_each(|one| one.scale(workers));
    }
}
