//! Sends the output of connections, and decides the order.
//!
//! Every byte that a connection sends passes through its [`Output`](super::output::Output), which is a queue: later output
//! stays after earlier output, even if the socket is full. Three things are decided only here:
//!
//! - **Large content is not copied.** If only one segment waits, one call sends it together with content that stays in the
//!   host's memory ([`Engine::send_between`]). Bytes that the socket does not take go into the queue.
//! - **Responses of a batch are sent together.** A send runs much kernel code, which displaces the engine from the processor's
//!   caches. So if the host answers at once, the requests of a batch are first received, then answered, and then all responses
//!   are sent ([`Engine::send_batch`]). Until then the connection of such a response is [`Flushing`](State::Flushing), like any
//!   other connection whose response has not been sent. A request that is alone in its batch is sent at once. Backends that
//!   send with their next wait (io_uring) send together by themselves.
//! - **A full socket is not tried again** before the backend reports it.

use super::Engine;
use super::body::Body;
use super::connection::{BufferedSocket, Reading, State};
use super::deadline::Deadline;
use super::memory::Memory;
use super::output::{Flushed, Pool};
use oribi_host::{Piece, ReplyError};
use oribi_io::{Attempt, Backend, Event};
use std::io::IoSlice;

/// Content up to this size is copied after the head: one buffer costs the kernel less than several.
pub(super) const COPIED_BYTES: u64 = 4 << 10;

/// The most slices that one gathered call sends: two for each FastCGI record, and as many as an app gives for its content. 30
/// records are 2 MiB; content beyond that waits in the queue.
const GATHERED_SLICES: usize = 64;

/// The most requests that are received before the first is answered, and responses that are sent together. At this size the
/// first request has waited some tens of microseconds, and enough requests share the savings.
const BATCH: usize = 32;

/// Larger responses are sent at once, because they fill the processor's caches by themselves.
pub(super) const LARGEST_IN_BATCH: usize = 2 << 10;

/// After this many bytes taken by the client, the deadline for writing starts again.
pub(super) const WRITE_PROGRESS: usize = 64 << 10;

/// The way in which framed content is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMode {
    /// The content is sent from the queue.
    Queued,
    /// The content is sent from the host's memory, by [`Engine::send_between`].
    Gathered,
}

/// Whether a connection still exists after a step that may have ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Still {
    Open,
    Gone,
}

impl Still {
    #[inline]
    pub(super) const fn or_gone(self) -> Result<(), ReplyError> {
        match self {
            Self::Open => Ok(()),
            Self::Gone => Err(ReplyError::Gone),
        }
    }
}

impl<S> BufferedSocket<S> {
    /// Gives back an output that has remained empty.
    #[inline]
    pub(super) fn trim(&mut self, outputs: &mut Pool) {
        if self.output.as_ref().is_some_and(|output| output.is_empty())
            && let Some(output) = self.output.take()
        {
            outputs.give(output);
        }
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Lets responses of a prompt host wait for others of the same batch from now on. This is for a caller that uses the engine
    /// alone and asks for the next exchange as soon as one is answered.
    pub fn answer_in_batches(&mut self) {
        self.batching.batches = self.backend.sends_at_once();
    }

    /// Whether requests are received, answered and sent in batches now.
    #[inline]
    pub(super) fn in_batches(&self) -> bool {
        self.batching.batches && self.batching.prompt
    }

    /// Whether a response may wait for others of its batch, because there are others.
    #[inline]
    pub(super) fn others_wait(&self) -> bool {
        self.in_batches()
            && (!self.run_queue.ready.is_empty()
                || !self.batching.batch.is_empty()
                || self.run_queue.handled < self.run_queue.events.len())
    }

    /// Collects responses on HTTP/2 connections until [`Engine::send_gathered_answers`]: the caller is about to pass several.
    pub fn gather_answers(&mut self) {
        self.batching.gathers = self.backend.sends_at_once();
    }

    /// Sends the gathered responses.
    pub fn send_gathered_answers(&mut self) {
        self.batching.gathers = false;
        self.send_batch();
    }

    /// Receives from the next reported sockets before the first of the requests is answered.
    #[inline]
    pub(super) fn receive_batch(&mut self) {
        if self.in_batches() {
            // New connections can wait: the host may take a long time after all, and other lanes may be free.
            while self.run_queue.ready.len() < BATCH
                && matches!(self.run_queue.events.get(self.run_queue.handled), Some(Event::Socket { .. }))
            {
                self.handle_event();
            }
        }
    }

    /// Lets a response wait for others of its batch.
    #[inline]
    pub(super) fn join_batch(&mut self, index: u32) {
        let token = self.connections.token(index);
        // Streams of one connection are usually answered one after the other.
        if self.batching.batch.last() != Some(&token) {
            self.batching.batch.push(token);
        }
    }

    /// Sends the responses of the batch.
    #[inline]
    pub(super) fn send_batch(&mut self) {
        if !self.batching.batch.is_empty() {
            self.send_whole_batch();
        }
    }

    #[inline(never)]
    fn send_whole_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.batching.batch);
        for token in batch.drain(..) {
            // A connection whose client has disconnected meanwhile no longer exists.
            if let Some(index) = self.connections.find(token) {
                let _ = self.flush(index);
            }
        }
        self.batching.batch = batch;
    }

    /// Sends the waiting output, if there is any, and continues when all of it has been sent.
    #[inline]
    pub(super) fn flush(&mut self, index: u32) -> Still {
        if self.connections[index].line.output.is_none() { Still::Open } else { self.flush_as(index, false) }
    }

    /// Like [`Engine::flush`]; with `last`, the connection ends after this output as soon as its host has returned, which it
    /// does at once.
    #[inline(never)]
    pub(super) fn flush_as(&mut self, index: u32, last: bool) -> Still {
        let line = &mut self.connections[index].line;
        let Some(output) = &mut line.output else { return Still::Open };
        if line.blocked {
            // The deadline of a request that was received meanwhile may have replaced that for writing.
            self.limit_writing(index);
            self.hold(index);
            return Still::Open;
        }
        match output.flush(&mut self.backend, &mut line.socket, last, &self.tally) {
            Flushed::All => self.all_has_left(index),
            Flushed::Later => {
                line.blocked = true;
                self.limit_writing(index);
                self.hold(index);
                Still::Open
            }
            Flushed::Turn => {
                self.limit_writing(index);
                self.ask_for_turn(index);
                Still::Open
            }
            Flushed::Broken => {
                self.drop_connection(index);
                Still::Gone
            }
            Flushed::FileEnded => {
                log::error!("a response was cut off: its file has become shorter than it was");
                self.cut(index);
                Still::Gone
            }
        }
    }

    #[inline(always)]
    fn all_has_left(&mut self, index: u32) -> Still {
        let connection = &mut self.connections[index];
        if let Some(mut output) = connection.line.output.take() {
            if output.timed {
                output.forget_share();
                if self.deadlines.runs(index, Deadline::Write) {
                    self.deadlines.clear(index);
                }
                let ending = self.ending_of(index);
                self.conclude_unsent(&mut output.unsent, ending);
                if !self.sockets.drains.is_empty() {
                    self.report_drains(index);
                }
            }
            self.memory.outputs.give(output);
        }
        let connection = &mut self.connections[index];
        match connection.state {
            State::Flushing(fate) => self.go_on(index, fate),
            State::Carrying(_) => {
                // Content that a client of HTTP/2 has had no room for leaves without waiting for the socket.
                if !self.sockets.drains.is_empty() {
                    self.report_drains(index);
                }
                self.go_on_carrying(index);
                Still::Open
            }
            State::WebSocket(_) => {
                self.await_close(index);
                Still::Open
            }
            State::Reading(Reading { request: Some(_), .. }) => {
                // The deadline for the content of this request starts now: until now the client was busy with the response.
                self.deadlines.set(index, Deadline::Content, self.backend.now());
                Still::Open
            }
            _ => Still::Open,
        }
    }

    fn limit_writing(&mut self, index: u32) {
        let connection = &mut self.connections[index];
        if !matches!(connection.state, State::Answering(_) | State::Flushing(_) | State::Carrying(_) | State::WebSocket(_)) {
            return;
        }
        let Some(output) = &mut connection.line.output else { return };
        if output.progress >= WRITE_PROGRESS || !self.deadlines.runs(index, Deadline::Write) {
            output.progress = 0;
            output.timed = true;
            self.deadlines.set(index, Deadline::Write, self.backend.now());
        }
    }

    /// Clears the deadline for the next request, which has begun on a connection with streams. A full socket keeps its deadline: further
    /// requests do not show that the client reads.
    #[inline]
    pub(super) fn no_longer_idle(&mut self, index: u32) {
        if !self.deadlines.runs(index, Deadline::Write) {
            self.deadlines.clear(index);
        }
    }

    /// Sends the one waiting segment, with content in its gaps. Queues the bytes that the socket does not take.
    #[inline(never)]
    pub(super) fn send_between(&mut self, index: u32, body: Body<'_>) -> Still {
        let Self { connections, backend, tally, memory: Memory { gaps, .. }, .. } = self;
        let line = &mut connections[index].line;
        let Some(output) = &mut line.output else { return Still::Open };
        let framing = output.take_only_segment();
        let mut slices = Slices::default();
        let (mut position, mut rest) = (0, body.rest());
        for gap in &*gaps {
            slices.add(&framing[position..gap.position]);
            rest.take(gap.size, |piece| {
                if let Piece::Bytes(bytes) = piece {
                    slices.add(bytes);
                }
            });
            position = gap.position;
        }
        slices.add(&framing[position..]);
        let sent = match backend.send_gathered(&mut line.socket, slices.first()) {
            Attempt::Done(count) => count,
            Attempt::Later => 0,
            Attempt::End | Attempt::Broken => {
                self.drop_connection(index);
                return Still::Gone;
            }
        };
        output.progress += sent;
        tally.sent(sent);
        slices.behind(sent, |slice| output.push(slice));
        output.recycle(framing);
        if !output.is_empty() {
            return self.flush(index);
        }
        self.all_has_left(index)
    }
}

/// Slices in a row: the first in an array, and the rest, which is rare, in a list.
struct Slices<'a> {
    first: [IoSlice<'a>; GATHERED_SLICES],
    count: usize,
    rest: Vec<&'a [u8]>,
}

impl Default for Slices<'_> {
    fn default() -> Self {
        Self { first: [IoSlice::new(&[]); GATHERED_SLICES], count: 0, rest: Vec::new() }
    }
}

impl<'a> Slices<'a> {
    fn add(&mut self, slice: &'a [u8]) {
        if slice.is_empty() {
        } else if self.count < GATHERED_SLICES {
            self.first[self.count] = IoSlice::new(slice);
            self.count += 1;
        } else {
            self.rest.push(slice);
        }
    }

    /// The slices that one call sends.
    fn first(&self) -> &[IoSlice<'a>] {
        &self.first[..self.count]
    }

    /// Passes everything after the first `sent` bytes to `sink`.
    fn behind(&self, mut sent: usize, mut sink: impl FnMut(&[u8])) {
        for slice in self.first().iter().map(|slice| &**slice).chain(self.rest.iter().copied()) {
            let skipped = sent.min(slice.len());
            sent -= skipped;
            if skipped < slice.len() {
                sink(&slice[skipped..]);
            }
        }
    }
}
