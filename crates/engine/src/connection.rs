//! A connection: its socket with pending output, its machine, and its state.

use super::answer::Answer;
use super::carrier::Carrier;
use super::exchange::Received;
use super::framing::End;
use super::input::Input;
use super::output::Output;
use super::remote::Remote;
use super::websocket::WebSocket;
use oribi_config::Forwarding;
use oribi_io::Peer;
use oribi_proto::h1::Machine;

/// A connection. While idle, it owns no other memory, and every byte of it counts (see the test).
#[derive(Debug)]
pub(super) struct Connection<S> {
    pub(super) line: BufferedSocket<S>,
    pub(super) input: Input,
    pub(super) machine: Machine,
    pub(super) state: State,
    /// The number of the latest exchange; ids with another number are stale.
    pub(super) serial: u32,
    /// Requests that have begun.
    pub(super) requests: u32,
    /// Pipelined requests answered in this turn.
    pub(super) in_a_row: u16,
    pub(super) listener: u16,
    pub(super) remote: Remote,
    /// The treatment of the fields in which its peer may name clients.
    pub(super) forwarding: Forwarding,
    pub(super) speech: Speech,
}

/// The protocol of a connection, to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    Http1,
    Http2,
    FastCgi,
}

/// The state of a connection. Each state owns the data that has a meaning in it.
#[derive(Debug)]
pub(super) enum State {
    /// Waiting for the PROXY header: see [`super::greeting`].
    Greeting,
    /// Waiting for a request, or reading one.
    Reading(Reading),
    /// A complete request waits for a lane.
    Queued(Box<Received>),
    /// A host has the request; or its response is finished, but the host has not returned yet.
    Answering(Answering),
    /// The response is finished and waits for the socket. The next request or the end follows.
    Flushing(Fate),
    /// The response is sent and the sending side is closed; further input of the client is discarded.
    Lingering,
    /// Carrying several exchanges, each with its own state: see [`super::stream`].
    Carrying(Box<Carrier>),
    /// No longer speaking HTTP: see [`super::websocket`].
    WebSocket(Box<WebSocket>),
}

/// A request that is being received.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The part that has been received; `None` before its head is complete.
    pub(super) request: Option<Box<Received>>,
    /// Bytes of content that still follow, if known.
    pub(super) content_left: u64,
    /// Whether unread input waits for the connection's turn.
    pub(super) yielded: bool,
}

/// A request that a host has.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) answer: Answer,
    pub(super) outlook: Outlook,
    /// Bytes received after a request for another protocol: a host that hijacks the socket must read them first.
    pub(super) early: Option<Box<EarlyBytes>>,
}

/// Bytes behind two boxes, because few connections have any: a box of this type is half as large as a box of bytes.
#[derive(Debug)]
pub(super) struct EarlyBytes(pub(super) Box<[u8]>);

/// The plan for the end of a response, on a connection that only one exchange uses at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// The fate of the connection after the response is sent; decided when the response is finished.
    pub(super) fate: Fate,
    pub(super) departure: Departure,
    /// Whether the client may still be sending bytes that will not be read: bytes after a close that the client did not
    /// announce itself, or the CR LF that old clients send after the content of a POST (RFC 9112, section 2.2).
    pub(super) sends_on: bool,
    /// Whether the host has a descriptor of the socket.
    pub(super) taken: bool,
}

impl Outlook {
    /// Decides the fate of the connection.
    #[inline]
    pub(super) fn decide(&mut self, end: End) {
        self.fate = match end {
            _ if self.taken => Fate::ShutDown,
            End::Reuse => Fate::Reuse,
            End::Close if self.sends_on => Fate::Linger,
            End::Close => Fate::Close,
        };
    }
}

/// The time at which a response is sent that is finished before its host has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// The response is sent as soon as it is written.
    AtOnce,
    /// The response is sent together with that of the next request, which is already in the input buffer.
    WithNext,
    /// The response is sent together with those of its batch: see [`super::send`].
    WithBatch,
}

/// The fate of a connection after its response has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The connection can serve the next request.
    Reuse,
    /// The connection ends with the response.
    Close,
    /// The sending side ends, and further input of the client is read for a while, so that a reset does not overtake the
    /// response.
    Linger,
    /// The sending side is shut down, even for the host, which has its own descriptor.
    ShutDown,
}

/// A socket, its state, and the output that waits for it.
#[derive(Debug)]
pub(super) struct BufferedSocket<S> {
    pub(super) socket: S,
    /// Output that waits to be sent; `None` if there is none.
    pub(super) output: Option<Box<Output>>,
    /// Whether the backend reports the socket's events.
    pub(super) opened: bool,
    /// Whether a receive may succeed.
    pub(super) readable: bool,
    /// Whether the peer has ended its side.
    pub(super) ended: bool,
    /// Whether the socket was full at the last send, and no event has arrived since.
    pub(super) blocked: bool,
    /// Whether the connection is queued for a turn without an event.
    pub(super) turn_asked: bool,
    /// Whether the peer gets a reset if this process dies: see [`oribi_io::Backend::guard`].
    pub(super) guarded: bool,
}

impl<S> BufferedSocket<S> {
    /// Bytes in memory that wait to be sent.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.waiting())
    }

    /// Bytes of output that wait to be sent, in memory and in the spool, without those of files that apps send.
    #[inline]
    pub(super) fn framed(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.framed())
    }
}

impl<S> Connection<S> {
    pub(super) fn new(socket: S, listener: u16, peer: Peer) -> Self {
        Self {
            line: BufferedSocket {
                socket,
                output: None,
                opened: false,
                readable: false,
                ended: false,
                blocked: false,
                turn_asked: false,
                guarded: false,
            },
            input: Input::default(),
            machine: Machine::new(),
            state: State::Reading(Reading::default()),
            serial: 0,
            requests: 0,
            in_a_row: 0,
            listener,
            remote: Remote::new(peer),
            forwarding: Forwarding::Kept,
            speech: Speech::Http1,
        }
    }

    /// Changes to another state.
    #[inline(always)]
    pub(super) fn enter(&mut self, state: State) {
        // The old state of most requests owns nothing, and this check is faster than dropping the state.
        let owns_nothing = match &self.state {
            State::Reading(reading) => reading.request.is_none(),
            State::Answering(answering) => {
                answering.early.is_none() && answering.answer.draft.is_none() && answering.answer.changes.is_none()
            }
            State::Greeting | State::Flushing(_) | State::Lingering => true,
            State::Queued(_) | State::Carrying(_) | State::WebSocket(_) => false,
        };
        if owns_nothing {
            std::mem::forget(std::mem::replace(&mut self.state, state));
        } else {
            self.state = state;
        }
    }

    #[inline]
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    /// Whether no request has begun, so that the connection may be closed for being idle.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Reading(Reading { request: None, .. })) && !self.input.has_unread()
    }

    pub(super) fn speaks_http2(&self) -> bool {
        matches!(&self.state, State::Carrying(carrier) if carrier.speaks_http2())
    }

    /// The carrier, if the connection is in that state.
    #[inline]
    pub(super) fn carrier(&mut self) -> Option<&mut Carrier> {
        if let State::Carrying(carrier) = &mut self.state { Some(carrier) } else { None }
    }

    /// Checks, in debug builds, the invariants that hold whenever the engine is not working on a connection.
    pub(super) fn check(&self) {
        let (machine, output) = (&self.machine, &self.line.output);
        assert!(output.as_ref().is_none_or(|output| !output.is_empty()), "an empty output is not kept");
        assert!(!self.line.blocked || output.is_some(), "only what waits to be sent finds a socket full");
        match &self.state {
            State::Reading(reading) => {
                assert_eq!(reading.request.is_some(), machine.awaits_content(), "a request begins with its head");
                assert_eq!(reading.request.is_some(), self.input.head.is_some(), "its head stands in the input");
                assert!(reading.content_left == 0 || reading.request.is_some(), "content belongs to a request");
                assert!(!reading.yielded || self.line.turn_asked, "a connection that yielded has a turn to come");
            }
            State::Greeting => assert!(machine.awaits_head() && self.input.head.is_none(), "the header comes first"),
            State::Queued(_) => assert!(machine.request_complete(), "what is queued is complete"),
            State::Answering(answering) => {
                assert!(!answering.answer.finished || answering.answer.is_lent(), "a finished answer waits only for its host");
                assert!(!answering.answer.is_lent() || !self.input.has_unread(), "the input is out with the exchange");
            }
            State::Flushing(_) => assert!(output.is_some(), "there is something to flush"),
            State::Lingering => assert!(output.is_none(), "nothing is sent behind the end"),
            State::Carrying(_) | State::WebSocket(_) => {
                assert!(self.input.head.is_none(), "no head of HTTP/1 stands in the input");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;
    use oribi_io::AnyBackend;
    use oribi_tls::Tls;

    #[test]
    fn an_idle_connection_is_small() {
        type Socket = <Tls<AnyBackend> as oribi_io::Backend>::Socket;
        // The real total adds a deadline's link (24 bytes) and a slot's generation (8). libevent needs about 200 bytes for
        // each connection.
        assert!(size_of::<Connection<Socket>>() + 32 <= 312, "{} bytes", size_of::<Connection<Socket>>());
    }
}
