//! Step 4, pass on: events of a machine become calls of the outlet.
//!
//! Small pieces are gathered, and a response that has arrived as a whole is answered as a whole, because each call costs a frame
//! in the memory that the worker shares with an edge. Nothing waits for later bytes.

use crate::exchange::Exchange;
use crate::fields::of_response;
use oribi_host::{Outlet, ReplyError};
use oribi_message::list::members;
use oribi_message::{FieldPair, HeadLayout, KnownField, ResponseHead};
use oribi_proto::h1::client::{Event, Fault, Machine};
use oribi_proto::h1::{Limits, trailers_of};
use std::time::Duration;

/// Content of at least so many bytes is passed on without a copy.
const DIRECT: usize = 8 << 10;

/// The most bytes of smaller pieces that are gathered.
const GATHERED: usize = 64 << 10;

/// The state of an exchange after some input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More input is needed.
    More,
    /// The client has no room.
    Paused,
    /// The client has the whole response.
    Done,
    /// The upstream speaks another protocol from now on. The head is the one for the client.
    Switched(Vec<u8>),
    /// The response is invalid.
    Failed(Fault),
    /// The server has refused the response, and answered in its place.
    Refused(&'static str),
    /// No client waits for the response any more.
    Gone,
}

/// A head that the client has not got yet.
struct Head<'i> {
    status: u16,
    length: Option<u64>,
    fields: Vec<FieldPair<'i>>,
}

impl<'i> Head<'i> {
    const fn as_response(&self) -> ResponseHead<'_> {
        ResponseHead { status: self.status, fields: self.fields.as_slice() }
    }
}

/// The buffers of a context for reading responses.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    layout: HeadLayout,
    limits: Limits,
    gathered: Vec<u8>,
    /// The time for which the upstream keeps the connection, as far as it has said so in this input.
    pub(crate) kept_for: Option<Duration>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        let limits = Limits { head_bytes: 64 << 10, fields: 200, content_bytes: u64::MAX, ..Limits::default() };
        Self { limits, ..Self::default() }
    }

    /// Passes on as much as possible of `input`; returns the number of bytes consumed.
    pub(crate) fn pass_on(
        &mut self,
        outlet: &dyn Outlet,
        machine: &mut Machine,
        exchange: &mut Exchange,
        input: &[u8],
    ) -> (usize, Verdict) {
        let mut consumed = 0;
        self.gathered.clear();
        self.kept_for = None;
        let verdict = self.read(outlet, machine, exchange, input, &mut consumed).unwrap_or_else(|error| match error {
            ReplyError::Invalid(why) => Verdict::Refused(why),
            ReplyError::Gone | ReplyError::Woken => Verdict::Gone,
        });
        (consumed, verdict)
    }

    fn read(
        &mut self,
        outlet: &dyn Outlet,
        machine: &mut Machine,
        exchange: &mut Exchange,
        input: &[u8],
        consumed: &mut usize,
    ) -> Result<Verdict, ReplyError> {
        let mut head = None;
        loop {
            let start = *consumed;
            let step = machine.handle_input(&input[start..], &mut self.layout, &self.limits);
            *consumed += step.consumed;
            let bytes = &input[start..*consumed];
            match step.event {
                Event::NeedInput => {
                    let room = self.flush(outlet, exchange, &mut head)?;
                    return Ok(if room { Verdict::More } else { Verdict::Paused });
                }
                // The client has sent all of its content, so it needs no permission to do so.
                Event::Interim { status: 100 } => {}
                Event::Interim { status } => match outlet.inform(exchange.id, status, &of_response(self.fields(bytes))) {
                    // The final response may be valid.
                    Err(ReplyError::Invalid(why)) => {
                        log::warn!("{}: a response with status {status}: {why}", exchange.request.label());
                    }
                    outcome => outcome?,
                },
                Event::Head { status, length } => {
                    let keep_alive = self.fields(bytes).find(|(known, ..)| *known == Some(KnownField::KeepAlive));
                    self.kept_for = keep_alive.and_then(|(_, _, value)| kept_for(value));
                    head = Some(Head { status, length, fields: of_response(self.fields(bytes)) });
                }
                Event::Content(range) => {
                    let piece = &bytes[range];
                    match head.take() {
                        Some(whole) if whole.length == Some(piece.len() as u64) => {
                            (exchange.begun, exchange.complete) = (true, true);
                            outlet.respond(exchange.id, whole.as_response(), &[piece])?;
                            continue;
                        }
                        other => head = other,
                    }
                    if piece.len() < DIRECT && self.gathered.len() + piece.len() <= GATHERED {
                        self.gathered.extend_from_slice(piece);
                        continue;
                    }
                    let room = self.flush(outlet, exchange, &mut head)? & outlet.offer(exchange.id, piece)?;
                    if !room {
                        return Ok(Verdict::Paused);
                    }
                }
                Event::Trailers(range) => exchange.trailers.extend_from_slice(&bytes[range]),
                Event::End => {
                    self.end(outlet, exchange, head)?;
                    return Ok(Verdict::Done);
                }
                Event::Switched => return Ok(Verdict::Switched(self.switched(bytes))),
                Event::Failed(fault) => return Ok(Verdict::Failed(fault)),
            }
        }
    }

    fn fields<'l, 'i: 'l>(
        &'l self,
        bytes: &'i [u8],
    ) -> impl Iterator<Item = (Option<KnownField>, &'i [u8], &'i [u8])> + Clone + use<'l, 'i> {
        self.layout.fields.iter().map(move |field| (field.known, field.name.of(bytes), field.value.of(bytes)))
    }

    /// Passes on the head, if the client has not got it, and the gathered pieces; returns whether there is room for more.
    fn flush(&mut self, outlet: &dyn Outlet, exchange: &mut Exchange, head: &mut Option<Head<'_>>) -> Result<bool, ReplyError> {
        let head = head.take();
        if let Some(head) = &head {
            exchange.begun = true;
            outlet.start(exchange.id, head.as_response())?;
        } else if self.gathered.is_empty() {
            return Ok(true);
        }
        let room = outlet.offer(exchange.id, &self.gathered)?;
        self.gathered.clear();
        Ok(room)
    }

    fn end(&mut self, outlet: &dyn Outlet, exchange: &mut Exchange, head: Option<Head<'_>>) -> Result<(), ReplyError> {
        if std::mem::replace(&mut exchange.complete, true) {
            return Ok(());
        }
        let mut head = head;
        if exchange.trailers.is_empty()
            && let Some(head) = &head
        {
            exchange.begun = true;
            return outlet.respond(exchange.id, head.as_response(), &[&self.gathered]);
        }
        self.flush(outlet, exchange, &mut head)?;
        if exchange.trailers.is_empty() {
            return outlet.finish(exchange.id);
        }
        let trailers: Vec<FieldPair<'_>> = trailers_of(&exchange.trailers).collect();
        outlet.finish_with_trailers(exchange.id, &trailers)
    }

    /// The head of a 101 for the client.
    fn switched(&self, bytes: &[u8]) -> Vec<u8> {
        let mut head = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
        let upgrades = self.fields(bytes).filter(|(known, ..)| *known == Some(KnownField::Upgrade));
        let fields = of_response(self.fields(bytes)).into_iter().chain(upgrades.map(|(_, name, value)| (name, value)));
        for (name, value) in fields.chain([(&b"Connection"[..], &b"upgrade"[..])]) {
            [name, b": ", value, b"\r\n"].into_iter().for_each(|part| head.extend_from_slice(part));
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Ends a response whose content ends with the connection.
    pub(crate) fn end_with_connection(&mut self, outlet: &dyn Outlet, exchange: &mut Exchange) -> Result<(), ReplyError> {
        self.gathered.clear();
        self.end(outlet, exchange, None)
    }
}

/// The `timeout` of Keep-Alive.
fn kept_for(value: &[u8]) -> Option<Duration> {
    let parameter = members(value).find_map(|part| part.strip_prefix(b"timeout="))?;
    std::str::from_utf8(parameter).ok()?.parse().ok().map(Duration::from_secs)
}
