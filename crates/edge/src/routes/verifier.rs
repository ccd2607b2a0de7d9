//! The thread of an edge that compares passwords with hashes, one at a time.
//!
//! It is started with the first password, when the edge is in its sandbox, which holds for the threads that it starts.

use oribi_auth::{Credentials, Digest, Users};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::task::Waker;
use std::thread::Builder;

/// A password to check.
pub(super) struct Check {
    pub(super) digest: Digest,
    pub(super) users: Arc<Users>,
    pub(super) credentials: Credentials,
}

/// The ends of the channels of the thread, which ends with them.
#[derive(Debug)]
pub(super) struct Verifier {
    checks: SyncSender<Check>,
    results: Receiver<(Digest, bool)>,
}

impl Verifier {
    /// Starts the thread. It uses `waker` after each check.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(waker: Option<Waker>) -> io::Result<Self> {
        let (checks, wanted) = sync_channel::<Check>(1);
        let (done, results) = sync_channel(1);
        Builder::new().name("passwords".to_owned()).spawn(move || {
            for Check { digest, users, credentials } in wanted {
                let is_right = users.check(credentials.user(), credentials.password());
                drop(credentials);
                if done.send((digest, is_right)).is_err() {
                    return;
                }
                waker.iter().for_each(Waker::wake_by_ref);
            }
        })?;
        Ok(Self { checks, results })
    }

    /// Gives the thread, which has none now, a password to check. Returns whether the thread is there.
    pub(super) fn check(&self, check: Check) -> bool {
        self.checks.try_send(check).is_ok()
    }

    /// Returns the result of the last check, if it is there.
    ///
    /// # Errors
    /// The thread has ended: a fault in it.
    pub(super) fn result(&self) -> Result<Option<(Digest, bool)>, ()> {
        match self.results.try_recv() {
            Ok(result) => Ok(Some(result)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(()),
        }
    }
}
