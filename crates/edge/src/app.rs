//! The requests of one app at an edge: its pool, and everything that the edge knows about the requests in the pool.

mod answers;
mod asking;
mod cached;
mod deadlines;
mod failures;
mod fetch;
mod fetches;
mod live;
mod nap;
mod queue;
mod shares;
mod sleeping;
mod table;
mod timers;
mod workers;
mod yielding;

use super::live::Live;
use super::parent_link::ParentLink;
use asking::Heard;
use deadlines::Deadlines;
use fetch::AppCache;
use oribi_cache::Store;
use oribi_config::Settings;
use oribi_engine::Engine;
use oribi_io::{Backend, DoorbellWait};
use oribi_ipc::slot::Heads;
use oribi_listen::Listener;
use oribi_pool::Ticket;
use oribi_stats::scoreboard::WorkerSlot;
use oribi_worker::lane::Lane;
use queue::Queue;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use table::Table;
use timers::Timers;
use workers::Workers;
use yielding::Yielding;

/// While all workers are busy, the app counts as ready if a worker has taken or answered a request within this time. If all
/// requests take longer, a probe cannot know whether the app is healthy, even if the queue is short.
const MOVES_WITHIN: Duration = Duration::from_secs(5);

/// A pool, and the requests in it. The connections belong to the lane, which all pools of the edge share.
pub(super) struct AppPool<'l, 'a, B: Backend> {
    lane: &'l Lane<'a, Engine<'a, B>>,
    /// The settings of the app.
    settings: Rc<Settings>,
    /// The index of the app among those of the server.
    pub(super) index: u32,
    /// The first words of messages about the app, if there are several apps; otherwise empty.
    label: String,
    listeners: &'a [Listener],
    slot: &'a WorkerSlot,
    pub(super) pool: oribi_pool::Edge,
    pub(super) table: Table,
    queue: Queue,
    deadlines: Deadlines,
    workers: Workers,
    timers: Timers,
    /// The timer for naps; `None` if the edge never naps.
    nap: Option<DoorbellWait>,
    yielding: Yielding,
    /// The socket to the parent process, which stops workers for this edge.
    pub(super) parent_link: Option<&'a ParentLink>,
    heads: Heads,
    /// Whether the app has ever been asked whether a request may go on.
    hears: bool,
    /// The news about requests that wait for its answers.
    heard: Vec<Heard>,
    /// The bytes of the last event of the pool.
    bytes: Vec<u8>,
    /// Requests whose responses wait for slow clients. The frames of their workers are not read meanwhile.
    pub(super) paused: Vec<Ticket>,
    /// Responses of which only the head has arrived, and has not been sent.
    unsent_heads: Vec<Ticket>,
    /// Requests whose apps get the sockets of their clients when earlier responses on these have been sent.
    awaited_sockets: Vec<Ticket>,
    /// The last time at which the edge noticed that workers take or answer requests.
    moved: Duration,
    /// The cache; `None` if no route stores responses.
    cache: Option<Box<AppCache>>,
    /// The connections that stay open without a worker, of all apps.
    live: Rc<RefCell<Live<'a>>>,
    /// The commands of apps during requests.
    commands: HashMap<Ticket, live::Commands>,
}

impl<'l, 'a, B: Backend> AppPool<'l, 'a, B> {
    /// Creates the state for an app with `settings`, whose connections belong to `lane`. The lane wakes up when `pool` has news.
    ///
    /// # Errors
    /// The backend cannot watch the pool.
    pub(super) fn new(
        lane: &'l Lane<'a, Engine<'a, B>>,
        settings: Rc<Settings>,
        (listeners, slot): (&'a [Listener], &'a WorkerSlot),
        pool: oribi_pool::Edge,
        live: &Rc<RefCell<Live<'a>>>,
    ) -> io::Result<Self> {
        match (lane.source().watch_news(pool.descriptor()), lane.event_sources()) {
            (Err(error), Some(event_sources)) if error.kind() == io::ErrorKind::Unsupported => {
                event_sources.watch(pool.descriptor())?;
            }
            (outcome, _) => outcome?,
        }
        let (table, workers) = (Table::default(), Workers::new(pool.shape().workers));
        let deadlines = Deadlines::new(&settings);
        Ok(Self {
            lane,
            settings,
            index: 0,
            label: String::new(),
            listeners,
            slot,
            pool,
            table,
            queue: Queue::default(),
            deadlines,
            workers,
            timers: Timers::default(),
            nap: None,
            yielding: Yielding::default(),
            parent_link: None,
            heads: Heads::default(),
            hears: false,
            heard: Vec::new(),
            bytes: Vec::new(),
            paused: Vec::new(),
            unsent_heads: Vec::new(),
            awaited_sockets: Vec::new(),
            moved: Duration::ZERO,
            cache: None,
            live: Rc::clone(live),
            commands: HashMap::new(),
        })
    }

    /// Sets the store of responses, which all apps of the edge share. `app` is the number of this one. Requests that have asked the
    /// app because of an earlier store are answered all the same.
    pub(super) fn use_cache(&mut self, store: Option<&Rc<RefCell<Store>>>, app: usize) {
        match (store, &mut self.cache) {
            (Some(store), Some(cache)) => cache.store = Rc::clone(store),
            (Some(store), none) => *none = Some(Box::new(AppCache::new(Rc::clone(store), app))),
            (None, Some(cache)) => cache.store = Rc::new(RefCell::new(Store::new(0))),
            (None, None) => {}
        }
    }

    /// Names the app in messages.
    pub(super) fn named(&mut self) {
        self.label = format!("{}: ", self.settings.app_name);
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        self.settings.app_name.clone()
    }

    /// Whether the app in this place has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.settings.app_name == name
    }

    /// Uses other settings of the app from now on. Deadlines that run already may keep their times.
    pub(super) fn use_settings(&mut self, settings: Rc<Settings>) {
        self.deadlines.use_settings(&settings);
        self.settings = settings;
    }

    /// Keeps responses to requests that the app has already from being stored, if a selection includes their URIs.
    pub(super) fn outdate_fetches(&mut self, selection: Option<&oribi_cache::Selection>) {
        self.cache.iter_mut().for_each(|cache| cache.outdate(selection));
    }

    /// Uses a list of listeners that continues the list of before.
    pub(super) fn use_listeners(&mut self, listeners: &'a [Listener]) {
        self.listeners = listeners;
    }

    /// Wakes workers for new requests, and handles the answers of workers; returns whether there were any. `takes_time`:
    /// whether the answers may be newer than the last reading of the clock.
    pub(super) fn exchange_with_workers(&mut self, takes_time: bool) -> bool {
        self.submit_due();
        // If no request was submitted, the workers are woken only when the edge is about to sleep.
        let has_submitted = self.pool.has_unannounced();
        if has_submitted {
            self.pool.wake_some_workers();
        }
        // Workers may have answered requests of this iteration already, and the kernel may have suspended the edge in
        // between. So the clock must be read again.
        self.handle_answers(takes_time || has_submitted)
    }

    /// Whether workers answer the requests of the app. Those of an app that sleeps start for the next request.
    pub(super) fn is_ready(&self) -> bool {
        if self.pool.is_asleep() {
            return true;
        }
        let worker_counts = self.pool.worker_counts();
        let moves = self.now().saturating_sub(self.moved) < MOVES_WITHIN;
        worker_counts.attached > 0 && (worker_counts.waiting > 0 || self.table.used() == 0 || moves)
    }

    /// Informs workers that no client waits any longer.
    pub(super) fn leave(&mut self) {
        for ticket in self.table.tickets() {
            self.pool.withdraw(ticket);
        }
        self.pool.wake_workers();
        self.pool.leave();
    }

    pub(super) fn now(&self) -> Duration {
        self.lane.source().now()
    }
}
