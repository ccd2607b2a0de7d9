//! One connection: a socket with what waits to be sent, a machine, and the state in which it is.

use super::answer::{Answer, Custody};
use super::carrier::Carrier;
use super::exchange::Received;
use super::framing::End;
use super::input::Input;
use super::output::Output;
use super::remote::Remote;
use oribi_io::Peer;
use oribi_proto::h1::Machine;

/// One connection. Idle, it owns no memory but this, and every byte of it counts (see the test).
#[derive(Debug)]
pub(super) struct Connection<S> {
    pub(super) line: Line<S>,
    pub(super) input: Input,
    pub(super) machine: Machine,
    pub(super) state: State,
    /// The number of the latest exchange; ids that carry another one are out of date.
    pub(super) serial: u32,
    /// Requests that have begun.
    pub(super) requests: u32,
    /// Pipelined requests answered in this turn.
    pub(super) in_a_row: u16,
    pub(super) listener: u16,
    pub(super) remote: Remote,
}

/// Where a connection stands. Each state owns what is meaningful in it.
#[derive(Debug)]
pub(super) enum State {
    /// It waits for a request or reads one.
    Reading(Reading),
    /// A complete request waits for a lane to take it.
    Queued(Box<Received>),
    /// A host has the request, or its response is finished and the host has not returned yet.
    Answering(Answering),
    /// The response is finished and waits for the socket; then comes the next request, or the end.
    Flushing(Fate),
    /// The response is sent and the sending side is ended; what the client still sends is thrown away.
    Lingering,
    /// It carries the exchanges of a web server, each with a state of its own: see [`super::stream`].
    Carrying(Box<Carrier>),
}

/// A request on its way in.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// What has come of it; `None` before its head is complete.
    pub(super) request: Option<Box<Received>>,
    /// Bytes of content still to come, where that is known.
    pub(super) content_left: u64,
    /// There is unread input, which is not looked at before the connection's turn.
    pub(super) yielded: bool,
}

/// A request in the hands of a host.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) answer: Answer,
    pub(super) outlook: Outlook,
    /// What came behind a request for another protocol: whoever takes the socket gets these bytes first.
    pub(super) early: Option<Box<[u8]>>,
}

/// What comes after a response on a connection that only one exchange uses at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// What becomes of the connection once the response has left; settled when the response is finished.
    pub(super) fate: Fate,
    pub(super) departure: Departure,
    /// The client may still be sending what nobody will read: bytes behind a close, if it did not announce that itself, and the CR LF
    /// that old clients send behind the content of a POST (RFC 9112, section 2.2).
    pub(super) sends_on: bool,
    /// A host has a descriptor of the socket.
    pub(super) taken: bool,
}

impl Outlook {
    /// Settles what becomes of the connection.
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

/// When a response leaves that is finished while its host has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// As soon as it is written.
    AtOnce,
    /// With the response to the next request, which stands in the input buffer already.
    WithNext,
    /// With those of its batch: see [`super::send`].
    WithBatch,
}

/// What becomes of a connection once its response has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The next request may come.
    Reuse,
    /// It ends.
    Close,
    /// Its sending side ends, and what the client still sends is read for a while, so that the end does not overtake the response.
    Linger,
    /// Its sending side ends for the host, too, which has a descriptor of its own.
    ShutDown,
}

/// A socket, what is known of it, and what waits for it.
#[derive(Debug)]
pub(super) struct Line<S> {
    pub(super) socket: S,
    /// What waits to be sent; `None` if that is nothing.
    pub(super) output: Option<Box<Output>>,
    /// The backend reports its news.
    pub(super) opened: bool,
    /// A receive is worth trying.
    pub(super) readable: bool,
    /// The peer has ended its side.
    pub(super) ended: bool,
    /// A send found the socket full, and there has been no news since.
    pub(super) blocked: bool,
    /// The connection stands in the queue for a turn without an event.
    pub(super) turn_asked: bool,
}

impl<S> Line<S> {
    /// Bytes in memory that wait to be sent.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.waiting())
    }
}

impl<S> Connection<S> {
    pub(super) fn new(socket: S, listener: u16, peer: Peer) -> Self {
        Self {
            line: Line {
                socket,
                output: None,
                opened: false,
                readable: false,
                ended: false,
                blocked: false,
                turn_asked: false,
            },
            input: Input::default(),
            machine: Machine::new(),
            state: State::Reading(Reading::default()),
            serial: 0,
            requests: 0,
            in_a_row: 0,
            listener,
            remote: Remote::new(peer),
        }
    }

    /// Changes over to another state.
    #[inline]
    pub(super) fn enter(&mut self, state: State) {
        // On the way of most requests no state owns anything, which is seen sooner than it is dropped.
        let owns_nothing = match &self.state {
            State::Reading(reading) => reading.request.is_none(),
            State::Answering(answering) => {
                answering.early.is_none() && matches!(answering.answer.custody, Custody::Lent | Custody::Returned(None))
            }
            State::Flushing(_) | State::Lingering => true,
            State::Queued(_) | State::Carrying(_) => false,
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

    /// Whether no request has begun, so that the connection may be closed for want of one.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Reading(Reading { request: None, .. })) && !self.input.has_unread()
    }

    /// The carrier, of a connection in that state.
    #[inline]
    pub(super) fn carrier(&mut self) -> Option<&mut Carrier> {
        if let State::Carrying(carrier) = &mut self.state { Some(carrier) } else { None }
    }

    /// What must hold whenever the engine is done with a connection; for debug builds.
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
            State::Queued(_) => assert!(machine.request_complete(), "what is queued is complete"),
            State::Answering(answering) => {
                assert!(!answering.answer.finished || answering.answer.is_lent(), "a finished answer waits only for its host");
                assert!(!answering.answer.is_lent() || !self.input.has_unread(), "the input is out with the exchange");
            }
            State::Flushing(_) => assert!(output.is_some(), "there is something to flush"),
            State::Lingering => assert!(output.is_none(), "nothing is sent behind the end"),
            State::Carrying(_) => assert!(self.input.head.is_none(), "heads of streams stand elsewhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;
    use oribi_io::Epoll;

    #[test]
    fn an_idle_connection_is_small() {
        type Socket = <Epoll as oribi_io::Backend>::Socket;
        // Beside it stand a deadline's link (24 bytes) and a place's generation (8). Of libevent's, a connection needs some 200.
        assert!(size_of::<Connection<Socket>>() + 32 <= 304, "{} bytes", size_of::<Connection<Socket>>());
    }
}
