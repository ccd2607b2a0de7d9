//! Answers the health probe, by which load balancers decide which servers get requests. An answer needs no worker.

use super::EdgeLoop;
use oribi_engine::Exchange;
use oribi_io::Backend;
use oribi_stats::scoreboard::Readiness;
use oribi_worker::lane::{ProbePage, is_probe};
use std::time::Duration;

/// While all workers are busy, the edge counts as ready if a worker has taken or answered a request within this time. If all
/// apps take longer, a probe cannot know whether the server is healthy, even if the queue is short.
const MOVES_WITHIN: Duration = Duration::from_secs(5);

const fn name(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "ready",
        Readiness::Alive => "alive",
        Readiness::Draining => "draining",
    }
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// Answers a request for the probe. Returns any other request.
    pub(super) fn answer_probe(&mut self, exchange: Exchange) -> Option<Exchange> {
        if !self.settings.probe.as_ref().is_some_and(|path| is_probe(&exchange, path)) {
            return Some(exchange);
        }
        let page = self.probe_page();
        self.lane.answer_probe(exchange, &page);
        None
    }

    fn probe_page(&mut self) -> ProbePage {
        let readiness = self.readiness();
        let (depth, worker_counts) = (self.waiting_requests(), self.pool.worker_counts());
        let oldest = self.oldest_wait().unwrap_or_default();
        let content = format!(
            "{{\"state\":\"{}\",\"queue\":{depth},\"oldest_wait\":{:.3},\"workers\":{},\"waiting_workers\":{}}}\n",
            name(readiness),
            oldest.as_secs_f64(),
            worker_counts.attached,
            worker_counts.waiting,
        );
        ProbePage { status: if readiness == Readiness::Ready { 200 } else { 503 }, content }
    }

    /// Answers the first process, which asks on behalf of `oribi ctl health`.
    pub(super) fn answer_readiness_question(&self) {
        self.slot.readiness.answer_by(|| self.readiness());
    }

    fn readiness(&self) -> Readiness {
        let worker_counts = self.pool.worker_counts();
        let moves = self.now().saturating_sub(self.moved) < MOVES_WITHIN;
        if self.lane.is_draining() {
            Readiness::Draining
        } else if worker_counts.attached > 0 && (worker_counts.waiting > 0 || self.table.used() == 0 || moves) {
            Readiness::Ready
        } else {
            Readiness::Alive
        }
    }
}
