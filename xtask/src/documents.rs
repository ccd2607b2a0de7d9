//! Checks that documents about the code name files that exist.

use std::path::Path;

/// The map of the code: newcomers read it first, and all of it.
const MAP: &str = "ARCHITECTURE.md";
const MOST_BYTES: usize = 14 << 10;

/// Folders of pages about the code.
const PAGES: &str = "docs/decisions/";

/// The folders whose files documents name.
const FOLDERS: &[&str] =
    &["bench/", "crates/", "deploy/", "docs/", "examples/", "fuzz/", "hosts/", "setup/", "tests/", "xtask/"];

/// Checks the documents among `files`, which lists all files of the repository.
pub fn check(root: &Path, files: &[String]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| *file == MAP || file.starts_with(PAGES)) {
        match std::fs::read_to_string(root.join(file)) {
            Ok(text) => {
                breaches.extend(breaches_of_paths(file, &text, |path| root.join(path).exists()));
                if file == MAP {
                    breaches.extend(breaches_of_map(&text, files));
                }
            }
            Err(error) => breaches.push(format!("{file}: {error}")),
        }
    }
    breaches
}

fn breaches_of_paths(file: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let missing = paths(text).into_iter().filter(|path| !exists(path));
    missing.map(|path| format!("{file} names {path}, which is not there")).collect()
}

/// Checks that the map names the folder of each crate, and that it is short.
fn breaches_of_map(text: &str, files: &[String]) -> Vec<String> {
    let folders = files.iter().filter_map(|file| file.strip_suffix("/Cargo.toml"));
    let crates = folders.filter(|folder| folder.starts_with("crates/") || folder.starts_with("hosts/"));
    let unnamed = crates.filter(|folder| !text.contains(&format!("`{folder}`")));
    let mut breaches: Vec<String> = unnamed.map(|folder| format!("{MAP} does not name {folder}")).collect();
    if text.len() > MOST_BYTES {
        breaches.push(format!("{MAP} has {} bytes; nobody reads more than {MOST_BYTES}", text.len()));
    }
    breaches
}

/// Returns the paths in code spans, with lists in braces expanded. Paths with a part in capitals are left out, because such a
/// part is a placeholder.
fn paths(text: &str) -> Vec<String> {
    let spans = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let named = spans.filter(|span| FOLDERS.iter().any(|folder| span.starts_with(folder)) && !span.contains([' ', '*', '\n']));
    let all = named.flat_map(spelled_out);
    all.filter(|path| !path.split(['/', '.']).any(is_placeholder)).collect()
}

fn is_placeholder(part: &str) -> bool {
    part.len() > 1 && part.chars().all(|letter| letter.is_ascii_uppercase()) && !matches!(part, "README" | "PL")
}

/// Expands braces: `a/{b,c/d}.rs` is `a/b.rs` and `a/c/d.rs`.
fn spelled_out(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| rest.split_once('}').map(|(list, after)| (before, list, after)));
    match parts {
        Some((before, list, after)) => {
            list.split(',').flat_map(|part| spelled_out(&format!("{before}{part}{after}"))).collect()
        }
        None => vec![path.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_is_a_breach() {
        let text =
            "See `crates/a/src/{b,c/d}.rs`, `crates/a/NAME.rs`, `docs/x.md` and `cargo test`.\n```\n`tests/no` here\n```\n";
        assert_eq!(paths(text), ["crates/a/src/b.rs", "crates/a/src/c/d.rs", "docs/x.md"]);
        let breaches = breaches_of_paths(MAP, text, |path| path != "crates/a/src/c/d.rs");
        assert_eq!(breaches, ["ARCHITECTURE.md names crates/a/src/c/d.rs, which is not there"]);
    }

    #[test]
    fn a_crate_that_the_map_leaves_out_is_a_breach() {
        let files = ["crates/a/Cargo.toml", "crates/b/Cargo.toml", "fuzz/Cargo.toml", "Cargo.toml"].map(str::to_owned);
        assert_eq!(breaches_of_map("| `crates/a` | it |", &files), ["ARCHITECTURE.md does not name crates/b"]);
    }

    #[test]
    fn the_map_may_have_14_kib_and_no_byte_more() {
        assert_eq!(breaches_of_map(&"a".repeat(MOST_BYTES), &[]), Vec::<String>::new());
        assert_eq!(breaches_of_map(&"a".repeat(MOST_BYTES + 1), &[]).len(), 1);
    }
}
