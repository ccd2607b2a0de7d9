//! The engine's interface for an edge, which drives both an engine and a pool.

use super::answer::Lost;
use super::connection::State;
use super::name::{ExchangeIndex, Name};
use super::stream::Stream;
use super::{Engine, Exchange};
use oribi_host::ExchangeId;
use oribi_io::Backend;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

impl<B: Backend> Engine<'_, B> {
    /// Returns the next complete request among the events that the backend has already reported.
    pub fn next_at_hand(&mut self) -> Option<Exchange> {
        loop {
            if self.run_queue.ready.is_empty() {
                self.send_batch();
                self.receive_batch();
            }
            if let Some(place) = self.run_queue.ready.pop_front() {
                if let Some(exchange) = self.lend(place) {
                    return Some(exchange);
                }
            } else if !self.handle_event() {
                return None;
            }
        }
    }

    /// Waits once until the engine has something to do, but at most for `most` (`None`: without this limit).
    ///
    /// # Errors
    /// The backend can no longer wait.
    pub fn wait_at_most(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.send_batch();
        // The sent bytes may have been the last work of this engine.
        let idle = self.run_queue.ready.is_empty()
            && self.run_queue.turns.is_empty()
            && self.run_queue.handled == self.run_queue.events.len()
            && !self.finished();
        let timeout = if idle { self.time_left_within(most) } else { Some(Duration::ZERO) };
        self.look(timeout)
    }

    /// Whether to check [`Engine::take_wake`] and [`Engine::finished`].
    #[must_use]
    pub fn is_woken_or_finished(&self) -> bool {
        self.woken || self.finished()
    }

    /// The time on the backend's clock, as of the last wait or answer.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.backend.now()
    }

    /// The time since 1970.
    #[must_use]
    pub fn wall_clock(&self) -> Duration {
        self.backend.wall_clock()
    }

    /// Also ends waits when `doorbell`, an eventfd, is written to. There may be several.
    ///
    /// # Errors
    /// The backend cannot watch the doorbell.
    pub fn watch_news(&mut self, doorbell: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.watch_doorbell(doorbell)
    }

    /// From now on keeps a list of exchanges whose clients disconnect before the answer: see [`Engine::take_lost`].
    pub fn note_lost_exchanges(&mut self) {
        self.observing.lost.get_or_insert_default();
    }

    /// Returns an exchange whose client disconnected before the answer, or whose response was cut off. The caller then passes
    /// it to [`Engine::conclude_lost`].
    #[inline]
    pub fn take_lost(&mut self) -> Option<Lost> {
        self.observing.lost.as_mut()?.pop()
    }

    /// The number of the connection of an exchange, if that connection also carries others.
    #[inline]
    #[must_use]
    pub fn carrier_of(&self, exchange: ExchangeId) -> Option<u32> {
        match Name::from(exchange).place {
            ExchangeIndex::Connection(_) => None,
            ExchangeIndex::Stream(number) => self.streams.get(number).map(|stream| stream.connection),
        }
    }

    /// The address of this end of the connection of an exchange, for which the system is asked. `None` for a Unix socket, and if
    /// the connection has ended.
    #[must_use]
    pub fn local_address(&self, exchange: ExchangeId) -> Option<SocketAddr> {
        let index = match Name::from(exchange).place {
            ExchangeIndex::Connection(index) => index,
            ExchangeIndex::Stream(number) => self.streams.get(number)?.connection,
        };
        self.backend.local_address(&self.connections.get(index)?.line.socket)
    }

    /// Whether the client has ended its side of the connection, or the connection has ended. A client that has only ended its
    /// side may still wait for its answer.
    #[must_use]
    pub fn client_has_ended(&self, exchange: ExchangeId) -> bool {
        let Name { place, serial } = exchange.into();
        let index = match place {
            ExchangeIndex::Connection(index) => index,
            ExchangeIndex::Stream(number) => {
                let stream = self.streams.get(number).filter(|stream| stream.serial == serial);
                let Some(index) = stream.and_then(Stream::unfinished_on) else { return true };
                index
            }
        };
        self.connections.get(index).is_none_or(|connection| connection.line.ended)
    }

    /// Ends the connection of an exchange of HTTP/1, without sending anything. An exchange of HTTP/2 or FastCGI is abandoned,
    /// because its connection may carry others.
    pub fn hang_up(&mut self, exchange: ExchangeId) {
        let Name { place, serial } = exchange.into();
        match place {
            ExchangeIndex::Connection(index) => {
                let connection = self.connections.get(index).filter(|connection| connection.serial == serial);
                if connection.is_some_and(|connection| matches!(connection.state, State::Answering(_))) {
                    self.drop_connection(index);
                }
            }
            ExchangeIndex::Stream(_) => self.abandon(exchange),
        }
    }
}
