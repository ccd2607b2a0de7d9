//! Watches files of the server that are read again when a program has changed them: those of certificates, and those of users.

use oribi_listen::Listener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval at which the files are checked.
const INTERVAL: Duration = Duration::from_secs(2);

/// The identity of a file: device, inode, size and the times of its last changes in seconds and nanoseconds. A link with a new
/// target is another file. `None` if it is not accessible.
pub(super) type FileIdentity = Option<[i64; 7]>;

/// Files, and their identities.
#[derive(Debug, Default)]
pub(super) struct WatchedFiles {
    paths: Vec<PathBuf>,
    /// The identities when they were read.
    last_read: Vec<FileIdentity>,
    /// The identities at the last check.
    last_checked: Vec<FileIdentity>,
    next_check: Option<Instant>,
}

impl WatchedFiles {
    /// Watches the files of certificates of `listeners`, which have just been read.
    pub(super) fn of_listeners(listeners: &[Listener], now: Instant) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        for offer in listeners.iter().filter_map(|listener| listener.offer.as_ref()) {
            for files in &offer.files {
                let pems = [&files.certificate, &files.key].into_iter().filter_map(|pem| Some(pem.path()?.to_owned()));
                paths.extend(pems.chain(files.status.clone()));
            }
            paths.extend(offer.authorities.clone());
        }
        Self::of(paths, now)
    }

    /// Watches files that have just been read.
    pub(super) fn of(mut paths: Vec<PathBuf>, now: Instant) -> Self {
        paths.sort();
        paths.dedup();
        let mut files = Self { next_check: (!paths.is_empty()).then_some(now + INTERVAL), paths, ..Self::default() };
        files.were_read();
        files
    }

    /// Records that the files have been read.
    pub(super) fn were_read(&mut self) {
        self.last_read = self.identities();
        self.last_checked.clone_from(&self.last_read);
    }

    /// Whether no file differs from what was last read.
    pub(super) fn are_as_read(&self) -> bool {
        self.identities() == self.last_read
    }

    /// Whether a file differs from what was last read, and all files are unchanged since the check before. The second condition
    /// waits until a renewal program has replaced both a key and its certificate. Returns `false` until the interval has
    /// passed, and `true` only once for each change.
    pub(super) fn have_changed(&mut self, now: Instant) -> bool {
        if self.next_check.is_none_or(|next| now < next) {
            return false;
        }
        self.next_check = Some(now + INTERVAL);
        let present = self.identities();
        let before = std::mem::replace(&mut self.last_checked, present);
        if self.last_checked != before || self.last_checked == self.last_read {
            return false;
        }
        // If the changed files are unusable, the error is not reported again before they change again.
        self.last_read.clone_from(&self.last_checked);
        true
    }

    /// Returns the time until the next check.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_check.map(|next| next.saturating_duration_since(now))
    }

    fn identities(&self) -> Vec<FileIdentity> {
        self.paths.iter().map(|path| identity_of(path)).collect()
    }
}

pub(super) fn identity_of(path: &Path) -> FileIdentity {
    let facts = path.metadata().ok()?;
    let (device, inode, size) = (facts.dev() as i64, facts.ino() as i64, facts.size() as i64);
    Some([device, inode, size, facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_counts_once_and_when_it_is_over() {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        let (certificate, key) = (directory.path().join("certificate"), directory.path().join("key"));
        for path in [&certificate, &key] {
            fs::write(path, "first").expect("the directory is ours");
        }
        let start = Instant::now();
        let later = |looks: u32| start + INTERVAL * looks;
        let mut files = WatchedFiles { paths: vec![certificate.clone(), key.clone()], ..WatchedFiles::default() };
        files.next_check = Some(later(1));
        files.were_read();
        assert!(!files.have_changed(later(1)) && files.are_as_read(), "they are as they were");
        fs::write(&certificate, "second").expect("it is ours");
        assert!(!files.are_as_read());
        assert!(!files.have_changed(later(1)), "they were just looked at");
        assert!(!files.have_changed(later(2)), "the other one may follow");
        fs::write(&key, "second").expect("it is ours");
        assert!(!files.have_changed(later(3)));
        assert!(files.have_changed(later(4)));
        assert!(!files.have_changed(later(5)), "once");
        // The files have been read for another reason.
        fs::remove_file(&key).expect("it is ours");
        files.were_read();
        assert!(!files.have_changed(later(6)) && !files.have_changed(later(7)));
        // A link with a new target, as Kubernetes and certbot change their files.
        let other = directory.path().join("other");
        fs::write(&other, "first").expect("the directory is ours");
        std::os::unix::fs::symlink(&other, &key).expect("the directory is ours");
        assert!(!files.have_changed(later(8)));
        assert!(files.have_changed(later(9)));
    }

    #[test]
    fn without_files_nothing_is_waited_for() {
        let mut files = WatchedFiles::of_listeners(&[], Instant::now());
        assert!(files.wait(Instant::now()).is_none() && !files.have_changed(Instant::now() + INTERVAL));
    }
}
