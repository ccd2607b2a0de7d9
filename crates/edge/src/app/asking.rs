//! Questions whether requests may go on: their answers do not go to clients, unless they refuse.

use super::AppPool;
use super::queue::Purpose;
use super::table::Entry;
use oribi_engine::Exchange;
use oribi_host::{Content as RequestContent, ExchangeId, Gateway};
use oribi_io::Backend;
use oribi_ipc::slot::{Content, Head, Malformed};
use oribi_message::{HeadLayout, RequestHead};
use oribi_pool::Ticket;

/// Fields: names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The news about a request that waits for an answer. With fields, those of the answer, it may go on. Otherwise its client gets
/// a response of this app, or one of the server's own because the app has failed; or its client has gone.
pub(super) type Heard = (ExchangeId, Option<Fields>);

/// The meaning of an answer.
enum Verdict {
    Allowed,
    /// The client gets the answer.
    Refused,
    /// The app is at fault.
    Neither,
}

impl Verdict {
    fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Allowed,
            300..=399 | 401 | 403 => Self::Refused,
            _ => Self::Neither,
        }
    }
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Puts the question about an exchange into the queue, with this head and without content. Returns whether it is there;
    /// otherwise the client has been answered.
    pub(in super::super) fn ask(&mut self, exchange: &Exchange, (bytes, layout): &(Vec<u8>, HeadLayout)) -> bool {
        self.hears = true;
        let request = exchange.request(self.listeners);
        // The variables of a web server are about the request, not about the question.
        let gateway = request.gateway.filter(Gateway::is_own);
        let head = RequestHead::new(bytes, layout);
        let question = oribi_host::Request { head, content: RequestContent::None, trailers: None, gateway, ..request };
        self.enqueue(exchange, &question, Purpose::Question)
    }

    /// Returns the news since the last call.
    pub(in super::super) fn take_heard(&mut self) -> Vec<Heard> {
        self.heard.extend(self.table.unasked.drain(..).map(|exchange| (exchange, None)));
        std::mem::take(&mut self.heard)
    }

    /// Makes the answer about this exchange count for nothing.
    pub(in super::super) fn forget_question(&mut self, exchange: ExchangeId) {
        let asks = |entry: &Entry| entry.asking && entry.exchange == Some(exchange);
        let asked: Vec<Ticket> = self.table.entries().filter(|entry| asks(entry)).map(|entry| entry.ticket).collect();
        for ticket in asked {
            self.end_question(ticket);
            if let Some(entry) = self.table.get(ticket) {
                entry.exchange = None;
            }
            self.discard(ticket);
        }
        self.heard.retain(|(heard, _)| *heard != exchange);
        self.table.unasked.retain(|unasked| *unasked != exchange);
    }

    /// Whether an answer about this exchange is still to come.
    pub(in super::super) fn still_asks(&self, exchange: ExchangeId) -> bool {
        self.table.entries().any(|entry| entry.asking && entry.exchange == Some(exchange))
    }

    /// Whether the output of a worker is about a question.
    pub(super) fn is_question(&mut self, ticket: Ticket) -> bool {
        self.table.get(ticket).is_some_and(|entry| entry.asking)
    }

    /// Reads the head of an answer. Returns whether the answer goes to the client.
    #[cold]
    pub(super) fn hear(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        let Some(exchange) = self.table.exchange(ticket) else { return false };
        let read = self.heads.read(bytes, |Head { head, content }| match (content, Verdict::of(head.status)) {
            (Content::Interim | Content::Trailers, _) => Err(Malformed),
            (_, Verdict::Allowed) => {
                let fields = head.fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
                Ok((head.status, Verdict::Allowed, fields.collect()))
            }
            (_, verdict) => Ok((head.status, verdict, Vec::new())),
        });
        match read.and_then(|read| read) {
            Ok((_, Verdict::Allowed, fields)) => {
                self.end_question(ticket);
                self.heard.push((exchange, Some(fields)));
                if let Some(entry) = self.table.get(ticket) {
                    entry.exchange = None;
                }
                false
            }
            Ok((_, Verdict::Refused, _)) => {
                self.end_question(ticket);
                self.heard.push((exchange, None));
                true
            }
            Ok((status, Verdict::Neither, _)) => {
                log::error!(
                    "{}an app that was asked whether a request may go on has answered {status}: its client gets a 502",
                    self.label
                );
                self.fail(ticket, 502);
                false
            }
            Err(Malformed) => {
                log::error!("a worker has sent an invalid response");
                self.fail(ticket, 502);
                false
            }
        }
    }

    fn end_question(&mut self, ticket: Ticket) {
        if let Some(entry) = self.table.get(ticket) {
            entry.asking = false;
        }
    }
}
