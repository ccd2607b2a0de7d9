//! A directory: files are opened only below it.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The most tries for a path that changes during the look-up because something is renamed: the kernel then cannot determine
/// whether the path stays below the directory, and fails (openat2(2)).
const TRIES: usize = 16;

/// A directory, open since the start: it stays the root even if its name changes.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    /// Whether the kernel itself confines paths to a directory (openat2, Linux 5.6). Otherwise no symbolic link is followed.
    kernel_confines: bool,
}

/// The result of looking up a path below a root.
#[derive(Debug)]
pub enum Found {
    /// A regular file, open for reading, and its metadata.
    File(OwnedFd, Stat),
    /// The path is that of a directory.
    Directory,
}

/// The reason why nothing was found.
#[derive(Debug)]
pub enum NotFound {
    /// Nothing with this name exists, or nothing that may be served: a link that leads out, a device, a socket.
    Missing,
    /// The system does not let this process read the file.
    Forbidden,
    /// The look-up failed.
    Failed(io::Error),
}

impl From<Errno> for NotFound {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::INVAL => {
                Self::Missing
            }
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            other => Self::Failed(other.into()),
        }
    }
}

impl Root {
    /// Opens a directory. The path itself may contain symbolic links.
    ///
    /// # Errors
    /// An error of the system, or the path is not a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty())?;
        // A seccomp filter that does not know the call may make it fail with any error.
        let kernel_confines = openat2(&directory, ".", flags, Mode::empty(), confinement()).is_ok();
        Ok(Self { directory, kernel_confines })
    }

    /// Like [`Root::open`], with the path in the message of the error.
    pub(crate) fn open_named(path: &Path) -> io::Result<Self> {
        Self::open(path).map_err(|error| io::Error::new(error.kind(), format!("cannot open {}: {error}", path.display())))
    }

    /// Makes this root behave as on a kernel that does not confine paths.
    #[must_use]
    pub fn without_help_of_the_kernel(self) -> Self {
        Self { kernel_confines: false, ..self }
    }

    /// Opens the file at a path below this directory. [`crate::target::is_plain`] must have checked the path. Symbolic links
    /// are followed as long as they stay below the directory; if the kernel cannot confine paths, a path with a symbolic link
    /// counts as missing.
    ///
    /// # Errors
    /// See [`NotFound`].
    pub fn find(&self, path: &[u8]) -> Result<Found, NotFound> {
        // Opening a FIFO must not wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.open_below(path, flags)?;
        let status = fstat(&file)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(Found::File(file, status)),
            FileType::Directory => Ok(Found::Directory),
            _ => Err(NotFound::Missing),
        }
    }

    /// Opens a directory for reading its entries; as [`Root::find`].
    ///
    /// # Errors
    /// See [`NotFound`].
    pub fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, NotFound> {
        Ok(self.open_below(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?)
    }

    /// The metadata of a file or a directory, which need not be readable; as [`Root::find`].
    ///
    /// # Errors
    /// See [`NotFound`].
    pub fn status(&self, path: &[u8]) -> Result<Stat, NotFound> {
        let status = fstat(self.open_below(path, OFlags::PATH | OFlags::CLOEXEC)?)?;
        // Without the help of the kernel, a symbolic link itself was opened.
        if FileType::from_raw_mode(status.st_mode) == FileType::Symlink { Err(NotFound::Missing) } else { Ok(status) }
    }

    fn open_below(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let path = if path.is_empty() { b"." } else { path };
        if self.kernel_confines { self.open_confined(path, flags) } else { self.open_by_steps(path, flags) }
    }

    fn open_confined(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        for _ in 0..TRIES {
            match openat2(&self.directory, path, flags, Mode::empty(), confinement()) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    fn open_by_steps(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut inner: Option<OwnedFd> = None;
        let mut rest = path;
        while let Some(slash) = rest.iter().position(|byte| *byte == b'/') {
            let directory = inner.as_ref().unwrap_or(&self.directory);
            inner = Some(openat(directory, &rest[..slash], step, Mode::empty())?);
            rest = &rest[slash + 1..];
        }
        let directory = inner.as_ref().unwrap_or(&self.directory);
        openat(directory, rest, flags | OFlags::NOFOLLOW, Mode::empty())
    }
}

fn confinement() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn is_file(root: &Root, path: &str) -> bool {
        matches!(root.find(path.as_bytes()), Ok(Found::File(..)))
    }

    fn is_missing(root: &Root, path: &str) -> bool {
        matches!(root.find(path.as_bytes()), Err(NotFound::Missing))
    }

    fn with_site(act: impl Fn(&Path, &Root, bool)) {
        let place = tempfile::tempdir().expect("a directory is to be had");
        let site = place.path().join("site");
        fs::create_dir_all(site.join("inner")).expect("it is writable");
        for path in ["site/a", "site/inner/b", "outside"] {
            fs::write(place.path().join(path), path).expect("it is writable");
        }
        act(&site, &Root::open(&site).expect("it is there"), true);
        act(&site, &Root::open(&site).expect("it is there").without_help_of_the_kernel(), false);
    }

    fn link(target: &str, link: &Path) {
        let _ = fs::remove_file(link);
        symlink(target, link).expect("it is writable");
    }

    #[test]
    fn files_below_are_found_and_nothing_else_is() {
        with_site(|site, root, confined| {
            assert_eq!(root.kernel_confines, confined);
            assert!(is_file(root, "a") && is_file(root, "inner/b"));
            assert!(matches!(root.find(b"inner"), Ok(Found::Directory)));
            assert!(matches!(root.find(b"inner/"), Ok(Found::Directory)));
            assert!(matches!(root.find(b""), Ok(Found::Directory)));
            assert!(is_missing(root, "b") && is_missing(root, "a/b") && is_missing(root, "inner/a"));
            assert!(is_missing(root, &"x".repeat(300)) && is_missing(root, &"x/".repeat(3000)));
            let _listener = UnixListener::bind(site.join(if confined { "s1" } else { "s2" })).expect("it is writable");
            assert!(is_missing(root, "s1") || is_missing(root, "s2"));
        });
    }

    #[test]
    fn links_that_lead_out_are_not_followed() {
        with_site(|site, root, _| {
            for target in ["../outside", "/etc/passwd", "inner/../../outside", "/proc/self/exe"] {
                link(target, &site.join("link"));
                assert!(is_missing(root, "link"), "{target}");
            }
            link("..", &site.join("up"));
            assert!(is_missing(root, "up/outside"));
            link("/", &site.join("up"));
            assert!(is_missing(root, "up/etc/passwd"));
            link("loop", &site.join("loop"));
            assert!(is_missing(root, "loop"));
        });
    }

    #[test]
    fn links_that_stay_below_are_followed_where_the_kernel_sees_to_it() {
        with_site(|site, root, confined| {
            for (target, path) in [("a", "link"), ("inner", "link/b"), ("inner/../a", "link")] {
                link(target, &site.join("link"));
                assert_eq!(is_file(root, path), confined, "{target}");
            }
        });
    }

    #[test]
    fn a_fifo_and_a_device_keep_nobody_waiting() {
        with_site(|site, root, _| {
            let fifo = site.join("fifo");
            let _ = fs::remove_file(&fifo);
            let status = std::process::Command::new("mkfifo").arg(&fifo).status();
            assert!(status.is_ok_and(|status| status.success()));
            assert!(is_missing(root, "fifo"));
            let directory = Root::open(Path::new("/dev")).expect("it is there").directory;
            let device = Root { directory, kernel_confines: root.kernel_confines };
            assert!(is_missing(&device, "null"));
        });
    }

    #[test]
    fn the_root_stays_the_one_that_was_opened() {
        with_site(|site, root, _| {
            let moved = site.with_file_name("moved");
            fs::rename(site, &moved).expect("it is writable");
            assert!(is_file(root, "a"));
            fs::rename(&moved, site).expect("it is writable");
        });
    }
}
