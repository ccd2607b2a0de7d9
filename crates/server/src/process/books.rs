//! The counters of a server in its first process: it collects what edges and workers have counted, and adds what it has done itself.

use super::edges::Edges;
use crate::totals::{Counter, Counts, Seen, Totals};
use std::time::Duration;

/// How often a server that hands over adds to the totals, which the next one shows.
pub(super) const ENTERS_EVERY: Duration = Duration::from_millis(200);

/// The totals of a server, and what has already gone into them.
#[derive(Debug)]
pub(super) struct Books {
    totals: Totals,
    of_edges: Seen,
    of_workers: Seen,
}

impl Books {
    pub(super) fn new(totals: Totals) -> Self {
        Self { totals, of_edges: Seen::default(), of_workers: Seen::default() }
    }

    /// The totals, for somebody who goes on with them.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Counts what this process has done.
    pub(super) fn count(&self, counter: Counter) {
        self.totals.count(counter);
    }

    /// Enters what the edges have counted.
    pub(super) fn enter_edges(&self, edges: Option<&Edges<'_>>) {
        if let Some(edges) = edges {
            self.totals.fold(&self.of_edges, &edges.counts());
        }
    }

    /// Enters what all workers of this process have counted.
    pub(super) fn enter_workers(&self, counts: &Counts) {
        self.totals.fold(&self.of_workers, counts);
    }

    /// Enters what certain workers have counted, of which so much was `seen` before.
    pub(super) fn enter(&self, seen: &Seen, counts: &Counts) {
        self.totals.fold(seen, counts);
    }

    /// The counters, and for how long they have counted.
    pub(super) fn read(&self) -> (Counts, Duration) {
        (self.totals.read(), self.totals.age())
    }

    /// In a new edge or worker: leaves the totals to those who keep them.
    pub(super) fn leave(&mut self) {
        if let Err(error) = self.totals.leave() {
            log::error!("this process keeps the memory with the counters of the server, which it does not need: {error}");
        }
    }
}
