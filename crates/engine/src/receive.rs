//! 2. Receive: from the socket into the input buffer, or directly to the place of the content.

use super::Engine;
use super::connection::{Connection, State};
use super::content::StoredContent;
use super::deadline::Deadline;
use super::name::ExchangeIndex;
use super::send::Still;
use oribi_io::{Attempt, Backend, Direction};
use oribi_proto::h1::Refusal;
use oribi_stats::totals::Counter;

/// The bytes received at a time when content goes to a file, or is discarded.
const SPOOL_BYTES: usize = 64 << 10;

/// The most receives from a connection before another has its turn: 1 MiB of content on its way to a file.
pub(super) const RECEIVES_PER_TURN: usize = 16;

impl<B: Backend> Engine<'_, B> {
    /// Receives and lets the machine read until the socket is empty, a request is complete or the turn is over.
    #[inline(never)]
    pub(super) fn receive(&mut self, index: u32) -> Still {
        for _ in 0..RECEIVES_PER_TURN {
            let connection = &mut self.connections[index];
            let reading = match &mut connection.state {
                // Received bytes that wait for the connection's turn are handled before later bytes, and above all before the
                // end of input.
                State::Reading(reading) if reading.yielded => return Still::Open,
                State::Reading(reading) if connection.line.readable => reading,
                State::Lingering => return self.discard(index),
                State::Carrying(_) => return self.receive_carried(index),
                State::WebSocket(_) => return self.receive_socket(index),
                State::Greeting => return self.receive_greeting(index),
                _ => return Still::Open,
            };
            let direct = reading.content_left > 0 && !connection.input.has_unread() && !connection.input.pinned;
            let (attempt, room) = if direct { self.receive_content(index) } else { self.receive_input(index) };
            let connection = &mut self.connections[index];
            let mut more;
            let still = match attempt {
                Attempt::Done(count) => {
                    self.tally.received(count);
                    // A short read has emptied the socket, unless the end follows.
                    more = count == room || connection.line.ended;
                    connection.line.readable = more;
                    let still = if direct {
                        self.take_received_content(index, count)
                    } else {
                        connection.input.received(count);
                        self.parse(index)
                    };
                    if still == Still::Open && !self.backend.tells_ends() {
                        more |= self.expects_more(index);
                    }
                    still
                }
                Attempt::Later => {
                    more = false;
                    connection.line.readable = false;
                    Still::Open
                }
                // No client waits for the answer to an incomplete request.
                Attempt::End | Attempt::Broken => {
                    self.drop_connection(index);
                    return Still::Gone;
                }
            };
            if still == Still::Gone || !more {
                return still;
            }
        }
        let connection = &self.connections[index];
        if connection.is_reading() && connection.line.readable {
            self.ask_for_turn(index);
        }
        Still::Open
    }

    /// If a request has begun and is not complete, notes that another receive may succeed, and returns `true`.
    fn expects_more(&mut self, index: u32) -> bool {
        let connection = &mut self.connections[index];
        let expects = connection.is_reading() && !connection.is_idle();
        connection.line.readable |= expects;
        expects
    }

    /// Receives into the input buffer of a connection that carries several exchanges, waits for its PROXY header, or is a WebSocket. Drops the
    /// connection at the end of its input, because no client waits any longer.
    #[inline(never)]
    pub(super) fn receive_messages(&mut self, index: u32, head_bytes: usize) -> Attempt {
        let connection = &mut self.connections[index];
        let room = connection.input.room(&mut self.memory.inputs, head_bytes);
        let size = room.len();
        let attempt = self.backend.receive(&mut connection.line.socket, room);
        match attempt {
            Attempt::Done(count) => {
                self.tally.received(count);
                connection.line.readable = count == size || connection.line.ended || !self.backend.tells_ends();
                connection.input.received(count);
            }
            Attempt::Later => {
                connection.line.readable = false;
                connection.input.release_if_read(&mut self.memory.inputs);
                connection.input.park(&mut self.memory.inputs);
            }
            Attempt::End | Attempt::Broken => self.drop_connection(index),
        }
        attempt
    }

    fn receive_input(&mut self, index: u32) -> (Attempt, usize) {
        let connection = &mut self.connections[index];
        let room = connection.input.room(&mut self.memory.inputs, self.limits.http.head_bytes);
        let size = room.len();
        let attempt = self.backend.receive(&mut connection.line.socket, room);
        if attempt == Attempt::Later && !connection.input.has_unread() && connection.input.head.is_none() {
            connection.input.release(&mut self.memory.inputs);
        }
        (attempt, size)
    }

    /// Receives content into its place in memory, or into the buffer for its file.
    fn receive_content(&mut self, index: u32) -> (Attempt, usize) {
        let Connection { line, state, .. } = &mut self.connections[index];
        let State::Reading(reading) = state else { unreachable!("content is received while a request is read") };
        let left = usize::try_from(reading.content_left).unwrap_or(usize::MAX);
        let room = match reading.request.as_deref_mut().map(|request| &mut request.content) {
            Some(StoredContent::Memory { bytes, filled, .. }) => &mut bytes[*filled..*filled + left],
            _ => {
                self.memory.spool.resize(SPOOL_BYTES, 0);
                &mut self.memory.spool[..left.min(SPOOL_BYTES)]
            }
        };
        let size = room.len();
        (self.backend.receive(&mut line.socket, room), size)
    }

    /// Stores content that was not received into the input buffer.
    fn take_received_content(&mut self, index: u32, count: usize) -> Still {
        let connection = &mut self.connections[index];
        let State::Reading(reading) = &mut connection.state else {
            unreachable!("content is received while a request is read")
        };
        reading.content_left -= count as u64;
        let complete = connection.machine.pass_content(count as u64);
        let stored = match reading.request.as_deref_mut().map(|request| &mut request.content) {
            Some(content @ StoredContent::Memory { .. }) => {
                if let StoredContent::Memory { filled, .. } = content {
                    *filled += count;
                }
                if !complete {
                    content.count(0, &self.uploads.bounds);
                }
                Ok(())
            }
            Some(content) => content.add(&self.memory.spool[..count], &self.uploads.bounds),
            None => Ok(()),
        };
        match stored {
            Ok(()) if complete => self.complete(index),
            Ok(()) => self.bound_content(ExchangeIndex::Connection(index)),
            Err(error) => self.refuse_storage(index, &error),
        }
    }

    /// Discards further input of a client on a connection that is ending.
    #[inline(never)]
    fn discard(&mut self, index: u32) -> Still {
        self.memory.spool.resize(SPOOL_BYTES, 0);
        for _ in 0..RECEIVES_PER_TURN {
            match self.backend.receive(&mut self.connections[index].line.socket, &mut self.memory.spool) {
                Attempt::Done(count) => self.tally.received(count),
                Attempt::Later => return Still::Open,
                Attempt::End | Attempt::Broken => {
                    self.drop_connection(index);
                    return Still::Gone;
                }
            }
        }
        self.ask_for_turn(index);
        Still::Open
    }

    /// Handles the connections whose deadline has expired.
    pub(super) fn expire(&mut self, now: std::time::Duration) {
        while let Some((index, kind)) = self.deadlines.expired(now) {
            match kind {
                Deadline::Idle => self.close_unasked(index),
                Deadline::Head => {
                    let connection = &self.connections[index];
                    if connection.is_reading() && connection.input.has_unread() {
                        self.tally.count(Counter::HeadTimeouts);
                        let _ = self.refuse(index, Refusal::HEAD_TIMEOUT);
                    } else if connection.is_idle() {
                        self.close_unasked(index);
                    } else if connection.speaks_http2() {
                        // The rest of a frame, or of a head in several frames, has not arrived.
                        self.tally.count(Counter::HeadTimeouts);
                        let _ = self.leave_client_at_once(index);
                    } else {
                        // A connection without a request is closed without an answer.
                        self.tally.count(Counter::ConnectionsSilent);
                        self.drop_connection(index);
                    }
                }
                Deadline::Content => {
                    self.tally.count(Counter::ContentTimeouts);
                    let _ = self.refuse(index, Refusal::CONTENT_TIMEOUT);
                }
                Deadline::Write => {
                    self.tally.count(Counter::LimitWriteTimeout);
                    log::info!("a client took too long to receive a response");
                    self.cut(index);
                }
                Deadline::Kept => self.close_kept(index),
                Deadline::Linger => self.drop_connection(index),
            }
            self.check(index);
        }
    }

    /// Closes a connection whose idle time has expired, or on which the client has sent no request.
    fn close_unasked(&mut self, index: u32) {
        let (token, asked) = (self.connections.token(index), self.connections[index].requests);
        self.close_idle(index);
        let stays = |index| matches!(self.connections[index].state, State::Reading(_) | State::Queued(_) | State::Carrying(_));
        if !self.connections.find(token).is_some_and(stays) {
            self.count_idle_end(asked);
        }
    }

    /// Closes an idle connection, unless a request has arrived unnoticed.
    #[inline(never)]
    pub(super) fn close_idle(&mut self, index: u32) {
        if matches!(self.connections[index].state, State::Carrying(_)) {
            return self.close_kept(index);
        }
        self.deadlines.clear(index);
        self.connections[index].line.readable = true;
        if self.receive(index) == Still::Open && self.connections[index].is_idle() {
            self.end_unasked(index);
        }
    }

    /// Ends a connection on which the client had sent no request at the last check. A request that has arrived since then is
    /// too late, but unread bytes would turn the close into a reset. So the server ends its side first, and discards what still
    /// arrives. A client that has sent a request meanwhile notices that it was not read, and may repeat it (RFC 9112, section
    /// 9.3.1).
    #[inline(never)]
    pub(super) fn end_unasked(&mut self, index: u32) {
        let connection = &mut self.connections[index];
        self.backend.shutdown(&mut connection.line.socket, Direction::Send);
        self.memory.spool.resize(SPOOL_BYTES, 0);
        match self.backend.receive(&mut connection.line.socket, &mut self.memory.spool) {
            Attempt::Done(count) => self.tally.received(count),
            Attempt::Later | Attempt::End | Attempt::Broken => return self.drop_connection(index),
        }
        connection.input.release(&mut self.memory.inputs);
        connection.enter(State::Lingering);
        self.deadlines.set(index, Deadline::Linger, self.backend.now());
        let _ = self.discard(index);
    }
}
