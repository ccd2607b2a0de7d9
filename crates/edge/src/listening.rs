//! Changes the listeners of a running edge: with a plan come new ones, and those that end follow when their clients have arrived.
//!
//! The engine, the apps and the lane share one list of listeners, in which each connection has an index. A change makes a longer
//! list, or uses an index again that no connection has any more. The old list stays in memory until the edge ends, so that requests
//! do not pay for counting its users: a few hundred bytes for each listener and change, and some 6 kB for a new one with TLS.

use super::EdgeLoop;
use oribi_io::Backend;
use oribi_listen::{Listener, ReceivedListener, ReceivedListeners, received_sockets};
use std::os::fd::OwnedFd;

/// The number of a listener that has ended, or has been replaced.
const NONE: u32 = u32::MAX;

impl<'a, B: Backend> EdgeLoop<'_, 'a, B> {
    /// Returns the listeners that have neither ended nor been replaced, in the order of their numbers.
    pub(super) fn present_listeners(&self) -> Vec<&'a Listener> {
        let mut present: Vec<&Listener> = self.listeners.iter().filter(|listener| listener.id != NONE).collect();
        present.sort_by_key(|listener| listener.id);
        present
    }

    /// Reads a change of listeners, and checks whether this edge can serve by it.
    pub(super) fn read_listeners(&self, descriptors: Vec<OwnedFd>) -> Result<ReceivedListeners, String> {
        let received = ReceivedListeners::read(descriptors, self.applying.shard, self.listeners)?;
        for ReceivedListener { listener, .. } in &received.added {
            if let Some(server) = &listener.tls {
                server.check_rules(self.settings.http2).map_err(|why| format!("{}: {why}", listener.display))?;
            }
        }
        Ok(received)
    }

    /// Accepts at new listeners, and no longer at those that they replace.
    pub(super) fn change_listeners(&mut self, ReceivedListeners { left, added }: ReceivedListeners) {
        let mut listeners: Vec<Listener> = self.listeners.iter().map(Listener::description).collect();
        let left: Vec<usize> = left.iter().filter_map(|number| index_of(&listeners, *number)).collect();
        left.iter().for_each(|index| listeners[*index].id = NONE);
        let mut sockets = Vec::new();
        for ReceivedListener { listener, sockets: own, count } in added {
            let unused =
                |index: &usize| listeners[*index].id == NONE && !left.contains(index) && self.lane.source().is_unused(*index);
            let index = (0..listeners.len()).find(unused).unwrap_or(listeners.len());
            if index == listeners.len() {
                listeners.push(listener);
            } else {
                listeners[index] = listener;
            }
            sockets.extend(received_sockets(index, own, count, self.applying.shard));
        }
        let listeners: &'a [Listener] = Vec::leak(listeners);
        self.listeners = listeners;
        self.apps.iter_mut().for_each(|app| app.use_listeners(listeners));
        let mut engine = self.lane.source();
        engine.change_listeners(listeners, sockets, &left);
        engine.accept_ahead(true);
    }

    /// Ends a listener.
    pub(super) fn end_listener(&mut self, number: u32) {
        let Some(index) = index_of(self.listeners, number) else { return };
        self.lane.source().end_listeners(&[index]);
        let mut listeners: Vec<Listener> = self.listeners.iter().map(Listener::description).collect();
        listeners[index].id = NONE;
        // Only this loop asks for numbers.
        self.listeners = Vec::leak(listeners);
    }
}

fn index_of(listeners: &[Listener], number: u32) -> Option<usize> {
    listeners.iter().position(|listener| listener.id == number)
}
