//! Commands for connections outside of a request.
#![allow(unsafe_code)]

use crate::fence::{fence, remember};
use crate::types::bytes;
use oribi_server::posts::Outbox;
use std::ffi::{c_char, c_int};

/// Whether this process can reach edges outside of a request.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_can_post() -> c_int {
    fence(0, || Outbox::of_process().is_some().into())
}

/// Gives commands to edges, from one on. Returns the number of the edge to go on with, 0 when all have them, and -1 for an error.
///
/// # Safety
/// `commands` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_post(commands: *const c_char, size: usize, first: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let commands = unsafe { bytes(commands, size) };
    fence(-1, || {
        let Some(outbox) = Outbox::of_process() else {
            remember("there is no edge");
            return -1;
        };
        match outbox.send_from(usize::try_from(first).unwrap_or_default().saturating_sub(1), commands) {
            Ok(None) => 0,
            Ok(Some(full)) => c_int::try_from(full + 1).unwrap_or(-1),
            Err(error) => {
                remember(&error.to_string());
                -1
            }
        }
    })
}
