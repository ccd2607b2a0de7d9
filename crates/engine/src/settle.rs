//! 6. Settle: after a response, continues with the next request or ends the connection.

use super::answer::{Draft, Lost};
use super::connection::{Connection, Departure, Fate, Outlook, Reading, State};
use super::deadline::Deadline;
use super::exchange::Received;
use super::forwarded::Forwarded;
use super::input::Pool;
use super::memory::Memory;
use super::name::{ExchangeIndex, Name};
use super::send::Still;
use super::trailers::ReceivedTrailers;
use super::{Engine, Exchange};
use oribi_config::Limits;
use oribi_host::ExchangeId;
use oribi_io::process::has_forked;
use oribi_io::{Backend, Direction};
use oribi_log::Ending;
use oribi_proto::h1::Refusal;
use oribi_stats::totals::Counter;
use std::sync::atomic::Ordering::Relaxed;

/// The most boxes that are kept for the next requests; more are freed. One connection of HTTP/2 may need a hundred boxes at
/// once, while others of the same batch wait.
const SPARE_REQUESTS: usize = 160;

/// The next step after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterResponse {
    /// The next request or the end of the connection follows, even while the response still waits.
    GoOn(Fate),
    /// The response is sent first.
    Flush,
    /// The response is sent with those of its batch.
    Wait,
}

impl<S> Connection<S> {
    /// Ends a request whose response is finished and whose input is back. Returns the next step.
    #[inline(always)]
    fn settle(&mut self, pool: &mut Pool, limits: &Limits) -> AfterResponse {
        let State::Answering(answering) = &mut self.state else { return AfterResponse::Wait };
        let Outlook { fate, departure, .. } = answering.outlook;
        self.input.end_request(pool);
        let line = &mut self.line;
        let Some(output) = &mut line.output else { return AfterResponse::GoOn(fate) };
        if let Some(changes) = &mut answering.answer.changes {
            output.held.append(&mut changes.held);
        }
        let with_next = departure == Departure::WithNext
            && fate == Fate::Reuse
            && self.input.has_unread()
            && !line.blocked
            && line.waiting() < limits.output_bytes
            && self.in_a_row + 1 < limits.pipelined_per_turn;
        if with_next {
            return AfterResponse::GoOn(fate);
        }
        self.enter(State::Flushing(fate));
        if departure == Departure::WithBatch { AfterResponse::Wait } else { AfterResponse::Flush }
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Takes back an exchange whose host has returned. The host may still answer the request later.
    pub fn give_back(&mut self, exchange: Exchange) {
        match Name::from(exchange.id()) {
            Name { place: ExchangeIndex::Connection(index), serial } => self.give_back_request(index, serial, exchange),
            Name { place: ExchangeIndex::Stream(number), serial } => self.give_back_stream(number, serial, exchange),
        }
    }

    #[inline]
    fn give_back_request(&mut self, index: u32, serial: u32, mut exchange: Exchange) {
        let measures = self.observing.measures || self.tells_span(|| exchange.head());
        let draft = if measures { self.record_returned(index, serial, &exchange) } else { None };
        let connection = self.connections.get_mut(index).filter(|connection| connection.serial == serial);
        let Some(connection) = connection else {
            // The client has disconnected, or the host that hijacked the socket has ended the exchange.
            self.was_taken(exchange.id);
            exchange.received.input.release(&mut self.memory.inputs);
            return self.recycle(exchange.received);
        };
        let State::Answering(answering) = &mut connection.state else {
            unreachable!("a connection stays with its exchange until that is given back")
        };
        answering.answer.give_back(draft);
        let input = &mut exchange.received.input;
        if answering.answer.finished {
            connection.input = std::mem::take(input);
            let next = connection.settle(&mut self.memory.inputs, &self.settings.limits);
            self.recycle(exchange.received);
            self.proceed(index, next);
        } else {
            // Later output must not wait for the next of several requests.
            answering.outlook.departure = Departure::AtOnce;
            // The host has its own copy of the request. So a request that waits for its answer, for instance in the queue of an
            // edge, holds no buffer.
            input.end_request(&mut self.memory.inputs);
            if input.has_unread() {
                connection.input = std::mem::take(input);
            }
            self.recycle(exchange.received);
            if self.open(index) == Still::Open {
                let _ = self.flush(index);
            }
        }
        self.check(index);
    }

    /// Counts the times of an exchange whose host has returned. Writes the line of the access log, or returns the data for that
    /// line if the response is not finished.
    #[inline]
    fn record_returned(&mut self, index: u32, serial: u32, exchange: &Exchange) -> Option<Box<Draft>> {
        let connection = self.connections.get_mut(index).filter(|connection| connection.serial == serial);
        let answer = connection.and_then(|connection| match &mut connection.state {
            State::Answering(answering) => Some(&mut answering.answer),
            _ => None,
        });
        match answer {
            Some(answer) if !answer.finished => self.draft(exchange),
            Some(answer) => {
                let counted = answer.counted();
                self.conclude_returned(index, exchange, counted);
                None
            }
            None => {
                self.record(exchange, None);
                None
            }
        }
    }

    /// Keeps a box for the next request.
    #[inline(always)]
    pub(super) fn recycle(&mut self, mut received: Box<Received>) {
        if !received.content.is_none() {
            self.recycle_content(&mut received);
        }
        received.forwarded = Forwarded::default();
        received.trailers = ReceivedTrailers::None;
        received.text.clear();
        if self.memory.spare_requests.len() < SPARE_REQUESTS {
            self.memory.spare_requests.push(received);
        }
    }

    #[inline(never)]
    fn recycle_content(&mut self, received: &mut Received) {
        let content = std::mem::take(&mut received.content);
        content.recycle(&mut self.memory.spare_content, self.settings.limits.content_memory_bytes);
    }

    /// Sends the response of a returned exchange, even if it could be sent together with the next response.
    pub fn send_now(&mut self, exchange: ExchangeId) {
        if let Name { place: ExchangeIndex::Connection(index), serial } = exchange.into()
            && self.connections.get(index).is_some_and(|connection| connection.serial == serial)
        {
            let _ = self.flush(index);
        }
    }

    /// Takes the next step, now or when the response has been sent. The response is finished, and the input is back.
    pub(super) fn settle(&mut self, index: u32) {
        let next = self.connections[index].settle(&mut self.memory.inputs, &self.settings.limits);
        self.proceed(index, next);
    }

    /// Takes the next step.
    #[inline]
    fn proceed(&mut self, index: u32, next: AfterResponse) {
        let _ = match next {
            AfterResponse::GoOn(fate) => self.go_on(index, fate),
            AfterResponse::Flush => self.flush(index),
            AfterResponse::Wait => Still::Open,
        };
    }

    /// Continues with the connection: the response has been sent, or may wait for the next one.
    #[inline(always)]
    pub(super) fn go_on(&mut self, index: u32, fate: Fate) -> Still {
        let connection = &mut self.connections[index];
        if fate == Fate::Reuse && !connection.input.has_unread() && connection.line.output.is_none() {
            self.rest(index);
            return Still::Open;
        }
        self.go_on_or_end(index, fate)
    }

    /// Continues with a next request that has already arrived, or ends the connection.
    #[inline(never)]
    fn go_on_or_end(&mut self, index: u32, fate: Fate) -> Still {
        if fate != Fate::Reuse {
            return self.end_connection(index, fate);
        }
        let connection = &mut self.connections[index];
        let most = self.settings.limits.pipelined_per_turn;
        let mut reading = Reading::default();
        if connection.input.has_unread() {
            connection.in_a_row += 1;
            if connection.in_a_row >= most {
                // Other connections have their turn first.
                connection.in_a_row = 0;
                reading.yielded = true;
                connection.enter(State::Reading(reading));
                self.ask_for_turn(index);
                return Still::Open;
            }
        }
        connection.enter(State::Reading(reading));
        self.read_on(index)
    }

    /// Waits for the next request, of which nothing has arrived.
    #[inline(always)]
    fn rest(&mut self, index: u32) {
        let connection = &mut self.connections[index];
        connection.enter(State::Reading(Reading::default()));
        connection.in_a_row = 0;
        self.deadlines.set_here(index, Deadline::Idle, self.backend.now());
        if connection.line.readable {
            self.ask_for_turn(index);
        }
        self.resume_if_paused();
    }

    /// Reads the next request from the received bytes; if there are none, waits for it.
    #[inline(never)]
    pub(super) fn read_on(&mut self, index: u32) -> Still {
        if self.connections[index].input.has_unread() && self.parse(index) == Still::Gone {
            return Still::Gone;
        }
        let now = self.backend.now();
        let connection = &mut self.connections[index];
        let State::Reading(reading) = &connection.state else { return Still::Open };
        connection.in_a_row = 0;
        if connection.line.output.is_some() {
            // There is no other response for which this one could wait.
            if reading.request.is_none() {
                connection.enter(State::Flushing(Fate::Reuse));
                return self.flush(index);
            }
            if self.flush(index) == Still::Gone {
                return Still::Gone;
            }
        }
        let connection = &mut self.connections[index];
        // The deadline for writing may have replaced the deadline of a request that has begun.
        if connection.machine.awaits_content() {
            if !self.deadlines.runs(index, Deadline::Content) {
                self.deadlines.set(index, Deadline::Content, now);
            }
        } else if !connection.input.has_unread() {
            self.deadlines.set(index, Deadline::Idle, now);
        }
        if connection.line.readable {
            self.ask_for_turn(index);
        }
        self.resume_if_paused();
        Still::Open
    }

    /// Ends the connection cleanly after its last response has been sent.
    fn end_connection(&mut self, index: u32, fate: Fate) -> Still {
        let now = self.backend.now();
        let connection = &mut self.connections[index];
        // The exchange is over: code that drops the connection now must not count it as waiting for its host.
        connection.enter(State::Flushing(fate));
        if std::mem::take(&mut connection.line.guarded) {
            self.backend.guard(&mut connection.line.socket, false);
        }
        if fate == Fate::ShutDown {
            self.backend.shutdown(&mut connection.line.socket, Direction::Send);
            self.drop_connection(index);
            return Still::Gone;
        }
        // Closing a socket with unread bytes makes the kernel send a reset, which may overtake the response (RFC 9112, section
        // 9.6). So only the sending side is closed, and input is read for a while.
        if fate == Fate::Linger || connection.input.has_unread() || connection.line.readable {
            connection.input.release(&mut self.memory.inputs);
            connection.enter(State::Lingering);
            self.backend.shutdown(&mut connection.line.socket, Direction::Send);
            self.deadlines.set(index, Deadline::Linger, now);
            if self.open(index) == Still::Gone {
                return Still::Gone;
            }
            return self.receive(index);
        }
        self.drop_connection(index);
        Still::Gone
    }

    /// Answers a request that the server refuses, and ends the connection.
    #[inline(never)]
    pub(super) fn refuse(&mut self, index: u32, refusal: Refusal) -> Still {
        log::debug!("refused a request: {} {}", refusal.status(), refusal.reason());
        self.deadlines.clear(index);
        let Self { connections, server_fields, backend, memory: Memory { outputs, .. }, .. } = self;
        let connection = &mut connections[index];
        let id = match &mut connection.state {
            State::Reading(Reading { request: Some(received), .. }) => received.id.take(),
            _ => None,
        };
        let mut remote = connection.remote;
        let output = connection.line.output.get_or_insert_with(|| outputs.take());
        let https = match &connection.state {
            State::Reading(Reading { request: Some(received), .. }) => received.is_https(),
            _ => backend.encryption(&connection.line.socket).is_some(),
        };
        connection.machine.write_refusal(refusal, &server_fields.of_refusal(https, id.as_deref()), output.tail());
        connection.line.trim(outputs);
        let before = std::mem::replace(&mut connection.state, State::Flushing(Fate::Linger));
        if let State::Reading(Reading { request: Some(received), .. }) = before {
            remote = received.remote;
            self.recycle(received);
        }
        self.record_refusal(&remote, id.as_deref(), refusal, Ending::Closes);
        if self.connections[index].line.output.is_none() { self.go_on(index, Fate::Linger) } else { self.flush(index) }
    }

    /// Resets a connection, so that an incomplete response cannot look complete.
    pub(super) fn cut(&mut self, index: u32) {
        self.backend.shutdown(&mut self.connections[index].line.socket, Direction::Abort);
        self.drop_connection(index);
    }

    /// Closes the socket and forgets the connection.
    #[inline(never)]
    pub(super) fn drop_connection(&mut self, index: u32) {
        self.deadlines.clear(index);
        let Some(mut connection) = self.connections.remove(index) else { return };
        if let Some(output) = &mut connection.line.output
            && !output.unsent.is_empty()
        {
            self.conclude_unsent(&mut output.unsent, Ending::Aborted);
        }
        self.tally.count(Counter::ConnectionsClosed);
        self.forget_speech(connection.speech);
        if let Some(counts) = self.acceptance.counts {
            counts.here.fetch_sub(1, Relaxed);
            counts.everywhere.fetch_sub(1, Relaxed);
        }
        // The host must end a hijacked socket itself.
        let ends = !matches!(&connection.state, State::Answering(answering) if answering.outlook.taken);
        match connection.state {
            State::Answering(mut answering) if !answering.answer.finished => {
                self.answering -= 1;
                let name = Name { place: ExchangeIndex::Connection(index), serial: connection.serial };
                self.lose(Lost::of(name, &mut answering.answer));
            }
            State::Queued(received) | State::Reading(Reading { request: Some(received), .. }) => self.recycle(received),
            State::Carrying(carrier) => self.lose_streams(*carrier),
            State::WebSocket(socket) => self.sockets.ended(&socket, &self.tally),
            State::Greeting | State::Reading(_) | State::Answering(_) | State::Flushing(_) | State::Lingering => {}
        }
        connection.input.release(&mut self.memory.inputs);
        if ends && has_forked() {
            // Closing the socket does not end the connection while a child has a copy.
            self.backend.shutdown(&mut connection.line.socket, Direction::Send);
        }
        self.backend.close(connection.line.socket);
        self.resume_if_paused();
    }
}
