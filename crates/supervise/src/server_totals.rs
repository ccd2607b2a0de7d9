//! The counters of a server, in its first process. The first process adds the counters of edges and workers to its totals, and
//! counts its own events.

use super::certifier::Certifier;
use super::edges::Edges;
use oribi_stats::app_metrics::{self, AppMetricTotals, AppMetrics, Contexts};
use oribi_stats::scoreboard::{Board, Scoreboard};
use oribi_stats::totals::{Counter, Counts, FoldedCounts, Totals};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The interval at which a server that hands over adds its counters to the totals, which the next server displays.
pub(super) const ADDS_EVERY: Duration = Duration::from_millis(200);

/// The number of killed molds whose workers are still counted, at most.
const MOST_ORPHANED: usize = 8;

/// Workers whose mold was killed.
#[derive(Debug)]
struct Orphaned {
    board: Board,
    counted: FoldedCounts,
    counted_metrics: app_metrics::FoldedMetrics,
    /// Whether these workers have connections, and so count the events that edges would count otherwise.
    own_connections: bool,
    /// The latest time at which these workers end. `None` if the time is too far away to compute.
    until: Option<Instant>,
}

/// The totals of a server, and the counters that have been added to them.
#[derive(Debug)]
pub(super) struct ServerTotals {
    totals: Totals,
    /// The totals of app metrics. `None` if metrics are off, and in a mold.
    app_metrics: Option<AppMetricTotals>,
    of_edges: FoldedCounts,
    of_workers: FoldedCounts,
    of_certifier: FoldedCounts,
    of_relay: FoldedCounts,
    metrics_of_workers: app_metrics::FoldedMetrics,
    orphaned: RefCell<Vec<Orphaned>>,
}

impl ServerTotals {
    pub(super) fn new(totals: Totals, app_metrics: Option<AppMetricTotals>) -> Self {
        Self {
            totals,
            app_metrics,
            of_edges: FoldedCounts::default(),
            of_workers: FoldedCounts::default(),
            of_certifier: FoldedCounts::default(),
            of_relay: FoldedCounts::default(),
            metrics_of_workers: app_metrics::FoldedMetrics::default(),
            orphaned: RefCell::default(),
        }
    }

    /// Returns the totals, for the next server, which continues them.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the totals of app metrics, for the next server, which continues them.
    pub(super) fn app_metric_totals(&self) -> Option<&AppMetricTotals> {
        self.app_metrics.as_ref()
    }

    /// Counts an event of this process.
    pub(super) fn count(&self, counter: Counter) {
        self.totals.count(counter);
    }

    /// Adds the counters of the edges.
    pub(super) fn add_edges(&self, edges: Option<&Edges<'_>>) {
        if let Some(edges) = edges {
            self.totals.fold(&self.of_edges, &edges.counts());
        }
    }

    /// Adds the counters of the certifier.
    pub(super) fn add_certifier(&self, certifier: Option<&Certifier>) {
        if let Some(certifier) = certifier {
            self.totals.fold(&self.of_certifier, &certifier.counts());
        }
    }

    /// Adds the counters of the relay.
    pub(super) fn add_relay(&self, counts: &Counts) {
        self.totals.fold(&self.of_relay, counts);
    }

    /// Adds the counters of all workers of this process.
    pub(super) fn add_workers(&self, counts: &Counts, scoreboard: &Scoreboard) {
        self.totals.fold(&self.of_workers, counts);
        if let Some(app_metrics) = &self.app_metrics {
            app_metrics.fold(&self.metrics_of_workers, scoreboard.app_metrics());
        }
    }

    /// Adds the `counts` of some workers. `counted` are those of their counters that have been added before.
    pub(super) fn add(&self, counted: &FoldedCounts, counts: &Counts) {
        self.totals.fold(counted, counts);
    }

    /// Adds the app metrics of a generation. `counted` are those that have been added before.
    pub(super) fn add_app_metrics(&self, counted: &app_metrics::FoldedMetrics, board: &Board) {
        if let Some(app_metrics) = &self.app_metrics {
            app_metrics.fold(counted, board.app_metrics());
        }
    }

    /// Keeps the scoreboard of a killed mold. The workers of that mold end by themselves, within `patience`, and count until
    /// they have answered their requests.
    pub(super) fn keep_orphaned(
        &self,
        board: Board,
        (counted, counted_metrics): (FoldedCounts, app_metrics::FoldedMetrics),
        own_connections: bool,
        patience: Duration,
    ) {
        // The oldest scoreboard may be removed now, and its counters must not be lost.
        self.add_orphaned();
        let mut orphaned = self.orphaned.borrow_mut();
        if orphaned.len() == MOST_ORPHANED {
            orphaned.remove(0);
        }
        let until = Instant::now().checked_add(patience);
        orphaned.push(Orphaned { board, counted, counted_metrics, own_connections, until });
    }

    /// Adds the counters of workers whose mold was killed.
    pub(super) fn add_orphaned(&self) {
        let now = Instant::now();
        self.orphaned.borrow_mut().retain(|orphaned| {
            self.add(&orphaned.counted, &orphaned.board.counts(orphaned.own_connections));
            self.add_app_metrics(&orphaned.counted_metrics, &orphaned.board);
            orphaned.until.is_none_or(|until| now < until)
        });
    }

    /// Returns the app metrics. `contexts` are the current contexts of languages in the workers.
    pub(super) fn app_metrics(&self, contexts: impl Iterator<Item = Contexts>) -> AppMetrics {
        self.app_metrics.as_ref().map(|app_metrics| app_metrics.read(Contexts::of_all(contexts))).unwrap_or_default()
    }

    /// Returns the counters, and the time since they began.
    pub(super) fn read(&self) -> (Counts, Duration) {
        (self.totals.read(), self.totals.age())
    }

    /// In a new process, which must not change the totals: unmaps them.
    pub(super) fn leave(&mut self) {
        self.orphaned.borrow_mut().clear();
        let left = self.totals.leave().and(self.app_metrics.take().map_or(Ok(()), |mut app_metrics| app_metrics.leave()));
        if let Err(error) = left {
            log::error!("cannot release the memory of the server's counters, which this process does not need: {error}");
        }
    }
}
