//! Keeps content with its stream until the client and the other streams leave room for it.
//!
//! Content that may not be sent yet stays with its stream, unframed (`Frame::postpone`), and so does content that would put
//! more than [`FRAMED_BYTES`] of one stream in front of the other streams of its connection. When content is framed later, the
//! output of the connection shares the segments of the stream, so large parts are not copied (`Output::pass_on`). When the
//! client makes room, or the socket has taken the frames, streams take turns by their priorities. A stream whose client makes
//! no room within `--write-timeout` is reset, and the others continue.

use super::super::Engine;
use super::super::connection::{Connection, State};
use super::super::deadline::Deadline;
use super::super::framing::{FRAMED_BYTES, finish};
use super::super::memory::Memory;
use super::super::name::ExchangeIndex;
use super::super::send::{Still, WRITE_PROGRESS};
use super::super::stream::{Frames, Stream, StreamFraming};
use oribi_io::Backend;
use oribi_proto::h2::{Admission, ErrorCode, Machine};
use oribi_stats::totals::Counter;
use std::io;

impl<B: Backend> Engine<'_, B> {
    /// Sets the deadline for the client to make room, if content of a response waits.
    #[inline]
    pub(in super::super) fn limit_waiting(&mut self, place: ExchangeIndex) {
        if let ExchangeIndex::Stream(number) = place
            && self.streams.get(number).is_some_and(Stream::waits)
        {
            self.hold_stream(number);
            if !self.stream_deadlines.runs(number, Deadline::Write) {
                self.allow_time(number);
            }
        }
    }

    /// Restarts the deadline for the client to make room for the waiting content of a stream.
    fn allow_time(&mut self, number: u32) {
        let Stream { connection, framing: StreamFraming::Http2(frames), .. } = &mut self.streams[number] else { return };
        let Some(machine) = self.connections[*connection].carrier().and_then(|carrier| carrier.http2()) else { return };
        frames.sent_before = machine.content_sent();
        if let Some(waiting) = &mut frames.waiting {
            waiting.progress = 0;
        }
        self.stream_deadlines.set(number, Deadline::Write, self.backend.now());
    }

    /// Continues when all framed bytes have been sent: gives the connection a turn if content waits, and otherwise lets it
    /// rest.
    pub(in super::super) fn go_on_carrying(&mut self, index: u32) {
        let connection = &mut self.connections[index];
        let some_wait = connection.carrier().and_then(|carrier| carrier.http2()).is_some_and(|machine| machine.any_waits());
        if some_wait {
            self.ask_for_turn(index);
        } else {
            self.rest_if_idle(index);
        }
    }

    /// Frames and sends waiting content, as far as the client has room for it and one turn of the connection allows.
    #[inline(never)]
    pub(in super::super) fn send_waiting(&mut self, index: u32) -> Still {
        let mut any = false;
        loop {
            match self.frame_next(index) {
                Ok(None) => break,
                Ok(Some(number)) => {
                    any = true;
                    if !self.streams[number].waits() {
                        self.all_is_framed(index, number);
                    }
                }
                Err(error) => {
                    // Content is missing after the header of its frame.
                    log::error!("a response was cut off: it cannot be read from its temporary file: {error}");
                    self.cut(index);
                    return Still::Gone;
                }
            }
        }
        if !any {
            return Still::Open;
        }
        if self.flush(index) == Still::Gone {
            return Still::Gone;
        }
        self.end_or_rest(index)
    }

    /// Frames a part of the content whose turn is next. Returns the number of its stream; `None` if nothing can be framed now.
    fn frame_next(&mut self, index: u32) -> io::Result<Option<u32>> {
        let Self { connections, streams, memory: Memory { outputs, .. }, .. } = self;
        let Connection { line, state, .. } = &mut connections[index];
        let State::Carrying(carrier) = state else { return Ok(None) };
        if line.framed() >= FRAMED_BYTES {
            return Ok(None);
        }
        let Some(id) = carrier.http2().and_then(Machine::next_to_send) else { return Ok(None) };
        let number = carrier.number(id);
        let Some(machine) = carrier.http2() else { return Ok(None) };
        let Some(StreamFraming::Http2(Frames { waiting, .. })) = number.map(|number| &mut streams[number].framing) else {
            machine.set_waiting(id, false);
            return Ok(None);
        };
        let Some(content) = waiting.as_mut() else { return Ok(None) };
        let output = line.output.get_or_insert_with(|| outputs.take());
        match machine.write_content_prefix(id, content.size(), output.tail()) {
            Admission::Bytes(admitted) => {
                content.pass_on(admitted, output)?;
                content.recount();
            }
            Admission::Blocked => {
                line.trim(outputs);
                return Ok(None);
            }
            Admission::Dropped => *waiting = None,
        }
        if waiting.as_ref().is_some_and(|content| content.is_empty()) {
            *waiting = None;
        }
        // As on every connection: a client that takes a few bytes from time to time gets no more time than a client that takes
        // none.
        let progressed = waiting.as_ref().map(|content| content.progress >= WRITE_PROGRESS);
        if progressed.is_none() {
            machine.set_waiting(id, false);
        }
        line.trim(outputs);
        let Some(number) = number else { return Ok(None) };
        if progressed == Some(true) {
            self.allow_time(number);
        }
        Ok(Some(number))
    }

    /// Ends a stream whose content has all been framed, if its response ends there.
    fn all_is_framed(&mut self, index: u32, number: u32) {
        self.stream_deadlines.clear(number);
        let Self { connections, streams, memory: Memory { outputs, .. }, .. } = self;
        let stream = &mut streams[number];
        let StreamFraming::Http2(Frames { id, ends: true, trailers, .. }) = &mut stream.framing else { return };
        let (id, trailers) = (*id, trailers.take());
        let trailers = trailers.as_ref().map_or_else(Vec::new, |trailers| trailers.fields().collect());
        let Connection { line, state, .. } = &mut connections[index];
        if let State::Carrying(carrier) = state
            && let Some(machine) = carrier.http2()
        {
            finish(machine, id, &trailers, line.output.get_or_insert_with(|| outputs.take()).tail());
            line.trim(outputs);
        }
        let lent = stream.answering().is_some_and(|(_, _, answer)| answer.is_lent());
        self.leave_carrier(index, id);
        if !lent {
            self.conclude_stream(number);
            self.forget_stream(number);
        }
    }

    /// Handles the waiting content of a stream whose deadline for writing has expired. If the client has taken enough content of all
    /// streams in that time, and has room for this content or had some, the content keeps waiting for its turn: a stream whose turn
    /// came late has filled its window just before. Otherwise the response is abandoned.
    pub(in super::super) fn give_up_waiting(&mut self, number: u32) {
        let Self { connections, streams, tally, .. } = self;
        let Stream { connection, framing: StreamFraming::Http2(frames), .. } = &mut streams[number] else { return };
        if let State::Carrying(carrier) = &mut connections[*connection].state
            && let Some(machine) = carrier.http2()
        {
            let sent = machine.content_sent() - frames.sent_before;
            let had_turn = frames.waiting.as_ref().is_some_and(|content| content.progress > 0);
            if sent >= WRITE_PROGRESS as u64 && (had_turn || machine.has_room(frames.id)) {
                return self.allow_time(number);
            }
            tally.count(Counter::Http2Stalled);
            tally.count(Counter::LimitWriteTimeout);
        }
        log::info!("a client took too long to receive a response");
        self.reset_waiting(number);
    }

    /// Abandons the response of a stream with its waiting content.
    pub(in super::super) fn reset_waiting(&mut self, number: u32) {
        let Self { connections, streams, tally, memory: Memory { outputs, .. }, .. } = self;
        let Stream { connection, framing: StreamFraming::Http2(frames), .. } = &mut streams[number] else { return };
        let index = *connection;
        let Connection { line, state, .. } = &mut connections[index];
        if let State::Carrying(carrier) = state
            && let Some(machine) = carrier.http2()
        {
            tally.count(Counter::Http2ResetsByServer);
            machine.reset(frames.id, ErrorCode::CANCEL, line.output.get_or_insert_with(|| outputs.take()).tail());
            line.trim(outputs);
        }
        frames.waiting = None;
        self.lose_stream(number);
        if self.flush(index) == Still::Open {
            let _ = self.end_or_rest(index);
        }
    }
}
