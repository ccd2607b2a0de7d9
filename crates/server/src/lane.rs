//! A lane: one engine and one host's context on one thread.

mod app_chunks;
mod named_files;
mod outlet;

use crate::attention::Attention;
use crate::config::{IoModel, Settings};
use crate::engine::{Census, Engine, Exchange};
use crate::listen::{Door, Listener};
use crate::log::AccessLog;
use crate::scoreboard::running::RunningApps;
use crate::scoreboard::{WorkerCommand, WorkerSlot};
use app_chunks::AppChunks;
use named_files::Named;
use oribi_files::{Mounts, NamedFiles};
use oribi_host::{After, ExchangeId, Host, Reply, ReplyError, Runtime};
#[cfg(feature = "libevent")]
use oribi_io::Libevent;
use oribi_io::process::SharedLine;
use oribi_io::{Backend, Epoll, Uring, Waiter};
use oribi_message::ResponseHead;
use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a lane needs from its worker.
#[derive(Clone, Copy, Debug)]
pub struct LaneSetup<'a> {
    /// All settings.
    pub settings: &'a Settings,
    /// Where connections arrive.
    pub listeners: &'a [Listener],
    /// Where this lane takes them: what [`doors`](crate::listen::doors) says.
    pub doors: &'a [Door<'a>],
    /// The worker's part of the scoreboard.
    pub slot: &'a WorkerSlot,
    /// Where the supervisor sees what the threads of the lane are running; empty: nowhere.
    pub running: &'static [SharedLine],
    /// The reading end of a pipe: whatever is written to it makes the lane look at its command in `slot`.
    pub wake: BorrowedFd<'a>,
}

impl<'a> LaneSetup<'a> {
    /// An engine over `backend` that is one of `lanes` over all workers, and what wakes it.
    pub(crate) fn engine<B: Backend>(&self, backend: B, lanes: usize) -> io::Result<(Engine<'a, B>, Attention)> {
        let settings = self.settings;
        let access_log = settings.access_log.as_ref().map(|target| AccessLog::open(target, settings.access_log_format));
        let attention = Attention::new(self.wake)?;
        let (doors, wake) = (self.doors.to_vec(), attention.descriptor());
        let mut engine = Engine::with_doors(backend, settings, self.listeners, doors, wake, access_log.transpose()?)?;
        engine.take_part_in(Census {
            here: self.slot.connections,
            everywhere: self.slot.all_connections,
            lanes,
            idle: self.slot.idle,
            idle_everywhere: self.slot.idle_everywhere,
            bell: self.slot.bell,
        })?;
        Ok((engine, attention))
    }

    /// How often the log files have been opened, to be asked before a lane opens its own.
    pub(crate) fn log_opening(&self) -> u32 {
        self.slot.log_opening.load(Ordering::Relaxed)
    }
}

/// Where a lane gets its contexts from.
pub trait ContextSupply {
    /// The first context.
    ///
    /// # Errors
    /// Why there is none, in words for the log.
    fn first(&mut self) -> Result<Box<dyn Host>, String>;

    /// After how many requests [`ContextSupply::renew`] is to be asked for the first time.
    fn due(&self) -> u64;

    /// Called, with a context that no thread uses, once so many requests have been answered or when the context has asked
    /// to be retired.
    fn renew(&mut self, present: Box<dyn Host>, answered: u64, after: After) -> Renewal;

    /// Called once, when the lane takes no more connections.
    fn retires(&mut self) {}
}

/// What a supply decides.
pub enum Renewal {
    /// Go on with this context, the old one or a new one, and ask again after so many requests in all.
    Serve(Box<dyn Host>, u64),
    /// Take no more connections and end; this context answers what has been accepted.
    Stop(Box<dyn Host>),
}

/// Answers requests until the worker's command says otherwise and everything that was accepted is answered.
///
/// # Errors
/// The system's refusal of what a loop cannot do without, or that there is no context.
pub fn run(setup: &LaneSetup<'_>, supply: &mut dyn ContextSupply) -> io::Result<()> {
    match setup.settings.io {
        IoModel::Uring => run_on(Uring::new()?, setup, supply),
        IoModel::Epoll | IoModel::Auto => run_on(Epoll::new()?, setup, supply),
        #[cfg(feature = "libevent")]
        IoModel::Libevent => run_on(Libevent::new()?, setup, supply),
        #[cfg(not(feature = "libevent"))]
        IoModel::Libevent => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn run_on<B: Backend>(backend: B, setup: &LaneSetup<'_>, supply: &mut dyn ContextSupply) -> io::Result<()> {
    let told = setup.log_opening();
    let (engine, attention) = setup.engine(backend, setup.settings.workers * setup.settings.threads)?;
    let lane = Lane::new(engine, setup.slot).woken_by(attention).watched(setup.running).with_logs_of(told);
    let lane = lane.with_settings(setup.settings)?;
    let mut host = supply.first().map_err(io::Error::other)?;
    lane.engine().accept_ahead(host.is_prompt());
    lane.engine().answer_in_batches();
    host.enter();
    host.begin(&lane);
    lane.engine().expect_prompt_answers(host.is_prompt());
    lane.obey();
    let mut due = supply.due();
    let mut answered = 0;
    let mut serves = true;
    loop {
        let next = lane.engine().next_exchange()?;
        let retire = if let Some(exchange) = next {
            let Some(exchange) = lane.answer_with_file(exchange, setup.listeners) else { continue };
            answered += 1;
            lane.answer(exchange, setup.listeners, &mut *host)
        } else if lane.obey() {
            if serves && lane.stops() {
                serves = false;
                supply.retires();
            }
            lane.attend(&mut *host)
        } else {
            break;
        };
        // A context that merely has had its share keeps the exchanges that it has yet to answer.
        if retire || (answered >= due && lane.engine().answering() == 0) {
            host.leave();
            match supply.renew(host, answered, After { retire, ..After::default() }) {
                Renewal::Serve(next, until) => {
                    // Nothing if the context is the old one, for then nothing was left to answer.
                    lane.engine().abandon_all();
                    host = next;
                    due = until;
                }
                Renewal::Stop(last) => {
                    host = last;
                    due = u64::MAX;
                    lane.engine().stop(false);
                    serves = false;
                    supply.retires();
                }
            }
            host.enter();
            host.begin(&lane);
        }
    }
    lane.engine().abandon_all();
    host.leave();
    Ok(())
}

/// An engine as its host's outlet. Every call borrows the engine for no longer than it takes.
pub struct Lane<'a, B: Backend> {
    engine: RefCell<Engine<'a, B>>,
    /// What the engine watches, so it goes behind that one. `None`: it is the worker's pipe itself, and nobody has a waker.
    attention: Option<Attention>,
    slot: &'a WorkerSlot,
    /// What [`WorkerSlot::log_opening`] was when the log files were opened.
    logs_opened: Cell<u32>,
    /// What the supervisor watches; `None`: it does not.
    running: Option<RunningApps>,
    /// Where several threads share the lane: how they wait.
    aside: Option<Aside<'a, B>>,
    /// Files that are sent without asking the host.
    files: Option<RefCell<Mounts>>,
    /// Files that the app may name in place of content.
    named: Option<Named>,
    /// See [`Request::underscores`](oribi_host::Request::underscores).
    underscores: bool,
    app_chunks: AppChunks,
}

/// Waiting for a lane while other threads may use it.
struct Aside<'a, B: Backend> {
    /// Locked by the thread that waits.
    waiter: Mutex<B::Waiter>,
    runtime: &'a dyn Runtime,
    /// Threads that may run an app at once, and that do.
    threads: usize,
    busy: Cell<usize>,
    /// Exchanges whose apps wait for their clients.
    held: RefCell<Vec<ExchangeId>>,
    /// What was due next when a thread was last told how long there is nothing to do: whoever waits looks by then.
    foreseen: Cell<Option<Duration>>,
}

impl<'a, B: Backend> Lane<'a, B> {
    /// A lane that answers through `engine`, in the worker of `slot`.
    pub fn new(engine: Engine<'a, B>, slot: &'a WorkerSlot) -> Self {
        Self {
            engine: RefCell::new(engine),
            attention: None,
            slot,
            logs_opened: Cell::new(slot.log_opening.load(Ordering::Relaxed)),
            running: None,
            aside: None,
            files: None,
            named: None,
            underscores: false,
            app_chunks: AppChunks::default(),
        }
    }

    /// The same lane, as `settings` wants it: with files in front of its host and others that the host may name, and with what the
    /// host gets of a request.
    pub(crate) fn with_settings(self, settings: &Settings) -> io::Result<Self> {
        let files = &settings.files;
        let mounts = (!files.mounts.is_empty()).then(|| Mounts::open(&files.mounts, &files.options)).transpose()?;
        let named = NamedFiles::open(files)?.map(Named::new);
        Ok(Self { files: mounts.map(RefCell::new), named, underscores: settings.underscore_headers, ..self })
    }

    /// A lane that up to `threads` threads of `runtime` share.
    pub(crate) fn shared(
        engine: Engine<'a, B>,
        slot: &'a WorkerSlot,
        runtime: &'a dyn Runtime,
        threads: usize,
    ) -> io::Result<Self> {
        let (waiter, held) = (Mutex::new(engine.waiter()?), RefCell::default());
        let aside = Aside { waiter, runtime, threads, busy: Cell::new(0), held, foreseen: Cell::new(None) };
        Ok(Self { aside: Some(aside), ..Self::new(engine, slot) })
    }

    /// The same lane, whose engine watches `attention`.
    pub(crate) fn woken_by(self, attention: Attention) -> Self {
        Self { attention: Some(attention), ..self }
    }

    /// The same lane, which tells on `lines` what its threads are running.
    pub(crate) fn watched(self, lines: &'static [SharedLine]) -> Self {
        Self { running: RunningApps::on(lines), ..self }
    }

    /// The same lane, whose log files are those that [`LaneSetup::log_opening`] told of.
    pub(crate) fn with_logs_of(self, opening: u32) -> Self {
        self.logs_opened.set(opening);
        self
    }

    /// Waits for something to do, in a thread that must not use the lane now.
    pub(crate) fn wait_aside(&self, timeout: Option<Duration>) -> io::Result<()> {
        let Some(aside) = &self.aside else { return Ok(()) };
        let mut waiter = aside.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        self.slot.idle.fetch_add(1, Ordering::Relaxed);
        let outcome = waiter.wait(timeout);
        self.slot.idle.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    /// The engine, with the news that a waiting thread has found.
    pub(crate) fn engine_with_news(&self) -> RefMut<'_, Engine<'a, B>> {
        let mut engine = self.engine.borrow_mut();
        self.take_news(&mut engine);
        engine
    }

    /// Gives the engine what a waiting thread has found. While one still waits, there is nothing.
    fn take_news(&self, engine: &mut Engine<'a, B>) {
        if let Some(aside) = &self.aside
            && let Ok(mut waiter) = aside.waiter.try_lock()
        {
            engine.collect(&mut waiter);
        }
    }

    /// Answers with a file, if there is one for this request. Gives back what is for the host.
    #[inline]
    pub(crate) fn answer_with_file(&self, exchange: Exchange, listeners: &[Listener]) -> Option<Exchange> {
        let Some(files) = &self.files else { return Some(exchange) };
        self.engine().expect_prompt_answers(true);
        let answered = files.borrow_mut().answer(&exchange.request(listeners), Reply::new(self, exchange.id()));
        if let Err(reply) = answered {
            let _for_the_host = reply.detach();
            return Some(exchange);
        }
        let mut engine = self.engine();
        engine.give_back(exchange);
        // The next request may be for an app.
        engine.expect_prompt_answers(false);
        self.slot.requests.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Has `host` answer; tells whether it wants to be retired.
    pub(crate) fn answer(&self, mut exchange: Exchange, listeners: &[Listener], host: &mut dyn Host) -> bool {
        let id = exchange.id();
        if let Some(named) = &self.named {
            let engine = self.engine.borrow();
            named.begin(&mut exchange, |id| engine.waiting(id).is_ok());
        }
        let mut request = exchange.request(listeners);
        request.underscores = self.underscores;
        if let Some(running) = &self.running {
            running.begin(id, &request.head);
        }
        self.count_busy(1);
        {
            let mut engine = self.engine.borrow_mut();
            engine.expect_prompt_answers(host.is_prompt());
            // Whatever waits to leave would wait for this app.
            engine.submit();
        }
        let after = host.answer(&request, Reply::new(self, id));
        self.count_busy(-1);
        if let Some(running) = &self.running {
            running.end(id);
        }
        self.engine().give_back(exchange);
        self.slot.requests.fetch_add(1, Ordering::Relaxed);
        if !after.deferred {
            return after.retire;
        }
        self.engine().send_now(id);
        self.run_deferred(host, after)
    }

    /// Has `host` see to what the lane was woken for, if it was; tells whether it wants to be retired.
    pub(crate) fn attend(&self, host: &mut dyn Host) -> bool {
        if !self.attention.as_ref().is_some_and(Attention::take) {
            return false;
        }
        self.count_busy(1);
        let after = host.attend();
        self.count_busy(-1);
        if after.deferred { self.run_deferred(host, after) } else { after.retire }
    }

    fn run_deferred(&self, host: &mut dyn Host, after: After) -> bool {
        self.let_leave();
        self.leave_to_others();
        after.retire | host.run_deferred().retire
    }

    /// To be called before an app is, and in the middle of one: calls another thread if there is more to do, or if something is due
    /// earlier than the one that waits knows of.
    pub(crate) fn leave_to_others(&self) {
        let Some(aside) = &self.aside else { return };
        let engine = self.engine.borrow();
        let sooner = engine.due().is_some_and(|due| aside.foreseen.get().is_none_or(|foreseen| due < foreseen));
        let wanted = engine.has_more() || sooner;
        drop(engine);
        if wanted {
            aside.runtime.summon();
        }
    }

    /// A thread is told that there is nothing to do until something is due.
    pub(crate) fn foresee(&self) {
        if let Some(aside) = &self.aside {
            aside.foreseen.set(self.engine.borrow().due());
        }
    }

    /// The engine. No reply may be used while it is borrowed.
    pub fn engine(&self) -> RefMut<'_, Engine<'a, B>> {
        self.engine.borrow_mut()
    }

    /// Looks at the worker's command; `false`: the lane ends.
    pub(crate) fn obey(&self) -> bool {
        let mut engine = self.engine.borrow_mut();
        if engine.take_wake()
            && let Some(attention) = &self.attention
        {
            attention.look();
        }
        let told = self.slot.log_opening.load(Ordering::Relaxed);
        if self.logs_opened.replace(told) != told {
            engine.reopen_logs();
        }
        self.pass_on_command(&mut engine) && !engine.finished()
    }

    /// Whether the lane takes no more connections.
    pub(crate) fn stops(&self) -> bool {
        self.engine.borrow().stops()
    }

    /// Tells the engine what the worker was told; `false`: to end at once.
    fn pass_on_command(&self, engine: &mut Engine<'a, B>) -> bool {
        match self.slot.command() {
            WorkerCommand::Serve => {}
            WorkerCommand::Drain => engine.stop(true),
            WorkerCommand::Retire => engine.stop(false),
            WorkerCommand::Quit => return false,
        }
        true
    }

    #[inline]
    fn count_busy(&self, change: isize) {
        if let Some(aside) = &self.aside {
            aside.busy.set(aside.busy.get().wrapping_add_signed(change));
        }
    }

    /// Lets those apps go on whose clients have caught up or gone. To be called whenever news have been seen to, for it may have
    /// been another thread that saw to them.
    pub(crate) fn release_held(&self) {
        let Some(aside) = &self.aside else { return };
        let mut held = aside.held.borrow_mut();
        if held.is_empty() {
            return;
        }
        let (engine, before) = (self.engine.borrow(), held.len());
        let most = engine.output_limit();
        held.retain(|&exchange| engine.waiting(exchange).is_ok_and(|waiting| waiting > most));
        if held.len() < before {
            aside.runtime.resume();
        }
    }

    /// Waits for news with an app in the middle of its answer to `exchange`, while more than `most` of what it has written
    /// waits for its client. `None`: the app is to be interrupted.
    fn wait_for_client<'e>(
        &'e self,
        mut engine: RefMut<'e, Engine<'a, B>>,
        exchange: ExchangeId,
        most: usize,
    ) -> io::Result<Option<RefMut<'e, Engine<'a, B>>>> {
        let Some(aside) = &self.aside else {
            engine.turn()?;
            return Ok(Some(engine));
        };
        if aside.busy.get() >= aside.threads {
            engine.leave_line();
        }
        self.take_news(&mut engine);
        let timeout = engine.attend()?;
        // Seeing to the news may have sent all that there was to wait for.
        let released = engine.waiting(exchange).map_or(true, |waiting| waiting <= most);
        drop(engine);
        self.release_held();
        if released {
            self.leave_to_others();
        }
        if released || timeout == Some(Duration::ZERO) {
            return Ok(Some(self.engine()));
        }
        self.foresee();
        self.leave_to_others();
        aside.held.borrow_mut().push(exchange);
        let go_on = aside.runtime.pause(timeout);
        aside.held.borrow_mut().retain(|&held| held != exchange);
        Ok(go_on.then(|| self.engine()))
    }

    /// Has what was sent leave before an app takes its time.
    #[inline]
    fn let_leave(&self) {
        self.engine.borrow_mut().submit();
    }

    /// The app has done something for its client.
    #[inline]
    fn get_on(&self, exchange: ExchangeId) {
        if let Some(running) = &self.running {
            running.get_on(exchange);
        }
    }

    /// Sends the file that the head of a response names, if it does.
    #[inline]
    fn send_named(&self, exchange: ExchangeId, head: &ResponseHead<'_>) -> Option<Result<(), ReplyError>> {
        self.named.as_ref()?.respond(self, exchange, head)
    }

    /// The engine, for a response that begins. The app may have taken its time, and a command may have come meanwhile.
    #[inline]
    fn engine_after_app(&self, exchange: ExchangeId) -> RefMut<'_, Engine<'a, B>> {
        self.get_on(exchange);
        let mut engine = self.engine.borrow_mut();
        engine.catch_up(self.slot.command() != WorkerCommand::Serve);
        engine
    }
}
