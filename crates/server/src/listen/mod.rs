//! Where connections arrive: listeners, and the doors at which a lane takes connections from them.

mod door;
mod listener;

pub use door::{Door, Seat, doors};
pub use listener::{Listener, open};
