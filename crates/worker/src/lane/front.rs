//! Handlers in front of the app. Each answers its own requests; the host gets the others.

mod challenge;
mod files;
mod https;
mod metrics;
mod probe;

use super::Lane;
pub use files::Files;
pub use https::host_of;
use oribi_config::Settings;
use oribi_listen::Listener;
use oribi_message::{FieldPair, ResponseHead};
use oribi_source::{LentRequest, Source};
pub use probe::{ProbePage, is_probe};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// A handler in front of the app.
trait Handler<S: Source> {
    /// Answers a request if it is for this handler, and returns any other.
    fn answer(&self, lane: &Lane<'_, S>, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange>;

    /// Continues answers that wait for another process, when the lane was woken.
    fn resume(&self, _lane: &Lane<'_, S>) {}
}

type Handlers<S> = Vec<Box<dyn Handler<S>>>;

/// The handlers, in the order in which they are asked. Without any, a request costs nothing here.
pub(super) struct Front<S: Source>(Handlers<S>);

impl<S: Source> Front<S> {
    /// A front without handlers.
    pub(super) const fn empty() -> Self {
        Self(Vec::new())
    }

    /// The handlers that `settings` ask for. The probe is not among them: with edges, an edge answers it, because it knows
    /// more.
    ///
    /// # Errors
    /// A folder of files cannot be opened.
    pub(super) fn of(settings: &Settings) -> io::Result<Self> {
        let mut handlers: Handlers<S> = Vec::new();
        if let Some(metrics) = metrics::Metrics::of(settings) {
            handlers.push(Box::new(metrics));
        }
        // Authorities use http, and are not redirected to https.
        if let Some(challenges) = challenge::Challenges::of(settings) {
            handlers.push(Box::new(challenges));
        }
        if let Some(https) = https::HttpsRedirect::of(settings) {
            handlers.push(Box::new(https));
        }
        if let Some(files) = Files::of(settings)? {
            handlers.push(Box::new(files));
        }
        Ok(Self(handlers))
    }
}

impl<S: Source> Lane<'_, S> {
    /// Removes all handlers, because an edge has its own.
    pub fn without_front(self) -> Self {
        Self { front: Front::empty(), ..self }
    }

    /// Adds the probe before all other handlers; the answer is ready or draining.
    pub fn with_probe(mut self, settings: &Settings) -> Self {
        if let Some(probe) = probe::Probe::of(settings) {
            self.front.0.insert(0, Box::new(probe));
        }
        self
    }

    /// Asks the handlers in their order, until one answers the exchange. Returns an exchange that no handler has answered, for
    /// the host.
    #[inline]
    pub fn answer_in_front(&self, mut exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        for handler in &self.front.0 {
            exchange = handler.answer(self, exchange, listeners)?;
        }
        Some(exchange)
    }

    /// Continues the answers of handlers that waited for another process. Call this when the lane was woken.
    pub(super) fn resume_front(&self) {
        self.front.0.iter().for_each(|handler| handler.resume(self));
    }

    /// Returns an exchange to the source after a handler has answered it.
    fn take_back(&self, exchange: S::Exchange) {
        let mut source = self.source();
        source.give_back(exchange);
        // The next request may be for an app.
        source.expect_prompt_answers(false);
        self.slot.requests.fetch_add(1, Relaxed);
    }

    /// Answers with a short text, and a field that belongs to it.
    fn send_text(&self, exchange: S::Exchange, status: u16, field: Option<FieldPair<'_>>, kind: &[u8], content: &str) {
        let fields = [(&b"Content-Type"[..], kind)].into_iter().chain(field);
        self.answer_with(exchange, status, fields, content.as_bytes());
    }

    /// Answers an exchange at once, without the host. The content is left out where it must be.
    pub fn answer_with<'f>(
        &self,
        exchange: S::Exchange,
        status: u16,
        fields: impl Iterator<Item = FieldPair<'f>>,
        content: &'f [u8],
    ) {
        let is_head = exchange.head().method() == b"HEAD";
        let length = content.len().to_string();
        let mut fields: Vec<FieldPair<'_>> = fields.collect();
        let has_content = !matches!(status, 204 | 304);
        if is_head && has_content {
            fields.push((b"Content-Length", length.as_bytes()));
        }
        let parts: &[&[u8]] = if is_head || !has_content { &[] } else { &[content] };
        self.source().expect_prompt_answers(true);
        // It fails if the client has disconnected.
        let _ = self.source().respond(exchange.id(), ResponseHead { status, fields: &fields }, parts);
        self.take_back(exchange);
    }
}
