//! What the server is told to do, and where each word of it came from.

mod settings;

pub use settings::{AccessFormat, Limits, ListenAddress, LogTarget, Settings, Timeouts};
