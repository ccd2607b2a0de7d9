//! Descriptors that a parent process left open for this one.
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Descriptors that were claimed and not adopted.
static CLAIMED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Claims the file descriptor `number`, which the parent process has made for this process alone and which no other code uses.
/// Programs executed from now on do not inherit it. [`adopt`] may take it later.
///
/// # Errors
/// The descriptor is not open, is one of the three standard ones, or has CLOEXEC: then this process has opened it itself, or
/// has already claimed or adopted it.
pub fn claim(number: i32) -> io::Result<()> {
    let descriptor = inherited(number)?;
    fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    // SAFETY: the descriptor is open and lacks CLOEXEC. Descriptors that this process opens, claims or adopts have CLOEXEC. So
    // the descriptor was open before this program began, and no code of this process owns it. The parent guarantees that it is
    // for this process alone.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).push(descriptor);
    Ok(())
}

/// Takes over the inherited file descriptor `number`: programs executed from now on do not inherit it.
///
/// If the descriptor was not claimed before, the result is a copy of it. The descriptor itself stays open, because other code
/// of this process may own it: other code may know it from the same environment variable, or a library in C may open a
/// descriptor that looks like an inherited one.
///
/// # Errors
/// Those of [`claim`], except that the descriptor may have been claimed; or an error of the system while the descriptor is
/// copied.
pub fn adopt(number: i32) -> io::Result<OwnedFd> {
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = claimed.iter().position(|known| known.as_raw_fd() == number) {
        return Ok(claimed.swap_remove(index));
    }
    let descriptor = inherited(number)?;
    let copy = fcntl_dupfd_cloexec(descriptor, 3)?;
    fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    Ok(copy)
}

/// Returns the id of the process at the other end of a Unix socket, which has the file descriptor `number`.
///
/// # Errors
/// The descriptor is not open, is one of the three standard ones, or is not a socket.
pub fn peer(number: i32) -> io::Result<i32> {
    Ok(socket_peercred(borrow(number)?)?.pid.as_raw_nonzero().get())
}

/// Whether the process at the other end of a Unix socket, which has the file descriptor `number`, has closed the connection.
/// `false` if the descriptor is not open.
///
/// # Errors
/// The descriptor is one of the three standard ones, or poll(2) fails.
pub fn has_hung_up(number: i32) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(borrow(number)?, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(polled[0].revents().contains(PollFlags::HUP))
}

/// Sends `bytes` on a Unix socket, which has the file descriptor `number`, without waiting.
///
/// # Errors
/// The descriptor is not open, is one of the three standard ones or is not a socket; or the socket has no room, or the other
/// end has closed it.
pub fn tell(number: i32, bytes: &[u8]) -> io::Result<()> {
    send(borrow(number)?, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Returns the descriptor with this number if it was inherited. Inherited descriptors lack CLOEXEC; all others are opened
/// with it.
fn inherited(number: i32) -> io::Result<BorrowedFd<'static>> {
    let descriptor = borrow(number)?;
    if fcntl_getfd(descriptor)?.contains(FdFlags::CLOEXEC) {
        return Err(io::Error::other("the descriptor was not inherited"));
    }
    Ok(descriptor)
}

/// Borrows the file descriptor `number`, open or not, unless it is one of the three standard ones.
fn borrow(number: i32) -> io::Result<BorrowedFd<'static>> {
    if number < 3 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not -1. The descriptor may be closed or belong to other code. So it is only passed to fcntl,
    // getsockopt, poll and send, which report a closed descriptor. Of a descriptor of other code, they read the state, copy it,
    // set CLOEXEC, or send bytes, none of which breaks memory safety.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::os::fd::{AsRawFd, IntoRawFd};

    /// Inherited descriptors come without CLOEXEC.
    fn inherit() -> i32 {
        let (own, _writer) = pipe_with(PipeFlags::empty()).expect("a pipe is to be had");
        own.into_raw_fd()
    }

    fn is_inherited_on(number: i32) -> bool {
        let flags = fcntl_getfd(borrow(number).expect("it is not a standard one")).expect("it is open");
        !flags.contains(FdFlags::CLOEXEC)
    }

    #[test]
    fn only_what_was_inherited_is_adopted_and_only_once() {
        let (own, _writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe is to be had");
        assert!(adopt(own.as_raw_fd()).is_err(), "opened here");
        assert!(claim(own.as_raw_fd()).is_err(), "opened here");
        assert!(adopt(1).is_err(), "a standard one");
        assert!(adopt(1 << 20).is_err(), "not open");
        let number = inherit();
        let adopted = adopt(number).expect("it looks inherited");
        assert!(!is_inherited_on(number) && !is_inherited_on(adopted.as_raw_fd()));
        assert!(adopt(number).is_err(), "adopted already");
    }

    #[test]
    fn what_was_claimed_is_not_inherited_further_and_can_be_adopted() {
        let number = inherit();
        assert!(is_inherited_on(number));
        claim(number).expect("it looks inherited");
        assert!(!is_inherited_on(number));
        assert!(claim(number).is_err(), "claimed already");
        let adopted = adopt(number).expect("it was claimed");
        assert_eq!(adopted.as_raw_fd(), number, "nothing else is left open");
        assert!(adopt(number).is_err(), "adopted already");
    }
}
