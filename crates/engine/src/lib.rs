//! The engine: connections, their deadlines and one backend, owned by one lane.
//!
//! # The life of a request
//! 1. **Wait** (`wait`): the backend reports a readable socket;
//! 2. **Receive** (`receive`): the engine receives its bytes into a pooled buffer;
//! 3. **Parse** (`parse`): the connection's machine reads a head, pieces of content, the end; content is kept in the buffer, in
//!    memory or in a file (`content`);
//! 4. **Lend** (`lend`): [`Engine::next_exchange`] hands out the complete [`Exchange`]. From then on **the engine is not
//!    borrowed** and others may drive it;
//! 5. **Answer** (`respond`): the lane's host answers; the protocol frames the response (`response`, `framing`), and the engine
//!    sends it, or queues it behind output that already waits (`send`, `output`);
//! 6. **Settle** (`settle`): [`Engine::give_back`] takes the buffers back; the connection waits for its next request, or ends.
//!
//! A `connection` is in one of seven states, and each state owns the data that has a meaning in it; `carrying` handles
//! connections that carry several requests at once. The engine knows machines, never a language, and makes no system calls
//! except those of the backend.
#![forbid(unsafe_code)]

mod accept;
mod access;
mod answer;
mod backlog;
mod body;
mod bounds;
mod carrier;
mod carrying;
mod connection;
mod content;
mod content_bounds;
mod deadline;
mod driven;
mod exchange;
mod fastcgi;
mod forwarded;
mod framing;
mod greeting;
mod handover;
mod heed;
mod http2;
mod input;
mod laps;
mod leftovers;
mod lend;
mod limits;
mod misdirected;
mod moment;
mod name;
mod output;
mod parse;
mod receive;
mod remote;
mod request_id;
mod respond;
mod response;
mod route;
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
mod timing;
mod trace;
mod trailers;
mod unique;
mod uploads;
mod variables;
mod wait;

pub use accept::Census;
use accept::{EarlyReceive, Line};
pub use bounds::Sum;
pub use content_bounds::CountedFile;
pub use exchange::Exchange;
use exchange::Received;
pub use laps::Wait;
pub use respond::Progress;

use answer::{Draft, Lost};
use backlog::Backlog;
use connection::Connection;
use deadline::{Deadline, Deadlines};
use leftovers::Leftovers;
use name::{Place, Serials};
use oribi_config::{Settings, Timeouts};
use oribi_io::{Backend, Event, Token};
use oribi_listen::{Door, Listener, Seat, doors};
use oribi_log::{AccessLog, SlowLog};
use oribi_proto::{fcgi, h1, h2};
use oribi_source::Next;
use oribi_stats::totals::{Account, Tally};
use route::Routes;
use send::Gap;
use server_fields::ServerFields;
use slots::Slots;
use spans::Spans;
use states::Shown;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use stream::Stream;
use taken::Taken;
use trace::Traces;
use uploads::Uploads;
use variables::Variables;

/// The time for which an idle connection may still send a request when the server is stopping. A client that was about to
/// send its next request does so within this time and is answered; closing at once would lose that request.
const IDLE_WHILE_STOPPING: Duration = Duration::from_secs(1);

/// The time that a client still gets for the head of a request when the server is stopping.
const HEAD_WHILE_STOPPING: Duration = Duration::from_secs(5);

/// The phase of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Serving, but each response is the last on its connection.
    Parting,
    /// Answers the requests of accepted connections, with `Connection: close`.
    Stopping,
}

/// Connections, deadlines and a backend.
pub struct Engine<'a, B: Backend> {
    backend: B,
    settings: &'a Settings,
    listeners: &'a [Listener],
    /// The sockets from which this lane accepts.
    doors: Vec<Door<'a>>,
    /// The counts of open connections.
    census: Option<Census<'a>>,
    limits: h1::Limits,
    record_limits: fcgi::Limits,
    frame_limits: h2::Limits,
    connections: Slots<Connection<B::Socket>>,
    deadlines: Deadlines,
    /// The exchanges on connections of web servers, and their deadlines.
    streams: Slots<Stream>,
    stream_deadlines: Deadlines,
    #[expect(clippy::vec_box, reason = "a box goes out with an exchange and comes back")]
    spare_variables: Vec<Box<Variables>>,
    #[expect(clippy::vec_box, reason = "a box goes out and comes back")]
    spare_requests: Vec<Box<Received>>,
    /// Exchanges whose sockets hosts have hijacked.
    taken: Taken,
    stage: Stage,
    /// Connections are passed to another engine: see [`Engine::begin_to_hand_over`].
    hands_over: bool,
    accepting: Accepting,
    line: Line,
    early_receive: EarlyReceive,
    /// The host answers at once: see [`oribi_host::Host::is_prompt`].
    prompt: bool,
    /// Whether requests for a prompt host are received, answered and sent in batches: see [`Engine::answer_in_batches`].
    batches: bool,
    /// Several responses are at hand: see [`Engine::gather_answers`].
    gathers: bool,
    /// The events of the last wait; those before `handled` have been handled.
    events: Vec<Event>,
    handled: usize,
    /// Complete requests.
    ready: VecDeque<Place>,
    /// The connection of the latest of them that was lent, if that connection carries others, too.
    lent_last: Option<u32>,
    /// Connections whose responses are sent together, after all ready requests have been answered.
    batch: Vec<Token>,
    /// Connections that need a turn without an event: more input, or the next part of a file.
    turns: VecDeque<Token>,
    /// The number of them that get a turn before the backend is asked for events again. Connections that asked during this
    /// round come after the connections with events.
    turns_due: usize,
    /// The time at which a batch is interrupted to ask for events.
    news_due: Duration,
    /// Exchanges that were handed out and whose responses are not finished.
    answering: usize,
    serials: Serials,
    pool: input::Pool,
    outputs: output::Pool,
    backlog: Backlog,
    /// The places of content in the response that is being framed.
    gaps: Vec<Gap>,
    /// The layout for the next head.
    blank: Box<Received>,
    /// The text of the next head that does not arrive as text.
    head_text: Vec<u8>,
    /// Buffer for receiving content that goes to a file.
    spool: Vec<u8>,
    /// Memory of the last content, for the next one.
    spare_content: Vec<u8>,
    uploads: Uploads<'a>,
    leftovers: Leftovers,
    server_fields: ServerFields<'a>,
    /// `None`: requests are not part of traces.
    traces: Option<Traces>,
    /// `None`: no spans are exported.
    spans: Option<Spans>,
    /// A request with a span was handed out: the end of its app's work is measured.
    measures_one: bool,
    /// `None`: requests are not counted by routes.
    routes: Option<Routes>,
    tally: Tally,
    shown: Shown,
    /// The durations of the parts of requests are measured.
    measures: bool,
    access_log: Option<AccessLog>,
    /// `None`: slow requests are not logged.
    slow_log: Option<SlowLog>,
    #[expect(clippy::vec_box, reason = "a box waits with its request and comes back")]
    spare_drafts: Vec<Box<Draft>>,
    /// The time of the last log line about contradicting fields.
    contradiction_told: Option<Duration>,
    /// Something was written to the watched pipe.
    woken: bool,
    /// The exchanges that were given back and whose clients have gone before they were answered; `None`: this process is no
    /// edge.
    lost: Option<Vec<Lost>>,
}

/// Whether connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    Yes,
    /// No descriptor or connection is free: wait until this time, or until a connection closes.
    Paused(Duration),
    /// This lane cannot answer now, but others that share the listeners might: wait until this lane asks for a request again.
    Left,
    /// Other lanes come first until this time.
    Aside(Duration),
    Never,
}

impl<'a, B: Backend> Engine<'a, B> {
    /// Creates an engine that accepts connections from `listeners`. `wake` is the read end of a pipe: see
    /// [`Engine::take_wake`].
    ///
    /// # Errors
    /// The system refuses to watch the listeners.
    pub fn new(
        backend: B,
        settings: &'a Settings,
        listeners: &'a [Listener],
        wake: BorrowedFd<'_>,
        access_log: Option<AccessLog>,
    ) -> io::Result<Self> {
        Self::with_doors(backend, settings, listeners, doors(listeners, Seat::ONLY), wake, access_log)
    }

    /// Creates an engine that accepts connections at `doors`, which belong to `listeners`.
    ///
    /// # Errors
    /// The same as for [`Engine::new`].
    pub fn with_doors(
        mut backend: B,
        settings: &'a Settings,
        listeners: &'a [Listener],
        doors: Vec<Door<'a>>,
        wake: BorrowedFd<'_>,
        access_log: Option<AccessLog>,
    ) -> io::Result<Self> {
        for (number, door) in doors.iter().enumerate() {
            backend.listen(number, door.socket)?;
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
        let spans = Spans::new(settings);
        let mut server_fields = ServerFields::new(settings);
        server_fields.update(backend.now(), || backend.wall_clock());
        Ok(Self {
            limits: limits(settings),
            record_limits: fastcgi::limits(settings),
            frame_limits: http2::limits(settings),
            settings,
            listeners,
            doors,
            census: None,
            connections: Slots::with_room(settings.limits.connections),
            deadlines: Deadlines::new(lasts).for_many(settings.limits.connections),
            streams: Slots::new(),
            stream_deadlines: Deadlines::new(lasts),
            spare_variables: Vec::new(),
            spare_requests: Vec::new(),
            taken: Taken::default(),
            stage: Stage::Serving,
            hands_over: false,
            accepting: Accepting::Yes,
            line: Line::default(),
            early_receive: EarlyReceive::default(),
            prompt: false,
            batches: false,
            gathers: false,
            events: Vec::new(),
            handled: 0,
            ready: VecDeque::new(),
            lent_last: None,
            batch: Vec::new(),
            turns: VecDeque::new(),
            turns_due: 0,
            news_due: Duration::ZERO,
            answering: 0,
            serials: Serials::default(),
            pool: input::Pool::default(),
            outputs: output::Pool::default(),
            backlog: Backlog::new(settings),
            gaps: Vec::new(),
            blank: Box::default(),
            head_text: Vec::new(),
            spool: Vec::new(),
            spare_content: Vec::new(),
            uploads: Uploads::new(settings),
            leftovers: Leftovers::default(),
            server_fields,
            traces: settings.traces.then(|| Traces::new(settings.trace_sample).keeping_callers(spans.is_some())),
            routes: Routes::new(settings),
            tally: Tally::default(),
            shown: Shown::default(),
            measures: access_log.is_some() || settings.tells_metrics() || settings.slow < Timeouts::NEVER,
            spans,
            measures_one: false,
            access_log,
            slow_log: SlowLog::new(settings.slow),
            spare_drafts: Vec::new(),
            contradiction_told: None,
            woken: false,
            lost: None,
            backend,
        })
    }

    /// Waits for the next complete request. `None`: check [`Engine::take_wake`] and [`Engine::finished`], then call again.
    ///
    /// # Errors
    /// The backend cannot wait any more.
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
    /// The backend cannot report events any more.
    pub fn next_exchange_now(&mut self) -> io::Result<Next<Exchange>> {
        self.next(false)
    }

    fn next(&mut self, patient: bool) -> io::Result<Next<Exchange>> {
        let mut looked = false;
        if self.accepting == Accepting::Left {
            self.join_line();
        }
        loop {
            // The app takes long: requests of other connections are read before the last connection has its next turn.
            let is_slow = self.backend.now() > self.news_due;
            if is_slow {
                self.look(Some(Duration::ZERO))?;
                while self.handle_event() {}
            }
            if self.ready.is_empty() {
                self.send_batch();
                self.receive_batch();
            }
            if let Some(place) = self.take_ready(is_slow) {
                if let Some(exchange) = self.lend(place) {
                    return Ok(Next::Exchange(exchange));
                }
            } else if self.woken || self.finished() {
                return Ok(Next::Command);
            } else if self.handle_event() {
            } else if patient {
                self.wait()?;
            } else if looked && self.turns.is_empty() {
                return Ok(Next::Nothing(self.time_left()));
            } else {
                looked = true;
                self.look(Some(Duration::ZERO))?;
            }
        }
    }

    /// Takes the events that a waiter of the backend has found.
    pub fn collect(&mut self, waiter: &mut B::Waiter) {
        self.backend.collect(waiter, &mut self.events);
        self.note_connections_told_of();
    }

    /// Returns a waiter of the backend.
    ///
    /// # Errors
    /// An error of the system.
    pub fn waiter(&self) -> io::Result<B::Waiter> {
        self.backend.waiter()
    }

    /// Handles everything that needs no waiting, without handing out a request; returns the time until something else is due.
    ///
    /// # Errors
    /// The backend cannot report events any more.
    pub fn attend(&mut self) -> io::Result<Option<Duration>> {
        while self.handle_event() {}
        self.look(Some(Duration::ZERO))?;
        while self.handle_event() {}
        Ok(if self.turns.is_empty() { self.time_left() } else { Some(Duration::ZERO) })
    }

    /// Sends pending output now instead of with the next wait, if the host may take long.
    #[inline]
    pub fn submit(&mut self) {
        if !self.prompt {
            self.send_batch();
            // The host may end the process.
            self.tally.settle();
            self.backend.submit();
            self.leave_untaken_to_others();
        }
    }

    /// Sets whether the next requests go to a host that answers and returns at once: then its answers may be sent together
    /// with later ones.
    #[inline]
    pub fn expect_prompt_answers(&mut self, prompt: bool) {
        self.prompt = prompt;
    }

    /// The number of complete requests that wait to be handed out.
    #[must_use]
    pub fn waiting_requests(&self) -> usize {
        self.ready.len()
    }

    /// Serves connections without handing out a request: for a lane whose app is waiting.
    ///
    /// # Errors
    /// The backend cannot wait any more.
    pub fn turn(&mut self) -> io::Result<()> {
        self.leave_line();
        while self.handle_event() {}
        self.wait()?;
        while self.handle_event() {}
        Ok(())
    }

    /// Whether something was written to the watched pipe since the last call.
    pub fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// Takes part in `census` from now on: leaves connections to others when it has more than its share.
    ///
    /// # Errors
    /// The system refuses to watch the bell.
    pub fn take_part_in(&mut self, census: Census<'a>) -> io::Result<()> {
        self.census = Some(census);
        self.watch_bell()
    }

    /// Counts in `account` from now on, `alone` or together with other lanes.
    pub fn count_in(&mut self, account: Account, alone: bool) {
        self.tally = if alone { Tally::alone(account) } else { Tally::one_of_many(account) };
        self.leftovers = Leftovers::since(self.tally.moved());
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

    /// Whether this engine was told to stop, or to hand over, and has no connection left.
    #[must_use]
    pub fn finished(&self) -> bool {
        (self.stage == Stage::Stopping || self.hands_over) && self.connections.len() == 0
    }

    /// Whether this engine was told to stop.
    #[must_use]
    pub(crate) fn stops(&self) -> bool {
        self.stage == Stage::Stopping
    }

    /// Stops accepting connections, takes only requests that clients have begun, and is then finished. With `empty_queue`,
    /// first accepts all connections that wait in the queues of the listeners; otherwise these are left to other workers.
    pub fn stop(&mut self, empty_queue: bool) {
        if self.accepting != Accepting::Never {
            self.stop_accepting();
            if empty_queue {
                self.accept_all();
            }
        }
        self.stage = Stage::Stopping;
        let now = self.backend.now();
        self.deadlines.shorten(Deadline::Idle, IDLE_WHILE_STOPPING, now);
        self.deadlines.shorten(Deadline::Kept, IDLE_WHILE_STOPPING, now);
        self.deadlines.shorten(Deadline::Head, HEAD_WHILE_STOPPING, now);
        self.stream_deadlines.shorten(Deadline::Head, HEAD_WHILE_STOPPING, now);
        self.leave_clients();
    }

    /// From now on makes each HTTP response the last on its connection, so that clients connect anew.
    pub fn part(&mut self) {
        if self.stage == Stage::Serving {
            self.stage = Stage::Parting;
            self.leave_clients();
        }
    }

    /// Updates the clock before a response of a caller that has kept the engine waiting: deadlines and the access log count
    /// from now on. With `stopping`, each response is the last on its connection, although [`Engine::stop`] has not been
    /// called yet.
    #[inline]
    pub fn catch_up(&mut self, stopping: bool) {
        self.backend.read_clock();
        self.server_fields.update(self.backend.now(), || self.backend.wall_clock());
        if stopping {
            self.stage = Stage::Stopping;
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
                self.turns.contains(&self.connections.token(index)),
                "a connection that has asked for a turn stands in the queue"
            );
        }
    }
}

fn limits(settings: &Settings) -> h1::Limits {
    h1::Limits {
        head_bytes: settings.limits.head_bytes,
        fields: settings.limits.fields,
        target_bytes: settings.limits.target_bytes,
        strict_target: settings.strict_uri,
        content_bytes: settings.limits.content_bytes,
        ..h1::Limits::default()
    }
}
