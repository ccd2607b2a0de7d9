//! Shares the messages of channels with other servers over the channels of Redis (`--relay`), and receives those that any
//! program publishes there.
//!
//! A [`Link`] opens the connection, and opens it again; `session` is the conversation over it, without I/O, by `resp`, the protocol
//! of Redis; [`message`] is a message as Redis carries it. Nothing waits, and memory is bounded. The process that has the link is
//! `supervise/src/relay.rs`.
#![forbid(unsafe_code)]

mod link;
pub mod message;
pub mod resp;
mod session;
mod settings;
mod transport;

pub use link::{Changes, Link, Prepared};
pub use session::Counts;
pub use settings::{Address, Redis, Settings, prefix};
