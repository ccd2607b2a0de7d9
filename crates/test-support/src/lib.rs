//! Aids for the tests of several crates. No crate is built with it otherwise.
#![forbid(unsafe_code)]

mod deadline;
mod descriptors;

pub use deadline::{Deadline, waits_for};
pub use descriptors::{run_with_few_descriptors, take_all_descriptors};
