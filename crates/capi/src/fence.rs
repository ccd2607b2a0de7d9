//! The border to C: results become numbers and messages, panics become failures.
#![allow(unsafe_code)]

use oribi_host::ReplyError;
use oribi_server::config::masked;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `oribi_result`
pub(crate) const OK: i32 = 0;
pub(crate) const GONE: i32 = 1;
pub(crate) const INVALID: i32 = 2;
pub(crate) const FAILED: i32 = 3;
pub(crate) const WOKEN: i32 = 4;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Returns the message of the last call in this thread that failed.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|message| message.as_ptr())
}

/// Returns `text` without possible secrets: until the next call that keeps a message in this thread.
///
/// # Safety
/// `text` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_masked(text: *const c_char) -> *const c_char {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    fence((), || remember(&masked(&text)));
    oribi_last_error()
}

/// Keeps the message of a failure for [`oribi_last_error`].
pub(crate) fn remember(message: &str) {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with_borrow_mut(|last| *last = message);
}

/// Runs `act`. Returns `failed` if `act` panics, which is a bug of the server and must not cross into C.
pub(crate) fn fence<T>(failed: T, act: impl FnOnce() -> T) -> T {
    // A panic may leave the engine of one lane in an inconsistent state: at worst a connection hangs until its deadline.
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        remember("an internal error; the log has the details");
        failed
    })
}

/// Converts the outcome of a reply to an `oribi_result`, and keeps the reason of an invalid response.
pub(crate) fn outcome(result: Result<(), ReplyError>) -> i32 {
    match result {
        Ok(()) => OK,
        Err(ReplyError::Gone) => GONE,
        Err(ReplyError::Woken) => WOKEN,
        Err(ReplyError::Invalid(why)) => {
            remember(why);
            INVALID
        }
    }
}
