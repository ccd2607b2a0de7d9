//! The load: connections, one loop, and which connection sends a request when.

mod exchange;

use crate::connection::{Batch, Connection, State};
use crate::options::{Options, Pattern};
use crate::pace::{Agenda, Portion, Schedule};
use crate::probe;
use crate::response::{Expected, pattern};
use crate::tally::{Fault, Tally};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

const BUFFER_BYTES: usize = 128 << 10;
/// The most events that one call of epoll_wait returns.
const EVENTS: usize = 256;
/// The most connections that are opened at the same time: fewer than the queue of any server holds.
const OPENED_AT_ONCE: usize = 64;
/// The size of a slow reader's receive buffer in bytes; the kernel doubles it.
const SMALL_BUFFER: usize = 8 << 10;
/// The time for which a connection rests after a fault, in nanoseconds, so that a broken server does not get requests without a
/// pause.
const REST: u64 = 10_000_000;
/// The interval at which to look for requests without progress, in nanoseconds.
const LOOK: u64 = 250_000_000;
/// The time by which a sleep may end too late, in nanoseconds. The loop does not sleep for this time before a request is due.
const AWAKE: u64 = 100_000;
const STDIN: u64 = u64::MAX;

/// The next step of a connection when its requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing: each connection sends one request when it is opened.
    Opening,
    /// It sends the next request, at once or when a request is due.
    Asking,
    /// It sends only requests that were due before the end of the load.
    Resting,
}

/// All connections and the counts.
pub struct Load<'a> {
    options: &'a Options,
    pub tally: Tally,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    expected: Expected,
    buffer: Vec<u8>,
    events: Vec<Event>,
    /// The bytes of as many requests as are sent at once.
    requests: Vec<u8>,
    request_bytes: usize,
    /// A request that asks for the connection to be closed.
    last_request: Vec<u8>,
    mode: Mode,
    schedule: Option<Schedule>,
    /// Active connections that wait for a request to be due.
    free: VecDeque<u32>,
    /// Slow connections and when their next portion is due.
    portions: Agenda,
    /// Connections that rest after something went wrong.
    resting: Agenda,
    reads: Option<Portion>,
    sends: Option<Portion>,
    /// Connections in the states [`State::Busy`] and [`State::Ending`].
    busy: usize,
    connects: usize,
    /// The time at which bytes last arrived, or at which the loop woke up.
    time: u64,
    next_look: u64,
}

/// Nanoseconds of the monotonic clock.
#[inline]
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl<'a> Load<'a> {
    /// Prepares the load, and learns the expected responses from the server.
    ///
    /// # Errors
    /// There are too few descriptors, or the server does not answer.
    pub fn new(options: &'a Options) -> Result<Self, String> {
        let needed = options.connections as u64 + 16;
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if allowed < needed {
            return Err(format!("{} connections need {needed} descriptors; the hard limit is {allowed}", options.connections));
        }
        let request = request(options, "");
        let last_request = self::request(options, "Connection: close\r\n");
        let content = match options.body {
            Some(bytes) => pattern(bytes),
            None => probe::content(&options.target, &last_request, options.timeout)?,
        };
        // A wait of 20 microseconds must not become a sleep of 70.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|e| format!("epoll: {e}"))?;
        let connections = (0..options.connections).map(|index| Connection::new(index < options.active)).collect();
        Ok(Self {
            options,
            tally: Tally::default(),
            epoll,
            connections,
            expected: Expected::new(content),
            buffer: vec![0; BUFFER_BYTES],
            events: Vec::with_capacity(EVENTS),
            requests: request.repeat(options.depth),
            request_bytes: request.len(),
            last_request,
            mode: Mode::Opening,
            schedule: None,
            free: VecDeque::new(),
            portions: Agenda::default(),
            resting: Agenda::default(),
            reads: options.reader.map(Portion::of),
            sends: options.sender.map(Portion::of),
            busy: 0,
            connects: 0,
            time: now(),
            next_look: 0,
        })
    }

    /// Opens all connections, and sends a request on each at full speed. With short connections, opens only those that stay
    /// idle.
    ///
    /// # Errors
    /// A fault of any request.
    pub fn open(&mut self) -> Result<(), String> {
        self.mode = Mode::Opening;
        let mut next = if self.options.pattern == Pattern::Short { self.options.active } else { 0 };
        loop {
            while self.busy < OPENED_AT_ONCE && next < self.connections.len() {
                let index = next as u32;
                next += 1;
                self.ask(index, Batch { due: self.time, asked: 1, ..Batch::default() });
            }
            if self.tally.faults() > 0 {
                return Err("not all connections could be opened".to_owned());
            }
            if self.busy == 0 && self.resting.next_due().is_none() {
                return Ok(());
            }
            self.turn(None)?;
        }
    }

    /// Loads the server for `length`: with `rate` requests a second, or as fast as possible if `rate` is `None`. Then waits for
    /// the answers to requests that have begun, except those of slow clients. Returns the time of both in seconds.
    ///
    /// # Errors
    /// An error of the event loop itself. Faults of the server are only counted.
    pub fn run(&mut self, length: Duration, rate: Option<f64>) -> Result<f64, String> {
        let length = length.as_nanos() as u64;
        let start = now();
        self.mode = Mode::Asking;
        self.schedule = rate.map(|rate| Schedule::new(start, rate, length));
        self.free.clear();
        if length > 0 {
            for index in 0..self.options.active as u32 {
                if matches!(self.connections[index as usize].state, State::Idle | State::Closed) {
                    self.go_on(index);
                }
            }
        }
        let end = start + length;
        while now() < end {
            self.turn(Some(end))?;
        }
        self.mode = Mode::Resting;
        let patience = end + self.options.timeout.as_nanos() as u64;
        while !self.options.is_slow() && (self.busy > 0 || self.schedule.is_some_and(|schedule| schedule.left() > 0)) {
            if now() > patience + LOOK {
                self.give_up();
                break;
            }
            self.turn(Some(patience + LOOK))?;
        }
        self.schedule = None;
        Ok((now() - start) as f64 / 1e9)
    }

    /// Sets all counts but the faults to zero.
    pub fn reset(&mut self) {
        self.tally.reset();
    }

    /// Handles events until standard input has a line, and returns the line; `None` at the end of standard input.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn wait_for_line(&mut self) -> Result<Option<String>, String> {
        let stdin = std::io::stdin();
        // Files are always readable, and epoll takes none.
        if epoll::add(&self.epoll, &stdin, EventData::new_u64(STDIN), EventFlags::IN).is_ok() {
            while !self.turn(None)? {}
            let _ = epoll::delete(&self.epoll, &stdin);
        }
        // Reads not a byte more than the line: the loop would not notice bytes that are already in a buffer.
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\n") {
            match rustix::io::read(&stdin, &mut byte) {
                Ok(0) => break,
                Ok(_) => line.extend(byte),
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("standard input: {error}")),
            }
        }
        Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()))
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.socket.is_some()).count()
    }

    /// Waits for events, at most until the time `until`, and handles them. Returns `true` if standard input can be read.
    fn turn(&mut self, until: Option<u64>) -> Result<bool, String> {
        self.see_to_what_is_due();
        let request_due = self.schedule.filter(|_| !self.free.is_empty()).and_then(|schedule| schedule.next_due());
        let due = [until, self.portions.next_due(), self.resting.next_due(), Some(self.next_look)];
        let due = due.into_iter().flatten().chain(request_due.map(|due| due.saturating_sub(AWAKE))).min();
        let timeout = due.map(|due| {
            let left = due.saturating_sub(self.time);
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ }
        });
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("epoll: {error}")),
        }
        let mut line = false;
        for event in &events {
            let name = event.data.u64();
            if name == STDIN {
                line = true;
                continue;
            }
            let (index, generation, flags) = (name as u32, (name >> 32) as u32, event.flags);
            if self.connections[index as usize].generation == generation {
                self.see_to(index, flags);
            }
        }
        self.events = events;
        Ok(line)
    }

    fn see_to_what_is_due(&mut self) {
        self.time = now();
        while let Some((index, generation)) = self.portions.take(self.time) {
            if self.connections[index as usize].generation == generation {
                self.next_portion(index);
            }
        }
        while let Some((index, generation)) = self.resting.take(self.time) {
            let connection = &self.connections[index as usize];
            match connection.state {
                _ if connection.generation != generation => {}
                State::Closed => self.go_on(index),
                State::Busy if connection.socket.is_none() => self.begin(index),
                _ => {}
            }
        }
        while let (Some(&index), Some(schedule)) = (self.free.front(), &mut self.schedule) {
            // A connection that was lost while it was free is in the list twice.
            if !self.connections[index as usize].is_busy() {
                let Some((due, asked)) = schedule.take(self.time, self.options.depth as u32) else { break };
                let batch = Batch { due, spacing: schedule.spacing, asked, answered: 0 };
                self.ask(index, batch);
            }
            self.free.pop_front();
        }
        if self.time >= self.next_look {
            self.next_look = self.time + LOOK;
            self.look_for_stuck();
        }
    }

    /// Gives an active connection that has nothing to do its next request, if there is one.
    fn go_on(&mut self, index: u32) {
        if self.mode == Mode::Opening || !self.connections[index as usize].active {
            return;
        }
        if self.schedule.is_some() {
            self.free.push_back(index);
        } else if self.mode == Mode::Asking {
            self.ask(index, Batch { due: self.time, asked: self.options.depth as u32, ..Batch::default() });
        }
    }

    /// Whether a connection belongs to a client that sends or receives slowly.
    fn is_slow(&self, index: u32) -> bool {
        self.options.is_slow() && self.mode != Mode::Opening && self.connections[index as usize].active
    }

    fn look_for_stuck(&mut self) {
        let patience = self.options.timeout.as_nanos() as u64;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.is_busy() && connection.progress + patience < self.time {
                self.fail(index as u32, Fault::Timeout, "no progress for as long as --timeout says");
            }
        }
    }

    /// Gives up the remaining requests, because the time is over and they will not be answered.
    fn give_up(&mut self) {
        for index in 0..self.connections.len() {
            if self.connections[index].is_busy() {
                self.fail(index as u32, Fault::Timeout, "not answered within --timeout after the end");
            }
        }
        let left = self.schedule.map_or(0, |schedule| schedule.left());
        if left > 0 {
            self.tally.requests += left;
            self.tally.fail(Fault::Timeout, left, "no connection was free for it within --timeout after the end");
        }
    }
}

/// The bytes of a request, with another field.
fn request(options: &Options, field: &str) -> Vec<u8> {
    let (path, host) = (&options.path, options.target.host());
    match options.content {
        None => format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n").into_bytes(),
        Some(bytes) => {
            let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{field}Content-Length: {bytes}\r\n\r\n");
            [head.into_bytes(), pattern(bytes)].concat()
        }
    }
}
