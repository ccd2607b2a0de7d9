//! The counters of a server in its first process: it collects what edges and workers have counted, and adds what it has done itself.

use super::certifier::Certifier;
use super::edges::Edges;
use oribi_stats::figures::{self, Contexts, FigureTotals, Figures};
use oribi_stats::scoreboard::{Board, Scoreboard};
use oribi_stats::totals::{Counter, Counts, Seen, Totals};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How often a server that hands over adds to the totals, which the next one shows.
pub(super) const ENTERS_EVERY: Duration = Duration::from_millis(200);

/// How many killed molds may have left workers that are still counted.
const MOST_ORPHANED: usize = 8;

/// Workers whose mold was killed.
#[derive(Debug)]
struct Orphaned {
    board: Board,
    seen: Seen,
    seen_figures: figures::Seen,
    /// Whether they have connections, and count what edges would count otherwise.
    own_connections: bool,
    /// When they have ended at the latest; `None`: never.
    until: Option<Instant>,
}

/// The totals of a server, and what has already gone into them.
#[derive(Debug)]
pub(super) struct Books {
    totals: Totals,
    /// Those of apps; `None`: there are no metrics.
    figures: Option<FigureTotals>,
    of_edges: Seen,
    of_workers: Seen,
    of_certifier: Seen,
    figures_of_workers: figures::Seen,
    orphaned: RefCell<Vec<Orphaned>>,
}

impl Books {
    pub(super) fn new(totals: Totals, figures: Option<FigureTotals>) -> Self {
        Self {
            totals,
            figures,
            of_edges: Seen::default(),
            of_workers: Seen::default(),
            of_certifier: Seen::default(),
            figures_of_workers: figures::Seen::default(),
            orphaned: RefCell::default(),
        }
    }

    /// The totals, for somebody who goes on with them.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The figures of apps, likewise.
    pub(super) fn figure_totals(&self) -> Option<&FigureTotals> {
        self.figures.as_ref()
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

    /// Enters what the certifier has counted.
    pub(super) fn enter_certifier(&self, certifier: Option<&Certifier>) {
        if let Some(certifier) = certifier {
            self.totals.fold(&self.of_certifier, &certifier.counts());
        }
    }

    /// Enters what all workers of this process have counted.
    pub(super) fn enter_workers(&self, counts: &Counts, scoreboard: &Scoreboard) {
        self.totals.fold(&self.of_workers, counts);
        if let Some(figures) = &self.figures {
            figures.fold(&self.figures_of_workers, scoreboard.figures());
        }
    }

    /// Enters what certain workers have counted, of which so much was `seen` before.
    pub(super) fn enter(&self, seen: &Seen, counts: &Counts) {
        self.totals.fold(seen, counts);
    }

    /// Enters the figures of a generation, of which so much was `seen` before.
    pub(super) fn enter_figures(&self, seen: &figures::Seen, board: &Board) {
        if let Some(figures) = &self.figures {
            figures.fold(seen, board.figures());
        }
    }

    /// A mold was killed. Its workers end by themselves, within `patience`, and count as long as they answer what they have.
    pub(super) fn keep_orphaned(
        &self,
        board: Board,
        (seen, seen_figures): (Seen, figures::Seen),
        own_connections: bool,
        patience: Duration,
    ) {
        // What the oldest have counted until now is not forgotten with them.
        self.enter_orphaned();
        let mut orphaned = self.orphaned.borrow_mut();
        if orphaned.len() == MOST_ORPHANED {
            orphaned.remove(0);
        }
        let until = Instant::now().checked_add(patience);
        orphaned.push(Orphaned { board, seen, seen_figures, own_connections, until });
    }

    /// Enters what workers without a mold have counted.
    pub(super) fn enter_orphaned(&self) {
        let now = Instant::now();
        self.orphaned.borrow_mut().retain(|orphaned| {
            self.enter(&orphaned.seen, &orphaned.board.counts(orphaned.own_connections));
            self.enter_figures(&orphaned.seen_figures, &orphaned.board);
            orphaned.until.is_none_or(|until| now < until)
        });
    }

    /// The figures of apps, with the contexts of their languages that there are.
    pub(super) fn figures(&self, contexts: impl Iterator<Item = Contexts>) -> Figures {
        self.figures.as_ref().map(|figures| figures.read(Contexts::of_all(contexts))).unwrap_or_default()
    }

    /// The counters, and for how long they have counted.
    pub(super) fn read(&self) -> (Counts, Duration) {
        (self.totals.read(), self.totals.age())
    }

    /// In a new edge or worker: leaves the totals to those who keep them.
    pub(super) fn leave(&mut self) {
        self.orphaned.borrow_mut().clear();
        let left = self.totals.leave().and(self.figures.take().map_or(Ok(()), |mut figures| figures.leave()));
        if let Err(error) = left {
            log::error!("this process keeps the memory with the counters of the server, which it does not need: {error}");
        }
    }
}
