//! Listeners, and the sockets from which a lane accepts connections.
#![forbid(unsafe_code)]

mod changes;
mod difference;
mod handshakes;
mod kept;
mod listener;
mod parts;
mod renewed;
mod secure;
mod sent;
mod socket_options;
mod sockets;

pub use changes::{Followed, follow};
pub use difference::{AddressPlan, ListenChange};
pub use kept::Kept;
pub use listener::{Listener, handshake_begun, is_any_lent};
pub use parts::address_in;
pub use renewed::Renewed;
pub use secure::{Vault, answer_in_handshakes, expiries, open, open_or_take, proof, read_again, secure};
pub use sent::{ReceivedListener, ReceivedListeners, SentListeners};
pub use socket_options::fit_sockets;
pub use sockets::{ListenSocket, Shard, SocketHandle, listen_sockets, received_sockets, take_listen_sockets};
