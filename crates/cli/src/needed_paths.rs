//! Checks the files and directories that a configuration file names.

use crate::routes::{Disk, RealDisk};
use oribi_config_file::{NamedPath, NeededPath, PathKind, Review, did_you_mean};
use oribi_server::directory::absolute;
use oribi_server::routes::UserFile;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The most names of a directory that are compared with a missing one.
const COMPARED: usize = 1000;

/// Checks the paths in routes and in `[defaults]`.
pub fn check(needed: &[NeededPath], review: &mut Review) {
    for NeededPath { path, key, kind } in needed {
        let shown = path.quoted();
        let checked = match kind {
            PathKind::Directory => directory(&path.path).map_err(|why| format!("{why}: {shown}")),
            PathKind::Page => RealDisk.page(&path.path).map(drop).map_err(|why| format!("{shown}: {why}")),
            PathKind::Users { weak } => users(path, *weak),
        };
        if let Err(why) = checked {
            review.mistake(&path.place, format!("{key}: {why}"), suggestion(path, review));
        }
    }
}

/// Checks that there is a directory.
///
/// # Errors
/// The reason, which the path may follow.
pub fn directory(path: &Path) -> Result<(), String> {
    // An empty path is the current directory.
    let looked = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match looked.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err("not a directory".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("there is no such directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn users(named: &NamedPath, weak: bool) -> Result<(), String> {
    let path = absolute(&named.path).unwrap_or_else(|_| named.path.clone());
    let read = RealDisk.users(&path).and_then(|content| UserFile::new(&path, &content, weak).map(drop));
    read.map_err(|why| if named.from_environment { why.replace(&*path.to_string_lossy(), "***") } else { why })
}

/// The path that is probably meant by one at which there is nothing.
pub fn suggestion(named: &NamedPath, review: &Review) -> Option<String> {
    if named.from_environment || review.is_long() || named.path.exists() {
        return None;
    }
    let folder = Path::new(&*named.place.path).parent().unwrap_or(Path::new(""));
    let whole = absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).unwrap_or_default();
    let written = |path: &Path| {
        let inside = path.strip_prefix(&whole).or_else(|_| path.strip_prefix(folder));
        inside.unwrap_or(path).to_path_buf()
    };
    if let Some(closest) = closest(&named.path).filter(|_| !written(&named.path).starts_with("~")) {
        return did_you_mean_path(&written(&closest));
    }
    let path = written(&named.path);
    if path.starts_with("~") {
        return Some("write ${HOME} for the home directory".to_owned());
    }
    let is_here = path.is_relative() && !folder.as_os_str().is_empty() && path.exists();
    is_here.then(|| format!("paths begin in the folder of {}, not in the current one", named.place.path))
}

fn did_you_mean_path(path: &Path) -> Option<String> {
    let path = path.to_str().filter(|path| !path.chars().any(char::is_control))?;
    Some(format!("did you mean `{path}`?"))
}

/// The path with another name for the first part that does not exist.
fn closest(path: &Path) -> Option<PathBuf> {
    let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).last()?;
    let folder = missing.parent()?;
    let readable = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = readable.read_dir().ok()?.take(COMPARED).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    let name = did_you_mean(missing.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    let name = name.split('`').nth(1)?;
    let rest = path.strip_prefix(missing).ok()?;
    let mut found = folder.join(name);
    found.extend(rest);
    found.exists().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_path_that_is_missing_is_compared_with_its_neighbours() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("shop/public")).expect("it is ours");
        std::fs::write(at("shop/app.psgi"), "").expect("it is ours");
        for (path, expected) in [
            ("shop/apps.psgi", Some("shop/app.psgi")),
            ("shp/app.psgi", Some("shop/app.psgi")),
            ("shop/publik", Some("shop/public")),
            ("shp/other.psgi", None),
            ("elsewhere/app.psgi", None),
        ] {
            assert_eq!(closest(&at(path)), expected.map(at), "{path}");
        }
        assert!(directory(&at("shop")).is_ok());
        assert_eq!(directory(&at("shop/app.psgi")).expect_err("a file"), "not a directory");
        assert_eq!(directory(&at("shp")).expect_err("missing"), "there is no such directory");
    }
}
