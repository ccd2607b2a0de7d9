//! Sans-I/O protocol machines: bytes in, events out; commands in, bytes out.
//!
//! A machine owns no socket, no clock and no buffer. It reads the bytes that its caller has received, returns their meaning
//! and how many of them it has consumed, and appends the bytes of an answer to a buffer that the caller sends. So the same
//! machine serves every I/O backend, and tests can check every byte of its behaviour without a network.
//!
//! Names distinguish methods: getters; `handle_*` for events from the network; plain verbs for commands of the app. Time is
//! an argument or absent. Failure is permanent: a machine that has failed stays failed. The way in which bytes are cut into
//! packets never changes an answer.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fcgi;
pub mod forwarded;
pub mod h1;
pub mod h2;
pub mod proxy_protocol;
