//! The file that was applied last, if it is not that of the command line: an upgrade serves by it, too.

use super::inheritance::{APPLIED, UPGRADE};
use oribi_io::process::environment::variable_os;
use std::path::PathBuf;

/// Returns the file that the previous server has applied last, in the place of the one on the command line. `None` if there is no
/// previous server, or it has applied no other file.
#[must_use]
pub fn applied_file() -> Option<PathBuf> {
    // A variable that a user has exported from somewhere means nothing.
    variable_os(UPGRADE)?;
    variable_os(APPLIED).map(PathBuf::from).filter(|path| path.is_absolute())
}
