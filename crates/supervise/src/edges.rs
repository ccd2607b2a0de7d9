//! The edges, in the process that forks them: the first process, which has opened the listeners. It starts the edges before any
//! mold or worker, replaces edges that die, and stops the edges before the workers.
//!
//! Each edge has memory of its own, which it shares with all workers. The memory outlives the edge: the next edge takes it
//! over, and no app is restarted.

mod change;
mod child;
mod liveness;
mod logs;
pub(super) mod pools;
mod purging;
mod readiness;
mod users;

pub(super) use change::{ChangeProgress, PlanForEdges};
use change::{InformedEdge, PlanChange};
pub(super) use child::ForkedEdge;
use liveness::LoopMonitor;
use purging::Purges;

use super::closing::{Closing, NextStep};
use super::describe_end;
use super::foreground::leave_report;
use super::pace::Pace;
use super::process_state;
use oribi_config::{Settings, counted};
use oribi_edge::parent_link::{self, EdgeLink, WorkerRequest};
use oribi_edge::plan::PlanReader;
use oribi_edge::routes::{LimitMemory, Routes};
use oribi_engine::shortage::explain;
use oribi_io::process::{Fork, Heirs, shared_words};
use oribi_ipc::handover::{self, Sender};
use oribi_ipc::posts::PostBoxes;
use oribi_listen::Renewed;
use oribi_listen::{Listener, is_any_lent};
use oribi_log as log_file;
use oribi_pool::Memory;
use oribi_stats::scoreboard::{DrainState, Row, Scoreboard, WorkerCommand, WorkerSlot, WorkerState};
use oribi_stats::totals::{Counter, Counts};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The first pause after a failure: an edge that fails once is replaced at once. The pauses grow if edges fail repeatedly.
const PAUSE: Duration = Duration::ZERO;

/// The longest wait for edges that were killed.
const AFTER_KILL: Duration = Duration::from_secs(60);

/// The edges of a server, in their parent process.
pub(super) struct Edges<'a> {
    settings: &'a Settings,
    /// The apps whose requests the edges queue.
    apps: Vec<AppPools<'a>>,
    /// The routes; `None`: the only app answers all requests.
    routes: Option<Arc<Routes>>,
    /// The memory of the limits of these and all earlier routes.
    limit_memory: LimitMemory,
    /// The boxes through which edges, and the relay, pass messages to each other.
    posts: Arc<PostBoxes>,
    /// Reads later plans, in edges.
    plan_reader: Option<&'a dyn PlanReader>,
    /// The last change of the plan.
    change: PlanChange,
    scoreboard: Scoreboard,
    /// The place of each edge.
    entries: Vec<EdgeEntry>,
    pace: Pace,
    phase: EdgesPhase,
    /// Whether edges of a previous server will hand their connections over to these.
    succeeds: bool,
    /// Whether any edge has begun to serve, as far as the ends of edges have shown.
    has_served: bool,
    purges: Purges,
    /// The number of the last question for the readiness of the edges; 0 before the first one.
    question: u32,
}

/// The name and the settings of an app, and the number of threads of each of its workers that take requests by themselves.
pub(super) type AppShape<'a> = (Option<&'a str>, &'a Settings, usize);

/// The pools of one app.
pub(super) struct AppPools<'a> {
    /// The name of the app, if it has one.
    pub(super) name: Option<&'a str>,
    /// The settings of the app.
    pub(super) settings: &'a Settings,
    /// The memory of each edge, for the requests of this app.
    pub(super) pools: Vec<Memory>,
}

/// The apps and routes by which edges serve.
pub(super) struct CurrentPlan<'a> {
    pub(super) apps: Vec<AppPools<'a>>,
    routes: Option<Arc<Routes>>,
    limit_memory: LimitMemory,
    posts: Arc<PostBoxes>,
    plan_reader: Option<&'a dyn PlanReader>,
}

/// The place of one edge.
#[derive(Default)]
struct EdgeEntry {
    process: Option<EdgeProcess>,
    /// Whether an earlier edge has used the memory of this place.
    used: bool,
    monitor: LoopMonitor,
}

/// An edge that has not been waited for yet.
struct EdgeProcess {
    pid: Pid,
    /// A pidfd, readable when the edge has ended. `None` on systems without pidfds.
    process: Option<OwnedFd>,
    waker: OwnedFd,
    /// The socket on which the edge sends requests to its parent.
    link: EdgeLink,
    started_at: Instant,
    /// The destination for connections of the previous server's edges, until it is named to that server.
    successor: Option<Sender>,
    informed: InformedEdge,
}

enum EdgesPhase {
    Serving,
    Draining {
        /// The time when edges that have not finished are killed.
        deadline: Instant,
        closing: Closing,
        /// The command for the edges. It is `Retire` if listeners are lent, because the next server accepts the clients in
        /// their queues.
        command: WorkerCommand,
        /// Whether requests had to be cut off.
        cut: bool,
    },
}

/// The progress of the edges' end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Requests are still being answered.
    NotYet,
    /// No edge is left.
    Done {
        /// Whether requests had to be cut off.
        cut: bool,
    },
}

/// The consequence of the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeEnd {
    /// It was not an edge.
    NoEdge,
    /// Another edge starts, or none is needed.
    Usual,
    /// Edges cannot work here: none has ever begun to serve.
    CannotServe,
}

impl<'a> Edges<'a> {
    /// Creates the memory for the edges of `settings`, and for the workers of `apps`: the name and the settings of each app, and the
    /// number of lanes of each of its workers. `boxes`: those of the previous server. Starts no edge yet. `None` without edges.
    pub(super) fn new(settings: &'a Settings, apps: &[AppShape<'a>], boxes: Option<PostBoxes>) -> Result<Option<Self>, String> {
        let count = settings.edges_wanted();
        if count == 0 {
            return Ok(None);
        }
        log_file::check_access_log(settings)?;
        let make = |(name, settings, lanes): &AppShape<'a>| {
            pools::make(settings, *lanes, (count, apps.len())).map(|pools| AppPools { name: *name, settings, pools })
        };
        let apps = apps.iter().map(make).collect::<Result<Vec<_>, String>>()?;
        // With another number of edges, or only one of the two servers with a relay, clients of the old edges are no clients of these.
        let has_relay = settings.relay.redis.is_some();
        let boxes = boxes.filter(|boxes| (boxes.edges(), boxes.relay().is_some()) == (count, has_relay));
        let posts = boxes.map_or_else(|| PostBoxes::new(count, has_relay), Ok);
        let posts = posts.map_err(|error| format!("cannot connect edges: {}", explain(&error)))?;
        posts.outbox().clone().adopt();
        let posts = Arc::new(posts);
        let scoreboard = Scoreboard::new(count, 0, settings.route_names().len(), count > 1)
            .map_err(|error| format!("cannot share memory with edges: {error}"))?;
        log::info!(
            "connections belong to {}, which {} no app",
            counted(count, "edge"),
            if count == 1 { "runs" } else { "run" }
        );
        Ok(Some(Self {
            settings,
            apps,
            routes: None,
            limit_memory: LimitMemory::new(count),
            posts,
            plan_reader: None,
            change: PlanChange::default(),
            scoreboard,
            entries: (0..count).map(|_| EdgeEntry::default()).collect(),
            pace: Pace::new(Duration::ZERO, PAUSE),
            phase: EdgesPhase::Serving,
            succeeds: false,
            has_served: false,
            purges: Purges::default(),
            question: 0,
        }))
    }

    /// Returns a summary of each edge.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.scoreboard.rows()
    }

    /// Returns the counters of the edges and of those before them.
    pub(super) fn counts(&self) -> Counts {
        self.scoreboard.counts(true)
    }

    fn slots(&self) -> &[WorkerSlot] {
        self.scoreboard.slots()
    }

    /// Sets the routes of edges that start from now on, and the reader of later ones.
    ///
    /// # Errors
    /// The system has no memory for the limits of the routes.
    pub(super) fn use_routes(&mut self, routes: Option<Routes>, reader: Option<&'a dyn PlanReader>) -> io::Result<()> {
        self.plan_reader = reader;
        let Some(routes) = routes else { return Ok(()) };
        let (routes, memory) = routes.bind(&self.limit_memory, &mut shared_words)?;
        (self.routes, self.limit_memory) = (Some(Arc::new(routes)), memory);
        Ok(())
    }

    /// Returns the boxes of the edges.
    pub(super) fn posts(&self) -> &Arc<PostBoxes> {
        &self.posts
    }

    /// Returns the apps, with the memory that their workers share with the edges.
    pub(super) fn apps(&self) -> &[AppPools<'a>] {
        &self.apps
    }

    /// In a new worker or edge: returns the apps and their routes, and drops everything else of the edges.
    pub(super) fn into_plan(self) -> CurrentPlan<'a> {
        let Self { apps, routes, limit_memory, posts, plan_reader, .. } = self;
        CurrentPlan { apps, routes, limit_memory, posts, plan_reader }
    }

    /// Starts the edges that are missing, unless a pause after failures is in progress. In a new edge it returns the parameters
    /// of the edge: the caller must close the parent's descriptors, and then call [`ForkedEdge::run_and_exit`]. Returns `None`
    /// in the parent.
    pub(super) fn keep_running(&mut self, fork: impl Fn() -> io::Result<Fork>) -> Option<ForkedEdge> {
        if !matches!(self.phase, EdgesPhase::Serving) {
            return None;
        }
        for number in 0..self.entries.len() {
            if self.entries[number].process.is_some() || !self.pace.wait(Instant::now()).is_zero() {
                continue;
            }
            match self.start(number, WorkerCommand::Serve, &fork) {
                Ok(None) => {}
                Ok(forked) => return forked,
                Err(error) => {
                    log::error!("cannot start an edge: {}", explain(&error));
                    self.pace.refused(Instant::now());
                }
            }
        }
        None
    }

    fn start(
        &mut self,
        number: usize,
        command: WorkerCommand,
        fork: impl Fn() -> io::Result<Fork>,
    ) -> io::Result<Option<ForkedEdge>> {
        let (wake, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (link, parent_link) = parent_link::socket()?;
        let (successor, handed) = if self.succeeds {
            handover::pair().map(|(sender, receiver)| (Some(sender), Some(receiver)))?
        } else {
            (None, None)
        };
        let (slot, parent) = (self.slots()[number].for_heir(), rustix::process::getpid());
        slot.occupy(command);
        let heirs = Heirs::begin();
        let takes_over = self.entries[number].used;
        match fork() {
            Err(error) => {
                slot.vacate();
                Err(error)
            }
            Ok(Fork::Parent(pid)) => {
                slot.pid.store(pid.as_raw_nonzero().get().unsigned_abs(), Relaxed);
                let process = pidfd_open(pid, PidfdFlags::empty()).ok();
                let started_at = Instant::now();
                let informed = self.informed_at_start(number);
                let process = EdgeProcess { pid, process, waker, link, started_at, successor, informed };
                self.pace.started(started_at);
                self.entries[number] = EdgeEntry { process: Some(process), used: true, ..EdgeEntry::default() };
                slot.parent_account.count(Counter::EdgesStarted);
                let level = if self.pace.leaves_lines_out() { log::Level::Debug } else { log::Level::Info };
                log::log!(level, "{} started (pid {pid})", self.name(number));
                Ok(None)
            }
            Ok(Fork::Child) => {
                leave_report();
                self.entries.clear();
                Ok(Some(ForkedEdge { number, slot, takes_over, wake, waker, parent_link, handed, parent, heirs }))
            }
        }
    }

    /// Returns `edge`, or `edge 2` where there are several.
    fn name(&self, number: usize) -> String {
        child::name(number, self.settings.edges_wanted())
    }

    /// Collects the exit status of edges that have ended. Returns whether the server cannot continue, because no edge has ever
    /// begun to serve.
    pub(super) fn reap(&mut self) -> bool {
        let mut cannot_serve = false;
        let pids: Vec<Pid> =
            self.entries.iter().filter_map(|entry| entry.process.as_ref()).map(|process| process.pid).collect();
        for pid in pids {
            let end = match waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) | Err(Errno::INTR) => continue,
                Ok(Some((_, status))) => self.ended(pid, Some(status)),
                // An app may have set SIGCHLD to be ignored: then the exit status is lost.
                Err(_) => self.ended(pid, None),
            };
            cannot_serve |= end == EdgeEnd::CannotServe;
        }
        cannot_serve
    }

    /// Records that a process has ended, if it was an edge. `status` is `None` if the exit status is lost.
    pub(super) fn ended(&mut self, pid: Pid, status: Option<WaitStatus>) -> EdgeEnd {
        let is_it = |entry: &EdgeEntry| entry.process.as_ref().is_some_and(|process| process.pid == pid);
        let Some(number) = self.entries.iter().position(is_it) else { return EdgeEnd::NoEdge };
        let Some(EdgeProcess { started_at, .. }) = self.entries[number].process.take() else { return EdgeEnd::NoEdge };
        let slot = self.slots()[number];
        let (state, connections) = (slot.state(), slot.connections.load(Relaxed));
        slot.vacate();
        let (name, end) = (self.name(number), status.map_or_else(|| "ended".to_owned(), describe_end));
        if let EdgesPhase::Draining { cut, .. } = &mut self.phase {
            if slot.command() != WorkerCommand::Quit && status.is_some_and(|status| status.exit_status() != Some(0)) {
                slot.parent_account.count(Counter::EdgesFailed);
                log::error!("{name} (pid {pid}) {end}, with {} open", counted(connections as usize, "connection"));
                *cut |= connections > 0;
            }
            return EdgeEnd::Usual;
        }
        slot.parent_account.count(Counter::EdgesFailed);
        let (now, connections) = (Instant::now(), counted(connections as usize, "connection"));
        match self.pace.end_of_line(now) {
            Some(rest) => log::error!("{name} (pid {pid}) {end}, with {connections} open; another one starts{rest}"),
            None => log::debug!("{name} (pid {pid}) {end}, with {connections} open; another one starts"),
        }
        let killed = status.is_none_or(|status| status.terminating_signal().is_some());
        self.has_served |= state != WorkerState::Starting;
        if !self.has_served && !killed && self.entries.iter().all(|entry| entry.process.is_none()) {
            return EdgeEnd::CannotServe;
        }
        if state != WorkerState::Starting {
            if self.pace.lost(now) {
                log::warn!(
                    "edges end so often that their replacements wait: after twenty at once, ten are started in a second"
                );
            }
        } else if let Some(pause) = self.pace.failed(now, now - started_at).filter(|pause| !pause.is_zero()) {
            log::warn!("the next edge starts in {:.1} s", pause.as_secs_f64());
        }
        EdgeEnd::Usual
    }

    /// Returns the requests of edges about workers: see [`parent_link::Reason`]. The process ids in them have not been checked.
    pub(super) fn requests(&self) -> Vec<WorkerRequest> {
        let processes = self.entries.iter().filter_map(|entry| entry.process.as_ref());
        let all =
            processes.flat_map(|process| std::iter::from_fn(|| process.link.next()).map(move |request| (process, request)));
        all.filter(|(process, request)| !process.informed.note(*request)).map(|(_, request)| request).collect()
    }

    fn send_command(&self, command: WorkerCommand) {
        for (entry, slot) in self.entries.iter().zip(self.slots()) {
            if let Some(process) = &entry.process {
                slot.set_command(command);
                // If the pipe is full, the edge wakes up anyway.
                let _ = rustix::io::write(&process.waker, &[0]);
            }
        }
    }

    /// Sends the edges the current certificates of these listeners.
    pub(super) fn give_certificates(&self, listeners: &[Listener]) {
        let renewed = match Renewed::fill(listeners) {
            Ok(Some(renewed)) => renewed,
            Ok(None) => return,
            Err(error) => return log::error!("cannot send the certificates to the edges: {error}"),
        };
        for (number, entry) in self.entries.iter().enumerate() {
            let Some(process) = &entry.process else { continue };
            if let Err(error) = process.link.give_certificates(renewed.as_fd()) {
                log::error!("cannot send the certificates to {}: {error}", self.name(number));
            }
            let _ = rustix::io::write(&process.waker, &[0]);
        }
    }

    /// Announces to the edges whether the server is about to end.
    pub(super) fn set_drain_state(&self, drain_state: DrainState) {
        // All slots share this value.
        if let Some(slot) = self.slots().first() {
            slot.set_drain_state(drain_state);
        }
        for process in self.entries.iter().filter_map(|entry| entry.process.as_ref()) {
            let _ = rustix::io::write(&process.waker, &[0]);
        }
    }

    /// Begins to stop: new connections are turned away, and arrived requests are answered, until `deadline`.
    pub(super) fn drain(&mut self, listeners: &mut [Listener], deadline: Instant) {
        if !matches!(self.phase, EdgesPhase::Serving) {
            return;
        }
        let mut closing = Closing::default();
        let lent = is_any_lent(listeners);
        let command = if lent { WorkerCommand::Retire } else { WorkerCommand::Drain };
        if !lent {
            closing.begin(listeners);
        }
        let awaits_clients = closing.awaits_clients();
        self.phase = EdgesPhase::Draining { deadline, closing, command, cut: false };
        if awaits_clients { self.set_drain_state(DrainState::Closing) } else { self.send_command(command) }
    }

    /// Records that the edges of the previous server will hand their connections over to these edges, which have not been
    /// started yet.
    pub(super) fn succeed(&mut self) {
        self.succeeds = true;
    }

    /// Returns the destinations for the connections of the previous server's edges, one for each edge. `None` until all edges
    /// here serve.
    pub(super) fn successors(&mut self) -> Option<Vec<Sender>> {
        if !self
            .slots()
            .iter()
            .zip(&self.entries)
            .all(|(slot, entry)| entry.process.is_some() && slot.state() == WorkerState::Ready)
        {
            return None;
        }
        self.succeeds = false;
        Some(self.entries.iter_mut().filter_map(|entry| entry.process.as_mut()?.successor.take()).collect())
    }

    /// Begins to stop in favour of another server, which accepts at the same listeners. The edges here hand over as many
    /// connections as possible to `successors`, the sockets of that server's edges, until `deadline`. If `successors` is empty,
    /// connections close after their next responses.
    pub(super) fn hand_over(&mut self, successors: &[Sender], deadline: Instant) {
        if !matches!(self.phase, EdgesPhase::Serving) {
            return;
        }
        for (number, process) in
            self.entries.iter().enumerate().filter_map(|(number, entry)| Some((number, entry.process.as_ref()?)))
        {
            if !successors.is_empty()
                && let Err(error) = process.link.name_successor(&successors[number % successors.len()])
            {
                log::error!("{} cannot be sent the destination of its connections: {error}", self.name(number));
            }
        }
        let command = if successors.is_empty() { WorkerCommand::Retire } else { WorkerCommand::HandOver };
        self.phase = EdgesPhase::Draining { deadline, closing: Closing::default(), command, cut: false };
        self.send_command(command);
    }

    /// While draining: commands the edges to finish now, because no process would answer further clients.
    pub(super) fn stop_awaiting_clients(&mut self) {
        let EdgesPhase::Draining { closing, command, .. } = &mut self.phase else { return };
        let command = *command;
        closing.stop_awaiting_clients();
        self.send_command(command);
    }

    /// While draining: kills the edges at the deadline. When all edges have ended, starts a last edge for connections that have
    /// arrived in the meantime. In that edge it returns the parameters of the edge.
    pub(super) fn finish_up(
        &mut self,
        listeners: &[Listener],
        fork: impl Fn() -> io::Result<Fork>,
    ) -> (Drained, Option<ForkedEdge>) {
        let left = self.entries.iter().any(|entry| entry.process.is_some());
        let EdgesPhase::Draining { closing, command, .. } = &mut self.phase else { return (Drained::NotYet, None) };
        if closing.have_all_arrived(listeners) {
            let command = *command;
            self.send_command(command);
        }
        let EdgesPhase::Draining { deadline, closing, cut, .. } = &mut self.phase else { return (Drained::NotYet, None) };
        closing.close_if_quiet(listeners);
        if left {
            if Instant::now() >= *deadline {
                self.end_now("time to finish is over");
            }
            return (Drained::NotYet, None);
        }
        let done = Drained::Done { cut: *cut };
        match closing.next_step(listeners, *deadline) {
            NextStep::Wait => (Drained::NotYet, None),
            NextStep::Nothing => (done, None),
            NextStep::ForkOneMore(command) => match self.start(0, command, fork) {
                Ok(forked) => (Drained::NotYet, forked),
                Err(error) => {
                    log::error!("cannot start an edge for clients that are connected and not accepted yet: {error}");
                    (done, None)
                }
            },
        }
    }

    /// Kills all edges.
    pub(super) fn end_now(&mut self, reason: &str) {
        let mut connections = 0;
        for (number, (entry, slot)) in self.entries.iter().zip(self.slots()).enumerate() {
            if let Some(process) = &entry.process
                && slot.command() != WorkerCommand::Quit
            {
                if let Some(state) = process_state::of(process.pid) {
                    log::info!("{reason}: killing {} (pid {}), which {state}", self.name(number), process.pid);
                }
                connections += slot.connections.load(Relaxed);
                slot.set_command(WorkerCommand::Quit);
                // The edge has not been waited for, so its process id cannot belong to another process.
                let _ = kill_process(process.pid, Signal::KILL);
            }
        }
        if connections > 0 {
            log::warn!("{reason}: killed the edges with {}", counted(connections as usize, "open connection"));
        }
        let closing = Closing::default();
        let deadline = Instant::now() + AFTER_KILL;
        self.phase = EdgesPhase::Draining { deadline, closing, command: WorkerCommand::Quit, cut: connections > 0 };
    }

    /// Whether no edge is left.
    pub(super) fn are_gone(&self) -> bool {
        self.entries.iter().all(|entry| entry.process.is_none())
    }

    /// Whether no edge is missing.
    pub(super) fn are_all_there(&self) -> bool {
        self.entries.iter().all(|entry| entry.process.is_some())
    }

    /// Returns the descriptors for the parent to watch: for requests of edges, and for their ends.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let processes = self.entries.iter().filter_map(|entry| entry.process.as_ref());
        processes.flat_map(|process| [process.link.arrival(), process.process.as_ref().map(AsFd::as_fd)]).flatten()
    }

    /// Returns the longest time that the parent may sleep. `None` without a deadline.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        let is_unwatched = |process: &EdgeProcess| process.process.is_none();
        let unwatched = self.entries.iter().filter_map(|entry| entry.process.as_ref()).any(is_unwatched);
        let look = unwatched.then_some(super::LOOK_FOR_ENDED);
        let look = look.into_iter().chain(self.next_try()).min();
        let next = match &self.phase {
            EdgesPhase::Serving if self.entries.iter().any(|entry| entry.process.is_none()) => Some(self.pace.wait(now)),
            EdgesPhase::Serving => None,
            EdgesPhase::Draining { .. } if self.are_gone() => Some(super::LOOK_FOR_HANDSHAKES),
            EdgesPhase::Draining { deadline, closing, .. } => {
                let next = closing.next_look().map_or(*deadline, |time| time.min(*deadline));
                Some(next.saturating_duration_since(now))
            }
        };
        next.into_iter().chain(look).min()
    }
}
