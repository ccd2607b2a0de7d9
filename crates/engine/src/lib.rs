//! The engine: connections, their deadlines and one backend, owned by one lane.
//!
//! # The life of a request
//! 1. **Wait** (`wait`): the backend reports a readable socket;
//! 2. **Receive** (`receive`): the engine receives its bytes into a pooled buffer;
//! 3. **Parse** (`parse`): the connection's machine reads a head, pieces of content, the end; content is kept in the buffer, in
//!    memory or in a file (`content`);
//! 4. **Lend** (`lend`): [`Engine::next_exchange`] hands out the complete [`Exchange`]. From then on **the engine is not
//!    borrowed** and others may drive it;
//! 5. **Answer** (`respond`): the lane's host answers; the protocol frames the response (`response`, `framing`), and the
//!    engine sends it, or queues it after output that already waits (`send`, `output`);
//! 6. **Settle** (`settle`): [`Engine::give_back`] takes the buffers back; the connection waits for its next request, or ends.
//!
//! A `connection` is in one of eight states, and each state owns the data that has a meaning in it; `carrying` handles
//! connections that carry several requests at once. The engine uses machines, never a language, and uses sockets only through
//! the backend.
//!
//! Each large function is marked `#[inline(never)]`: it is then compiled in the first crate that uses an engine, and not
//! again in each of the others.
#![forbid(unsafe_code)]

mod accept;
mod access;
mod answer;
mod apply_forwarded;
mod backlog;
mod batching;
mod body;
mod bounds;
mod carrier;
mod carrying;
mod connection;
mod content;
mod content_bounds;
mod deadline;
mod drains;
mod driven;
mod encoders;
mod excess;
mod exchange;
mod fastcgi;
mod filter;
mod filtering;
mod forwarded;
mod framing;
mod greeting;
mod handover;
mod http2;
mod input;
mod leftovers;
mod lend;
mod limits;
mod memory;
mod misdirected;
mod name;
mod observing;
mod output;
mod parse;
mod protocol_limits;
mod receive;
mod remote;
mod request_id;
mod request_timings;
mod respond;
mod response;
mod route;
mod run_queue;
mod send;
mod server_fields;
mod settle;
pub mod shortage;
mod slots;
mod source;
mod spans;
mod spool;
mod states;
mod stream;
mod taken;
mod timestamp;
mod timing;
mod trace;
mod trailers;
mod tunnel;
mod unique;
mod uploads;
mod variables;
mod wait;
mod websocket;
mod websockets;

pub use accept::ConnectionCounts;
pub use bounds::Sum;
pub use content_bounds::CountedFile;
pub use exchange::Exchange;
pub use handover::MovingSocket;
pub use request_timings::Wait;
pub use respond::Progress;
pub use websocket::{GOING_AWAY, LEFT, SocketEvent};

use accept::{Acceptance, Accepting};
use backlog::Backlog;
use batching::Batching;
use connection::Connection;
use deadline::{Deadline, Deadlines};
use filter::Filtering;
use memory::Memory;
use name::Serials;
use observing::Observing;
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_listen::{ListenSocket, Listener, Shard, listen_sockets};
use oribi_log::AccessLog;
use oribi_source::Next;
use oribi_stats::totals::{Account, Tally};
use protocol_limits::ProtocolLimits;
use run_queue::RunQueue;
use server_fields::ServerFields;
use slots::Slots;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use stream::Stream;
use taken::Taken;
use uploads::Uploads;
use websockets::Sockets;

/// The time for which an idle connection may still send a request when the server is stopping. A client that was about to send
/// its next request sends it within this time and gets an answer; closing at once would lose that request.
const IDLE_WHILE_STOPPING: Duration = Duration::from_secs(1);

/// The time that a client still gets for the head of a request when the server is stopping.
const HEAD_WHILE_STOPPING: Duration = Duration::from_secs(5);

/// The phase of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServeState {
    Serving,
    /// The engine serves, but each response is the last on a connection of a listener that has ended.
    Thinning,
    /// Each response is the last on its connection, but the engine still serves.
    Parting,
    /// The engine answers the requests of accepted connections, with `Connection: close`.
    Stopping,
}

/// Connections, deadlines and a backend.
pub struct Engine<'a, B: Backend> {
    backend: B,
    settings: &'a Settings,
    listeners: &'a [Listener],
    limits: ProtocolLimits,
    acceptance: Acceptance<'a>,
    connections: Slots<Connection<B::Socket>>,
    deadlines: Deadlines,
    /// The exchanges on connections that carry several, and their deadlines.
    streams: Slots<Stream>,
    stream_deadlines: Deadlines,
    /// Exchanges whose sockets hosts have hijacked.
    taken: Taken,
    stage: ServeState,
    /// Whether connections are passed to another engine: see [`Engine::begin_to_hand_over`].
    hands_over: bool,
    run_queue: RunQueue,
    batching: Batching,
    /// Exchanges that were handed out and whose responses are not finished.
    answering: usize,
    serials: Serials,
    memory: Memory,
    backlog: Backlog,
    uploads: Uploads<'a>,
    sockets: Sockets,
    server_fields: ServerFields<'a>,
    filtering: Filtering,
    observing: Observing,
    tally: Tally,
    /// Whether a byte was written to the watched pipe.
    woken: bool,
    /// See [`oribi_source::Source::report_client_changes`].
    reports_client_changes: bool,
    /// See [`oribi_source::Source::take_client_change`].
    client_changed: bool,
}

impl<'a, B: Backend> Engine<'a, B> {
    /// Creates an engine that accepts connections from `listeners`. `wake` is the read end of a pipe: see
    /// [`Engine::take_wake`].
    ///
    /// # Errors
    /// The operating system refuses to watch the listeners or `wake`.
    pub fn new(
        backend: B,
        settings: &'a Settings,
        listeners: &'a [Listener],
        wake: BorrowedFd<'_>,
        access_log: Option<AccessLog>,
    ) -> io::Result<Self> {
        Self::with_listen_sockets(backend, settings, listeners, listen_sockets(listeners, Shard::ONLY), wake, access_log)
    }

    /// Creates an engine that accepts connections at `listen_sockets`, which belong to `listeners`.
    ///
    /// # Errors
    /// The operating system refuses to watch the sockets or `wake`.
    pub fn with_listen_sockets(
        mut backend: B,
        settings: &'a Settings,
        listeners: &'a [Listener],
        listen_sockets: Vec<ListenSocket<'a>>,
        wake: BorrowedFd<'_>,
        access_log: Option<AccessLog>,
    ) -> io::Result<Self> {
        for (number, listening) in listen_sockets.iter().enumerate() {
            backend.listen(number, listening.as_fd())?;
        }
        backend.watch(wake)?;
        let timeouts = &settings.timeouts;
        let lasts = |kind| match kind {
            Deadline::Head => timeouts.head,
            Deadline::Content => timeouts.content,
            Deadline::Idle => timeouts.keepalive,
            Deadline::Write => timeouts.write,
            Deadline::Linger => timeouts.linger,
            Deadline::Kept => fastcgi::KEPT,
        };
        let mut server_fields = ServerFields::new(settings);
        server_fields.update(backend.now(), || backend.wall_clock());
        Ok(Self {
            limits: ProtocolLimits::of(settings),
            settings,
            listeners,
            acceptance: Acceptance::at(listen_sockets),
            connections: Slots::with_room(settings.limits.connections),
            deadlines: Deadlines::new(lasts).for_many(settings.limits.connections),
            streams: Slots::new(),
            stream_deadlines: Deadlines::new(lasts),
            taken: Taken::default(),
            stage: ServeState::Serving,
            hands_over: false,
            run_queue: RunQueue::default(),
            batching: Batching::default(),
            answering: 0,
            serials: Serials::default(),
            memory: Memory::default(),
            backlog: Backlog::new(settings),
            uploads: Uploads::new(settings),
            sockets: Sockets::new(settings),
            server_fields,
            filtering: Filtering::default(),
            observing: Observing::new(settings, access_log),
            tally: Tally::default(),
            woken: false,
            reports_client_changes: false,
            client_changed: false,
            backend,
        })
    }

    /// Waits for the next complete request. After `None`, check [`Engine::take_wake`] and [`Engine::finished`], then call
    /// again.
    ///
    /// # Errors
    /// The backend can no longer wait.
    pub fn next_exchange(&mut self) -> io::Result<Option<Exchange>> {
        loop {
            match self.next(true)? {
                Next::Exchange(exchange) => return Ok(Some(exchange)),
                Next::Command => return Ok(None),
                Next::Nothing(_) => {}
            }
        }
    }

    /// Returns the next complete request, if there is one without waiting.
    ///
    /// # Errors
    /// The backend can no longer report events.
    pub fn next_exchange_now(&mut self) -> io::Result<Next<Exchange>> {
        self.next(false)
    }

    /// Handles everything that needs no waiting, without handing out a request, and leaves new connections to other lanes.
    ///
    /// # Errors
    /// The backend can no longer report events.
    pub fn next_event_now(&mut self) -> io::Result<Next<Exchange>> {
        self.leave_line();
        let timeout = self.do_pending_work()?;
        Ok(if self.woken || self.client_changed || self.finished() { Next::Command } else { Next::Nothing(timeout) })
    }

    fn next(&mut self, patient: bool) -> io::Result<Next<Exchange>> {
        let mut looked = false;
        if self.acceptance.accepting == Accepting::Left {
            self.join_line();
        }
        loop {
            // The app takes a long time: requests of other connections are read before the last connection has its next
            // turn.
            let is_slow = self.backend.now() > self.batching.news_due;
            if is_slow {
                self.look(Some(Duration::ZERO))?;
                while self.handle_event() {}
            }
            if self.run_queue.ready.is_empty() {
                self.send_batch();
                self.receive_batch();
            }
            if let Some(place) = self.take_ready(is_slow) {
                if let Some(exchange) = self.lend(place) {
                    return Ok(Next::Exchange(exchange));
                }
            } else if self.woken || self.client_changed || self.finished() {
                return Ok(Next::Command);
            } else if self.handle_event() {
            } else if patient {
                self.wait()?;
            } else if looked && self.run_queue.turns.is_empty() {
                return Ok(Next::Nothing(self.time_left()));
            } else {
                looked = true;
                self.look(Some(Duration::ZERO))?;
            }
        }
    }

    /// Takes the events that a waiter of the backend has found.
    pub fn collect(&mut self, waiter: &mut B::Waiter) {
        self.backend.collect(waiter, &mut self.run_queue.events);
        self.note_connections_told_of();
    }

    /// Returns a waiter of the backend.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn waiter(&self) -> io::Result<B::Waiter> {
        self.backend.waiter()
    }

    /// Handles everything that needs no waiting, without handing out a request. Returns the time until something else is due;
    /// `None` if nothing is due.
    ///
    /// # Errors
    /// The backend can no longer report events.
    pub fn do_pending_work(&mut self) -> io::Result<Option<Duration>> {
        while self.handle_event() {}
        self.look(Some(Duration::ZERO))?;
        while self.handle_event() {}
        Ok(if self.run_queue.turns.is_empty() { self.time_left() } else { Some(Duration::ZERO) })
    }

    /// Sends pending output now instead of with the next wait, if the host may take a long time.
    #[inline]
    pub fn submit(&mut self) {
        if !self.batching.prompt {
            self.send_batch();
            // The host may end the process, so the counters are settled now.
            self.tally.settle();
            self.backend.submit();
            self.leave_untaken_to_others();
        }
    }

    /// Sets whether the next requests go to a host that answers and returns at once: then its answers may be sent together with
    /// later answers.
    #[inline]
    pub fn expect_prompt_answers(&mut self, prompt: bool) {
        self.batching.prompt = prompt;
    }

    /// The number of complete requests that wait to be handed out.
    #[must_use]
    pub fn waiting_requests(&self) -> usize {
        self.run_queue.ready.len()
    }

    /// Waits for events once and handles them, without handing out a request: for a lane whose app is waiting. New connections
    /// are left to other lanes.
    ///
    /// # Errors
    /// The backend can no longer wait.
    pub fn turn(&mut self) -> io::Result<()> {
        self.leave_line();
        while self.handle_event() {}
        self.wait()?;
        while self.handle_event() {}
        Ok(())
    }

    /// Whether a byte was written to the watched pipe since the last call.
    pub fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// Takes part in `counts` from now on: leaves connections to other lanes when it has more than its share.
    ///
    /// # Errors
    /// The operating system refuses to watch the doorbell.
    pub fn take_part_in(&mut self, counts: ConnectionCounts<'a>) -> io::Result<()> {
        self.acceptance.counts = Some(counts);
        self.watch_doorbell()
    }

    /// Counts in `account` from now on, `alone` or together with other lanes.
    pub fn count_in(&mut self, account: Account, alone: bool) {
        self.tally = if alone { Tally::of_only_lane(account) } else { Tally::of_one_lane(account) };
        self.memory.leftovers = leftovers::Leftovers::since(self.tally.moved());
    }

    /// Counts a request that is about to wait for a worker.
    #[inline]
    pub fn note_queued(&mut self) {
        self.tally.queued();
    }

    /// The number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The number of exchanges that were handed out and whose responses are not finished.
    #[must_use]
    pub fn answering(&self) -> usize {
        self.answering
    }

    /// Whether this engine is stopping or handing over, and has no connection left.
    #[must_use]
    pub fn finished(&self) -> bool {
        (self.stage == ServeState::Stopping || self.hands_over) && self.connections.len() == 0
    }

    /// Whether this engine is stopping.
    #[must_use]
    pub(crate) fn stops(&self) -> bool {
        self.stage == ServeState::Stopping
    }

    /// Stops accepting connections, and ends each connection after its next response, or soon if the connection is idle. When
    /// all have ended, the engine is finished. WebSockets stay, and the caller closes them. With `empty_queue`, first accepts all
    /// connections that wait in the queues of the listeners; otherwise these are left to other workers.
    pub fn stop(&mut self, empty_queue: bool) {
        if self.acceptance.accepting != Accepting::Never {
            self.stop_accepting();
            if empty_queue {
                self.accept_all();
            }
        }
        self.stage = ServeState::Stopping;
        let now = self.backend.now();
        self.deadlines.shorten(Deadline::Idle, IDLE_WHILE_STOPPING, now);
        self.deadlines.shorten(Deadline::Kept, IDLE_WHILE_STOPPING, now);
        self.deadlines.shorten(Deadline::Head, HEAD_WHILE_STOPPING, now);
        self.stream_deadlines.shorten(Deadline::Head, HEAD_WHILE_STOPPING, now);
        self.leave_clients();
    }

    /// From now on makes each HTTP response the last on its connection, so that clients connect again.
    pub fn part(&mut self) {
        if matches!(self.stage, ServeState::Serving | ServeState::Thinning) {
            self.stage = ServeState::Parting;
            self.leave_clients();
        }
    }

    /// Updates the clock before a response if the caller has not driven the engine for a while, so that deadlines and the
    /// access log use the current time. With `stopping`, each response is the last on its connection, although [`Engine::stop`]
    /// has not been called yet.
    #[inline]
    pub fn catch_up(&mut self, stopping: bool) {
        self.backend.read_clock();
        self.server_fields.update(self.backend.now(), || self.backend.wall_clock());
        if stopping {
            self.stage = ServeState::Stopping;
        }
    }

    /// Checks the invariants after a step on a connection; only in debug builds.
    #[inline]
    fn check(&self, index: u32) {
        if cfg!(debug_assertions)
            && let Some(connection) = self.connections.get(index)
        {
            connection.check();
            assert_eq!(
                connection.line.turn_asked,
                self.run_queue.turns.contains(&self.connections.token(index)),
                "a connection that has asked for a turn stands in the queue"
            );
        }
    }
}
