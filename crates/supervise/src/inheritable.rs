//! Descriptors for programs that this process executes.

use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::BorrowedFd;

/// Descriptors that a program inherits if it is executed while this value exists.
pub(super) struct Inheritable<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Inheritable<'a> {
    pub(super) fn new(descriptors: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let inheritable = Self(descriptors.collect());
        for descriptor in &inheritable.0 {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(inheritable)
    }
}

impl Drop for Inheritable<'_> {
    fn drop(&mut self) {
        for descriptor in &self.0 {
            // The call cannot fail for an open descriptor.
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}
