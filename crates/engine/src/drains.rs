//! Reports when all output to the client of a connection that stays open has been sent.

use super::Engine;
use super::name::{ExchangeIndex, Name};
use super::websocket::SocketEvent;
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_live::event::EventKind;
use std::collections::HashMap;

/// The exchanges whose output is waited for, by the numbers of their connections, each with the name of its connection.
pub(super) type Drains = HashMap<u32, Vec<(ExchangeId, u64)>>;

impl<B: Backend> Engine<'_, B> {
    /// Reports by an event of `connection` when all output to the client of an exchange has been sent. `false`: nothing waits, and
    /// there is no event.
    pub fn await_drain(&mut self, exchange: ExchangeId, connection: u64) -> bool {
        let Some(index) = self.has_output(exchange) else { return false };
        let mut awaited = self.sockets.drains.remove(&index).unwrap_or_default();
        // Connections that have ended leave their exchanges here.
        awaited.retain(|(known, _)| *known != exchange && self.has_output(*known).is_some());
        awaited.push((exchange, connection));
        self.sockets.drains.insert(index, awaited);
        true
    }

    /// The number of the connection of an exchange for whose client output waits.
    fn has_output(&self, exchange: ExchangeId) -> Option<u32> {
        let Name { place, serial } = exchange.into();
        let (index, waits) = match place {
            ExchangeIndex::Connection(index) => {
                self.connections.get(index).filter(|connection| connection.serial == serial)?;
                (index, false)
            }
            ExchangeIndex::Stream(number) => {
                let stream = self.streams.get(number).filter(|stream| stream.serial == serial)?;
                (stream.connection, stream.waits())
            }
        };
        (waits || self.connections.get(index)?.line.output.is_some()).then_some(index)
    }

    /// Reports, after the output of a connection was sent, the exchanges of which nothing waits any longer.
    #[cold]
    #[inline(never)]
    pub(super) fn report_drains(&mut self, index: u32) {
        let Some(mut awaited) = self.sockets.drains.remove(&index) else { return };
        awaited.retain(|(exchange, connection)| {
            let waits = self.has_output(*exchange).is_some();
            if !waits {
                let (kind, payload) = (EventKind::Drained, Vec::new());
                self.sockets.events.push_back(SocketEvent { connection: *connection, kind, payload });
            }
            waits
        });
        if !awaited.is_empty() {
            self.sockets.drains.insert(index, awaited);
        }
    }
}
