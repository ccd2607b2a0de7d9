//! Checks the length and the names of source files.

use std::path::Path;
use std::process::Command;

/// The most lines of a file. A longer file contains more than one idea.
const MOST_LINES: usize = 600;

/// Names that say nothing about the content of a file.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

/// Endings of files that people write and read.
const SOURCE_ENDINGS: &[&str] = &["rs", "c", "h", "xs", "pm", "pl", "PL", "t", "psgi", "rb", "ru", "lua", "sh", "mk"];

/// Folders of sources that must work without a socket, a file, a thread or a clock; and below, the names that these sources
/// must not contain.
const SANS_IO: &[&str] = &[
    "crates/message/src/",
    "crates/proto/src/",
    "crates/route/src/",
    "crates/encode/src/",
    "crates/limit/src/",
    "crates/websocket/src/",
];
const INPUT_OUTPUT: &[&str] = &["std::net", "std::fs", "std::thread", "std::process", "std::os", "Instant::now", "SystemTime"];

/// Lists the files of the repository at `root`, including those that are not yet added to git.
///
/// # Errors
/// Git has failed.
pub fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout).split('\0').map(str::to_owned).collect::<Vec<_>>();
    // A file that was deleted but not yet committed is still listed.
    Ok(names.into_iter().filter(|name| root.join(name).is_file()).collect())
}

/// Checks the names of `files`, and the text of those that are sources.
pub fn check(root: &Path, files: &[String]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files {
        breaches.extend(name_breach(file));
        let ending = Path::new(file).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if !SOURCE_ENDINGS.contains(&ending) {
            continue;
        }
        match std::fs::read(root.join(file)) {
            Ok(bytes) => breaches.extend(content_breaches(file, &String::from_utf8_lossy(&bytes))),
            Err(error) => breaches.push(format!("{file}: {error}")),
        }
    }
    breaches
}

fn name_breach(file: &str) -> Option<String> {
    let empty = |part: &&str| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or_default().to_lowercase().as_str());
    let part = file.split('/').find(empty)?;
    Some(format!("{file}: \"{part}\" says nothing about what is inside"))
}

fn content_breaches(file: &str, source: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let lines = source.lines().count();
    if lines > MOST_LINES {
        breaches.push(format!("{file} has {lines} lines; more than {MOST_LINES} is more than one idea"));
    }
    if SANS_IO.iter().any(|folder| file.starts_with(folder)) {
        let named = INPUT_OUTPUT.iter().filter(|name| source.contains(**name));
        breaches.extend(named.map(|name| format!("{file} names {name}, but this crate does no input or output")));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_nothing_is_a_breach_wherever_it_stands() {
        assert!(name_breach("crates/server/src/utils.rs").is_some());
        assert!(name_breach("hosts/perl/lib/Oribi/Helpers.pm").is_some());
        assert!(name_breach("misc/notes.md").is_some());
        assert!(name_breach("crates/server/src/utilities_of_the_trade.rs").is_none());
        assert!(name_breach("crates/server/src/engine.rs").is_none());
    }

    #[test]
    fn a_file_may_have_600_lines_but_not_601() {
        assert_eq!(content_breaches("crates/io/src/lib.rs", &"//\n".repeat(600)), Vec::<String>::new());
        assert_eq!(content_breaches("crates/io/src/lib.rs", &"//\n".repeat(601)).len(), 1);
    }

    #[test]
    fn a_sans_io_crate_names_no_socket_and_no_clock() {
        assert_eq!(content_breaches("crates/proto/src/lib.rs", "let now = Instant::now();\n").len(), 1);
        assert_eq!(content_breaches("crates/proto/src/lib.rs", "use std::net::TcpStream;\n").len(), 1);
        assert_eq!(content_breaches("crates/server/src/lib.rs", "use std::net::TcpStream;\n"), Vec::<String>::new());
    }
}
