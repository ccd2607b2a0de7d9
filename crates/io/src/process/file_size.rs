//! The limit for the sizes of files (RLIMIT_FSIZE). It is meant for disks, but the kernel also applies it to files in memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// While this exists, files may become as large as the hard limit permits.
#[derive(Debug)]
pub struct LiftedFileSize(Option<Rlimit>);

impl LiftedFileSize {
    /// Raises the soft limit to the hard one.
    #[must_use]
    pub fn new() -> Self {
        let found = getrlimit(Resource::Fsize);
        let lifted = Rlimit { current: found.maximum, maximum: found.maximum };
        let is_lifted = found.current != found.maximum && setrlimit(Resource::Fsize, lifted).is_ok();
        Self(is_lifted.then_some(found))
    }
}

impl Default for LiftedFileSize {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LiftedFileSize {
    fn drop(&mut self) {
        if let Some(found) = self.0.take() {
            // It cannot fail: lowering a soft limit is always permitted.
            let _ = setrlimit(Resource::Fsize, found);
        }
    }
}
