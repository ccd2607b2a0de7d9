//! The state of a socket: its event for input and the data of its callbacks, in one allocation that does not move.
//!
//! The event comes first and the state follows it, because the size of an event is known only at run time. There is one
//! allocation instead of two, and it contains nothing that only a busy connection needs, so an idle one costs little.
#![allow(unsafe_code)]

use super::Loop;
use super::library::{RawEvent, unmake};
use crate::Token;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::rc::Rc;

/// The event for input exists.
pub(super) const MADE: u32 = 1 << 31;
/// An event for output exists, in [`Loop::outputs`].
pub(super) const HAS_OUTPUT: u32 = 1 << 30;
/// A send has found the socket full.
pub(super) const AWAITS_ROOM: u32 = 1 << 29;
/// For bases without edges: input is not watched until the socket has been received from.
pub(super) const DEAF: u32 = 1 << 28;
/// The remaining bits are the socket's index in the list of reported sockets, or this value if it is not in the list. No
/// process has so many sockets.
const UNTOLD: u32 = (1 << 28) - 1;

/// The state of a socket. All users have shared references to it; code that needs the event has a pointer into the whole
/// allocation.
pub(super) struct State {
    pub(super) loop_: Rc<Loop>,
    pub(super) token: Cell<Token>,
    pub(super) descriptor: OwnedFd,
    marks: Cell<u32>,
}

impl State {
    /// A new state, with room for its event.
    pub(super) fn allocate(descriptor: OwnedFd, loop_: &Rc<Loop>) -> NonNull<Self> {
        let (layout, offset) = layout(loop_.event_bytes);
        // SAFETY: the size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the layout has room for a state there.
        unsafe {
            let state = memory.add(offset).cast::<Self>();
            state.write(Self { loop_: loop_.clone(), token: Cell::new(Token(0)), descriptor, marks: Cell::new(UNTOLD) });
            state
        }
    }

    /// Ends the state and its event.
    ///
    /// # Safety
    /// `this` is from [`State::allocate`] and no longer used, and no callback runs.
    pub(super) unsafe fn free(this: NonNull<Self>) {
        // SAFETY: the state still exists, and its event ends before the descriptor and the base that the event needs. After
        // that nothing refers to the memory.
        unsafe {
            if this.as_ref().has(MADE) {
                unmake(Self::event(this));
            }
            let (layout, offset) = layout(this.as_ref().loop_.event_bytes);
            this.drop_in_place();
            dealloc(this.cast::<u8>().sub(offset).as_ptr(), layout);
        }
    }

    /// Returns the address of the event for input, which need not be made yet.
    ///
    /// # Safety
    /// `this` is from [`State::allocate`] and has not been freed.
    pub(super) unsafe fn event(this: NonNull<Self>) -> NonNull<RawEvent> {
        // SAFETY: the pointer is one into the whole allocation, which begins with the event.
        unsafe { this.cast::<u8>().sub(layout(this.as_ref().loop_.event_bytes).1).cast() }
    }

    /// Whether the mark is set.
    #[inline]
    pub(super) fn has(&self, mark: u32) -> bool {
        self.marks.get() & mark != 0
    }

    pub(super) fn mark(&self, mark: u32) {
        self.marks.set(self.marks.get() | mark);
    }

    /// Removes the mark; returns whether it was set.
    pub(super) fn unmark(&self, mark: u32) -> bool {
        let marks = self.marks.get();
        self.marks.set(marks & !mark);
        marks & mark != 0
    }

    /// The index in the list of reported sockets, if the socket is in the list.
    #[inline]
    pub(super) fn told_at(&self) -> Option<usize> {
        let place = self.marks.get() & UNTOLD;
        (place != UNTOLD).then_some(place as usize)
    }

    pub(super) fn set_told_at(&self, place: usize) {
        self.marks.set(self.marks.get() & !UNTOLD | place as u32 & UNTOLD);
    }

    #[inline]
    pub(super) fn set_untold(&self) {
        self.marks.set(self.marks.get() | UNTOLD);
    }
}

/// The layout of an event with a state, and the offset of the state.
#[inline]
fn layout(event_bytes: usize) -> (Layout, usize) {
    let offset = event_bytes.next_multiple_of(align_of::<State>());
    // SAFETY: the alignment is a power of two, and both sizes are small.
    let layout = unsafe {
        Layout::from_size_align_unchecked(offset + size_of::<State>(), align_of::<libc::max_align_t>().max(align_of::<State>()))
    };
    (layout, offset)
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn a_state_is_small() {
        // Together with an event of libevent 2.1 and malloc's overhead this is a multiple of 16.
        assert!(size_of::<State>() <= 24, "{} bytes", size_of::<State>());
    }
}
