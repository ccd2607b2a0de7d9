//! The working directory of a server, by the path under which its user knows it.
//!
//! Deployment tools put each release into a separate directory and point a symbolic link to the current release. The system
//! knows the working directory of a process only as the target of that link; the path with the link is only in `PWD`.

use super::masked::masked;
use oribi_io::process::environment;
use rustix::fs::{Access, access, stat};
use std::borrow::Cow;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The variable in which shells and service managers pass the working directory.
const PWD: &str = "PWD";

/// The variable in which `bundle exec` passes its Gemfile, found from the directory that the system knows.
const GEMFILE: &str = "BUNDLE_GEMFILE";

/// A working directory, recorded while this process was in it.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// The path, unless the directory is gone or cannot be read.
    path: Option<PathBuf>,
    /// The Gemfile, by a path through the same link.
    gemfile: Option<PathBuf>,
}

impl Directory {
    /// The working directory of this process.
    pub fn current() -> Self {
        let path = current().ok();
        let gemfile = path.as_deref().and_then(|path| {
            let named = PathBuf::from(environment::variable_os(GEMFILE)?);
            over_link(&named, &std::env::current_dir().ok()?, path)
        });
        Self { path, gemfile }
    }

    /// The directory with this path, without a Gemfile.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), gemfile: None }
    }

    /// The path, if the directory can be entered at this moment.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| path.is_dir() && access(*path, Access::EXEC_OK).is_ok())
    }

    /// The path, even if the directory no longer exists.
    pub fn name(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Enters the directory by its path. The path may lead to another directory than at the start, if a symbolic link in it has
    /// changed. If the directory cannot be entered, this logs a warning, and the working directory stays the same.
    pub fn enter(&self) {
        if let Some(path) = self.path()
            && let Err(error) = std::env::set_current_dir(path)
        {
            log::warn!("cannot change to {}: {error}", path.display());
        }
    }

    /// Sets the working directory of a program by `PWD`, and the path of its Gemfile by `BUNDLE_GEMFILE`. Sets only those that
    /// still exist.
    pub fn describe_to(&self, command: &mut Command) {
        if let Some(path) = self.path() {
            command.env(PWD, path);
        }
        if let Some(gemfile) = self.gemfile.as_ref().filter(|gemfile| gemfile.is_file()) {
            command.env(GEMFILE, gemfile);
        }
    }
}

/// Returns the working directory of this process: the path in `PWD` if it leads to that directory, otherwise the path that the
/// system knows.
///
/// # Errors
/// The directory is gone, or cannot be read.
pub(crate) fn current() -> io::Result<PathBuf> {
    let named = environment::variable_os(PWD).map(PathBuf::from).filter(|path| is_plain(path) && is_same(path, Path::new(".")));
    named.map_or_else(std::env::current_dir, Ok)
}

/// Returns an absolute path to the same file. Symbolic links in `path`, and in the `PWD` of this process, are kept.
///
/// # Errors
/// The current directory is gone or cannot be read, or `path` is empty.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    if path.is_absolute() || path.as_os_str().is_empty() {
        return std::path::absolute(path);
    }
    std::path::absolute(current()?.join(path))
}

/// Returns a path for a message. A secret that was taken for the name of a file below the working directory is masked.
#[must_use]
pub fn masked_path(path: &Path) -> String {
    let current = current();
    let given = current.ok().and_then(|current| path.strip_prefix(current).ok()).unwrap_or(path).to_string_lossy();
    match masked(&given) {
        Cow::Owned(masked) => masked,
        Cow::Borrowed(_) => path.display().to_string(),
    }
}

/// Whether PWD may be this path (POSIX, 8.3).
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((stat(one), stat(other)), (Ok(one), Ok(other)) if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Returns the path of `file` with its prefix `real` replaced by `named`; both are paths to the same directory. `file` may also
/// be above that directory, if it is still below the link in `named`. `None` if there is no such path to `file`.
fn over_link(file: &Path, real: &Path, named: &Path) -> Option<PathBuf> {
    let (mut real, mut named) = (real, named);
    // The file may be above the directory, and still below the link.
    while real != named {
        if let Ok(rest) = file.strip_prefix(real) {
            return Some(named.join(rest)).filter(|path| is_same(path, file));
        }
        if real.file_name() != named.file_name() {
            return None;
        }
        (real, named) = (real.parent()?, named.parent()?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_named_by_the_link_that_leads_to_it() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("releases/1/web")).expect("the folder is ours");
        std::fs::write(at("releases/1/Gemfile"), "").expect("the folder is ours");
        std::fs::write(at("Gemfile"), "").expect("the folder is ours");
        symlink("releases/1", at("current")).expect("the folder is ours");
        let (file, outside) = (at("releases/1/Gemfile"), at("Gemfile"));
        let (real, link) = (at("releases/1"), at("current"));
        assert_eq!(over_link(&file, &real, &link), Some(at("current/Gemfile")));
        assert_eq!(over_link(&file, &real.join("web"), &link.join("web")), Some(at("current/Gemfile")), "above the directory");
        assert_eq!(over_link(&file, &real, &real), None, "there is no link");
        assert_eq!(over_link(&outside, &real, &link), None, "it is not in the release");
        assert_eq!(over_link(&at("releases/1/none"), &real, &link), None);
    }

    #[test]
    fn a_directory_that_is_gone_or_unnamed_changes_nothing() {
        let before = std::env::current_dir().expect("it is there");
        let mut command = Command::new("true");
        for path in [None, Some("/nowhere/at/all".into())] {
            let directory = Directory { path, gemfile: Some("/nowhere/Gemfile".into()) };
            directory.enter();
            directory.describe_to(&mut command);
        }
        assert_eq!(command.get_envs().count(), 0);
        assert_eq!(std::env::current_dir().expect("it is there"), before);
    }

    #[test]
    fn names_with_dots_say_nothing() {
        assert!(is_plain(Path::new("/srv/current")) && !is_plain(Path::new("srv")) && !is_plain(Path::new("/srv/../x")));
    }

    #[test]
    fn paths_become_absolute() {
        assert_eq!(absolute(Path::new("/a/./b")).expect("it is absolute"), Path::new("/a/b"));
        assert!(absolute(Path::new("x")).expect("there is a directory").ends_with("x"));
        assert!(absolute(Path::new("")).is_err());
    }
}
