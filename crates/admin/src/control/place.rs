//! The default paths of control sockets: in a directory of the server's user, named after the server's process.

use super::liveness::answers;
use oribi_io::process::environment;
use rustix::fs::Mode;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The suffix of the names of control sockets.
const SUFFIX: &str = ".sock";

/// A running server, found by its control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The process id of its first process.
    pub pid: u32,
    /// The path of its control socket.
    pub path: PathBuf,
}

/// Returns the directories for control sockets of this user, the preferred one first.
fn candidates() -> Vec<PathBuf> {
    let variable = |name: &str| environment::variable_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = rustix::process::geteuid();
    // A service manager that creates several directories separates them by colons (systemd.exec(5)).
    let service = environment::variable("RUNTIME_DIRECTORY").and_then(|list| list.split(':').next().map(PathBuf::from));
    let service = service.filter(|path| path.is_absolute()).map(|path| path.join("oribi"));
    let session = variable("XDG_RUNTIME_DIR").map(|path| path.join("oribi"));
    let system = user.is_root().then(|| PathBuf::from("/run/oribi"));
    let temporary = PathBuf::from(format!("/tmp/oribi-{}", user.as_raw()));
    service.into_iter().chain(session).chain(system).chain([temporary]).collect()
}

/// Returns the directory for the control socket of this process. Creates the directory, accessible to this user only, if it
/// is missing.
///
/// # Errors
/// No directory is usable; the message contains the reasons.
pub(super) fn own_directory() -> Result<PathBuf, String> {
    let mut reasons = Vec::new();
    for path in candidates() {
        match make_private(&path) {
            Ok(()) => return Ok(path),
            Err(why) => reasons.push(format!("{}: {why}", path.display())),
        }
    }
    Err(reasons.join("; "))
}

/// Creates a directory that only this user can access. If it exists, checks that only this user can access it.
fn make_private(path: &Path) -> Result<(), String> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(io::Error::from(error).to_string()),
    }
    is_private(path)
}

/// Checks the owner and the permissions of a directory. Where all users may create directories, another user may have created
/// this one to intercept the server's clients.
fn is_private(path: &Path) -> Result<(), String> {
    let found = std::fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if found.mode() & 0o077 != 0 {
        return Err("other users may enter it".to_owned());
    }
    Ok(())
}

/// Returns the path of the control socket of a process.
pub(super) fn path_of(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}{SUFFIX}"))
}

/// Returns the running servers of this user, sorted by process id; for root, also those of other users that are services.
#[must_use]
pub fn find() -> Vec<Found> {
    let own = candidates().into_iter().filter(|path| is_private(path).is_ok());
    let services = if rustix::process::geteuid().is_root() { of_services(Path::new("/run")) } else { Vec::new() };
    let mut directories: Vec<PathBuf> = own.chain(services).collect();
    directories.sort();
    directories.dedup();
    let mut found: Vec<Found> = directories.iter().flat_map(|directory| sockets(directory)).collect();
    found.retain(|server| answers(&server.path));
    found.sort_by_key(|server| server.pid);
    found
}

/// Returns the directories that servers have in the runtime directories of their services, such as `/run/shop/oribi` and
/// `/run/oribi/shop/oribi`. Only root can create directories in `/run`, but for `/run/user`, in which users could pretend to be
/// the server of another process.
fn of_services(run: &Path) -> Vec<PathBuf> {
    let mut services = directories_in(run);
    services.retain(|service| *service != run.join("user"));
    let nested: Vec<PathBuf> = services.iter().flat_map(|service| directories_in(service)).collect();
    services.into_iter().chain(nested).map(|service| service.join("oribi")).filter(|path| is_directory(path)).collect()
}

fn directories_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_directory(path)).collect()
}

/// Whether it is a directory, and not a link to one.
fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Returns the control sockets in a directory.
fn sockets(directory: &Path) -> Vec<Found> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let pid = |path: &Path| path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok();
    paths.filter_map(|path| Some(Found { pid: pid(&path)?, path })).collect()
}

/// Removes the sockets of servers that have died.
pub(super) fn sweep(directory: &Path) {
    for stale in sockets(directory).into_iter().filter(|server| !answers(&server.path)) {
        // Another server may have removed the file at the same time.
        let _ = std::fs::remove_file(stale.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_dead_servers_have_left_is_swept_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let alive = UnixListener::bind(path_of(directory.path(), 7)).expect("it is writable");
        drop(UnixListener::bind(path_of(directory.path(), 8)).expect("it is writable"));
        drop(UnixListener::bind(directory.path().join("app.sock")).expect("it is writable"));
        sweep(directory.path());
        let mut left: Vec<_> =
            directory.path().read_dir().expect("it is there").map(|entry| entry.expect("an entry").file_name()).collect();
        left.sort();
        assert_eq!(left, ["7.sock", "app.sock"]);
        drop(alive);
    }

    #[test]
    fn root_finds_the_servers_of_services() {
        let run = tempfile::tempdir().expect("a directory");
        for service in ["shop/oribi", "oribi/blog/oribi", "nginx", "user/1000/oribi"] {
            std::fs::create_dir_all(run.path().join(service)).expect("it is writable");
        }
        std::os::unix::fs::symlink(run.path().join("shop"), run.path().join("link")).expect("it is writable");
        let mut found = of_services(run.path());
        found.sort();
        // `run/oribi` is a directory of sockets for root itself.
        assert_eq!(found, ["oribi/blog/oribi", "shop/oribi"].map(|service| run.path().join(service)));
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_used() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("oribi");
        assert_eq!(make_private(&path), Ok(()));
        assert_eq!(make_private(&path), Ok(()), "it is there already");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        assert_eq!(make_private(&path), Err("other users may enter it".to_owned()));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/", &link).expect("it is writable");
        assert_eq!(make_private(&link), Err("it is not a directory".to_owned()));
        assert!(make_private(Path::new("/nowhere/at/all")).is_err());
    }
}
