//! Answers the health probe, by which load balancers decide which servers get requests. An answer needs no worker.

use super::EdgeLoop;
use super::app::AppPool;
use oribi_engine::Exchange;
use oribi_io::Backend;
use oribi_stats::scoreboard::Readiness;
use oribi_worker::lane::{ProbePage, is_probe};

const fn name(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "ready",
        Readiness::Alive => "alive",
        Readiness::Draining => "draining",
    }
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
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
        let depth: usize = self.apps.iter_mut().map(AppPool::waiting_requests).sum();
        let oldest = self.apps.iter_mut().filter_map(AppPool::oldest_wait).max().unwrap_or_default();
        let counts = || self.apps.iter().map(|app| app.pool.worker_counts());
        let content = format!(
            "{{\"state\":\"{}\",\"queue\":{depth},\"oldest_wait\":{:.3},\"workers\":{},\"waiting_workers\":{}}}\n",
            name(readiness),
            oldest.as_secs_f64(),
            counts().map(|counts| counts.attached).sum::<u32>(),
            counts().map(|counts| counts.waiting).sum::<u32>(),
        );
        ProbePage { status: if readiness == Readiness::Ready { 200 } else { 503 }, content }
    }

    /// Answers the first process, which asks on behalf of `oribi ctl health`.
    pub(super) fn answer_readiness_question(&self) {
        self.slot.readiness.answer_by(|| self.readiness());
    }

    /// Returns the readiness of the edge. It is ready if any of its apps is: a broken app must not take the others away from
    /// their clients.
    fn readiness(&self) -> Readiness {
        if self.lane.is_draining() {
            Readiness::Draining
        } else if self.apps.iter().any(AppPool::is_ready) {
            Readiness::Ready
        } else {
            Readiness::Alive
        }
    }
}
