//! A file whose change reloads the app, as with Passenger and Puma's plugin `tmp_restart`.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The interval at which the file is checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file, which need not exist, and the time of its last change.
#[derive(Debug)]
pub(super) struct RestartFile<'a> {
    path: &'a Path,
    touched: Option<SystemTime>,
    next_look: Instant,
}

impl<'a> RestartFile<'a> {
    /// Begins to watch the file. Earlier changes are ignored.
    pub(super) fn new(path: &'a Path, now: Instant) -> Self {
        Self { path, touched: touched(path), next_look: now + INTERVAL }
    }

    /// Whether the file was touched or created since the last check. Returns `false` until the interval has passed.
    pub(super) fn was_touched(&mut self, now: Instant) -> bool {
        if now < self.next_look {
            return false;
        }
        self.next_look = now + INTERVAL;
        let before = std::mem::replace(&mut self.touched, touched(self.path));
        self.touched.is_some() && self.touched != before
    }

    /// Returns the time until the next check.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next_look.saturating_duration_since(now)
    }
}

fn touched(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|facts| facts.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_touch_counts_once_and_an_end_of_the_file_does_not() {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        let path = directory.path().join("restart.txt");
        let start = Instant::now();
        let later = |looks: u32| start + INTERVAL * looks;
        let mut file = RestartFile::new(&path, start);
        assert!(!file.was_touched(later(1)), "it is not there");
        let made = File::create(&path).expect("the directory is ours");
        assert!(!file.was_touched(later(1)), "it was just looked at");
        assert!(file.was_touched(later(2)));
        assert!(!file.was_touched(later(3)), "once");
        made.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
        assert!(file.was_touched(later(4)), "whatever its time is now");
        std::fs::remove_file(&path).expect("it is ours");
        assert!(!file.was_touched(later(5)));
    }
}
