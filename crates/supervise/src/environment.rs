//! The environment of a server whose program does nothing else.

use super::inheritance::OWN;
use super::{adoption, notify};
use oribi_io::process::environment::hide;

/// Takes the environment as the program has got it, and hides from apps what is meant for the server: what processes of a server hand
/// down to each other, and what parent programs lend and ask for. Call it before an app is loaded and before there are other threads.
pub fn claim_environment() {
    for variables in [&OWN[..], &adoption::VARIABLES, &notify::VARIABLES] {
        hide(variables);
    }
}
