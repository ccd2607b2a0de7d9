//! Connections that stay open while no worker has anything to do with them: WebSockets and event streams. An edge owns them; an
//! app gets their events as short requests ([`event`]), and answers with [`Command`]s. [`Channels`] knows the connections that
//! have subscribed to a name. Nothing here does I/O.
//!
//! ```
//! use oribi_live::{Channels, Command, Envelope, Kind};
//!
//! let mut bytes = Vec::new();
//! Command::Subscribe(b"news").write(&mut bytes);
//! Command::Publish { kind: Kind::Text, channel: b"news", payload: b"hello" }.write(&mut bytes);
//!
//! let (first, rest) = Command::read(&bytes)?.expect("a whole command");
//! assert_eq!(first, Command::Subscribe(b"news"));
//! let (second, _) = Command::read(rest)?.expect("a whole command");
//!
//! let mut channels = Channels::default();
//! channels.subscribe(7, b"news", Envelope { prefix: b"<", suffix: b">" });
//! let Command::Publish { channel, payload, .. } = second else { panic!("it was written") };
//! let group = &channels.groups(channel)[0];
//! assert_eq!((&group.connections[..], group.envelope().around(payload)), (&[7][..], b"<hello>".to_vec()));
//! # Ok::<(), oribi_live::Malformed>(())
//! ```
#![forbid(unsafe_code)]

mod channels;
mod command;
mod envelope;
pub mod event;
pub mod event_stream;
mod offer;

pub use channels::{Channels, Group, LARGEST_CHANNEL};
pub use command::{Command, Kind, LARGEST_COMMAND, Malformed, Wants, are_for_all, need_no_request};
pub use envelope::{Envelope, LARGEST_ENVELOPE};
pub use offer::{Offer, Refusal, accepts_events, handshake};
