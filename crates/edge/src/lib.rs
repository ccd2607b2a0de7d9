//! The event loop of an edge, which owns client connections and runs no app.
//!
//! An edge is a [lane](oribi_worker::lane) without a host. Each complete request from its engine is either answered at once,
//! by a probe (`probe`), a file or a route (`routes`), or passed to an app. The folder `app` has everything about the requests
//! of one app: they are put into slots of its pool (`queue`, `shares`), and the engine gets the exchange back. Workers take
//! requests from the slots, and `answers` passes their output to the engine, which sends it. The table (`table`) maps slots to
//! exchanges.
//!
//! One iteration handles the events of the engine and of the pools, wakes workers once, and then waits in the backend for
//! clients, workers and commands together. Time-dependent work is in `timers`: requests that have waited too long (`queue`),
//! apps that take too long (`deadlines`), workers that have died (`workers`), requests that died with them (`failures`).
#![forbid(unsafe_code)]

mod app;
mod applying;
mod handover;
mod listening;
mod live;
pub mod parent_link;
pub mod plan;
mod probe;
pub mod purging;
pub mod routes;
pub mod sandbox;
mod setup;
#[cfg(test)]
mod tests;

pub use setup::shape;

use crate::parent_link::{EdgeSetup, ParentLink};
use app::AppPool;
use applying::Applying;
use handover::HandoverPeers;
use live::Live;
use oribi_cache::Store;
use oribi_config::Settings;
use oribi_engine::Engine;
use oribi_io::{Backend, Restricted};
use oribi_ipc::posts::PostBoxes;
use oribi_listen::{ListenSocket, Listener};
use oribi_pool::{DOZE, Rest};
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
use oribi_worker::lane::{Lane, LaneSetup};
use routes::router::Router;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The number of checks of the pool in a row before the backend is asked for events. More would delay clients whose requests
/// have arrived; fewer would cost a system call for every few answers.
const LOOKS_AT_POOL: usize = 4;

/// The time between two looks for answers to the last events.
const MOMENT: Duration = Duration::from_millis(1);

/// Serves until the edge has been commanded to end, and has answered everything that it has accepted.
///
/// # Errors
/// The operating system refuses a call without which the edge cannot serve.
pub fn run(setup: &EdgeSetup<'_>) -> io::Result<()> {
    let open = if setup.takes_over { oribi_pool::Edge::take_over } else { oribi_pool::Edge::new };
    let pools = setup.apps.iter().map(|app| open(app.memory)).collect::<io::Result<Vec<_>>>()?;
    let settings = setup::settings_of_edge(setup.lane.settings, &pools);
    let restricted = if setup.sandbox.is_some() { Restricted::Yes } else { Restricted::No };
    let backend = settings.io.model().open(restricted)?;
    let settings = &settings;
    let lane_setup = LaneSetup { settings, ..setup.lane };
    let listen_sockets: Vec<ListenSocket<'_>> = setup.listen_sockets.take();
    let (engine, event_sources) = lane_setup.engine_at(backend, settings.workers.most(), listen_sockets)?;
    let lane = Lane::new(engine, lane_setup.slot).woken_by(event_sources).with_settings(settings)?;
    let apps = setup.apps.iter().map(|app| app.settings).zip(pools);
    let mut edge = EdgeLoop::new(&lane, &lane_setup, apps, (setup.number, Some(setup.posts)))?
        .with_routes(setup)
        .with_parent(setup.parent_link)
        .taking_over(setup.handed)?
        .reading_posts()?
        .napping()?;
    if let Some(sandbox) = setup.sandbox {
        edge.leave_logs_to_parent();
        // All files and sockets that the edge opens by name are open.
        sandbox.enter(settings, setup.directories())?;
    }
    // The edge has started.
    lane_setup.slot.set_state(WorkerState::Ready);
    edge.handle_command();
    while edge.turn()? {}
    edge.leave();
    Ok(())
}

/// The state of an edge.
struct EdgeLoop<'l, 'a, B: Backend> {
    lane: &'l Lane<'a, Engine<'a, B>>,
    settings: &'a Settings,
    listeners: &'a [Listener],
    slot: &'a WorkerSlot,
    /// The pool of each app.
    apps: Vec<AppPool<'l, 'a, B>>,
    /// The routes; `None`: the only app answers all requests.
    router: Option<Router>,
    /// The number of routers that there have been, by which stored responses of different routes are told apart.
    routers_so_far: usize,
    /// The stored responses, and the most bytes of them; `None` if no route stores any.
    store: Option<(usize, Rc<RefCell<Store>>)>,
    /// The socket to the parent process.
    parent_link: Option<&'a ParentLink>,
    peers: HandoverPeers<'a>,
    applying: Applying<'a>,
    /// The connections that stay open without a worker.
    live: Rc<RefCell<Live<'a>>>,
}

impl<'l, 'a, B: Backend> EdgeLoop<'l, 'a, B> {
    /// Creates the state for `apps`, each with its settings and its pool.
    fn new(
        lane: &'l Lane<'a, Engine<'a, B>>,
        setup: &LaneSetup<'a>,
        apps: impl Iterator<Item = (&'a Settings, oribi_pool::Edge)>,
        posts: (usize, Option<&'a PostBoxes>),
    ) -> io::Result<Self> {
        {
            let mut engine = lane.source();
            engine.note_lost_exchanges();
            engine.measure_times();
            engine.accept_ahead(true);
            engine.answer_in_batches();
            engine.accept_tunnels();
        }
        let common = (setup.listeners, setup.slot);
        let started = lane.source().wall_clock();
        let live = Rc::new(RefCell::new(Live::new(setup.settings, setup.slot, posts, started)));
        let apps = apps
            .map(|(settings, pool)| AppPool::new(lane, Rc::new(settings.clone()), common, pool, &live))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            lane,
            settings: setup.settings,
            listeners: setup.listeners,
            slot: setup.slot,
            apps,
            router: None,
            routers_so_far: 0,
            store: None,
            parent_link: None,
            peers: HandoverPeers::default(),
            applying: Applying::never(),
            live,
        })
    }

    /// Enables naps. A nap uses the system's clock, so an edge whose backend has another clock must not nap.
    ///
    /// # Errors
    /// The operating system refused a call.
    fn napping(mut self) -> io::Result<Self> {
        // With several apps, the edge must not listen to the workers of one only.
        if let [app] = &mut self.apps[..] {
            app.enable_naps()?;
        }
        Ok(self)
    }

    /// Sets the socket to the parent process.
    fn with_parent(mut self, parent_link: &'a ParentLink) -> Self {
        self.parent_link = Some(parent_link);
        for (app, index) in self.apps.iter_mut().zip(0..) {
            (app.parent_link, app.index) = (Some(parent_link), index);
        }
        self
    }

    /// Opens the directories of the routes.
    fn with_routes(mut self, setup: &EdgeSetup<'a>) -> Self {
        if self.apps.len() > 1 {
            self.apps.iter_mut().for_each(AppPool::named);
        }
        setup.limit_memory.clear(setup.number);
        self.applying = Applying::by(setup.plan_reader, (setup.number, setup.shard), setup.limit_memory);
        self.route_by(setup.routes, setup.number);
        self
    }

    /// Does all pending work, and waits once; `false` if the edge ends.
    fn turn(&mut self) -> io::Result<bool> {
        self.slot.count_iteration();
        self.take_over_more();
        // Connections are handed over before the edge receives their next requests, which may have arrived already.
        self.hand_over(false);
        let now = self.now();
        self.apps.iter_mut().for_each(|app| app.pool.set_time(now));
        self.admit();
        for look in 0..LOOKS_AT_POOL {
            self.take_requests();
            let mut answered = false;
            self.apps.iter_mut().for_each(|app| answered |= app.exchange_with_workers(look > 0));
            self.hear();
            if !answered {
                break;
            }
        }
        self.withdraw_disconnected();
        self.serve_live_connections();
        self.apps.iter_mut().for_each(AppPool::resume_waiting_exchanges);
        if self.lane.source().is_woken_or_finished() && !self.handle_command() {
            return Ok(false);
        }
        self.apps.iter_mut().for_each(AppPool::watch_new_workers);
        self.answer_readiness_question();
        self.apps.iter_mut().for_each(AppPool::run_expired_timers);
        self.hear();
        self.hand_over(true);
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
                && let Some((exchange, app)) = self.route(exchange)
            {
                self.slot.requests.fetch_add(1, Relaxed);
                self.apps[app].submit(exchange);
            }
            self.lane.source().expect_prompt_answers(true);
        }
    }

    /// Withdraws the requests whose clients have disconnected.
    fn withdraw_disconnected(&mut self) {
        loop {
            let lost = self.lane.source().take_lost();
            let Some(lost) = lost else { return };
            let known = self.apps.iter_mut().find_map(|app| app.withdraw_lost(lost.exchange));
            if known.is_none()
                && !self.live.borrow_mut().lose(lost.exchange)
                && let Some(router) = &mut self.router
            {
                router.withdraw(lost.exchange, self.lane);
            }
            self.lane.source().conclude_lost(lost, known);
        }
    }

    /// Waits for any event.
    fn wait(&mut self) -> io::Result<()> {
        self.apps.iter_mut().for_each(AppPool::note_waits);
        if let [app] = &mut self.apps[..] {
            app.yield_to_worker();
            if app.nap() {
                return self.lane.source().wait_at_most(Some(Duration::ZERO));
            }
        }
        let rest = self.apps.iter_mut().map(|app| app.pool.prepare_to_rest()).fold(Rest::Sleep, least);
        let timeout = match rest {
            Rest::No => Some(Duration::ZERO),
            Rest::Doze => Some(self.time_left().map_or(DOZE, |time| time.min(DOZE))),
            Rest::Sleep => self.time_left().into_iter().chain(self.peers.patience(|| self.now())).min(),
        };
        let waited = self.lane.source().wait_at_most(timeout);
        self.apps.iter_mut().for_each(|app| app.pool.awake());
        waited
    }

    /// Returns the time until the next timer expires. `None` if no timer runs.
    fn time_left(&self) -> Option<Duration> {
        let of_router = self.router.as_ref().and_then(|router| router.time_left(self.now()));
        let now = self.now();
        // A connection may have ended since the edge has looked at its events.
        let has_events = self.lane.source().has_socket_events() && !self.live.borrow().is_idle();
        let due = if has_events { Some(now) } else { self.live.borrow().due(now) };
        let of_live = due.map(|due| due.saturating_sub(now));
        self.apps.iter().filter_map(AppPool::time_left).chain(of_router).chain(of_live).min()
    }

    /// Reads the command. Returns `false` if the edge must end.
    fn handle_command(&mut self) -> bool {
        // The wake-up is cleared first: a message that arrives later wakes the edge again.
        let goes_on = self.lane.handle_command();
        self.receive_descriptors();
        if self.lane.event_sources().is_some_and(oribi_worker::event_sources::EventSources::take) {
            self.apps.iter_mut().for_each(AppPool::handle_ended_workers);
            self.take_over();
            self.receive_posts();
        }
        if self.slot.command() == WorkerCommand::HandOver {
            self.begin_to_hand_over();
        }
        // While connections move, those stay that can.
        let moves = self.slot.command() == WorkerCommand::HandOver && self.live.borrow().moves();
        if !moves && !matches!(self.slot.command(), WorkerCommand::Serve) {
            self.live.borrow_mut().leave(&mut self.lane.source(), AppPool::with_workers(&self.apps));
        }
        goes_on || self.awaits_last_events()
    }

    /// Whether workers still get the last events of connections, clients that have gone, or another edge the last messages.
    fn awaits_last_events(&mut self) -> bool {
        let command = self.slot.command();
        let live = self.live.borrow();
        let is_bridge = command == WorkerCommand::HandOver
            && (live.owes_next_edge() || live.has_old_edge() || live.owes_messages() && self.peers.may_wait_on());
        let has_workers = self.apps.iter().any(AppPool::has_workers);
        let awaits = command != WorkerCommand::Quit && (is_bridge || has_workers && live.has_events());
        drop(live);
        if awaits {
            // Without connections, the engine does not wait.
            std::thread::sleep(MOMENT);
            self.peers.last_waits += 1;
        }
        awaits
    }

    /// Informs workers that no client waits any longer.
    fn leave(&mut self) {
        self.apps.iter_mut().for_each(AppPool::leave);
        self.lane.source().abandon_all();
    }

    fn now(&self) -> Duration {
        self.lane.source().now()
    }
}

/// Returns the shorter of two rests.
const fn least(one: Rest, other: Rest) -> Rest {
    match (one, other) {
        (Rest::No, _) | (_, Rest::No) => Rest::No,
        (Rest::Doze, _) | (_, Rest::Doze) => Rest::Doze,
        (Rest::Sleep, Rest::Sleep) => Rest::Sleep,
    }
}
