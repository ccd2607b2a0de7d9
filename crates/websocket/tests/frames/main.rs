//! Frames of clients: bytes in, messages out, however the bytes are cut.

mod examples;
mod memory;
mod mistakes;
mod round_trips;
mod session;
