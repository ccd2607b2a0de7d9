//! The files that a script was loaded from, and a check whether they have changed.
//!
//! A file counts as unchanged if its fingerprint is the same: its times in nanoseconds, its size, device and inode number, and
//! its content. But times are coarse: a file system gives all writes within a few milliseconds the same time. So as long as the
//! last write is not older than such a tick, every check also compares the content. A check also compares the content if only
//! the time of the last change (ctime) differs, which no program can set: the file may have been renamed or linked, or written
//! by a program that resets the other time.
//!
//! A file may also be written while a script is being loaded. The loaded content is known if the file has not been written
//! since the load began, or if its content was the same before and after the load. Otherwise the file counts as changed, and
//! the script is loaded once more.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The time within which two writes may get the same time: twice the kernel's tick, which is at most ten milliseconds.
const TICK: Duration = Duration::from_millis(20);

/// The files of a script in their state at the load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    files: Vec<(PathBuf, Fingerprint)>,
}

/// The identity of a file's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fingerprint {
    /// The file did not exist, or could not be read.
    Absent,
    /// `settled`: the last write is so old that any later write gives the file another time.
    Present { state: FileState, content: u64, settled: bool },
    /// The file may have been written while it was being loaded, so the loaded content is unknown.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    /// The time of the last write, which programs can set.
    modified: (i64, i64),
    size: u64,
    number: u64,
    device: u64,
    /// The time of the last change to anything about the file.
    changed: (i64, i64),
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.size(),
            number: metadata.ino(),
            device: metadata.dev(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file was changed more than a tick before `time`.
    fn is_older_than(&self, time: SystemTime) -> bool {
        let time = (time - TICK).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanoseconds) = self.changed;
        i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds) < time.as_nanos() as i128
    }

    fn differs_in_change_only(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}

impl Dependencies {
    /// Returns the files that a script was loaded from. The load began at `since`, and `before` has the state of some of the
    /// files at that time.
    pub(crate) fn read(files: &[PathBuf], since: SystemTime, before: &Self) -> Self {
        let mut read = Self::default();
        for file in files {
            if !read.has(file) {
                read.files.push((file.clone(), Fingerprint::after_load(file, since, before.get(file))));
            }
        }
        read
    }

    /// The current state of a script that is about to be loaded, and of other files that it may load.
    pub(crate) fn before_load(script: &Path, others: Vec<PathBuf>, now: SystemTime) -> Self {
        let others = others.into_iter().filter(|file| file != script);
        let files = std::iter::once(script.to_owned()).chain(others);
        Self {
            files: files
                .map(|file| {
                    let now = Fingerprint::of(&file, now);
                    (file, now)
                })
                .collect(),
        }
    }

    /// Adds files that are not known yet.
    pub(crate) fn add(&mut self, more: Self) {
        for (file, fingerprint) in more.files {
            if !self.has(&file) {
                self.files.push((file, fingerprint));
            }
        }
    }

    /// Takes over the results of another check of the same files.
    pub(crate) fn adopt(&mut self, seen: Self) {
        for (file, fingerprint) in seen.files {
            if let Some((_, known)) = self.files.iter_mut().find(|(known, _)| *known == file) {
                *known = fingerprint;
            }
        }
    }

    /// Whether the script was loaded from this file.
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.get(file).is_some()
    }

    fn get(&self, file: &Path) -> Option<Fingerprint> {
        self.files.iter().find(|(known, _)| known == file).map(|(_, fingerprint)| *fingerprint)
    }

    /// The paths of the files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|(file, _)| file.clone()).collect()
    }

    /// Whether any file has changed.
    pub(crate) fn have_changed(&mut self) -> bool {
        self.files.iter_mut().any(|(file, fingerprint)| fingerprint.has_changed(file))
    }
}

impl Fingerprint {
    /// The state of a file at `now`, or shortly after.
    fn of(file: &Path, now: SystemTime) -> Self {
        let Some(state) = look_at(file) else { return Self::Absent };
        match read(file) {
            Some(content) => Self::Present { state, content, settled: state.is_older_than(now) },
            None => Self::Absent,
        }
    }

    /// The state of a file that was loaded at some time after `since`.
    fn after_load(file: &Path, since: SystemTime, before: Option<Self>) -> Self {
        let now = Self::of(file, SystemTime::now());
        let (Self::Present { state, content, .. }, before) = (now, before) else { return now };
        let same = matches!(before, Some(Self::Present { content: before, .. }) if before == content);
        if same || state.is_older_than(since) { now } else { Self::Unknown }
    }

    fn has_changed(&mut self, file: &Path) -> bool {
        let now = SystemTime::now();
        let seen = look_at(file);
        let Self::Present { state, content, settled } = self else { return seen.is_some() || *self == Self::Unknown };
        let Some(seen) = seen else { return true };
        if *settled && seen == *state {
            return false;
        }
        if !seen.differs_in_change_only(state) || read(file) != Some(*content) {
            return true;
        }
        *state = seen;
        *settled = seen.is_older_than(now);
        false
    }
}

fn look_at(file: &Path) -> Option<FileState> {
    fs::metadata(file).ok().map(|metadata| FileState::of(&metadata))
}

/// A hash of the file's content.
fn read(file: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(file).ok()?);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::thread;

    /// A directory, a file in it, and the file's state.
    fn known() -> (tempfile::TempDir, PathBuf, Dependencies) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("part.lua");
        fs::write(&file, "one").expect("written");
        let dependencies = Dependencies::before_load(&file, Vec::new(), SystemTime::now());
        (directory, file, dependencies)
    }

    /// Like `known`, for a file that is older than a tick.
    fn settled() -> (tempfile::TempDir, PathBuf, Dependencies) {
        let (directory, file, mut dependencies) = known();
        let is_settled = |dependencies: &mut Dependencies| {
            assert!(!dependencies.have_changed());
            matches!(dependencies.files[0].1, Fingerprint::Present { settled: true, .. })
        };
        while !is_settled(&mut dependencies) {
            thread::yield_now();
        }
        (directory, file, dependencies)
    }

    fn modified(file: &Path) -> SystemTime {
        fs::metadata(file).and_then(|metadata| metadata.modified()).expect("a time")
    }

    fn date(file: &Path, time: SystemTime) {
        File::options().write(true).open(file).expect("opened").set_modified(time).expect("dated");
    }

    /// Whether a check of these files finds a change.
    fn changed(dependencies: &Dependencies) -> bool {
        dependencies.clone().have_changed()
    }

    #[test]
    fn a_file_that_nobody_touches_has_not_changed() {
        assert!(!changed(&known().2));
        assert!(!changed(&settled().2));
        assert!(!changed(&Dependencies::default()));
    }

    #[test]
    fn a_change_within_the_same_second_is_noticed() {
        let (_directory, file, dependencies) = settled();
        let time = modified(&file);
        date(&file, time + Duration::from_nanos(1));
        assert!(changed(&dependencies));
    }

    #[test]
    fn a_change_within_the_same_tick_is_noticed_by_the_content() {
        let (_directory, file, dependencies) = known();
        let time = modified(&file);
        fs::write(&file, "two").expect("written");
        date(&file, time);
        assert!(changed(&dependencies));
    }

    #[test]
    fn a_change_by_somebody_who_sets_the_time_back_is_noticed() {
        let (_directory, file, dependencies) = settled();
        let time = modified(&file);
        fs::write(&file, "two").expect("written");
        date(&file, time);
        assert!(changed(&dependencies));
    }

    #[test]
    fn other_names_and_rights_of_a_file_are_no_change() {
        let (directory, file, mut dependencies) = settled();
        fs::hard_link(&file, directory.path().join("other")).expect("linked");
        assert!(!dependencies.have_changed());
        fs::write(&file, "two").expect("written");
        assert!(dependencies.have_changed());
    }

    #[test]
    fn a_file_that_was_written_while_it_was_loaded_has_changed() {
        let (_directory, file, before) = known();
        let files = std::slice::from_ref(&file);
        let since = SystemTime::now();
        fs::write(&file, "two").expect("written");
        assert!(changed(&Dependencies::read(files, since, &before)));
        assert!(changed(&Dependencies::read(files, since, &Dependencies::default())));
    }

    #[test]
    fn a_file_that_was_written_just_before_the_load_is_known_if_it_was_the_same_then() {
        let (_directory, file, before) = known();
        let files = std::slice::from_ref(&file);
        assert!(!changed(&Dependencies::read(files, SystemTime::now(), &before)));
        // Nothing was checked before the load, so the loaded content is uncertain.
        assert!(changed(&Dependencies::read(files, SystemTime::now(), &Dependencies::default())));
    }

    #[test]
    fn a_file_from_the_future_has_not_changed_until_it_does() {
        let (_directory, file, _) = known();
        let later = SystemTime::now() + Duration::from_secs(3600);
        date(&file, later);
        let dependencies = Dependencies::before_load(&file, Vec::new(), SystemTime::now());
        assert!(!changed(&dependencies));
        fs::write(&file, "two").expect("written");
        date(&file, later);
        assert!(changed(&dependencies));
    }

    #[test]
    fn files_that_go_come_or_are_exchanged_have_changed() {
        let (directory, file, dependencies) = settled();
        let other = directory.path().join("other");
        fs::write(&other, "one").expect("written");
        date(&other, modified(&file));
        fs::rename(&other, &file).expect("exchanged");
        assert!(changed(&dependencies));
        fs::remove_file(&file).expect("removed");
        assert!(changed(&dependencies));
        let absent = Dependencies::before_load(&file, Vec::new(), SystemTime::now());
        assert!(!changed(&absent));
        fs::write(&file, "back").expect("written");
        assert!(changed(&absent));
    }

    #[test]
    fn a_file_is_known_once() {
        let (_directory, file, mut dependencies) = known();
        let again = Dependencies::read(&[file.clone(), file.clone()], SystemTime::now(), &dependencies);
        dependencies.add(again);
        assert_eq!(dependencies.paths(), [file]);
    }
}
