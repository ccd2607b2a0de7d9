//! The bytes by which the processes of the server pass requests, responses, connections and spans on to one another.
#![forbid(unsafe_code)]

pub mod handover;
pub mod slot;
pub mod spans;
