//! The request source of a worker behind edges, which owns no connection: it takes complete requests from the queues of its
//! pools, and answers through the memory that it shares with the edges.
//!
//! # The life of a request
//! 1. **Wait** (`rest`): an idle worker announces its sleep to the edges, and sleeps;
//! 2. **Take** (`take`): the worker takes the oldest request itself, and owns the request only from then on;
//! 3. **Lend**: the request is copied out of its slot and handed out. Content in a file is fetched (`descriptors`);
//! 4. **Answer** (`answer`): a whole response is one frame if there is room for that, and otherwise a head and a file. Parts
//!    without room wait in a `backlog`, and the app waits until the edge has read them, as for a slow client;
//! 5. **End**: the edge learns that the response is complete, and the area is free for the next exchange.
//!
//! The edge frames the response, owns all deadlines, and writes the access log.

mod answer;
mod backlog;
mod descriptors;
mod lent;
mod open;
mod postponed;
mod rest;
mod source;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use lent::Lent;
pub use postponed::most_postponed;
pub use rest::Watcher;

use crate::event_sources::{EventSources, Poller};
use lent::Received;
use open::Opened;
use oribi_config::{RequestIdField, Settings};
use oribi_pool::Worker;
use oribi_stats::scoreboard::running::{RunningApps, RunningLine};
use rest::MonotonicTime;
use std::io;
use std::sync::Arc;

/// The progress of a lane's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IntakeState {
    Serving,
    /// The lane takes requests until the edges have ended, because no other process may be left to take them.
    Emptying,
    /// The lane takes no more requests.
    Stopping,
}

/// Changes of clients that a concurrent host must see: see [`oribi_source::Source::take_client_change`].
#[derive(Clone, Copy, Debug, Default)]
struct ClientChanges {
    reported: bool,
    seen: bool,
}

impl ClientChanges {
    const fn note(&mut self, changed: bool) {
        self.seen |= changed && self.reported;
    }
}

/// The requests of a worker behind edges.
pub struct Intake<'a> {
    settings: &'a Settings,
    /// The worker's places, one in the pool of each edge.
    pools: Vec<Worker>,
    /// The index of the pool that is asked first for the next request.
    turn: usize,
    poller: Arc<Poller>,
    opened: Opened,
    stage: IntakeState,
    /// Whether the lane has a single thread, which itself waits for events.
    alone: bool,
    /// Whether no thread can answer another request now, so that other workers should take the next ones.
    left: bool,
    /// Whether there was an event of a source other than the pools.
    woken: bool,
    /// The time to check for such events even while requests keep arriving, on the clock of [`rest`].
    news_due: MonotonicTime,
    /// The time at which the lane last asked for a request.
    now: MonotonicTime,
    /// The time before which the log does not report again that too many answers are postponed.
    full_said_until: MonotonicTime,
    client_changes: ClientChanges,
    #[expect(clippy::vec_box, reason = "a box goes out with a request and comes back")]
    spare: Vec<Box<Received>>,
    /// The buffer in which heads are encoded.
    head: Vec<u8>,
    /// The apps that continue to run after their answers, if apps have deadlines. The edge sees nothing of them, so the
    /// supervisor watches their deadlines, for instance while a body is closed.
    running: Option<RunningApps>,
}

impl<'a> Intake<'a> {
    /// Creates the source for these pools, and adds them to `event_sources`.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(crate) fn new(settings: &'a Settings, pools: Vec<Worker>, event_sources: &EventSources) -> io::Result<Self> {
        for pool in &pools {
            event_sources.listen_to_pool(pool.descriptor(), pool.line())?;
        }
        Ok(Self {
            settings,
            pools,
            turn: 0,
            poller: event_sources.poller(),
            opened: Opened::default(),
            stage: IntakeState::Serving,
            alone: false,
            left: false,
            woken: false,
            news_due: MonotonicTime::default(),
            now: MonotonicTime::default(),
            full_said_until: MonotonicTime::default(),
            client_changes: ClientChanges::default(),
            spare: Vec::new(),
            head: Vec::new(),
            running: None,
        })
    }

    /// Reports on these lines, to the supervisor, the apps that continue to run after they have answered.
    pub(crate) fn watched(self, lines: &'static [RunningLine], ids: Option<&RequestIdField>) -> Self {
        Self { running: RunningApps::on(lines, ids), ..self }
    }

    /// Takes no more requests. With `empty_queue`, first takes requests until the edges have ended.
    fn stop(&mut self, empty_queue: bool) {
        if self.stage == IntakeState::Serving {
            self.stage = if empty_queue { IntakeState::Emptying } else { IntakeState::Stopping };
        }
    }

    /// Whether all requests taken have been answered, and no more will be taken.
    fn finished(&self) -> bool {
        self.stage == IntakeState::Stopping && self.opened.is_empty()
    }
}
