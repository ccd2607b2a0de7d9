//! Requests the positions of apps from a host written in C.
#![allow(unsafe_code)]

use crate::fence::fence;
use crate::table::OribiTraceFn;
use crate::types::{OribiBytes, array};
use oribi_host::Tracing;
use oribi_server::backtrace;
use std::ffi::c_void;

/// The host's function that requests the positions of its apps.
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
        // No `fence`, because this runs in a signal handler; a function in C does not panic.
        // SAFETY: the promise of `new`.
        unsafe { (self.trace)(self.data, question) };
    }

    fn disturbs(&self) -> bool {
        !self.unnoticed
    }
}

/// Announces the number of threads that report for the request for backtraces with the number `question`.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_trace_expect(question: u32, threads: u32) {
    // No `fence`, because a signal handler may call this: it only uses two atomics, and cannot panic.
    backtrace::expect(question, threads);
}

/// Reports the position of a thread. `thread` is the kernel's thread ID; 0 means the calling thread.
///
/// # Safety
/// `about` is valid, and `frames` is null or points to `frame_count` valid values.
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
