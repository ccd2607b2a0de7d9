//! Process operations that safe code cannot do: forking, memory shared by processes, signal handlers, inherited descriptors,
//! changing the user, process titles, orders to running apps.

mod adopt;
mod children;
mod fork;
mod identity;
mod last_resort;
pub mod orders;
mod shared;
mod signal;
mod title;

pub use adopt::{adopt, claim, peer};
pub use children::{has_forked, note_forks};
pub use fork::{Fork, exit_now, fork};
pub use identity::Identity;
pub use last_resort::LastResort;
pub use shared::{SharedLine, shared_lines};
pub use signal::{Effect, Heirs, Watch, watch};
pub use title::set_title;
