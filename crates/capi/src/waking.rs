//! Wakes a lane: from other threads and signal handlers, after a time, or because of a descriptor.
#![allow(unsafe_code)]

use crate::fence::{fence, remember};
use crate::types::OribiLane;
use oribi_host::Outlet;
use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::task::Waker;
use std::time::Duration;

/// `oribi_waker`
#[derive(Debug)]
pub struct OribiWaker(Waker);

/// Returns a waker of the lane, or null if the lane is closed.
///
/// # Safety
/// `lane` is null or a lane that the calling host was given and whose context has not been closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_lane_waker(lane: *const OribiLane) -> *mut OribiWaker {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    fence(ptr::null_mut(), || outlet.map_or(ptr::null_mut(), |outlet| Box::into_raw(Box::new(OribiWaker(outlet.waker())))))
}

/// Wakes the lane.
///
/// # Safety
/// `waker` came from [`oribi_lane_waker`] and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_wake(waker: *const OribiWaker) {
    // No `fence`, because a signal handler may call this: the waker of a lane is an atomic and a system call, and cannot panic.
    // SAFETY: the caller's promise.
    unsafe { (*waker).0.wake_by_ref() };
}

/// Frees a waker.
///
/// # Safety
/// `waker` is null, or came from [`oribi_lane_waker`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_waker_free(waker: *mut OribiWaker) {
    if !waker.is_null() {
        // SAFETY: the caller's promise: the pointer came from `Box::into_raw`, and is not used again.
        drop(unsafe { Box::from_raw(waker) });
    }
}

/// Wakes the lane whenever a descriptor becomes readable. Returns 1, or 0 after an error.
///
/// # Safety
/// `lane` is valid; `descriptor` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_watch(lane: *const OribiLane, descriptor: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { attempt(lane, |outlet| outlet.watch(BorrowedFd::borrow_raw(descriptor))) }
}

/// Ends the effect of [`oribi_watch`]. Returns 1, or 0 after an error.
///
/// # Safety
/// `lane` is valid; `descriptor` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_unwatch(lane: *const OribiLane, descriptor: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { attempt(lane, |outlet| outlet.unwatch(BorrowedFd::borrow_raw(descriptor))) }
}

/// Wakes the lane once after a time; a negative time cancels an earlier one. Returns 1, or 0 after an error.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_wake_after(lane: *const OribiLane, milliseconds: c_int) -> c_int {
    let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: the caller's promise.
    unsafe { attempt(lane, |outlet| outlet.wake_after(time)) }
}

/// Calls `act` with the outlet of `lane`. Returns 1 if it succeeds. Returns 0 and keeps the message for `oribi_last_error` if
/// it fails, or if the lane is closed.
///
/// # Safety
/// `lane` is null or a lane that the calling host was given and whose context has not been closed.
unsafe fn attempt(lane: *const OribiLane, act: impl FnOnce(&dyn Outlet) -> io::Result<()>) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    fence(0, || match outlet.ok_or_else(|| io::Error::other("the lane is closed")).and_then(act) {
        Ok(()) => 1,
        Err(error) => {
            remember(&error.to_string());
            0
        }
    })
}
