//! Watches the files of an app, to reload it when one of them changes, for development.
//!
//! This process uses the kernel's inotify directly, and reads it in its event loop. A crate for this would start a thread, and
//! the processes that fork edges and workers must not have other threads.

mod names;
pub(super) mod trail;

use oribi_config::Settings;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time without changes after which the app is loaded: an editor writes a file in several steps, and a checkout writes many
/// files.
const QUIET: Duration = Duration::from_millis(200);

/// The time after the first change after which the app is loaded in spite of further changes.
const LONGEST: Duration = Duration::from_secs(2);

/// The depth to which folders are watched: deeper ones hardly belong to an app, and a loop of mounts ends there.
const DEPTH: usize = 32;

/// A folder that is watched.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    depth: usize,
    /// The name of the only file in the folder that counts. `None` if everything in the folder and below it counts.
    only: Option<OsString>,
}

/// A change since the last load of the app.
#[derive(Debug)]
struct PendingChange {
    path: PathBuf,
    first: Instant,
    last: Instant,
}

/// The watched folders, and the pending change.
#[derive(Debug)]
pub(super) struct Watch {
    inotify: OwnedFd,
    /// The folders, by the kernel's watch number.
    folders: HashMap<i32, Folder>,
    change: Option<PendingChange>,
}

/// Begins to watch the paths of `settings`. `None` without paths, or if the system refuses, which is logged.
pub(super) fn begin(settings: &Settings) -> Option<Watch> {
    let life = &settings.life;
    if !life.watch {
        return None;
    }
    let watch = Watch::new(&life.watched);
    let paths = life.watched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    match &watch {
        Ok(_) => log::info!("watching {paths}: a change reloads the app"),
        Err(error) => log::error!("cannot watch {paths}: {error} (see sysctl fs.inotify)"),
    }
    watch.ok()
}

/// Whether the app must be loaded because of a change. Logs that change.
pub(super) fn look(watch: Option<&mut Watch>) -> bool {
    let changed = watch.and_then(|watch| watch.take_change(Instant::now()));
    if let Some(path) = &changed {
        log::info!("{} has changed", path.display());
    }
    changed.is_some()
}

impl Watch {
    /// Watches files, and folders with everything below. Logs paths that cannot be watched.
    ///
    /// # Errors
    /// The system has no room for another inotify instance.
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watch = Self { inotify, folders: HashMap::new(), change: None };
        for path in paths {
            // A link to a folder is replaced by that folder.
            let real = path.canonicalize().inspect_err(|error| log::error!("cannot watch {}: {error}", path.display()));
            let Ok(real) = real else { continue };
            match (real.is_dir(), path.parent(), path.file_name()) {
                (true, ..) => watch.add(real, 0),
                // Editors replace a file by a new file, so the folder is watched instead of the file.
                (false, Some(parent), Some(name)) => {
                    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    watch.add_one(Folder { path: parent.to_owned(), depth: DEPTH, only: Some(name.to_owned()) });
                }
                _ => {}
            }
        }
        Ok(watch)
    }

    /// Returns the descriptor that is readable when there are changes.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Returns the first changed file when no further changes have followed for some time. Must be called whenever the
    /// descriptor is readable, and when the time of [`Watch::wait`] has passed.
    pub(super) fn take_change(&mut self, now: Instant) -> Option<PathBuf> {
        self.read(now);
        let due = |change: &mut PendingChange| now >= change.last + QUIET || now >= change.first + LONGEST;
        self.change.take_if(due).map(|change| change.path)
    }

    /// Returns the time until [`Watch::take_change`] returns the change. `None` without a change.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let change = self.change.as_ref()?;
        Some((change.last + QUIET).min(change.first + LONGEST).saturating_duration_since(now))
    }

    fn read(&mut self, now: Instant) {
        let mut found = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        {
            let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                        found.push((event.wd(), event.events(), name));
                    }
                    Err(Errno::INTR) => {}
                    // No more events for now.
                    Err(_) => break,
                }
            }
        }
        for (number, events, name) in found {
            self.take_note(number, events, name.as_deref(), now);
        }
    }

    fn take_note(&mut self, number: i32, events: ReadFlags, name: Option<&OsStr>, now: Instant) {
        if events.contains(ReadFlags::IGNORED) {
            self.folders.remove(&number);
            return;
        }
        let Some(folder) = self.folders.get(&number) else {
            if events.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.changed(PathBuf::from("something"), now);
            }
            return;
        };
        let Some(name) = name else { return };
        let path = folder.path.join(name);
        if folder.only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        if !events.contains(ReadFlags::ISDIR) {
            if folder.only.is_some() || !names::is_ignored_file(name) {
                self.changed(path, now);
            }
        } else if !names::is_ignored_folder(name) && folder.only.is_none() {
            let depth = folder.depth + 1;
            if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                // Files may have been created in the folder before it was watched.
                self.add(path.clone(), depth);
            }
            self.changed(path, now);
        }
    }

    fn changed(&mut self, path: PathBuf, now: Instant) {
        match &mut self.change {
            Some(change) => change.last = now,
            None => self.change = Some(PendingChange { path, first: now, last: now }),
        }
    }

    /// Watches a folder and everything below it.
    fn add(&mut self, path: PathBuf, depth: usize) {
        let mut waiting = vec![(path, depth)];
        while let Some((path, depth)) = waiting.pop() {
            if !self.add_one(Folder { path: path.clone(), depth, only: None }) {
                return;
            }
            // A folder that has been removed in the meantime has nothing below it.
            let entries = fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let folders = folders.filter(|entry| depth < DEPTH && !names::is_ignored_folder(&entry.file_name()));
            waiting.extend(folders.map(|entry| (entry.path(), depth + 1)));
        }
    }

    /// Watches a single folder. Returns whether the system permits more watches.
    fn add_one(&mut self, folder: Folder) -> bool {
        let changes = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB | WatchFlags::CREATE | WatchFlags::DELETE;
        let events = changes | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        match inotify::add_watch(&self.inotify, &folder.path, events) {
            Ok(number) => {
                // The same folder may be watched as a whole and for a single file. Then it counts as a whole.
                if folder.only.is_none() || !self.folders.contains_key(&number) {
                    self.folders.insert(number, folder);
                }
                true
            }
            Err(Errno::NOSPC) => {
                let path = folder.path.display();
                log::error!(
                    "cannot watch {path} and others: there are no more watches for this user (sysctl fs.inotify.max_user_watches); \
                     --reload-path watches less"
                );
                false
            }
            Err(Errno::NOENT | Errno::NOTDIR) => true,
            Err(error) => {
                log::warn!("cannot watch {}: {}", folder.path.display(), io::Error::from(error));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a watch of `paths` after `act`.
    fn after(paths: &[PathBuf], act: impl FnOnce()) -> Option<PathBuf> {
        let mut watch = Watch::new(paths).expect("the system allows it");
        let now = Instant::now();
        assert_eq!((watch.take_change(now), watch.wait(now)), (None, None));
        act();
        assert_eq!(watch.take_change(now), None, "it may not be over");
        let wait = watch.wait(now)?;
        assert_eq!(wait, QUIET);
        let changed = watch.take_change(now + QUIET);
        assert_eq!(watch.take_change(now + LONGEST), None, "once");
        changed
    }

    #[test]
    fn changes_below_a_folder_are_seen_and_those_that_say_nothing_are_not() {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        let root = directory.path().canonicalize().expect("it is there");
        for folder in ["lib/App", ".git", "tmp/cache", "log"] {
            fs::create_dir_all(root.join(folder)).expect("it is new");
        }
        fs::write(root.join("lib/App/View.pm"), "1").expect("it is writable");
        let paths = [root.clone()];
        let write = |name: &str| {
            let path = root.join(name);
            move || fs::write(path, "2").expect("it is writable")
        };
        for (name, counts) in [
            ("app.psgi", true),
            ("lib/App/View.pm", true),
            ("lib/App/.View.pm.swp", false),
            ("lib/App/View.pm~", false),
            (".git/index", false),
            ("tmp/cache/x", false),
            ("log/development.log", false),
            ("app.db-journal", false),
        ] {
            assert_eq!(after(&paths, write(name)), counts.then(|| root.join(name)), "{name}");
        }
        let rename = || fs::rename(root.join("app.psgi"), root.join("lib/other.psgi")).expect("it is there");
        assert_eq!(after(&paths, rename), Some(root.join("app.psgi")));
        let read = || assert_eq!(fs::read(root.join("lib/other.psgi")).expect("it is there"), b"2");
        assert_eq!(after(&paths, read), None);
        let remove = || fs::remove_file(root.join("lib/other.psgi")).expect("it is there");
        assert_eq!(after(&paths, remove), Some(root.join("lib/other.psgi")));
    }

    #[test]
    fn folders_that_come_later_are_watched_too() {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        let root = directory.path().canonicalize().expect("it is there");
        let mut watch = Watch::new(std::slice::from_ref(&root)).expect("the system allows it");
        let now = Instant::now();
        fs::create_dir_all(root.join("a/b")).expect("it is new");
        assert_eq!(watch.take_change(now), None);
        assert_eq!(watch.take_change(now + QUIET), Some(root.join("a")));
        fs::write(root.join("a/b/c.rb"), "1").expect("it is writable");
        assert_eq!(watch.take_change(now + QUIET), None);
        assert_eq!(watch.take_change(now + QUIET * 2), Some(root.join("a/b/c.rb")));
    }

    #[test]
    fn a_file_is_watched_alone_and_an_endless_change_does_not_wait_for_its_end() {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        let (one, other) = (directory.path().join("one.lua"), directory.path().join("other.lua"));
        fs::write(&one, "1").expect("it is writable");
        let paths = [one.clone()];
        assert_eq!(after(&paths, || fs::write(&other, "1").expect("it is writable")), None);
        let replace = || fs::rename(&other, &one).expect("it is there");
        assert_eq!(after(&paths, replace), Some(one.clone()));
        let mut watch = Watch::new(&paths).expect("the system allows it");
        let start = Instant::now();
        for step in 0..20 {
            fs::write(&one, "2").expect("it is writable");
            assert_eq!(watch.take_change(start + QUIET * step / 2), None);
        }
        fs::write(&one, "3").expect("it is writable");
        assert_eq!(watch.take_change(start + LONGEST), Some(one));
    }
}
