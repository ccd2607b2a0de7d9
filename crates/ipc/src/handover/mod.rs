//! Passes live connections from one edge to another edge, which may run another version of this program.
//!
//! Each edge has one end of a pair of sockets that keeps the boundaries of messages. For each connection that is between two
//! requests, the old edge sends one message: a [`Record`] of the connection's state, together with its descriptor. From then on
//! only the new edge reads from the connection, and the client notices nothing.

mod line;
mod record;

pub use line::{
    HandoverEvent, MOST_DESCRIPTORS, Receiver, Room, Sender, pair, receive_with_descriptor, receive_with_descriptors,
    send_with_descriptor, send_with_descriptors,
};
pub use record::{LARGEST_UNREAD, NO_LIMIT, Record, VERSION};
