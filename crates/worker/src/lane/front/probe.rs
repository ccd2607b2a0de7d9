//! The probe of load balancers and orchestrators (`--probe`).

use super::Handler;
use crate::lane::Lane;
use oribi_config::Settings;
use oribi_listen::Listener;
use oribi_source::{LentRequest, Source};
use oribi_stats::scoreboard::DrainState;

/// Answers a path with the state of the server.
pub(super) struct Probe {
    path: String,
}

/// An answer to a probe.
pub struct ProbePage {
    /// The status of the answer.
    pub status: u16,
    /// The content of the answer, as JSON.
    pub content: String,
}

impl Probe {
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        settings.probe.clone().map(|path| Self { path })
    }
}

impl<S: Source> Handler<S> for Probe {
    fn answer(&self, lane: &Lane<'_, S>, exchange: S::Exchange, _listeners: &[Listener]) -> Option<S::Exchange> {
        if !is_probe(&exchange, &self.path) {
            return Some(exchange);
        }
        lane.answer_probe(exchange, &lane.probe_page());
        None
    }
}

impl<S: Source> Lane<'_, S> {
    /// Answers a request for the probe.
    pub fn answer_probe(&self, exchange: S::Exchange, page: &ProbePage) {
        self.send_text(exchange, page.status, Some((b"Cache-Control", b"no-store")), b"application/json", &page.content);
    }

    /// The state as far as a lane without an edge knows it: a lane that answers is ready.
    fn probe_page(&self) -> ProbePage {
        let (status, state) = if self.is_draining() { (503, "draining") } else { (200, "ready") };
        ProbePage { status, content: format!("{{\"state\":\"{state}\"}}\n") }
    }

    /// Whether the server is stopping, or is about to.
    pub fn is_draining(&self) -> bool {
        self.stops() || self.slot.drain_state() != DrainState::Serving
    }
}

/// Whether a request is one for the probe at `path`.
pub fn is_probe(exchange: &impl LentRequest, path: &str) -> bool {
    let head = exchange.head();
    head.path() == path.as_bytes() && matches!(head.method(), b"GET" | b"HEAD")
}
