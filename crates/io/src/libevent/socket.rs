//! A connection's socket and its events.
#![allow(unsafe_code)]

use super::Loop;
use super::library::{CLOSED, EDGE, PERSIST, READ, WRITE, Watch, add, remove};
use super::state::{AWAITS_ROOM, DEAF, HAS_OUTPUT, MADE, State};
use crate::{Attempt, Event, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::{c_int, c_short, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;

/// A connection's socket. What callbacks know of it does not move with it.
#[derive(Debug)]
pub struct Socket(NonNull<State>);

impl Socket {
    pub(super) fn new(descriptor: OwnedFd, loop_: &Rc<Loop>) -> Self {
        Self(State::allocate(descriptor, loop_))
    }

    pub(super) fn open(&self, token: Token) -> io::Result<()> {
        let state = self.state();
        state.token.set(token);
        // SAFETY: the state and the place of its event stay where they are until the socket is dropped, which ends the event
        // before the descriptor and the base; the callback only notes things in cells of the state and the loop.
        unsafe {
            let event = State::event(self.0);
            if !state.has(MADE) {
                let what = if state.loop_.edges { READ | CLOSED | EDGE | PERSIST } else { READ | PERSIST };
                state.loop_.base.make(event, state.descriptor.as_fd(), what, on_input, self.0.as_ptr().cast())?;
                state.mark(MADE);
            }
            add(event, None)
        }
    }

    /// Reports nothing from now on.
    pub(super) fn silence(&self) {
        self.was_received_from();
        let state = self.state();
        if state.has(MADE) {
            // SAFETY: the event was made in `open` and stands there until the socket is dropped.
            unsafe { remove(State::event(self.0)) };
        }
        state.unmark(AWAITS_ROOM);
        state.unmark(DEAF);
        if state.unmark(HAS_OUTPUT) {
            state.loop_.outputs.borrow_mut().remove(&state.descriptor.as_raw_fd());
        }
    }

    /// Called when a send finds the socket full.
    #[cold]
    pub(super) fn await_room(&self) -> Attempt {
        self.state().mark(AWAITS_ROOM);
        if self.watch_output().is_ok() { Attempt::Later } else { Attempt::Broken }
    }

    fn watch_output(&self) -> io::Result<()> {
        let state = self.state();
        let edges = state.loop_.edges;
        let number = state.descriptor.as_raw_fd();
        if !state.has(HAS_OUTPUT) {
            // An event of changes stays: it tells of nothing while there is none. An event of states goes off once.
            let what = if edges { WRITE | EDGE | PERSIST } else { WRITE };
            let (descriptor, argument) = (Some(state.descriptor.as_fd()), self.0.as_ptr().cast());
            // SAFETY: as above: whoever drops the socket drops this first.
            let watch = unsafe { Watch::new(&state.loop_.base, descriptor, what, on_room, argument)? };
            state.loop_.outputs.borrow_mut().insert(number, watch);
            state.mark(HAS_OUTPUT);
        } else if edges {
            return Ok(());
        }
        // The state is looked at then: if there is room by now, the event comes at once.
        state.loop_.outputs.borrow().get(&number).map_or_else(|| Err(io::ErrorKind::NotFound.into()), Watch::add)
    }

    /// Whoever receives finds out by himself what there is to be found out.
    #[inline]
    pub(super) fn was_received_from(&self) {
        let state = self.state();
        if let Some(place) = state.told_at() {
            state.set_untold();
            if let Some(told) = state.loop_.told.borrow_mut().get_mut(place) {
                *told = None;
            }
        }
    }

    /// A receive has found all that there was.
    #[inline]
    pub(super) fn was_emptied(&self) {
        if self.state().has(DEAF) {
            self.listen_again();
        }
    }

    #[cold]
    fn listen_again(&self) {
        // Failing leaves a client without an answer, as a lost connection does; there is a deadline for that.
        // SAFETY: one that does not listen has an event.
        if unsafe { add(State::event(self.0), None) }.is_ok() {
            self.state().unmark(DEAF);
        }
    }

    #[inline]
    fn state(&self) -> &State {
        // SAFETY: made in `new`, freed when this is dropped, and never referred to but shared.
        unsafe { self.0.as_ref() }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state().descriptor.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.was_received_from();
        let state = self.state();
        if state.has(HAS_OUTPUT) {
            state.loop_.outputs.borrow_mut().remove(&state.descriptor.as_raw_fd());
        }
        // SAFETY: it is from `new`; neither the list of those that were told of nor an event for output, whose callback has its
        // address, has it any more. No callback runs now: they run below a wait, which has no socket to drop.
        unsafe { State::free(self.0) };
    }
}

/// Looks at a socket that was told of and not received from: has it ended, is it broken?
///
/// # Safety
/// It is the state of a socket that is there.
pub(super) unsafe fn look(socket: NonNull<State>) -> Option<Event> {
    // SAFETY: as above.
    let state = unsafe { socket.as_ref() };
    state.set_untold();
    if !state.loop_.edges {
        // It would be told of again and again.
        // SAFETY: it has been told of, so it has an event.
        unsafe { remove(State::event(socket)) };
        state.mark(DEAF);
    }
    let mut looked_at = [PollFd::new(&state.descriptor, PollFlags::IN | PollFlags::RDHUP)];
    poll(&mut looked_at, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
    let found = looked_at[0].revents();
    let broken = found.intersects(PollFlags::HUP | PollFlags::ERR);
    let ended = broken || found.contains(PollFlags::RDHUP);
    ended.then_some(Event::Socket { token: state.token.get(), readable: true, writable: false, ended, broken })
}

unsafe extern "C" fn on_input(_descriptor: c_int, what: c_short, argument: *mut c_void) {
    let address = argument.cast::<State>();
    // SAFETY: the argument is the state of a socket that is alive, as its event is.
    let state = unsafe { &*address };
    let ended = what & CLOSED != 0;
    state.loop_.tell(Event::Socket { token: state.token.get(), readable: true, writable: false, ended, broken: false });
    if state.told_at().is_none() {
        let mut told = state.loop_.told.borrow_mut();
        state.set_told_at(told.len());
        told.push(NonNull::new(address));
    }
}

unsafe extern "C" fn on_room(_descriptor: c_int, _what: c_short, argument: *mut c_void) {
    // SAFETY: as above.
    let state = unsafe { &*argument.cast::<State>() };
    if state.unmark(AWAITS_ROOM) {
        state.loop_.tell(Event::Socket {
            token: state.token.get(),
            readable: false,
            writable: true,
            ended: false,
            broken: false,
        });
    }
}
