//! Changes the number of workers: the first process sends the target number to the generations, and the serving generation
//! reports when it has that many workers.

use super::super::scaling::{self, WorkerCountChange};
use super::super::server::Server;
use super::{Generation, Molds};
use oribi_admin::control::Progress;

/// The last change, and the generation that will report its completion.
#[derive(Debug, Default)]
pub(super) struct Changing {
    pub(super) last: WorkerCountChange,
    /// The generation to which the change was sent last, and whose report is awaited.
    sent_to: Option<u64>,
}

impl Molds<'_> {
    /// Returns the highest number of workers that may be set.
    pub(in super::super) fn most(&self, server: &Server<'_>) -> usize {
        let capacity = server.pools(self.index).first().map(|memory| memory.shape().workers as usize);
        scaling::most_with(self.settings, capacity, self.lanes)
    }

    /// Sets the target number of workers of each generation. Returns the number that identifies this change, for
    /// [`Molds::change_progress`].
    pub(in super::super) fn have_workers(&mut self, server: &Server<'_>, workers: usize) -> Result<u64, String> {
        self.wanted = scaling::check(self.settings, workers, self.most(server))?;
        self.change.sent_to = None;
        // During a rolling reload the generations get other target numbers, until the new generation has as many workers as
        // wanted.
        if self.rolling.is_none() {
            self.generations.iter_mut().for_each(|generation| generation.scale(self.wanted));
        }
        let number = self.change.last.begin();
        if !self.is_available() {
            // No workers change now: the number counts when the app is loaded.
            self.change.last.end();
        }
        Ok(number)
    }

    /// While a client waits for a change: sends it to the serving generation, and evaluates the answer.
    pub(super) fn advance_change(&mut self) {
        if !self.change.last.is_under_way() {
            return;
        }
        // A rolling reload continues until the new generation has the new number of workers.
        if self.rolling.is_some() {
            self.change.sent_to = None;
            return;
        }
        let serves = |generation: &&mut Generation| generation.ready && generation.stays();
        let Some(generation) = self.generations.iter_mut().filter(serves).max_by_key(|generation| generation.number) else {
            return;
        };
        if self.change.sent_to != Some(generation.number) {
            self.change.sent_to = Some(generation.number);
            generation.scale(self.wanted);
        } else if std::mem::take(&mut generation.incomplete) {
            let why = generation.failure.take();
            self.change.last.fail(why.as_deref().unwrap_or("a worker cannot start"));
        } else if std::mem::take(&mut generation.settled) {
            self.change.last.end();
        }
    }

    /// Returns the progress of the change that `number` identifies.
    pub(in super::super) fn change_progress(&self, number: u64) -> Progress {
        self.change.last.progress(number, self.wanted)
    }
}
