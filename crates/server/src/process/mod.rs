//! The life of the processes: master, supervisor, workers.

mod listener;
mod scoreboard;

pub use listener::Listener;
pub use scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
