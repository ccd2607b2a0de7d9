//! The control socket: `oribi ctl` queries and controls the server here.
//!
//! The control socket belongs to the first process, which serves it in its own event loop. No call here blocks: every client
//! has its own deadline, a request is one short line, and the answer waits in memory until the client takes it. Only root and
//! the user of the first process are authorized.

mod backtraces;
mod clients;
mod liveness;
mod place;
mod readiness;
mod report;
mod requests;
mod socket;
mod steering;
#[cfg(test)]
mod tests;

pub use place::{Found, find};

pub(crate) use clients::Caller;
pub use readiness::ReadinessProgress;
pub(crate) use report::counters;
pub use report::{ProcessReport, Report};
pub use requests::{About, MOST as MOST_REQUESTS};
pub use steering::{Progress, Steered, say_end, say_replaced, steer};

use backtraces::Backtraces;
use clients::Clients;
use oribi_config::directory::masked_path;
use oribi_config::{ControlChoice, Settings};
use rustix::event::{PollFd, PollFlags};
use socket::{ControlSocket, ReplacePolicy};
use std::time::{Duration, Instant};

/// The control socket of this process, and its clients.
#[derive(Debug)]
pub struct Control {
    socket: ControlSocket,
    clients: Clients,
    /// The clients that wait for the end of an operation, and that operation.
    waiting: Vec<(Caller, steering::Awaited)>,
    backtraces: Backtraces,
}

impl Control {
    /// Opens the socket according to `settings`. Returns `None` if it is off, or if the default socket cannot be created.
    /// `lent`: whether the listeners are lent. Then this server may follow another server, whose socket keeps its name until
    /// [`Self::take_name`] is called.
    ///
    /// # Errors
    /// The socket cannot be created at the path of the settings.
    pub fn open(settings: &Settings, lent: bool) -> Result<Option<Self>, String> {
        Self::at_place(settings, std::process::id(), if lent { ReplacePolicy::OfOneToFollow } else { ReplacePolicy::Free })
    }

    /// As [`Control::open`], for a server that replaces another one. The socket gets the name of the other server's socket;
    /// `pid` is the process id by which that server is known. At any time the name leads to one of these two sockets.
    ///
    /// # Errors
    /// As for [`Control::open`].
    pub fn take_place(settings: &Settings, pid: u32) -> Result<Option<Self>, String> {
        Self::at_place(settings, pid, ReplacePolicy::OfServerBefore)
    }

    fn at_place(settings: &Settings, pid: u32, place: ReplacePolicy) -> Result<Option<Self>, String> {
        let socket = match &settings.control {
            ControlChoice::Off => return Ok(None),
            ControlChoice::At(path) => {
                ControlSocket::bind(path, place).map_err(|why| format!("--control {}: {why}", masked_path(path)))?
            }
            ControlChoice::Auto => match ControlSocket::bind_in_own_directory(pid, place) {
                Ok(socket) => socket,
                Err(why) => {
                    log::info!("`oribi ctl` cannot reach this server: {why} (see --control)");
                    return Ok(None);
                }
            },
        };
        log::debug!("`oribi ctl` reaches this server at {}", socket.path().display());
        Ok(Some(Self { socket, clients: Clients::default(), waiting: Vec::new(), backtraces: Backtraces::default() }))
    }

    /// Gives the socket its final name, which may have been that of another server's socket, because this server serves from
    /// now on.
    pub fn take_name(&mut self) {
        if let Err(why) = self.socket.take_name() {
            log::error!("`oribi ctl` cannot reach this server: {}: {why}", self.socket.path().display());
        }
    }

    /// Returns the descriptors to wait for.
    pub fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let socket = self.clients.are_welcome().then(|| PollFd::from_borrowed_fd(self.socket.descriptor(), PollFlags::IN));
        socket.into_iter().chain(self.clients.polled())
    }

    /// Returns the longest time that this process may wait; `None` without a limit.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        let of_clients = self.clients.next_deadline().map(|deadline| deadline.saturating_duration_since(now));
        let asks_edges = self.waiting.iter().any(|(_, awaited)| matches!(awaited, steering::Awaited::Readiness { .. }));
        let of_edges = asks_edges.then_some(readiness::LOOKS);
        of_clients.into_iter().chain(self.backtraces.patience()).chain(of_edges).min()
    }
}
