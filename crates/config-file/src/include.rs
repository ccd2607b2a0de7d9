//! `include`: the files that patterns such as `apps/*.toml` name.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The files that a pattern names, relative to `folder`, sorted by their paths. `*` is any part of a name, `?` any byte of it;
/// a name that begins with a dot needs a pattern that does.
///
/// # Errors
/// The folder that cannot be read.
pub fn matches(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut found = vec![folder.to_owned()];
    for component in Path::new(pattern).components() {
        let name = component.as_os_str();
        if !matches!(component, Component::Normal(_)) || !name.as_bytes().iter().any(|byte| b"*?".contains(byte)) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let mut next = Vec::new();
        for path in found {
            next.extend(names_in(&path, name)?.iter().map(|name| path.join(name)));
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}

/// The names in a folder that fit a pattern; none if there is no such folder.
fn names_in(folder: &Path, pattern: &OsStr) -> Result<Vec<std::ffi::OsString>, (PathBuf, io::Error)> {
    let readable = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let failed = |error| (readable.to_owned(), error);
    let entries = match std::fs::read_dir(readable) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let hidden = name.as_bytes().starts_with(b".") && !pattern.as_bytes().starts_with(b".");
        if !hidden && fits(name.as_bytes(), pattern.as_bytes()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether a name fits a pattern.
fn fits(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    // The place after the last `*`, and the bytes of the name that the `*` does not stand for.
    let mut retry: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                retry = Some((in_pattern + 1, at));
                in_pattern += 1;
                continue;
            }
            Some(&byte) if byte == b'?' || byte == name[at] => {
                (at, in_pattern) = (at + 1, in_pattern + 1);
                continue;
            }
            _ => {}
        }
        let Some((after, start)) = retry else { return false };
        retry = Some((after, start + 1));
        (at, in_pattern) = (start + 1, after);
    }
    pattern[in_pattern..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_parts_of_names() {
        for (pattern, name, expected) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", true),
            ("*.toml", "a.toml.bak", false),
            ("a*b*c", "abbc", true),
            ("a*b*c", "abcb", false),
            ("*a*", "bab", true),
            ("?", "a", true),
            ("?", "", false),
            ("?*", "ab", true),
            ("**", "", true),
            ("a", "b", false),
            ("*ab", "aab", true),
        ] {
            assert_eq!(fits(name.as_bytes(), pattern.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_sorted_and_folders_are_none_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b/x.toml", "a/y.toml", "a/x.toml", "a/.hidden.toml", "a/folder.toml/z", "c.toml"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        let found = |pattern: &str| -> Vec<String> {
            let paths = matches(folder.path(), pattern).expect("it can be read");
            paths.iter().map(|path| path.strip_prefix(folder.path()).expect("inside").display().to_string()).collect()
        };
        assert_eq!(found("*/*.toml"), ["a/x.toml", "a/y.toml", "b/x.toml"]);
        assert_eq!(found("a/.*.toml"), ["a/.hidden.toml"]);
        assert_eq!(found("c.toml"), ["c.toml"]);
        assert_eq!(found("./c.toml"), ["c.toml"]);
        for nothing in ["d.toml", "c.toml/*.toml", "nowhere/*.toml", "a", ""] {
            assert_eq!(found(nothing), [""; 0], "{nothing}");
        }
    }
}
