//! Records whether this process has ever forked: its children may hold copies of its sockets.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

static FORKED: AtomicBool = AtomicBool::new(false);

/// Notes every fork(2) of this process from now on, by any code. Call it once, before the first fork.
///
/// # Errors
/// The system is short of memory.
pub fn note_forks() -> io::Result<()> {
    // SAFETY: both handlers only store to an atomic, which they may do in any process at any time, and this library is not
    // unloaded.
    match unsafe { libc::pthread_atfork(None, Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

extern "C" fn in_parent() {
    FORKED.store(true, Relaxed);
}

/// A new child has no children of its own that could hold copies.
extern "C" fn in_child() {
    FORKED.store(false, Relaxed);
}

/// Whether this process has forked since [`note_forks`]. If it has, a child that has executed no program may have a copy of a
/// socket that this process closes, and the peer would not see the end. So the connection must be shut down first.
#[inline]
pub fn has_forked() -> bool {
    FORKED.load(Relaxed)
}
