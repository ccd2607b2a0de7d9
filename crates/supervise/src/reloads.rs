//! The outcomes of requested reloads.

use std::collections::VecDeque;

/// The number of reloads that are remembered. This is enough, because clients ask for the outcome of their reload soon.
const REMEMBERED: usize = 32;

/// The outcome of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReloadOutcome {
    /// The new generation is loading or starting.
    UnderWay,
    /// The new generation serves.
    TakenOver,
    /// The new generation cannot serve, for this reason; the previous one continues.
    Failed(String),
    /// The new generation was given up for a later one, or because the server stops.
    GivenUp,
}

/// The last reloads, each with the number of its generation.
#[derive(Debug, Default)]
pub(super) struct Reloads(VecDeque<(u64, ReloadOutcome)>);

impl Reloads {
    /// Records that generation `number` was started, by a reload, to replace the current one.
    pub(super) fn begin(&mut self, number: u64) {
        self.0.push_back((number, ReloadOutcome::UnderWay));
        let excess = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..excess);
    }

    /// Records the outcome of the reload that has started generation `number`. Later outcomes of that reload are ignored. Does
    /// nothing if the generation does not belong to a reload.
    pub(super) fn end(&mut self, number: u64, result: ReloadOutcome) {
        if let Some((_, outcome)) =
            self.0.iter_mut().find(|(known, outcome)| *known == number && *outcome == ReloadOutcome::UnderWay)
        {
            *outcome = result;
        }
    }

    /// Returns the outcome of the reload that has started generation `number`. `None` if the generation does not belong to a
    /// reload, or if the reload is forgotten already.
    pub(super) fn outcome(&self, number: u64) -> Option<&ReloadOutcome> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, outcome)| outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_result_counts() {
        let mut reloads = Reloads::default();
        reloads.end(1, ReloadOutcome::TakenOver);
        assert_eq!(reloads.outcome(1), None, "no reload");
        reloads.begin(2);
        assert_eq!(reloads.outcome(2), Some(&ReloadOutcome::UnderWay));
        let failed = ReloadOutcome::Failed("syntax error".to_owned());
        reloads.end(2, failed.clone());
        reloads.end(2, ReloadOutcome::TakenOver);
        assert_eq!(reloads.outcome(2), Some(&failed));
        (3..100).for_each(|number| reloads.begin(number));
        assert_eq!((reloads.outcome(2), reloads.outcome(99)), (None, Some(&ReloadOutcome::UnderWay)));
    }
}
