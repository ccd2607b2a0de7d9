//! Numbers of workers that follow the load: the decisions, without a clock and without the system.

mod look;
mod policy;
mod shares;
#[cfg(test)]
mod simulation;

pub(super) use look::{Action, Machine, View, look};
pub(super) use policy::{Policy, Rules, Sample};
pub(super) use shares::Refusal;
