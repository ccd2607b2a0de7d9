//! Requests the positions of apps from a host written in C.
#![allow(unsafe_code)]

use crate::fence::fence;
use crate::table::OribiTraceFn;
use crate::types::{OribiBytes, array};
use oribi_host::Tracing;
use oribi_server::backtrace;
use std::ffi::c_void;

/// A host's function for requests.
pub(crate) struct CTracing {
    trace: OribiTraceFn,
    data: *mut c_void,
    unnoticed: bool,
}

// SAFETY: the header allows `trace` to be called on any thread, and `data` is only passed on.
unsafe impl Send for CTracing {}
// SAFETY: as above.
unsafe impl Sync for CTracing {}

impl CTracing {
    /// # Safety
    /// `trace` takes `data` and conforms to the header.
    pub(crate) const unsafe fn new(trace: OribiTraceFn, data: *mut c_void, unnoticed: bool) -> Self {
        Self { trace, data, unnoticed }
    }
}

impl Tracing for CTracing {
    fn trace(&self, question: u32) {
        // No fence, which a signal handler could not have: the function is C's.
        // SAFETY: the promise of `new`.
        unsafe { (self.trace)(self.data, question) };
    }

    fn disturbs(&self) -> bool {
        !self.unnoticed
    }
}

/// Announces the number of threads that report for a question.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_trace_expect(question: u32, threads: u32) {
    // No fence, because a signal handler may not have one: two atomics, which cannot panic.
    backtrace::expect(question, threads);
}

/// Reports the position of a thread, by the kernel's number, or of the calling one (0).
///
/// # Safety
/// `about` is valid, and `frames` is null or points to that many valid bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_trace_tell(
    question: u32,
    thread: u32,
    about: OribiBytes,
    frames: *const OribiBytes,
    frame_count: usize,
    more: usize,
) {
    fence((), || {
        // SAFETY: the caller's promise, for the time of this call.
        let (about, frames) = unsafe {
            let frames = (!frames.is_null()).then(|| array(frames, frame_count).iter().map(|frame| frame.get()).collect());
            (about.get(), frames)
        };
        let frames: Option<Vec<&[u8]>> = frames;
        backtrace::answer(question, Some(thread).filter(|thread| *thread > 0), about, frames.as_deref(), more);
    });
}
