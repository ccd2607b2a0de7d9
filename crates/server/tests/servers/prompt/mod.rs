//! Runs the scenarios again, with an engine that expects answers at once and therefore takes short cuts. However the host
//! answers, no client may notice the short cuts. The short cuts themselves are also tested.

#[path = "../scenarios/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "the scenarios run in both modes")]
mod scenarios;

mod batches;
mod short;
