//! After the response: flushing, the next request, and the several ways in which a connection ends.

use super::connection::{Fate, Phase};
use super::deadline::Deadline;
use super::fastcgi::Carried;
use super::output::Flushed;
use super::{Engine, Exchange};
use oribi_host::ExchangeId;
use oribi_io::{Backend, Direction};
use oribi_proto::h1::Refusal;
use std::sync::atomic::Ordering::Relaxed;

/// The deadline for writing starts anew with every so many bytes that the client has taken.
const WRITE_PROGRESS: usize = 64 << 10;

impl<B: Backend> Engine<'_, B> {
    /// Takes an exchange back whose host has returned. It may still be answered later.
    pub fn give_back(&mut self, exchange: Exchange) {
        if let Some(carried) = Carried::of(exchange.id()) {
            return self.give_back_stream(carried, exchange);
        }
        let index = self.present(exchange.id());
        self.record(index, &exchange);
        let Exchange { mut lent, .. } = exchange;
        let content = std::mem::take(&mut lent.content);
        content.recycle(&mut self.spare_content, self.settings.limits.content_memory_bytes);
        match index.and_then(|index| Some((index, self.connections.get_mut(index)?))) {
            Some((index, connection)) => {
                connection.lent = false;
                std::mem::swap(&mut connection.input, &mut lent.input);
                self.spare_exchanges.push(lent);
                if connection.fate.is_some() {
                    self.settle(index);
                } else {
                    // Answered later: what is written meanwhile must not wait for the next of several requests.
                    connection.pipelined = false;
                    self.open(index);
                    self.flush(index);
                }
            }
            None => {
                lent.input.release(&mut self.pool);
                self.spare_exchanges.push(lent);
            }
        }
    }

    /// Sends the response of an exchange that was given back, even if it could leave together with the next one.
    pub fn send_held_back(&mut self, exchange: ExchangeId) {
        if let Some(index) = self.present(exchange) {
            self.flush(index);
        }
    }

    /// The response is finished and the input is back: goes on, now or when the socket has room.
    pub(super) fn settle(&mut self, index: u32) {
        let most = self.settings.limits.pipelined_per_turn;
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.input.end_request(&mut self.pool);
        if connection.output_is_empty() {
            return self.resume(index);
        }
        let more = connection.pipelined && connection.fate == Some(Fate::Reuse) && connection.input.has_unread();
        let waiting = connection.output.as_ref().map_or(0, |output| output.waiting());
        if more && !connection.blocked && waiting < self.settings.limits.output_bytes && connection.in_a_row + 1 < most {
            // The response leaves together with the next one.
            return self.resume(index);
        }
        connection.phase = Phase::Flushing;
        self.flush(index);
    }

    /// Sends what waits, and goes on when all of it has left.
    pub(super) fn flush(&mut self, index: u32) {
        self.send_if_held(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(output) = &mut connection.output else { return };
        match output.flush(&mut self.backend, &mut connection.socket) {
            Flushed::All => {
                connection.output = None;
                connection.blocked = false;
                if self.deadlines.runs(index, Deadline::Write) {
                    self.deadlines.clear(index);
                }
                match connection.phase {
                    Phase::Flushing => self.resume(index),
                    Phase::Carrying => self.rest_if_idle(index),
                    _ => {}
                }
            }
            Flushed::Later => {
                connection.blocked = true;
                self.limit_writing(index);
            }
            Flushed::Turn => {
                self.limit_writing(index);
                self.ask_for_turn(index);
            }
            Flushed::Broken => self.drop_connection(index),
            Flushed::FileEnded => {
                log::error!("a response was cut off: its file has become shorter than it was");
                self.cut(index);
            }
        }
    }

    fn limit_writing(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if !matches!(connection.phase, Phase::Answering | Phase::Flushing | Phase::Carrying) {
            return;
        }
        let output = connection.output.get_or_insert_default();
        if output.progress >= WRITE_PROGRESS || !self.deadlines.runs(index, Deadline::Write) {
            output.progress = 0;
            self.deadlines.set(index, Deadline::Write, self.backend.now());
        }
    }

    /// Nothing of the response waits any more, or what waits may wait for the next one.
    pub(super) fn resume(&mut self, index: u32) {
        let most = self.settings.limits.pipelined_per_turn;
        let Some(connection) = self.connections.get_mut(index) else { return };
        match connection.fate.take() {
            Some(Fate::Close) => {
                // It has been answered: whoever drops it now must not take it for one that still waits for its host.
                connection.phase = Phase::Flushing;
                return self.end_connection(index);
            }
            Some(Fate::Reuse) | None => {}
        }
        connection.phase = Phase::Reading;
        if connection.input.has_unread() {
            connection.in_a_row += 1;
            if connection.in_a_row >= most {
                // Others first.
                connection.in_a_row = 0;
                connection.yielded = true;
                return self.ask_for_turn(index);
            }
        }
        self.read_on(index);
    }

    /// Reads the next request as far as it has been received; without one, the connection waits for it.
    pub(super) fn read_on(&mut self, index: u32) {
        let now = self.backend.now();
        if self.connections.get(index).is_some_and(|connection| connection.input.has_unread()) {
            self.advance(index);
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.phase != Phase::Reading {
            return;
        }
        connection.in_a_row = 0;
        if !connection.output_is_empty() {
            connection.phase = Phase::Flushing;
            return self.flush(index);
        }
        // The deadline for writing may have taken the place of the one that a begun request had.
        if connection.machine.awaits_content() {
            if !self.deadlines.runs(index, Deadline::Content) {
                self.deadlines.set(index, Deadline::Content, now);
            }
        } else if !connection.input.has_unread() {
            self.deadlines.set(index, Deadline::Idle, now);
        }
        if connection.readable {
            self.ask_for_turn(index);
        }
        self.room_was_made();
    }

    /// The last response has left: ends the connection in an orderly way.
    fn end_connection(&mut self, index: u32) {
        let now = self.backend.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.taken {
            // The host has a descriptor of its own, which would keep the connection open.
            self.backend.shutdown(&mut connection.socket, Direction::Send);
            return self.drop_connection(index);
        }
        // Closing a socket with unread bytes makes the kernel send a reset, which may overtake the response (RFC 9112,
        // section 9.6): end the sending side only, and read on for a while.
        if connection.linger || connection.input.has_unread() || connection.readable {
            connection.input.release(&mut self.pool);
            connection.phase = Phase::Lingering;
            self.backend.shutdown(&mut connection.socket, Direction::Send);
            self.deadlines.set(index, Deadline::Linger, now);
            self.open(index);
            self.receive(index);
        } else {
            self.drop_connection(index);
        }
    }

    /// Answers a request that the server does not pass on, and ends the connection.
    pub(super) fn refuse(&mut self, index: u32, refusal: Refusal) {
        self.deadlines.clear(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        let remote = connection.remote;
        log::debug!("refused a request: {} {}", refusal.status(), refusal.reason());
        self.scratch.clear();
        connection.machine.write_refusal(refusal, &self.stamp.preset(), &mut self.scratch);
        connection.content = super::content::StoredContent::None;
        connection.content_left = 0;
        connection.linger = true;
        connection.fate = Some(Fate::Close);
        connection.phase = Phase::Flushing;
        connection.output().push(&self.scratch);
        self.record_refusal(remote.address(), refusal.status());
        self.flush(index);
    }

    /// Breaks a connection so that its response cannot look whole.
    pub(super) fn cut(&mut self, index: u32) {
        self.send_if_held(index);
        if let Some(connection) = self.connections.get_mut(index) {
            self.backend.shutdown(&mut connection.socket, Direction::Abort);
        }
        self.drop_connection(index);
    }

    /// Closes the socket and forgets the connection.
    pub(super) fn drop_connection(&mut self, index: u32) {
        self.send_if_held(index);
        self.deadlines.clear(index);
        if self.layout_of == Some(index) {
            self.layout_of = None;
        }
        let Some(mut connection) = self.connections.remove(index) else { return };
        if let Some(census) = self.census {
            census.here.fetch_sub(1, Relaxed);
            census.everywhere.fetch_sub(1, Relaxed);
        }
        if connection.phase == Phase::Answering && connection.fate.is_none() {
            self.answering -= 1;
        }
        if let Some(draft) = connection.draft.take() {
            self.record_gone(&draft, connection.remote, connection.sent, connection.complete_at.time());
        }
        connection.input.release(&mut self.pool);
        self.backend.close(connection.socket);
        if let Some(carrier) = connection.carrier {
            self.lose_streams(*carrier);
        }
        self.room_was_made();
    }
}
