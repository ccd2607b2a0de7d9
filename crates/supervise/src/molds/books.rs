//! Maintains the counters of a server with a master.

use super::{Generation, Master};
use oribi_stats::totals::Counter;
use rustix::process::WaitStatus;

impl Master<'_> {
    /// Adds the counters of edges and workers since the last time.
    pub(super) fn keep_books(&self) {
        self.books.enter_edges(self.edges.as_ref());
        self.books.enter_certifier(self.certifier.as_ref());
        self.generations.iter().for_each(|generation| self.enter_generation(generation));
        self.books.enter_orphaned();
    }

    /// As [`Self::keep_books`], if another master displays the totals.
    pub(super) fn keep_books_if_watched(&self) {
        if self.succession.has_yielded() {
            self.keep_books();
        }
    }

    fn enter_generation(&self, generation: &Generation) {
        // Behind edges, workers only count what edges count already.
        self.books.enter(&generation.seen, &generation.board.counts(self.edges.is_none()));
        self.books.enter_figures(&generation.seen_figures, &generation.board);
    }

    /// Adds the last counts of a generation whose mold has ended. If the mold could not wait for its workers, these end
    /// without it.
    pub(super) fn close_books_of(&self, generation: &Generation, status: WaitStatus) {
        self.enter_generation(generation);
        if status.exit_status().is_none() {
            (0..generation.board.workers_left()).for_each(|_| self.books.count(Counter::EndedByFailure));
        }
    }
}
