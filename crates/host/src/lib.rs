//! What a language runtime sees of Oribi: a request, and a reply.
//!
//! A *host* answers exchanges. It knows no protocol and no socket: it is given a complete [`Request`] and a [`Reply`], and
//! speaks to the server through the [`Outlet`] behind the reply. Everything a new language needs is in this crate.
#![forbid(unsafe_code)]

mod crew;
pub mod environment;
mod gateway;
mod native;
mod reply;
mod request;

pub use crew::{Crew, Turn};
pub use gateway::Gateway;
pub use native::Native;
pub use reply::{BodyWriter, ExchangeId, Outlet, Piece, Reply, ReplyError};
pub use request::{Content, Endpoint, Request};

use std::io;
use std::time::Duration;

/// A language runtime with a loaded app: one for each process, shared by its lanes.
pub trait Runtime: Sync {
    /// Makes a context for a lane. With `own`, the lane gets one of its own that shares no state with another (a cloned
    /// interpreter); without, it is the only lane and may use what the runtime loaded.
    ///
    /// The server calls this from one thread at a time, and not always from the thread that will use the context.
    ///
    /// # Errors
    /// What went wrong, in words for the log.
    fn open(&self, own: bool) -> Result<Box<dyn Host>, String>;

    /// Copies the process in the way that the language wants it done: 0 in the child, the child's process id in the parent.
    /// `None`: fork(2) is good enough.
    fn fork(&self) -> Option<io::Result<u32>> {
        None
    }

    /// Whether the threads of a worker are the runtime's own and share a lane: see [`Runtime::work`].
    fn shares_lane(&self) -> bool {
        false
    }

    /// Has between `least` and `most` threads take turns at `crew` until that ends. Called once in a worker, on the thread
    /// that loaded the app, with the runtime's lock held.
    fn work(&self, crew: &dyn Crew, least: usize, most: usize) {
        let _ = (crew, least, most);
    }

    /// Called with the lock held, in the middle of an answer, when that cannot go on: lets go of the lock until
    /// [`Crew::wait`], here or in another thread, has found something, but no longer than `timeout`. `false`: the app is to be
    /// interrupted.
    fn pause(&self, timeout: Option<Duration>) -> bool {
        let _ = timeout;
        false
    }

    /// Called with the lock held: there is something to do, and the calling thread, which runs an app or is about to, may take no
    /// turn soon. Another one should.
    fn summon(&self) {}

    /// Called with the lock held: ends every [`Runtime::pause`], for what one of them waits for has happened.
    fn resume(&self) {}

    /// Runs in the process that loaded the app, just before it forks worker number `worker` (counted from 1).
    fn before_fork(&self, worker: usize) {
        let _ = worker;
    }

    /// Looks, in the process that forks the workers, whether ones that are forked now could serve: all are about to be replaced by
    /// such as load the app anew.
    ///
    /// # Errors
    /// What is wrong, in words for the log; then the present workers stay.
    fn may_replace_workers(&self) -> Result<(), String> {
        Ok(())
    }

    /// Runs in a new worker before its first lane opens a context.
    fn worker_started(&self, worker: usize) {
        let _ = worker;
    }

    /// Runs in a worker that has answered its last request, before the process ends.
    fn worker_stopping(&self, worker: usize) {
        let _ = worker;
    }

    /// Runs in a worker when everything of the server's has been let go of: ends the process as programs of the language end,
    /// with what the app wants done then (handlers, finalizers, buffers to be written). Called once, on the thread that loaded the
    /// app, and never in a process that the app has forked. It need not return; when it does, the process ends at once. The
    /// server kills the process if this takes longer than a graceful stop may.
    fn end(&self, status: i32) {
        let _ = status;
    }

    /// Gives the process a title in lists of processes, in the way that the language has for it. `false`: the process is the
    /// server's own program, which then does it.
    fn set_title(&self, title: &str) -> bool {
        let _ = title;
        false
    }

    /// Runs in the process that forks the workers once the listeners accept connections.
    fn server_ready(&self) {}
}

/// A context that answers exchanges, one at a time. It moves between threads only between [`Host::leave`] and
/// [`Host::enter`].
pub trait Host: Send {
    /// The calling thread uses this context from now on.
    fn enter(&mut self) {}

    /// Called behind [`Host::enter`]: until [`Host::leave`] this is the outlet of all exchanges, and it stays where it is. Its
    /// [`Outlet::waker`] has [`Host::attend`] called.
    fn begin(&mut self, outlet: &dyn Outlet) {
        let _ = outlet;
    }

    /// Called on the lane's thread, between two exchanges, when the lane was woken by its [`Outlet::waker`] or because of
    /// [`Outlet::watch`] or [`Outlet::wake_after`]. The app may see to its signals and timers, and answer exchanges that it has
    /// kept.
    fn attend(&mut self) -> After {
        After::default()
    }

    /// Answers one exchange, now or later: a reply that is dropped unfinished is answered 500 or cut off.
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After;

    /// Whether every answer comes at once and nothing is done behind it, so that it may leave together with the answers to the
    /// next requests. An app may take its time, before and after it has answered.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Runs what the app wanted done once the response has left; called when [`After::deferred`] was set.
    fn run_deferred(&mut self) -> After {
        After::default()
    }

    /// The calling thread stops using this context.
    fn leave(&mut self) {}
}

/// What a host wants to happen after it has answered an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Call [`Host::run_deferred`] as soon as the response has been sent.
    pub deferred: bool,
    /// This context must answer nothing more: replace it (and the process, where it is the process's only one).
    pub retire: bool,
}
