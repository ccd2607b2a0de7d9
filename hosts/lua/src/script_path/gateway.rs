//! Finds a script from the web server's SCRIPT_FILENAME.

use super::{Found, Missing, PathCache, as_path, file_below};
use std::path::Path;
use std::sync::Arc;

/// Finds the script that the web server names. If there is a `root`, the script must be below it.
pub(super) fn find<'c>(cache: &'c mut PathCache, root: Option<&Path>, name: &[u8]) -> Result<&'c Found, Missing> {
    if cache.found.contains_key(name) {
        return cache.found.get(name).ok_or(Missing::NotFound);
    }
    let file = without_proxy(name);
    if file.is_empty() {
        return Err(Missing::NoScriptFilename);
    }
    if file.contains(&0) {
        return Err(Missing::NotFound);
    }
    let script = match root {
        Some(root) => file_below(root, as_path(file)),
        None => file_anywhere(as_path(file)),
    };
    let found = Found { script: script.ok_or(Missing::NotFound)?, script_name: None, path_info_at: 0 };
    Ok(cache.keep(name, found))
}

fn file_anywhere(path: &Path) -> Option<Arc<Path>> {
    let file = path.canonicalize().ok()?;
    file.metadata().ok()?.is_file().then(|| file.into())
}

/// Returns the path of the file in a SCRIPT_FILENAME of Apache's ProxyPass, such as `proxy:fcgi://127.0.0.1:9000/srv/app.lua`
/// or `proxy:unix:/run/lua.sock|fcgi://localhost/srv/app.lua`. A query may follow the path, and is removed.
fn without_proxy(name: &[u8]) -> &[u8] {
    let Some(rest) = name.strip_prefix(b"proxy:") else { return name };
    let rest = rest.strip_prefix(b"unix:").and_then(|rest| Some(&rest[memchr::memchr(b'|', rest)? + 1..])).unwrap_or(rest);
    let authority = memchr::memmem::find(rest, b"://").map_or(rest, |at| &rest[at + 3..]);
    let path = memchr::memchr(b'/', authority).map_or(&b""[..], |at| &authority[at..]);
    memchr::memchr(b'?', path).map_or(path, |at| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn what_apache_puts_before_the_path_is_taken_off() {
        for (name, path) in [
            ("/srv/app.lua", "/srv/app.lua"),
            ("/srv/what?.lua", "/srv/what?.lua"),
            ("proxy:fcgi://127.0.0.1:9000/srv/app.lua", "/srv/app.lua"),
            ("proxy:fcgi://[::1]:9000/srv/app.lua?a=/b", "/srv/app.lua"),
            ("proxy:unix:/run/lua.sock|fcgi://localhost/srv/app.lua", "/srv/app.lua"),
            ("proxy:balancer://lua/srv/app.lua", "/srv/app.lua"),
            ("proxy:fcgi://127.0.0.1:9000", ""),
            ("proxy:", ""),
            ("", ""),
        ] {
            assert_eq!(without_proxy(name.as_bytes()), path.as_bytes(), "{name}");
        }
    }

    #[test]
    fn the_web_server_names_a_file_and_a_root_bounds_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path").join("root");
        let (inside, outside) = (root.join("app.lua"), root.with_file_name("outside.lua"));
        fs::create_dir(&root).expect("created");
        fs::write(&inside, "").expect("written");
        fs::write(&outside, "").expect("written");
        let mut cache = PathCache::default();
        let mut look_up = |root: Option<&Path>, name: &[u8]| {
            let found = find(&mut cache, root, name).map(|found| found.script.to_path_buf());
            cache.found.clear();
            found
        };
        assert_eq!(look_up(None, outside.as_os_str().as_bytes()), Ok(outside.clone()));
        assert_eq!(look_up(Some(&root), inside.as_os_str().as_bytes()), Ok(inside));
        assert_eq!(look_up(Some(&root), outside.as_os_str().as_bytes()), Err(Missing::NotFound));
        let climbing = [root.as_os_str().as_bytes(), b"/../outside.lua"].concat();
        assert_eq!(look_up(Some(&root), &climbing), Err(Missing::NotFound));
        assert_eq!(look_up(None, root.as_os_str().as_bytes()), Err(Missing::NotFound));
        assert_eq!(look_up(None, b"/srv/\0"), Err(Missing::NotFound));
        assert_eq!(look_up(None, b""), Err(Missing::NoScriptFilename));
    }

    #[test]
    fn spellings_without_end_are_not_remembered_without_end() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("a"), "").expect("written");
        let mut cache = PathCache::default();
        for number in 0..5000 {
            let name = format!("proxy:fcgi://localhost{}/a?{number}", directory.path().display());
            assert!(find(&mut cache, None, name.as_bytes()).is_ok());
        }
        assert!(cache.found.len() < 5000, "{}", cache.found.len());
    }
}
