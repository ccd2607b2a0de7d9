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

/// A connection's socket. The state that callbacks use has its own memory, and does not move with this value.
#[derive(Debug)]
pub struct Socket(NonNull<State>);

impl Socket {
    pub(super) fn new(descriptor: OwnedFd, loop_: &Rc<Loop>) -> Self {
        Self(State::allocate(descriptor, loop_))
    }

    pub(super) fn open(&self, token: Token) -> io::Result<()> {
        let state = self.state();
        state.token.set(token);
        // SAFETY: the state and the memory of its event stay in place until the socket is dropped, which ends the event before
        // the descriptor and the base. The callback only records things in cells of the state and the loop.
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

    /// Stops all reports.
    pub(super) fn silence(&self) {
        self.was_received_from();
        let state = self.state();
        if state.has(MADE) {
            // SAFETY: the event was made in `open` and exists until the socket is dropped.
            unsafe { remove(State::event(self.0)) };
        }
        state.unmark(AWAITS_ROOM);
        state.unmark(DEAF);
        if state.unmark(HAS_OUTPUT) {
            state.loop_.outputs.borrow_mut().remove(&state.descriptor.as_raw_fd());
        }
    }

    /// Watches for room after a send has found the socket full.
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
            // An edge-triggered event stays: it reports nothing while nothing changes. A level-triggered event fires once.
            let what = if edges { WRITE | EDGE | PERSIST } else { WRITE };
            let (descriptor, argument) = (Some(state.descriptor.as_fd()), self.0.as_ptr().cast());
            // SAFETY: as above; dropping the socket drops this watch first.
            let watch = unsafe { Watch::new(&state.loop_.base, descriptor, what, on_room, argument)? };
            state.loop_.outputs.borrow_mut().insert(number, watch);
            state.mark(HAS_OUTPUT);
        } else if edges {
            return Ok(());
        }
        // Adding checks the current state: if there is room already, the event arrives at once.
        state.loop_.outputs.borrow().get(&number).map_or_else(|| Err(io::ErrorKind::NotFound.into()), Watch::add)
    }

    /// Notes that the caller receives. Receiving reports the end of input itself, so the socket need not be checked.
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

    /// Notes that a receive has emptied the socket.
    #[inline]
    pub(super) fn was_emptied(&self) {
        if self.state().has(DEAF) {
            self.listen_again();
        }
    }

    #[cold]
    fn listen_again(&self) {
        // If this fails, the client gets no response, as if the connection were lost; a deadline ends the connection.
        // SAFETY: only a socket with an event is marked as deaf, and the event exists until the socket is dropped.
        if unsafe { add(State::event(self.0), None) }.is_ok() {
            self.state().unmark(DEAF);
        }
    }

    #[inline]
    fn state(&self) -> &State {
        // SAFETY: the state was made in `new`, is freed when this is dropped, and only shared references to it exist.
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
        // SAFETY: the state is from `new`. The list of reported sockets no longer contains it, and the event for output, whose
        // callback has its address, is gone. No callback runs now: callbacks run within a wait, which drops no socket.
        unsafe { State::free(self.0) };
    }
}

/// Checks whether a socket that was reported and not received from has ended or is broken.
///
/// # Safety
/// `socket` is the state of an existing socket.
pub(super) unsafe fn look(socket: NonNull<State>) -> Option<Event> {
    // SAFETY: as above.
    let state = unsafe { socket.as_ref() };
    state.set_untold();
    if !state.loop_.edges {
        // Otherwise the base would report the socket again and again.
        // SAFETY: a socket that was reported has an event.
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
    // SAFETY: the argument is the state of a socket that exists as long as its event does.
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
