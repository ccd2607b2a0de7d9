//! Why the command ends before its work is done.

/// What a person is told, and the exit status.
#[derive(Debug)]
pub struct Trouble {
    /// In words.
    pub message: String,
    /// 1: it could not be done; 2: it could not be understood.
    pub status: u8,
}

impl Trouble {
    /// What was asked for could not be done.
    pub const FAILED: u8 = 1;
    /// What was asked for could not be understood.
    pub const USAGE: u8 = 2;

    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: Self::USAGE }
    }

    pub fn failure(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: Self::FAILED }
    }
}
