//! Describes generations for `oribi ctl`.

use super::super::reloads::ReloadOutcome;
use super::{Generation, Molds};
use oribi_admin::control::{ProcessReport, Progress};
use oribi_control_api as api;

fn of_generation(app: Option<&str>, generation: &Generation) -> api::Generation {
    api::Generation {
        app: app.map(str::to_owned),
        number: generation.number,
        pid: generation.pid.as_raw_nonzero().get().unsigned_abs(),
        state: match (generation.ready, generation.stays()) {
            (_, false) => "finishing",
            (false, true) => "loading",
            (true, true) => "serving",
        }
        .into(),
        age: generation.started_at.elapsed().into(),
    }
}

impl Molds<'_> {
    /// Returns the generations of the app.
    pub(in super::super) fn generations(&self) -> impl Iterator<Item = api::Generation> {
        self.generations.iter().map(|generation| of_generation(self.label.name(), generation))
    }

    /// Returns the state of the workers.
    pub(in super::super) fn workers(&self) -> impl Iterator<Item = ProcessReport> {
        let name = self.label.name();
        let report = move |generation: Option<u64>| {
            move |row| ProcessReport { kind: "worker", app: name.map(str::to_owned), generation, row }
        };
        self.generations.iter().flat_map(move |one| one.board.rows().into_iter().map(report(Some(one.number))))
    }

    /// Returns the progress of the reload that has started generation `number`. If later reloads have replaced it, returns the
    /// progress of the first of these that was not given up.
    pub(in super::super) fn progress_of_reload(&self, number: u64) -> Progress {
        let (number, outcome) = (number..=self.started)
            .filter_map(|number| Some((number, self.reloads.outcome(number)?)))
            .find(|(_, outcome)| **outcome != ReloadOutcome::GivenUp)
            .unwrap_or((number, &ReloadOutcome::GivenUp));
        match outcome {
            ReloadOutcome::UnderWay => Progress::Pending,
            ReloadOutcome::TakenOver => Progress::Done(format!("generation {number} has taken over")),
            ReloadOutcome::Failed(why) => {
                let rest = if self.served { "the one before keeps serving" } else { "and no other one serves" };
                Progress::Failed(format!("generation {number} cannot serve, {rest}: {why}"))
            }
            ReloadOutcome::GivenUp => Progress::Failed(format!("generation {number} was given up")),
        }
    }
}
