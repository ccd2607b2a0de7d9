//! The machine of one connection: separates its requests, and reads record by record.

use super::management::{Answer, VALUES_BYTES, Values};
use super::record::{
    ABORT_REQUEST, BEGIN_REQUEST, DATA, END_REQUEST, GET_VALUES, GET_VALUES_RESULT, HEADER_BYTES, Header, NULL_REQUEST_ID,
    PARAMS, ProtocolStatus, STDERR, STDIN, STDOUT, UNKNOWN_TYPE, VERSION,
};
use super::table::{Active, Phase, Table};
use super::{Limits, Violation};
use alloc::vec::Vec;
use core::ops::Range;
use oribi_message::Role;

/// BEGIN_REQUEST with its header.
const BEGIN_BYTES: usize = HEADER_BYTES + 8;
const KEEP_CONN: u8 = 1;

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of bytes consumed at the start of the input.
    pub consumed: usize,
    /// The meaning of these bytes.
    pub event: Event,
}

/// An event from the web server. Ranges are ranges of the input, never empty, and lie within the consumed bytes; a content
/// comes in any number of pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing complete yet: more input is needed. Some input may have been consumed anyway: padding, and skipped content.
    NeedInput,
    /// A request begins. It stays active until [`Machine::finished`] is called with its id.
    Begin {
        /// Never 0.
        id: u16,
        /// The role that the web server asks for.
        role: Role,
        /// The connection stays open after this request; see [`Machine::must_close`].
        keep_connection: bool,
    },
    /// A piece of the name-value pairs; pieces do not respect the borders of pairs. Collect them, but no more than
    /// [`Limits::params_bytes`].
    Params {
        /// The request's id.
        id: u16,
        /// Its place in the input.
        range: Range<usize>,
    },
    /// The pairs are complete; see [`params::lay_out`](super::params::lay_out).
    ParamsEnd {
        /// The request's id.
        id: u16,
        /// Whether the request is also complete: authorizers get nothing else.
        complete: bool,
    },
    /// A piece of the content.
    Stdin {
        /// The request's id.
        id: u16,
        /// Its place in the input.
        range: Range<usize>,
    },
    /// The content is complete. Compare its size with CONTENT_LENGTH: the content is short if the client has disconnected.
    StdinEnd {
        /// The request's id.
        id: u16,
        /// Whether the request is also complete: only filters get more.
        complete: bool,
    },
    /// A piece of the file to filter.
    Data {
        /// The request's id.
        id: u16,
        /// Its place in the input.
        range: Range<usize>,
    },
    /// The file is complete, and with it the request.
    DataEnd {
        /// The request's id.
        id: u16,
    },
    /// The web server no longer wants the response: give the request up and end it soon. This event comes at most once for a
    /// request; the remaining input for the request is skipped.
    Abort {
        /// The request's id.
        id: u16,
    },
    /// The machine has an answer of its own: call [`Machine::write_answer`]. Until then nothing is read. The caller, which
    /// queues the output, must stop a web server that asks without end and reads no answer.
    Answer,
    /// The connection is refused, and so is everything that follows: from now on every step returns this. Close the connection.
    Refused(Violation),
}

/// The stream that the content of the current record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Skipped,
    Params,
    Stdin,
    Data,
}

/// The application's side of one connection. Small; it owns no heap memory but about four bytes for each active request.
#[derive(Clone, Debug)]
pub struct Machine {
    requests: Table,
    answer: Option<Answer>,
    refused: Option<Violation>,
    /// The connection ends when no request is active.
    closing: bool,
    /// A request has ended before its input.
    sends_on: bool,
    /// The current record: its request and stream, and the bytes of content and of padding that have not been read yet.
    id: u16,
    stream: Stream,
    left: u16,
    padding: u8,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A machine for a new connection.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            requests: Table::new(),
            answer: None,
            refused: None,
            closing: false,
            sends_on: false,
            id: NULL_REQUEST_ID,
            stream: Stream::Skipped,
            left: 0,
            padding: 0,
        }
    }

    /// The number of requests that have begun and are not finished.
    #[inline]
    #[must_use]
    pub fn active(&self) -> usize {
        self.requests.len()
    }

    /// Whether the machine is between two records, so that an end of the input would cut nothing off.
    #[inline]
    #[must_use]
    pub const fn between_records(&self) -> bool {
        self.left == 0 && self.padding == 0
    }

    /// Whether to close the connection once everything written has been sent. This is so after a refusal. It is also so if no
    /// request is active, no answer of the machine waits to be written, and either a request had no KEEP_CONN (then the
    /// application must close) or [`Machine::retire`] has been called.
    #[inline]
    #[must_use]
    pub fn must_close(&self) -> bool {
        self.refused.is_some() || self.is_over()
    }

    /// Whether the web server may still be sending a request that has ended, because it was refused. If such a connection is
    /// closed at once, a reset may overtake the answer.
    #[must_use]
    pub const fn sends_on(&self) -> bool {
        self.sends_on
    }

    /// Answers new requests with OVERLOADED from now on, so that the web server asks elsewhere. Active requests continue;
    /// when there are none, the connection must close.
    pub const fn retire(&mut self) {
        self.closing = true;
    }

    /// Records that END_REQUEST has been written for this request, or never will be. The id of the request is free, and further
    /// input for the request is skipped.
    pub fn finished(&mut self, id: u16) {
        let Some(request) = self.requests.remove(id) else { return };
        self.closing |= !request.keep_connection;
        self.sends_on |= !matches!(request.phase, Phase::Complete | Phase::Aborted);
        if self.id == id {
            self.stream = Stream::Skipped;
        }
    }

    /// Whether the answer that [`Event::Answer`] has announced refuses a request because as many are active as
    /// [`Limits::requests`] allows.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self.answer, Some(Answer::End { full: true, .. }))
    }

    /// Writes the answer that [`Event::Answer`] has announced.
    pub fn write_answer(&mut self, limits: &Limits, out: &mut Vec<u8>) {
        if let Some(answer) = self.answer.take() {
            answer.write(limits, out);
        }
    }

    /// Takes one step on the input, which is all bytes received and not yet consumed. Call it again, without the consumed
    /// bytes, until it returns [`Event::NeedInput`] or [`Event::Refused`]. [`Event::NeedInput`] leaves at most 4 KiB
    /// unconsumed. Once the connection must close, nothing more is read.
    #[inline]
    pub fn handle_input(&mut self, input: &[u8], limits: &Limits) -> Step {
        if let Some(violation) = self.refused {
            return Step { consumed: 0, event: Event::Refused(violation) };
        }
        if self.answer.is_some() {
            return Step { consumed: 0, event: Event::Answer };
        }
        if self.is_over() {
            return need_input(0);
        }
        let mut pos = 0;
        loop {
            let rest = &input[pos..];
            if self.left > 0 {
                let length = rest.len().min(usize::from(self.left));
                if length == 0 {
                    return need_input(pos);
                }
                self.left -= length as u16;
                let (id, range) = (self.id, pos..pos + length);
                pos = range.end;
                let event = match self.stream {
                    Stream::Skipped => continue,
                    Stream::Params => Event::Params { id, range },
                    Stream::Stdin => Event::Stdin { id, range },
                    Stream::Data => Event::Data { id, range },
                };
                return Step { consumed: pos, event };
            }
            if self.padding > 0 {
                let length = rest.len().min(usize::from(self.padding));
                if length == 0 {
                    return need_input(pos);
                }
                self.padding -= length as u8;
                pos += length;
                continue;
            }
            match self.read_record(rest, limits) {
                Ok(None) => return need_input(pos),
                Ok(Some((length, event))) => {
                    pos += length;
                    if let Some(event) = event {
                        return Step { consumed: pos, event };
                    }
                }
                Err(violation) => return self.refuse(pos, violation),
            }
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.closing && self.requests.len() == 0 && self.answer.is_none()
    }

    /// Reads the header of a record, and its content if the record is read as a whole. Returns the number of bytes read and
    /// their meaning, or `None` if bytes are missing.
    #[inline]
    fn read_record(&mut self, input: &[u8], limits: &Limits) -> Result<Option<(usize, Option<Event>)>, Violation> {
        let Some(header) = input.first_chunk() else { return Ok(None) };
        let header = Header::read(header);
        let Header { version, kind, id, length, padding } = header;
        if version != VERSION {
            return Err(Violation::VERSION);
        }
        let mut taken = HEADER_BYTES;
        let mut stream = Stream::Skipped;
        let mut event = None;
        match kind {
            _ if id == NULL_REQUEST_ID => match self.manage(header, input)? {
                Some((answer, bytes)) => {
                    self.answer = Some(answer);
                    event = Some(Event::Answer);
                    taken += bytes;
                }
                None => return Ok(None),
            },
            BEGIN_REQUEST => {
                if usize::from(length) != BEGIN_BYTES - HEADER_BYTES {
                    return Err(Violation::BEGIN_LENGTH);
                }
                let Some(bytes) = input.first_chunk::<BEGIN_BYTES>() else { return Ok(None) };
                let [.., role_high, role_low, flags, _, _, _, _, _] = *bytes;
                event = Some(self.begin(id, u16::from_be_bytes([role_high, role_low]), flags, limits)?);
                taken = BEGIN_BYTES;
            }
            ABORT_REQUEST => match self.requests.find(id) {
                Some(request) if request.phase != Phase::Aborted => {
                    request.phase = Phase::Aborted;
                    event = Some(Event::Abort { id });
                }
                _ => {}
            },
            PARAMS | STDIN | DATA => {
                if let Some(request) = self.requests.find(id) {
                    (stream, event) = go_on(request, kind, length == 0)?;
                }
            }
            END_REQUEST | STDOUT | STDERR | GET_VALUES_RESULT | UNKNOWN_TYPE => return Err(Violation::DIRECTION),
            _ => {}
        }
        self.id = id;
        self.stream = stream;
        self.left = length - (taken - HEADER_BYTES) as u16;
        self.padding = padding;
        Ok(Some((taken, event)))
    }

    /// The answer to a management record, and the number of bytes of its content that have been read; `None` if bytes are
    /// missing.
    #[cold]
    fn manage(&mut self, header: Header, input: &[u8]) -> Result<Option<(Answer, usize)>, Violation> {
        match header.kind {
            GET_VALUES if header.length > VALUES_BYTES => Err(Violation::VALUES_LENGTH),
            GET_VALUES => {
                let length = usize::from(header.length);
                let Some(content) = input.get(HEADER_BYTES..HEADER_BYTES + length) else { return Ok(None) };
                let values = Values::read(content).map_err(|_| Violation::VALUES_PAIRS)?;
                Ok(Some((Answer::Values(values), length)))
            }
            // Two peers that answer each other's answers would never end.
            GET_VALUES_RESULT | UNKNOWN_TYPE => Err(Violation::DIRECTION),
            kind => Ok(Some((Answer::UnknownType(kind), 0))),
        }
    }

    #[inline]
    fn begin(&mut self, id: u16, role: u16, flags: u8, limits: &Limits) -> Result<Event, Violation> {
        if self.requests.contains(id) {
            return Err(Violation::BEGIN_ACTIVE);
        }
        let keep_connection = flags & KEEP_CONN != 0;
        let role = match role {
            1 => Some(Role::Responder),
            2 => Some(Role::Authorizer),
            3 => Some(Role::Filter),
            _ => None,
        };
        let status = match role {
            Some(role) if !self.closing && self.requests.len() < usize::from(limits.requests) => {
                self.requests.insert(Active { id, role, phase: Phase::Params, keep_connection });
                return Ok(Event::Begin { id, role, keep_connection });
            }
            Some(_) => ProtocolStatus::Overloaded,
            None => ProtocolStatus::UnknownRole,
        };
        let full = role.is_some() && !self.closing;
        self.closing |= !keep_connection;
        self.sends_on = true;
        self.answer = Some(Answer::End { id, status, full });
        Ok(Event::Answer)
    }

    #[cold]
    fn refuse(&mut self, consumed: usize, violation: Violation) -> Step {
        self.refused = Some(violation);
        Step { consumed, event: Event::Refused(violation) }
    }
}

#[inline]
fn need_input(consumed: usize) -> Step {
    Step { consumed, event: Event::NeedInput }
}

/// The effect of a record of a stream on its request: content of a stream, or an end.
#[inline]
fn go_on(request: &mut Active, kind: u8, ends: bool) -> Result<(Stream, Option<Event>), Violation> {
    let id = request.id;
    Ok(match (kind, request.phase) {
        (_, Phase::Aborted) => (Stream::Skipped, None),
        (DATA, _) if request.role != Role::Filter => (Stream::Skipped, None),
        (PARAMS, Phase::Params) if !ends => (Stream::Params, None),
        (PARAMS, Phase::Params) => {
            let complete = request.role == Role::Authorizer;
            request.phase = if complete { Phase::Complete } else { Phase::Stdin };
            (Stream::Skipped, Some(Event::ParamsEnd { id, complete }))
        }
        (STDIN, Phase::Stdin) if !ends => (Stream::Stdin, None),
        (STDIN, Phase::Stdin) => {
            let complete = request.role != Role::Filter;
            request.phase = if complete { Phase::Complete } else { Phase::Data };
            (Stream::Skipped, Some(Event::StdinEnd { id, complete }))
        }
        (DATA, Phase::Data) if !ends => (Stream::Data, None),
        (DATA, Phase::Data) => {
            request.phase = Phase::Complete;
            (Stream::Skipped, Some(Event::DataEnd { id }))
        }
        (STDIN, Phase::Params) => return Err(Violation::STDIN_EARLY),
        (DATA, Phase::Params | Phase::Stdin) => return Err(Violation::DATA_EARLY),
        (STDIN, _) if request.role == Role::Authorizer => (Stream::Skipped, None),
        _ if ends => (Stream::Skipped, None),
        (PARAMS, _) => return Err(Violation::PARAMS_ENDED),
        (STDIN, _) => return Err(Violation::STDIN_ENDED),
        _ => return Err(Violation::DATA_ENDED),
    })
}

#[cfg(test)]
mod tests {
    use super::{Event, Machine};
    use crate::fcgi::Limits;
    use crate::fcgi::table::Active;
    use oribi_message::Role;
    use std::vec::Vec;

    const BEGIN: &[u8] = b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00";
    const OVERLOADED: &[u8] = b"\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00";

    fn begun() -> Machine {
        let mut machine = Machine::new();
        let step = machine.handle_input(BEGIN, &Limits::default());
        assert_eq!(step.event, Event::Begin { id: 1, role: Role::Responder, keep_connection: true });
        assert_eq!(step.consumed, BEGIN.len());
        machine
    }

    #[test]
    fn connections_and_requests_are_cheap() {
        assert!(size_of::<Machine>() <= 64, "{}", size_of::<Machine>());
        assert!(size_of::<Active>() <= 6, "{}", size_of::<Active>());
    }

    #[test]
    fn a_connection_that_retires_closes_when_its_last_request_is_finished() {
        let mut machine = begun();
        machine.retire();
        assert!(!machine.must_close() && machine.active() == 1);
        let second = [&BEGIN[..3], &[2], &BEGIN[4..]].concat();
        assert_eq!(machine.handle_input(&second, &Limits::default()).event, Event::Answer);
        let mut answer = Vec::new();
        machine.write_answer(&Limits::default(), &mut answer);
        assert_eq!(answer, [&OVERLOADED[..3], &[2], &OVERLOADED[4..]].concat());
        machine.finished(1);
        assert!(machine.must_close() && machine.active() == 0);
        assert_eq!(machine.handle_input(BEGIN, &Limits::default()).consumed, 0);
    }

    #[test]
    fn a_connection_without_requests_retires_at_once() {
        let mut machine = Machine::new();
        assert!(!machine.must_close());
        machine.retire();
        assert!(machine.must_close());
    }

    #[test]
    fn a_connection_does_not_close_over_an_answer() {
        let mut machine = Machine::new();
        let begin = [&BEGIN[..10], &[0], &BEGIN[11..]].concat();
        let limits = Limits { requests: 0, ..Limits::default() };
        assert_eq!(machine.handle_input(&begin, &limits).event, Event::Answer);
        assert!(!machine.must_close());
        let mut answer = Vec::new();
        machine.write_answer(&limits, &mut answer);
        assert_eq!(answer, OVERLOADED);
        assert!(machine.must_close());
        machine.write_answer(&limits, &mut answer);
        assert_eq!(answer, OVERLOADED, "it is written once");
    }

    #[test]
    fn what_is_left_of_a_record_is_skipped_when_its_request_is_finished() {
        let mut machine = begun();
        let params = b"\x01\x04\x00\x01\x00\x09\x03\x00abc";
        assert_eq!(machine.handle_input(params, &Limits::default()).event, Event::Params { id: 1, range: 8..11 });
        assert!(!machine.between_records());
        machine.finished(1);
        let rest = [b"defghi___", BEGIN].concat();
        let step = machine.handle_input(&rest, &Limits::default());
        assert_eq!(step.event, Event::Begin { id: 1, role: Role::Responder, keep_connection: true });
        assert_eq!(step.consumed, rest.len());
        assert!(machine.between_records());
    }

    #[test]
    fn a_web_server_sends_on_if_its_request_ends_before_its_input() {
        let params_end = &b"\x01\x04\x00\x01\x00\x00\x00\x00"[..];
        let content_end = &b"\x01\x05\x00\x01\x00\x00\x00\x00"[..];
        let abort = &b"\x01\x02\x00\x01\x00\x00\x00\x00"[..];
        let cases: [(&[&[u8]], bool); 4] =
            [(&[], true), (&[params_end], true), (&[params_end, content_end], false), (&[params_end, abort], false)];
        for (records, sends_on) in cases {
            let mut machine = begun();
            for record in records {
                assert_eq!(machine.handle_input(record, &Limits::default()).consumed, record.len());
            }
            assert!(!machine.sends_on(), "nothing has ended");
            machine.finished(1);
            assert_eq!(machine.sends_on(), sends_on, "after {records:?}");
        }
        let mut machine = Machine::new();
        machine.handle_input(BEGIN, &Limits { requests: 0, ..Limits::default() });
        assert!(machine.sends_on(), "its request is refused at once");
    }

    #[test]
    fn nobody_can_finish_a_request_that_is_not_active() {
        let mut machine = begun();
        machine.finished(2);
        machine.finished(0);
        assert!(machine.active() == 1 && !machine.must_close());
    }
}
