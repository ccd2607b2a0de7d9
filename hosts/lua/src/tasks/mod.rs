//! Handlers that wait without holding their worker (`--concurrency`).
//!
//! Each request has a coroutine in a state of its script, and so has each task that a script has spawned. A coroutine runs
//! until it waits: for a time, a descriptor, its client or another task ([`Wish`](crate::waits::Wish)). Meanwhile the lane
//! runs others or takes a request. A lane keeps a state as long as coroutines wait in it, and gives it further requests, so the
//! requests of a script share its globals. If the state is worn or its script has been loaded again, it gets no more requests,
//! and goes back to the pool when its last coroutine has ended.
//!
//! A coroutine that must end, because its client has gone or the worker ends, gets an error from its wait, so that it can clean
//! up. If it waits again, it is closed.

mod host;
mod kept_exchange;
mod kept_states;
mod out_of_memory;
mod poller;
mod running;

pub(crate) use host::WaitingHost;
