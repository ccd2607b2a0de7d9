//! The context of a lane: connections and exchanges.

mod deadlines;

use crate::address::Target;
use crate::balance::Balance;
use crate::connection::{CLIENT, CONNECT, Connection, Connections};
use crate::exchange::Exchange;
use crate::poller::{Change, Poller};
use crate::request::{Outgoing, Unsendable};
use crate::response::{Reader, Verdict};
use crate::socket::{Transfer, receive, transmit};
use crate::tunnel::{Flow, Tunnel};
use oribi_host::{After, Host, Outlet, Reply, Request};
use oribi_io::notice_vanished_peer;
use oribi_message::ResponseHead;
use oribi_proto::h1::client::Event;
use std::io;
use std::os::fd::AsFd;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The longest rest of a kept connection.
const REST: Duration = Duration::from_secs(30);

/// The longest rest of a kept connection that a request gets which must not arrive twice: the upstream may be closing it.
const SHORT_REST: Duration = Duration::from_secs(1);

/// The time that a request takes to arrive: so much earlier than an upstream announces, its connection is closed.
const MARGIN: Duration = Duration::from_secs(1);

/// The number of bytes that are received at once.
const RECEIVED: usize = 64 << 10;

/// The number of such pieces of one upstream before others have their turn.
const ROUNDS: usize = 16;

/// The context of a lane.
pub(crate) struct ProxyHost {
    balance: Balance,
    connections: Connections,
    poller: Poller,
    response_timeout: Option<Duration>,
    reader: Reader,
    buffer: Vec<u8>,
    /// Empty; it keeps its room.
    changes: Vec<Change>,
    /// The connections that have had their turn and have more to do.
    busy: Vec<u64>,
    /// The time for which the lane's timer is set.
    armed: Option<Instant>,
    waker: Waker,
}

/// The next step for a connection.
enum Outcome {
    Wait,
    /// Continue after others.
    Busy,
    Close,
    /// Close, and let another connection have the exchange.
    Repeat(Box<Exchange>),
}

/// A failure of an upstream.
struct Failure<'a> {
    status: u16,
    why: &'a str,
}

impl ProxyHost {
    pub(crate) fn new(targets: Vec<Target>, response_timeout: Option<Duration>) -> io::Result<Self> {
        Ok(Self {
            balance: Balance::of(targets),
            connections: Connections::default(),
            poller: Poller::new()?,
            response_timeout,
            reader: Reader::new(),
            buffer: vec![0; RECEIVED],
            changes: Vec::new(),
            busy: Vec::new(),
            armed: None,
            waker: Waker::noop().clone(),
        })
    }

    /// Gives an exchange to an upstream, but not to `failed` if another one answers.
    fn dispatch(&mut self, outlet: &dyn Outlet, mut exchange: Box<Exchange>, mut failed: Option<usize>) {
        let now = Instant::now();
        loop {
            let upstream = self.balance.choose(failed, now);
            if !exchange.repeated {
                let most = if exchange.request.is_idempotent { None } else { Some(SHORT_REST) };
                while let Some(token) = self.balance.take_kept(upstream, most, now) {
                    let Some(mut connection) = self.connections.take(token) else { continue };
                    // The upstream may have closed it, or sent bytes that no request has asked for, without the poller having
                    // reported it: the next client must not get them.
                    connection.readable = true;
                    if !matches!(self.rest(&mut connection), Outcome::Wait) {
                        self.close(token, connection);
                        continue;
                    }
                    self.connections.put_back(token, connection);
                    let Some(connection) = self.connections.get(token) else { continue };
                    connection.machine = exchange.request.machine.clone();
                    connection.exchange = Some(exchange);
                    connection.deadline = self.response_timeout.map(|timeout| now + timeout);
                    return self.advance(outlet, token);
                }
            }
            let (address, opened) = {
                let next = self.balance.address(upstream);
                (next.0, Connection::open(upstream, next))
            };
            let error = match opened {
                Ok(mut connection) => {
                    connection.machine = exchange.request.machine.clone();
                    connection.exchange = Some(exchange);
                    if connection.tries_until.is_some() {
                        connection.deadline = Some(now + deadlines::AGAIN);
                        self.connections.add(connection);
                        return self.arm(outlet, now + deadlines::AGAIN);
                    }
                    connection.deadline = Some(now + CONNECT);
                    let token = self.connections.add(connection);
                    let added = self.connections.get(token).map(|connection| self.poller.add(connection.as_fd(), token));
                    match added {
                        Some(Err(error)) => {
                            let Some(mut connection) = self.connections.take(token) else { return };
                            let Some(taken) = connection.exchange.take() else { return };
                            self.connections.forget(token);
                            exchange = taken;
                            error
                        }
                        _ => return self.advance(outlet, token),
                    }
                }
                Err(error) => error,
            };
            self.balance.release(upstream);
            self.balance.note_unopened(upstream, address, &error, now);
            let why = format!("cannot connect: {error}");
            if exchange.may_repeat(false) && self.balance.has_other(upstream) {
                log::warn!("upstream {}: {why}; {} goes elsewhere", self.balance.name(upstream), exchange.request.label());
                *exchange = exchange.rewind();
                failed = Some(upstream);
            } else {
                return self.refuse(outlet, &exchange, upstream, &Failure { status: 502, why: &why });
            }
        }
    }

    /// Answers for an upstream that has failed.
    fn refuse(&self, outlet: &dyn Outlet, exchange: &Exchange, upstream: usize, failure: &Failure<'_>) {
        let (name, label, Failure { status, why }) = (self.balance.name(upstream), exchange.request.label(), failure);
        if exchange.begun {
            log::error!("upstream {name}: {why}: the response to {label} is cut off");
            outlet.abandon(exchange.id);
        } else {
            log::error!("upstream {name}: {why}: {label} gets a {status}");
            outlet.fail(exchange.id, *status);
        }
    }

    /// Does all that can be done for a connection now.
    fn advance(&mut self, outlet: &dyn Outlet, token: u64) {
        let Some(mut connection) = self.connections.take(token) else { return };
        let outcome = self.work(outlet, token, &mut connection);
        self.conclude(outlet, token, connection, outcome);
    }

    /// Puts back or closes a connection that was taken out.
    fn conclude(&mut self, outlet: &dyn Outlet, token: u64, connection: Connection, outcome: Outcome) {
        match outcome {
            Outcome::Wait => {
                if let Some(deadline) = connection.deadline {
                    self.arm(outlet, deadline);
                }
                self.connections.put_back(token, connection);
            }
            Outcome::Busy => {
                self.connections.put_back(token, connection);
                self.busy.push(token);
                self.waker.wake_by_ref();
            }
            Outcome::Close => self.close(token, connection),
            Outcome::Repeat(exchange) => {
                let upstream = connection.upstream;
                self.close(token, connection);
                log::info!("upstream {}: {} is sent again", self.balance.name(upstream), exchange.request.label());
                self.dispatch(outlet, Box::new(exchange.rewind()), Some(upstream));
            }
        }
    }

    fn close(&mut self, token: u64, connection: Connection) {
        if connection.exchange.is_some() || connection.tunnel.is_some() {
            self.balance.release(connection.upstream);
        } else {
            self.balance.forget(connection.upstream, token);
        }
        if let Some(tunnel) = &connection.tunnel {
            self.poller.remove(tunnel.client.as_fd());
        }
        self.connections.forget(token);
        // Closes the socket.
        drop(connection);
    }

    fn work(&mut self, outlet: &dyn Outlet, token: u64, connection: &mut Connection) -> Outcome {
        if let Some(tunnel) = &mut connection.tunnel {
            return match tunnel.flow(connection.socket.as_fd()) {
                Ok(Flow::Waits) => Outcome::Wait,
                Ok(Flow::Busy) => Outcome::Busy,
                Ok(Flow::Over) | Err(_) => {
                    outlet.abandon(tunnel.exchange);
                    Outcome::Close
                }
            };
        }
        if connection.connecting {
            if !connection.writable {
                return Outcome::Wait;
            }
            if let Err(error) = connection.complete() {
                return self.fail(outlet, connection, &Failure { status: 502, why: &format!("cannot connect: {error}") });
            }
            connection.deadline = self.response_timeout.map(|timeout| Instant::now() + timeout);
        }
        if connection.exchange.is_none() {
            return self.rest(connection);
        }
        if let Err(outcome) = self.send(outlet, connection) {
            return outcome;
        }
        self.receive(outlet, token, connection)
    }

    /// A kept connection has changed: its upstream may only end it.
    fn rest(&self, connection: &mut Connection) -> Outcome {
        if !connection.readable {
            return Outcome::Wait;
        }
        match receive(connection.socket.as_fd(), &mut [0]) {
            Ok(Transfer::Blocked) => {
                connection.readable = false;
                Outcome::Wait
            }
            Ok(Transfer::Bytes(0)) | Err(_) => Outcome::Close,
            Ok(Transfer::Bytes(_)) => {
                let name = self.balance.name(connection.upstream);
                log::warn!("upstream {name}: bytes after the end of a response; the connection is not used again");
                Outcome::Close
            }
        }
    }

    /// Sends as much of the request as the upstream takes.
    fn send(&mut self, outlet: &dyn Outlet, connection: &mut Connection) -> Result<(), Outcome> {
        let Connection { exchange, machine, socket, .. } = connection;
        let Some(exchange) = exchange else { return Ok(()) };
        while connection.writable && !connection.deaf {
            let pending = match exchange.pending(machine) {
                Ok([]) => break,
                Ok(pending) => pending,
                Err(error) => {
                    log::error!("{}: cannot read its content: {error}", exchange.request.label());
                    if exchange.begun {
                        outlet.abandon(exchange.id);
                    } else {
                        outlet.fail(exchange.id, 500);
                    }
                    return Err(Outcome::Close);
                }
            };
            match transmit(socket.as_fd(), pending) {
                Ok(Transfer::Bytes(count)) => {
                    let whole = count == pending.len();
                    exchange.note_sent(count);
                    connection.writable = whole;
                    connection.deadline = self.response_timeout.map(|timeout| Instant::now() + timeout);
                }
                Ok(Transfer::Blocked) => connection.writable = false,
                // The upstream may have answered before it ended the connection.
                Err(error) => {
                    (connection.deaf, connection.readable, connection.ended) = (true, true, true);
                    // EPIPE follows an end that the upstream has sent, or an error that receiving still reports.
                    connection.broken = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
                }
            }
        }
        Ok(())
    }

    /// Receives and passes on as much of the response as the client takes.
    fn receive(&mut self, outlet: &dyn Outlet, token: u64, connection: &mut Connection) -> Outcome {
        for _ in 0..ROUNDS {
            if connection.exchange.as_ref().is_some_and(|exchange| exchange.paused) || !connection.readable {
                return Outcome::Wait;
            }
            let count = match receive(connection.socket.as_fd(), &mut self.buffer) {
                Ok(Transfer::Bytes(0)) => return self.end(outlet, connection),
                Ok(Transfer::Bytes(count)) => count,
                Ok(Transfer::Blocked) => {
                    connection.readable = false;
                    return Outcome::Wait;
                }
                Err(error) => {
                    return self.fail(outlet, connection, &Failure { status: 502, why: &format!("cannot receive: {error}") });
                }
            };
            // A socket that gives less than asked for is empty, and reports all that comes later.
            connection.readable = connection.ended || count == self.buffer.len();
            if let Some(exchange) = &mut connection.exchange {
                exchange.answered = true;
            }
            connection.deadline = self.response_timeout.map(|timeout| Instant::now() + timeout);
            if let Some(outcome) = self.pass_on(outlet, token, connection, count) {
                return outcome;
            }
        }
        Outcome::Busy
    }

    /// Passes on the kept input and the first `count` bytes of the buffer. `None`: continue.
    fn pass_on(&mut self, outlet: &dyn Outlet, token: u64, connection: &mut Connection, count: usize) -> Option<Outcome> {
        let mut kept = std::mem::take(&mut connection.input);
        let input = if kept.is_empty() {
            &self.buffer[..count]
        } else {
            kept.extend_from_slice(&self.buffer[..count]);
            &kept[..]
        };
        let Connection { exchange, machine, kept_for, upstream, .. } = &mut *connection;
        let exchange = exchange.as_mut()?;
        let begun = exchange.begun;
        let (consumed, verdict) = self.reader.pass_on(outlet, machine, exchange, input);
        // The end may never come: clients leave streams.
        if exchange.begun && !begun {
            self.balance.note_success(*upstream);
        }
        *kept_for = self.reader.kept_for.or(*kept_for);
        let rest = input[consumed..].to_vec();
        Some(match verdict {
            Verdict::More => {
                connection.input = rest;
                return None;
            }
            Verdict::Paused => {
                exchange.paused = true;
                connection.input = rest;
                // The client has its own deadlines.
                connection.deadline = None;
                Outcome::Wait
            }
            Verdict::Done => self.settle(token, connection, !rest.is_empty()),
            Verdict::Switched(head) => self.switch(outlet, token, connection, head, &rest),
            Verdict::Failed(fault) => {
                self.fail(outlet, connection, &Failure { status: 502, why: &format!("invalid response: {fault}") })
            }
            Verdict::Refused(why) => {
                log::error!("upstream {}: {}: {why}", self.balance.name(*upstream), exchange.request.label());
                Outcome::Close
            }
            Verdict::Gone => Outcome::Close,
        })
    }

    /// A response is complete: keeps the connection or closes it.
    fn settle(&mut self, token: u64, connection: &mut Connection, surplus: bool) -> Outcome {
        // The upstream would read the next request as the rest of one that is cut off.
        let is_sent = connection.exchange.take().is_some_and(|exchange| exchange.is_sent());
        self.balance.release(connection.upstream);
        connection.kept = true;
        let now = Instant::now();
        if surplus {
            log::warn!(
                "upstream {}: bytes after the end of a response; the connection is not used again",
                self.balance.name(connection.upstream)
            );
        }
        let rest = connection.kept_for.map_or(REST, |time| time.saturating_sub(MARGIN).min(REST));
        let is_intact = is_sent && connection.machine.is_ready() && !surplus && !connection.ended && !connection.deaf;
        let usable = is_intact && !rest.is_zero();
        if !usable || !matches!(self.rest(connection), Outcome::Wait) || !self.balance.keep(connection.upstream, token, now) {
            return Outcome::Close;
        }
        connection.deadline = Some(now + rest);
        Outcome::Wait
    }

    /// The upstream has ended the connection.
    fn end(&mut self, outlet: &dyn Outlet, connection: &mut Connection) -> Outcome {
        if let Some(error) = connection.broken.take() {
            return self.fail(outlet, connection, &Failure { status: 502, why: &format!("cannot send: {error}") });
        }
        match connection.machine.handle_end(&connection.input) {
            Event::End => {
                if let Some(exchange) = &mut connection.exchange {
                    // It fails only if the client has gone.
                    let _ = self.reader.end_with_connection(outlet, exchange);
                }
                Outcome::Close
            }
            Event::Failed(fault) => self.fail(outlet, connection, &Failure { status: 502, why: fault.reason() }),
            _ => Outcome::Close,
        }
    }

    /// The upstream has failed: lets another connection have the exchange, or answers.
    fn fail(&mut self, outlet: &dyn Outlet, connection: &mut Connection, failure: &Failure<'_>) -> Outcome {
        let (upstream, connecting) = (connection.upstream, connection.connecting);
        let Some(exchange) = connection.exchange.take() else { return Outcome::Close };
        self.balance.release(upstream);
        // A kept connection may end at any time, which says nothing about its upstream.
        if !connection.kept && !exchange.answered {
            self.balance.note_failure(upstream, connecting.then_some(connection.address), Instant::now());
        }
        let elsewhere = !connecting || self.balance.has_other(upstream);
        let in_time = connecting || failure.status != 504;
        if elsewhere && in_time && exchange.may_repeat(connection.kept) {
            log::debug!("upstream {}: {}", self.balance.name(upstream), failure.why);
            return Outcome::Repeat(exchange);
        }
        self.refuse(outlet, &exchange, upstream, failure);
        Outcome::Close
    }

    /// Connects the client with the upstream.
    fn switch(
        &mut self,
        outlet: &dyn Outlet,
        token: u64,
        connection: &mut Connection,
        mut head: Vec<u8>,
        rest: &[u8],
    ) -> Outcome {
        let Some(exchange) = connection.exchange.take() else { return Outcome::Close };
        self.balance.note_success(connection.upstream);
        let taken = outlet.take_socket(exchange.id).and_then(|client| {
            self.poller.add(client.as_fd(), token | CLIENT)?;
            Ok(client)
        });
        match taken {
            Ok(client) => {
                // It lasts as long as both want, and both may be silent. The taken socket already notices a vanished client.
                outlet.extend_deadline(exchange.id, None);
                notice_vanished_peer(connection.as_fd());
                head.extend_from_slice(rest);
                connection.tunnel = Some(Box::new(Tunnel::new(exchange.id, client, head)));
                connection.deadline = None;
                Outcome::Busy
            }
            Err(error) => {
                let why = format!("cannot connect it with its client: {error}");
                self.balance.release(connection.upstream);
                self.refuse(outlet, &exchange, connection.upstream, &Failure { status: 502, why: &why });
                Outcome::Close
            }
        }
    }

    /// Handles changes of sockets.
    fn see_to_sockets(&mut self, outlet: &dyn Outlet) {
        let mut changes = std::mem::take(&mut self.changes);
        loop {
            let more = self.poller.take(&mut changes).unwrap_or_else(|error| {
                log::error!("cannot look at the sockets of upstreams: {error}");
                false
            });
            if !more {
                break;
            }
        }
        for change in changes.drain(..) {
            let token = change.token & !CLIENT;
            let Some(connection) = self.connections.get(token) else { continue };
            if change.token & CLIENT == 0 {
                connection.readable |= change.readable;
                connection.writable |= change.writable;
                connection.ended |= change.ended;
            }
            self.advance(outlet, token);
        }
        self.changes = changes;
        for token in std::mem::take(&mut self.busy) {
            self.advance(outlet, token);
        }
    }

    /// Continues for clients that have room again, and closes the connections of those that have gone.
    fn see_to_clients(&mut self, outlet: &dyn Outlet) {
        let changed = |connection: &Connection| match (&connection.exchange, &connection.tunnel) {
            (Some(exchange), _) => outlet.has_room(exchange.id).map_or(true, |room| room && exchange.paused),
            (None, Some(tunnel)) => outlet.has_room(tunnel.exchange).is_err(),
            (None, None) => false,
        };
        let tokens: Vec<u64> =
            self.connections.tokens().filter(|(_, connection)| changed(connection)).map(|(token, _)| token).collect();
        for token in tokens {
            let Some(mut connection) = self.connections.take(token) else { continue };
            let resumed = match &mut connection.exchange {
                Some(exchange) if outlet.has_room(exchange.id).is_ok() => {
                    exchange.paused = false;
                    true
                }
                _ => false,
            };
            if !resumed {
                self.close(token, connection);
                continue;
            }
            connection.deadline = self.response_timeout.map(|timeout| Instant::now() + timeout);
            // Even without further input, the end of the response may not have been passed on.
            match self.pass_on(outlet, token, &mut connection, 0) {
                None => {
                    self.connections.put_back(token, connection);
                    self.advance(outlet, token);
                }
                Some(outcome) => self.conclude(outlet, token, connection, outcome),
            }
        }
    }
}

impl Host for ProxyHost {
    fn begin(&mut self, outlet: &dyn Outlet) {
        self.waker = outlet.waker();
        // Another outlet may have watched it, or this one before.
        let _ = outlet.unwatch(self.poller.descriptor());
        if let Err(error) = outlet.watch(self.poller.descriptor()) {
            log::error!("cannot watch the sockets of upstreams: {error}");
        }
        self.armed = None;
        let next = self.connections.tokens().filter_map(|(_, connection)| connection.deadline).min();
        if let Some(next) = next {
            self.arm(outlet, next);
        }
    }

    fn attend(&mut self, outlet: &dyn Outlet) -> After {
        self.see_to_sockets(outlet);
        self.see_to_clients(outlet);
        self.see_to_deadlines(outlet);
        After::default()
    }

    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let outgoing = match Outgoing::of(request, self.balance.authority()) {
            Ok(outgoing) => outgoing,
            Err(unsendable) => {
                let (status, text) = match unsendable {
                    Unsendable::Invalid(invalid) => (400, format!("400 Bad Request: {invalid}\n")),
                    Unsendable::Content(error) => {
                        log::error!("cannot pass on the content of a request: {error}");
                        (503, "503 Service Unavailable\n".to_owned())
                    }
                };
                let head = ResponseHead { status, fields: &[(b"Content-Type", b"text/plain; charset=utf-8")] };
                // It fails only if the client has gone.
                let _ = reply.send(head, &[text.as_bytes()]);
                return After::default();
            }
        };
        let (outlet, id) = reply.detach();
        self.dispatch(outlet, Box::new(Exchange::new(id, outgoing)), None);
        After::default()
    }

    fn is_concurrent(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
