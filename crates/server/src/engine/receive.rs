//! From the socket to a complete request.

use super::connection::{Connection, Phase};
use super::content::StoredContent;
use super::deadline::Deadline;
use super::input::BUFFER_BYTES;
use super::{Engine, Stage};
use oribi_io::{Attempt, Backend};
use oribi_message::Span;
use oribi_proto::h1::{Event, Framing, Refusal};
use std::io;

/// Received at once when content goes to a file.
const SPOOL_BYTES: usize = 64 << 10;

/// Receives of a connection before another one has its turn: 1 MiB of content on its way to a file.
pub(super) const RECEIVES_PER_TURN: usize = 16;

impl<B: Backend> Engine<'_, B> {
    /// Receives and feeds the machine until the socket is empty, a request is complete or the turn is over.
    pub(super) fn receive(&mut self, index: u32) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.connections.get_mut(index) else { return };
            match connection.phase {
                // What has been received waits for its turn, and comes before what follows it, the end above all.
                Phase::Reading if connection.yielded => return,
                Phase::Reading if connection.readable => {}
                Phase::Lingering => return self.discard(index),
                Phase::Carrying => return self.receive_records(index),
                _ => return,
            }
            let direct = connection.content_left > 0 && !connection.input.has_unread() && !connection.input.pinned;
            let (attempt, room) = if direct { self.receive_content(index) } else { self.receive_input(index) };
            let Some(connection) = self.connections.get_mut(index) else { return };
            match attempt {
                Attempt::Done(count) => {
                    // A short read has emptied the socket, unless the end stands behind it.
                    connection.readable = count == room || connection.ended;
                    if direct {
                        self.advance_content(index, count);
                    } else {
                        connection.input.received(count);
                        self.advance(index);
                    }
                }
                Attempt::Later => connection.readable = false,
                Attempt::End => return self.end_of_input(index),
                Attempt::Broken => return self.drop_connection(index),
            }
        }
        let reading = |connection: &Connection<_>| connection.phase == Phase::Reading && connection.readable;
        if self.connections.get(index).is_some_and(reading) {
            self.ask_for_turn(index);
        }
    }

    fn receive_input(&mut self, index: u32) -> (Attempt, usize) {
        let Some(connection) = self.connections.get_mut(index) else { return (Attempt::Broken, 0) };
        let room = connection.input.room(&mut self.pool, self.limits.head_bytes);
        let size = room.len();
        let attempt = self.backend.receive(&mut connection.socket, room);
        if attempt == Attempt::Later && !connection.input.has_unread() && connection.input.head.is_none() {
            connection.input.release(&mut self.pool);
        }
        (attempt, size)
    }

    /// Receives content where it will stay, or next to its file.
    fn receive_content(&mut self, index: u32) -> (Attempt, usize) {
        let Some(connection) = self.connections.get_mut(index) else { return (Attempt::Broken, 0) };
        let left = usize::try_from(connection.content_left).unwrap_or(usize::MAX);
        let room = match &mut connection.content {
            StoredContent::Memory { bytes, filled } => &mut bytes[*filled..*filled + left],
            _ => {
                self.spool.resize(SPOOL_BYTES, 0);
                &mut self.spool[..left.min(SPOOL_BYTES)]
            }
        };
        let size = room.len();
        (self.backend.receive(&mut connection.socket, room), size)
    }

    /// Feeds unread input to the machine until it wants more, or a request is complete.
    pub(super) fn advance(&mut self, index: u32) {
        loop {
            let Some(connection) = self.connections.get_mut(index) else { return };
            if connection.machine.awaits_head() {
                // Even a head that turns out incomplete writes over the layout of one that still waits for its lane.
                self.layout_of = None;
            }
            let step = connection.machine.handle_input(connection.input.unread(), &mut self.next_exchange.layout, &self.limits);
            let start = connection.input.position();
            match step.event {
                Event::NeedInput => {
                    connection.input.consume(step.consumed);
                    return self.await_input(index);
                }
                Event::Head { start: skipped, content } => {
                    connection.input.head = Some(Span::new(start + skipped, start + step.consumed));
                    connection.input.consume(step.consumed);
                    connection.requests += 1;
                    self.layout_of = Some(index);
                    if !self.begin_content(index, content) {
                        return;
                    }
                }
                Event::Content(range) => {
                    let piece = &connection.input.unread()[range];
                    connection.content_left = connection.content_left.saturating_sub(piece.len() as u64);
                    let (largest, directory) = (self.settings.limits.content_memory_bytes, &self.settings.temporary_directory);
                    let added = connection.content.add(piece, largest, directory);
                    connection.input.consume(step.consumed);
                    if let Err(error) = added {
                        return self.refuse_storage(index, &error);
                    }
                }
                Event::End => {
                    connection.input.consume(step.consumed);
                    return self.complete(index);
                }
                Event::Refused(refusal) => return self.refuse(index, refusal),
            }
        }
    }

    /// Feeds content that was received in place.
    fn advance_content(&mut self, index: u32, count: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.content_left -= count as u64;
        let mut end = false;
        let mut fed = 0;
        let stored = match &mut connection.content {
            StoredContent::Memory { bytes, filled } => {
                let received = &bytes[*filled..*filled + count];
                *filled += count;
                while fed < count || !end {
                    let step = connection.machine.handle_input(&received[fed..], &mut self.next_exchange.layout, &self.limits);
                    fed += step.consumed;
                    match step.event {
                        Event::Content(_) => {}
                        Event::End => end = true,
                        _ => break,
                    }
                }
                Ok(())
            }
            content => {
                while fed < count || !end {
                    let step =
                        connection.machine.handle_input(&self.spool[fed..count], &mut self.next_exchange.layout, &self.limits);
                    fed += step.consumed;
                    match step.event {
                        Event::Content(_) => {}
                        Event::End => end = true,
                        _ => break,
                    }
                }
                content.add(&self.spool[..count], 0, &self.settings.temporary_directory)
            }
        };
        match stored {
            Ok(()) if end => self.complete(index),
            Ok(()) => {}
            Err(error) => self.refuse_storage(index, &error),
        }
    }

    /// Chooses where content goes. `false`: the request is complete, or the connection has gone.
    fn begin_content(&mut self, index: u32, framing: Framing) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return false };
        connection.content = match framing {
            Framing::None => StoredContent::None,
            Framing::Empty | Framing::Chunked => StoredContent::Memory { bytes: Vec::new(), filled: 0 },
            Framing::Length(size) => {
                connection.content_left = size;
                let start = connection.input.position();
                if size <= BUFFER_BYTES.saturating_sub(start) as u64 {
                    connection.input.pinned = true;
                    StoredContent::Inline { start, size: 0 }
                } else if size <= self.settings.limits.content_memory_bytes as u64 {
                    StoredContent::memory(size as usize, &mut self.spare_content)
                } else {
                    match StoredContent::file(&self.settings.temporary_directory) {
                        Ok(file) => file,
                        Err(error) => {
                            self.refuse_storage(index, &error);
                            return false;
                        }
                    }
                }
            }
        };
        if matches!(framing, Framing::None | Framing::Empty) {
            self.complete(index);
            return false;
        }
        self.deadlines.set(index, Deadline::Content, self.backend.now());
        true
    }

    /// More input must come first.
    fn await_input(&mut self, index: u32) {
        let now = self.backend.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.machine.awaits_head() {
            if !connection.input.has_unread() {
                connection.input.release(&mut self.pool);
            } else if connection.requests > 0 && !self.deadlines.runs(index, Deadline::Head) {
                self.deadlines.set(index, Deadline::Head, now);
            }
        } else if connection.machine.expects_continue() && !connection.input.has_unread() && connection.content.is_empty() {
            let mut interim = Vec::new();
            connection.machine.write_continue(&mut interim);
            connection.output().push(&interim);
            self.flush(index);
        }
        if let Some(connection) = self.connections.get_mut(index).filter(|connection| !connection.readable) {
            connection.input.park(&mut self.pool);
        }
    }

    fn complete(&mut self, index: u32) {
        let now = self.backend.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        if let Err(error) = connection.content.complete() {
            return self.refuse_storage(index, &error);
        }
        connection.content_left = 0;
        connection.complete_at = now.into();
        connection.phase = Phase::Queued;
        self.deadlines.clear(index);
        if connection.in_a_row > 0 {
            // The next of several in one buffer: they have their turn together.
            self.ready.push_front(index);
        } else {
            self.ready.push_back(index);
        }
    }

    fn refuse_storage(&mut self, index: u32, error: &io::Error) {
        log::error!("cannot store request content in {}: {error}", self.settings.temporary_directory.display());
        self.refuse(index, Refusal::STORAGE);
    }

    /// The peer has ended its side before a request was complete.
    fn end_of_input(&mut self, index: u32) {
        // A request cut off by its sender is nobody's to answer.
        self.drop_connection(index);
    }

    /// Throws away what a client still sends into a connection that is ending.
    fn discard(&mut self, index: u32) {
        self.spool.resize(SPOOL_BYTES, 0);
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.connections.get_mut(index) else { return };
            match self.backend.receive(&mut connection.socket, &mut self.spool) {
                Attempt::Done(_) => {}
                Attempt::Later => return,
                Attempt::End | Attempt::Broken => return self.drop_connection(index),
            }
        }
        self.ask_for_turn(index);
    }

    /// Sees to the connections whose time is up.
    pub(super) fn expire(&mut self, now: std::time::Duration) {
        while let Some((index, kind)) = self.deadlines.expired(now) {
            match kind {
                Deadline::Idle => self.close_idle(index),
                Deadline::Head => {
                    let nobody_to_tell =
                        |connection: &Connection<_>| connection.phase == Phase::Carrying || !connection.input.has_unread();
                    let silent = self.connections.get(index).is_none_or(nobody_to_tell);
                    if silent { self.drop_connection(index) } else { self.refuse(index, Refusal::HEAD_TIMEOUT) }
                }
                Deadline::Content => self.refuse(index, Refusal::CONTENT_TIMEOUT),
                Deadline::Write => {
                    log::info!("a client took too long to receive a response");
                    self.cut(index);
                }
                Deadline::Linger | Deadline::Kept => self.drop_connection(index),
            }
        }
    }

    /// Closes an idle connection, but not over a request that arrived unnoticed.
    pub(super) fn close_idle(&mut self, index: u32) {
        self.deadlines.clear(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.readable = true;
        self.receive(index);
        let unheard = |connection: &Connection<_>| connection.phase == Phase::Reading && !connection.input.has_unread();
        if self.connections.get(index).is_some_and(unheard) {
            self.drop_connection(index);
        }
    }

    /// Whether a connection may serve another request after this one.
    pub(super) fn may_persist(&self, connection: &Connection<B::Socket>) -> bool {
        self.stage == Stage::Serving
            && !connection.taken
            && !self.settings.timeouts.keepalive.is_zero()
            && self.settings.limits.requests_per_connection.is_none_or(|most| connection.requests < most)
    }
}
