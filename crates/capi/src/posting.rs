//! Commands for connections outside of a request.
#![allow(unsafe_code)]

use crate::fence::{fence, remember};
use crate::types::bytes;
use oribi_live::need_no_request;
use oribi_server::posts::Outbox;
use std::ffi::{c_char, c_int};
use std::io;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

/// Whether this process can reach edges outside of a request.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_can_post() -> c_int {
    fence(0, || Outbox::of_process().is_some().into())
}

/// Gives commands to all edges. Returns 0, or -1 for an error.
///
/// # Safety
/// `commands` points to `size` bytes. `give_up` is null, or points to a number that lives as long as the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_post(commands: *const c_char, size: usize, give_up: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let commands = unsafe { bytes(commands, size) };
    // SAFETY: the caller's promise; other threads only store whole numbers there.
    let given_up = || !give_up.is_null() && unsafe { AtomicI32::from_ptr(give_up) }.load(Relaxed) != 0;
    fence(-1, || {
        if !need_no_request(commands) {
            remember("only the worker that handles an event of a client can do this, and no process that it has forked");
            return -1;
        }
        let outbox = Outbox::of_process().ok_or_else(|| io::Error::other("there is no edge"));
        match outbox.and_then(|outbox| outbox.deliver_unless(&given_up, commands)) {
            Ok(()) => 0,
            Err(error) => {
                remember(&error.to_string());
                -1
            }
        }
    })
}
