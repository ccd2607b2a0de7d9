//! Threads of a runtime that has one lock for all of them (Ruby's, Python's) and that therefore share a lane.

use crate::Host;
use std::time::Duration;

/// A lane that the threads of a runtime share. The runtime's lock protects it: every method but [`Crew::wait`] is called with
/// the lock held, and so is every reply.
pub trait Crew {
    /// Answers the next request with the calling thread's own context. It never waits for a request; while the app runs, the
    /// lock may change hands and other threads may take their turns.
    fn turn(&self, host: &mut dyn Host) -> Turn;

    /// Waits without the lock until there is something to do, at most for `timeout` (`None`: without limit); may return early.
    /// One thread at a time waits here; another thread that calls this meanwhile waits until it may take that place.
    fn wait(&self, timeout: Option<Duration>);
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A request was answered, or will be later.
    Answered,
    /// There is nothing to do. Call [`Crew::wait`] with this timeout, then take another turn.
    Idle(Option<Duration>),
    /// The worker ends: take no further turn.
    End,
}
