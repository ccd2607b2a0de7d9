//! WebSocket (RFC 6455) of a server: the fields of the handshake, and frames in both directions. Nothing here does I/O: bytes
//! go in, and messages come out.
//!
//! ```
//! use oribi_websocket::{Inflater, Kind, Limits, Message, Reader, client_frame, frame};
//!
//! let (mut reader, mut inflater) = (Reader::new(false), Inflater::new());
//! let mut received = Vec::new();
//! client_frame(Kind::Text, b"hello", [1, 2, 3, 4], &mut received);
//!
//! let mut answer = Vec::new();
//! let consumed = reader.read(&mut received, &Limits::default(), &mut inflater, &mut |message| {
//!     let Message::Text(text) = message else { return false };
//!     let mut head = [0; 10];
//!     let length = frame(Kind::Text, text.len(), false, &mut head);
//!     answer.extend_from_slice(&head[..length]);
//!     answer.extend_from_slice(text.as_bytes());
//!     true
//! })?;
//! assert_eq!((consumed, &answer[..]), (11, &b"\x81\x05hello"[..]));
//! # Ok::<(), oribi_websocket::Fault>(())
//! ```
//!
//! A connection has a [`Reader`], which holds no memory between two messages. All connections of a thread share one
//! [`Inflater`] and one [`Deflater`], because no message refers to an earlier one ([`Deflate`]).
#![forbid(unsafe_code)]

mod client;

mod deflate;
mod extensions;
mod fault;
mod handshake;
mod head;
mod inflate;
mod mask;
mod reader;
mod status;
mod writer;

pub use client::client_frame;
pub use deflate::Deflater;
pub use extensions::{Deflate, offered_deflate};
pub use fault::Fault;
pub use handshake::{accept_key, chosen_protocol, is_token, offered_protocols};
pub use inflate::Inflater;
pub use reader::{Limits, Message, Reader};
pub use writer::{CLOSE_PAYLOAD, Kind, close, frame};
