//! Carries out the decisions of the [policy](super::policy) for lanes that share their listeners.
//!
//! With some backends, the kernel reports a connection to only one lane. A lane that leaves such a connection to others rings a
//! doorbell to wake one of them. If the kernel reports each connection to all lanes, no doorbell is needed.

use super::accepting::Accepting;
use super::policy::{Decision, Situation, Work};
use super::{Deadline, Engine};
use oribi_io::{Backend, Event};
use oribi_stats::scoreboard::Presence;
use oribi_stats::scoreboard::SharedDoorbell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The time after which a lane that stands aside checks whether it may accept again. A new client waits at most this long for
/// that check.
const LOOKS_AFTER: Duration = Duration::from_millis(2);

/// The state of a lane in the line: the order in which lanes that share listeners get new connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharedAccept {
    /// Whether a new connection is among the events that the lane is handling.
    told: bool,
    /// Whether the lane counts as idle. A wake-up to check a listener does not make it busy.
    idle: bool,
    /// See [`Situation::left_until`].
    left_until: Option<Duration>,
    /// The time until which the lane expects the first request of its newest client.
    pub(super) expects_until: Duration,
    /// Whether the reported connections have already been accepted.
    pub(super) ahead: bool,
}

/// Counts of connections, among lanes that share their listeners.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionCounts<'a> {
    /// Connections of this worker, counted for all of its lanes.
    pub here: &'a AtomicU32,
    /// Connections of all workers.
    pub everywhere: &'a AtomicU32,
    /// The number of lanes of all workers.
    pub lanes: usize,
    /// The number of lanes of each worker.
    pub lanes_each: usize,
    /// Lanes of this worker that are idle.
    pub idle: &'a AtomicU32,
    /// All workers, including this one.
    pub workers: &'a [Presence],
    /// The doorbell by which a lane leaves a connection to another lane.
    pub doorbell: Option<&'a SharedDoorbell>,
}

impl ConnectionCounts<'_> {
    /// The fewest connections of an idle lane, as the average of the lanes of its worker; `None` if no lane is idle. With
    /// `mine`, the calling lane is among those that count as idle, and is left out.
    fn fewest_of_idle(&self, mine: bool) -> Option<usize> {
        let counted = |worker: &&Presence| u32::from(mine && std::ptr::eq(worker.idle, self.idle));
        let idle = self.workers.iter().filter(|worker| worker.idle.load(Relaxed) > counted(worker));
        idle.map(|worker| worker.connections.load(Relaxed) as usize / self.lanes_each.max(1)).min()
    }
}

impl<'a, B: Backend> Engine<'a, B> {
    /// Handles the event that a client waits at a socket. If `socket_number` is that of no socket, another lane has rung the
    /// doorbell.
    pub(crate) fn handle_connection_event(&mut self, socket_number: usize) {
        self.note_connections_told_of();
        let rung = socket_number >= self.acceptance.listen_sockets.len();
        if self.acceptance.accepting != Accepting::Yes {
            // This lane has left the line since the event was reported. It has already rung for the clients at its sockets, but
            // the ring of another lane must reach the next one.
            if rung {
                self.ring();
            }
            return;
        }
        if !rung {
            if !self.shares(socket_number) || self.is_mine() {
                self.accept(socket_number);
            }
        } else if let Some(doorbell) = self.doorbell() {
            doorbell.answer();
            for socket_number in 0..self.acceptance.listen_sockets.len() {
                if self.acceptance.accepting == Accepting::Yes && self.shares(socket_number) && self.is_mine() {
                    self.accept(socket_number);
                }
            }
        }
    }

    /// Decides about a reported connection. If the connection is left to others, this lane leaves the line and notifies the
    /// next lane.
    fn is_mine(&mut self) -> bool {
        let decision = if self.acceptance.line.ahead { Decision::Take } else { self.situation().decide() };
        match decision {
            Decision::Take => {
                self.acceptance.line.left_until = None;
                true
            }
            Decision::StandAside(until) => {
                self.acceptance.line.left_until = Some(until);
                self.unlisten();
                self.ring();
                self.acceptance.accepting = Accepting::Aside(until);
                false
            }
        }
    }

    /// The facts on which the policy decides.
    pub(super) fn situation(&self) -> Situation {
        // Connections that wait for a prompt host are about to be answered, and may close.
        let leaving = if self.batching.prompt { self.run_queue.ready.len() } else { 0 };
        let counts = self.acceptance.counts.as_ref();
        Situation {
            now: self.backend.now(),
            work: self.work(),
            connections: self.connections.len().saturating_sub(leaving),
            share: counts.map_or(0, |counts| counts.everywhere.load(Relaxed) as usize / counts.lanes.max(1)),
            fewest_of_idle: counts.and_then(|counts| counts.fewest_of_idle(self.acceptance.line.idle)),
            left_until: self.acceptance.line.left_until,
        }
    }

    pub(super) fn work(&self) -> Work {
        let is_of_socket = |event: &Event| matches!(event, Event::Socket { .. });
        if self.batching.prompt {
            Work::None
        } else if !self.run_queue.ready.is_empty() || self.run_queue.events[self.run_queue.handled..].iter().any(is_of_socket) {
            Work::Waiting
        } else {
            self.expects_until().map_or(Work::None, Work::Expected)
        }
    }

    /// The time until which the first request of a client is expected; `None` if no request is expected. That is also so if
    /// several clients have sent nothing yet: they connect without sending a request, and the lane would accept only one such
    /// client in each `EXPECTED_FOR`.
    fn expects_until(&self) -> Option<Duration> {
        let until = self.acceptance.line.expects_until;
        (!self.batching.prompt && self.backend.now() < until && self.deadlines.is_single(Deadline::Head)).then_some(until)
    }

    /// Leaves a reported connection that has not been handled yet to an idle lane, before this lane becomes busy for an
    /// unknown time.
    pub(crate) fn leave_untaken_to_others(&mut self) {
        self.count_as_idle(false);
        if self.acceptance.line.told && self.acceptance.counts.is_some_and(|counts| counts.fewest_of_idle(false).is_some()) {
            self.acceptance.line.told = false;
            self.ring();
        }
    }

    /// The doorbell, if the kernel reports a connection to only one lane, so that this lane must notify the others.
    fn doorbell(&self) -> Option<&'a SharedDoorbell> {
        self.acceptance.counts.filter(|counts| self.backend.tells_one() && counts.lanes > 1)?.doorbell
    }

    fn ring(&self) {
        if let Some(doorbell) = self.doorbell() {
            doorbell.ring();
        }
    }

    fn connection_waits(&self) -> bool {
        let mut listen_sockets = self.acceptance.sockets().filter(|(number, _)| self.shares(*number));
        listen_sockets.any(|(number, listening)| self.backend.is_waited_at(number, listening.as_fd()))
    }

    /// Notifies the next lane of waiting clients that may have been reported to this lane, which will not accept them.
    pub(super) fn ring_if_connection_waits(&self) {
        if let Some(doorbell) = self.doorbell()
            && self.connection_waits()
        {
            doorbell.ring();
        }
    }

    /// Also waits for the doorbell.
    pub(crate) fn watch_doorbell(&mut self) -> io::Result<()> {
        match self.doorbell() {
            Some(doorbell) => self.backend.listen(self.acceptance.listen_sockets.len(), doorbell.as_fd()),
            None => Ok(()),
        }
    }

    /// Prepares for a wait of the backend. A lane that waits for events, and not for an expected request, is idle. So is a lane
    /// that stands aside, because it will soon check whether it has the fewest connections of the idle lanes.
    pub(crate) fn begin_waiting(&mut self, timeout: Option<Duration>) {
        if self.acceptance.line.left_until.is_some() {
            self.check_clients_left();
        }
        if timeout != Some(Duration::ZERO) && self.is_idle_while_it_waits() {
            self.count_as_idle(true);
        }
    }

    /// Whether this lane takes clients, and expects no request.
    pub(crate) fn is_idle_while_it_waits(&self) -> bool {
        matches!(self.acceptance.accepting, Accepting::Yes | Accepting::Aside(_)) && self.expects_until().is_none()
    }

    /// Handles the events that the backend has reported at the end of a wait. The first `known` events are older than the wait.
    pub(crate) fn end_waiting(&mut self, known: usize) {
        if !self.has_company() {
            return;
        }
        let news = &self.run_queue.events[known..];
        if news.iter().any(|event| !matches!(event, Event::Connection(_))) {
            self.count_as_idle(false);
        }
        self.note_connections_told_of();
    }

    /// Notes whether there are connections among the unhandled events.
    pub(crate) fn note_connections_told_of(&mut self) {
        let news = &self.run_queue.events[self.run_queue.handled..];
        self.acceptance.line.told = news.iter().any(|event| matches!(event, Event::Connection(_)));
    }

    pub(crate) fn count_as_idle(&mut self, idle: bool) {
        let Some(counts) = self.acceptance.counts.filter(|counts| counts.lanes > 1 && self.acceptance.line.idle != idle) else {
            return;
        };
        self.acceptance.line.idle = idle;
        if idle {
            counts.idle.fetch_add(1, Relaxed);
        } else {
            counts.idle.fetch_sub(1, Relaxed);
        }
    }

    /// Stops standing aside early if other lanes have taken the clients that were left to them, or if this lane would now take
    /// these clients.
    fn check_clients_left(&mut self) {
        let taken = !self.connection_waits();
        if taken {
            self.acceptance.line.left_until = None;
        }
        if matches!(self.acceptance.accepting, Accepting::Aside(_)) && (taken || self.situation().decide() == Decision::Take) {
            self.join_line();
        }
    }

    /// The time at which this lane must next check for new connections.
    pub(crate) fn due_at_doors(&self) -> Option<Duration> {
        match self.acceptance.accepting {
            Accepting::Paused(until) => Some(until),
            Accepting::Aside(until) => Some(until.min(self.backend.now() + LOOKS_AFTER)),
            // When it expects no request any more, the lane counts as idle.
            Accepting::Yes if self.has_company() => self.expects_until(),
            Accepting::Yes | Accepting::Left | Accepting::Later | Accepting::Never => None,
        }
    }

    /// Whether there are other lanes.
    fn has_company(&self) -> bool {
        self.acceptance.counts.is_some_and(|counts| counts.lanes > 1)
    }

    /// Whether other lanes take connections at the same socket.
    pub(crate) fn shares(&self, socket_number: usize) -> bool {
        self.acceptance.listen_sockets[socket_number].as_ref().is_some_and(|listening| listening.shared) && self.has_company()
    }

    /// Moves this lane to the end of the line. The kernel wakes the sleeping lane that has waited at the listener longest.
    /// Under little load, that would always be the same lane. A lane that leaves the line and joins it again is last. Does
    /// nothing if the kernel wakes all lanes, because there is no such order then.
    pub(super) fn rejoin_line_last(&mut self, socket_number: usize) {
        if !self.backend.tells_one() {
            return;
        }
        let Some(listening) = &self.acceptance.listen_sockets[socket_number] else { return };
        let left = self.backend.unlisten(socket_number, listening.as_fd());
        if let Err(error) = left.and_then(|()| self.backend.listen(socket_number, listening.as_fd())) {
            log::error!("cannot wait for connections on {} again: {error}", self.listeners[listening.listener].display);
        }
    }

    /// Leaves new connections to other lanes until this lane takes its next request, because in this lane they would wait for a
    /// blocked app. A lane that shares no socket with another lane keeps accepting connections.
    pub fn leave_line(&mut self) {
        if self.acceptance.accepting == Accepting::Yes
            && (0..self.acceptance.listen_sockets.len()).any(|socket_number| self.shares(socket_number))
        {
            self.unlisten();
            self.ring_if_connection_waits();
            self.acceptance.accepting = Accepting::Left;
        }
    }

    pub(crate) fn join_line(&mut self) {
        self.listen();
        self.acceptance.accepting = Accepting::Yes;
    }

    pub(super) fn listen(&mut self) {
        for (number, listening) in self.acceptance.sockets() {
            if let Err(error) = self.backend.listen(number, listening.as_fd()) {
                log::error!("cannot accept on {} again: {error}", self.listeners[listening.listener].display);
            }
        }
        if let Err(error) = self.watch_doorbell() {
            log::error!("cannot watch the doorbell of idle lanes again: {error}");
        }
    }

    #[inline(never)]
    pub(super) fn unlisten(&mut self) {
        self.count_as_idle(false);
        for (number, listening) in self.acceptance.sockets() {
            if let Err(error) = self.backend.unlisten(number, listening.as_fd()) {
                log::error!("cannot stop accepting on {}: {error}", self.listeners[listening.listener].display);
            }
        }
        if let Some(doorbell) = self.doorbell()
            && let Err(error) = self.backend.unlisten(self.acceptance.listen_sockets.len(), doorbell.as_fd())
        {
            log::error!("cannot stop watching the doorbell of idle lanes: {error}");
        }
    }
}
