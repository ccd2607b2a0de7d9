//! Where connections arrive: listeners, and the doors at which a lane takes connections from them.

mod door;
mod handshakes;
mod kept;
mod listener;
mod secure;

pub use door::{Door, Seat, doors};
pub(crate) use kept::Kept;
pub use listener::Listener;
pub(crate) use listener::{handshake_begun, is_any_lent};
pub use secure::open;
pub(crate) use secure::{Vault, answer_in_handshakes, expiries, open_or_take, proof, read_again, secure};
