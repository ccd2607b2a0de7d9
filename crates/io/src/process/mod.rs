//! What the life of processes needs and safe code cannot do by itself: forking, memory shared by processes, signal handlers,
//! inherited descriptors.

mod adopt;
mod fork;
mod last_resort;
mod shared;
mod signal;

pub use adopt::adopt;
pub use fork::{Fork, exit_now, fork};
pub use last_resort::LastResort;
pub use shared::{SharedLine, shared_lines};
pub use signal::{Effect, Watch, watch};
