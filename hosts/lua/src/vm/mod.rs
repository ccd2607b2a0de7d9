//! Safe access to Lua itself: its stack, the part of it that may be borrowed, and the watchdog for running scripts.

mod quiet;
pub(crate) mod stack;
mod watchdog;

pub(crate) use quiet::{Quiet, Stack};
pub(crate) use watchdog::{OUT_OF_TIME, Slot, Watchdog, arm, disarm};
