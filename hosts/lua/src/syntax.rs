//! Whether a file is Lua.

use mlua::Lua;
use mlua::chunk::ChunkMode;
use std::fs;
use std::path::Path;

/// Reads a script without running it.
///
/// # Errors
/// It cannot be read, or is no Lua.
pub(crate) fn check(script: &Path) -> Result<(), String> {
    let text = fs::read(script).map_err(|error| error.to_string())?;
    // As Lua itself does: a first line that begins with # is for the shell.
    let text = if text.starts_with(b"#") { [b"--", &text[..]].concat() } else { text };
    let lua = Lua::new();
    let chunk = lua.load(text).set_name(format!("@{}", script.display())).set_mode(ChunkMode::Text);
    chunk.into_function().map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_and_not_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("app.lua");
        for (text, right) in [("error('run')", true), ("#!/usr/bin/lua\nreturn 1", true), ("return (", false), ("", true)] {
            fs::write(&script, text).expect("written");
            assert_eq!(check(&script).is_ok(), right, "{text}");
        }
        let why = check(&directory.path().join("none.lua")).expect_err("missing");
        assert!(why.contains("No such file"), "{why}");
    }
}
