//! Descriptors that a parent process left open for this one.
#![allow(unsafe_code)]

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// Takes over an inherited descriptor, which is not inherited any further: it is closed in programs executed from now on.
///
/// # Errors
/// There is no such descriptor, it is one of the three standard ones, or it was not inherited but opened by this process (or
/// has been adopted already).
pub fn adopt(number: i32) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not negative, and the borrow ends with this function. If nothing is open under it, the two calls
    // below fail with EBADF and do nothing.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(descriptor)?;
    if flags.contains(FdFlags::CLOEXEC) {
        return Err(io::Error::other("the descriptor was not inherited"));
    }
    fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC)?;
    // SAFETY: nobody else owns it: Rust's library and the language runtimes open every descriptor above 2 with CLOEXEC set,
    // so one without it came from the parent process; and the flag just set makes a second adoption fail.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn only_what_was_inherited_is_adopted_and_only_once() {
        let (own, _writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe is to be had");
        assert!(adopt(own.as_raw_fd()).is_err(), "opened here");
        assert!(adopt(1).is_err(), "a standard one");
        assert!(adopt(1 << 20).is_err(), "not open");
        // Inherited descriptors come without CLOEXEC.
        fcntl_setfd(&own, FdFlags::empty()).expect("it is open");
        let number = std::os::fd::IntoRawFd::into_raw_fd(own);
        let adopted = adopt(number).expect("it looks inherited");
        assert!(adopt(number).is_err(), "adopted already");
        drop(adopted);
    }
}
