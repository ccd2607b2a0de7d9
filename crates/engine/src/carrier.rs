//! The data of a connection that carries several exchanges at once.

use oribi_proto::{fcgi, h2};
use std::collections::VecDeque;

/// The machine of the connection.
#[derive(Debug)]
pub(super) enum Multiplexer {
    /// A web server's connection.
    FastCgi(fcgi::Machine),
    /// The connection of a client that speaks HTTP/2.
    Http2(Box<h2::Machine>),
}

/// The data of a connection that carries several exchanges.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) multiplexer: Multiplexer,
    /// The unfinished requests: id and number of the stream, ordered by id.
    pub(super) streams: VecDeque<(u32, u32)>,
    /// Whether the content of some stream is withheld until others are complete: see [`super::uploads`].
    pub(super) withholds: bool,
}

impl Carrier {
    /// The carrier for a web server that speaks FastCGI.
    pub(super) fn of_web_server() -> Self {
        Self { multiplexer: Multiplexer::FastCgi(fcgi::Machine::default()), streams: VecDeque::new(), withholds: false }
    }

    /// The carrier for a client that speaks HTTP/2.
    pub(super) fn of_client(limits: &h2::Limits) -> Self {
        Self { multiplexer: Multiplexer::Http2(Box::new(h2::Machine::new(limits))), streams: VecDeque::new(), withholds: false }
    }

    /// The machine, if the peer speaks FastCGI.
    #[inline]
    pub(super) fn fastcgi(&mut self) -> Option<&mut fcgi::Machine> {
        if let Multiplexer::FastCgi(machine) = &mut self.multiplexer { Some(machine) } else { None }
    }

    /// The machine, if the peer speaks HTTP/2.
    #[inline]
    pub(super) fn http2(&mut self) -> Option<&mut h2::Machine> {
        if let Multiplexer::Http2(machine) = &mut self.multiplexer { Some(machine) } else { None }
    }

    /// Whether the peer speaks HTTP/2.
    #[inline]
    pub(super) const fn speaks_http2(&self) -> bool {
        matches!(self.multiplexer, Multiplexer::Http2(_))
    }

    /// Whether no message is partly received.
    pub(super) fn is_between_messages(&self) -> bool {
        match &self.multiplexer {
            Multiplexer::FastCgi(machine) => machine.between_records(),
            Multiplexer::Http2(machine) => machine.between_frames(),
        }
    }

    /// Whether the connection ends when all pending output has been sent.
    pub(super) fn must_close(&self) -> bool {
        match &self.multiplexer {
            Multiplexer::FastCgi(machine) => machine.must_close(),
            Multiplexer::Http2(machine) => machine.must_close(),
        }
    }

    /// Whether the peer may still be sending bytes that change nothing: the rest of a refused request, or window updates for
    /// answers that the client is reading.
    pub(super) fn peer_sends_on(&self) -> bool {
        match &self.multiplexer {
            Multiplexer::FastCgi(machine) => machine.sends_on(),
            Multiplexer::Http2(machine) => !machine.has_delivered(),
        }
    }

    /// The number of requests that the connection carries.
    pub(super) fn carries(&self) -> usize {
        self.streams.len()
    }

    #[inline]
    pub(super) fn number(&self, id: u32) -> Option<u32> {
        Some(self.streams[self.place(id)?].1)
    }

    pub(super) fn add(&mut self, id: u32, number: u32) {
        // Stream ids of HTTP/2 only increase.
        if self.streams.back().is_none_or(|(last, _)| *last < id) {
            return self.streams.push_back((id, number));
        }
        if let Err(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.insert(position, (id, number));
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        if let Some(position) = self.place(id) {
            self.streams.remove(position);
        }
    }

    /// The position of a request in `streams`. Usually the request is the oldest.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        if self.streams.front().is_some_and(|(first, _)| *first == id) {
            return Some(0);
        }
        self.streams.binary_search_by_key(&id, |&(id, _)| id).ok()
    }
}
