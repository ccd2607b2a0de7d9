//! A change of the number of workers: the master tells the generation that serves, and learns when it has so many.

use super::super::edges::Edges;
use super::super::scaling::{self, Change};
use super::{Generation, Master, Stage};
use oribi_admin::control::Progress;

/// The last change, and who was told of it.
#[derive(Debug, Default)]
pub(super) struct Changing {
    last: Change,
    /// The generation that says when it has come to have so many workers.
    told: Option<u64>,
}

impl Master<'_> {
    /// The most workers that may be wanted.
    pub(super) fn most_workers(&self) -> usize {
        let pools = self.edges.as_ref().map_or(&[][..], Edges::pools);
        let places = pools.first().map(|memory| memory.shape().workers as usize);
        scaling::most_with(self.settings, places, self.lanes)
    }

    /// Changes how many workers each generation should have; returns a number for [`Master::change_progress`].
    pub(super) fn have_workers(&mut self, workers: usize) -> Result<u64, String> {
        self.wanted = scaling::check(self.settings, workers, self.most_workers())?;
        self.change.told = None;
        // While a reload is rolling, the generations change their numbers until the new one has so many.
        if self.rolling.is_none() {
            self.generations.iter_mut().for_each(|generation| generation.scale(self.wanted));
        }
        Ok(self.change.last.begin())
    }

    /// While somebody waits for a change: tells the generation that serves, and hears what it has said.
    pub(super) fn go_on_with_change(&mut self) {
        if !self.change.last.is_under_way() {
            return;
        }
        // A reload that is rolling ends with the new number of workers.
        if self.rolling.is_some() {
            self.change.told = None;
            return;
        }
        let serves = |generation: &&mut Generation| generation.ready && generation.stays();
        let Some(generation) = self.generations.iter_mut().filter(serves).max_by_key(|generation| generation.number) else {
            return;
        };
        if self.change.told != Some(generation.number) {
            self.change.told = Some(generation.number);
            generation.scale(self.wanted);
        } else if std::mem::take(&mut generation.incomplete) {
            let why = generation.trouble.take();
            self.change.last.fail(why.as_deref().unwrap_or("a worker cannot start"));
        } else if std::mem::take(&mut generation.settled) {
            self.change.last.end();
        }
    }

    /// How far that change has come.
    pub(super) fn change_progress(&self, number: u64) -> Progress {
        match self.change.last.progress(number, self.wanted) {
            Progress::Pending if self.stage != Stage::Serving => Progress::Failed("the server is stopping".to_owned()),
            progress => progress,
        }
    }
}
