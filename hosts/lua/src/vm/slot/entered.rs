//! The slots of all threads that run scripts, so that signal handlers find them.

use super::Slot;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::thread;

/// The most threads that run scripts at the same time: more than a worker may have.
const MOST: usize = 2048;

static SLOTS: [AtomicPtr<Slot>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
/// The number of places at the start of `SLOTS` that have ever been used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// The number of handlers that are reading the slots.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// Makes the slot known to handlers. If there is no place left, they do not find it.
pub(super) fn enter(slot: &Slot) {
    let take = |place: &AtomicPtr<Slot>| place.compare_exchange(null_mut(), from_ref(slot).cast_mut(), SeqCst, SeqCst).is_ok();
    if let Some(index) = SLOTS.iter().position(take) {
        USED.fetch_max(index + 1, SeqCst);
    }
}

/// Removes the slot. When this returns, no handler uses it.
pub(super) fn leave(slot: &Slot) {
    for place in SLOTS.iter().take(USED.load(SeqCst)) {
        if place.compare_exchange(from_ref(slot).cast_mut(), null_mut(), SeqCst, SeqCst).is_ok() {
            // A handler on this thread has returned by now; a handler on another thread returns soon.
            while READERS.load(SeqCst) > 0 {
                thread::yield_now();
            }
        }
    }
}

/// Passes each slot to `work`. May be called in a signal handler if `work` may.
pub(in crate::vm) fn for_each_entered(mut work: impl FnMut(&Slot)) {
    READERS.fetch_add(1, SeqCst);
    for place in SLOTS.iter().take(USED.load(SeqCst)) {
        // SAFETY: a slot leaves before it is dropped, and leaving waits for this function.
        if let Some(slot) = unsafe { place.load(SeqCst).as_ref() } {
            work(slot);
        }
    }
    READERS.fetch_sub(1, SeqCst);
}
