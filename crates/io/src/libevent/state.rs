//! What stands behind a socket: its event for input and what callbacks know of it, in one piece of memory that does not move.
//!
//! The event comes first, and the state follows it: libevent tells the size of an event at run time. One allocation instead of
//! two, and nothing in it that only a busy connection needs: an idle one costs little.
#![allow(unsafe_code)]

use super::Loop;
use super::library::{RawEvent, unmake};
use crate::Token;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::rc::Rc;

/// The event for input has been made.
pub(super) const MADE: u32 = 1 << 31;
/// There is an event for output: [`Loop::outputs`] has it.
pub(super) const HAS_OUTPUT: u32 = 1 << 30;
/// A send has found the socket full.
pub(super) const AWAITS_ROOM: u32 = 1 << 29;
/// Where there are no edges: input is not watched until the socket has been received from.
pub(super) const DEAF: u32 = 1 << 28;
/// The rest is a place in the list of sockets that were told of, or this: not in the list. No process has so many sockets.
const UNTOLD: u32 = (1 << 28) - 1;

/// Behind a socket. Everybody has but shared references to it, and who needs the event has a pointer, which reaches it, too.
pub(super) struct State {
    pub(super) loop_: Rc<Loop>,
    pub(super) token: Cell<Token>,
    pub(super) descriptor: OwnedFd,
    marks: Cell<u32>,
}

impl State {
    /// A new one, with room for its event.
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

    /// Ends it and its event.
    ///
    /// # Safety
    /// It is from [`State::allocate`] and not used any more, and no callback runs.
    pub(super) unsafe fn free(this: NonNull<Self>) {
        // SAFETY: it is still there, and the event goes before the descriptor and the base that it needs; then nothing refers to
        // the memory any more.
        unsafe {
            if this.as_ref().has(MADE) {
                unmake(Self::event(this));
            }
            let (layout, offset) = layout(this.as_ref().loop_.event_bytes);
            this.drop_in_place();
            dealloc(this.cast::<u8>().sub(offset).as_ptr(), layout);
        }
    }

    /// Where its event for input is, or will be.
    ///
    /// # Safety
    /// It is from [`State::allocate`] and has not been freed.
    pub(super) unsafe fn event(this: NonNull<Self>) -> NonNull<RawEvent> {
        // SAFETY: the pointer is one into the whole allocation, which begins with the event.
        unsafe { this.cast::<u8>().sub(layout(this.as_ref().loop_.event_bytes).1).cast() }
    }

    /// Whether it has the mark.
    #[inline]
    pub(super) fn has(&self, mark: u32) -> bool {
        self.marks.get() & mark != 0
    }

    pub(super) fn mark(&self, mark: u32) {
        self.marks.set(self.marks.get() | mark);
    }

    /// Takes the mark away; tells whether it was there.
    pub(super) fn unmark(&self, mark: u32) -> bool {
        let marks = self.marks.get();
        self.marks.set(marks & !mark);
        marks & mark != 0
    }

    /// Where it stands in the list of sockets that were told of, if it does.
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

/// That of an event and a state, and where in it the state begins.
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
        // With an event of libevent 2.1 and what malloc adds that is a multiple of 16.
        assert!(size_of::<State>() <= 24, "{} bytes", size_of::<State>());
    }
}
