//! 1. Wait: for events of the backend, which are handled one after the other, for turns of connections that yielded, and for
//!    deadlines.

use super::Engine;
use super::connection::State;
use super::send::Still;
use oribi_io::{Backend, Event};
use std::io;
use std::time::Duration;

/// The time after which a batch is interrupted to check for events: a slow app must not delay slow readers that can
/// continue, a command to stop, or deadlines.
const NEWS_AFTER: Duration = Duration::from_millis(10);

impl<B: Backend> Engine<'_, B> {
    /// Handles one event; `false` if there is none.
    #[inline(never)]
    pub(super) fn handle_event(&mut self) -> bool {
        let Some(&event) = self.run_queue.events.get(self.run_queue.handled) else {
            return self.take_turn();
        };
        self.run_queue.handled += 1;
        match event {
            Event::Socket { token, readable, writable, ended, broken } => {
                if let Some(index) = self.connections.find(token) {
                    self.handle_socket(index, readable, writable, ended, broken);
                    self.check(index);
                }
            }
            Event::Connection(socket_number) => self.handle_connection_event(socket_number),
            Event::Wake => self.woken = true,
            // The doorbell has ended the wait, which is its only purpose: the edge checks its pool after each wait.
            Event::Doorbell => {}
        }
        true
    }

    #[inline]
    fn handle_socket(&mut self, index: u32, readable: bool, writable: bool, ended: bool, broken: bool) {
        let connection = &mut self.connections[index];
        // Other events than these may also change streams of a connection that carries several.
        if self.reports_client_changes && (writable || matches!(connection.state, State::Carrying(_))) {
            self.client_changed = true;
        }
        let line = &mut connection.line;
        line.ended |= ended;
        line.readable |= readable;
        if broken && !matches!(connection.state, State::Reading(_) | State::Greeting) {
            // No client waits for an answer. (While reading, bytes that arrived before the end are handled first.)
            return self.drop_connection(index);
        }
        if writable && line.blocked {
            line.blocked = false;
            if self.flush(index) == Still::Gone {
                return;
            }
        }
        if readable {
            let _ = self.receive(index);
        }
    }

    fn take_turn(&mut self) -> bool {
        if self.run_queue.turns_due == 0 {
            return false;
        }
        self.run_queue.turns_due -= 1;
        let Some(token) = self.run_queue.turns.pop_front() else { return false };
        // A turn may send output without an event of the socket.
        self.client_changed |= self.reports_client_changes;
        if let Some(index) = self.connections.find(token) {
            self.go_on_in_turn(index);
            self.check(index);
        }
        true
    }

    fn go_on_in_turn(&mut self, index: u32) {
        self.connections[index].line.turn_asked = false;
        if self.flush(index) == Still::Gone {
            return;
        }
        if let State::Reading(reading) = &mut self.connections[index].state
            && std::mem::take(&mut reading.yielded)
            && self.read_on(index) == Still::Gone
        {
            return;
        }
        if self.send_waiting(index) == Still::Gone {
            return;
        }
        let _ = self.receive(index);
    }

    /// Queues a connection for a turn, after the others.
    pub(super) fn ask_for_turn(&mut self, index: u32) {
        let token = self.connections.token(index);
        let line = &mut self.connections[index].line;
        if !line.turn_asked {
            line.turn_asked = true;
            self.run_queue.turns.push_back(token);
        }
    }

    pub(super) fn wait(&mut self) -> io::Result<()> {
        // The batch is sent before the timeout is computed, because a full socket gets a deadline.
        self.send_batch();
        let busy = !self.run_queue.turns.is_empty() || self.run_queue.handled < self.run_queue.events.len();
        let timeout = if busy { Some(Duration::ZERO) } else { self.time_left() };
        self.look(timeout)
    }

    /// Checks for events, waits at most for `timeout`, and handles expired deadlines whenever the clock has moved.
    #[inline(never)]
    pub(super) fn look(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.send_batch();
        if let Some(log) = &mut self.observing.access_log {
            log.flush();
        }
        if let Some(log) = &mut self.observing.slow_log {
            log.tell_more(self.backend.now());
        }
        self.end_turn_of_spans();
        self.run_queue.events.drain(..self.run_queue.handled);
        self.run_queue.handled = 0;
        let known = self.run_queue.events.len();
        self.tally.settle();
        self.report_states();
        let timeout = self.look_for_burst(timeout);
        self.begin_waiting(timeout);
        self.backend.wait(timeout, &mut self.run_queue.events).inspect_err(|_| self.count_as_idle(false))?;
        self.end_waiting(known);
        self.run_queue.turns_due = self.run_queue.turns.len();
        let now = self.backend.now();
        self.batching.news_due = now + NEWS_AFTER;
        self.server_fields.update(now, || self.backend.wall_clock());
        self.resume_accepting(now);
        self.see_to_leftovers(now);
        // Deadlines follow the events of the same moment: a request that has arrived in time is in time.
        let of_stream = self.streams.len() > 0 && self.stream_deadlines.has_expired(now);
        if self.deadlines.has_expired(now) || of_stream {
            while self.handle_event() {}
            self.expire(now);
            self.expire_streams(now);
        }
        self.bound_responses();
        Ok(())
    }

    /// Whether there is work that needs no waiting.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.run_queue.ready.is_empty()
            || self.woken
            || self.run_queue.handled < self.run_queue.events.len()
            || !self.run_queue.turns.is_empty()
            || self.backend.has_news()
    }

    /// The time at which work is due even without events, on the backend's clock.
    #[must_use]
    #[inline(never)]
    pub fn due(&self) -> Option<Duration> {
        let resume = self.due_at_doors();
        self.next_deadline().into_iter().chain(resume).chain(self.slow_log_due()).chain(self.memory.leftovers.due()).min()
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let of_streams = if self.streams.len() == 0 { None } else { self.stream_deadlines.next() };
        self.deadlines.next().into_iter().chain(of_streams).min()
    }

    /// The time to wait, at most `most`.
    #[inline]
    pub(super) fn time_left_within(&self, most: Option<Duration>) -> Option<Duration> {
        if let Some(most) = most
            && self.deadlines.are_quiet_until(self.backend.now() + most)
            && self.streams.len() == 0
            && self.due_at_doors().is_none()
            && self.slow_log_due().is_none()
            && !self.backend.has_news()
        {
            return Some(most);
        }
        self.time_left().into_iter().chain(most).min()
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        if self.backend.has_news() {
            return Some(Duration::ZERO);
        }
        Some(self.due()?.saturating_sub(self.backend.now()))
    }
}
