//! How a thread waits for news of a lane that it must not use now.

use crate::attention::Nudge;
use crate::crew::WaitForNews;
use oribi_host::Wait;
use oribi_io::Waiter;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A wait for news of a lane, in a thread that must not use the lane now.
pub(super) struct News<'l, W> {
    pub(super) waiter: &'l Mutex<W>,
    pub(super) idle: &'l AtomicU32,
    pub(super) nudge: &'l Nudge,
    pub(super) timeout: Option<Duration>,
    pub(super) interrupted: AtomicBool,
}

impl<W: Waiter> Wait for News<'_, W> {
    fn wait(&self) {
        let mut waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        self.idle.fetch_add(1, Ordering::Relaxed);
        let outcome = waiter.wait(self.timeout);
        self.idle.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = outcome {
            // The next turn will find the same, and may say so with the lock held.
            log::error!("cannot wait: {error}");
        }
    }

    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.nudge.nudge();
    }
}

impl<W: Waiter> WaitForNews for News<'_, W> {
    fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}
