//! Passes live connections from one edge to another edge, which may run another version of this program.
//!
//! Each edge has one end of a pair of sockets that keeps the boundaries of messages. For each connection that is between two
//! requests, the old edge sends one message: a [`Record`] of the connection's state, together with its descriptor. From then on
//! only the new edge reads from the connection, and the client notices nothing. A WebSocket that stays open without a worker is a
//! [`LiveRecord`]. While such connections move, each edge passes commands of apps on to the other one (see [`BridgeKind`]).

mod bridge;
mod line;
mod live;
mod record;

pub use bridge::{Bridge, BridgeKind, BridgeMessage};
pub use line::{
    HandoverEvent, MOST_DESCRIPTORS, Receiver, Room, Sender, pair, receive_with_descriptor, receive_with_descriptors,
    send_with_descriptor, send_with_descriptors,
};
pub use live::{InvalidLiveRecord, LIVE_VERSION, LiveRecord};
pub use record::{LARGEST_UNREAD, NO_LIMIT, Record, VERSION};
