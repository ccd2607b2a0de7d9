//! Watches the file of the server and those that it includes. When nothing has changed for some time after a change, they are
//! compared with those that were read last.

use super::super::app::Sources;
use super::super::watch::trail::Trails;
use super::super::watched_files::{FileIdentity, identity_of};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The time without changes after which the file is applied: an editor writes a file in several steps, and a deployment writes
/// several files.
const QUIET: Duration = Duration::from_millis(500);

/// The time after the first change after which the file is applied in spite of further changes.
const LONGEST: Duration = Duration::from_secs(10);

/// The watched files.
pub(super) struct FileWatch {
    trails: Trails,
    /// The files that were read last.
    read: Vec<(PathBuf, FileIdentity)>,
    /// The times of the first and the last change since then.
    changed: Option<(Instant, Instant)>,
}

fn identities(files: &[PathBuf]) -> Vec<(PathBuf, FileIdentity)> {
    files.iter().map(|file| (file.clone(), identity_of(file))).collect()
}

impl FileWatch {
    /// Watches files that have just been read.
    fn new(Sources { patterns, files }: &Sources) -> io::Result<Self> {
        let mut trails = Trails::new()?;
        trails.follow(patterns);
        Ok(Self { trails, read: identities(files), changed: None })
    }

    /// Begins to watch files that have just been read. `None` if the system refuses, which is logged.
    pub(super) fn begin(sources: &Sources) -> Option<Self> {
        let files = sources.patterns.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        match Self::new(sources) {
            Ok(watch) => {
                log::info!("watching {files}: changes are applied");
                Some(watch)
            }
            Err(error) => {
                log::error!("auto-apply: {files} cannot be watched: {error} (see sysctl fs.inotify)");
                None
            }
        }
    }

    /// Returns the descriptor that is readable when a watched path has changed.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.trails.descriptor()
    }

    /// Notes changes since the last call.
    pub(super) fn look(&mut self, sources: impl FnOnce() -> Sources, now: Instant) {
        if self.trails.have_changed() {
            self.trails.follow(&sources().patterns);
            self.changed = Some((self.changed.map_or(now, |(first, _)| first), now));
        }
    }

    /// Returns the time when the changes have settled; `None` without a change.
    pub(super) fn due(&self) -> Option<Instant> {
        self.changed.map(|(first, last)| (last + QUIET).min(first + LONGEST))
    }

    /// Returns the time until the changes have settled; `None` without a change.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.due().map(|due| due.saturating_duration_since(now))
    }

    /// Waits for the end of something else.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.changed = Some((now, now));
    }

    /// After the changes have settled: whether the files differ from those that were read last.
    pub(super) fn take(&mut self, Sources { patterns, files }: &Sources) -> bool {
        self.changed = None;
        // A folder may have appeared after its parent was looked at.
        self.trails.follow(patterns);
        let present = identities(files);
        let differ = present != self.read;
        self.read = present;
        differ
    }
}
