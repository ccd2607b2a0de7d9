//! The reason why the command ends early.

use oribi_server::config::masked;
use std::borrow::Cow;
use std::io::{self, Write};

/// A message for the user, and the exit status of the command.
#[derive(Debug)]
pub struct Trouble {
    /// The message for the user.
    pub message: String,
    /// 1 for a failure, 2 for an invalid command line.
    pub status: u8,
    /// The source of further information; empty for none.
    pub hint: &'static str,
}

impl Trouble {
    /// The exit status of a command that failed.
    pub const FAILED: u8 = 1;
    /// The exit status for an invalid command line.
    pub const USAGE: u8 = 2;

    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: Self::USAGE, hint: "For more information, try `oribi --help`." }
    }

    /// Mistakes in a configuration file.
    pub fn in_file(message: impl Into<String>) -> Self {
        let hint = "docs/apps.md describes the file; `oribi schema` prints its JSON schema, for editors.";
        Self { message: message.into(), status: Self::USAGE, hint }
    }

    pub fn failure(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: Self::FAILED, hint: "" }
    }
}

/// Prints clap's text: help to standard output, or an error to standard error. Returns the exit status.
pub fn explain(said: &clap::Error) -> u8 {
    let text = said.to_string();
    // If the output is closed, there is no reader.
    let _ = match masked(&text) {
        Cow::Borrowed(_) => said.print(),
        // An error quotes an argument, which may contain a secret.
        Cow::Owned(shown) if said.use_stderr() => io::stderr().write_all(shown.as_bytes()),
        Cow::Owned(_) => said.print(),
    };
    if said.use_stderr() { Trouble::USAGE } else { 0 }
}
