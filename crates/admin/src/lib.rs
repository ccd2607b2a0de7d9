//! The control socket of the first process, and its metrics with their dashboard.
#![forbid(unsafe_code)]

mod attended;
pub mod control;
pub mod metrics;
mod outgoing;
