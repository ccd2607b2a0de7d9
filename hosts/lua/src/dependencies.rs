//! The files that a script was made of, and whether they are still the same.
//!
//! A file is known by its time of change in nanoseconds, its size and its number. Times are coarse, though: a file system stamps
//! what is written within a few milliseconds with the same time, and a file can be changed while it is being read. So a file whose
//! time is not safely before the beginning of the load is compared by its content, and one that was changed since has changed for
//! sure.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How coarse the times of files can be: the kernel's tick is ten milliseconds at most.
const TICK: Duration = Duration::from_millis(20);

/// The files of a script, as they were when it was loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    files: Vec<(PathBuf, Fingerprint)>,
}

/// What a file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fingerprint {
    /// It was not there, or could not be read.
    Absent,
    /// It was written long enough before it was read.
    Settled(Stamp),
    /// It was written just before: its content counts, too.
    Recent(Stamp, u64),
    /// It was written while it was being read: nobody knows what was read.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    changed: (i64, i64),
    size: u64,
    number: u64,
    device: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.size(),
            number: metadata.ino(),
            device: metadata.dev(),
        }
    }
}

impl Dependencies {
    /// Adds files that were loaded after `loaded_at`, but for those that are known.
    pub(crate) fn add(&mut self, files: &[PathBuf], loaded_at: SystemTime) {
        for file in files {
            if !self.files.iter().any(|(known, _)| known == file) {
                self.files.push((file.clone(), Fingerprint::take(file, loaded_at)));
            }
        }
    }

    /// The script was loaded anew, from these files.
    pub(crate) fn replace(&mut self, files: &[PathBuf], loaded_at: SystemTime) {
        self.files.clear();
        self.add(files, loaded_at);
    }

    /// What the files are now, and `more` that were loaded with them, is not to be tried again.
    pub(crate) fn accept(&mut self, more: &[PathBuf], tried_at: SystemTime) {
        for (file, fingerprint) in &mut self.files {
            *fingerprint = Fingerprint::take(file, tried_at);
        }
        self.add(more, tried_at);
    }

    /// Whether a file is not what it was.
    pub(crate) fn changed(&self) -> bool {
        self.files.iter().any(|(file, fingerprint)| !fingerprint.fits(file))
    }
}

impl Fingerprint {
    /// The fingerprint of a file that was read some time after `read_at`.
    fn take(file: &Path, read_at: SystemTime) -> Self {
        let Ok(metadata) = fs::metadata(file) else { return Self::Absent };
        let stamp = Stamp::of(&metadata);
        match metadata.modified() {
            // A time that has not come yet says nothing.
            Ok(time) if (read_at..=SystemTime::now()).contains(&time) => Self::Unknown,
            Ok(time) if time + TICK < read_at => Self::Settled(stamp),
            _ => content(file).map_or(Self::Absent, |content| Self::Recent(stamp, content)),
        }
    }

    fn fits(self, file: &Path) -> bool {
        let now = fs::metadata(file).ok().map(|metadata| Stamp::of(&metadata));
        match self {
            Self::Absent => now.is_none(),
            Self::Settled(stamp) => now == Some(stamp),
            Self::Recent(stamp, known) => now == Some(stamp) && content(file) == Some(known),
            Self::Unknown => false,
        }
    }
}

fn content(file: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(file).ok()?);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A directory, a file in it that was written so long ago, and dependencies that know it as of now.
    fn known(written_ago: Duration) -> (tempfile::TempDir, PathBuf, Dependencies) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("part.lua");
        fs::write(&file, "one").expect("written");
        let now = SystemTime::now();
        date(&file, now - written_ago);
        let mut dependencies = Dependencies::default();
        dependencies.add(std::slice::from_ref(&file), now);
        (directory, file, dependencies)
    }

    fn date(file: &Path, time: SystemTime) {
        File::options().write(true).open(file).expect("opened").set_modified(time).expect("dated");
    }

    #[test]
    fn a_file_that_nobody_touches_has_not_changed() {
        for ago in [Duration::from_secs(60), Duration::from_millis(5)] {
            assert!(!known(ago).2.changed());
        }
        assert!(!Dependencies::default().changed());
    }

    #[test]
    fn a_change_within_the_same_second_is_noticed() {
        let (_directory, file, dependencies) = known(Duration::from_secs(1));
        let time = fs::metadata(&file).and_then(|metadata| metadata.modified()).expect("a time");
        fs::write(&file, "two").expect("written");
        date(&file, time + Duration::from_nanos(1));
        assert!(dependencies.changed());
    }

    #[test]
    fn a_change_within_the_same_tick_is_noticed_by_the_content() {
        let (_directory, file, dependencies) = known(Duration::from_millis(5));
        let time = fs::metadata(&file).and_then(|metadata| metadata.modified()).expect("a time");
        fs::write(&file, "two").expect("written");
        date(&file, time);
        assert!(dependencies.changed());
    }

    #[test]
    fn a_file_that_was_written_while_it_was_read_has_changed() {
        let (_directory, file, _) = known(Duration::from_secs(60));
        let mut dependencies = Dependencies::default();
        let begun = SystemTime::now() - Duration::from_secs(5);
        date(&file, begun + Duration::from_secs(1));
        dependencies.add(std::slice::from_ref(&file), begun);
        assert!(dependencies.changed());
    }

    #[test]
    fn a_file_from_the_future_has_not_changed_until_it_does() {
        let (_directory, file, mut dependencies) = known(Duration::from_secs(60));
        let later = SystemTime::now() + Duration::from_secs(3600);
        date(&file, later);
        dependencies.accept(&[], SystemTime::now());
        assert!(!dependencies.changed());
        fs::write(&file, "two").expect("written");
        date(&file, later);
        assert!(dependencies.changed());
    }

    #[test]
    fn files_that_go_come_or_are_exchanged_have_changed() {
        let (directory, file, mut dependencies) = known(Duration::from_secs(60));
        let time = fs::metadata(&file).and_then(|metadata| metadata.modified()).expect("a time");
        let other = directory.path().join("other");
        fs::write(&other, "one").expect("written");
        date(&other, time);
        fs::rename(&other, &file).expect("exchanged");
        assert!(dependencies.changed());
        dependencies.accept(&[], SystemTime::now());
        assert!(!dependencies.changed());
        fs::remove_file(&file).expect("removed");
        assert!(dependencies.changed());
        dependencies.accept(&[], SystemTime::now());
        assert!(!dependencies.changed());
        fs::write(&file, "back").expect("written");
        assert!(dependencies.changed());
    }

    #[test]
    fn a_file_is_known_once() {
        let (_directory, file, mut dependencies) = known(Duration::from_secs(60));
        dependencies.add(&[file.clone(), file], SystemTime::now());
        assert_eq!(dependencies.files.len(), 1);
    }
}
