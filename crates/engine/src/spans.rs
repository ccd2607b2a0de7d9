//! Spans of sampled requests (`--trace-export`): each is sent when its line of the access log would be written, with all
//! spans of a turn in one message.

use super::access::{CLIENT_GONE, Subject};
use super::answer::Outcome;
use super::trace::Traces;
use super::{Engine, Exchange};
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_ipc::spans::SpanSender;
use oribi_log::{Ending, PartDurations};
use oribi_message::{KnownField, RequestHead, Version};
use oribi_otlp::{Outbox, Record};
use std::time::Duration;

/// The time for which a computed origin of the backend's clock is used. After that it is computed again, because the system's
/// clock may have been changed.
const BELIEVED: Duration = Duration::from_secs(1);

/// The sender of one lane's spans.
#[derive(Debug)]
pub(super) struct Spans {
    sender: SpanSender,
    outbox: Outbox,
    /// The names of routes, by their numbers.
    routes: Vec<String>,
    /// The time since 1970 at which the backend's clock was zero, and the time on the backend's clock at which this was
    /// computed.
    origin: Option<(Duration, Duration)>,
}

impl Spans {
    /// Returns `None` if no spans are exported.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        if !settings.traces || settings.trace_export.endpoint.is_none() {
            return None;
        }
        let routes = settings.route_names().into_iter().map(str::to_owned).collect();
        Some(Self { sender: SpanSender::of_process()?, outbox: Outbox::default(), routes, origin: None })
    }

    /// Sends the collected spans, without waiting.
    #[inline]
    fn flush(&mut self) {
        if !self.outbox.is_empty() {
            self.outbox.flush(|message| self.sender.send(message));
        }
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.flush();
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Whether a request has a span to export. `head` is called only if requests have spans.
    #[inline]
    pub(super) fn tells_span<'h>(&self, head: impl FnOnce() -> RequestHead<'h>) -> bool {
        self.observing.spans.is_some() && Traces::is_sampled(&head())
    }

    /// Notes that a request is handed out: if it has a span, the end of its app's work is measured exactly.
    #[inline]
    pub(super) fn note_span(&mut self, exchange: &Exchange) {
        if self.tells_span(|| exchange.head()) {
            self.observing.measures_one = true;
        }
    }

    /// Sends the spans of a turn.
    #[inline]
    pub(super) fn end_turn_of_spans(&mut self) {
        if let Some(spans) = &mut self.observing.spans {
            spans.flush();
            // As long as any exchange is handed out, it may have a span.
            self.observing.measures_one &= self.answering > 0;
        }
    }

    /// Adds the span of a request that has ended.
    #[inline]
    pub(super) fn tell_span(&mut self, subject: &Subject<'_>, outcome: &Outcome, ending: Ending) {
        if let Some((head, _)) = &subject.request
            && self.tells_span(|| *head)
        {
            self.add_span(subject, outcome, ending);
        }
    }

    fn add_span(&mut self, subject: &Subject<'_>, outcome: &Outcome, ending: Ending) {
        let now = self.backend.now();
        let Some(((head, listener), timings, spans)) = subject
            .request
            .as_ref()
            .zip(outcome.timings)
            .zip(self.observing.spans.as_mut())
            .map(|((request, timings), spans)| (*request, timings, spans))
        else {
            return;
        };
        let Some(place) = Traces::place_of(&head) else { return };
        let known = spans.origin.filter(|(_, seen)| now < *seen + BELIEVED);
        let (origin, _) = *spans.origin.insert(known.unwrap_or_else(|| (self.backend.wall_clock().saturating_sub(now), now)));
        let PartDurations { queue, first, app, send } = timings.parts(now.into());
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let gone = ending == Ending::Aborted;
        // The first name belongs to requests without a route.
        let route = spans.routes.get(usize::from(outcome.route)).filter(|_| outcome.route > 0).map_or("", String::as_str);
        // Without an edge, this process runs the app.
        let worker = if self.observing.lost.is_none() { Some(std::process::id()) } else { subject.worker };
        let record = Record {
            trace: place.trace,
            span: place.span,
            parent: place.parent,
            begin: nanoseconds((origin + now).saturating_sub(timings.age(now))),
            queue: nanoseconds(queue),
            first: nanoseconds(first),
            app: nanoseconds(app),
            send: nanoseconds(send),
            sent: outcome.sent,
            worker: worker.unwrap_or(0),
            status: if gone && outcome.status == CLIENT_GONE { 0 } else { outcome.status },
            version: match head.version() {
                Version::Http10 => oribi_otlp::Version::Http10,
                Version::Http11 => oribi_otlp::Version::Http11,
                Version::Http2 => oribi_otlp::Version::Http2,
            },
            https: subject.https,
            gone,
            method: head.method(),
            path: head.path(),
            route: route.as_bytes(),
            host: head.field(KnownField::Host).unwrap_or_else(|| self.listeners[usize::from(listener)].endpoint().address),
            client: subject.remote.address(),
            peer: subject.peer.map_or(&[], |peer| peer.address()),
        };
        spans.outbox.add(&record, |message| spans.sender.send(message));
    }
}
