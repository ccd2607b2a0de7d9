//! Connections that stay open while no worker has anything to do with them: WebSockets and event streams. An edge owns them; an
//! app gets their events as short requests ([`event`]), and answers with [`Command`]s. [`Channels`] knows the connections that
//! have subscribed to a name. Nothing here does I/O.
//!
//! ```
//! use oribi_live::{Channels, Command, Kind};
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
//! channels.subscribe(7, b"news");
//! let Command::Publish { channel, .. } = second else { panic!("it was written") };
//! assert_eq!(channels.subscribers(channel).collect::<Vec<_>>(), [7]);
//! # Ok::<(), oribi_live::Malformed>(())
//! ```
#![forbid(unsafe_code)]

mod channels;
mod command;
pub mod event;
pub mod event_stream;
mod offer;

pub use channels::{Channels, LARGEST_CHANNEL};
pub use command::{Command, Kind, LARGEST_COMMAND, Malformed};
pub use offer::{Offer, Refusal, accepts_events, handshake};
