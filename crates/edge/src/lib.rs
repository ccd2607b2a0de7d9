//! The event loop of an edge, which owns client connections and runs no app.
//!
//! An edge is a [lane](oribi_worker::lane) without a host. Each complete request from its engine is either answered at once,
//! by a probe (`probe`) or a file, or put into a slot of the pool (`queue`, `shares`). In both cases the engine gets the
//! exchange back. Workers take requests from the slots, and `answers` passes their output to the engine, which sends it. The
//! table (`table`) maps slots to exchanges.
//!
//! One iteration handles the events of the engine and of the pool, wakes workers once, and then waits in the backend for
//! clients, workers and commands together. Time-dependent work is in `timers`: requests that have waited too long (`queue`),
//! apps that take too long (`deadlines`), workers that have died (`workers`), requests that died with them (`failures`).
#![forbid(unsafe_code)]

mod answers;
mod deadlines;
mod failures;
mod handover;
mod nap;
pub mod parent_link;
mod probe;
mod queue;
pub mod sandbox;
mod setup;
mod shares;
mod table;
#[cfg(test)]
mod tests;
mod timers;
mod workers;
mod yielding;

pub use setup::shape;

use crate::parent_link::{EdgeSetup, ParentLink};
use deadlines::Deadlines;
use handover::HandoverPeers;
use oribi_config::Settings;
use oribi_engine::Engine;
use oribi_io::{Backend, BackendVisitor, DoorbellWait, KernelBackend, Restricted};
use oribi_ipc::slot::Heads;
use oribi_listen::Listener;
use oribi_pool::{DOZE, Rest, Ticket};
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
use oribi_worker::lane::{Lane, LaneSetup};
use queue::Queue;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use table::Table;
use timers::Timers;
use workers::Workers;
use yielding::Yielding;

/// The number of checks of the pool in a row before the backend is asked for events. More would delay clients whose requests
/// have arrived; fewer would cost a system call for every few answers.
const LOOKS_AT_POOL: usize = 4;

/// Serves until the edge has been commanded to end, and has answered everything that it has accepted.
///
/// # Errors
/// The operating system refuses a call without which the edge cannot serve.
pub fn run(setup: &EdgeSetup<'_>) -> io::Result<()> {
    let pool = if setup.takes_over { oribi_pool::Edge::take_over(setup.memory) } else { oribi_pool::Edge::new(setup.memory) }?;
    let settings = setup::settings_of_edge(setup.lane.settings, &pool);
    let restricted = if setup.sandbox.is_some() { Restricted::Yes } else { Restricted::No };
    settings.io.model().open(restricted, EdgeVisitor { setup, settings: &settings, pool })?
}

/// Runs an edge over the backend.
struct EdgeVisitor<'a> {
    setup: &'a EdgeSetup<'a>,
    settings: &'a Settings,
    pool: oribi_pool::Edge,
}

impl BackendVisitor for EdgeVisitor<'_> {
    type Output = io::Result<()>;

    fn visit<B: KernelBackend>(self, backend: B) -> io::Result<()> {
        run_on(backend, self.setup, self.settings, self.pool)
    }
}

fn run_on<B: Backend>(backend: B, setup: &EdgeSetup<'_>, settings: &Settings, pool: oribi_pool::Edge) -> io::Result<()> {
    let lane_setup = LaneSetup { settings, ..setup.lane };
    let (engine, event_sources) = lane_setup.engine(backend, settings.workers)?;
    let lane = Lane::new(engine, lane_setup.slot).woken_by(event_sources).with_settings(settings)?;
    let mut edge =
        EdgeLoop::new(lane, &lane_setup, pool)?.with_parent(setup.parent_link).taking_over(setup.handed)?.napping()?;
    if let Some(sandbox) = setup.sandbox {
        edge.leave_logs_to_parent();
        // All files and sockets that the edge opens by name are open.
        sandbox.enter(settings)?;
    }
    // The edge has started.
    lane_setup.slot.set_state(WorkerState::Ready);
    edge.handle_command();
    while edge.turn()? {}
    edge.leave();
    Ok(())
}

/// The state of an edge.
struct EdgeLoop<'a, B: Backend> {
    lane: Lane<'a, Engine<'a, B>>,
    settings: &'a Settings,
    listeners: &'a [Listener],
    slot: &'a WorkerSlot,
    pool: oribi_pool::Edge,
    table: Table,
    queue: Queue,
    deadlines: Deadlines,
    workers: Workers,
    timers: Timers,
    /// The timer for naps; `None` if the edge never naps.
    nap: Option<DoorbellWait>,
    yielding: Yielding,
    /// The socket to the parent process, which stops workers for this edge.
    parent_link: Option<&'a ParentLink>,
    peers: HandoverPeers<'a>,
    heads: Heads,
    /// The bytes of the last event of the pool.
    bytes: Vec<u8>,
    /// Requests whose responses wait for slow clients. The frames of their workers are not read meanwhile.
    paused: Vec<Ticket>,
    /// Responses of which only the head has arrived, and has not been sent.
    unsent_heads: Vec<Ticket>,
    /// Requests whose apps get the sockets of their clients when earlier responses on these have been sent.
    awaited_sockets: Vec<Ticket>,
    /// The last time at which the edge noticed that workers take or answer requests.
    moved: Duration,
}

impl<'a, B: Backend> EdgeLoop<'a, B> {
    fn new(lane: Lane<'a, Engine<'a, B>>, setup: &LaneSetup<'a>, pool: oribi_pool::Edge) -> io::Result<Self> {
        let settings = setup.settings;
        {
            let mut engine = lane.source();
            engine.note_lost_exchanges();
            engine.measure_times();
            engine.accept_ahead(true);
            engine.answer_in_batches();
            match (engine.watch_news(pool.descriptor()), lane.event_sources()) {
                (Err(error), Some(event_sources)) if error.kind() == io::ErrorKind::Unsupported => {
                    event_sources.watch(pool.descriptor())?;
                }
                (outcome, _) => outcome?,
            }
        }
        let (table, workers) = (Table::new(pool.shape().slots), Workers::new(pool.shape().workers));
        Ok(Self {
            lane,
            settings,
            listeners: setup.listeners,
            slot: setup.slot,
            pool,
            table,
            queue: Queue::default(),
            deadlines: Deadlines::new(settings),
            workers,
            timers: Timers::default(),
            nap: None,
            yielding: Yielding::default(),
            parent_link: None,
            peers: HandoverPeers::default(),
            heads: Heads::default(),
            bytes: Vec::new(),
            paused: Vec::new(),
            unsent_heads: Vec::new(),
            awaited_sockets: Vec::new(),
            moved: Duration::ZERO,
        })
    }

    /// Sets the socket to the parent process.
    fn with_parent(self, parent_link: &'a ParentLink) -> Self {
        Self { parent_link: Some(parent_link), ..self }
    }

    /// Does all pending work, and waits once; `false` if the edge ends.
    fn turn(&mut self) -> io::Result<bool> {
        self.slot.count_iteration();
        // Connections are handed over before the edge receives their next requests, which may have arrived already.
        self.hand_over();
        let now = self.now();
        self.pool.set_time(now);
        for look in 0..LOOKS_AT_POOL {
            self.take_requests();
            self.submit_due();
            // If no request was submitted, the workers are woken only when the edge is about to sleep.
            let has_submitted = self.pool.has_unannounced();
            if has_submitted {
                self.pool.wake_some_workers();
            }
            // Workers may have answered requests of this iteration already, and the kernel may have suspended the edge in
            // between. So the clock must be read again.
            if !self.handle_answers(look > 0 || has_submitted) {
                break;
            }
        }
        self.withdraw_disconnected();
        self.resume_waiting_exchanges();
        if self.lane.source().is_woken_or_finished() && !self.handle_command() {
            return Ok(false);
        }
        self.watch_new_workers();
        self.answer_readiness_question();
        self.run_expired_timers();
        self.hand_over();
        self.wait()?;
        Ok(true)
    }

    /// Takes the complete requests from the engine.
    fn take_requests(&mut self) {
        // An edge answers an exchange, or gives it back, at once. A handler that answers with a file revokes this
        // expectation, for the sake of the app.
        self.lane.source().expect_prompt_answers(true);
        loop {
            let next = self.lane.source().next_at_hand();
            let Some(exchange) = next else { return };
            if let Some(exchange) = self.answer_probe(exchange)
                && let Some(exchange) = self.lane.answer_in_front(exchange, self.listeners)
            {
                self.slot.requests.fetch_add(1, Relaxed);
                self.submit(exchange);
            }
            self.lane.source().expect_prompt_answers(true);
        }
    }

    /// Waits for any event.
    fn wait(&mut self) -> io::Result<()> {
        self.submit_due();
        let waits = self.pool.take_waits();
        self.count_waits(waits);
        self.yield_to_worker();
        if self.nap() {
            return self.lane.source().wait_at_most(Some(Duration::ZERO));
        }
        let timeout = match self.pool.prepare_to_rest() {
            Rest::No => Some(Duration::ZERO),
            Rest::Doze => Some(self.time_left().map_or(DOZE, |time| time.min(DOZE))),
            Rest::Sleep => self.time_left().into_iter().chain(self.peers.patience()).min(),
        };
        let waited = self.lane.source().wait_at_most(timeout);
        self.pool.awake();
        waited
    }

    /// Reads the command. Returns `false` if the edge must end.
    fn handle_command(&mut self) -> bool {
        self.receive_descriptors();
        let goes_on = self.lane.handle_command();
        if self.lane.event_sources().is_some_and(oribi_worker::event_sources::EventSources::take) {
            self.handle_ended_workers();
            self.take_over();
        }
        if self.slot.command() == WorkerCommand::HandOver {
            self.begin_to_hand_over();
        }
        goes_on
    }

    /// Informs workers that no client waits any longer.
    fn leave(&mut self) {
        for ticket in self.table.tickets() {
            self.pool.withdraw(ticket);
        }
        self.pool.wake_workers();
        self.pool.leave();
        self.lane.source().abandon_all();
    }

    fn now(&self) -> Duration {
        self.lane.source().now()
    }
}
