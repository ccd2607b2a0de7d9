//! Orders to an app that takes too long, delivered while the app runs.
//!
//! The process that keeps the deadlines (an edge, or the supervisor) leaves the order where the worker's process can read it,
//! and sends a signal to the process. The signal's handler finds the thread on which the app of the exchange runs and calls
//! [`Interruption::interrupt`] there, in the middle of the thread's work. So the language need not poll, and an app that
//! sleeps or reads from a socket is woken: its system call ends with EINTR.

use crate::ExchangeId;
use std::time::Duration;

/// An order to an app that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Write a backtrace of the app to the log, and let the app continue.
    Warn,
    /// Raise an error in the app. An uncaught error reaches the host, which gives the exchange up as usual; the server then
    /// answers 504, or cuts the connection if a part of the response has been sent.
    Interrupt,
}

/// Delivers orders to a context in the middle of an exchange.
pub trait Interruption: Send + Sync {
    /// Passes an order to the app that answers `exchange` in this context. `limit` is the time that the app has exceeded.
    ///
    /// Called in a signal handler, on the thread that is inside [`Host::answer`](crate::Host::answer) with this context and
    /// this exchange, each order at most once. It may do only what a signal handler may do (signal-safety(7)): set flags and
    /// arm a hook by which the language reacts at the next moment that is safe. It must not allocate, lock, or panic, and
    /// preserves errno.
    ///
    /// The app may have returned to the host already. When the host returns from `answer`, it must therefore discard an order
    /// that the app has not received: an order must never reach the next exchange.
    fn interrupt(&self, exchange: ExchangeId, order: Order, limit: Duration);
}
