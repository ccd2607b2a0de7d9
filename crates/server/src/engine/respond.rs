//! 5. Answer: what hosts call, with a whole response or piece by piece.
//!
//! Every call looks up the destination of its response once (see [`Target`]), lets the protocol frame the response, and passes
//! the result to [`super::send`], which keeps the order of the output.

use super::answer::Answer;
use super::body::Body;
use super::connection::{Answering, Connection, Departure, Fate, Line, Outlook, State};
use super::framing::{End, Framing, Terms};
use super::name::{Name, Place};
use super::output::Pool;
use super::send::{COPIED_BYTES, Gap, LARGEST_IN_BATCH, Still, Way};
use super::slots::Slots;
use super::stream::Stream;
use super::{Engine, Stage};
use crate::config::Settings;
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::Backend;
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use oribi_proto::h1;

const TEXT: &[FieldPair<'_>] = &[(b"Content-Type", b"text/plain")];

/// The destination of a response, and everything that writing it may change.
pub(super) struct Target<'e, S> {
    pub(super) place: Place,
    /// The connection.
    pub(super) index: u32,
    pub(super) line: &'e mut Line<S>,
    pub(super) framing: Framing<'e>,
    pub(super) answer: &'e mut Answer,
    /// What must be decided for a connection that only one exchange uses at a time.
    pub(super) alone: Option<Alone<'e>>,
}

/// The part of the target that exists only if the exchange has the connection for itself.
pub(super) struct Alone<'e> {
    pub(super) outlook: &'e mut Outlook,
    /// Requests that its connection has had.
    pub(super) requests: u32,
}

impl<'e, S> Target<'e, S> {
    /// The target of an exchange whose response is not finished. (Inlined, because otherwise it would be copied field by
    /// field.)
    #[inline(always)]
    pub(super) fn find(
        connections: &'e mut Slots<Connection<S>>,
        streams: &'e mut Slots<Stream>,
        exchange: ExchangeId,
    ) -> Result<Self, ReplyError> {
        let Name { place, serial } = exchange.into();
        match place {
            Place::Connection(index) => {
                let connection = connections.get_mut(index).filter(|connection| connection.serial == serial);
                let Connection { line, machine, state, requests, .. } = connection.ok_or(ReplyError::Gone)?;
                let State::Answering(answering) = state else { return Err(ReplyError::Gone) };
                let Answering { answer, outlook, .. } = answering;
                if answer.finished {
                    return Err(ReplyError::Gone);
                }
                let alone = Alone { outlook, requests: *requests };
                Ok(Self { place, index, line, framing: Framing::Http(machine), answer, alone: Some(alone) })
            }
            Place::Stream(number) => {
                let stream = streams.get_mut(number).filter(|stream| stream.serial == serial).ok_or(ReplyError::Gone)?;
                let (index, framing, answer) =
                    stream.answering().filter(|(.., answer)| !answer.finished).ok_or(ReplyError::Gone)?;
                let line = &mut connections[index].line;
                Ok(Self { place, index, line, framing: Framing::FastCgi(framing), answer, alone: None })
            }
        }
    }
}

impl<S> Target<'_, S> {
    /// Whether the connection may serve another request after this one.
    #[inline]
    fn persists(&self, stage: Stage, settings: &Settings) -> bool {
        let Some(alone) = &self.alone else { return false };
        stage == Stage::Serving
            && !alone.outlook.taken
            && !settings.timeouts.keepalive.is_zero()
            && settings.limits.requests_per_connection.is_none_or(|most| alone.requests < most)
    }

    /// Appends a head to the output.
    #[inline]
    fn write_head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, outputs: &mut Pool) -> Result<(), &'static str> {
        let output = self.line.output.get_or_insert_with(|| outputs.take());
        let written = self.framing.write_head(head, terms, output.tail());
        match written {
            Ok(()) => self.answer.status = head.status,
            Err(_) => self.line.trim(outputs),
        }
        written
    }

    /// Appends a whole response with little content to the output, all of it in one segment.
    #[inline(always)]
    fn frame_small(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        parts: &[&[u8]],
        outputs: &mut Pool,
    ) -> Result<(Way, End), &'static str> {
        let body = Body::Parts(parts);
        let Self { line, framing, answer, .. } = self;
        let out = line.output.get_or_insert_with(|| outputs.take()).tail();
        if let Err(why) = framing.write_head(head, terms, out) {
            line.trim(outputs);
            return Err(why);
        }
        answer.status = head.status;
        let mut left = body.size();
        let mut rest = body.rest();
        while left > 0 {
            let admitted = framing.write_prefix(left, out);
            if admitted == 0 {
                break;
            }
            if admitted == left
                && let [part] = parts
            {
                out.extend_from_slice(&part[part.len() - admitted as usize..]);
            } else {
                rest.take(admitted, |piece| {
                    if let Piece::Bytes(bytes) = piece {
                        out.extend_from_slice(bytes);
                    }
                });
            }
            framing.write_suffix(out);
            answer.sent += admitted;
            left -= admitted;
        }
        Ok((Way::Queued, framing.finish(out)))
    }

    /// Appends a whole response with any content to the output.
    fn frame(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        body: Body<'_>,
        gaps: &mut Vec<Gap>,
        outputs: &mut Pool,
    ) -> Result<(Way, End), &'static str> {
        self.write_head(head, terms, outputs)?;
        let way = self.add_content(body, body.size(), gaps);
        let output = self.line.output.get_or_insert_default();
        let out = if way == Way::Gathered { output.only_segment() } else { output.tail() };
        Ok((way, self.framing.finish(out)))
    }

    /// Appends the framing of `size` bytes of content, or of as many as the response has. Large content in memory is not copied
    /// but sent from its place; then `gaps` tells where in the output it belongs.
    #[inline]
    fn add_content(&mut self, body: Body<'_>, size: u64, gaps: &mut Vec<Gap>) -> Way {
        let Self { line, framing, answer, .. } = self;
        let output = line.output.get_or_insert_default();
        gaps.clear();
        if size > COPIED_BYTES && !line.blocked && body.can_be_gathered() && output.is_one_segment() {
            answer.sent += frame_around(framing, output.only_segment(), size, gaps);
            return if gaps.is_empty() { Way::Queued } else { Way::Gathered };
        }
        let (mut left, mut rest) = (size, body.rest());
        while left > 0 {
            let admitted = framing.write_prefix(left, output.tail());
            if admitted == 0 {
                break;
            }
            answer.sent += admitted;
            left -= admitted;
            rest.take(admitted, |piece| output.push_piece(&piece));
            framing.write_suffix(output.tail());
        }
        Way::Queued
    }
}

/// Writes the framing of `size` bytes of content, and records their places; returns how many of them the response has.
#[inline(never)]
fn frame_around(framing: &mut Framing<'_>, out: &mut Vec<u8>, size: u64, gaps: &mut Vec<Gap>) -> u64 {
    let mut left = size;
    while left > 0 {
        let admitted = framing.write_prefix(left, out);
        if admitted == 0 {
            break;
        }
        gaps.push(Gap { position: out.len(), size: admitted });
        framing.write_suffix(out);
        left -= admitted;
    }
    size - left
}

impl<B: Backend> Engine<'_, B> {
    /// Sends a whole response.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::respond`.
    #[inline]
    pub fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.respond_whole(exchange, head, None, Body::Parts(parts))
    }

    /// Sends a whole response whose content lies partly in files.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::respond_pieces`.
    pub fn respond_pieces(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        pieces: &[Piece<'_>],
    ) -> Result<(), ReplyError> {
        self.respond_whole(exchange, head, None, Body::Pieces(pieces))
    }

    /// Sends a whole response with status 200 and prepared fields.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::respond_prepared`.
    pub fn respond_prepared(
        &mut self,
        exchange: ExchangeId,
        fields: &PreparedFields,
        content: Piece<'_>,
    ) -> Result<(), ReplyError> {
        let head = ResponseHead { status: 200, fields: &[] };
        match content {
            Piece::Bytes(bytes) => self.respond_whole(exchange, head, Some(fields), Body::Parts(&[bytes])),
            Piece::File { .. } => self.respond_whole(exchange, head, Some(fields), Body::Pieces(&[content])),
        }
    }

    fn respond_whole(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        body: Body<'_>,
    ) -> Result<(), ReplyError> {
        let size = body.size();
        let others = self.others_wait();
        let Self { connections, streams, outputs, gaps, stamp, settings, stage, prompt, answering, .. } = self;
        let mut target = Target::find(connections, streams, exchange)?;
        let terms = Terms { size: Some(size), persist: target.persists(*stage, settings), preset: stamp.preset(prepared) };
        // Content of known size needs no framing at its end, so the end of the response is decided before it is sent.
        let framed = match body {
            Body::Parts(parts) if size <= COPIED_BYTES => target.frame_small(head, &terms, parts, outputs),
            _ => target.frame(head, &terms, body, gaps, outputs),
        };
        let (way, end) = match framed {
            Ok(framed) => framed,
            Err(why) => return Err(self.reject(exchange, why)),
        };
        let Target { place, index, line, answer, alone, .. } = target;
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
                // What comes next is settled when its host returns, whatever becomes of the connection until then.
                answer.finished = true;
                *answering -= 1;
                finished = true;
                // A prompt host returns at once, and then nothing keeps the connection from being closed.
                last = outlook.fate == Fate::Close && *prompt;
            }
        }
        let still = match (way, departure) {
            (Way::Gathered, _) => self.send_between(index, body),
            (Way::Queued, Departure::AtOnce) => self.flush_as(index, last),
            (Way::Queued, Departure::WithBatch) => {
                self.join_batch(index);
                Still::Open
            }
            // Settling will find the next request, or send what waits.
            (Way::Queued, Departure::WithNext) => Still::Open,
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
    /// As `oribi_host::Outlet::start`.
    pub fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        let Self { connections, streams, outputs, stamp, settings, stage, .. } = self;
        let mut target = Target::find(connections, streams, exchange)?;
        let persist = target.persists(*stage, settings);
        let terms = Terms { size: None, persist, preset: stamp.preset(None) };
        if let Err(why) = target.write_head(head, &terms, outputs) {
            return Err(self.reject(exchange, why));
        }
        let index = target.index;
        if let Some(Alone { outlook, .. }) = target.alone {
            // An app that writes piece by piece wants its pieces to be sent, even if another request follows this one.
            outlook.departure = Departure::AtOnce;
        }
        self.open(index).or_gone()
    }

    /// Sends a piece of content and returns how many bytes wait for the client now.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::write`.
    pub fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError> {
        let Self { connections, streams, outputs, gaps, .. } = self;
        let mut target = Target::find(connections, streams, exchange)?;
        let index = target.index;
        let parts = [piece];
        let body = Body::Parts(&parts);
        target.line.output.get_or_insert_with(|| outputs.take());
        let way = target.add_content(body, piece.len() as u64, gaps);
        let still = match way {
            Way::Gathered => self.send_between(index, body),
            Way::Queued => {
                target.line.trim(outputs);
                self.flush(index)
            }
        };
        still.or_gone()?;
        self.waiting(exchange)
    }

    /// How many bytes wait for the client.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::write`.
    pub fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError> {
        let Name { place, serial } = exchange.into();
        let index = match place {
            Place::Connection(index) => {
                let connection = self.connections.get(index).filter(|connection| connection.serial == serial);
                match &connection.ok_or(ReplyError::Gone)?.state {
                    State::Answering(answering) if !answering.answer.finished => index,
                    _ => return Err(ReplyError::Gone),
                }
            }
            Place::Stream(number) => {
                let stream = self.streams.get(number).filter(|stream| stream.serial == serial);
                stream.and_then(Stream::unfinished_on).ok_or(ReplyError::Gone)?
            }
        };
        Ok(self.connections[index].line.waiting())
    }

    /// Ends the content.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::finish`.
    pub fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError> {
        let Self { connections, streams, outputs, .. } = self;
        let mut target = Target::find(connections, streams, exchange)?;
        if !target.framing.begun() {
            return Err(ReplyError::Invalid("the content ended before the response began"));
        }
        let output = target.line.output.get_or_insert_with(|| outputs.take());
        let end = target.framing.finish(output.tail());
        target.line.trim(outputs);
        if let Some(Alone { outlook, .. }) = target.alone {
            outlook.decide(end);
        }
        let Target { place, index, .. } = target;
        self.flush(index).or_gone()?;
        self.answer_finished(place);
        Ok(())
    }

    /// Gives an exchange up.
    pub fn abandon(&mut self, exchange: ExchangeId) {
        let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) else { return };
        let index = target.index;
        let begun = target.framing.begun();
        match (target.framing, target.alone) {
            // The host has spoken on the socket itself.
            (_, Some(Alone { outlook: Outlook { taken: true, .. }, .. })) => self.drop_connection(index),
            (Framing::Http(_), _) if begun => self.cut(index),
            (Framing::FastCgi(framing), _) if begun => {
                // Only the end of the connection can show that content of unknown length is incomplete. If the connection
                // carries other, complete responses, only the status shows it. Content that is shorter than announced shows it
                // by itself.
                let open_ended = framing.is_open_ended();
                if open_ended && self.connections[index].carrier().is_some_and(|carrier| carrier.carries() == 1) {
                    return self.cut(index);
                }
                self.give_up_stream(exchange);
            }
            _ => {
                let head = ResponseHead { status: 500, fields: TEXT };
                // The head is valid; if the client has gone, nobody is left to be told.
                let _ = self.respond(exchange, head, &[b"Internal Server Error\n"]);
            }
        }
    }

    /// Gives up every exchange that was handed out, because the context that held them is going.
    pub fn abandon_all(&mut self) {
        let on_connections = self.connections.indices().map(|index| (Place::Connection(index), self.connections[index].serial));
        let on_streams = self.streams.indices().map(|number| (Place::Stream(number), self.streams[number].serial));
        let out: Vec<Name> = on_connections.chain(on_streams).map(|(place, serial)| Name { place, serial }).collect();
        out.into_iter().for_each(|name| self.abandon(name.into()));
    }

    /// Sends an informational response.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::inform`.
    pub fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        let Self { connections, streams, outputs, .. } = self;
        let target = Target::find(connections, streams, exchange)?;
        // CGI has only final responses (RFC 3875, section 6).
        let Framing::Http(machine) = target.framing else { return Ok(()) };
        let output = target.line.output.get_or_insert_with(|| outputs.take());
        let written = machine.write_informational(status, fields, output.tail());
        target.line.trim(outputs);
        let index = target.index;
        written.map_err(|h1::InvalidResponse(why)| ReplyError::Invalid(why))?;
        self.flush(index).or_gone()
    }

    /// Passes a message on to the web server's log; `false` if the exchange is over or did not come from a web server.
    pub fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool {
        let Self { connections, streams, outputs, .. } = self;
        let Ok(Target { index, line, framing: Framing::FastCgi(framing), .. }) = Target::find(connections, streams, exchange)
        else {
            return false;
        };
        framing.write_error(message, line.output.get_or_insert_with(|| outputs.take()).tail());
        line.trim(outputs);
        self.flush(index) == Still::Open
    }

    /// The head of a response was invalid, and nothing of it has been written: the client gets a 500 instead.
    #[cold]
    fn reject(&mut self, exchange: ExchangeId, why: &'static str) -> ReplyError {
        self.abandon(exchange);
        ReplyError::Invalid(why)
    }

    /// Called when a response has been written completely.
    pub(super) fn answer_finished(&mut self, place: Place) {
        self.answering -= 1;
        match place {
            Place::Connection(index) => {
                let connection = &mut self.connections[index];
                let State::Answering(answering) = &mut connection.state else { return };
                answering.answer.finished = true;
                if answering.answer.is_lent() {
                    return;
                }
                let (line, remote) = (answering.answer.late_line(), connection.remote);
                self.record_late(line, remote);
                self.settle(index);
            }
            Place::Stream(number) => self.stream_finished(number),
        }
    }
}
