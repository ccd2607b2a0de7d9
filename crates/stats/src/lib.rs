//! Counters, states and commands of the processes of a server, in memory that they share.
//!
//! Workers communicate with their supervisor by the [`scoreboard`] and count in [`totals`]; apps count in [`app_metrics`]; a
//! [`backtrace`] shows the frames of the threads of an app.
#![forbid(unsafe_code)]

pub mod app_metrics;
pub mod backtrace;
mod clock;
pub mod scoreboard;
pub mod totals;
