//! Metrics at a path of the app (`--metrics-path`): the lane asks the first process, continues, and responds when the answer
//! has arrived.

use super::Handler;
use crate::event_sources::EventSources;
use crate::lane::Lane;
use oribi_admin::metrics::{Format, MetricsClient, MetricsRequest, Outcome, preferred};
use oribi_config::{MetricsPath, Settings};
use oribi_host::{ExchangeId, Request};
use oribi_listen::Listener;
use oribi_message::{KnownField, ResponseHead};
use oribi_source::{LentRequest, Source};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

/// The most clients of a lane that wait for metrics. Each waiting client needs a descriptor, and a suspended first process
/// answers none of them. Beyond this number the client that has waited longest gets an error, because it may have given up.
const MOST: usize = 16;

/// The media type of errors.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers a path with metrics.
pub(super) struct Metrics {
    path: MetricsPath,
    /// The socket to the first process, if this process inherited one.
    line: Option<MetricsClient>,
    waiting: RefCell<Vec<Waiting>>,
}

/// A client that waits for metrics.
struct Waiting {
    exchange: ExchangeId,
    request: MetricsRequest,
    format: Format,
    /// Whether it needs only the head of the response.
    is_head: bool,
}

impl Metrics {
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        let path = settings.metrics_path.clone()?;
        Some(Self { path, line: MetricsClient::of_process(), waiting: RefCell::default() })
    }

    fn is_for(&self, request: &Request<'_>) -> bool {
        let head = &request.head;
        let is_it = head.path() == self.path.path().as_bytes() && matches!(head.method(), b"GET" | b"HEAD");
        is_it && self.path.admits(request.remote.address)
    }

    /// Asks the first process.
    fn ask(&self, format: Format, event_sources: Option<&EventSources>) -> io::Result<MetricsRequest> {
        let (Some(line), Some(event_sources)) = (&self.line, event_sources) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let request = line.ask(format)?;
        event_sources.await_answer(request.as_fd())?;
        Ok(request)
    }
}

impl<S: Source> Handler<S> for Metrics {
    #[inline(never)]
    fn answer(&self, lane: &Lane<'_, S>, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        if !self.is_for(&exchange.request(listeners)) {
            return Some(exchange);
        }
        let head = exchange.head();
        let accepted = head.fields().filter(|(known, ..)| *known == Some(KnownField::Accept)).map(|(_, _, value)| value);
        let (format, is_head) = (preferred(accepted), head.method() == b"HEAD");
        match self.ask(format, lane.event_sources.as_ref()) {
            Ok(request) => {
                self.waiting.borrow_mut().push(Waiting { exchange: exchange.id(), request, format, is_head });
                lane.source().give_back(exchange);
                lane.slot.requests.fetch_add(1, Relaxed);
                if self.waiting.borrow().len() > MOST {
                    let mut oldest = self.waiting.borrow_mut().remove(0);
                    lane.pass_on(&mut oldest, true);
                }
            }
            Err(why) => {
                let text = format!("no metrics now: {why}\n");
                lane.send_text(exchange, 503, Some((b"Retry-After", b"1")), PLAIN.as_bytes(), &text);
            }
        }
        None
    }

    /// Answers the clients whose metrics have arrived from the first process.
    fn resume(&self, lane: &Lane<'_, S>) {
        self.waiting.borrow_mut().retain_mut(|waiting| !lane.pass_on(waiting, false));
    }
}

impl<S: Source> Lane<'_, S> {
    /// Answers a client if the first process has answered, or in any case if it is `displaced` by another client. Returns
    /// whether the client was answered.
    fn pass_on(&self, waiting: &mut Waiting, displaced: bool) -> bool {
        let (status, media_type, content) = match waiting.request.read() {
            Outcome::Metrics(metrics) => (200, waiting.format.media_type(), metrics),
            Outcome::Failed => (503, PLAIN, &b"no metrics now: the first process of the server has ended\n"[..]),
            Outcome::Pending if displaced => (503, PLAIN, &b"no metrics now: too many wait for them\n"[..]),
            Outcome::Pending => return false,
        };
        let length = content.len().to_string();
        let fields = [
            (&b"Content-Type"[..], media_type.as_bytes()),
            (b"Cache-Control", b"no-store"),
            (b"Content-Length", length.as_bytes()),
        ];
        let (fields, parts) = if waiting.is_head { (&fields[..], &[][..]) } else { (&fields[..2], &[content][..]) };
        let mut source = self.source();
        // If this fails, the client has disconnected.
        let _ = source.respond(waiting.exchange, ResponseHead { status, fields }, parts);
        source.submit();
        drop(source);
        self.leave(&waiting.request);
        true
    }

    fn leave(&self, request: &MetricsRequest) {
        if let Some(event_sources) = &self.event_sources {
            // Closing the socket would not suffice, because a process that the app has forked may have a copy.
            let _ = event_sources.unwatch(request.as_fd());
        }
    }
}
