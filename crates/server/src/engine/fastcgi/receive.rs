//! From records to complete requests.

use super::super::Engine;
use super::super::connection::{Phase, Remote};
use super::super::content::StoredContent;
use super::super::deadline::Deadline;
use super::super::receive::RECEIVES_PER_TURN;
use super::{Carried, Carrier, Stream};
use core::ops::Range;
use oribi_io::{Attempt, Backend};
use oribi_message::{KnownVariable, Role};
use oribi_proto::fcgi::{Event, Refusal, params};
use std::io;
use std::time::Duration;

impl<B: Backend> Engine<'_, B> {
    /// Receives and feeds the machine until the socket is empty or the turn is over.
    pub(in super::super) fn receive_records(&mut self, index: u32) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.connections.get_mut(index) else { return };
            if connection.phase != Phase::Carrying || !connection.readable {
                return;
            }
            let room = connection.input.room(&mut self.pool, 0);
            let size = room.len();
            match self.backend.receive(&mut connection.socket, room) {
                Attempt::Done(count) => {
                    connection.readable = count == size || connection.ended;
                    connection.input.received(count);
                    self.advance_records(index);
                }
                Attempt::Later => {
                    connection.readable = false;
                    connection.input.release_if_read(&mut self.pool);
                }
                // Nobody waits for the answers to what it has asked.
                Attempt::End | Attempt::Broken => return self.drop_connection(index),
            }
        }
        if self.connections.get(index).is_some_and(|connection| connection.phase == Phase::Carrying && connection.readable) {
            self.ask_for_turn(index);
        }
    }

    /// Feeds unread input to the machine until it wants more.
    fn advance_records(&mut self, index: u32) {
        loop {
            let Some(connection) = self.connections.get_mut(index) else { return };
            let Some(carrier) = connection.carrier.as_deref_mut() else { return };
            let step = carrier.machine.handle_input(connection.input.unread(), &self.record_limits);
            let start = connection.input.position();
            connection.input.consume(step.consumed);
            let at = |range: Range<usize>| start + range.start..start + range.end;
            match step.event {
                Event::NeedInput => break,
                Event::Begin { id, role, .. } => self.begin_stream(index, id, role),
                Event::Params { id, range } => self.take_params(index, id, at(range)),
                Event::ParamsEnd { id, complete } => self.end_params(index, id, complete),
                Event::Stdin { id, range } => self.take_content(index, id, at(range)),
                Event::StdinEnd { id, complete } => self.end_content(index, id, complete),
                Event::Data { id, range } => self.take_data(index, id, at(range)),
                Event::DataEnd { id } => self.complete_stream(index, id),
                Event::Abort { id } => {
                    if let Some(place) = self.carrier(index).and_then(|carrier| carrier.place(id)) {
                        self.cancel_stream(place);
                    }
                }
                Event::Answer => {
                    self.scratch.clear();
                    carrier.machine.write_answer(&self.record_limits, &mut self.scratch);
                    // If the web server has gone, the next look at the connection says so.
                    let _ = self.emit(index, &[], 0);
                    if self.takes_no_answers(index) {
                        return self.drop_connection(index);
                    }
                    self.end_or_rest(index);
                }
                Event::Refused(violation) => {
                    log::warn!("closed a FastCGI connection: {}", violation.reason());
                    return self.drop_connection(index);
                }
            }
        }
        let now = self.backend.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.input.release_if_read(&mut self.pool);
        if !connection.readable {
            connection.input.park(&mut self.pool);
        }
        // In the middle of a request its stream has a deadline; in the middle of another record, the connection.
        let Some(carrier) = connection.carrier.as_deref() else { return };
        let amid = connection.input.has_unread() || !carrier.machine.between_records();
        if amid && carrier.streams.is_empty() && !self.deadlines.runs(index, Deadline::Head) {
            self.deadlines.set(index, Deadline::Head, now);
        }
    }

    /// Whether a web server keeps asking without taking what it is answered.
    fn takes_no_answers(&self, index: u32) -> bool {
        let output = self.connections.get(index).and_then(|connection| connection.output.as_ref());
        output.is_some_and(|output| output.waiting() > self.settings.limits.output_bytes)
    }

    fn begin_stream(&mut self, index: u32, id: u16, role: Role) {
        let now = self.backend.now();
        let parts = self.spare_parts();
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.requests = connection.requests.wrapping_add(1);
        let remote = connection.remote;
        let place = self.streams.insert(Stream::new(index, id, role, remote, parts));
        if let Some(carrier) = self.carrier(index) {
            carrier.add(id, place);
        }
        self.deadlines.clear(index);
        self.stream_deadlines.set(place, Deadline::Head, now);
    }

    /// The stream of an id on a connection, and the bytes in the connection's input.
    fn stream_and_input(&mut self, index: u32, id: u16, range: Range<usize>) -> Option<(u32, &mut Stream, &[u8])> {
        let connection = self.connections.get(index)?;
        let place = connection.carrier.as_ref()?.place(id)?;
        Some((place, self.streams.get_mut(place)?, &connection.input.bytes()[range]))
    }

    fn place_of(&self, index: u32, id: u16) -> Option<u32> {
        self.connections.get(index)?.carrier.as_ref()?.place(id)
    }

    fn take_params(&mut self, index: u32, id: u16, range: Range<usize>) {
        let most = self.record_limits.params_bytes;
        let Some((place, stream, piece)) = self.stream_and_input(index, id, range) else { return };
        let Some(parts) = &mut stream.parts else { return };
        if parts.bytes.len() + piece.len() > most {
            return self.refuse_stream(place, Refusal::PARAMS_LENGTH);
        }
        parts.bytes.extend_from_slice(piece);
    }

    fn end_params(&mut self, index: u32, id: u16, complete: bool) {
        let now = self.backend.now();
        let Some(place) = self.place_of(index, id) else { return };
        let Some(stream) = self.streams.get_mut(place) else { return };
        let Some(parts) = stream.parts.as_deref_mut() else { return };
        let laid_out = params::lay_out(&mut parts.bytes, &mut parts.layout, &mut parts.variables, &self.record_limits);
        let outline = match laid_out {
            Ok(outline) => outline,
            Err(refusal) => return self.refuse_stream(place, refusal),
        };
        parts.role = stream.exchange.role();
        if let Some(address) = parts.get(KnownVariable::RemoteAddr) {
            stream.remote = Remote::given(address, parts.get(KnownVariable::RemotePort).unwrap_or(b"0"));
        }
        stream.exchange.set_bodiless(outline.bodiless);
        stream.content_length = outline.content_length;
        if let Some(size) = outline.content_length {
            let stored = if size <= self.settings.limits.content_memory_bytes as u64 {
                Ok(StoredContent::memory(size as usize, &mut self.spare_content))
            } else {
                StoredContent::file(&self.settings.temporary_directory)
            };
            match stored {
                Ok(content) => stream.content = content,
                Err(error) => return self.refuse_stream_storage(place, &error),
            }
        }
        if complete {
            self.complete_stream(index, id);
        } else {
            self.stream_deadlines.set(place, Deadline::Content, now);
        }
    }

    fn take_content(&mut self, index: u32, id: u16, range: Range<usize>) {
        let limits = &self.settings.limits;
        let (largest, most, directory) =
            (limits.content_memory_bytes, limits.content_bytes, &self.settings.temporary_directory);
        let Some((place, stream, piece)) = self.stream_and_input(index, id, range) else { return };
        stream.received += piece.len() as u64;
        let refusal = match stream.content_length {
            Some(announced) if stream.received > announced => Refusal::CONTENT_LONG,
            _ if stream.received > most => Refusal::CONTENT_SIZE,
            _ => {
                if matches!(stream.content, StoredContent::None) {
                    stream.content = StoredContent::Memory { bytes: Vec::new(), filled: 0 };
                }
                match stream.content.add(piece, largest, directory) {
                    Ok(()) => return,
                    Err(error) => return self.refuse_stream_storage(place, &error),
                }
            }
        };
        self.refuse_stream(place, refusal);
    }

    fn end_content(&mut self, index: u32, id: u16, complete: bool) {
        let Some(place) = self.place_of(index, id) else { return };
        let Some(stream) = self.streams.get_mut(place) else { return };
        if stream.content_length.is_some_and(|announced| stream.received < announced) {
            return self.refuse_stream(place, Refusal::CONTENT_SHORT);
        }
        if complete {
            self.complete_stream(index, id);
        } else if let Some(parts) = &mut stream.parts {
            // A file to filter may be empty, but it is there.
            parts.data = StoredContent::Memory { bytes: Vec::new(), filled: 0 };
        }
    }

    fn take_data(&mut self, index: u32, id: u16, range: Range<usize>) {
        let limits = &self.settings.limits;
        let (largest, most, directory) =
            (limits.content_memory_bytes, limits.content_bytes, &self.settings.temporary_directory);
        let Some((place, stream, piece)) = self.stream_and_input(index, id, range) else { return };
        let Some(parts) = &mut stream.parts else { return };
        stream.received += piece.len() as u64;
        if stream.received > most {
            return self.refuse_stream(place, Refusal::CONTENT_SIZE);
        }
        if let Err(error) = parts.data.add(piece, largest, directory) {
            self.refuse_stream_storage(place, &error);
        }
    }

    fn complete_stream(&mut self, index: u32, id: u16) {
        let now = self.backend.now();
        let Some(place) = self.place_of(index, id) else { return };
        let Some(stream) = self.streams.get_mut(place) else { return };
        let filtered = stream.parts.as_mut().map_or(Ok(()), |parts| parts.data.complete());
        if let Err(error) = filtered.and(stream.content.complete()) {
            return self.refuse_stream_storage(place, &error);
        }
        stream.complete_at = now;
        stream.phase = Phase::Queued;
        self.stream_deadlines.clear(place);
        self.ready.push_back(Carried(place).number());
    }

    fn refuse_stream_storage(&mut self, place: u32, error: &io::Error) {
        log::error!("cannot store request content in {}: {error}", self.settings.temporary_directory.display());
        self.refuse_stream(place, Refusal::STORAGE);
    }

    /// Sees to the streams whose time is up.
    pub(in super::super) fn expire_streams(&mut self, now: Duration) {
        while let Some((place, kind)) = self.stream_deadlines.expired(now) {
            let refusal = if kind == Deadline::Head { Refusal::HEAD_TIMEOUT } else { Refusal::CONTENT_TIMEOUT };
            self.refuse_stream(place, refusal);
        }
    }

    /// Closes a connection that a web server keeps, but not over a request that arrived unnoticed.
    pub(in super::super) fn close_kept(&mut self, index: u32) {
        self.deadlines.clear(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.readable = true;
        self.receive(index);
        let unheard = |carrier: &Carrier| carrier.streams.is_empty() && carrier.machine.between_records();
        let Some(connection) = self.connections.get(index) else { return };
        if connection.carrier.as_deref().is_some_and(unheard) && !connection.input.has_unread() {
            self.drop_connection(index);
        }
    }
}
