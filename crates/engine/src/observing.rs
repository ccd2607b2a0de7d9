//! The part of an engine that observes requests: traces, spans, times, routes and logs.

use super::answer::Lost;
use super::route::Routes;
use super::spans::Spans;
use super::states::GaugeReport;
use super::trace::Traces;
use oribi_config::{Settings, Timeouts};
use oribi_log::{AccessLog, SlowLog};
use std::time::Duration;

/// The observers of requests. Each is off unless the settings turn it on.
pub(super) struct Observing {
    /// The traces, if requests are part of traces.
    pub(super) traces: Option<Traces>,
    /// The sender of spans, if spans are exported.
    pub(super) spans: Option<Spans>,
    /// Whether a request with a span was handed out, so that the end of its app's work is measured.
    pub(super) measures_one: bool,
    /// The routes by which requests are counted, if any.
    pub(super) routes: Option<Routes>,
    pub(super) gauges: GaugeReport,
    /// Whether the durations of the parts of requests are measured.
    pub(super) measures: bool,
    pub(super) access_log: Option<AccessLog>,
    /// The log of slow requests, if any.
    pub(super) slow_log: Option<SlowLog>,
    /// The time of the last log line about contradicting fields.
    pub(super) contradiction_told: Option<Duration>,
    /// The exchanges that were given back and whose clients disconnected before the answer; `None` if this process is not an
    /// edge.
    pub(super) lost: Option<Vec<Lost>>,
}

impl Observing {
    /// The observers that the settings turn on.
    pub(super) fn new(settings: &Settings, access_log: Option<AccessLog>) -> Self {
        let spans = Spans::new(settings);
        Self {
            traces: settings.traces.then(|| Traces::new(settings.trace_sample).keeping_callers(spans.is_some())),
            routes: Routes::new(settings),
            gauges: GaugeReport::default(),
            measures: access_log.is_some() || settings.serves_metrics() || settings.slow < Timeouts::NEVER,
            spans,
            measures_one: false,
            access_log,
            slow_log: SlowLog::new(settings.slow),
            contradiction_told: None,
            lost: None,
        }
    }
}
