//! The threads of a language that share a lane: see "Threads that share a lane" in `oribi.h`.
#![allow(unsafe_code)]

use crate::fence::fence;
use crate::types::OribiLane;
use oribi_host::Crew;
use std::ffi::c_int;

/// `oribi_crew`
pub struct OribiCrew {
    /// Valid until `oribi_lock.end` has returned; then the whole `OribiCrew` is dropped.
    crew: *const (dyn Crew + 'static),
    lane: OribiLane,
}

impl OribiCrew {
    /// # Safety
    /// The value is dropped before `crew` is.
    pub(crate) unsafe fn new(crew: &dyn Crew) -> Self {
        // SAFETY: this only erases the lifetime, which the caller promises to be long enough.
        let crew = unsafe { std::mem::transmute::<*const (dyn Crew + '_), *const (dyn Crew + 'static)>(crew) };
        Self { crew, lane: OribiLane::default() }
    }

    /// The lane of all threads of the crew.
    pub(crate) const fn lane(&self) -> *const OribiLane {
        &raw const self.lane
    }
}

/// Runs a thread of the crew until it leaves.
///
/// # Safety
/// `crew` is the argument of `oribi_lock.start_thread` for this thread, and the lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_serve(crew: *const OribiCrew) {
    // SAFETY: the caller's promise. The crew outlives the threads that were started for it. Other threads may be inside `serve`
    // at the same time, each at a point where it has released the lock.
    fence((), || unsafe { (*(*crew).crew).serve() });
}

/// Marks an app as one that only waits; 0 during the boot request.
///
/// # Safety
/// The crew has not ended, and the lock is held. A thread inside [`oribi_crew_serve`] of this crew is in the middle of the app.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_mark_waiting(crew: *const OribiCrew) -> c_int {
    // SAFETY: the caller's promise.
    fence(0, || unsafe { (*(*crew).crew).mark_waiting() }.into())
}

/// Ends the mark; 0 if the calling thread must return from [`oribi_crew_serve`].
///
/// # Safety
/// The calling thread is inside [`oribi_crew_serve`] of this crew, the lock is held, and [`oribi_crew_mark_waiting`] has
/// returned 1 for its app.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_unmark_waiting(crew: *const OribiCrew) -> c_int {
    // SAFETY: the caller's promise.
    fence(1, || unsafe { (*(*crew).crew).unmark_waiting() }.into())
}

/// Announces that the calling thread is about to release the lock.
///
/// # Safety
/// `crew` is the argument of `oribi_lock.begin`, `oribi_lock.end` has not been called, and the lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_before_unlocking(crew: *const OribiCrew) {
    // SAFETY: the caller's promise.
    fence((), || unsafe { (*(*crew).crew).before_unlocking() });
}
