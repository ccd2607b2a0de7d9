//! Writes the log lines of an exchange when its response is finished: in the access log, and in the error log if it was slow.

use super::answer::{Draft, LateLine, Outcome};
use super::connection::{Answering, Fate, Outlook, State};
use super::exchange::Received;
use super::name::{ExchangeIndex, Name};
use super::remote::Remote;
use super::request_id::RequestId;
use super::request_timings::RequestTimings;
use super::stream::Stream;
use super::trace::Traces;
use super::{Engine, Exchange};
use oribi_io::Backend;
use oribi_log::{AccessEntry, AccessLog, Ending, SlowLog, reopen_error_log};
use oribi_message::RequestHead;
use oribi_proto::h1::Refusal;
use std::fs::File;
use std::time::{Duration, SystemTime};

/// The status in the log for a client that left before its answer: the code that nginx introduced.
pub(super) const CLIENT_GONE: u16 = 499;

/// The status in the log for a request whose socket the app has hijacked: from then on the connection did not speak HTTP, as
/// after a 101 (RFC 9110, section 15.2.2).
pub(super) const TAKEN: u16 = 101;

/// The most drafts that are kept for the next requests; more are freed. Each connection may have a waiting request.
const SPARE_DRAFTS: usize = 160;

impl<B: Backend> Engine<'_, B> {
    /// Reopens the log files by their names, after log rotation has renamed the old ones.
    pub fn reopen_logs(&mut self) {
        let access = self.observing.access_log.as_mut().map_or(Ok(()), AccessLog::reopen);
        for (name, outcome) in [("error", reopen_error_log(self.settings)), ("access", access)] {
            if let Err(error) = outcome {
                log::error!("cannot open the {name} log again: {error}");
            }
        }
    }

    /// Continues with this access log, which another process has reopened.
    pub fn use_access_log(&mut self, file: File) {
        if let Some(log) = &mut self.observing.access_log {
            log.replace(file);
        }
    }

    /// From now on this engine does not reopen the access log itself: see [`Engine::use_access_log`].
    pub fn expect_access_log(&mut self) {
        if let Some(log) = &mut self.observing.access_log {
            log.expect_file();
        }
    }

    /// Writes the log line of an exchange whose host has returned. `answered` is the outcome of the finished response and the
    /// number of its connection. It is `None` if the client has disconnected, or if the app has hijacked the socket.
    #[inline(never)]
    pub(super) fn record(&mut self, exchange: &Exchange, answered: Option<(Outcome, u32)>) {
        let taken = answered.is_none() && self.was_taken(exchange.id);
        if self.observing.access_log.is_none() && self.observing.slow_log.is_none() && !self.tells_span(|| exchange.head()) {
            return;
        }
        let received = &exchange.received;
        let (outcome, ending) = match answered {
            Some((outcome, index)) => (outcome, self.ending_of(index)),
            None => {
                let timings = Some(RequestTimings::new(received.complete_at, received.lent_at.time()));
                let (status, ending) = if taken { (TAKEN, Ending::Closes) } else { (CLIENT_GONE, Ending::Aborted) };
                (Outcome { timings, ..bare(status) }, ending)
            }
        };
        self.write_line(&Subject::of(exchange), &outcome, ending);
    }

    /// The data of a request for a log line or a span that follows later; `None` if neither will follow.
    #[inline]
    pub(super) fn draft(&mut self, exchange: &Exchange) -> Option<Box<Draft>> {
        if self.observing.access_log.is_none() && self.observing.slow_log.is_none() && !self.tells_span(|| exchange.head()) {
            return None;
        }
        Some(self.filled_draft(exchange))
    }

    /// Copies the data of a request. Not inlined, because most servers have no log for it.
    #[inline(never)]
    fn filled_draft(&mut self, exchange: &Exchange) -> Box<Draft> {
        let mut draft = self.memory.spare_drafts.pop().unwrap_or_default();
        draft.fill(exchange);
        draft
    }

    /// Whether a request that has taken this many nanoseconds is slow.
    #[inline]
    fn is_slow(&self, took: u64) -> bool {
        self.observing.slow_log.as_ref().is_some_and(|log| log.includes(took))
    }

    /// Whether a log line or a span is due for a request that has taken this many nanoseconds.
    #[inline]
    pub(super) fn tells_of<'h>(&self, head: impl FnOnce() -> RequestHead<'h>, took: u64) -> bool {
        self.observing.access_log.is_some() || self.is_slow(took) || self.tells_span(head)
    }

    /// The outcome of a finished response whose host returns now.
    pub(super) fn outcome_of(&mut self, exchange: &Exchange) -> Option<Outcome> {
        let answer = match Name::from(exchange.id).place {
            ExchangeIndex::Connection(index) => match &mut self.connections.get_mut(index)?.state {
                State::Answering(answering) => &mut answering.answer,
                _ => return None,
            },
            ExchangeIndex::Stream(number) => self.streams.get_mut(number).and_then(Stream::answering)?.2,
        };
        Some(answer.outcome())
    }

    /// The time at which the log of slow requests is due.
    #[inline]
    pub(super) fn slow_log_due(&self) -> Option<Duration> {
        self.observing.slow_log.as_ref().and_then(SlowLog::due)
    }

    /// Writes the line of a response that was finished, or whose client disconnected, after its host had returned.
    pub(super) fn record_late(&mut self, line: Option<LateLine>, ending: Ending) {
        let Some(LateLine { draft, mut outcome }) = line else { return };
        if !outcome.finished {
            outcome.status = CLIENT_GONE;
        }
        self.write_line(&Subject::of_draft(&draft), &outcome, ending);
        self.keep_draft(draft);
    }

    /// Keeps a draft for the next request.
    #[inline]
    pub(super) fn keep_draft(&mut self, draft: Box<Draft>) {
        if self.memory.spare_drafts.len() < SPARE_DRAFTS {
            self.memory.spare_drafts.push(draft);
        }
    }

    /// Counts a request that was refused before it reached a host, and writes its log line.
    #[inline(never)]
    pub(super) fn record_refusal(&mut self, remote: &Remote, id: Option<&RequestId>, refusal: Refusal, ending: Ending) {
        let status = refusal.status();
        self.count_refusal(refusal);
        self.tally.responded(status);
        let subject = Subject { remote, peer: None, user: None, request: None, earlier: None, id, worker: None, https: false };
        self.write_line(&subject, &bare(status), ending);
    }

    /// The fate of a connection that has sent a response, for the log.
    pub(super) fn ending_of(&self, index: u32) -> Ending {
        let persists = self.connections.get(index).is_some_and(|connection| match &connection.state {
            State::Answering(Answering { outlook: Outlook { fate, .. }, .. }) | State::Flushing(fate) => *fate == Fate::Reuse,
            State::Carrying(carrier) => !carrier.must_close(),
            State::Greeting | State::Reading(_) | State::Queued(_) => true,
            State::Lingering | State::WebSocket(_) => false,
        });
        if persists { Ending::Persists } else { Ending::Closes }
    }

    /// Writes the lines of the access log and of the log of slow requests, and sends the span.
    #[inline(never)]
    fn write_line(&mut self, subject: &Subject<'_>, outcome: &Outcome, ending: Ending) {
        self.tell_span(subject, outcome, ending);
        let now = self.backend.now();
        let is_slow = outcome.timings.is_some_and(|timings| self.is_slow(timings.total(now.into())));
        if self.observing.access_log.is_none() && !is_slow {
            return;
        }
        let Subject { remote, peer, user, request, earlier, id, worker, https: _ } = *subject;
        let parts = outcome.timings.map(|timings| timings.parts(now.into()));
        let duration = outcome.timings.map_or(Duration::ZERO, |timings| timings.age(now));
        let wall_clock = SystemTime::UNIX_EPOCH + self.backend.wall_clock();
        let in_head = request.zip(self.server_fields.ids.as_ref()).and_then(|((head, _), ids)| ids.of(&head));
        let id = in_head.or(id.map(RequestId::as_bytes));
        let trace = request.filter(|_| self.observing.traces.is_some()).and_then(|(head, _)| Traces::of(&head));
        // Addresses and ports are rendered from numbers and are always text.
        let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
        let entry = AccessEntry {
            remote: text(remote.address()),
            remote_port: text(remote.port()),
            peer: text(peer.unwrap_or(remote).address()),
            user,
            earlier,
            server: request.map(|(_, listener)| self.listeners[usize::from(listener)].endpoint()),
            head: request.map(|(head, _)| head),
            id,
            trace,
            status: outcome.status,
            bytes_sent: outcome.sent,
            ending,
            noted: outcome.noted.as_deref(),
            time: wall_clock.checked_sub(duration).unwrap_or(wall_clock),
            duration,
            parts,
        };
        if let Some(log) = &mut self.observing.access_log {
            log.record(&entry);
        }
        if let Some(log) = self.observing.slow_log.as_mut().filter(|_| is_slow) {
            // Without an edge, this process runs the app.
            let worker = if self.observing.lost.is_none() { Some(std::process::id()) } else { worker };
            log.record(&entry, worker, now);
        }
    }
}

/// The request that a line is about.
pub(super) struct Subject<'r> {
    pub(super) remote: &'r Remote,
    /// The other end of the connection, if the client is not the peer.
    pub(super) peer: Option<&'r Remote>,
    /// The user of the request; `None` if nobody has checked who it is.
    user: Option<&'r [u8]>,
    /// The head of the request and the number of its listener; `None` if the head is not available.
    pub(super) request: Option<(RequestHead<'r>, u16)>,
    /// The number of earlier requests on its connection, if known.
    earlier: Option<u32>,
    /// The id of a request whose head is not available.
    id: Option<&'r RequestId>,
    /// The pid of the worker that runs the app, if it is known and not this process.
    pub(super) worker: Option<u32>,
    /// Whether the client sent the request over https.
    pub(super) https: bool,
}

impl<'r> Subject<'r> {
    fn of(exchange: &'r Exchange) -> Self {
        let Received { remote, forwarded, listener, earlier, .. } = &*exchange.received;
        let (request, https) = (Some((exchange.head_as_sent(), *listener)), exchange.received.is_https());
        let (peer, user, earlier) = (forwarded.peer.as_ref(), exchange.user(), Some(*earlier));
        Self { remote, peer, user, request, earlier, id: None, worker: None, https }
    }

    fn of_draft(draft: &'r Draft) -> Self {
        let Draft { remote, listener, peer, user, earlier, worker, https, .. } = draft;
        let request = Some((draft.head(), *listener));
        let (peer, earlier, user) = (peer.as_ref(), Some(*earlier), Some(&user[..]).filter(|user| !user.is_empty()));
        Self { remote, peer, user, request, earlier, id: None, worker: *worker, https: *https }
    }
}

/// A response without content.
const fn bare(status: u16) -> Outcome {
    Outcome { finished: true, status, route: 0, sent: 0, timings: None, noted: None }
}
