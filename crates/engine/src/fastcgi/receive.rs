//! Assembles complete requests from records.

use super::super::Engine;
use super::super::connection::{Connection, State};
use super::super::content::{Room, StoredContent};
use super::super::deadline::Deadline;
use super::super::memory::Memory;
use super::super::name::ExchangeIndex;
use super::super::observing::Observing;
use super::super::remote::Remote;
use super::super::send::Still;
use super::super::stream::{Requested, Stream, StreamFraming, StreamState};
use super::super::variables::Variables;
use core::ops::Range;
use oribi_config::Forwarding;
use oribi_io::Backend;
use oribi_message::{KnownVariable, Role};
use oribi_proto::fcgi::{Event, Refusal, params};
use oribi_stats::totals::Counter;

impl<B: Backend> Engine<'_, B> {
    /// Lets the machine read unread input until it needs more.
    pub(in super::super) fn parse_records(&mut self, index: u32) -> Still {
        loop {
            let Connection { line, input, state, .. } = &mut self.connections[index];
            let State::Carrying(carrier) = state else { return Still::Open };
            let Some(machine) = carrier.fastcgi() else { return Still::Open };
            let step = machine.handle_input(input.unread(), &self.limits.records);
            let start = input.position();
            input.consume(step.consumed);
            let at = |range: Range<usize>| start + range.start..start + range.end;
            let still = match step.event {
                Event::NeedInput => return Still::Open,
                Event::Begin { id, role, .. } => {
                    self.begin_stream(index, id, role);
                    Still::Open
                }
                Event::Params { id, range } => self.take_params(index, id, at(range)),
                Event::ParamsEnd { id, complete } => self.end_params(index, id, complete),
                Event::Stdin { id, range } => self.take_content(index, id, at(range)),
                Event::StdinEnd { id, complete } => self.end_content(index, id, complete),
                Event::Data { id, range } => self.take_data(index, id, at(range)),
                Event::DataEnd { id } => match self.reading_stream(index, id.into()) {
                    Some(number) => self.complete_stream(number),
                    None => Still::Open,
                },
                Event::Abort { id } => match carrier.number(id.into()) {
                    Some(number) => self.cancel_stream(number),
                    None => Still::Open,
                },
                Event::Answer => {
                    if machine.is_full() {
                        self.tally.count(Counter::LimitFastCgiRequests);
                    }
                    let output = line.output.get_or_insert_with(|| self.memory.outputs.take());
                    machine.write_answer(&self.limits.records, output.tail());
                    line.trim(&mut self.memory.outputs);
                    self.flush_and_rest(index)
                }
                Event::Refused(violation) => {
                    log::warn!("closed a FastCGI connection: {}", violation.reason());
                    self.drop_connection(index);
                    Still::Gone
                }
            };
            if still == Still::Gone {
                return Still::Gone;
            }
        }
    }

    fn begin_stream(&mut self, index: u32, id: u16, role: Role) {
        let now = self.backend.now();
        self.tally.count_fastcgi();
        let mut request = self.spare_request();
        let connection = &mut self.connections[index];
        request.earlier = connection.requests;
        connection.requests = connection.requests.wrapping_add(1);
        let remote = connection.remote;
        let number = self.streams.insert(Stream::new(index, id, role, remote, request));
        if let Some(carrier) = connection.carrier() {
            carrier.add(id.into(), number);
        }
        self.no_longer_idle(index);
        self.stream_deadlines.set(number, Deadline::Head, now);
    }

    /// The request of a stream, and the given bytes of the connection's input.
    fn request_and_input(&mut self, index: u32, number: u32, range: Range<usize>) -> Option<(&mut Requested, &[u8])> {
        let StreamState::Requested(requested) = &mut self.streams[number].state else { return None };
        Some((requested, &self.connections[index].input.bytes()[range]))
    }

    fn take_params(&mut self, index: u32, id: u16, range: Range<usize>) -> Still {
        let most = self.limits.records.params_bytes;
        let Some(number) = self.reading_stream(index, id.into()) else { return Still::Open };
        let Some((requested, piece)) = self.request_and_input(index, number, range) else { return Still::Open };
        let bytes = &mut requested.variables().bytes;
        if bytes.len() + piece.len() > most {
            return self.refuse_stream(number, Refusal::PARAMS_LENGTH);
        }
        bytes.extend_from_slice(piece);
        Still::Open
    }

    fn end_params(&mut self, index: u32, id: u16, complete: bool) -> Still {
        let now = self.backend.now();
        let Some(number) = self.reading_stream(index, id.into()) else { return Still::Open };
        let Self {
            streams,
            limits,
            uploads,
            server_fields,
            memory: Memory { spare_content, .. },
            observing: Observing { traces, .. },
            ..
        } = self;
        let Stream { framing, remote, state, .. } = &mut streams[number];
        let (StreamState::Requested(requested), StreamFraming::FastCgi(framing)) = (state, framing) else { return Still::Open };
        let Some(variables) = requested.request.variables.as_deref_mut() else { return Still::Open };
        let Variables { bytes, list, role, .. } = variables;
        let outline = match params::lay_out(bytes, &mut requested.request.layout, list, &limits.records) {
            Ok(outline) => outline,
            Err(refusal) => return self.refuse_stream(number, refusal),
        };
        *role = framing.role();
        if let Some(address) = variables.get(KnownVariable::RemoteAddr) {
            *remote = Remote::given(address, variables.get(KnownVariable::RemotePort).unwrap_or(b"0"));
        }
        if let Some(ids) = &mut server_fields.ids {
            // Only web servers speak FastCGI.
            requested.request.id = Some(ids.identify_in(&mut requested.request.layout, &mut variables.bytes, Forwarding::Kept));
        }
        if let Some(traces) = traces {
            traces.place_in(&mut requested.request.layout, &mut variables.bytes, Forwarding::Kept);
        }
        framing.set_bodiless(outline.bodiless);
        requested.announced = outline.content_length;
        if let Some(size) = outline.content_length {
            let room = &mut Room { input: None, spare: spare_content, bounds: uploads.bounds };
            match StoredContent::with_room(Some(size), room) {
                Ok(content) => requested.request.content = content,
                Err(error) => return self.refuse_stream_storage(number, &error),
            }
        }
        if complete {
            return self.complete_stream(number);
        }
        self.stream_deadlines.set(number, Deadline::Content, now);
        self.bound_content(ExchangeIndex::Stream(number))
    }

    fn take_content(&mut self, index: u32, id: u16, range: Range<usize>) -> Still {
        let (most, bounds) = (self.settings.limits.content_bytes, self.uploads.bounds);
        let Some(number) = self.reading_stream(index, id.into()) else { return Still::Open };
        let Some((requested, piece)) = self.request_and_input(index, number, range) else { return Still::Open };
        requested.arrived += piece.len() as u64;
        let refusal = match requested.announced {
            Some(announced) if requested.arrived > announced => Refusal::CONTENT_LONG,
            _ if requested.arrived > most => Refusal::CONTENT_SIZE,
            _ => {
                let content = &mut requested.request.content;
                if matches!(content, StoredContent::None) {
                    *content = StoredContent::EMPTY;
                }
                let added = content.add(piece, &bounds);
                content.count(0, &bounds);
                return match added {
                    Ok(()) => self.bound_content(ExchangeIndex::Stream(number)),
                    Err(error) => self.refuse_stream_storage(number, &error),
                };
            }
        };
        self.refuse_stream(number, refusal)
    }

    fn end_content(&mut self, index: u32, id: u16, complete: bool) -> Still {
        let Some(number) = self.reading_stream(index, id.into()) else { return Still::Open };
        let StreamState::Requested(requested) = &mut self.streams[number].state else { return Still::Open };
        if requested.announced.is_some_and(|announced| requested.arrived < announced) {
            return self.refuse_stream(number, Refusal::CONTENT_SHORT);
        }
        if complete {
            return self.complete_stream(number);
        }
        // A file to filter may be empty, but it exists.
        requested.variables().data = StoredContent::EMPTY;
        Still::Open
    }

    fn take_data(&mut self, index: u32, id: u16, range: Range<usize>) -> Still {
        let (most, bounds) = (self.settings.limits.content_bytes, self.uploads.bounds);
        let Some(number) = self.reading_stream(index, id.into()) else { return Still::Open };
        let Some((requested, piece)) = self.request_and_input(index, number, range) else { return Still::Open };
        requested.arrived += piece.len() as u64;
        if requested.arrived > most {
            return self.refuse_stream(number, Refusal::CONTENT_SIZE);
        }
        let data = &mut requested.variables().data;
        let added = data.add(piece, &bounds);
        data.count(0, &bounds);
        match added {
            Ok(()) => self.bound_content(ExchangeIndex::Stream(number)),
            Err(error) => self.refuse_stream_storage(number, &error),
        }
    }
}
