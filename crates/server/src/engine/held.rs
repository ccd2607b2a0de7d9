//! Small responses that leave together, behind the last request of a batch.
//!
//! To send is a long way through the kernel, after which the processor has forgotten the engine: what comes next is fetched anew
//! from slower memory. So where the host answers at once, the requests of a batch are answered one after the other, and then all
//! their responses are sent. Nobody waits for longer than the few others of a bunch take, and a request that is alone in its batch
//! waits for nobody. Backends that send with their next wait (io_uring) do so by themselves.

use super::Engine;
use super::connection::Phase;
use super::respond::append;
use oribi_io::{Attempt, Backend, Token};

/// So many responses leave together at most: by then the first has waited for some tens of microseconds, and what a batch saves is
/// shared by enough requests.
const MOST_RESPONSES: usize = 32;

/// Larger responses leave at once: to copy them costs more than is gained.
const LARGEST_HELD: u64 = 2 << 10;

/// Responses that wait for the others of their batch.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Whether any may: see [`Engine::hold_responses`].
    allowed: bool,
    bytes: Vec<u8>,
    /// Whose they are, and where they end in `bytes`.
    responses: Vec<(Token, usize)>,
}

impl<B: Backend> Engine<'_, B> {
    /// From now on responses of a prompt host may wait for those of the same batch. This is for who is alone with the engine and
    /// asks for the next exchange as soon as one is answered.
    pub fn hold_responses(&mut self) {
        self.held.allowed = B::SENDS_AT_ONCE;
    }

    /// Whether responses may wait at all.
    #[inline]
    pub(super) fn may_hold(&self) -> bool {
        self.held.allowed && self.prompt
    }

    /// Whether the response whose head is in the scratch buffer, with `size` bytes of content, may wait now: there are others for it
    /// to wait for.
    #[inline]
    pub(super) fn can_hold(&self, size: u64) -> bool {
        let others = self.handled < self.events.len() || !self.ready.is_empty();
        self.may_hold() && others && self.scratch.len() as u64 + size <= LARGEST_HELD
    }

    /// Holds the response whose head is in the scratch buffer and whose content is the first `size` bytes of `parts`. From here on
    /// the connection goes its way as if it had been sent.
    #[inline]
    pub(super) fn hold(&mut self, index: u32, parts: &[&[u8]], size: u64) {
        if self.held.responses.len() == MOST_RESPONSES {
            self.send_held();
        }
        let token = self.connections.token(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.held = true;
        self.held.bytes.extend_from_slice(&self.scratch);
        append(&mut self.held.bytes, parts, size);
        self.held.responses.push((token, self.held.bytes.len()));
    }

    /// Sends a connection's response before something else happens to the connection.
    #[inline]
    pub(super) fn send_if_held(&mut self, index: u32) {
        if self.connections.get(index).is_some_and(|connection| connection.held) {
            self.send_held();
        }
    }

    /// Sends all that is held.
    #[inline]
    pub(super) fn send_held(&mut self) {
        if !self.held.responses.is_empty() {
            self.send_all_held();
        }
    }

    #[inline(never)]
    fn send_all_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let mut begin = 0;
        for (token, end) in held.responses.drain(..) {
            let bytes = &held.bytes[begin..end];
            begin = end;
            let Some(index) = self.connections.find(token) else { continue };
            let Some(connection) = self.connections.get_mut(index) else { continue };
            connection.held = false;
            match self.backend.send(&mut connection.socket, bytes) {
                Attempt::Done(count) if count == bytes.len() => {}
                Attempt::Done(count) => self.keep_rest_of_held(index, &bytes[count..]),
                Attempt::Later => self.keep_rest_of_held(index, bytes),
                Attempt::End | Attempt::Broken => self.drop_connection(index),
            }
        }
        held.bytes.clear();
        self.held = held;
    }

    /// The socket was full.
    #[cold]
    fn keep_rest_of_held(&mut self, index: u32, rest: &[u8]) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.output().push(rest);
        if connection.phase == Phase::Reading {
            // The response was taken for sent, but the next request has to wait.
            connection.phase = Phase::Flushing;
        }
        self.flush(index);
    }
}
