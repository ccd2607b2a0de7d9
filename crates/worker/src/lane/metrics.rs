//! Metrics at a path of the app (`--metrics-path`): the lane asks the first process, continues, and responds when the answer
//! has arrived.

use super::Lane;
use crate::attention::Attention;
use oribi_admin::metrics::{Format, Inquiry, Line, Outcome, preferred};
use oribi_config::MetricsPath;
use oribi_host::{ExchangeId, Request};
use oribi_listen::Listener;
use oribi_message::{KnownField, ResponseHead};
use oribi_source::{LentRequest, Source};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

/// The number of clients of a lane that wait for metrics at most. Each costs a descriptor, and a first process that is
/// stopped answers none of them. A further one displaces the oldest, which may have given up.
const MOST: usize = 16;

/// The media type of errors.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The path, and the clients that wait.
pub(super) struct OfferedMetrics {
    path: MetricsPath,
    /// The socket to the first process; `None`: it has left none for this process.
    line: Option<Line>,
    asked: RefCell<Vec<Asked>>,
}

/// A client that waits for metrics.
struct Asked {
    exchange: ExchangeId,
    inquiry: Inquiry,
    format: Format,
    /// Whether it wants only the head of the response.
    is_head: bool,
}

impl OfferedMetrics {
    pub(super) fn at(path: MetricsPath) -> Self {
        Self { path, line: Line::of_process(), asked: RefCell::default() }
    }

    fn is_for(&self, request: &Request<'_>) -> bool {
        let head = &request.head;
        let is_it = head.path() == self.path.path().as_bytes() && matches!(head.method(), b"GET" | b"HEAD");
        is_it && self.path.admits(request.remote.address)
    }

    /// Asks the first process.
    fn ask(&self, format: Format, attention: Option<&Attention>) -> io::Result<Inquiry> {
        let (Some(line), Some(attention)) = (&self.line, attention) else { return Err(io::ErrorKind::Unsupported.into()) };
        let inquiry = line.ask(format)?;
        attention.await_answer(inquiry.as_fd())?;
        Ok(inquiry)
    }
}

impl<S: Source> Lane<'_, S> {
    /// Handles a request for metrics; returns any other.
    pub(super) fn ask_for_metrics(
        &self,
        offered: &OfferedMetrics,
        exchange: S::Exchange,
        listeners: &[Listener],
    ) -> Option<S::Exchange> {
        if !offered.is_for(&exchange.request(listeners)) {
            return Some(exchange);
        }
        let head = exchange.head();
        let accepted = head.fields().filter(|(known, ..)| *known == Some(KnownField::Accept)).map(|(_, _, value)| value);
        let (format, is_head) = (preferred(accepted), head.method() == b"HEAD");
        match offered.ask(format, self.attention.as_ref()) {
            Ok(inquiry) => {
                offered.asked.borrow_mut().push(Asked { exchange: exchange.id(), inquiry, format, is_head });
                self.source().give_back(exchange);
                self.slot.requests.fetch_add(1, Relaxed);
                if offered.asked.borrow().len() > MOST {
                    let mut oldest = offered.asked.borrow_mut().remove(0);
                    self.pass_on(&mut oldest, true);
                }
            }
            Err(why) => {
                let text = format!("no metrics now: {why}\n");
                self.tell(exchange, 503, Some((b"Retry-After", b"1")), PLAIN.as_bytes(), &text);
            }
        }
        None
    }

    /// Answers the clients for which the first process has answered. Must be called when the lane was woken.
    pub(super) fn pass_metrics_on(&self) {
        let Some(offered) = self.front.as_ref().and_then(|front| front.metrics.as_ref()) else { return };
        offered.asked.borrow_mut().retain_mut(|asked| !self.pass_on(asked, false));
    }

    /// Answers a client if the first process has answered, and a `displaced` one in any case. Returns whether it has been
    /// answered.
    fn pass_on(&self, asked: &mut Asked, displaced: bool) -> bool {
        let (status, media_type, content) = match asked.inquiry.read() {
            Outcome::Metrics(metrics) => (200, asked.format.media_type(), metrics),
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
        let (fields, parts) = if asked.is_head { (&fields[..], &[][..]) } else { (&fields[..2], &[content][..]) };
        let mut source = self.source();
        // It fails if the client has gone.
        let _ = source.respond(asked.exchange, ResponseHead { status, fields }, parts);
        source.submit();
        drop(source);
        self.leave(&asked.inquiry);
        true
    }

    fn leave(&self, inquiry: &Inquiry) {
        if let Some(attention) = &self.attention {
            // Closing it would not suffice, because a process that the app has forked may have a copy.
            let _ = attention.unwatch(inquiry.as_fd());
        }
    }
}
