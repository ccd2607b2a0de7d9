//! Signals turned into numbers that a loop can look at.
#![allow(unsafe_code)]

use super::LastResort;
use rustix::process::Signal;
use signal_hook_registry::{SigId, register, unregister};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// What a signal does to its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Adds one.
    Count,
    /// Replaces one value by another; leaves every other value alone.
    Exchange {
        /// The value to replace.
        from: u32,
        /// The value to put in its place.
        to: u32,
    },
}

/// A signal being watched; dropped, the signal does nothing any more (its default action does not come back).
#[derive(Debug)]
pub struct Watch(SigId);

impl Drop for Watch {
    fn drop(&mut self) {
        unregister(self.0);
    }
}

/// From now on `signal` has its `effect` on `cell`, and then a byte is written to each of `wake`: non-blocking write ends of
/// pipes, where a full pipe is as good as a written byte; and `last_resort` is started.
///
/// Interrupted system calls are restarted. A handler is in force across a fork, but not in programs that this process or its
/// children execute: those get the default action.
///
/// # Errors
/// The system's refusal.
pub fn watch(
    signal: Signal,
    cell: &'static AtomicU32,
    effect: Effect,
    wake: Vec<OwnedFd>,
    last_resort: Option<LastResort>,
) -> io::Result<Watch> {
    let action = move || {
        match effect {
            Effect::Count => {
                cell.fetch_add(1, SeqCst);
            }
            Effect::Exchange { from, to } => {
                // Failing means that another value stands there, which is to be left alone.
                let _ = cell.compare_exchange(from, to, SeqCst, SeqCst);
            }
        }
        for pipe in &wake {
            let _ = rustix::io::write(pipe, &[0]);
        }
        if let Some(last_resort) = &last_resort {
            last_resort.start();
        }
    };
    // SAFETY: the action only touches an atomic, makes the system call write and starts a timer, all of which a signal handler
    // may do. It allocates nothing, takes no lock, cannot panic, and leaves errno alone: rustix calls the kernel without libc.
    unsafe { register(signal.as_raw(), action) }.map(Watch)
}
