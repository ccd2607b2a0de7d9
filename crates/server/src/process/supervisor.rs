//! The supervisor forks, replaces and stops workers.

mod aging;
mod behind_edges;
mod below_master;
mod farewell;
mod staffing;
mod starting;
mod steered;
mod stopping;
mod stuck;

use super::adoption::adopt_or_open;
use super::edges::{Edges, End};
use super::farewell::Farewell;
use super::foreground::leave_report;
use super::inheritance::{self, Inheritance, Link, Word};
use super::io_model;
use super::member::Member;
use super::notices::Notices;
use super::notify::Notifier;
use super::pace::Pace;
use super::pid_file::PidFile;
use super::places::Pools;
use super::privileges::Privileges;
use super::reasons::Reasons;
use super::restart_file::RestartFile;
use super::signals::{self, Signals, Wishes};
use super::title::Title;
use super::watch::{self, Watch};
use super::worker::{self, Post};
use super::{LOOK_FOR_ENDED, LOOK_FOR_HANDSHAKES, describe_end, descriptor_shortage, raise_descriptor_limit, scaling};
use crate::config::Settings;
use crate::config::counted;
use crate::control::{self, Control};
use crate::listen::{Listener, Seat};
use crate::scoreboard::{Scoreboard, WorkerCommand, WorkerSlot, WorkerState};
use oribi_host::Runtime;
use oribi_io::process::{Fork, Heirs, fork, note_forks};
use oribi_pool::Memory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use stopping::Stage;

/// How often process 1, which inherits all orphans, looks for ended ones. Nobody is waiting for them.
const LOOK_FOR_ORPHANS: Duration = Duration::from_secs(2);

/// Serves until told to stop and returns the exit status for the process: 0, or 1 if it could not start or requests had to be
/// cut off. In a worker it does not return. The process must have only one thread.
///
/// On TERM, INT and QUIT it finishes running requests, and on a second TERM or INT it ends at once. HUP replaces the workers,
/// USR1 opens the logs again (with a `spawn_interval`: stops slowly), TTIN and TTOU change the number of workers. Under a
/// master, it leaves INT and HUP to the master, and only the master can make it end at once.
pub fn supervise(settings: &Settings, runtime: &dyn Runtime) -> i32 {
    let mut supervisor = match Supervisor::start(settings, runtime) {
        Ok(supervisor) => supervisor,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    let status = supervisor.run();
    if supervisor.master.is_none() {
        supervisor.listeners.iter_mut().for_each(Listener::end);
    }
    status
}

/// How many threads of a worker take requests by themselves.
fn lanes_of_worker(settings: &Settings, runtime: &dyn Runtime) -> usize {
    if runtime.global_lock().is_some() { 1 } else { settings.threads.max(1) }
}

/// Logs how sockets are assigned to lanes, if each lane has its own.
fn say_who_has_sockets(listeners: &[Listener], settings: &Settings) {
    let owners = settings.sockets_of_address();
    if owners > 1 {
        for listener in listeners {
            let alone = listener.sockets().count() > 1;
            let what = if alone { "a socket for each" } else { "one socket, as there can be no more, for all" };
            let who = if settings.edges_wanted() > 0 { "edges" } else { "lanes" };
            log::info!("{} has {what} of {owners} {who}", listener.display);
        }
    }
}

struct Supervisor<'a> {
    settings: &'a Settings,
    runtime: &'a dyn Runtime,
    /// Empty in a mold if there are edges.
    listeners: Vec<Listener>,
    /// The edges, if this process keeps them.
    edges: Option<Edges<'a>>,
    /// The memory that workers share with the edges of the master; empty: there are none.
    pools: Vec<Memory>,
    privileges: Privileges,
    /// The link to the process that opened the listeners and decides; `None`: this process does.
    master: Option<Link>,
    /// How many times the master has loaded the app, including this time.
    generation: u64,
    signals: Signals,
    wishes: Wishes,
    /// Tells nobody if this process has a master.
    notifier: Notifier,
    /// Workers write to it when their state changes.
    notices: Notices,
    /// In which workers say why they cannot serve.
    reasons: Reasons,
    scoreboard: Scoreboard,
    members: Vec<Member>,
    /// How many workers should accept connections.
    wanted: usize,
    /// The master is to be told when there are so many.
    owes_settled: bool,
    pace: Pace,
    stage: Stage,
    /// It has been told to stop, and still serves. A master decides that for its molds.
    farewell: Option<Farewell>,
    /// When everything must have ended, if a stop has begun here or the master has said so.
    stop_by: Option<Instant>,
    /// Workers are to be replaced by fresh ones.
    replacing: bool,
    /// The system does not tell exactly how much memory workers use.
    weighs_roughly: bool,
    /// How many workers have ended before they could serve, until the start has been reported.
    failed_starts: usize,
    /// Whether any worker has become ready.
    served: bool,
    /// Whether the start has been reported, to the master or in the log.
    announced: bool,
    /// `None`: the master watches it, or there is none.
    restart_file: Option<RestartFile<'a>>,
    /// `None`: the master has it, or there is none.
    control: Option<Control>,
    born: Instant,
    /// Why the last replacement of the workers was given up; `None`: it was not.
    replacement_failure: Option<String>,
    /// The files of the app, if workers are replaced when one of them changes.
    watch: Option<Watch>,
    _pid_file: Option<PidFile>,
}

impl<'a> Supervisor<'a> {
    fn start(settings: &'a Settings, runtime: &'a dyn Runtime) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let mut privileges = Privileges::of(settings)?;
        let signals = Signals::watch(false).map_err(|error| failed("watch signals", error))?;
        note_forks().map_err(|error| failed("watch for forks", error))?;
        let descriptors = raise_descriptor_limit();
        let io = io_model::explain(settings, runtime)?;
        let (master, listeners, pools, board, generation) = match inheritance::inherit()? {
            Some(Inheritance { master, listeners, pools, board, generation }) => {
                (Some(master), listeners, pools, board, generation)
            }
            None => {
                privileges.look_up_edges(settings)?;
                (None, adopt_or_open(settings)?, Vec::new(), None, 1)
            }
        };
        if generation == 1 {
            log::info!("{io}");
            if let Some(shortage) = descriptor_shortage(descriptors, settings.limits.connections) {
                log::warn!("{shortage}");
            }
            say_who_has_sockets(&listeners, settings);
        }
        let notices = Notices::new().map_err(|error| failed("make a pipe", error))?;
        let reasons = Reasons::new().map_err(|error| failed("make a pipe", error))?;
        let wanted = settings.workers.max(1);
        let scoreboard =
            below_master::scoreboard(settings, board).map_err(|error| failed("share memory with workers", error))?;
        let mut supervisor = Self {
            settings,
            runtime,
            listeners,
            edges: None,
            pools,
            privileges,
            signals,
            wishes: Wishes::default(),
            notifier: Notifier::default(),
            notices,
            reasons,
            scoreboard,
            members: Vec::new(),
            wanted,
            owes_settled: false,
            pace: Pace::new(settings.spawn_interval, settings.respawn_interval),
            stage: Stage::Serving,
            farewell: None,
            stop_by: None,
            replacing: false,
            weighs_roughly: false,
            failed_starts: 0,
            served: false,
            announced: false,
            restart_file: None,
            control: None,
            born: Instant::now(),
            replacement_failure: None,
            watch: None,
            _pid_file: None,
            master,
            generation,
        };
        if supervisor.master.is_none() {
            supervisor.watch = watch::begin(settings);
            supervisor.restart_file = settings.restart_file.as_deref().map(|path| RestartFile::new(path, Instant::now()));
            supervisor.notifier = Notifier::of_environment();
            let handed_over = supervisor.privileges.hand_over(settings, &supervisor.listeners);
            let lanes = lanes_of_worker(settings, runtime);
            let started = handed_over.and_then(|()| {
                supervisor.edges = Edges::new(settings, lanes)?;
                supervisor.control = Control::open(settings)?;
                settings.pid_file.as_deref().map(PidFile::write).transpose()
            });
            match started {
                Ok(file) => supervisor._pid_file = file,
                Err(message) => {
                    supervisor.listeners.iter_mut().for_each(Listener::remove_file);
                    return Err(message);
                }
            }
            supervisor.notifier.store(&mut supervisor.listeners, settings);
            supervisor.notifier.loading();
        }
        supervisor.entitle("starting");
        Ok(supervisor)
    }

    /// Sets the title of this process.
    fn entitle(&self, state: &str) {
        let role = if self.master.is_some() { "mold" } else { "supervisor" };
        Title { role, generation: self.generation_told(), state }.show(self.settings, Some(self.runtime));
    }

    /// The number of the generation, if there may be others.
    fn generation_told(&self) -> Option<u64> {
        self.master.as_ref().map(|_| self.generation)
    }

    /// Whether edges have the connections.
    fn has_edges(&self) -> bool {
        self.edges.is_some() || !self.pools.is_empty()
    }

    fn run(&mut self) -> i32 {
        self.keep_edges();
        // A reason that prevents the first fork will prevent all others.
        if let Err(error) = self.start_worker(WorkerCommand::Serve, self.vacant_seat()) {
            log::error!("cannot start a worker: {error}");
            self.edges.iter_mut().for_each(|edges| edges.end_now("there is no worker"));
            return 1;
        }
        loop {
            self.signals.rearm();
            self.notices.rearm();
            self.obey_signals();
            self.obey_master();
            self.go_on_with_farewell();
            self.reap();
            self.announce();
            self.end_overdue();
            self.end_late_starters();
            self.replace_aged();
            self.keep_app_deadlines();
            self.obey_edges();
            self.let_next_leave();
            self.keep_watchdog();
            let finished = match self.stage {
                Stage::Serving => {
                    self.keep_edges();
                    self.keep_staffed();
                    false
                }
                Stage::Draining => {
                    self.keep_staffed();
                    self.drain_edges();
                    false
                }
                Stage::Leaving { .. } => false,
                Stage::Stopping { .. } => self.finish_up(),
                Stage::Failed => self.members.is_empty() && self.edges.as_ref().is_none_or(Edges::are_gone),
            };
            if finished {
                break;
            }
            if !control::steer(self) {
                self.sleep();
            }
        }
        let status = match self.stage {
            Stage::Stopping { cut: true, .. } | Stage::Failed => 1,
            _ => 0,
        };
        control::say_end(self, status);
        status
    }

    fn obey_signals(&mut self) {
        if let Some(master) = &self.master {
            let (term, quit) = (signals::take(Signal::TERM), signals::take(Signal::QUIT));
            signals::take(Signal::INT);
            // A terminal sends INT to all processes, and a service manager may send TERM to all: the master gets it, too, and
            // tells how often it was meant. If TERM was only for this process, the master starts another generation.
            // Requests wait for the workers until the edges have ended, or another generation has taken over. The master may
            // also give others time to learn of the end.
            let waits = self.has_edges() || !self.settings.timeouts.farewell.is_zero();
            match term + quit {
                0 => {}
                _ if waits => master.say(Word::Told),
                _ => self.stop(WorkerCommand::Retire),
            }
        } else {
            self.obey_stops();
        }
        // A terminal sends HUP to the master, too, which then loads the app anew.
        let told = signals::take(Signal::HUP) > 0 && self.master.is_none();
        let touched = self.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        if watch::look(self.watch.as_mut()) || told || touched {
            self.replace_all();
        }
        if signals::take(Signal::USR1) > 0 {
            if self.master.is_none() && !self.settings.spawn_interval.is_zero() {
                self.leave_slowly();
            } else {
                self.reopen_logs();
            }
        }
        if signals::take(Signal::USR2) > 0 {
            log::warn!("{}", signals::NO_USR2);
        }
        let (more, fewer) = (signals::take(Signal::TTIN) as usize, signals::take(Signal::TTOU) as usize);
        if more + fewer > 0
            && let Err(why) = self.have_workers(scaling::changed(self.settings, self.wanted, more, fewer))
        {
            log::warn!("{why}");
        }
    }

    fn start_worker(&mut self, command: WorkerCommand, seat: Seat) -> io::Result<()> {
        let slots = self.scoreboard.slots();
        let vacant = slots.iter().position(|slot| slot.state() == WorkerState::Vacant);
        let index = vacant.ok_or_else(|| io::Error::other(format!("{} not ended yet", counted(slots.len(), "worker"))))?;
        let (slot, number) = (slots[index], index + 1);
        self.runtime.before_fork(number);
        let (wake, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let supervisor = rustix::process::getpid();
        slot.occupy(command);
        let heirs = Heirs::begin();
        // The language may have threads that it can leave behind correctly.
        let forked = self.runtime.fork().map_or_else(fork, |forked| forked.map(Fork::from_return));
        match forked {
            Err(error) => {
                slot.vacate();
                Err(error)
            }
            Ok(Fork::Parent(pid)) => {
                slot.pid.store(pid.as_raw_nonzero().get().unsigned_abs(), Relaxed);
                let process = pidfd_open(pid, PidfdFlags::empty()).ok();
                let born = Instant::now();
                let mut member = Member::new(slot, number, pid, seat.number, waker, process, born);
                member.due = self.settings.life.max_lifetime.map(|most| born + aging::draw_lifetime(most));
                self.members.push(member);
                self.pace.started(born);
                log::debug!("worker {number} started (pid {pid})");
                Ok(())
            }
            Ok(Fork::Child) => {
                leave_report();
                self.become_worker(slot, number, seat, (wake, waker), supervisor, heirs)
            }
        }
    }

    /// In a new worker: releases what belongs to the supervisor.
    fn become_worker(
        &mut self,
        slot: WorkerSlot,
        number: usize,
        seat: Seat,
        (wake, waker): (OwnedFd, OwnedFd),
        supervisor: Pid,
        heirs: Heirs,
    ) -> ! {
        let generation = self.generation_told();
        self.members.clear();
        (self.master, self.watch, self.control) = (None, None, None);
        let own = self.edges.take().map(Edges::into_pools);
        let pools = own.unwrap_or_else(|| std::mem::take(&mut self.pools));
        if !pools.is_empty() {
            // The clients of a worker behind edges are no business of its app's.
            self.listeners.clear();
        }
        self.reasons.keep_writer();
        let notice = std::mem::take(&mut self.notices).into_writer().unwrap_or_else(|error| {
            log::error!("worker {number}: {error}");
            oribi_io::process::exit_now(1)
        });
        let post = Post {
            settings: self.settings,
            runtime: self.runtime,
            listeners: &self.listeners,
            pools: Pools::new(pools, lanes_of_worker(self.settings, self.runtime)),
            privileges: &self.privileges,
            generation,
            seat,
            slot,
            number,
            wake,
            waker,
            notice,
            reasons: &self.reasons,
            supervisor,
        };
        post.entitle("");
        worker::live(&post, &mut self.signals, heirs)
    }

    /// Records workers that have ended.
    fn reap(&mut self) {
        if rustix::process::getpid().is_init() {
            self.reap_orphans();
        }
        if self.edges.as_mut().is_some_and(Edges::reap) {
            self.fail_without_edge();
        }
        let mut index = 0;
        while index < self.members.len() {
            match waitpid(Some(self.members[index].pid), WaitOptions::NOHANG) {
                Ok(None) => index += 1,
                Ok(Some((_, status))) => self.worker_ended(index, Some(status)),
                Err(Errno::INTR) => {}
                // An app may have set SIGCHLD to be ignored: then the system does not tell how the worker ended.
                Err(_) => self.worker_ended(index, None),
            }
        }
    }

    /// Process 1 becomes the parent of every orphan.
    fn reap_orphans(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            match self.edges.as_mut().map_or(End::NoEdge, |edges| edges.ended(pid, Some(status))) {
                End::NoEdge => {}
                End::Usual => continue,
                End::CannotServe => self.fail_without_edge(),
            }
            if let Some(index) = self.members.iter().position(|member| member.pid == pid) {
                self.worker_ended(index, Some(status));
            }
        }
    }

    fn worker_ended(&mut self, index: usize, status: Option<WaitStatus>) {
        let member = self.members.remove(index);
        let (state, command) = (member.slot.state(), member.slot.command());
        let (requests, connections) = (member.slot.requests.load(Relaxed), member.slot.connections.load(Relaxed));
        member.slot.vacate();
        let (number, pid) = (member.number, member.pid);
        let well = status.is_none_or(|status| status.exit_status() == Some(0));
        if well && (state != WorkerState::Starting || command != WorkerCommand::Serve) {
            log::debug!("worker {number} (pid {pid}) ended after {}", counted(requests as usize, "request"));
            return;
        }
        if command == WorkerCommand::Quit && !member.late {
            return;
        }
        let mut end = status.map_or_else(|| "ended".to_owned(), describe_end);
        let started = state != WorkerState::Starting;
        if started {
            let (requests, open) = (counted(requests as usize, "request"), counted(connections as usize, "connection"));
            log::error!("worker {number} (pid {pid}) {end} after {requests}, with {open} open");
        } else {
            if member.late {
                let seconds = self.settings.life.boot_timeout.as_secs_f64();
                end = format!("was ended after {seconds} s (--boot-timeout)");
            }
            end.push_str(" before it could serve");
            if let Some(reason) = self.reasons.of(pid.as_raw_nonzero().get().unsigned_abs()) {
                end = format!("{end}: {reason}");
            }
            log::error!("worker {number} (pid {pid}) {end}");
        }
        member.slot.count_failure();
        match &mut self.stage {
            Stage::Serving | Stage::Draining => {}
            Stage::Leaving { .. } | Stage::Failed => return,
            Stage::Stopping { cut, .. } => {
                *cut |= connections > 0;
                return;
            }
        }
        // A worker that a signal has killed says nothing about its replacement.
        let failed = member.late || status.is_none_or(|status| status.terminating_signal().is_none());
        if !started && failed && self.start_has_failed(member.outdated, &format!("worker {number} {end}")) {
            return;
        }
        let now = Instant::now();
        if self.lacks_workers()
            && let Some(pause) = self.pace.failed(now, now - member.born)
        {
            log::warn!("the next one starts in {:.1} s{}", pause.as_secs_f64(), self.pace.how_often());
        }
    }

    /// Opens the log files again, in all processes.
    fn reopen_logs(&mut self) {
        super::reopen_error_log(self.settings, &self.privileges);
        self.edges.iter().for_each(Edges::reopen_logs);
        let Some(member) = self.members.first() else { return };
        member.slot.log_opening.fetch_add(1, Relaxed);
        self.members.iter().for_each(Member::wake);
    }

    /// Tells the service manager that this server is alive, as long as its edges and workers are there.
    fn keep_watchdog(&mut self) {
        let Self { notifier, members, edges, stage, .. } = self;
        let serves = !members.is_empty() && edges.as_ref().is_none_or(Edges::are_all_there);
        notifier.keep_watchdog(Instant::now(), || serves || !matches!(stage, Stage::Serving));
    }

    /// Sleeps until something happens.
    fn sleep(&self) {
        let now = Instant::now();
        let mut timeout = match self.stage {
            Stage::Serving => Some(self.pace.wait(now)).filter(|wait| !wait.is_zero()),
            Stage::Stopping { deadline, ref closing, .. } => {
                let next = closing.next_look().map_or(deadline, |moment| moment.min(deadline));
                Some(next.saturating_duration_since(now))
            }
            Stage::Leaving { next } => Some(next.saturating_duration_since(now)),
            Stage::Draining | Stage::Failed => None,
        };
        let farewell = self.farewell.as_ref().map(|farewell| farewell.wait(now));
        let mut at_most = |limit: Duration| timeout = Some(timeout.map_or(limit, |present| present.min(limit)));
        let arrivals = [self.signals.arrival(), self.notices.arrival()].into_iter().flatten();
        let mut polled: Vec<_> = arrivals.map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).collect();
        polled.extend(self.master.iter().map(|master| PollFd::from_borrowed_fd(master.0.as_fd(), PollFlags::IN)));
        if self.members.is_empty() && matches!(self.stage, Stage::Stopping { .. }) {
            at_most(LOOK_FOR_HANDSHAKES);
        }
        self.next_late_starter(now).into_iter().chain(self.next_aged(now)).for_each(&mut at_most);
        if let (Stage::Serving, Some(file)) = (&self.stage, &self.restart_file) {
            at_most(file.wait(now));
        }
        if self.settings.watched_threads() > 0 && !self.members.is_empty() {
            at_most(self.look_for_stuck());
        }
        let of_edges = self.edges.as_ref().and_then(|edges| edges.patience(now));
        let of_control = self.control.as_ref().and_then(|control| control.patience(now));
        let waits = of_edges.into_iter().chain(of_control).chain(farewell);
        waits.chain(self.notifier.patience(now)).for_each(&mut at_most);
        polled.extend(self.control.iter().flat_map(Control::polled));
        if let Some(watch) = &self.watch {
            polled.push(PollFd::from_borrowed_fd(watch.descriptor(), PollFlags::IN));
            watch.wait(now).into_iter().for_each(&mut at_most);
        }
        let of_edges = self.edges.iter().flat_map(Edges::descriptors);
        polled.extend(of_edges.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        for member in &self.members {
            if let Some(end_by) = member.end_by {
                at_most(end_by.saturating_duration_since(now));
            }
            match &member.process {
                Some(process) => polled.push(PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)),
                None => at_most(LOOK_FOR_ENDED),
            }
        }
        if rustix::process::getpid().is_init() {
            at_most(LOOK_FOR_ORPHANS);
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                log::error!("cannot wait for workers: {}", io::Error::from(error));
                // Prevents a busy loop while the system is short of memory.
                std::thread::sleep(LOOK_FOR_ENDED);
            }
        }
    }
}
