//! The life of the processes: master, supervisor, workers.

mod listener;
mod scoreboard;

pub use listener::{Listener, open};
pub use scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
