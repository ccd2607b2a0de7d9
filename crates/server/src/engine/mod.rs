//! The engine: connections, their deadlines and one backend, owned by one lane.
//!
//! # The life of a request
//! 1. **Wait** (`wait`): the backend reports a readable socket;
//! 2. **Receive** (`receive`): its bytes come into a pooled buffer;
//! 3. **Parse** (`parse`): the connection's machine reads a head, pieces of content, the end; content is kept in the buffer, in
//!    memory or in a file (`content`);
//! 4. **Lend** (`lend`): [`Engine::next_exchange`] hands the complete [`Exchange`] out. From here on **the engine is not borrowed**
//!    and may be driven by others;
//! 5. **Answer** (`respond`): the lane's host answers; the protocol frames the response (`framing`), and it is sent, or queued
//!    behind what waits already (`send`, `output`);
//! 6. **Settle** (`settle`): [`Engine::give_back`] returns the buffers; the connection waits for its next request, or ends.
//!
//! A `connection` is in one of six states, each of which owns what is meaningful in it; `fastcgi` has those that carry several
//! requests at once. The engine knows machines, never a language, and no system call but the backend's.

mod accept;
mod access;
mod answer;
mod body;
mod carrier;
mod connection;
mod content;
mod deadline;
mod exchange;
mod fastcgi;
mod framing;
mod input;
mod lend;
mod moment;
mod name;
mod output;
mod parse;
mod receive;
mod remote;
mod respond;
mod send;
mod settle;
mod slots;
mod stamp;
mod stream;
mod taken;
mod variables;
mod wait;

pub use accept::Census;
use accept::{Haste, Line};
pub use exchange::Exchange;
use exchange::Received;

use crate::config::Settings;
use crate::listen::{Door, Listener, Seat, doors};
use crate::log::AccessLog;
use connection::Connection;
use deadline::{Deadline, Deadlines};
use name::{Place, Serials};
use oribi_io::{Backend, Event, Token};
use oribi_proto::{fcgi, h1};
use send::Gap;
use slots::Slots;
use stamp::Stamp;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use stream::Stream;
use variables::Variables;

/// How long an idle connection may still ask for something once the server is stopping. A client that was about to send its
/// next request does so within this time and is answered; closing at once would lose that request.
const IDLE_WHILE_STOPPING: Duration = Duration::from_secs(1);

/// How long a client may still take for the head of a request once the server is stopping.
const HEAD_WHILE_STOPPING: Duration = Duration::from_secs(5);

/// What an engine does with new connections and with those that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Answers what has been accepted, with `Connection: close`.
    Stopping,
}

/// Connections, deadlines and a backend.
pub struct Engine<'a, B: Backend> {
    backend: B,
    settings: &'a Settings,
    listeners: &'a [Listener],
    /// Where this lane takes connections.
    doors: Vec<Door<'a>>,
    /// Where open connections are counted.
    census: Option<Census<'a>>,
    limits: h1::Limits,
    record_limits: fcgi::Limits,
    connections: Slots<Connection<B::Socket>>,
    deadlines: Deadlines,
    /// The exchanges that connections of web servers carry, and their deadlines.
    streams: Slots<Stream>,
    stream_deadlines: Deadlines,
    #[expect(clippy::vec_box, reason = "a box goes out with an exchange and comes back")]
    spare_variables: Vec<Box<Variables>>,
    #[expect(clippy::vec_box, reason = "a box goes out and comes back")]
    spare_requests: Vec<Box<Received>>,
    stage: Stage,
    accepting: Accepting,
    line: Line,
    haste: Haste,
    /// The host answers at once: see [`oribi_host::Host::is_prompt`].
    prompt: bool,
    /// Requests of a prompt host are received, answered and sent in batches: see [`Engine::answer_in_batches`].
    batches: bool,
    /// What the last wait reported, handled up to `handled`.
    events: Vec<Event>,
    handled: usize,
    /// Requests that are complete.
    ready: VecDeque<Place>,
    /// Connections whose responses leave together, once all that is ready has been answered.
    batch: Vec<Token>,
    /// Connections that want a turn without an event: more input, or the next part of a file.
    turns: VecDeque<Token>,
    /// How many of them may be taken before the backend is asked for news again: those that asked for more during this round
    /// come behind the connections that have news.
    turns_due: usize,
    /// When a batch is interrupted for news.
    news_due: Duration,
    /// Exchanges handed out whose responses are not finished.
    answering: usize,
    serials: Serials,
    pool: input::Pool,
    outputs: output::Pool,
    /// Where content belongs in the response that is being framed.
    gaps: Vec<Gap>,
    /// Where the next head is laid out.
    blank: Box<Received>,
    /// Where content on its way to a file is received.
    spool: Vec<u8>,
    /// Memory of the last content, for the next.
    spare_content: Vec<u8>,
    stamp: Stamp,
    access_log: Option<AccessLog>,
    /// Something was written to the watched pipe.
    woken: bool,
}

/// Whether connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    Yes,
    /// Descriptors or connections have run out: not before this time, or until a connection closes.
    Paused(Duration),
    /// Nobody here could answer now, but others who share the listeners might: not before this lane asks for a request again.
    Left,
    /// Other lanes come first, until this time.
    Aside(Duration),
    Never,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// A complete request.
    Exchange(Exchange),
    /// See to [`Engine::take_wake`] and [`Engine::finished`].
    Command,
    /// Nothing for so long, unless the backend has news.
    Nothing(Option<Duration>),
}

impl<'a, B: Backend> Engine<'a, B> {
    /// An engine that takes connections from `listeners`. `wake` is the reading end of a pipe: see [`Engine::take_wake`].
    ///
    /// # Errors
    /// The system's refusal to watch the listeners.
    pub fn new(
        backend: B,
        settings: &'a Settings,
        listeners: &'a [Listener],
        wake: BorrowedFd<'_>,
        access_log: Option<AccessLog>,
    ) -> io::Result<Self> {
        Self::with_doors(backend, settings, listeners, doors(listeners, Seat::ONLY), wake, access_log)
    }

    /// An engine that takes connections at `doors`, which belong to `listeners`.
    ///
    /// # Errors
    /// As [`Engine::new`].
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
        let mut stamp = Stamp::new(settings);
        stamp.update(backend.now(), || backend.wall_clock());
        Ok(Self {
            limits: limits(settings),
            record_limits: record_limits(settings),
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
            stage: Stage::Serving,
            accepting: Accepting::Yes,
            line: Line::default(),
            haste: Haste::default(),
            prompt: false,
            batches: false,
            events: Vec::new(),
            handled: 0,
            ready: VecDeque::new(),
            batch: Vec::new(),
            turns: VecDeque::new(),
            turns_due: 0,
            news_due: Duration::ZERO,
            answering: 0,
            serials: Serials::default(),
            pool: input::Pool::default(),
            outputs: output::Pool::default(),
            gaps: Vec::new(),
            blank: Box::default(),
            spool: Vec::new(),
            spare_content: Vec::new(),
            stamp,
            access_log,
            woken: false,
            backend,
        })
    }

    /// The next complete request. `None`: see to [`Engine::take_wake`] and [`Engine::finished`], then call again.
    ///
    /// # Errors
    /// The backend can wait no more.
    pub fn next_exchange(&mut self) -> io::Result<Option<Exchange>> {
        loop {
            match self.next(true)? {
                Next::Exchange(exchange) => return Ok(Some(exchange)),
                Next::Command => return Ok(None),
                Next::Nothing(_) => {}
            }
        }
    }

    /// The next complete request, if there is one without waiting for it.
    ///
    /// # Errors
    /// The backend cannot be asked any more.
    pub fn next_exchange_now(&mut self) -> io::Result<Next> {
        self.next(false)
    }

    fn next(&mut self, patient: bool) -> io::Result<Next> {
        let mut looked = false;
        if self.accepting == Accepting::Left {
            self.join_line();
        }
        loop {
            if self.backend.now() > self.news_due {
                self.look(Some(Duration::ZERO))?;
            }
            if self.ready.is_empty() {
                self.send_batch();
                self.receive_batch();
            }
            if let Some(place) = self.ready.pop_front() {
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

    /// Takes over what a waiter of the backend has found.
    pub fn collect(&mut self, waiter: &mut B::Waiter) {
        self.backend.collect(waiter, &mut self.events);
    }

    /// A waiter of the backend.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn waiter(&self) -> io::Result<B::Waiter> {
        self.backend.waiter()
    }

    /// Does what there is to do without waiting and without handing out a request; tells how long nothing else is due.
    ///
    /// # Errors
    /// The backend cannot be asked any more.
    pub fn attend(&mut self) -> io::Result<Option<Duration>> {
        while self.handle_event() {}
        self.look(Some(Duration::ZERO))?;
        while self.handle_event() {}
        Ok(if self.turns.is_empty() { self.time_left() } else { Some(Duration::ZERO) })
    }

    /// Whether there is something to do without waiting.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty() || self.woken || self.handled < self.events.len() || !self.turns.is_empty()
    }

    /// When something is due even if there is no news, on the backend's clock.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        let resume = self.due_at_doors();
        self.next_deadline().into_iter().chain(resume).min()
    }

    /// Has what was sent leave now, not with the next wait, if the host may take its time.
    #[inline]
    pub fn submit(&mut self) {
        if !self.prompt {
            self.send_batch();
            self.backend.submit();
            self.tell_others();
        }
    }

    /// Whether the host that will be given the next requests answers at once, and returns at once: then what it answers may wait
    /// for what follows it.
    #[inline]
    pub fn expect_prompt_answers(&mut self, prompt: bool) {
        self.prompt = prompt;
    }

    /// Complete requests that wait to be handed out.
    #[must_use]
    pub fn waiting_requests(&self) -> usize {
        self.ready.len()
    }

    /// Does what there is to do for connections without handing out a request: for a lane whose app is waiting.
    ///
    /// # Errors
    /// The backend can wait no more.
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

    /// Bytes of a response that may wait for a slow client before its app is held.
    #[must_use]
    pub fn output_limit(&self) -> usize {
        self.settings.limits.output_bytes
    }

    /// From now on takes part in `census`, and leaves connections to others when it has more than its share.
    ///
    /// # Errors
    /// The system's refusal to watch the bell.
    pub fn take_part_in(&mut self, census: Census<'a>) -> io::Result<()> {
        self.census = Some(census);
        self.hear_the_bell()
    }

    /// Connections open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Exchanges handed out whose response is not finished.
    #[must_use]
    pub fn answering(&self) -> usize {
        self.answering
    }

    /// Whether this engine was told to stop and has answered everything.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.stage == Stage::Stopping && self.connections.len() == 0
    }

    /// Whether this engine was told to stop.
    #[must_use]
    pub(crate) fn stops(&self) -> bool {
        self.stage == Stage::Stopping
    }

    /// Takes no more connections, asks for no more requests than clients have begun, and is then finished. With
    /// `empty_queue`, first accepts all that wait in the queues of the listeners; without, those are left to other workers.
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
    }

    /// Called before a response by who has kept the engine waiting for it: deadlines and the access log count from now, not
    /// from before. With `stopping`, responses are the last of their connections although [`Engine::stop`] is yet to come.
    #[inline]
    pub fn catch_up(&mut self, stopping: bool) {
        self.backend.read_clock();
        self.stamp.update(self.backend.now(), || self.backend.wall_clock());
        if stopping {
            self.stage = Stage::Stopping;
        }
    }

    /// What must hold whenever a step is done that concerned a connection; in debug builds only.
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

fn record_limits(settings: &Settings) -> fcgi::Limits {
    let (limits, defaults) = (&settings.limits, fcgi::Limits::default());
    fcgi::Limits {
        connections: u32::try_from(limits.connections).unwrap_or(u32::MAX),
        requests: u16::try_from(limits.fastcgi_requests).unwrap_or(u16::MAX),
        // As much again for what the web server adds to what the client has sent.
        params_bytes: limits.head_bytes * 2,
        pairs: limits.fields + defaults.pairs,
        target_bytes: limits.target_bytes,
        strict_target: settings.strict_uri,
        content_bytes: limits.content_bytes,
    }
}
