//! What Lua has of its own, made safe to use: its stack, the part of it that may be borrowed, and the clock that scripts run against.

mod quiet;
pub(crate) mod stack;
mod watchdog;

pub(crate) use quiet::{Quiet, Stack};
pub(crate) use watchdog::{OUT_OF_TIME, Slot, Watchdog, arm, disarm};
