//! 5. Answer: the calls by which hosts respond, with a whole response or piece by piece.
//!
//! Every call looks up the destination of its response once (see [`Target`]), lets the protocol frame the response, and passes
//! the result to [`super::send`], which keeps the order of the output.

use super::batching::Batching;
use super::body::Body;
use super::connection::{Answering, Connection, Departure, Fate, Outlook, State};
use super::framing::{FRAMED_BYTES, Frame, Framing, Http2, Terms};
use super::memory::Memory;
use super::name::{ExchangeIndex, Name};
use super::observing::Observing;
use super::request_timings::Wait;
use super::response::Response;
use super::send::{COPIED_BYTES, LARGEST_IN_BATCH, SendMode, Still};
use super::slots::Slots;
use super::stream::{Stream, StreamFraming};
use super::{Engine, ServeState};
use oribi_config::Settings;
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::Backend;
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use oribi_proto::h1;
use oribi_stats::totals::{Counter, Tally};

const TEXT: &[FieldPair<'_>] = &[(b"Content-Type", b"text/plain")];

/// Responses on streams of one connection are sent together, up to this size.
const LARGEST_TOGETHER: usize = 16 << 10;

/// The state of a response after a piece was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This many bytes wait for the client now; more may follow.
    Waiting(usize),
    /// The response is finished.
    Finished,
}

/// The destination of a response, and everything that writing it may change.
pub(super) struct Target<'e, S> {
    pub(super) place: ExchangeIndex,
    /// The number of the connection.
    pub(super) index: u32,
    pub(super) response: Response<'e, S>,
    /// The plan for a connection that only one exchange uses at a time.
    pub(super) alone: Option<Alone<'e>>,
}

/// The part of the target that exists only if the exchange does not share the connection.
pub(super) struct Alone<'e> {
    pub(super) outlook: &'e mut Outlook,
    /// The requests of its connection so far.
    pub(super) requests: u32,
    listener: u16,
}

impl<'e, S> Target<'e, S> {
    /// The target of an exchange whose response is not finished. (Inlined: else each field would be copied.)
    #[inline(always)]
    pub(super) fn find(
        connections: &'e mut Slots<Connection<S>>,
        streams: &'e mut Slots<Stream>,
        exchange: ExchangeId,
    ) -> Result<Self, ReplyError> {
        let Name { place, serial } = exchange.into();
        match place {
            ExchangeIndex::Connection(index) => {
                let connection = connections.get_mut(index).filter(|connection| connection.serial == serial);
                let Connection { line, machine, state, requests, listener, .. } = connection.ok_or(ReplyError::Gone)?;
                let State::Answering(answering) = state else { return Err(ReplyError::Gone) };
                let Answering { answer, outlook, .. } = answering;
                if answer.finished {
                    return Err(ReplyError::Gone);
                }
                let alone = Alone { outlook, requests: *requests, listener: *listener };
                let response = Response { line, framing: Framing::Http(machine), answer };
                Ok(Self { place, index, response, alone: Some(alone) })
            }
            ExchangeIndex::Stream(number) => {
                let stream = streams.get_mut(number).filter(|stream| stream.serial == serial).ok_or(ReplyError::Gone)?;
                let (index, framing, answer) =
                    stream.answering().filter(|(.., answer)| !answer.finished).ok_or(ReplyError::Gone)?;
                let Connection { line, state, .. } = &mut connections[index];
                let framing = match (framing, state) {
                    (StreamFraming::FastCgi(writer), _) => Framing::FastCgi(writer),
                    (StreamFraming::Http2(frames), State::Carrying(carrier)) => {
                        let machine = carrier.http2().ok_or(ReplyError::Gone)?;
                        let room = FRAMED_BYTES.saturating_sub(line.framed()) as u64;
                        Framing::Http2(Http2 { machine, frames, room, blocked: false })
                    }
                    (StreamFraming::Http2(_), _) => return Err(ReplyError::Gone),
                };
                let response = Response { line, framing, answer };
                Ok(Self { place, index, response, alone: None })
            }
        }
    }
}

impl Alone<'_> {
    /// Whether the connection may serve another request after this one.
    #[inline]
    fn persists(&self, (stage, ended): (ServeState, &[u16]), settings: &Settings, tally: &Tally) -> bool {
        (stage == ServeState::Serving || stage == ServeState::Thinning && !ended.contains(&self.listener))
            && !self.outlook.taken
            && !settings.timeouts.keepalive.is_zero()
            && settings.limits.requests_per_connection.is_none_or(|most| self.is_within(most, tally))
    }

    /// Whether a connection may carry a request after this one, with `most` as the limit of requests; counts the limit if not.
    fn is_within(&self, most: u32, tally: &Tally) -> bool {
        let is_within = self.requests < most;
        if !is_within {
            tally.count(Counter::LimitKeepaliveRequests);
        }
        is_within
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Sends a whole response.
    ///
    /// # Errors
    /// [`ReplyError::Gone`] or [`ReplyError::Invalid`]: see there.
    #[inline]
    pub fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.respond_whole(exchange, None, head, None, Body::Parts(parts))
    }

    /// Sends a whole response to a request that had to wait for a worker.
    ///
    /// # Errors
    /// [`ReplyError::Gone`] or [`ReplyError::Invalid`]: see there.
    #[inline]
    pub fn respond_behind(
        &mut self,
        wait: Wait,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        parts: &[&[u8]],
    ) -> Result<(), ReplyError> {
        self.respond_whole(exchange, Some(wait), head, None, Body::Parts(parts))
    }

    /// Sends a whole response whose content lies partly in files.
    ///
    /// # Errors
    /// [`ReplyError::Gone`] or [`ReplyError::Invalid`]: see there.
    pub fn respond_pieces(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        pieces: &[Piece<'_>],
    ) -> Result<(), ReplyError> {
        self.respond_whole(exchange, None, head, None, Body::Pieces(pieces))
    }

    /// Sends a whole response with status 200 and prepared fields.
    ///
    /// # Errors
    /// [`ReplyError::Gone`] or [`ReplyError::Invalid`]: see there.
    pub fn respond_prepared(
        &mut self,
        exchange: ExchangeId,
        fields: &PreparedFields,
        content: Piece<'_>,
    ) -> Result<(), ReplyError> {
        let head = ResponseHead { status: 200, fields: &[] };
        match content {
            Piece::Bytes(bytes) => self.respond_whole(exchange, None, head, Some(fields), Body::Parts(&[bytes])),
            Piece::File { .. } => self.respond_whole(exchange, None, head, Some(fields), Body::Pieces(&[content])),
        }
    }

    #[inline(always)]
    fn respond_whole(
        &mut self,
        exchange: ExchangeId,
        wait: Option<Wait>,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        body: Body<'_>,
    ) -> Result<(), ReplyError> {
        if self.filters(exchange) {
            return self.respond_filtered(exchange, wait, head, prepared, body);
        }
        self.respond_framed(exchange, wait, head, prepared, body)
    }

    /// Sends a whole response that no filter changes any more.
    #[inline(never)]
    pub(super) fn respond_framed(
        &mut self,
        exchange: ExchangeId,
        wait: Option<Wait>,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        body: Body<'_>,
    ) -> Result<(), ReplyError> {
        let size = body.size();
        let (others, gathers) = (self.others_wait(), self.batching.gathers);
        let Self {
            connections,
            streams,
            server_fields,
            settings,
            stage,
            acceptance,
            answering,
            tally,
            backend,
            memory: Memory { outputs, gaps, .. },
            batching: Batching { prompt, .. },
            observing: Observing { access_log, .. },
            ..
        } = self;
        let Target { place, index, mut response, alone } = Target::find(connections, streams, exchange)?;
        if let Some(wait) = wait {
            response.answer.waited(wait);
        }
        let persist = alone.as_ref().is_some_and(|alone| alone.persists((*stage, &acceptance.ended), settings, tally));
        let id = response.answer.id.take();
        let preset = server_fields.of_response(prepared, response.answer, id.as_deref(), backend.now());
        let terms = Terms { size: Some(size), persist, preset };
        // Content of known size needs no framing at its end, so the end of the response is decided before it is sent.
        let framed = match body {
            Body::Parts(parts) if size <= COPIED_BYTES => response.write_small(head, &terms, parts, size, outputs),
            _ => response.write(head, &terms, body, gaps, outputs),
        };
        let Response { line, answer, framing } = response;
        let (mode, end) = match framed {
            Ok(framed) => framed,
            Err(why) => {
                answer.id = id;
                return Err(self.reject(exchange, why));
            }
        };
        tally.responded(head.status);
        let now = backend.now().into();
        answer.timings.begin_response(now);
        answer.timings.end_app(now);
        if let Some(log) = access_log {
            answer.noted = log.note(&head.fields.iter().copied().chain(prepared.into_iter().flat_map(PreparedFields::pairs)));
        }
        let (mut departure, mut last, mut finished) = (Departure::AtOnce, false, false);
        if let Some(Alone { outlook, .. }) = alone {
            outlook.decide(end);
            departure = match (outlook.fate, outlook.departure) {
                (Fate::Reuse, Departure::WithNext) if size <= COPIED_BYTES => Departure::WithNext,
                (Fate::Reuse, _) if others && line.waiting() <= LARGEST_IN_BATCH => Departure::WithBatch,
                _ => Departure::AtOnce,
            };
            outlook.departure = departure;
            if answer.is_lent() {
                // The next step follows when its host returns, even if the connection ends earlier.
                answer.finished = true;
                *answering -= 1;
                finished = true;
                // A prompt host returns at once, and then the connection can be closed.
                last = outlook.fate == Fate::Close && *prompt;
            }
        } else if (others || gathers) && matches!(framing, Framing::Http2(_)) && line.waiting() <= LARGEST_TOGETHER {
            departure = Departure::WithBatch;
        }
        self.limit_waiting(place);
        let still = match (mode, departure) {
            (SendMode::Gathered, _) => self.send_between(index, body),
            (SendMode::Queued, Departure::AtOnce) => self.flush_as(index, last),
            (SendMode::Queued, Departure::WithBatch) => {
                self.join_batch(index);
                Still::Open
            }
            // Settling finds the next request, or sends the waiting output.
            (SendMode::Queued, Departure::WithNext) => Still::Open,
        };
        match (still, body) {
            (Still::Open, _) if finished => {}
            (Still::Open, _) => self.answer_finished(place),
            (Still::Gone, Body::Parts(_)) => return Err(ReplyError::Gone),
            // The client need not be the cause: a file may have ended early.
            (Still::Gone, Body::Pieces(_)) => {}
        }
        Ok(())
    }

    /// Begins a response whose content follows. The head is sent with the first piece; an empty piece sends the head alone.
    ///
    /// # Errors
    /// [`ReplyError::Gone`] or [`ReplyError::Invalid`]: see there.
    pub fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.start_with_size(exchange, head, None)
    }

    /// Begins a response with content of this size, if it is known.
    ///
    /// # Errors
    /// [`ReplyError::Gone`] or [`ReplyError::Invalid`]: see there.
    pub fn start_with_size(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        size: Option<u64>,
    ) -> Result<(), ReplyError> {
        if self.filters(exchange) {
            return self.start_filtered(exchange, head, size);
        }
        self.start_framed(exchange, head, size)
    }

    /// Begins a response that no filter changes any more.
    #[inline(never)]
    pub(super) fn start_framed(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        size: Option<u64>,
    ) -> Result<(), ReplyError> {
        let Self {
            connections,
            streams,
            server_fields,
            settings,
            stage,
            acceptance,
            backend,
            tally,
            memory: Memory { outputs, .. },
            observing: Observing { access_log, .. },
            ..
        } = self;
        let mut target = Target::find(connections, streams, exchange)?;
        let persist = target.alone.as_ref().is_some_and(|alone| alone.persists((*stage, &acceptance.ended), settings, tally));
        let id = target.response.answer.id.take();
        let preset = server_fields.of_response(None, target.response.answer, id.as_deref(), backend.now());
        let terms = Terms { size, persist, preset };
        if let Err(why) = target.response.write_head(head, &terms, outputs) {
            target.response.answer.id = id;
            return Err(self.reject(exchange, why));
        }
        target.response.answer.timings.begin_response(backend.now().into());
        if let Some(log) = access_log {
            target.response.answer.noted = log.note(&head.fields.iter().copied());
        }
        self.tally.responded(head.status);
        let index = target.index;
        if matches!(target.response.framing, Framing::Http(ref machine) if machine.response_ends_with_connection()) {
            // If this process died, the kernel would close the connection, and half a response would look complete.
            target.response.line.guarded = true;
            backend.guard(&mut target.response.line.socket, true);
        }
        if let Some(Alone { outlook, .. }) = target.alone {
            // An app that writes piece by piece expects its pieces to be sent, even if another request follows this one.
            outlook.departure = Departure::AtOnce;
        }
        self.open(index).or_gone()
    }

    /// Sends a piece of content and returns how many bytes wait for the client now. A response that accepts no more content
    /// is finished, and [`ReplyError::Gone`] reports it.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over, or accepts no more content.
    pub fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError> {
        match self.write_body(exchange, Body::Parts(&[piece]), false)? {
            Progress::Waiting(bytes) => Ok(bytes),
            Progress::Finished => Err(ReplyError::Gone),
        }
    }

    /// Like [`Engine::write`], for a piece that may be in a file. Bytes of a file do not count as waiting. If the piece
    /// completes content whose size was announced, the response is finished, and its end is sent together with the piece.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over, or accepts no more content.
    pub fn write_up_to_end(&mut self, exchange: ExchangeId, piece: Piece<'_>) -> Result<Progress, ReplyError> {
        match piece {
            Piece::Bytes(bytes) => self.write_body(exchange, Body::Parts(&[bytes]), true),
            Piece::File { .. } => self.write_body(exchange, Body::Pieces(&[piece]), true),
        }
    }

    #[inline]
    fn write_body(&mut self, exchange: ExchangeId, body: Body<'_>, ends: bool) -> Result<Progress, ReplyError> {
        if self.encodes(exchange) {
            return self.write_encoded(exchange, body, ends);
        }
        self.write_framed(exchange, body, ends)
    }

    #[inline]
    pub(super) fn write_framed(&mut self, exchange: ExchangeId, body: Body<'_>, ends: bool) -> Result<Progress, ReplyError> {
        let Self { connections, streams, memory: Memory { outputs, gaps, .. }, .. } = self;
        let mut target = Target::find(connections, streams, exchange)?;
        let index = target.index;
        target.response.line.output.get_or_insert_with(|| outputs.take());
        let (size, before) = (body.size(), target.response.answer.sent);
        let mode = target.response.add_content(body, size, gaps);
        let taken = target.alone.as_ref().is_some_and(|alone| alone.outlook.taken);
        // Once bytes are dropped, all later bytes would also be dropped, so an app that never ends by itself must get an error.
        let is_over = || target.response.answer.sent - before < size;
        let finished = !taken && if ends { target.response.framing.is_complete() } else { is_over() };
        let place = target.place;
        if finished {
            let output = target.response.line.output.get_or_insert_default();
            let out = if mode == SendMode::Gathered { output.only_segment() } else { output.tail() };
            let end = target.response.framing.end(out);
            if let Some(Alone { outlook, .. }) = target.alone {
                outlook.decide(end);
            }
        }
        let still = match mode {
            SendMode::Gathered => {
                self.limit_waiting(place);
                self.send_between(index, body)
            }
            SendMode::Queued => {
                target.response.line.trim(outputs);
                self.limit_waiting(place);
                self.flush(index)
            }
        };
        still.or_gone()?;
        if finished {
            self.answer_finished(place);
            return Ok(Progress::Finished);
        }
        self.waiting(exchange).map(Progress::Waiting)
    }

    /// The number of bytes that wait for the client.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over.
    pub fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError> {
        let Name { place, serial } = exchange.into();
        let (index, unframed) = match place {
            ExchangeIndex::Connection(index) => {
                let connection = self.connections.get(index).filter(|connection| connection.serial == serial);
                match &connection.ok_or(ReplyError::Gone)?.state {
                    State::Answering(answering) if !answering.answer.finished => (index, 0),
                    _ => return Err(ReplyError::Gone),
                }
            }
            ExchangeIndex::Stream(number) => {
                let stream = self.streams.get(number).filter(|stream| stream.serial == serial).ok_or(ReplyError::Gone)?;
                (stream.unfinished_on().ok_or(ReplyError::Gone)?, stream.unframed())
            }
        };
        Ok(self.connections[index].line.waiting() + unframed)
    }

    /// Ends the content.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over. [`ReplyError::Invalid`]: the response has not begun.
    pub fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError> {
        self.end_response(exchange, &[])
    }

    /// Ends the content, with trailers.
    ///
    /// # Errors
    /// As for [`Engine::finish`]. [`ReplyError::Invalid`] is also for a field that no trailer may be; the exchange ends.
    pub fn finish_with_trailers(&mut self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        match h1::check_trailers(trailers) {
            Ok(()) => self.end_response(exchange, trailers),
            Err(h1::InvalidResponse(why)) => Err(self.reject(exchange, why)),
        }
    }

    #[inline]
    fn end_response(&mut self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        if self.encodes(exchange) && !self.end_encoded(exchange)? {
            return Ok(());
        }
        let Self { connections, streams, memory: Memory { outputs, .. }, .. } = self;
        let Target { place, index, response, alone } = Target::find(connections, streams, exchange)?;
        let Response { line, mut framing, .. } = response;
        if !framing.begun() {
            return Err(ReplyError::Invalid("the content ended before the response began"));
        }
        let output = line.output.get_or_insert_with(|| outputs.take());
        let end = framing.end_with(trailers, output.tail());
        line.trim(outputs);
        if let Some(Alone { outlook, .. }) = alone {
            outlook.decide(end);
        }
        self.flush(index).or_gone()?;
        self.answer_finished(place);
        Ok(())
    }

    /// Ends an exchange without a complete response.
    pub fn abandon(&mut self, exchange: ExchangeId) {
        self.give_up(exchange, 500);
    }

    /// Abandons an exchange; the client gets `status` if nothing was sent.
    #[inline(never)]
    pub(super) fn give_up(&mut self, exchange: ExchangeId, status: u16) {
        let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) else { return };
        let index = target.index;
        let framing = target.response.framing;
        let begun = framing.begun();
        match (framing, target.alone) {
            // The host has used the socket itself.
            (_, Some(Alone { outlook: Outlook { taken: true, .. }, .. })) => self.drop_connection(index),
            (Framing::Http(_), _) if begun => self.cut(index),
            (Framing::FastCgi(framing), _) if begun => {
                // Only the end of the connection can show that content of unknown length is incomplete. If the connection
                // carries other requests, it stays open, and only the status shows it. Content shorter than announced shows by
                // itself that it is incomplete.
                let open_ended = framing.is_open_ended();
                if open_ended && self.connections[index].carrier().is_some_and(|carrier| carrier.carries() == 1) {
                    return self.cut(index);
                }
                self.give_up_stream(exchange);
            }
            (Framing::Http2(_), _) if begun => self.give_up_stream(exchange),
            _ => {
                let head = ResponseHead { status, fields: TEXT };
                // The head is valid; if the client has disconnected, the error does not matter.
                let _ = self.respond(exchange, head, &[oribi_message::reason(status).as_bytes(), b"\n"]);
            }
        }
    }

    /// Abandons every exchange that was handed out, because their context ends.
    pub fn abandon_all(&mut self) {
        let on_connections =
            self.connections.indices().map(|index| (ExchangeIndex::Connection(index), self.connections[index].serial));
        let on_streams = self.streams.indices().map(|number| (ExchangeIndex::Stream(number), self.streams[number].serial));
        let out: Vec<Name> = on_connections.chain(on_streams).map(|(place, serial)| Name { place, serial }).collect();
        out.into_iter().for_each(|name| self.abandon(name.into()));
        self.conclude_all();
    }

    /// Sends an informational response.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over. [`ReplyError::Invalid`]: the final response has begun, the status is not an
    /// informational one or is 101, or a field is invalid.
    pub fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        let Self { connections, streams, memory: Memory { outputs, .. }, .. } = self;
        let Target { index, response: Response { line, framing, .. }, .. } = Target::find(connections, streams, exchange)?;
        let output = line.output.get_or_insert_with(|| outputs.take());
        let written = match framing {
            Framing::Http(machine) => machine.write_informational(status, fields, output.tail()),
            Framing::Http2(Http2 { machine, frames, .. }) => {
                machine.write_informational(frames.id, status, fields, output.tail())
            }
            // CGI has only final responses (RFC 3875, section 6).
            Framing::FastCgi(_) => Ok(()),
        };
        line.trim(outputs);
        written.map_err(|h1::InvalidResponse(why)| ReplyError::Invalid(why))?;
        self.flush(index).or_gone()
    }

    /// Passes a message on to the web server's log; `false` if the exchange is over or was not sent by a web server.
    pub fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool {
        let Self { connections, streams, memory: Memory { outputs, .. }, .. } = self;
        let Ok(Target { index, response, .. }) = Target::find(connections, streams, exchange) else { return false };
        let Response { line, framing: Framing::FastCgi(framing), .. } = response else { return false };
        framing.write_error(message, line.output.get_or_insert_with(|| outputs.take()).tail());
        line.trim(outputs);
        self.flush(index) == Still::Open
    }

    /// Rejects an invalid part of a response. If it is the head, nothing has been written, and the client gets a 500.
    #[cold]
    fn reject(&mut self, exchange: ExchangeId, why: &'static str) -> ReplyError {
        self.abandon(exchange);
        ReplyError::Invalid(why)
    }

    /// Marks a completely written response as finished, and settles it if its host has returned.
    #[inline(never)]
    pub(super) fn answer_finished(&mut self, place: ExchangeIndex) {
        self.answering -= 1;
        let now = self.backend.now().into();
        match place {
            ExchangeIndex::Connection(index) => {
                let connection = &mut self.connections[index];
                let State::Answering(answering) = &mut connection.state else { return };
                let answer = &mut answering.answer;
                answer.finished = true;
                answer.timings.end_app(now);
                if answer.is_lent() {
                    return;
                }
                let (counted, line) = (answer.counted(), answer.late_line());
                self.conclude(index, counted, line);
                self.settle(index);
            }
            ExchangeIndex::Stream(number) => self.stream_finished(number),
        }
    }
}
