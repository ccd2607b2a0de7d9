//! What the first process of a server tells and is told: the control socket, and the metrics with their dashboard.
#![forbid(unsafe_code)]

mod attended;
pub mod control;
pub mod metrics;
mod outgoing;
