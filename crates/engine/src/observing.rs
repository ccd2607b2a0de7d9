//! The part of an engine that observes requests: traces, spans, times, routes and logs.

use super::answer::Lost;
use super::route::Routes;
use super::spans::Spans;
use super::states::Shown;
use super::trace::Traces;
use oribi_config::{Settings, Timeouts};
use oribi_log::{AccessLog, SlowLog};
use std::time::Duration;

/// The observers of requests. Each is off unless the settings ask for it.
pub(super) struct Observing {
    /// `None`: requests are not part of traces.
    pub(super) traces: Option<Traces>,
    /// `None`: no spans are exported.
    pub(super) spans: Option<Spans>,
    /// A request with a span was handed out: the end of its app's work is measured.
    pub(super) measures_one: bool,
    /// `None`: requests are not counted by routes.
    pub(super) routes: Option<Routes>,
    pub(super) shown: Shown,
    /// The durations of the parts of requests are measured.
    pub(super) measures: bool,
    pub(super) access_log: Option<AccessLog>,
    /// `None`: slow requests are not logged.
    pub(super) slow_log: Option<SlowLog>,
    /// The time of the last log line about contradicting fields.
    pub(super) contradiction_told: Option<Duration>,
    /// The exchanges that were given back and whose clients have gone before they were answered; `None`: this process is no
    /// edge.
    pub(super) lost: Option<Vec<Lost>>,
}

impl Observing {
    /// The parts that the settings ask for.
    pub(super) fn new(settings: &Settings, access_log: Option<AccessLog>) -> Self {
        let spans = Spans::new(settings);
        Self {
            traces: settings.traces.then(|| Traces::new(settings.trace_sample).keeping_callers(spans.is_some())),
            routes: Routes::new(settings),
            shown: Shown::default(),
            measures: access_log.is_some() || settings.tells_metrics() || settings.slow < Timeouts::NEVER,
            spans,
            measures_one: false,
            access_log,
            slow_log: SlowLog::new(settings.slow),
            contradiction_told: None,
            lost: None,
        }
    }
}
