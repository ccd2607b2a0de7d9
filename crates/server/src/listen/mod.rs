//! Where connections arrive: listeners, and the doors at which a lane takes connections from them.

mod bell;
mod door;
mod handshakes;
mod kept;
mod listener;

pub use bell::Bell;
pub use door::{Door, Seat, doors};
pub(crate) use kept::Kept;
pub use listener::{Listener, open};
pub(crate) use listener::{handshake_begun, is_any_lent, open_or_take};
