//! The formats in which the processes of the server pass requests, responses, connections and spans to one another.
#![forbid(unsafe_code)]

pub mod handover;
pub mod posts;
pub mod slot;
pub mod spans;
