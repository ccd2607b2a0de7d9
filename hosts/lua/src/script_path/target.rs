//! Finds a script below a document root from the path of a request.
//!
//! The path is split at slashes before its segments are decoded. So an encoded slash separates no segments, and a proxy in
//! front that has rules for paths sees the same segments. Up to the script's name, a path with a segment that is empty, `..` or
//! the name of a hidden file, or that contains a NUL or a slash, leads to no script. PATH_INFO may contain anything, because it
//! names no file.

use super::{ENDING, Found, Missing, PathCache, as_path, file_below};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Finds the script: the file with the extension `.lua` to which the shortest part of the path leads, or the index file of the
/// directory to which the whole path leads.
pub(super) fn find<'c>(cache: &'c mut PathCache, root: &Path, index: &str, path: &[u8]) -> Result<&'c Found, Missing> {
    let key = known_part(path);
    if cache.found.contains_key(key) {
        return cache.found.get(key).ok_or(Missing::NotFound);
    }
    let found = search(root, index, path)?;
    // Other spellings of the same path would displace it.
    let plain = found.script_name.as_deref().is_some_and(|name| name.starts_with(&path[..found.path_info_at]));
    if plain && found.path_info_at == key.len() {
        return Ok(cache.keep(key, found));
    }
    Ok(cache.last.insert(found))
}

/// The part of the path that is the script's name if no directory is named like a script.
fn known_part(path: &[u8]) -> &[u8] {
    memchr::memmem::find_iter(path, ENDING)
        .map(|at| at + ENDING.len())
        .find(|&end| path.get(end).is_none_or(|&byte| byte == b'/'))
        .map_or(path, |end| &path[..end])
}

fn search(root: &Path, index: &str, path: &[u8]) -> Result<Found, Missing> {
    let rest = path.strip_prefix(b"/").ok_or(Missing::NotFound)?;
    let mut place = root.to_owned();
    let mut name = Vec::with_capacity(path.len());
    let mut at = 1;
    for segment in rest.split(|&byte| byte == b'/') {
        if segment.is_empty() && at == path.len() {
            return directory_index(root, &mut place, index, name, path);
        }
        let decoded = decode(segment).ok_or(Missing::NotFound)?;
        // A leading dot includes `.` and `..`.
        if decoded.is_empty() || decoded.starts_with(b".") || decoded.contains(&b'/') || decoded.contains(&0) {
            return Err(Missing::NotFound);
        }
        place.push(as_path(&decoded));
        name.push(b'/');
        name.extend_from_slice(&decoded);
        at += segment.len();
        let metadata = place.metadata().map_err(|_| Missing::NotFound)?;
        if metadata.is_file() {
            let script = file_below(root, &place).filter(|_| decoded.ends_with(ENDING)).ok_or(Missing::NotFound)?;
            return Ok(Found { script, script_name: Some(name.into()), path_info_at: at });
        }
        // The slash after this segment.
        at += 1;
    }
    let there = directory_index(root, &mut place, index, name, path);
    Err(if there.is_ok() { Missing::SlashMissing } else { Missing::NotFound })
}

fn directory_index(root: &Path, place: &mut PathBuf, index: &str, mut name: Vec<u8>, path: &[u8]) -> Result<Found, Missing> {
    place.push(index);
    name.push(b'/');
    name.extend_from_slice(index.as_bytes());
    let script = file_below(root, place).ok_or(Missing::NotFound)?;
    Ok(Found { script, script_name: Some(name.into()), path_info_at: path.len() })
}

/// Decodes a segment; `None` if two hexadecimal digits do not follow a percent sign.
fn decode(segment: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !segment.contains(&b'%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|&digit| char::from(digit).to_digit(16));
        decoded.push((digit()? * 16 + digit()?) as u8);
    }
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A document root with links to all the things next to it that must not be found.
    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        for (file, text) in [
            ("root/index.lua", ""),
            ("root/app.lua", ""),
            ("root/notes.txt", ""),
            ("root/.hidden.lua", ""),
            ("root/.git/hook.lua", ""),
            ("root/shop/index.lua", ""),
            ("root/shop/a b.lua", ""),
            ("root/plain/app.txt", ""),
            ("root/old.lua/page.lua", ""),
            ("root/app.lua.bak", ""),
            ("outside.lua", ""),
            ("elsewhere/secret.lua", ""),
        ] {
            let file = directory.path().join(file);
            fs::create_dir_all(file.parent().expect("a parent")).expect("created");
            fs::write(file, text).expect("written");
        }
        symlink("../outside.lua", root.join("way-out.lua")).expect("linked");
        symlink("../elsewhere", root.join("elsewhere")).expect("linked");
        symlink("shop/index.lua", root.join("within.lua")).expect("linked");
        symlink("/nowhere", root.join("dangling.lua")).expect("linked");
        directory
    }

    /// Twice, because the remembered result must be the same.
    fn look_up(directory: &tempfile::TempDir, path: &[u8]) -> Result<Found, Missing> {
        let root = directory.path().join("root");
        let mut cache = PathCache::default();
        let first = find(&mut cache, &root, "index.lua", path).cloned();
        assert_eq!(find(&mut cache, &root, "index.lua", path).cloned(), first, "{}", path.escape_ascii());
        first
    }

    #[test]
    fn scripts_are_found_and_the_rest_is_path_info() {
        let directory = tree();
        for (path, file, script_name, path_info) in [
            ("/app.lua", "app.lua", "/app.lua", ""),
            ("/app.lua/", "app.lua", "/app.lua", "/"),
            ("/app.lua/a/../b%00//.x", "app.lua", "/app.lua", "/a/../b%00//.x"),
            ("/app.lua/other.lua", "app.lua", "/app.lua", "/other.lua"),
            ("/%61pp%2elua/x", "app.lua", "/app.lua", "/x"),
            ("/", "index.lua", "/index.lua", ""),
            ("/shop/", "shop/index.lua", "/shop/index.lua", ""),
            ("/shop/a%20b.lua/%2F", "shop/a b.lua", "/shop/a b.lua", "/%2F"),
            ("/old.lua/page.lua/x", "old.lua/page.lua", "/old.lua/page.lua", "/x"),
            ("/within.lua", "shop/index.lua", "/within.lua", ""),
        ] {
            let found = look_up(&directory, path.as_bytes()).expect(path);
            let file = directory.path().join("root").join(file).canonicalize().expect(path);
            assert_eq!(&*found.script, &*file, "{path}");
            assert_eq!(found.script_name.as_deref(), Some(script_name.as_bytes()), "{path}");
            assert_eq!(&path[found.path_info_at..], path_info, "{path}");
        }
    }

    #[test]
    fn nothing_leads_out_of_the_root_or_to_another_kind_of_file() {
        let directory = tree();
        for path in [
            "",
            "*",
            "app.lua",
            "/nothing.lua",
            "/nothing",
            "/notes.txt",
            "/notes.txt/app.lua",
            "/app.lua.bak",
            "/plain/",
            "/plain",
            "/old.lua",
            "/old.lua/",
            "/../outside.lua",
            "/%2e%2e/outside.lua",
            "/..%2foutside.lua",
            "/shop/../app.lua",
            "/./app.lua",
            "//app.lua",
            "/shop//index.lua",
            "/shop%2Findex.lua",
            "/.hidden.lua",
            "/%2ehidden.lua",
            "/.git/hook.lua",
            "/way-out.lua",
            "/elsewhere/secret.lua",
            "/dangling.lua",
            "/app.lua%00",
            "/app.lua%00/x",
            "/app%2.lua",
            "/%zz/",
            "/app.lu%",
            "/\0.lua",
            "/shop/index.lua\0",
            "/APP.LUA",
        ] {
            assert_eq!(look_up(&directory, path.as_bytes()), Err(Missing::NotFound), "{path}");
        }
    }

    #[test]
    fn a_directory_needs_its_slash() {
        assert_eq!(look_up(&tree(), b"/shop"), Err(Missing::SlashMissing));
    }

    #[test]
    fn only_plain_spellings_of_what_exists_are_remembered() {
        let directory = tree();
        let root = directory.path().join("root");
        let mut cache = PathCache::default();
        for path in ["/app.lua", "/app.lua/a", "/app.lua/b", "/%61pp.lua", "/a%70p.lua/x", "/", "/nothing.lua", "/shop", "/x"] {
            let _ = find(&mut cache, &root, "index.lua", path.as_bytes());
        }
        let mut keys: Vec<_> = cache.found.keys().map(|key| key.escape_ascii().to_string()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["/", "/app.lua"]);
    }
}
