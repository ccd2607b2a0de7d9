//! A lane: one source of requests and one host's context on one thread.

mod app_chunks;
mod command;
mod deadlines;
mod event_wait;
mod front;
mod named_files;
mod outlet;
mod serving;
mod setup;

use crate::event_sources::{EventSources, Interrupter};
use crate::threads::ThreadPool;
use app_chunks::AppChunks;
use deadlines::Deadlines;
use event_wait::EventWait;
use front::Front;
pub use front::{Files, ProbePage, host_of, is_probe};
use named_files::FileResponses;
use oribi_config::Settings;
use oribi_files::NamedFiles;
use oribi_host::{After, ExchangeId, GlobalLock, Host, Reply, ReplyError};
use oribi_io::Restricted;
use oribi_listen::Listener;
use oribi_message::ResponseHead;
use oribi_pool::Worker;
use oribi_source::{LentRequest, Source};
use oribi_stats::scoreboard::running::{RunningApps, RunningLine};
use oribi_stats::scoreboard::{DrainState, WorkerSlot};
use serving::run_from;
pub use setup::LaneSetup;
use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Supplies a lane with contexts.
pub trait ContextSupply {
    /// Returns the first context.
    ///
    /// # Errors
    /// A message for the log.
    fn first(&mut self) -> Result<Box<dyn Host>, String>;

    /// Returns the number of requests after which to call [`ContextSupply::renew`] for the first time.
    fn due(&self) -> u64;

    /// Decides about `present`, a context that no thread uses at the moment. Called after the number of requests that the
    /// supply has stated last, or when the context has asked for its replacement (`after.retire`). `answered` is the total
    /// number of answered requests.
    fn renew(&mut self, present: Box<dyn Host>, answered: u64, after: After) -> Renewal;

    /// Whether the process ends with its context. Then [`ContextSupply::renew`] may also be called while the context has
    /// unanswered exchanges, and returns the same context.
    fn ends_with_context(&self) -> bool {
        false
    }

    /// Called once, when the lane stops accepting connections.
    fn retires(&mut self) {}
}

/// The decision of a supply.
pub enum Renewal {
    /// Continue with this context, the old one or a new one, and ask again at this total number of requests.
    Serve(Box<dyn Host>, u64),
    /// Accept no more connections and end; this context answers the requests accepted so far.
    Stop(Box<dyn Host>),
}

/// Answers requests until the worker is commanded to end and everything that was accepted has been answered.
///
/// # Errors
/// The operating system refuses an essential call, or there is no context.
pub fn run(setup: &LaneSetup<'_>, supply: &mut dyn ContextSupply) -> io::Result<()> {
    let backend = setup.settings.io.model().open(Restricted::No)?;
    let (engine, event_sources) = setup.engine(backend, setup.settings.workers.most() * setup.settings.threads)?;
    let lane = Lane::new(engine, setup.slot).woken_by(event_sources).with_settings(setup.settings)?;
    run_from(&lane.with_probe(setup.settings).watched(setup.running, setup.settings), setup, supply)
}

/// Runs a lane that has no connections of its own, and answers the requests of edges. `pools` are the worker's sides of all
/// their pools.
///
/// # Errors
/// The same as for [`run`].
pub fn run_behind(setup: &LaneSetup<'_>, pools: Vec<Worker>, supply: &mut dyn ContextSupply) -> io::Result<()> {
    let (intake, event_sources) = setup.intake(pools)?;
    let lane = Lane::new(intake, setup.slot).woken_by(event_sources).with_settings(setup.settings)?;
    run_from(&lane.without_front(), setup, supply)
}

/// A lane as the outlet of its host. Every call borrows the source only for its duration.
pub struct Lane<'a, S: Source> {
    source: RefCell<S>,
    /// The event sources that the source watches; declared after the source, so that they are dropped after it. `None` if the
    /// source watches the worker's pipe itself, without a waker.
    event_sources: Option<EventSources>,
    slot: &'a WorkerSlot,
    /// The value of [`WorkerSlot::log_opening`] when the log files were opened; `None` if another process reopens them.
    logs_opened: Cell<Option<u32>>,
    /// The apps that the supervisor watches, if it watches any.
    running: Option<RunningApps>,
    /// Passes orders to apps that exceed their deadlines; `None` without deadlines.
    deadlines: Option<Deadlines>,
    /// The state of threads that share the lane; `None` for a single thread.
    aside: Option<Aside<'a, S>>,
    /// Handlers that answer without the host.
    front: Front<S>,
    /// Files that the app may name in place of content.
    file_responses: Option<FileResponses>,
    /// See [`Request::underscores`](oribi_host::Request::underscores).
    underscores: bool,
    /// See [`Request::chosen_name`](oribi_host::Request::chosen_name).
    chosen_name: bool,
    /// See [`oribi_host::Outlet::reports_queue_times`].
    reports_queue_times: bool,
    /// See [`ContextSupply::ends_with_context`].
    ends_with_context: Cell<bool>,
    app_chunks: AppChunks,
    /// The most unfinished exchanges of a lane whose host runs an event loop.
    concurrency: usize,
}

/// The state of a lane that threads share.
struct Aside<'a, S: Source> {
    /// Locked by the thread that is waiting.
    waiter: Mutex<S::Waiter>,
    thread_pool: ThreadPool<'a>,
    interrupter: Interrupter,
    /// The number of threads that run an app.
    busy: Cell<usize>,
    /// The exchanges for which the host is being called. The app has kept every other open exchange, and may answer it on a
    /// thread that has no turn.
    called: RefCell<Vec<ExchangeId>>,
    /// Exchanges whose apps wait for their clients.
    held: RefCell<Vec<ExchangeId>>,
    /// The next deadline, recorded when a thread last began to wait; the waiting thread observes it.
    foreseen: Cell<Option<Duration>>,
}

impl<'a, S: Source> Lane<'a, S> {
    /// Creates a lane that answers through `source`, in the worker of `slot`.
    pub fn new(source: S, slot: &'a WorkerSlot) -> Self {
        Self {
            source: RefCell::new(source),
            event_sources: None,
            slot,
            logs_opened: Cell::new(Some(slot.inherited_opening())),
            running: None,
            deadlines: None,
            aside: None,
            front: Front::empty(),
            file_responses: None,
            underscores: false,
            chosen_name: false,
            reports_queue_times: false,
            ends_with_context: Cell::new(false),
            app_chunks: AppChunks::default(),
            concurrency: usize::MAX,
        }
    }

    /// Applies `settings` to the lane: files in front of its host, files that the host may name, the fields for the host,
    /// and deadlines of apps.
    ///
    /// # Errors
    /// A folder of files cannot be opened.
    pub fn with_settings(self, settings: &Settings) -> io::Result<Self> {
        let files = &settings.files;
        let file_responses = NamedFiles::open(files)?.map(FileResponses::new);
        let deadlines =
            settings.has_app_deadlines().then(|| Deadlines::new(settings.request_warning, settings.timeouts.request));
        let (underscores, reports_queue_times) = (settings.underscore_headers, settings.request_start);
        let chosen_name = settings.server_name.is_some();
        let (front, concurrency) = (Front::of(settings)?, settings.event_loop.most_open());
        Ok(Self { front, concurrency, file_responses, underscores, chosen_name, reports_queue_times, deadlines, ..self })
    }

    /// Sets the event sources that its source watches.
    pub fn woken_by(self, event_sources: EventSources) -> Self {
        Self { event_sources: Some(event_sources), ..self }
    }

    /// Shares the lane between so many threads (the least and the most) of a language with this `lock`, and up to `waiting` more
    /// whose apps only wait.
    ///
    /// # Errors
    /// The lane has no event sources, or the operating system refused a call.
    pub fn shared_by(self, lock: &'a dyn GlobalLock, threads: (usize, usize), waiting: usize) -> io::Result<Self> {
        let interrupter = self.event_sources.as_ref().ok_or(io::ErrorKind::InvalidInput)?.interrupter();
        let aside = Aside {
            waiter: Mutex::new(self.source().waiter()?),
            thread_pool: ThreadPool::new(lock, threads, waiting, interrupter.clone()),
            interrupter,
            busy: Cell::new(0),
            called: RefCell::default(),
            held: RefCell::default(),
            foreseen: Cell::new(None),
        };
        Ok(Self { aside: Some(aside), ..self })
    }

    /// Returns the thread pool, if threads share the lane.
    pub fn thread_pool(&self) -> Option<&ThreadPool<'a>> {
        self.aside.as_ref().map(|aside| &aside.thread_pool)
    }

    /// Makes the calling thread, which is idle, wait for events or rest. Returns `false` if the thread is no longer needed.
    pub fn idle(&self, timeout: Option<Duration>) -> bool {
        self.aside.as_ref().is_none_or(|aside| aside.thread_pool.idle(timeout, |timeout| self.event_wait(aside, timeout)))
    }

    fn event_wait<'l>(&'l self, aside: &'l Aside<'a, S>, timeout: Option<Duration>) -> EventWait<'l, S::Waiter> {
        let idle = self.source.borrow().is_idle_while_it_waits().then_some(self.slot.idle);
        EventWait { waiter: &aside.waiter, idle, interrupter: &aside.interrupter, timeout, interrupted: AtomicBool::new(false) }
    }

    /// Sets the lines that show the apps that its threads run.
    pub fn watched(self, lines: &'static [RunningLine], settings: &Settings) -> Self {
        Self { running: RunningApps::on(lines, settings.request_id.as_ref()), ..self }
    }

    /// Leaves the reopening of log files to other processes.
    pub fn skip_log_reopening(&self) {
        self.logs_opened.set(None);
    }

    /// Returns the source, with the events that a waiting thread has found.
    pub fn source_with_events(&self) -> RefMut<'_, S> {
        let mut source = self.source.borrow_mut();
        self.take_news(&mut source);
        source
    }

    /// Passes the events that a waiting thread has found to the source; none while that thread is still waiting.
    fn take_news(&self, source: &mut S) {
        if let Some(aside) = &self.aside
            && let Ok(mut waiter) = aside.waiter.try_lock()
        {
            source.collect(&mut waiter);
        }
    }

    /// Makes `host` answer; returns whether it asks for its replacement.
    pub fn answer(&self, mut exchange: S::Exchange, listeners: &[Listener], host: &mut dyn Host) -> bool {
        let id = exchange.id();
        if let Some(file_responses) = &self.file_responses {
            let source = self.source.borrow();
            file_responses.begin(&mut exchange, |id| source.waiting(id).is_ok());
        }
        let mut request = exchange.request(listeners);
        request.underscores = self.underscores;
        request.chosen_name = self.chosen_name;
        if let Some(running) = &self.running {
            running.begin(id, &request.head, self.source.borrow().now());
        }
        self.enter_app(id);
        {
            let mut source = self.source.borrow_mut();
            source.expect_prompt_answers(host.is_prompt());
            // Pending output would otherwise wait for this app.
            source.submit();
        }
        let after = match &self.deadlines {
            None => host.answer(&request, Reply::new(self, id)),
            Some(deadlines) => self.answer_in_time(deadlines, &exchange, &request, host),
        };
        self.leave_app(id);
        if let Some(running) = &self.running {
            running.end(id);
        }
        self.source().give_back(exchange);
        self.slot.requests.fetch_add(1, Ordering::Relaxed);
        if !after.deferred {
            return after.retire;
        }
        self.source().send_now(id);
        self.run_deferred(host, after)
    }

    /// Calls `host` if the lane was woken for it; returns whether the host asks for its replacement.
    pub fn call_woken_host(&self, host: &mut dyn Host) -> bool {
        let woken = self.event_sources.as_ref().is_some_and(EventSources::take);
        if !(woken | self.source().take_client_change()) {
            return false;
        }
        self.count_busy(1);
        let after = host.attend(self);
        self.count_busy(-1);
        if after.deferred { self.run_deferred(host, after) } else { after.retire }
    }

    fn run_deferred(&self, host: &mut dyn Host, after: After) -> bool {
        self.source.borrow_mut().submit();
        self.wake_another_thread();
        after.retire | host.run_deferred().retire
    }

    /// Wakes another thread if there is more work, or if a deadline is earlier than the waiting thread expects. Called before
    /// an app is called, and while it waits.
    pub fn wake_another_thread(&self) {
        let Some(aside) = &self.aside else { return };
        let source = self.source.borrow();
        let sooner = || source.due().is_some_and(|due| aside.foreseen.get().is_none_or(|foreseen| due < foreseen));
        let wanted = source.has_more() || sooner();
        drop(source);
        if wanted {
            aside.thread_pool.wake_another();
        }
    }

    /// Records the next deadline, until which a thread may wait.
    pub fn note_next_due(&self) {
        if let Some(aside) = &self.aside {
            aside.foreseen.set(self.source.borrow().due());
        }
    }

    /// Returns the source. No reply may be used while it is borrowed.
    pub fn source(&self) -> RefMut<'_, S> {
        self.source.borrow_mut()
    }

    /// Returns the event sources beside connections.
    pub fn event_sources(&self) -> Option<&EventSources> {
        self.event_sources.as_ref()
    }

    /// Whether the lane has stopped accepting connections.
    pub fn stops(&self) -> bool {
        self.source.borrow().stops()
    }

    #[inline]
    fn count_busy(&self, change: isize) {
        if let Some(aside) = &self.aside {
            aside.busy.set(aside.busy.get().wrapping_add_signed(change));
        }
    }

    #[inline]
    fn enter_app(&self, exchange: ExchangeId) {
        if let Some(aside) = &self.aside {
            aside.called.borrow_mut().push(exchange);
            self.count_busy(1);
            aside.thread_pool.release_lane();
        }
    }

    #[inline]
    fn leave_app(&self, exchange: ExchangeId) {
        if let Some(aside) = &self.aside {
            let mut called = aside.called.borrow_mut();
            if let Some(index) = called.iter().rposition(|id| *id == exchange) {
                called.swap_remove(index);
            }
            self.count_busy(-1);
        }
    }

    /// Resumes the apps whose clients have caught up or disconnected. Call it whenever events were handled, because another
    /// thread may have handled them.
    pub fn resume_held_apps(&self) {
        let Some(aside) = &self.aside else { return };
        let mut held = aside.held.borrow_mut();
        if held.is_empty() {
            return;
        }
        let (source, before) = (self.source.borrow(), held.len());
        let most = source.output_limit();
        held.retain(|&exchange| source.waiting(exchange).is_ok_and(|waiting| waiting > most));
        if held.len() < before {
            aside.thread_pool.resume();
        }
    }

    /// Waits for events while an app is in the middle of its answer to `exchange` and more than `most` bytes of its output wait
    /// for its client. Returns `None` if the app must be interrupted.
    fn wait_for_client<'e>(
        &'e self,
        mut source: RefMut<'e, S>,
        exchange: ExchangeId,
        most: usize,
    ) -> io::Result<Option<RefMut<'e, S>>> {
        let Some(aside) = &self.aside else {
            source.turn()?;
            return Ok(Some(source));
        };
        if aside.busy.get() >= aside.thread_pool.limit() {
            source.leave_line();
        }
        self.take_news(&mut source);
        let timeout = source.do_pending_work()?;
        // Handling the events may have sent all output that was waiting.
        let released = source.waiting(exchange).map_or(true, |waiting| waiting <= most);
        drop(source);
        self.resume_held_apps();
        if released {
            self.wake_another_thread();
        }
        if released || timeout == Some(Duration::ZERO) {
            return Ok(Some(self.source()));
        }
        self.note_next_due();
        self.wake_another_thread();
        aside.held.borrow_mut().push(exchange);
        let go_on = aside.thread_pool.pause(timeout, |timeout| self.event_wait(aside, timeout));
        aside.held.borrow_mut().retain(|&held| held != exchange);
        Ok(go_on.then(|| self.source()))
    }

    /// Sends pending output before an app continues, which may take a long time.
    #[inline]
    fn send_pending(&self, exchange: ExchangeId) {
        self.source.borrow_mut().submit();
        self.tell_of_use(exchange);
    }

    /// Wakes another thread after something was sent for `exchange`. If the exchange was kept, the calling thread may have
    /// no turn soon, and there may be work now: the client's next request may have arrived, a deadline may have been set for
    /// a slow client, or the lane may be finished.
    #[inline]
    fn tell_of_use(&self, exchange: ExchangeId) {
        if let Some(aside) = &self.aside
            && !aside.called.borrow().contains(&exchange)
        {
            aside.thread_pool.wake_another();
        }
    }

    /// Records progress of the app for its client.
    #[inline]
    fn note_progress(&self, exchange: ExchangeId) {
        if let Some(running) = &self.running {
            running.note_progress(exchange);
        }
    }

    /// Sends the file that the head of a response names; `None` without such a file.
    #[inline]
    fn send_named(&self, exchange: ExchangeId, head: &ResponseHead<'_>) -> Option<Result<(), ReplyError>> {
        self.file_responses.as_ref()?.respond(self, exchange, head)
    }

    /// Returns the source, for a response that begins. The app may have taken a long time, and a command may have arrived
    /// meanwhile.
    #[inline]
    fn source_after_app(&self, exchange: ExchangeId) -> RefMut<'_, S> {
        self.note_progress(exchange);
        let mut source = self.source.borrow_mut();
        source.catch_up(self.slot.is_to_stop());
        if self.slot.drain_state() == DrainState::Closing {
            source.part();
        }
        source
    }
}
