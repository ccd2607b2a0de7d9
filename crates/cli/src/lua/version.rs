//! Chooses the Lua: one is built into this program, the other into a program next to it.

use crate::trouble::Trouble;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The Lua of this program, as `--lua` names it.
const BUILT_IN: &str = if cfg!(feature = "luajit") { "jit" } else { "5.4" };

/// For each Lua: its names for `--lua`, and the program that contains it.
const PROGRAMS: [(&[&str], &str); 2] = [(&["jit", "luajit", "5.1"], "oribi"), (&["5.4", "5", "lua5.4"], "oribi-lua5.4")];

/// For `--version`: describes the built-in Lua, and says where the program with the other Lua is.
pub fn describe() -> String {
    let other = other_program().filter(|path| path.is_file()).map(|path| format!("; another in {}", path.display()));
    format!("{} is built in{}", oribi_lua::built_in(), other.unwrap_or_default())
}

/// Executes the program that contains the wanted Lua in place of this program. Returns only if this program contains it.
///
/// # Errors
/// No Lua has this name, or the program with it does not exist or cannot be executed.
pub fn change_over(wanted: &str) -> Result<(), Trouble> {
    let lowercase = wanted.to_ascii_lowercase();
    let names = names_of(wanted).map_err(Trouble::usage)?;
    if names.contains(&BUILT_IN) {
        return Ok(());
    }
    let failed = |why: &str| Trouble::failure(format!("cannot run the Lua that --lua {lowercase} asks for: {why}"));
    let path = other_program().ok_or_else(|| failed("the path of this program is unknown"))?;
    // Executing this program again would never end.
    let itself = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
    if path.canonicalize().ok() == itself {
        return Err(failed(&format!("{} is this program", path.display())));
    }
    let mut arguments = std::env::args_os();
    let mut command = Command::new(&path);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).exec();
    Err(failed(&format!("{}: {error}", path.display())))
}

/// All names of the Lua that is wanted.
///
/// # Errors
/// No Lua has this name.
pub fn names_of(wanted: &str) -> Result<&'static [&'static str], String> {
    let lowercase = wanted.to_ascii_lowercase();
    let found = PROGRAMS.iter().find(|(names, _)| names.contains(&lowercase.as_str()));
    found.map(|(names, _)| *names).ok_or_else(|| format!("unknown Lua `{}`; there are jit and 5.4", wanted.escape_debug()))
}

/// The program with the other Lua.
fn other_program() -> Option<PathBuf> {
    let (_, name) = PROGRAMS.iter().find(|(names, _)| !names.contains(&BUILT_IN))?;
    Some(std::env::current_exe().ok()?.canonicalize().ok()?.with_file_name(name))
}
