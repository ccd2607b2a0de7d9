//! Listeners, and the sockets from which a lane accepts connections.
#![forbid(unsafe_code)]

mod changes;
mod handshakes;
mod kept;
mod listener;
mod secure;
mod sockets;

pub use changes::{Followed, follow};
pub use kept::Kept;
pub use listener::{Listener, handshake_begun, is_any_lent};
pub use secure::{Vault, answer_in_handshakes, expiries, open, open_or_take, proof, read_again, secure};
pub use sockets::{ListenSocket, Shard, listen_sockets};
