//! The handlers in front of the host: for the probe, metrics, ACME challenges, redirects to https, and files.

use super::Lane;
use super::challenge::token;
use super::https::redirect;
use super::metrics::OfferedMetrics;
use oribi_acme::Challenge;
use oribi_config::Settings;
use oribi_files::Mounts;
use oribi_host::Reply;
use oribi_listen::Listener;
use oribi_message::{FieldPair, ResponseHead};
use oribi_source::{LentRequest, Source};
use oribi_stats::scoreboard::Prospect;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// The handlers of a lane. A lane without any of them has no front, which costs nothing for a request.
#[derive(Default)]
pub(super) struct Front {
    files: Option<RefCell<Mounts>>,
    /// The https port to which http clients are redirected; `None`: they are not.
    https_port: Option<u16>,
    /// Whether ACME challenges are answered.
    challenges: bool,
    /// The path of the probe, if this lane answers it. An edge answers the probe itself, and knows more.
    probe: Option<String>,
    /// The handler for metrics, if there is a path for them.
    pub(super) metrics: Option<OfferedMetrics>,
}

/// The answer to a probe.
pub struct ProbePage {
    /// The status.
    pub status: u16,
    /// The content.
    pub content: String,
}

impl<S: Source> Lane<'_, S> {
    /// Sets the handlers, except that for the probe.
    pub(super) fn with_front(mut self, settings: &Settings) -> io::Result<Self> {
        let files = &settings.files;
        if !files.mounts.is_empty() {
            let mounts = Mounts::open(&files.mounts, &files.options)?;
            self.front.get_or_insert_default().files = Some(RefCell::new(mounts));
        }
        if !settings.acme.certificates.is_empty() && settings.acme.challenge == Challenge::Http {
            self.front.get_or_insert_default().challenges = true;
        }
        if let Some(path) = &settings.metrics_path {
            self.front.get_or_insert_default().metrics = Some(OfferedMetrics::at(path.clone()));
        }
        if settings.redirect_https.is_some() {
            self.front.get_or_insert_default().https_port = settings.redirect_https;
        }
        Ok(self)
    }

    /// Removes the handlers, because an edge has called its own.
    pub fn without_front(self) -> Self {
        Self { front: None, ..self }
    }

    /// Makes the lane answer the probe as far as it can: it is ready, or the server is stopping.
    pub fn with_probe(mut self, settings: &Settings) -> Self {
        if let Some(path) = &settings.probe {
            self.front.get_or_insert_default().probe = Some(path.clone());
        }
        self
    }

    /// Answers a request by one of the handlers; otherwise returns the exchange for the host.
    #[inline]
    pub fn answer_in_front(&self, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        let Some(front) = &self.front else { return Some(exchange) };
        if front.probe.as_ref().is_some_and(|path| is_probe(&exchange, path)) {
            self.tell_probe(exchange, &self.probe_page());
            return None;
        }
        let exchange = match &front.metrics {
            Some(offered) => self.ask_for_metrics(offered, exchange, listeners)?,
            None => exchange,
        };
        if front.challenges
            && let Some(answer) = answer_to_challenge(&exchange, listeners)
        {
            self.tell(exchange, 200, None, b"application/octet-stream", &answer);
            return None;
        }
        if let Some(port) = front.https_port
            && let Some(redirect) = redirect(&exchange.request(listeners), port)
        {
            let location = redirect.location.as_deref().map(|location| (&b"Location"[..], location));
            self.tell(exchange, redirect.status, location, b"text/plain", &redirect.content());
            return None;
        }
        let Some(files) = &front.files else { return Some(exchange) };
        self.source().expect_prompt_answers(true);
        let answered = files.borrow_mut().answer(&exchange.request(listeners), Reply::new(self, exchange.id()));
        if let Err(reply) = answered {
            let _for_the_host = reply.detach();
            return Some(exchange);
        }
        self.take_back(exchange);
        None
    }

    /// Returns an answered exchange to the source, and counts the request.
    fn take_back(&self, exchange: S::Exchange) {
        let mut source = self.source();
        source.give_back(exchange);
        // The next request may be for an app.
        source.expect_prompt_answers(false);
        self.slot.requests.fetch_add(1, Relaxed);
    }

    /// Answers a request for the probe.
    pub fn tell_probe(&self, exchange: S::Exchange, page: &ProbePage) {
        self.tell(exchange, page.status, Some((b"Cache-Control", b"no-store")), b"application/json", &page.content);
    }

    /// Answers with a short text, and an additional field.
    pub(super) fn tell(&self, exchange: S::Exchange, status: u16, field: Option<FieldPair<'_>>, kind: &[u8], content: &str) {
        let is_head = exchange.head().method() == b"HEAD";
        let length = content.len().to_string();
        let mut fields: Vec<FieldPair<'_>> = vec![(b"Content-Type", kind)];
        fields.extend(field);
        if is_head {
            fields.push((b"Content-Length", length.as_bytes()));
        }
        let parts: &[&[u8]] = if is_head { &[] } else { &[content.as_bytes()] };
        self.source().expect_prompt_answers(true);
        // It fails if the client has gone.
        let _ = self.source().respond(exchange.id(), ResponseHead { status, fields: &fields }, parts);
        self.take_back(exchange);
    }

    /// Returns the answer of a lane without an edge: a lane that answers is ready.
    fn probe_page(&self) -> ProbePage {
        let (status, state) = if self.is_draining() { (503, "draining") } else { (200, "ready") };
        ProbePage { status, content: format!("{{\"state\":\"{state}\"}}\n") }
    }

    /// Whether the server is stopping, or is about to.
    pub fn is_draining(&self) -> bool {
        self.stops() || self.slot.prospect() != Prospect::Stays
    }
}

/// Whether a request is one for the probe at `path`.
pub fn is_probe(exchange: &impl LentRequest, path: &str) -> bool {
    let head = exchange.head();
    head.path() == path.as_bytes() && matches!(head.method(), b"GET" | b"HEAD")
}

/// Returns the answer to an ACME challenge; `None`: the request is not one.
fn answer_to_challenge(exchange: &impl LentRequest, listeners: &[Listener]) -> Option<String> {
    let token = token(&exchange.head())?;
    let thumbprint = listeners.iter().find_map(|listener| listener.thumbprint.as_deref())?;
    Some(oribi_acme::answer(token, thumbprint))
}
