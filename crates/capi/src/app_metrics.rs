//! Counters and histograms of apps.
#![allow(unsafe_code)]

use crate::fence::{fence, remember};
use crate::types::{OribiBytes, OribiField, array};
use oribi_server::app_metrics::{self, Context, Label};
use std::ffi::c_int;

/// One more than `ORIBI_MOST_LABELS`: so `app_metrics` sees that there are too many labels, and makes the same error as
/// elsewhere.
const LABELS: usize = 6 + 1;

/// A function that adds a number to a counter or histogram.
type Act = fn(&[u8], f64, &[Label<'_>]) -> Result<(), String>;

/// Whether the server keeps counters and histograms of apps.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_has_figures() -> c_int {
    c_int::from(app_metrics::are_counted())
}

/// Adds to a counter.
///
/// # Safety
/// `name` is valid, and `labels` points to `label_count` valid fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_count(name: OribiBytes, amount: f64, labels: *const OribiField, label_count: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(app_metrics::count, name, amount, labels, label_count) }
}

/// Adds a value to a histogram.
///
/// # Safety
/// As for [`oribi_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_observe(name: OribiBytes, value: f64, labels: *const OribiField, label_count: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(app_metrics::observe, name, value, labels, label_count) }
}

/// # Safety
/// As for [`oribi_count`].
unsafe fn add(act: Act, name: OribiBytes, number: f64, labels: *const OribiField, label_count: usize) -> c_int {
    fence(0, || {
        let mut all: [Label<'_>; LABELS] = [(b"", b""); LABELS];
        let count = label_count.min(LABELS);
        // SAFETY: the caller's promise, for the time of this call.
        let name = unsafe {
            for (label, field) in all.iter_mut().zip(array(labels, count)) {
                *label = (field.name.get(), field.value.get());
            }
            name.get()
        };
        match act(name, number, &all[..count]) {
            Ok(()) => 1,
            Err(why) => {
                remember(&why);
                0
            }
        }
    })
}

/// Reports the garbage collections since the previous report of this process: their number, and their time together.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_note_collections(collections: u64, nanoseconds: u64) {
    fence((), || app_metrics::note_collections(collections, nanoseconds));
}

/// Reports that an interpreter of Perl has started or ended.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_note_interpreter(change: c_int) {
    fence((), || app_metrics::note_context(Context::PerlInterpreter, change));
}
