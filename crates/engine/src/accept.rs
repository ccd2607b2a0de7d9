//! Accepts new connections, makes room for them, and pauses when there is no room.
//!
//! `policy` decides which of the lanes that share a listener takes a connection; `sharing` carries out the decision.

mod acceptance;
mod accepting;
mod changing;
mod policy;
mod sharing;

pub(super) use acceptance::Acceptance;
pub(super) use accepting::Accepting;
pub use sharing::ConnectionCounts;
pub(super) use sharing::SharedAccept;

use super::Engine;
use super::connection::{Connection, State};
use super::deadline::Deadline;
use super::send::Still;
use oribi_config::counted;
use oribi_config::{Protocol, ProxyProtocol};
use oribi_io::{Accepted, Backend, Peer};
use oribi_stats::totals::Counter;
use policy::{EXPECTED_FOR, Work};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The number of connections that a lane accepts for one event if no other lane shares its listener. After a single connection,
/// the lane would have to wait again for the next. A lane that shares its listener accepts only one connection: the next may
/// bring a request for a slow app, and another lane is awake to take it.
const ACCEPTS_PER_EVENT: usize = 4;

/// If the backend reports many events together, the lane accepts one connection for each group of this many events. With fewer,
/// the queue of the listener would overflow while the lane is busy with its connections.
const EVENTS_PER_ACCEPT: usize = 8;

/// The length of a pause of accepting when descriptors have run out and no connection can be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Decides whether to receive from a new connection at once. That costs a system call if nothing has arrived yet, and saves one
/// if the request has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlyReceive {
    /// The number of connections in a row on which nothing had arrived.
    misses: u8,
    /// The number of next connections that are not tried.
    wait: u8,
}

impl EarlyReceive {
    /// The most connections in a row that are not tried, if clients send late.
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

impl<B: Backend> Engine<'_, B> {
    #[inline(never)]
    pub(super) fn accept(&mut self, socket_number: usize) {
        let shared = self.shares(socket_number);
        let most = if shared { 1 } else { ACCEPTS_PER_EVENT };
        for _ in 0..most.max(self.run_queue.events.len() / EVENTS_PER_ACCEPT) {
            if self.acceptance.accepting != Accepting::Yes || !self.accept_one(socket_number) {
                return;
            }
            if self.is_full() {
                // The lane makes room only for a client that is known to wait. The next event will report such a client.
                return;
            }
            if shared && self.situation().rejoins_last() {
                return self.rejoin_line_last(socket_number);
            }
            if self.work() != Work::None {
                return;
            }
        }
    }

    /// Makes the backend accept connections before the lane asks for them, if the host is `prompt`. A lane with another host
    /// may be busy for long, and the accepted connections would wait.
    pub fn accept_ahead(&mut self, prompt: bool) {
        // This lane may replace a lane that was killed.
        self.backend.be_cautious();
        for socket_number in 0..self.acceptance.listen_sockets.len() {
            let most = if self.shares(socket_number) { 1 } else { ACCEPTS_PER_EVENT };
            self.acceptance.line.ahead = self.backend.accept_ahead(socket_number, if prompt { most } else { 0 });
        }
    }

    /// Takes all connections that wait.
    pub(super) fn accept_all(&mut self) {
        for socket_number in 0..self.acceptance.listen_sockets.len() {
            while self.accept_one(socket_number) {}
        }
    }

    /// Takes one connection, or closes an idle one to free a descriptor for it. Returns `false` if no connection waits, or if
    /// there is no room.
    #[inline(never)]
    fn accept_one(&mut self, socket_number: usize) -> bool {
        // A call makes no room if the idle connection turns out to have a request.
        while self.is_full() {
            if !self.close_oldest_idle(Counter::LimitConnections) {
                self.pause_accepting("the limit of connections is reached", Counter::LimitConnections);
                return false;
            }
        }
        let Some(listening) = &self.acceptance.listen_sockets[socket_number] else { return false };
        let listener = listening.listener;
        match self.backend.accept(socket_number, listening.as_fd()) {
            Accepted::Connection(socket, peer) => {
                self.add(socket, listener, peer);
                true
            }
            Accepted::None => false,
            Accepted::Exhausted(error) => {
                if !self.close_oldest_idle(Counter::LimitDescriptors) {
                    self.pause_accepting(&error.to_string(), Counter::LimitDescriptors);
                    return false;
                }
                true
            }
        }
    }

    #[inline(never)]
    fn add(&mut self, socket: B::Socket, listener: usize, peer: Peer) {
        let protocol = self.listeners[listener].protocol;
        if protocol == Protocol::FastCgi && !self.is_web_server(peer) {
            self.tally.count(Counter::ConnectionsRefused);
            return self.backend.close(socket);
        }
        let greets = self.listeners[listener].proxy_protocol != ProxyProtocol::Off;
        if greets && !self.may_greet(peer) {
            self.tally.count(Counter::ConnectionsRefused);
            return self.backend.close(socket);
        }
        self.tally.count(Counter::ConnectionsAccepted);
        let index = self.connections.insert(Connection::new(socket, listener as u16, peer));
        if protocol == Protocol::Http {
            self.connections[index].forwarding = self.settings.proxies.forwarding(address_of(peer));
            if greets {
                self.await_greeting(index);
            }
        }
        if let Some(counts) = self.acceptance.counts {
            counts.here.fetch_add(1, Relaxed);
            counts.everywhere.fetch_add(1, Relaxed);
        }
        self.count_as_idle(false);
        self.deadlines.set(index, Deadline::Head, self.backend.now());
        if protocol == Protocol::FastCgi {
            self.carry(index);
        } else if self.batching.prompt && self.acceptance.early_receive.is_worth_it() && self.answers_unopened(index) {
            return;
        }
        if self.open(index) == Still::Open
            && protocol == Protocol::Http
            && !self.batching.prompt
            && self.acceptance.early_receive.is_worth_it()
        {
            self.receive_at_once(index);
        }
        if let Some(connection) = self.connections.get(index) {
            if !self.batching.prompt && connection.requests == 0 {
                self.acceptance.line.expects_until = self.backend.now() + EXPECTED_FOR;
            }
            self.check(index);
        }
    }

    /// Receives from a new connection: usually the first request has already arrived. In that case this lane is about to be
    /// busy, and accepts no other client, which would have to wait for that request.
    fn receive_at_once(&mut self, index: u32) {
        self.connections[index].line.readable = true;
        if self.receive(index) == Still::Open {
            self.acceptance.early_receive.learn(self.connections[index].requests > 0);
        }
    }

    /// Receives from a new connection before the backend watches it. Usually the request has already arrived, and if it is the
    /// client's only request, the backend has nothing to report. Returns `false` if the backend must watch the connection. (It
    /// always watches the connection of a web server, because it must report that the web server has disconnected.)
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
        self.acceptance.early_receive.learn(connection.requests > 0);
        matches!(connection.state, State::Queued(_)) && connection.machine.must_close()
    }

    /// Makes the backend watch a connection, unless the backend watches it already.
    #[inline]
    pub(super) fn open(&mut self, index: u32) -> Still {
        if self.connections[index].line.opened { Still::Open } else { self.open_line(index) }
    }

    #[inline(never)]
    fn open_line(&mut self, index: u32) -> Still {
        let token = self.connections.token(index);
        let connection = &mut self.connections[index];
        // A socket that a host has hijacked no longer belongs to the engine.
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

    /// Whether FastCGI requests from this peer are accepted.
    fn is_web_server(&self, peer: Peer) -> bool {
        let (Peer::Internet(address), clients) = (peer, &self.settings.fastcgi_clients) else { return true };
        let known = clients.is_empty() || clients.contains(&address.ip().to_canonical());
        if !known {
            log::warn!("refused a FastCGI connection from {address}, which is not in --fastcgi-clients");
        }
        known
    }

    /// Makes room by closing the connection that has been idle longest, unless a request has arrived on it. Returns `false` if
    /// no connection is idle. `limit` is the counter of the limit that has been reached.
    fn close_oldest_idle(&mut self, limit: Counter) -> bool {
        let before = self.connections.len();
        if let Some(index) = self.deadlines.oldest(Deadline::Idle) {
            self.close_idle(index);
        } else if let Some(index) = self.deadlines.oldest(Deadline::Kept) {
            self.close_kept(index);
        } else {
            return false;
        }
        if self.connections.len() < before {
            self.tally.count(Counter::ConnectionsDisplaced);
            self.tally.count(limit);
        }
        true
    }

    /// Whether the worker, with all its lanes, has reached its limit of connections.
    fn is_full(&self) -> bool {
        let mine = self.connections.len();
        let open = self.acceptance.counts.map_or(mine, |counts| mine.max(counts.here.load(Relaxed) as usize));
        open >= self.settings.limits.connections
    }

    fn pause_accepting(&mut self, why: &str, limit: Counter) {
        if self.acceptance.accepting != Accepting::Yes {
            return;
        }
        log::warn!("accepting pauses with {} open: {why}", counted(self.connections.len(), "connection"));
        self.tally.count(Counter::AcceptingPauses);
        self.tally.count(limit);
        self.unlisten();
        self.ring_if_connection_waits();
        self.acceptance.accepting = Accepting::Paused(self.backend.now() + PAUSE);
    }

    pub(super) fn resume_accepting(&mut self, now: Duration) {
        if let Accepting::Aside(until) = self.acceptance.accepting
            && now >= until
        {
            return self.join_line();
        }
        let Accepting::Paused(until) = self.acceptance.accepting else { return };
        let idle = [Deadline::Idle, Deadline::Kept].into_iter().any(|kind| self.deadlines.oldest(kind).is_some());
        if now < until || (self.is_full() && !idle) {
            if now >= until {
                self.acceptance.accepting = Accepting::Paused(now + PAUSE);
            }
            return;
        }
        self.join_line();
    }

    /// Ends a pause of accepting, because a connection has closed or become idle.
    #[inline]
    pub(super) fn resume_if_paused(&mut self) {
        if let Accepting::Paused(until) = &mut self.acceptance.accepting {
            *until = self.backend.now();
        }
    }

    /// Leaves new connections to another process for now.
    pub fn postpone_accepting(&mut self) {
        if self.acceptance.accepting == Accepting::Yes {
            self.unlisten();
            self.acceptance.accepting = Accepting::Later;
        }
    }

    /// Accepts connections after [`Engine::postpone_accepting`].
    pub fn begin_accepting(&mut self) {
        if self.acceptance.accepting == Accepting::Later {
            self.join_line();
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        if self.acceptance.accepting == Accepting::Yes {
            self.unlisten();
        }
        self.acceptance.accepting = Accepting::Never;
        // The lane is no longer idle, so other lanes no longer leave clients to it, even if it stood aside.
        self.count_as_idle(false);
        // Connections that the backend has already accepted are answered even beyond the limit: no other process can take them.
        for socket_number in 0..self.acceptance.listen_sockets.len() {
            self.take_accepted(socket_number);
        }
        self.ring_if_connection_waits();
    }
}

impl<B: Backend> Engine<'_, B> {
    /// After the end of listening: takes the connections that the backend has accepted at a socket.
    fn take_accepted(&mut self, socket_number: usize) {
        while let Some(listening) = &self.acceptance.listen_sockets[socket_number] {
            let listener = listening.listener;
            match self.backend.take_accepted(socket_number, listening.as_fd()) {
                Accepted::Connection(socket, peer) => self.add(socket, listener, peer),
                Accepted::None | Accepted::Exhausted(_) => return,
            }
        }
    }
}

/// The address of a peer; `None` for a peer of a Unix socket.
fn address_of(peer: Peer) -> Option<IpAddr> {
    match peer {
        Peer::Internet(address) => Some(address.ip().to_canonical()),
        Peer::Local => None,
    }
}
