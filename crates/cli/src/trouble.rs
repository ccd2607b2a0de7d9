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
