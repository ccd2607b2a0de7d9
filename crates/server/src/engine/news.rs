//! What has happened: the backend's news one after the other, turns of connections that yielded, and what is due.

use super::Engine;
use super::connection::Phase;
use oribi_io::{Backend, Event};
use std::io;
use std::time::Duration;

/// A response in many parts is put together in one buffer, which is kept for the next one unless it has become larger than this.
const LARGEST_SCRATCH: usize = 1 << 20;

/// An app that takes its time must not keep the others of a batch from the news: slow readers that can go on, a command to
/// stop, deadlines. A batch is interrupted for them when it has lasted this long.
const NEWS_AFTER: Duration = Duration::from_millis(10);

impl<B: Backend> Engine<'_, B> {
    /// Handles one thing that has happened; `false` if nothing has.
    pub(super) fn handle_event(&mut self) -> bool {
        let Some(&event) = self.events.get(self.handled) else {
            return self.take_turn();
        };
        self.handled += 1;
        match event {
            Event::Socket { token, readable, writable, ended, broken } => {
                if let Some(index) = self.connections.find(token) {
                    self.handle_socket(index, readable, writable, ended, broken);
                }
            }
            Event::Connection(door) if self.shares(door) && self.can_come_later(event) => {}
            Event::Connection(door) => self.accept(door),
            Event::Wake => self.woken = true,
        }
        true
    }

    /// Puts new connections behind the requests of a batch: who has come last must not wait behind an app that holds this lane up.
    /// For the same reason a waiter's report counts once with that of the engine's own look, which sees them still waiting.
    fn can_come_later(&mut self, connection: Event) -> bool {
        let rest = &self.events[self.handled..];
        if rest.contains(&connection) {
            return true;
        }
        let behind = rest.iter().any(|event| !matches!(event, Event::Connection(_)));
        if behind {
            self.events.push(connection);
        }
        behind
    }

    fn handle_socket(&mut self, index: u32, readable: bool, writable: bool, ended: bool, broken: bool) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.ended |= ended;
        connection.readable |= readable && !connection.ahead;
        let drain = writable && connection.blocked;
        if broken && connection.phase != Phase::Reading {
            // Nobody is left to answer. (While reading, the bytes that came before the end are looked at first.)
            self.drop_connection(index);
            return;
        }
        if drain {
            self.flush(index);
        }
        if readable && !self.take_ahead(index) {
            self.receive(index);
        }
    }

    fn take_turn(&mut self) -> bool {
        if self.turns_due == 0 {
            return false;
        }
        self.turns_due -= 1;
        let Some(token) = self.turns.pop_front() else { return false };
        let Some(index) = self.connections.find(token) else { return true };
        let Some(connection) = self.connections.get_mut(index) else { return true };
        connection.turn_asked = false;
        let yielded = std::mem::take(&mut connection.yielded);
        self.flush(index);
        if yielded {
            self.read_on(index);
        }
        self.receive(index);
        true
    }

    /// Asks for a turn of a connection, behind the others.
    pub(super) fn ask_for_turn(&mut self, index: u32) {
        let token = self.connections.token(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        if !connection.turn_asked {
            connection.turn_asked = true;
            self.turns.push_back(token);
        }
    }

    pub(super) fn wait(&mut self) -> io::Result<()> {
        // Before the timeout is computed: a full socket has a deadline.
        self.send_held();
        let busy = !self.turns.is_empty() || self.handled < self.events.len();
        let timeout = if busy { Some(Duration::ZERO) } else { self.time_left() };
        self.look(timeout)
    }

    /// Asks for news, waiting no longer than `timeout`, and sees to what is due whenever the clock has moved.
    pub(super) fn look(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.send_held();
        if let Some(log) = &mut self.access_log {
            log.flush();
        }
        if self.scratch.capacity() > LARGEST_SCRATCH {
            self.scratch = Vec::with_capacity(4096);
        }
        self.events.drain(..self.handled);
        self.handled = 0;
        self.backend.wait(timeout, &mut self.events)?;
        self.receive_ahead();
        self.turns_due = self.turns.len();
        let now = self.backend.now();
        self.news_due = now + NEWS_AFTER;
        self.stamp.update(now, || self.backend.wall_clock());
        self.resume_accepting(now);
        // Deadlines come behind the news of the same moment: a request that has arrived in time is in time.
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            while self.handle_event() {}
            self.expire(now);
            self.expire_streams(now);
        }
        Ok(())
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let of_streams = if self.streams.len() == 0 { None } else { self.stream_deadlines.next() };
        self.deadlines.next().into_iter().chain(of_streams).min()
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        Some(self.due()?.saturating_sub(self.backend.now()))
    }
}
