//! Counters, states and messages of the processes of a server, in memory that they share.
//!
//! The workers communicate with their supervisor by the [`scoreboard`] and count in [`totals`]; apps count in [`figures`]; a
//! [`backtrace`] tells where the threads of an app stand.
#![forbid(unsafe_code)]

pub mod backtrace;
pub mod figures;
pub mod scoreboard;
pub mod totals;
