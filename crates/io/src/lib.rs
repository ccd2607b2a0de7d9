//! I/O backends: the only system calls of Oribi's data path.
//!
//! A [`Backend`] is one I/O model. It *tries first and reports later*: `receive`, `send` and `send_file` try at once and
//! return [`Attempt::Later`] if they cannot; `wait` reports the socket when trying again is worth it. A readiness model works
//! like that by nature. A completion model answers `receive` from the buffers that its ring has filled, takes the bytes given
//! to `send` into its ring at once, and reports failures with the socket's next event. In neither model does an idle socket
//! hold a buffer.
//!
//! This crate knows no protocol and no language.
#![deny(unsafe_code)]

mod accept;
mod any_backend;
mod backend;
mod breaking;
mod brief;
mod calls;
pub mod clock;
mod closing;
mod epoll;
#[cfg(feature = "libevent")]
mod libevent;
mod models;
pub mod process;
mod sim;
mod uring;
mod vanished;

pub use any_backend::{AnyBackend, AnySocket, AnyWaiter};
pub use backend::{Accepted, Attempt, Backend, Direction, Encryption, Event, KernelBackend, Peer, Restricted, Token, Waiter};
pub use breaking::{Sent, break_off, receive_from_app};
pub use brief::DoorbellWait;
pub use closing::{ignore_new_connections, refuse_new_connections};
pub use epoll::Epoll;
#[cfg(feature = "libevent")]
pub use libevent::Libevent;
pub use models::Model;
pub use sim::{Client, Sim, World};
pub use uring::{Refusal, Uring};
pub use vanished::notice_vanished_peer;
