//! The interface between the server and a language runtime: a request, and a reply.
//!
//! A *host* answers exchanges. It knows no protocol and no socket: it gets a complete [`Request`] and a [`Reply`], and calls
//! the server through the [`Outlet`] behind the reply. Everything a new language needs is in this crate.
#![forbid(unsafe_code)]

mod content;
mod crew;
pub mod environment;
mod exchange_id;
mod gateway;
mod interruption;
mod native;
mod reply;
mod request;
mod tracing;

pub use content::Content;
pub use crew::{Crew, GlobalLock, Wait};
pub use exchange_id::ExchangeId;
pub use gateway::Gateway;
pub use interruption::{Interruption, Order};
pub use native::Native;
pub use reply::{BodyWriter, Outlet, Piece, Reply, ReplyError};
pub use request::{Endpoint, Request, port_of};
pub use tracing::Tracing;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A language runtime with a loaded app: one for each process, shared by its lanes.
pub trait Runtime: Sync {
    /// Makes a context for a lane. With `own`, the context shares no state with any other (a cloned interpreter). Without
    /// `own`, the lane is the only one of its process, and its context may use the state that the runtime has loaded.
    ///
    /// The server calls this from one thread at a time, which need not be the thread that will use the context.
    ///
    /// # Errors
    /// A message for the log.
    fn open(&self, own: bool) -> Result<Box<dyn Host>, String>;

    /// Forks the process in the way of the language: returns 0 in the child, the child's process id in the parent. `None` if
    /// a plain fork(2) is enough.
    fn fork(&self) -> Option<io::Result<u32>> {
        None
    }

    /// The lock of a language whose threads share a single lock. The lock is held whenever the server calls the host and
    /// whenever the host uses an outlet; the threads of a worker are the language's own and share a lane. `None` if the
    /// language has no such lock: each lane then has a thread of its own.
    fn global_lock(&self) -> Option<&dyn GlobalLock> {
        None
    }

    /// Called in the process that loaded the app, just before it forks worker number `worker` (counted from 1).
    fn before_fork(&self, worker: usize) {
        let _ = worker;
    }

    /// Called in a new worker before its first lane opens a context.
    fn worker_started(&self, worker: usize) {
        let _ = worker;
    }

    /// Called in a worker that has answered its last request, before the process ends.
    fn worker_stopping(&self, worker: usize) {
        let _ = worker;
    }

    /// Called in a worker when the server has released all of its resources: ends the process as programs of the language
    /// end, with all cleanup of the app (handlers, finalizers, flushed buffers). Called once, on the thread that loaded the
    /// app, and never in a process that the app has forked. It need not return; if it does, the process ends at once. The
    /// server kills the process if this takes longer than a graceful stop may.
    fn end(&self, status: i32) {
        let _ = status;
    }

    /// Sets the title of the process in process lists, in the way of the language. Returns `false` if the server must set the
    /// title itself, because the process is the server's own program. Called on the thread that loaded the app or, where
    /// threads share a lane, on one of them that has the runtime's lock.
    fn set_title(&self, title: &str) -> bool {
        let _ = title;
        false
    }

    /// Returns the interface that requests the positions of a worker's apps; `None` if this language cannot report them.
    fn tracing(&self) -> Option<Arc<dyn Tracing>> {
        None
    }

    /// Called in the process that forks the workers once the listeners accept connections.
    fn server_ready(&self) {}
}

/// A context that answers exchanges, one at a time. It moves between threads only between [`Host::leave`] and
/// [`Host::enter`].
pub trait Host: Send {
    /// Binds this context to the calling thread.
    fn enter(&mut self) {}

    /// Called after [`Host::enter`]. Until [`Host::leave`], `outlet` is the outlet of all exchanges and is not moved. The
    /// outlet's [waker](Outlet::waker) makes the lane call [`Host::attend`].
    fn begin(&mut self, outlet: &dyn Outlet) {
        let _ = outlet;
    }

    /// Called on the lane's thread, between two exchanges, after [`Outlet::waker`], [`Outlet::watch`] or [`Outlet::wake_after`]
    /// has woken the lane. The app may run its signal handlers and timers, and answer exchanges that it has kept. `outlet` is the
    /// one of [`Host::begin`].
    fn attend(&mut self, outlet: &dyn Outlet) -> After {
        let _ = outlet;
        After::default()
    }

    /// Whether the host answers many exchanges at the same time, and so must never wait for a client: it writes by
    /// [`Outlet::offer`]. [`Host::attend`] is then also called when clients have taken content that waited for them, and when
    /// clients no longer wait for their answers ([`Outlet::has_room`]).
    fn is_concurrent(&self) -> bool {
        false
    }

    /// Whether the host runs an event loop of its language, so that exchanges wait in the app without holding the lane. A lane
    /// with one thread then waits by [`Host::run_loop`] and calls [`Host::attend`] as for a [concurrent](Host::is_concurrent)
    /// host.
    fn has_loop(&self) -> bool {
        false
    }

    /// Runs the event loop of the language once round, on the lane's thread: waits until `descriptor` is readable, `timeout` is
    /// over (`None` for no limit) or the loop itself has something to do, does that, and returns. The app may answer
    /// exchanges that it has kept.
    fn run_loop(&mut self, descriptor: BorrowedFd<'_>, timeout: Option<Duration>) -> After {
        let _ = (descriptor, timeout);
        After::default()
    }

    /// Answers one exchange, now or later. A reply that is dropped unfinished is answered with 500 or cut off.
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After;

    /// Whether every answer is given at once and without later work, so that the answer may be sent together with the answers
    /// to the next requests. A host that runs an app is not prompt, because the app may take long before or after its answer.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Returns the interface that delivers orders to an app that takes too long. `None` if this language cannot be interrupted:
    /// a worker whose app exceeds its time is then killed. Called before each [`Host::answer`] with a deadline.
    fn interruption(&self) -> Option<Arc<dyn Interruption>> {
        None
    }

    /// Runs the work that the app has deferred until the response is sent; called if [`After::deferred`] was set.
    fn run_deferred(&mut self) -> After {
        After::default()
    }

    /// Unbinds this context from the calling thread.
    fn leave(&mut self) {}
}

/// The wishes of a host after it has answered an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Call [`Host::run_deferred`] as soon as the response has been sent.
    pub deferred: bool,
    /// This context must answer nothing more: replace it, and also the process if the process has no other context.
    pub retire: bool,
}
