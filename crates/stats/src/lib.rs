//! Counters, states and commands of the processes of a server, in memory that they share.
//!
//! Workers communicate with their supervisor by the [`scoreboard`] and count in [`totals`]; apps count in [`figures`]; a
//! [`backtrace`] shows the frames of the threads of an app.
#![forbid(unsafe_code)]

pub mod backtrace;
pub mod figures;
pub mod scoreboard;
pub mod totals;
