//! Describes generations for `oribi ctl`.

use super::super::reloads::ReloadOutcome;
use super::{Generation, Molds};
use oribi_admin::control::{ProcessReport, Progress};
use oribi_control_api as api;

pub(super) fn of_generation(generation: &Generation) -> api::Generation {
    api::Generation {
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

pub(super) fn of_workers(generation: &Generation) -> impl Iterator<Item = ProcessReport> + use<> {
    let number = Some(generation.number);
    generation.board.rows().into_iter().map(move |row| ProcessReport { kind: "worker", generation: number, row })
}

impl Molds<'_> {
    /// Returns the progress of the reload that has started generation `number`. If later reloads have replaced it, returns the
    /// progress of the first of these that was not given up.
    pub(super) fn progress_of_reload(&self, number: u64) -> Progress {
        let (number, outcome) = (number..=self.started)
            .filter_map(|number| Some((number, self.reloads.outcome(number)?)))
            .find(|(_, outcome)| **outcome != ReloadOutcome::GivenUp)
            .unwrap_or((number, &ReloadOutcome::GivenUp));
        match outcome {
            ReloadOutcome::UnderWay => Progress::Pending,
            ReloadOutcome::TakenOver => Progress::Done(format!("generation {number} has taken over")),
            ReloadOutcome::Failed(why) => {
                Progress::Failed(format!("generation {number} cannot serve, the one before keeps serving: {why}"))
            }
            ReloadOutcome::GivenUp => Progress::Failed(format!("generation {number} was given up")),
        }
    }
}
