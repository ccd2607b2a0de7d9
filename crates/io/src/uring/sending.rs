//! Sending and closing: small sends go out with the next turn, large ones at once.

use super::Uring;
use super::name::{Name, Operation};
use super::sockets::{Key, State};
use crate::{Attempt, Backend, Direction, calls};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::time::Duration;

/// The most bytes of a send that is stored for the next turn. Copying more costs about as much as the system call that it
/// saves.
const QUEUED_BYTES: usize = 8 << 10;

/// The time for which bytes taken from the caller may wait for room after the socket is closed. A kernel would try for
/// longer.
const LINGER: Duration = Duration::from_secs(30);

/// A send that is stored for the next turn.
#[derive(Debug)]
pub(super) struct Outgoing {
    key: Key,
    bytes: Range<usize>,
    /// `None` unless the kernel has reported a failure: then the number of bytes that were sent, or an error if the connection
    /// is broken.
    sent: Option<Result<usize, ()>>,
}

impl Uring {
    pub(super) fn send_all(&mut self, key: Key, buffers: &[IoSlice<'_>], size: usize) -> Attempt {
        let small = size <= QUEUED_BYTES;
        if small && self.ring.room_for(size).is_none() {
            self.submit();
        }
        // Bytes taken before are sent first.
        if let Some(state) = self.sockets.find(key)
            && state.queued
        {
            let end = self.ring.room_for(size);
            let goes_on = |last: &&mut Outgoing| {
                // Otherwise the bytes of an aborted send follow in the store.
                last.key == key && Some(last.bytes.end) == end && last.bytes.len() + size <= QUEUED_BYTES
            };
            if let Some(last) = self.outgoing.last_mut().filter(goes_on) {
                buffers.iter().for_each(|buffer| self.ring.keep(buffer));
                last.bytes.end += size;
                return Attempt::Done(size);
            }
            self.submit();
        }
        let Some(state) = self.sockets.find(key) else { return Attempt::Broken };
        if state.broken || state.queued {
            return Attempt::Broken;
        }
        if state.full || state.unsent.is_some() {
            return Attempt::Later;
        }
        if small && let Some(start) = self.ring.room_for(size) {
            state.queued = true;
            buffers.iter().for_each(|buffer| self.ring.keep(buffer));
            self.outgoing.push(Outgoing { key, bytes: start..start + size, sent: None });
            return Attempt::Done(size);
        }
        let result = calls::send_gathered(&state.descriptor, buffers);
        self.sent(key, result)
    }

    pub(super) fn send_file_now(&mut self, key: Key, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        if self.sockets.find(key).is_some_and(|state| state.queued) {
            self.submit();
        }
        let Some(state) = self.sockets.find(key) else { return Attempt::Broken };
        if state.broken || state.queued {
            return Attempt::Broken;
        }
        if state.full || state.unsent.is_some() {
            return Attempt::Later;
        }
        match calls::send_file(&state.descriptor, file, offset, size) {
            Ok(0) => Attempt::End,
            result => self.sent(key, result),
        }
    }

    /// Processes the result of a send without the ring.
    fn sent(&mut self, key: Key, result: rustix::io::Result<usize>) -> Attempt {
        let Some(state) = self.sockets.find(key) else { return Attempt::Broken };
        match result {
            Ok(count) => Attempt::Done(count),
            Err(Errno::AGAIN) => {
                state.full = true;
                self.to_watch.push(key);
                Attempt::Later
            }
            Err(_) => {
                state.broken = true;
                Attempt::Broken
            }
        }
    }

    pub(super) fn end_side(&mut self, key: Key, direction: Direction) {
        if direction == Direction::Send {
            self.submit();
        }
        let Some(state) = self.sockets.find(key) else { return };
        if direction == Direction::Send && state.unsent.is_some() {
            state.end_after = true;
            return;
        }
        if direction == Direction::Abort {
            state.unsent = None;
            state.queued = false;
            self.outgoing.retain(|outgoing| outgoing.key != key);
        }
        calls::shut_down(&state.descriptor, direction);
    }

    /// Hands the stored sends and the closes to the kernel.
    pub(super) fn hand_over_outgoing(&mut self) -> io::Result<()> {
        for outgoing in &self.outgoing {
            let Some(state) = self.sockets.find(outgoing.key) else { continue };
            let close = state.closed.then_some(Name::INDIFFERENT.number());
            if close.is_some() {
                self.to_cancel.extend(state.pending().map(|operation| outgoing.key.name(operation)));
            }
            self.ring.send(state.number(), outgoing.bytes.clone(), outgoing.key.name(Operation::Send), close)?;
        }
        for key in std::mem::take(&mut self.to_close) {
            let Some(state) = self.sockets.find(key) else { continue };
            if state.queued {
                // The socket is closed after its stored send.
                continue;
            }
            if state.unsent.is_some() && !state.broken {
                self.lingering.push((key, self.now + LINGER));
                continue;
            }
            if let Some(state) = self.forget(key) {
                self.ring.close(state.descriptor, Name::INDIFFERENT.number())?;
            }
        }
        for target in self.to_cancel.drain(..) {
            self.ring.cancel(target, Name::INDIFFERENT.number())?;
        }
        Ok(())
    }

    /// Removes the state of a socket, and cancels the kernel's operations for the socket. Returns the state, whose descriptor
    /// is still open.
    fn forget(&mut self, key: Key) -> Option<State> {
        let state = self.sockets.remove(key)?;
        self.to_cancel.extend(state.pending().map(|operation| key.name(operation)));
        Some(state)
    }

    /// Notes that the kernel did not send all stored bytes of a socket.
    pub(super) fn sent_in_part(&mut self, key: Key, result: i32) {
        if let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.key == key) {
            let fatal = result < 0 && result != -libc::EAGAIN && result != -libc::EINTR;
            outgoing.sent = Some(if fatal { Err(()) } else { Ok(result.max(0) as usize) });
        }
    }

    /// Settles the stored sends after all of them have been handed over, and their failures are known.
    pub(super) fn settle_outgoing(&mut self) {
        for outgoing in std::mem::take(&mut self.outgoing) {
            let key = outgoing.key;
            let Some(state) = self.sockets.find(key) else { continue };
            state.queued = false;
            match outgoing.sent {
                None if state.closed => {
                    // The kernel has closed the descriptor after the send, so it must not be closed again.
                    if let Some(state) = self.sockets.remove(key) {
                        let _ = state.descriptor.into_raw_fd();
                    }
                }
                None => {}
                Some(Err(())) => self.break_off(key),
                Some(Ok(count)) => {
                    let left = outgoing.bytes.start + count..outgoing.bytes.end;
                    state.unsent = Some(Box::new(self.ring.kept(left).iter().copied().collect()));
                    if state.closed {
                        self.lingering.push((key, self.now + LINGER));
                    }
                    self.to_watch.push(key);
                }
            }
        }
        self.ring.forget_kept();
    }

    /// Marks a socket as broken: sending has failed permanently.
    fn break_off(&mut self, key: Key) {
        let Some(state) = self.sockets.find(key) else { return };
        state.unsent = None;
        state.broken = true;
        state.readable = true;
        if state.closed {
            self.lingering.retain(|&(other, _)| other != key);
            drop(self.forget(key));
        } else {
            self.note(key);
        }
    }

    /// Notes that a full socket has room.
    pub(super) fn has_room(&mut self, key: Key) {
        let Some(state) = self.sockets.find(key) else { return };
        state.watched = false;
        state.full = false;
        if let Some(unsent) = &mut state.unsent {
            match send_from(unsent, state.descriptor.as_fd()) {
                Ok(()) => state.unsent = None,
                Err(Errno::AGAIN) => return self.to_watch.push(key),
                Err(_) => return self.break_off(key),
            }
            if state.end_after {
                calls::shut_down(&state.descriptor, Direction::Send);
            }
            if state.closed {
                self.lingering.retain(|&(other, _)| other != key);
                drop(self.forget(key));
                return;
            }
        }
        state.writable = true;
        self.note(key);
    }

    /// Breaks connections whose clients have not read the bytes that were left when the connections were closed.
    pub(super) fn give_up_lingering(&mut self) {
        let now = self.now;
        while let Some(position) = self.lingering.iter().position(|&(_, until)| until <= now) {
            let (key, _) = self.lingering.swap_remove(position);
            if let Some(state) = self.forget(key) {
                // The response is incomplete, and must not look complete.
                calls::shut_down(&state.descriptor, Direction::Abort);
            }
        }
    }
}

/// Sends `bytes` and removes what was sent. `AGAIN`: the socket had no room for the rest.
fn send_from(bytes: &mut VecDeque<u8>, socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let (first, _) = bytes.as_slices();
        let count = calls::send(socket, first, SendFlags::empty())?;
        bytes.drain(..count);
    }
    Ok(())
}
