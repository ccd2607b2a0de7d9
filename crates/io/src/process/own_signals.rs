//! The real-time signals that processes of a server send themselves and one another: those of [`super::orders`] and
//! [`super::asking`], and those of hosts. A process that does not use these signals must survive them all the same: a signal
//! for an app may arrive late, or go to a process id that belongs to another process by then.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Makes these signals do nothing in this process and in the processes that it forks. A signal for which an action is already
/// set keeps that action. The signals get an empty handler and are not ignored, because programs that an app executes would
/// inherit that they are ignored.
///
/// # Errors
/// An error of the system.
pub fn survive_own_signals() -> io::Result<()> {
    // The Lua host has the first, orders the second and the fourth, the Ruby host the third, questions the last.
    let first = libc::SIGRTMIN() + 2;
    (first..=first + 4).try_for_each(survive)
}

fn survive(signal: i32) -> io::Result<()> {
    let mut present = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is given, and the pointer is valid for the call, which writes the current action if it succeeds.
    let handler = unsafe {
        if libc::sigaction(signal, std::ptr::null(), present.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        present.assume_init().sa_sigaction
    };
    if handler != libc::SIG_DFL {
        return Ok(());
    }
    // SAFETY: all zeros and a handler are a valid action with an empty mask; the pointer is valid for the call, and the
    // handler does nothing.
    let status = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, null_mut())
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn do_nothing(_signal: libc::c_int) {}
