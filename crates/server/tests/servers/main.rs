//! Tests of whole servers: engine, machine and lane, mostly on the simulated backend.
//!
//! One program, because each one that has an engine compiles all of it.

mod attacks;
mod doorbell;
mod memory;
mod prompt;
mod scenarios;
