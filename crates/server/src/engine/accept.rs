//! New connections: taking them, making room for them, and pausing when there is none.

use super::connection::{Connection, State};
use super::deadline::Deadline;
use super::send::Still;
use super::{Accepting, Engine};
use crate::config::Protocol;
use crate::config::counted;
use crate::listen::{Bell, Door};
use oribi_io::{Accepted, Backend, Event, Peer};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Connections taken for one event by a lane that is alone. One would cost a wait for each. Where lanes share a listener each takes
/// one: the next may be for an app that takes its time, and another lane is awake for it.
const ACCEPTS_PER_EVENT: usize = 4;

/// Under load more are taken, one for each so many events that were reported together: or else a worker that is busy with those
/// it has would let the queue of the listener overflow.
const EVENTS_PER_ACCEPT: usize = 8;

/// How long accepting rests when descriptors have run out and none of ours can be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a lane with more connections than others leaves new ones to lanes that are idle: these have been told, and need no
/// more than to be given a processor, which may take its time on a busy machine.
const GIVE_WAY_TO_IDLE: Duration = Duration::from_millis(50);

/// How long a lane with clearly more than its share leaves new ones to lanes that are busy. Nobody shall wait for that lane if all
/// others are in the middle of long requests.
const GIVE_WAY_TO_BUSY: Duration = Duration::from_millis(20);

/// What a lane knows of the line that it stands in with others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// It has been told of a connection with the news that are being handled.
    told: bool,
    /// It has left somebody who waits to others. Nobody is left to them twice.
    gave_way: bool,
    /// Whoever is told of has been accepted already.
    ahead: bool,
}

/// Whether to receive from a connection at once: that costs a call if nothing has arrived yet, and saves one if it has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Haste {
    /// How often nothing had arrived since something last had.
    misses: u8,
    /// How many connections are not to be tried.
    wait: u8,
}

impl Haste {
    /// Where clients send late, few connections are tried.
    const LONGEST_WAIT: u8 = 64;

    fn is_worth_it(&mut self) -> bool {
        let worth = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        worth
    }

    fn learn(&mut self, arrived: bool) {
        self.misses = if arrived { 0 } else { self.misses.saturating_add(1) };
        self.wait =
            if arrived { 0 } else { 1_u8.checked_shl(u32::from(self.misses)).unwrap_or(u8::MAX).min(Self::LONGEST_WAIT) };
    }
}

/// Who has how many connections, among lanes that share their listeners.
#[derive(Clone, Copy, Debug)]
pub struct Census<'a> {
    /// Connections of this worker, whose lanes share the count.
    pub here: &'a AtomicU32,
    /// Connections of all workers.
    pub everywhere: &'a AtomicU32,
    /// How many lanes there are in all.
    pub lanes: usize,
    /// Lanes of this worker that wait for something to do.
    pub idle: &'a AtomicU32,
    /// The same of all workers.
    pub idle_everywhere: &'a [&'static AtomicU32],
    /// Where a lane leaves a connection to another.
    pub bell: Option<&'a Bell>,
}

impl Census<'_> {
    fn share(&self) -> usize {
        self.everywhere.load(Relaxed) as usize / self.lanes.max(1)
    }

    /// Whether a lane with so many connections has more than an even share: one more counts while they are few.
    fn exceeds_share(&self, mine: usize) -> bool {
        let share = self.share();
        mine > share + share / 8
    }

    /// Whether it has so many more that it should leave new ones even to lanes that are busy.
    fn clearly_exceeds_share(&self, mine: usize) -> bool {
        let share = self.share();
        mine > share + share / 8 + 1
    }

    /// Whether a lane waits for something to do: another one than the lane that asks, which is busy asking.
    fn somebody_is_idle(&self) -> bool {
        self.idle_everywhere.iter().any(|idle| idle.load(Relaxed) > 0)
    }
}

impl<'a, B: Backend> Engine<'a, B> {
    pub(super) fn accept(&mut self, door: usize) {
        let shared = self.shares(door);
        let most = if shared { 1 } else { ACCEPTS_PER_EVENT };
        for _ in 0..most.max(self.events.len() / EVENTS_PER_ACCEPT) {
            if self.accepting != Accepting::Yes || !self.accept_one(door) {
                return;
            }
            if self.is_full() {
                // Room is made only for those who are known to wait: the next event will say.
                return;
            }
            let busy = !self.prompt && (!self.ready.is_empty() || self.expects_work());
            if shared && (busy || self.exceeds_share()) {
                return self.let_others_go_first(door);
            }
            if busy {
                return;
            }
        }
    }

    /// Somebody waits at a door, or another lane says so.
    pub(super) fn hear(&mut self, door: usize) {
        self.line.told = self.events[self.handled..].iter().any(|event| matches!(event, Event::Connection(_)));
        if door < self.doors.len() {
            // A lane that has left the line since has told others.
            if self.accepting != Accepting::Yes {
                return;
            }
            if !self.shares(door) || !self.leaves_to_others() {
                self.accept(door);
            }
        } else if self.accepting != Accepting::Yes {
            // This lane has left the line since, and is not the one to look.
            self.ring();
        } else if let Some(bell) = self.bell() {
            bell.answer();
            for door in 0..self.doors.len() {
                if self.shares(door) && !self.leaves_to_others() {
                    self.accept(door);
                }
            }
        }
    }

    /// Whether a connection that this lane was told of is another one's. Nobody waits longer for that than the others need to look.
    fn leaves_to_others(&mut self) -> bool {
        let Some(census) = self.census.filter(|_| !self.line.ahead) else { return false };
        if std::mem::take(&mut self.line.gave_way) {
            return false;
        }
        let busy = |engine: &Self| {
            !engine.ready.is_empty()
                || engine.events[engine.handled..].iter().any(|event| matches!(event, Event::Socket { .. }))
        };
        if census.somebody_is_idle() {
            if !self.prompt && busy(self) {
                // An app may hold this lane up before it comes to the connection. The next look tells of it again.
                self.line.gave_way = true;
                self.ring();
                return true;
            }
            if self.exceeds_share() || self.expects_work() {
                self.stand_aside(GIVE_WAY_TO_IDLE);
                return true;
            }
        } else if !self.prompt && (census.clearly_exceeds_share(self.connections.len()) || self.expects_work()) {
            // Others may be idle before this lane is, which is about to be held up by the request of whom it took last.
            self.stand_aside(GIVE_WAY_TO_BUSY);
            return true;
        }
        false
    }

    /// Whether this lane has more connections than others. Those that wait for a prompt host are about to be answered, and may go.
    fn exceeds_share(&self) -> bool {
        let leaving = if self.prompt { self.ready.len() } else { 0 };
        let mine = self.connections.len().saturating_sub(leaving);
        self.census.is_some_and(|census| census.exceeds_share(mine))
    }

    /// Whether a client has come whose first request will keep this lane busy as soon as it is here.
    fn expects_work(&self) -> bool {
        !self.prompt && self.deadlines.oldest(Deadline::Head).is_some()
    }

    /// Leaves the line for so long, and tells the next one.
    fn stand_aside(&mut self, time: Duration) {
        self.unlisten();
        self.ring();
        self.line.gave_way = true;
        self.accepting = Accepting::Aside(self.backend.now() + time);
    }

    /// Called before this lane is busy for a time that nobody knows: a connection that it was told of and has yet to come to is left
    /// to a lane that is idle.
    pub(super) fn tell_others(&mut self) {
        if self.line.told && self.census.is_some_and(|census| census.somebody_is_idle()) {
            self.line.told = false;
            self.ring();
        }
    }

    /// Where the kernel tells one lane of a connection, that lane has to tell the others.
    fn bell(&self) -> Option<&'a Bell> {
        self.census.filter(|census| B::TELLS_ONE && census.lanes > 1)?.bell
    }

    fn ring(&self) {
        if let Some(bell) = self.bell() {
            bell.ring();
        }
    }

    /// Tells the next one of those whom this lane may have been told of and will not take.
    fn ring_if_waited_for(&self) {
        if let Some(bell) = self.bell()
            && (0..self.doors.len()).any(|door| self.shares(door) && self.doors[door].has_waiting())
        {
            bell.ring();
        }
    }

    /// Waits at the bell, too.
    pub(super) fn hear_the_bell(&mut self) -> io::Result<()> {
        match self.bell() {
            Some(bell) => self.backend.listen(self.doors.len(), bell.as_fd()),
            None => Ok(()),
        }
    }

    /// The backend is about to be asked for news. Tells how many are known, and counts a lane as idle that will wait for them.
    pub(super) fn begin_waiting(&mut self, timeout: Option<Duration>) -> (usize, bool) {
        if matches!(self.accepting, Accepting::Aside(_)) && !self.exceeds_share() && !self.expects_work() {
            self.join_line();
        }
        let idle = timeout != Some(Duration::ZERO) && self.accepting == Accepting::Yes;
        if let Some(census) = self.census.filter(|census| idle && census.lanes > 1) {
            census.idle.fetch_add(1, Relaxed);
        }
        (self.events.len(), idle)
    }

    pub(super) fn end_waiting(&mut self, (known, idle): (usize, bool)) {
        let Some(census) = self.census.filter(|census| census.lanes > 1) else { return };
        if idle {
            census.idle.fetch_sub(1, Relaxed);
        }
        self.line.told = self.events[known..].iter().any(|event| matches!(event, Event::Connection(_)));
        self.line.gave_way &= self.line.told || self.accepting != Accepting::Yes;
    }

    /// When something is due that has to do with new connections.
    pub(super) fn due_at_doors(&self) -> Option<Duration> {
        match self.accepting {
            Accepting::Paused(until) | Accepting::Aside(until) => Some(until),
            Accepting::Yes | Accepting::Left | Accepting::Never => None,
        }
    }

    /// Whether other lanes take connections at the same door.
    pub(super) fn shares(&self, door: usize) -> bool {
        self.doors[door].shared && self.census.is_some_and(|census| census.lanes > 1)
    }

    /// The kernel wakes the one who has waited at the listener longest and is asleep, which is always the same one while there
    /// is little to do. Who leaves the line and joins it again stands at its end.
    fn let_others_go_first(&mut self, door: usize) {
        let Door { listener, socket, .. } = self.doors[door];
        let rejoined = self.backend.unlisten(door, socket).and_then(|()| self.backend.listen(door, socket));
        if let Err(error) = rejoined {
            log::error!("cannot wait at {} again: {error}", self.listeners[listener].display);
        }
    }

    /// Leaves new connections to other lanes until the next request is asked for: who came here now would wait behind an app that
    /// is held up. A lane that is alone, or alone at its doors, may as well take them.
    pub fn leave_line(&mut self) {
        if self.accepting == Accepting::Yes && (0..self.doors.len()).any(|door| self.shares(door)) {
            self.unlisten();
            self.ring_if_waited_for();
            self.accepting = Accepting::Left;
        }
    }

    pub(super) fn join_line(&mut self) {
        self.listen();
        self.accepting = Accepting::Yes;
    }

    /// With `prompt`, for a lane that is never busy for long, connections may be accepted before it asks for them.
    pub fn accept_ahead(&mut self, prompt: bool) {
        for door in 0..self.doors.len() {
            let most = if self.shares(door) { 1 } else { ACCEPTS_PER_EVENT };
            self.line.ahead = self.backend.accept_ahead(door, if prompt { most } else { 0 });
        }
    }

    /// Takes everything that waits.
    pub(super) fn accept_all(&mut self) {
        for door in 0..self.doors.len() {
            while self.accept_one(door) {}
        }
    }

    /// Takes one connection; `false` if there is none, or no room.
    fn accept_one(&mut self, door: usize) -> bool {
        // One that turns out to have a request is not closed.
        while self.is_full() {
            if !self.close_oldest_idle() {
                self.pause_accepting("the limit of connections is reached");
                return false;
            }
        }
        let Door { listener, socket, .. } = self.doors[door];
        match self.backend.accept(door, socket) {
            Accepted::Connection(socket, peer) => {
                self.add(socket, listener, peer);
                true
            }
            Accepted::None => false,
            Accepted::Exhausted(error) => {
                if !self.close_oldest_idle() {
                    self.pause_accepting(&error.to_string());
                    return false;
                }
                true
            }
        }
    }

    fn add(&mut self, socket: B::Socket, listener: usize, peer: Peer) {
        let protocol = self.listeners[listener].protocol;
        if protocol == Protocol::FastCgi && !self.is_web_server(peer) {
            return self.backend.close(socket);
        }
        let index = self.connections.insert(Connection::new(socket, listener as u16, peer));
        if let Some(census) = self.census {
            census.here.fetch_add(1, Relaxed);
            census.everywhere.fetch_add(1, Relaxed);
        }
        self.deadlines.set(index, Deadline::Head, self.backend.now());
        if protocol == Protocol::FastCgi {
            self.carry(index);
        } else if self.prompt && self.haste.is_worth_it() && self.answers_unopened(index) {
            return;
        }
        if self.open(index) == Still::Open && protocol == Protocol::Http && !self.prompt && self.haste.is_worth_it() {
            self.receive_at_once(index);
        }
        self.check(index);
    }

    /// Looks whether the first request of a client is there already, as it mostly is. Then this lane is about to be busy and takes
    /// nobody else who would wait behind that request. (A web server that has gone takes its requests with it, which only the
    /// backend's news of the connection can tell.)
    fn receive_at_once(&mut self, index: u32) {
        self.connections[index].line.readable = true;
        if self.receive(index) == Still::Open {
            self.haste.learn(self.connections[index].requests > 0);
        }
    }

    /// Receives before the backend is asked to report news of the connection. A client has mostly sent its request by the time
    /// that it is accepted, and if that is the only one, there will be no news. `false`: the connection has to be opened.
    fn answers_unopened(&mut self, index: u32) -> bool {
        let token = self.connections.token(index);
        let line = &mut self.connections[index].line;
        if !self.backend.put_off(&mut line.socket, token) {
            return false;
        }
        line.readable = true;
        if self.receive(index) == Still::Gone {
            return true;
        }
        let connection = &self.connections[index];
        self.haste.learn(connection.requests > 0);
        matches!(connection.state, State::Queued(_)) && connection.machine.must_close()
    }

    /// Has the backend report news of a connection, if it does not yet.
    #[inline]
    pub(super) fn open(&mut self, index: u32) -> Still {
        if self.connections[index].line.opened { Still::Open } else { self.open_line(index) }
    }

    fn open_line(&mut self, index: u32) -> Still {
        let token = self.connections.token(index);
        let connection = &mut self.connections[index];
        // A socket that a host has taken is none of the engine's any more.
        if matches!(&connection.state, State::Answering(answering) if answering.outlook.taken) {
            return Still::Open;
        }
        connection.line.opened = true;
        if let Err(error) = self.backend.open(&mut connection.line.socket, token) {
            log::error!("cannot watch a connection: {error}");
            self.drop_connection(index);
            return Still::Gone;
        }
        Still::Open
    }

    /// Whether FastCGI requests are taken from there.
    fn is_web_server(&self, peer: Peer) -> bool {
        let (Peer::Internet(address), clients) = (peer, &self.settings.fastcgi_clients) else { return true };
        let known = clients.is_empty() || clients.contains(&address.ip().to_canonical());
        if !known {
            log::warn!("turned {address} away: it is none of the web servers that FastCGI requests are taken from");
        }
        known
    }

    /// Makes room by closing the connection that has been idle longest, unless it has a request. `false`: none is idle.
    fn close_oldest_idle(&mut self) -> bool {
        if let Some(index) = self.deadlines.oldest(Deadline::Idle) {
            self.close_idle(index);
        } else if let Some(index) = self.deadlines.oldest(Deadline::Kept) {
            self.close_kept(index);
        } else {
            return false;
        }
        true
    }

    /// Whether the worker has as many connections as it may have, all its lanes together.
    fn is_full(&self) -> bool {
        let mine = self.connections.len();
        let open = self.census.map_or(mine, |census| mine.max(census.here.load(Relaxed) as usize));
        open >= self.settings.limits.connections
    }

    fn pause_accepting(&mut self, why: &str) {
        if self.accepting != Accepting::Yes {
            return;
        }
        log::warn!("accepting pauses with {} open: {why}", counted(self.connections.len(), "connection"));
        self.unlisten();
        self.ring_if_waited_for();
        self.accepting = Accepting::Paused(self.backend.now() + PAUSE);
    }

    pub(super) fn resume_accepting(&mut self, now: Duration) {
        if let Accepting::Aside(until) = self.accepting
            && now >= until
        {
            return self.join_line();
        }
        let Accepting::Paused(until) = self.accepting else { return };
        let idle = [Deadline::Idle, Deadline::Kept].into_iter().any(|kind| self.deadlines.oldest(kind).is_some());
        if now < until || (self.is_full() && !idle) {
            if now >= until {
                self.accepting = Accepting::Paused(now + PAUSE);
            }
            return;
        }
        self.join_line();
    }

    /// A connection has closed or become idle: whoever waits to be accepted need not wait longer.
    #[inline]
    pub(super) fn room_was_made(&mut self) {
        if let Accepting::Paused(until) = &mut self.accepting {
            *until = self.backend.now();
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        if self.accepting == Accepting::Yes {
            self.unlisten();
        }
        self.accepting = Accepting::Never;
        // What has been accepted is answered, even if the limit of connections is reached: it can go to nobody else.
        for door in 0..self.doors.len() {
            let Door { listener, socket, .. } = self.doors[door];
            while let Accepted::Connection(socket, peer) = self.backend.take_accepted(door, socket) {
                self.add(socket, listener, peer);
            }
        }
        self.ring_if_waited_for();
    }

    fn listen(&mut self) {
        for (number, door) in self.doors.iter().enumerate() {
            if let Err(error) = self.backend.listen(number, door.socket) {
                log::error!("cannot accept on {} again: {error}", self.listeners[door.listener].display);
            }
        }
        if let Err(error) = self.hear_the_bell() {
            log::error!("cannot wait at the bell again: {error}");
        }
    }

    fn unlisten(&mut self) {
        for (number, door) in self.doors.iter().enumerate() {
            if let Err(error) = self.backend.unlisten(number, door.socket) {
                log::error!("cannot stop watching {}: {error}", self.listeners[door.listener].display);
            }
        }
        if let Some(bell) = self.bell()
            && let Err(error) = self.backend.unlisten(self.doors.len(), bell.as_fd())
        {
            log::error!("cannot stop watching the bell: {error}");
        }
    }
}
