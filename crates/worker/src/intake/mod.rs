//! The requests of a worker behind an edge, which owns no connection: it takes complete requests from the queues of its pools,
//! and answers through the memory that it shares with the edges.
//!
//! # The life of a request
//! 1. **Wait** (`rest`): a worker that has nothing to do announces this to the edges and sleeps;
//! 2. **Take** (`take`): it takes the oldest request itself, and only now does the request belong to anybody;
//! 3. **Lend**: the request is copied out of its slot and handed out. Content in a file is asked for (`descriptors`);
//! 4. **Answer** (`answer`): a whole response is one frame if there is room for that, and otherwise a head and a file. What a
//!    stream has no room for waits in a `backlog`, and the app waits until the edge has read it, as it waits for a slow client;
//! 5. **End**: the edge learns that the response is complete, and the area can hold the next one.
//!
//! The edge frames the response, owns all deadlines, and writes the access log.

mod answer;
mod backlog;
mod descriptors;
mod lent;
mod open;
mod put_off;
mod rest;
mod source;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use lent::Lent;
pub use put_off::most_put_off;
pub use rest::Watcher;

use crate::attention::{Attention, Sources};
use lent::Received;
use open::Opened;
use oribi_config::{RequestIdField, Settings};
use oribi_pool::Worker;
use oribi_stats::scoreboard::running::{RunningApps, RunningLine};
use rest::Moment;
use std::io;
use std::sync::Arc;

/// How far a lane has come with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Takes what comes until the edges have ended, because nobody else may be left to take it.
    Emptying,
    /// Takes nothing more.
    Stopping,
}

/// The requests of a worker behind edges.
pub struct Intake<'a> {
    settings: &'a Settings,
    /// The worker's places, one in the pool of each edge.
    pools: Vec<Worker>,
    /// The pool to ask first for the next request: each in turn.
    turn: usize,
    sources: Arc<Sources>,
    opened: Opened,
    stage: Stage,
    /// Whether one thread has the lane, and waits itself.
    alone: bool,
    /// No thread can answer another request now, so other workers should take what comes.
    left: bool,
    /// There was news for the lane, not for its apps' clients.
    woken: bool,
    /// When to ask for such news although there is always a next request, on the clock of [`rest`].
    news_due: Moment,
    /// What time it was when the lane last asked for a request.
    now: Moment,
    /// Until when the log does not say again that too many answers are put off.
    full_said_until: Moment,
    #[expect(clippy::vec_box, reason = "a box goes out with a request and comes back")]
    spare: Vec<Box<Received>>,
    /// Where heads are written first.
    head: Vec<u8>,
    /// What the supervisor watches from the answer of an app on, which is the last that the edge sees of it: a body that is
    /// closed, for instance. `None`: apps have no deadlines.
    running: Option<RunningApps>,
}

impl<'a> Intake<'a> {
    /// The requests of these pools, to whose news `attention` listens from now on.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn new(settings: &'a Settings, pools: Vec<Worker>, attention: &Attention) -> io::Result<Self> {
        for pool in &pools {
            attention.listen_to_pool(pool.descriptor(), pool.line())?;
        }
        Ok(Self {
            settings,
            pools,
            turn: 0,
            sources: attention.sources(),
            opened: Opened::default(),
            stage: Stage::Serving,
            alone: false,
            left: false,
            woken: false,
            news_due: Moment::default(),
            now: Moment::default(),
            full_said_until: Moment::default(),
            spare: Vec::new(),
            head: Vec::new(),
            running: None,
        })
    }

    /// Shows the supervisor on these lines which apps go on after they have answered.
    pub(crate) fn watched(self, lines: &'static [RunningLine], ids: Option<&RequestIdField>) -> Self {
        Self { running: RunningApps::on(lines, ids), ..self }
    }

    /// Takes nothing more. With `empty_queue`, first takes what comes until the edges have ended.
    fn stop(&mut self, empty_queue: bool) {
        if self.stage == Stage::Serving {
            self.stage = if empty_queue { Stage::Emptying } else { Stage::Stopping };
        }
    }

    /// Whether everything is answered that was taken, and nothing more will be taken.
    fn finished(&self) -> bool {
        self.stage == Stage::Stopping && self.opened.is_empty()
    }
}
