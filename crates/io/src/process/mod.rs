//! Process operations that safe code cannot do: forking, memory shared by processes, signal handlers, inherited descriptors,
//! changing the user, a sandbox, process titles, the environment, orders to running apps, questions about their position,
//! giving back memory.

mod adopt;
pub mod asking;
mod children;
pub mod environment;
mod file_size;
mod fork;
mod heap;
mod identity;
mod last_resort;
pub mod orders;
mod own_signals;
pub mod sandbox;
mod shared;
mod signal;
mod title;

pub use adopt::{adopt, claim, has_hung_up, peer, tell};
pub use children::{has_forked, note_forks};
pub use file_size::LiftedFileSize;
pub use fork::{Fork, exit_now, fork, spawn_sibling};
pub use heap::give_back_freed_memory;
pub use identity::{Identity, forbid_new_privileges, forbid_new_privileges_of, hide_memory};
pub use last_resort::LastResort;
pub use own_signals::survive_own_signals;
pub use shared::{
    KeptLines, SharedLine, lines_of_file, shared_file, shared_lines, shared_words, shared_words_in_file, words_of_file,
};
pub use signal::{
    Effect, Heirs, OF_WRITES, Watch, end_when_told_while_loading, reset_signals, survive_failing_writes_while_loading, watch,
};
pub use title::set_title;
