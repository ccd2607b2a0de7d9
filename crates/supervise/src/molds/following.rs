//! Changes the number of workers as the load requires, within limits that an order may change.

use super::super::server::Server;
use super::{Generation, Molds};
use oribi_config::WorkerRange;
use oribi_control_api::WorkerTarget;

impl Molds<'_> {
    /// The limits of the number of workers: those of the settings, or those that an order has set since.
    pub(in super::super) const fn range(&self) -> WorkerRange {
        self.range
    }

    /// Sets the number of workers, or its limits. Returns the number that identifies this change, for
    /// [`Molds::change_progress`].
    ///
    /// # Errors
    /// There is no room for so many workers, or the app is configured for a fixed number.
    pub(in super::super) fn scale_to(&mut self, server: &Server<'_>, target: WorkerTarget) -> Result<u64, String> {
        let range = match target {
            WorkerTarget::Number(number) => {
                let change = self.have_workers(server, number)?;
                self.wake();
                self.range = number.into();
                return Ok(change);
            }
            WorkerTarget::Between { least, most } => {
                let highest = self.most(server);
                if most > highest {
                    return Err(format!("there can be at most {highest} workers: start the server with more (--workers)"));
                }
                if server.edges.is_none() {
                    return Err("numbers of workers that follow the load need an edge".to_owned());
                }
                WorkerRange::between(least, most)
            }
            WorkerTarget::Auto => self.settings.workers,
        };
        self.range = range;
        if !self.range.may_sleep() {
            self.wake();
        }
        if self.is_asleep() {
            return Ok(self.change.last.begin_nothing());
        }
        self.have_workers(server, self.wanted.clamp(range.at_start(), range.most()))
    }

    /// Before the first start: begins with this number of workers, within the limits, even if the app may sleep.
    pub(in super::super) fn begin_with(&mut self, workers: usize) {
        self.wake();
        self.wanted = workers.clamp(self.range.at_start(), self.range.most());
    }

    /// Sets the target number of workers, because the load requires it.
    pub(in super::super) fn follow_load(&mut self, workers: usize) {
        self.wanted = workers;
        self.generations.iter_mut().filter(|generation| generation.stays()).for_each(|generation| generation.scale(workers));
    }

    /// Whether one generation serves alone, and no order or reload changes its workers.
    pub(in super::super) fn is_calm(&self) -> bool {
        let mut staying = self.generations.iter().filter(|generation| generation.stays());
        let is_alone = staying.next().is_some_and(|generation| generation.ready) && staying.next().is_none();
        is_alone && !self.stopped && self.rolling.is_none() && !self.change.last.is_under_way()
    }

    /// Returns the processes of workers that take requests.
    pub(in super::super) fn ready_workers(&self) -> Vec<u32> {
        let serving = self.generations.iter().filter(|generation| generation.ready && generation.stays());
        let rows = serving.flat_map(|generation| generation.board.rows());
        rows.filter(|row| row.state == "ready").map(|row| row.pid).collect()
    }

    /// Returns the reason why a worker could not start since the last call, if one could not.
    pub(in super::super) fn take_failed_start(&mut self) -> Option<String> {
        let serving = |generation: &&mut Generation| generation.ready && generation.stays() && generation.incomplete;
        let generation = self.generations.iter_mut().find(serving)?;
        generation.incomplete = false;
        Some(generation.failure.take().unwrap_or_else(|| "a worker cannot start".to_owned()))
    }
}
