//! The command that the first argument names.

use std::ffi::OsString;

/// Returns the arguments after the command `verb`, with the program's name first; `None` if the command line does not have this
/// command.
pub fn arguments_after(verb: &str, all: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut arguments: Vec<OsString> = all.into_iter().collect();
    (arguments.get(1)? == verb).then(|| {
        arguments.remove(1);
        arguments
    })
}
