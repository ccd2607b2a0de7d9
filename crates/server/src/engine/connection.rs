//! One connection: a socket, a machine, and how far the present exchange has come.

use super::content::StoredContent;
use super::fastcgi::Carrier;
use super::input::Input;
use super::moment::Moment;
use super::output::Output;
use super::record::Draft;
use oribi_io::Peer;
use oribi_proto::h1::Machine;
use std::io::Write;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a request or reads one.
    Reading,
    /// A complete request waits for a lane to take it.
    Queued,
    /// A host has the request; the response is not finished.
    Answering,
    /// The response is finished and waits for the socket; then comes the next request, or the end.
    Flushing,
    /// The response is sent and the sending side is ended; what the client still sends is thrown away.
    Lingering,
    /// It carries the exchanges of a web server, each with a phase of its own: see [`super::fastcgi`].
    Carrying,
}

/// What becomes of a connection once its response has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The next request may come.
    Reuse,
    /// It ends in an orderly way.
    Close,
}

/// One connection. Idle, it owns no memory but this, and every byte of it counts (see the test).
#[derive(Debug)]
pub(super) struct Connection<S> {
    pub(super) socket: S,
    /// The backend reports its news.
    pub(super) opened: bool,
    pub(super) machine: Machine,
    pub(super) phase: Phase,
    /// What happens after the response; set when it is finished.
    pub(super) fate: Option<Fate>,
    /// The number of the present exchange; ids that carry another one are out of date.
    pub(super) serial: u32,
    /// The exchange, and with it the input buffer, is out with a lane.
    pub(super) lent: bool,
    /// Input was received before its event is handled: see [`super::ahead`].
    pub(super) ahead: bool,
    /// Its response waits for others to leave with: see [`super::held`].
    pub(super) held: bool,
    /// More requests stand in the input buffer: hold responses back to send several with one call.
    pub(super) pipelined: bool,
    /// Pipelined requests answered in this turn.
    pub(super) in_a_row: u16,
    /// A receive is worth trying.
    pub(super) readable: bool,
    /// It stands in the queue for a turn without an event.
    pub(super) turn_asked: bool,
    /// It has unread input that is not looked at before its turn.
    pub(super) yielded: bool,
    /// The peer has ended its side.
    pub(super) ended: bool,
    /// A send found the socket full.
    pub(super) blocked: bool,
    /// A host has a descriptor of the socket.
    pub(super) taken: bool,
    /// The client may still be sending what nobody will read.
    pub(super) linger: bool,
    pub(super) listener: u16,
    pub(super) requests: u32,
    pub(super) status: u16,
    /// Content bytes of the present response.
    pub(super) sent: u64,
    /// Content bytes of the present request still to come, when its size is known.
    pub(super) content_left: u64,
    /// When the present request was complete.
    pub(super) complete_at: Moment,
    pub(super) input: Input,
    pub(super) content: StoredContent,
    pub(super) output: Option<Box<Output>>,
    pub(super) remote: Remote,
    /// What the log will need of a request that is answered later.
    pub(super) draft: Option<Box<Draft>>,
    /// The exchanges that it carries, in that phase.
    pub(super) carrier: Option<Box<Carrier>>,
}

impl<S> Connection<S> {
    pub(super) fn new(socket: S, listener: u16, peer: Peer) -> Self {
        Self {
            socket,
            opened: false,
            machine: Machine::new(),
            phase: Phase::Reading,
            fate: None,
            serial: 0,
            lent: false,
            ahead: false,
            held: false,
            pipelined: false,
            in_a_row: 0,
            readable: false,
            turn_asked: false,
            yielded: false,
            ended: false,
            blocked: false,
            taken: false,
            linger: false,
            listener,
            requests: 0,
            status: 0,
            sent: 0,
            content_left: 0,
            complete_at: Moment::ZERO,
            input: Input::default(),
            content: StoredContent::None,
            output: None,
            remote: Remote::new(peer),
            draft: None,
            carrier: None,
        }
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub(super) fn output_is_empty(&self) -> bool {
        self.output.as_ref().is_none_or(|output| output.is_empty())
    }

    /// The queue of what waits to be sent.
    pub(super) fn output(&mut self) -> &mut Output {
        self.output.get_or_insert_default()
    }
}

/// An IPv6 address has up to 39; what a web server gives may name a zone.
const LONGEST_ADDRESS: usize = 41;
const LONGEST_PORT: usize = 5;
const TEXT_BYTES: usize = LONGEST_ADDRESS + LONGEST_PORT;

/// The other end of a connection in text, rendered once for all its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    text: [u8; TEXT_BYTES],
    address: u8,
    end: u8,
}

impl Default for Remote {
    fn default() -> Self {
        Self { text: [0; TEXT_BYTES], address: 0, end: 0 }
    }
}

impl Remote {
    fn new(peer: Peer) -> Self {
        let mut text = [0; TEXT_BYTES];
        let mut rest = &mut text[..];
        // Neither write can fail: the text has room for every address.
        let (address, end) = match peer {
            Peer::Internet(socket) => {
                let _ = match socket.ip().to_canonical() {
                    std::net::IpAddr::V4(address) => write!(rest, "{address}"),
                    std::net::IpAddr::V6(address) => write!(rest, "{address}"),
                };
                let address = TEXT_BYTES - rest.len();
                let _ = write!(rest, "{}", socket.port());
                (address, TEXT_BYTES - rest.len())
            }
            // What servers of this field say for the peer of a Unix socket.
            Peer::Local => {
                let _ = write!(rest, "0");
                (0, 1)
            }
        };
        Self { text, address: address as u8, end: end as u8 }
    }

    /// As a web server gives it; what would be too long for an address is cut off.
    pub(super) fn given(address: &[u8], port: &[u8]) -> Self {
        let mut text = [0; TEXT_BYTES];
        let bytes = address.iter().take(LONGEST_ADDRESS).chain(port.iter().take(LONGEST_PORT));
        text.iter_mut().zip(bytes).for_each(|(place, &byte)| *place = byte);
        let end = address.len().min(LONGEST_ADDRESS) + port.len().min(LONGEST_PORT);
        Self { text, address: address.len().min(LONGEST_ADDRESS) as u8, end: end as u8 }
    }

    #[inline]
    pub(super) fn address(&self) -> &[u8] {
        &self.text[..self.address as usize]
    }

    #[inline]
    pub(super) fn port(&self) -> &[u8] {
        &self.text[self.address as usize..self.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, Remote};
    use oribi_io::{Epoll, Peer};

    #[test]
    fn an_idle_connection_is_small() {
        type Socket = <Epoll as oribi_io::Backend>::Socket;
        // Beside it stand a deadline's link (24 bytes) and a place's generation (8). Of libevent's, a connection needs some 200.
        assert!(size_of::<Connection<Socket>>() + 32 <= 304, "{} bytes", size_of::<Connection<Socket>>());
    }

    #[test]
    fn the_longest_address_fits() {
        let peer = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().map(Peer::Internet);
        let remote = Remote::new(peer.unwrap_or(Peer::Local));
        assert_eq!((remote.address(), remote.port()), (&b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"[..], &b"65535"[..]));
        let peer = "[::ffff:127.0.0.1]:80".parse().map(Peer::Internet);
        let remote = Remote::new(peer.unwrap_or(Peer::Local));
        assert_eq!((remote.address(), remote.port()), (&b"127.0.0.1"[..], &b"80"[..]));
        let remote = Remote::new(Peer::Local);
        assert_eq!((remote.address(), remote.port()), (&b""[..], &b"0"[..]));
    }
}
