//! Reads the PROXY header, which a proxy on the level of TCP sends before the bytes of its client.
//!
//! The header is read once, before everything else on a connection. Bytes after the header are the client's, and stay in the
//! buffer. Even on an encrypted connection, the header arrives in clear text: the handshake follows it.
//!
//! A connection of a listener that wanted a header needs one also if the next server wants none there: its proxy has perhaps sent a
//! part of it, and a header that is optional would let the client choose its address.

use super::Engine;
use super::connection::{Connection, Reading, State};
use super::receive::RECEIVES_PER_TURN;
use super::remote::Remote;
use super::send::Still;
use oribi_config::ProxyProtocol;
use oribi_io::{Attempt, Backend, Peer};
use oribi_proto::proxy_protocol::{Client, Step, Versions, read};
use oribi_stats::totals::Counter;

impl<B: Backend> Engine<'_, B> {
    /// Makes a new connection wait for its PROXY header.
    pub(super) fn await_greeting(&mut self, index: u32) {
        self.connections[index].state = State::Greeting;
    }

    /// Receives until the PROXY header is complete, and continues with the bytes after it.
    pub(super) fn receive_greeting(&mut self, index: u32) -> Still {
        for _ in 0..RECEIVES_PER_TURN {
            let connection = &mut self.connections[index];
            if !matches!(connection.state, State::Greeting) || !connection.line.readable {
                break;
            }
            match self.receive_messages(index, self.limits.http.head_bytes) {
                Attempt::Done(_) if self.read_greeting(index) == Still::Open => {}
                Attempt::Later => {}
                _ => return Still::Gone,
            }
        }
        let connection = &self.connections[index];
        if connection.is_reading() {
            // The rest is read as on every other connection.
            return self.receive(index);
        }
        if matches!(connection.state, State::Greeting) && connection.line.readable {
            self.ask_for_turn(index);
        }
        Still::Open
    }

    /// Reads the header from the received bytes, and then the request after the header.
    #[inline(never)]
    pub(super) fn read_greeting(&mut self, index: u32) -> Still {
        let Connection { input, listener, remote, .. } = &mut self.connections[index];
        let versions = match self.listeners[usize::from(*listener)].proxy_protocol {
            ProxyProtocol::Required(versions) => versions,
            ProxyProtocol::Off => Versions::Both,
        };
        match read(input.unread(), versions) {
            Step::NeedInput => Still::Open,
            Step::Header { consumed, client } => {
                input.consume(consumed);
                if let Client::Address(client) = client {
                    *remote = Remote::new(Peer::Internet(client));
                }
                let remote = *remote;
                let forwarding = match client {
                    // The sender of the following bytes is unknown, so it is not trusted.
                    Client::Unknown => self.settings.proxies.of_strangers(),
                    Client::Address(_) | Client::Proxy => self.forwarding_of(&remote),
                };
                let connection = &mut self.connections[index];
                connection.forwarding = forwarding;
                connection.enter(State::Reading(Reading::default()));
                let Connection { line, input, .. } = connection;
                if self.backend.encrypt(&mut line.socket, input.unread()) {
                    input.consume(input.unread().len());
                    // The server's part of the handshake is sent with the next receive.
                    line.readable = true;
                }
                if connection.input.has_unread() {
                    return self.parse(index);
                }
                connection.input.release(&mut self.memory.inputs);
                Still::Open
            }
            Step::Refused(why) => {
                let name = String::from_utf8_lossy(remote.address()).into_owned();
                let name = if name.is_empty() { "a local peer" } else { &name };
                log::warn!("closed a connection of {name}: {why} (proxy_protocol of this listener)");
                self.tally.count(Counter::ConnectionsRefused);
                self.drop_connection(index);
                Still::Gone
            }
        }
    }

    /// Whether a peer may name its client in a PROXY header. Only trusted proxies may; if no trusted proxies are configured,
    /// every peer may.
    pub(super) fn may_greet(&self, peer: Peer) -> bool {
        let proxies = &self.settings.proxies;
        let may = match peer {
            _ if proxies.trusted.is_empty() => true,
            Peer::Internet(address) => proxies.trust(Some(address.ip().to_canonical())),
            Peer::Local => proxies.trust(None),
        };
        if !may {
            let name = match peer {
                Peer::Internet(address) => address.to_string(),
                Peer::Local => "a local peer".to_owned(),
            };
            log::warn!("refused {name}: this listener is for proxies, and the peer is not in --trusted-proxies");
        }
        may
    }
}
