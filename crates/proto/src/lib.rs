//! Sans-I/O protocol machines: bytes in, events out; verbs in, bytes out.
//!
//! A machine owns no socket, no clock and no buffer. It looks at the bytes that its caller has received, says what they mean
//! and how many of them are done with, and appends the bytes of an answer to a buffer that the caller sends. The same machine
//! therefore serves every I/O backend, and every byte of its behaviour can be tested without a network.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fcgi;
pub mod h1;
