//! A connection's socket and its events.
#![allow(unsafe_code)]

use super::Loop;
use super::library::{CLOSED, EDGE, PERSIST, READ, WRITE, Watch};
use crate::{Attempt, Event, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, OnceCell};
use std::ffi::{c_int, c_short, c_void};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;

/// Not in the list of sockets that were told of.
const UNTOLD: u32 = u32::MAX;

/// A connection's socket. What callbacks know of it does not move with it.
#[derive(Debug)]
pub struct Socket(NonNull<State>);

/// Behind a socket. Everybody has but shared references to it.
pub(super) struct State {
    // The events go first: they need what follows.
    input: OnceCell<Watch>,
    output: OnceCell<Watch>,
    loop_: Rc<Loop>,
    token: Cell<Token>,
    descriptor: OwnedFd,
    /// Where it stands in the list of sockets that were told of, if it does.
    told_at: Cell<u32>,
    /// A send has found the socket full.
    awaits_room: Cell<bool>,
    /// Where there are no edges: input is not watched until the socket has been received from.
    deaf: Cell<bool>,
}

impl Socket {
    pub(super) fn new(descriptor: OwnedFd, loop_: &Rc<Loop>) -> Self {
        let state = State {
            input: OnceCell::new(),
            output: OnceCell::new(),
            loop_: loop_.clone(),
            token: Cell::new(Token(0)),
            descriptor,
            told_at: Cell::new(UNTOLD),
            awaits_room: Cell::new(false),
            deaf: Cell::new(false),
        };
        Self(NonNull::from(Box::leak(Box::new(state))))
    }

    pub(super) fn open(&self, token: Token) -> io::Result<()> {
        self.state().token.set(token);
        let what = if self.state().loop_.edges { READ | CLOSED | EDGE | PERSIST } else { READ | PERSIST };
        self.watched(&self.state().input, what, on_input)?.add()
    }

    /// Called when a send finds the socket full.
    #[cold]
    pub(super) fn await_room(&self) -> Attempt {
        self.state().awaits_room.set(true);
        let known = self.state().output.get().is_some();
        // An event of changes stays: it tells of nothing while there is none. An event of states goes off once.
        let what = if self.state().loop_.edges { WRITE | EDGE | PERSIST } else { WRITE };
        let added =
            self.watched(&self.state().output, what, on_room).and_then(|output| match known && self.state().loop_.edges {
                true => Ok(()),
                // The state is looked at then: if there is room by now, the event comes at once.
                false => output.add(),
            });
        if added.is_ok() { Attempt::Later } else { Attempt::Broken }
    }

    /// The event in `cell`, made if there is none.
    fn watched<'a>(
        &'a self,
        cell: &'a OnceCell<Watch>,
        what: c_short,
        callback: super::library::Callback,
    ) -> io::Result<&'a Watch> {
        if cell.get().is_none() {
            // SAFETY: the state stays where it is until the socket is dropped, which drops the event first and the descriptor
            // last; the callbacks only note things in its cells and those of the loop.
            let made = unsafe {
                Watch::new(
                    &self.state().loop_.base,
                    Some(self.state().descriptor.as_fd()),
                    what,
                    callback,
                    self.0.as_ptr().cast(),
                )
            };
            let _ = cell.set(made?);
        }
        cell.get().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Whoever receives finds out by himself what there is to be found out.
    #[inline]
    pub(super) fn was_received_from(&self) {
        let place = self.state().told_at.replace(UNTOLD);
        if place != UNTOLD
            && let Some(told) = self.state().loop_.told.borrow_mut().get_mut(place as usize)
        {
            *told = None;
        }
    }

    /// A receive has found all that there was.
    #[inline]
    pub(super) fn was_emptied(&self) {
        if self.state().deaf.get() {
            self.listen_again();
        }
    }

    #[cold]
    fn listen_again(&self) {
        // Failing leaves a client without an answer, as a lost connection does; there is a deadline for that.
        if self.state().input.get().is_some_and(|input| input.add().is_ok()) {
            self.state().deaf.set(false);
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
        // SAFETY: it was a box in `new`; the list of those that were told of does not have it any more, and its events, whose
        // callbacks have its address, go with it. No callback runs now: they run below a wait, which has no socket to drop.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl State {
    /// Looks at a socket that was told of and not received from: has it ended, is it broken?
    pub(super) fn look(&self) -> Option<Event> {
        self.told_at.set(UNTOLD);
        if !self.loop_.edges
            && let Some(input) = self.input.get()
        {
            // It would be told of again and again.
            input.remove();
            self.deaf.set(true);
        }
        let mut looked_at = [PollFd::new(&self.descriptor, PollFlags::IN | PollFlags::RDHUP)];
        poll(&mut looked_at, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        let found = looked_at[0].revents();
        let broken = found.intersects(PollFlags::HUP | PollFlags::ERR);
        let ended = broken || found.contains(PollFlags::RDHUP);
        ended.then_some(Event::Socket { token: self.token.get(), readable: true, writable: false, ended, broken })
    }
}

unsafe extern "C" fn on_input(_descriptor: c_int, what: c_short, argument: *mut c_void) {
    let address = argument.cast::<State>();
    // SAFETY: the argument is the state of a socket that is alive, as its event is.
    let state = unsafe { &*address };
    let ended = what & CLOSED != 0;
    state.loop_.tell(Event::Socket { token: state.token.get(), readable: true, writable: false, ended, broken: false });
    if state.told_at.get() == UNTOLD {
        let mut told = state.loop_.told.borrow_mut();
        state.told_at.set(told.len() as u32);
        told.push(NonNull::new(address));
    }
}

unsafe extern "C" fn on_room(_descriptor: c_int, _what: c_short, argument: *mut c_void) {
    // SAFETY: as above.
    let state = unsafe { &*argument.cast::<State>() };
    if state.awaits_room.replace(false) {
        state.loop_.tell(Event::Socket {
            token: state.token.get(),
            readable: false,
            writable: true,
            ended: false,
            broken: false,
        });
    }
}
