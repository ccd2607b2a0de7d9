//! Why the command ends early.

/// A message for the user, and the exit status.
#[derive(Debug)]
pub struct Trouble {
    /// The message.
    pub message: String,
    /// 1: it failed; 2: the command line is invalid.
    pub status: u8,
}

impl Trouble {
    /// The request failed.
    pub const FAILED: u8 = 1;
    /// The command line is invalid.
    pub const USAGE: u8 = 2;

    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: Self::USAGE }
    }

    pub fn failure(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: Self::FAILED }
    }
}

/// Prints what clap has to say: help, which goes to standard output, or an error, which goes to standard error. Returns the exit
/// status.
pub fn explain(said: &clap::Error) -> u8 {
    // If that is closed, there is no reader.
    let _ = said.print();
    if said.use_stderr() { Trouble::USAGE } else { 0 }
}
