//! Where connections arrive: listeners, and the doors at which a lane takes connections from them.

mod bell;
mod door;
mod handshakes;
mod listener;

pub use bell::Bell;
pub use door::{Door, Seat, doors};
pub(crate) use listener::handshake_begun;
pub use listener::{Listener, open};
