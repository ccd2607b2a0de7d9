//! The state of a response while a host works on it, the same for all protocols.

use super::encoders::EncodedStream;
use super::exchange::{Exchange, Received};
use super::filter::Changes;
use super::name::Name;
use super::remote::Remote;
use super::request_id::RequestId;
use super::request_timings::{RequestTimings, Wait};
use oribi_host::ExchangeId;
use oribi_log::Noted;
use oribi_message::{HeadLayout, RequestHead};

/// The state of the response to one exchange.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) timings: RequestTimings,
    /// The status; 0 before the response begins.
    pub(super) status: u16,
    /// The number of its route; 0 without routes.
    pub(super) route: u8,
    /// Whether the client's connection uses https, so that the response has the fields for https.
    pub(super) https: bool,
    /// Whether the response is finished, so that nothing may be added to it.
    pub(super) finished: bool,
    /// Bytes of content that were, or will be, sent to the client.
    pub(super) sent: u64,
    /// Whether a lane has the request and its buffers. Otherwise the host has returned the request, and answers later.
    lent: bool,
    /// The data of a returned request for its line of the access log, if there is a log.
    pub(super) draft: Option<Box<Draft>>,
    /// The values of response fields for the access log.
    pub(super) noted: Option<Box<Noted>>,
    /// The id of the request, which the response repeats, if requests have ids.
    pub(super) id: Option<Box<RequestId>>,
    /// The changes of the response by its route; `None` without any.
    pub(super) changes: Option<Box<Changes>>,
}

impl Answer {
    /// Whether the head of the response is to be changed.
    #[inline]
    pub(super) fn is_filtered(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.filter.is_some())
    }

    /// The encoder of the content, if the content is encoded piece by piece.
    pub(super) fn encoded_stream(&mut self) -> Option<&mut EncodedStream> {
        self.changes.as_mut()?.stream.as_deref_mut()
    }

    /// Notes that the request had to wait for a worker.
    #[inline]
    pub(super) fn waited(&mut self, Wait { nanoseconds, worker }: Wait) {
        self.timings.wait(nanoseconds);
        if let Some(draft) = self.draft.as_mut().filter(|_| worker.is_some()) {
            draft.worker = worker;
        }
    }
}

/// The head and the client of a request that is answered after its host has returned, kept for the log.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) head: Vec<u8>,
    pub(super) layout: HeadLayout,
    pub(super) remote: Remote,
    pub(super) listener: u16,
    /// The other end of the connection, if it is not the client.
    pub(super) peer: Option<Remote>,
    /// The user of the request; empty if nobody has checked who it is.
    pub(super) user: Vec<u8>,
    pub(super) earlier: u32,
    /// The pid of the worker that has the request, if it is known and not this process.
    pub(super) worker: Option<u32>,
    /// Whether the client sent the request over https.
    pub(super) https: bool,
}

impl Draft {
    /// The head of the request.
    #[inline]
    pub(super) fn head(&self) -> RequestHead<'_> {
        RequestHead::new(&self.head, &self.layout)
    }

    /// Copies the data of a request. The memory of the previous request is reused.
    pub(super) fn fill(&mut self, exchange: &Exchange) {
        let Received { remote, listener, forwarded, earlier, .. } = &*exchange.received;
        let layout = exchange.layout_as_sent();
        let mut fields = std::mem::take(&mut self.layout.fields);
        fields.clear();
        fields.extend_from_slice(&layout.fields);
        self.layout = HeadLayout { fields, ..*layout };
        self.head.clear();
        self.head.extend_from_slice(exchange.head_bytes());
        self.user.clear();
        self.user.extend_from_slice(exchange.user().unwrap_or_default());
        (self.remote, self.peer, self.listener) = (*remote, forwarded.peer, *listener);
        (self.earlier, self.worker, self.https) = (*earlier, None, exchange.received.is_https());
    }
}

/// The outcome of a response, for the access log.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) finished: bool,
    pub(super) status: u16,
    pub(super) route: u8,
    /// Bytes of content sent to the client.
    pub(super) sent: u64,
    /// The times; `None` if the request was refused before it was complete.
    pub(super) timings: Option<RequestTimings>,
    pub(super) noted: Option<Box<Noted>>,
}

/// The log line of an exchange that ends after its host has returned.
#[derive(Debug)]
pub(super) struct LateLine {
    pub(super) draft: Box<Draft>,
    pub(super) outcome: Outcome,
}

/// The data by which an exchange is counted at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) timings: RequestTimings,
    /// The status; 0 without a response.
    pub(super) status: u16,
    pub(super) route: u8,
}

/// A response whose app has finished, and that has not been sent completely.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) counted: Counted,
    pub(super) line: Option<LateLine>,
}

/// An exchange whose client disconnected before the answer.
#[derive(Debug)]
pub struct Lost {
    pub exchange: ExchangeId,
    pub(super) counted: Counted,
    pub(super) line: Option<LateLine>,
    /// Whether the host has not returned yet. Then the host has the data for the log line.
    pub(super) lent: bool,
}

impl Lost {
    pub(super) fn of(name: Name, answer: &mut Answer) -> Self {
        Self { exchange: name.into(), counted: answer.counted(), lent: answer.is_lent(), line: answer.late_line() }
    }
}

impl Answer {
    pub(super) const fn new(timings: RequestTimings, https: bool, id: Option<Box<RequestId>>) -> Self {
        Self {
            timings,
            status: 0,
            route: 0,
            https,
            finished: false,
            sent: 0,
            lent: true,
            draft: None,
            noted: None,
            id,
            changes: None,
        }
    }

    #[inline]
    pub(super) const fn is_lent(&self) -> bool {
        self.lent
    }

    /// Notes that the host has returned the request.
    #[inline]
    pub(super) fn give_back(&mut self, draft: Option<Box<Draft>>) {
        (self.lent, self.draft) = (false, draft);
    }

    #[inline]
    pub(super) const fn counted(&self) -> Counted {
        Counted { timings: self.timings, status: self.status, route: self.route }
    }

    /// Takes the data of the log line, if the host has returned and there is a log.
    pub(super) fn late_line(&mut self) -> Option<LateLine> {
        Some(LateLine { draft: self.draft.take()?, outcome: self.outcome() })
    }

    /// Takes the outcome for the log, together with the noted fields if the response is finished.
    pub(super) fn outcome(&mut self) -> Outcome {
        let Self { finished, status, route, sent, timings, ref mut noted, .. } = *self;
        let noted = if finished { noted.take() } else { None };
        Outcome { finished, status, route, sent, timings: Some(timings), noted }
    }
}
