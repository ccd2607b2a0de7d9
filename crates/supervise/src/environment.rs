//! Cleans the environment of a program that is nothing but this server.

use super::inheritance::OWN;
use super::{adoption, notify};
use oribi_io::process::environment::hide;

/// Copies the environment for this server, and hides the server's variables from apps: the variables that its processes pass to
/// each other, and the variables of parent programs. Must be called before an app is loaded and before there are other threads.
pub fn claim_environment() {
    for variables in [&OWN[..], &adoption::VARIABLES, &notify::VARIABLES] {
        hide(variables);
    }
}
