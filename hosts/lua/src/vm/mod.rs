//! Access to Lua itself: its stack, the values on it that may be borrowed, the watchdog that stops running scripts, and
//! backtraces of scripts.

mod quiet;
mod slot;
pub(crate) mod stack;
mod tracing;
mod watchdog;

pub(crate) use quiet::{Quiet, Stack};
pub(crate) use slot::{OUT_OF_TIME, Slot, arm, disarm};
pub(crate) use tracing::ScriptTracing;
pub(crate) use watchdog::Watchdog;
