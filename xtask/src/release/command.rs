//! Runs programs.

use std::process::Command;

/// Runs a program and returns its output.
///
/// # Errors
/// It cannot be run, or fails; the message has its standard error.
pub fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}
