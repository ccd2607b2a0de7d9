//! Changes the listeners of a server with edges while it serves: see `apps/applying.rs`.
//!
//! A listener whose address is gone turns new connections away at once. The edges accept from it until the handshakes in progress
//! are complete, as when a server stops; then they close it.

use super::super::closing::Closing;
use super::super::notify;
use super::super::watched_files::WatchedFiles;
use super::Server;
use oribi_config::Settings;
use oribi_listen::{AddressPlan, ListenChange, Listener};
use std::time::{Duration, Instant};

/// Listeners whose addresses are gone.
#[derive(Debug)]
pub(super) struct LeavingListeners {
    listeners: Vec<Listener>,
    closing: Closing,
}

impl Server<'_> {
    /// Opens the addresses of a plan. Nothing serves there yet.
    ///
    /// # Errors
    /// An address cannot be opened, or a file cannot be used; the message says which, and why. Then nothing has changed.
    pub(in super::super) fn open_addresses(&self, plan: AddressPlan, after: &Settings) -> Result<ListenChange, String> {
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.listeners);
        let next = self.listeners.iter().chain(leaving).map(|listener| listener.id + 1).max();
        let change = plan.open(after, &self.listeners, next.unwrap_or_default())?;
        match self.privileges.hand_over_sockets(change.opened()) {
            Ok(()) => Ok(change),
            Err(why) => {
                change.abandon();
                Err(why)
            }
        }
    }

    /// Uses the listeners of a change, at which the edges accept from now on.
    pub(in super::super) fn use_addresses(&mut self, change: ListenChange) {
        let mut ended = change.commit(&mut self.listeners, notify::forget_listener);
        self.notifier.store(&mut self.listeners, self.settings);
        self.certificates = WatchedFiles::of_listeners(&self.listeners, Instant::now());
        if !ended.is_empty() {
            let mut closing = Closing::default();
            closing.begin(&mut ended);
            self.leaving.push(LeavingListeners { listeners: ended, closing });
        }
    }

    /// Makes the edges close the listeners whose addresses are gone, when all their clients have arrived.
    pub(in super::super) fn end_leaving_listeners(&mut self) {
        let Self { leaving, edges, .. } = self;
        leaving.retain_mut(|LeavingListeners { listeners, closing }| {
            if !closing.have_all_arrived(listeners) {
                return true;
            }
            for listener in listeners {
                edges.iter().for_each(|edges| edges.end_listener(listener.id));
                log::info!("{} is no address of this server any more", listener.display);
            }
            false
        });
    }

    /// Returns the time until the next look at listeners whose addresses are gone.
    pub(in super::super) fn next_look_at_leaving(&self, now: Instant) -> Option<Duration> {
        let looks = self.leaving.iter().filter_map(|leaving| leaving.closing.next_look());
        looks.map(|look| look.saturating_duration_since(now)).min()
    }

    /// Returns all listeners, also those whose addresses are gone. None is left.
    pub(in super::super) fn take_listeners(&mut self) -> Vec<Listener> {
        let leaving = self.leaving.drain(..).flat_map(|leaving| leaving.listeners);
        self.listeners.drain(..).chain(leaving).collect()
    }
}
