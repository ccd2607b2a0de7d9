//! The threads of a language that share a lane: see "Threads that share a lane" in `oribi.h`.
#![allow(unsafe_code)]

use crate::fence::fence;
use crate::types::OribiLane;
use oribi_host::Crew;

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

/// Announces that the calling thread is about to release the lock.
///
/// # Safety
/// `crew` is the argument of `oribi_lock.begin`, `oribi_lock.end` has not been called, and the lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_before_unlocking(crew: *const OribiCrew) {
    // SAFETY: the caller's promise.
    fence((), || unsafe { (*(*crew).crew).before_unlocking() });
}
