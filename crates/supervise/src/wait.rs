//! Waits until a descriptor is ready or a time is over.

use super::LOOK_FOR_ENDED;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Adds descriptors that wake this process when they are readable.
pub(super) fn wake_by<'p>(polled: &mut Vec<PollFd<'p>>, descriptors: impl IntoIterator<Item = BorrowedFd<'p>>) {
    polled.extend(descriptors.into_iter().map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
}

/// Sleeps until one of the descriptors wakes this process, or `patience` is over. Logs a failure.
pub(super) fn until(polled: &mut [PollFd<'_>], patience: Option<Duration>) {
    let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
    match poll(polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => {
            log::error!("cannot wait for other processes: {}", io::Error::from(error));
            // Prevents a busy loop while the system is short of memory.
            std::thread::sleep(LOOK_FOR_ENDED);
        }
    }
}
