//! The supervisor: forks workers, replaces them, stops them.

use super::adoption::adopt_or_open;
use super::inheritance::{self, Inheritance, Link, News, Word};
use super::listener::Listener;
use super::pace::Pace;
use super::pid_file::PidFile;
use super::scoreboard::{Scoreboard, WorkerCommand, WorkerSlot, WorkerState};
use super::signals::{self, Signals, Wish, Wishes};
use super::worker::{self, Post};
use super::{describe_end, raise_descriptor_limit};
use crate::config::Settings;
use oribi_host::Runtime;
use oribi_io::process::{Fork, Watch, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often ended workers are looked for where the system has no descriptors for processes (Linux before 5.3).
const LOOK_FOR_ENDED: Duration = Duration::from_millis(250);

/// How often orphans are looked for by process 1, which inherits them all. Nobody waits for them.
const LOOK_FOR_ORPHANS: Duration = Duration::from_secs(2);

/// How many workers may be forked one after the other to empty the queues of the listeners when all others have ended.
const LAST_WORKERS: usize = 3;

/// How long handshakes that have begun may take once new connections are turned away: the first retransmission included (RFC
/// 6298, section 2.1).
const HANDSHAKES: Duration = Duration::from_secs(1);

/// Serves until told to stop and returns the exit status for the process: 0, or 1 when it could not start or when requests had
/// to be cut off. In a worker it does not return. The process must have one thread only.
///
/// TERM and INT (and QUIT) finish what is running, a second TERM or INT ends at once; TTIN and TTOU change the number of
/// workers. Started by a master, it leaves INT to that and lets only the master hurry it.
pub fn supervise(settings: &Settings, runtime: &dyn Runtime) -> i32 {
    let mut supervisor = match Supervisor::start(settings, runtime) {
        Ok(supervisor) => supervisor,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    let status = supervisor.run();
    supervisor.listeners.iter_mut().for_each(Listener::remove_file);
    status
}

struct Supervisor<'a> {
    settings: &'a Settings,
    runtime: &'a dyn Runtime,
    listeners: Vec<Listener>,
    /// The process that opened the listeners and decides; `None`: this one does.
    master: Option<Link>,
    signals: Signals,
    wishes: Wishes,
    /// Workers write to it when their state changes.
    notices: (OwnedFd, OwnedFd),
    scoreboard: Scoreboard,
    members: Vec<Member>,
    /// How many workers should accept connections.
    wanted: usize,
    pace: Pace,
    stage: Stage,
    /// Whether a worker has ever been ready.
    served: bool,
    _broken_pipes: Watch,
    _pid_file: Option<PidFile>,
}

/// A worker as its supervisor knows it.
struct Member {
    slot: WorkerSlot,
    /// Counted from 1.
    number: usize,
    pid: Pid,
    waker: OwnedFd,
    /// Readable when it has ended.
    process: Option<OwnedFd>,
    born: Instant,
}

enum Stage {
    Serving,
    Stopping {
        /// `Drain` when nobody will accept connections behind this process, else `Retire`.
        command: WorkerCommand,
        /// When those that have not finished are ended.
        deadline: Instant,
        /// Workers that may still be forked to empty the queues.
        last_workers: usize,
        /// When listeners whose queue is empty may be closed; `None`: not, or done.
        close_listeners: Option<Instant>,
        /// Something had to be cut off.
        cut: bool,
    },
}

impl<'a> Supervisor<'a> {
    fn start(settings: &'a Settings, runtime: &'a dyn Runtime) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let broken_pipes = signals::survive_broken_pipes().map_err(|error| failed("watch signals", error))?;
        let signals = Signals::watch(false).map_err(|error| failed("watch signals", error))?;
        raise_descriptor_limit();
        let (master, listeners) = match inheritance::inherit()? {
            Some(Inheritance { master, listeners }) => (Some(master), listeners),
            None => (None, adopt_or_open(settings)?),
        };
        let notices =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|error| failed("make a pipe", error.into()))?;
        let wanted = settings.workers.max(1);
        // Twice as many for replacements that start beside those they replace, and as many again for those that still have
        // slow requests to finish; a few more so that TTIN has room.
        let scoreboard = Scoreboard::new(wanted.saturating_mul(4).saturating_add(64))
            .map_err(|error| failed("share memory with workers", error))?;
        let mut supervisor = Self {
            settings,
            runtime,
            listeners,
            signals,
            wishes: Wishes::default(),
            notices,
            scoreboard,
            members: Vec::new(),
            wanted,
            pace: Pace::new(settings.spawn_interval, settings.respawn_interval),
            stage: Stage::Serving,
            served: false,
            _broken_pipes: broken_pipes,
            _pid_file: None,
            master,
        };
        if supervisor.master.is_none() {
            match settings.pid_file.as_deref().map(PidFile::write).transpose() {
                Ok(file) => supervisor._pid_file = file,
                Err(message) => {
                    supervisor.listeners.iter_mut().for_each(Listener::remove_file);
                    return Err(message);
                }
            }
        }
        Ok(supervisor)
    }

    fn run(&mut self) -> i32 {
        // What keeps the very first worker from being forked will keep all others.
        if let Err(error) = self.start_worker(WorkerCommand::Serve) {
            log::error!("cannot start a worker: {error}");
            return 1;
        }
        loop {
            self.signals.rearm();
            signals::empty(&self.notices.0);
            self.obey_signals();
            self.obey_master();
            self.reap();
            self.announce();
            let finished = match self.stage {
                Stage::Serving => {
                    self.keep_staffed();
                    false
                }
                Stage::Stopping { .. } => self.finish_up(),
            };
            if finished {
                break;
            }
            self.sleep();
        }
        match self.stage {
            Stage::Stopping { cut: true, .. } => 1,
            _ => 0,
        }
    }

    fn obey_signals(&mut self) {
        let (term, interrupt, quit) = (signals::take(Signal::TERM), signals::take(Signal::INT), signals::take(Signal::QUIT));
        if self.master.is_some() {
            // A terminal sends INT to all processes, and a service manager may send TERM to all: the master, which got it
            // too, says how often it was meant. If TERM was for this process alone, the master starts another generation.
            if term + quit > 0 {
                self.stop(WorkerCommand::Retire);
            }
        } else {
            let stopping = matches!(self.stage, Stage::Stopping { .. });
            match self.wishes.heard(term + interrupt, stopping, Instant::now()) {
                Wish::EndNow => self.end_now("told to stop a second time"),
                Wish::Stop => self.stop(WorkerCommand::Drain),
                Wish::Nothing if quit > 0 => self.stop(WorkerCommand::Drain),
                Wish::Nothing => {}
            }
        }
        for (signal, name) in [(Signal::HUP, "HUP"), (Signal::USR1, "USR1"), (Signal::USR2, "USR2")] {
            if signals::take(signal) > 0 {
                log::warn!("signal {name} has no meaning here yet and is ignored");
            }
        }
        for _ in 0..signals::take(Signal::TTIN) {
            self.change_workers(Word::Grow);
        }
        for _ in 0..signals::take(Signal::TTOU) {
            self.change_workers(Word::Shrink);
        }
    }

    fn obey_master(&mut self) {
        while let Some(master) = &self.master {
            match master.hear() {
                News::Word(Word::Stop) => self.stop(WorkerCommand::Drain),
                News::Word(Word::Quit) => self.end_now("told to end at once"),
                News::Word(word) => self.change_workers(word),
                News::None => return,
                News::End => {
                    log::error!("the master has died");
                    self.master = None;
                    self.stop(WorkerCommand::Drain);
                }
            }
        }
    }

    fn change_workers(&mut self, word: Word) {
        let most = self.scoreboard.slots().len() / 4;
        match word {
            Word::Grow if self.wanted < most => self.wanted += 1,
            Word::Shrink if self.wanted > 1 => self.wanted -= 1,
            _ => return,
        }
        log::info!("workers: {}", self.wanted);
    }

    /// Begins to stop. A stop that leaves the queue to others may become one that does not.
    fn stop(&mut self, command: WorkerCommand) {
        // Who waits at a listener that is lent waits for the next server.
        let lent = self.listeners.iter().any(|listener| listener.lent);
        let command = if lent { WorkerCommand::Retire } else { command };
        match &mut self.stage {
            Stage::Serving => {
                self.stage = Stage::Stopping {
                    command,
                    deadline: Instant::now() + self.settings.timeouts.graceful,
                    last_workers: LAST_WORKERS,
                    close_listeners: None,
                    cut: false,
                };
                log::info!("stopping: {} workers finish what they have begun", self.members.len());
            }
            Stage::Stopping { command: WorkerCommand::Retire, .. } if command == WorkerCommand::Drain => {
                if let Stage::Stopping { command: present, .. } = &mut self.stage {
                    *present = command;
                }
            }
            Stage::Stopping { .. } => return,
        }
        if command == WorkerCommand::Drain {
            let mut all = true;
            for listener in &mut self.listeners {
                listener.remove_file();
                all &= listener.turn_away();
            }
            if let Stage::Stopping { close_listeners, .. } = &mut self.stage
                && all
            {
                *close_listeners = Some(Instant::now() + HANDSHAKES);
            }
        }
        for member in &self.members {
            member.tell(command);
        }
    }

    /// Ends all workers without waiting for their requests.
    fn end_now(&mut self, reason: &str) {
        self.stop(WorkerCommand::Drain);
        let mut connections = 0;
        for member in &self.members {
            connections += member.slot.connections.load(Relaxed);
            member.slot.set_command(WorkerCommand::Quit);
            // It has not been waited for, so its number cannot belong to another process.
            let _ = kill_process(member.pid, Signal::KILL);
        }
        if !self.members.is_empty() {
            log::warn!("{reason}: ended {} workers with {connections} open connections", self.members.len());
        }
        if let Stage::Stopping { cut, last_workers, deadline, close_listeners, .. } = &mut self.stage {
            *cut = true;
            *close_listeners = None;
            *last_workers = 0;
            *deadline = Instant::now() + Duration::from_secs(60);
        }
    }

    /// While stopping: ends what takes too long. Returns whether everything has ended.
    fn finish_up(&mut self) -> bool {
        let Stage::Stopping { command, deadline, last_workers, close_listeners, .. } = &mut self.stage else { return false };
        let now = Instant::now();
        if close_listeners.is_some_and(|moment| now >= moment) {
            // Whoever knocks during a long farewell should hear at once that nobody is in.
            let waiting = self.listeners.iter().any(Listener::has_waiting);
            *close_listeners = waiting.then(|| now + HANDSHAKES);
            if !waiting {
                self.listeners.iter().for_each(Listener::close);
            }
        }
        if !self.members.is_empty() {
            if now >= *deadline {
                self.end_now("time to finish is over");
            }
            return false;
        }
        // Connections may have arrived behind the back of workers that had already looked.
        let waiting = *command == WorkerCommand::Drain && self.listeners.iter().any(Listener::has_waiting);
        if !waiting || *last_workers == 0 || now >= *deadline {
            return true;
        }
        *last_workers -= 1;
        match self.start_worker(WorkerCommand::Drain) {
            Ok(()) => false,
            Err(error) => {
                log::error!("cannot start a worker for the last connections: {error}");
                true
            }
        }
    }

    /// While serving: starts the workers that are missing, and lets those go that have been replaced.
    fn keep_staffed(&mut self) {
        let (mut staying, mut accepting) = (0, 0);
        for member in &self.members {
            match (member.slot.command(), member.slot.state()) {
                (WorkerCommand::Serve, WorkerState::Starting) => staying += 1,
                (WorkerCommand::Serve, WorkerState::Ready) => (staying, accepting) = (staying + 1, accepting + 1),
                (WorkerCommand::Serve, WorkerState::Retiring) => accepting += 1,
                _ => {}
            }
        }
        while staying < self.wanted && self.pace.wait(Instant::now()).is_zero() {
            match self.start_worker(WorkerCommand::Serve) {
                Ok(()) => staying += 1,
                Err(error) => {
                    log::error!("cannot start a worker: {error}");
                    self.pace.failed(Instant::now(), Duration::ZERO);
                }
            }
        }
        while accepting > self.wanted
            && let Some(member) = self.dispensable()
        {
            member.tell(WorkerCommand::Retire);
            accepting -= 1;
        }
    }

    /// The worker to let go when more accept than are wanted: one that asked for it, else the one that came last.
    fn dispensable(&self) -> Option<&Member> {
        let serving =
            |state| move |member: &&Member| (member.slot.command(), member.slot.state()) == (WorkerCommand::Serve, state);
        let asking = self.members.iter().find(serving(WorkerState::Retiring));
        asking.or_else(|| self.members.iter().rfind(serving(WorkerState::Ready)))
    }

    fn start_worker(&mut self, command: WorkerCommand) -> io::Result<()> {
        let slots = self.scoreboard.slots();
        let vacant = slots.iter().position(|slot| slot.state() == WorkerState::Vacant);
        let index = vacant.ok_or_else(|| io::Error::other(format!("{} workers have not ended yet", slots.len())))?;
        let (slot, number) = (slots[index], index + 1);
        self.runtime.before_fork(number);
        let (wake, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let supervisor = rustix::process::getpid();
        slot.occupy(command);
        // The language may have threads of its own that it knows how to leave behind.
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
                self.members.push(Member { slot, number, pid, waker, process, born });
                self.pace.started(born);
                log::debug!("worker {number} started (pid {pid})");
                Ok(())
            }
            Ok(Fork::Child) => self.become_worker(slot, number, (wake, waker), supervisor),
        }
    }

    /// In a new worker: lets go of what belongs to the supervisor.
    fn become_worker(&mut self, slot: WorkerSlot, number: usize, (wake, waker): (OwnedFd, OwnedFd), supervisor: Pid) -> ! {
        self.members.clear();
        self.master = None;
        let notice = self.notices.1.try_clone();
        let notice = notice.unwrap_or_else(|error| {
            log::error!("worker {number}: {error}");
            oribi_io::process::exit_now(1)
        });
        let post = Post {
            settings: self.settings,
            runtime: self.runtime,
            listeners: &self.listeners,
            slot,
            number,
            wake,
            waker,
            notice,
            supervisor,
        };
        worker::live(&post, &mut self.signals)
    }

    /// Takes note of workers that have ended.
    fn reap(&mut self) {
        if rustix::process::getpid().is_init() {
            self.reap_orphans();
        }
        let mut index = 0;
        while index < self.members.len() {
            match waitpid(Some(self.members[index].pid), WaitOptions::NOHANG) {
                Ok(None) => index += 1,
                Ok(Some((_, status))) => self.worker_ended(index, Some(status)),
                Err(Errno::INTR) => {}
                // An app may have set SIGCHLD to be ignored: then the system tells nobody how the worker ended.
                Err(_) => self.worker_ended(index, None),
            }
        }
    }

    /// Process 1 is the parent of every process that lost its own.
    fn reap_orphans(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
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
        self.served |= state != WorkerState::Starting;
        let (number, pid) = (member.number, member.pid);
        let well = status.is_none_or(|status| status.exit_status() == Some(0));
        if well && (state != WorkerState::Starting || command != WorkerCommand::Serve) {
            log::debug!("worker {number} (pid {pid}) ended after {requests} requests");
            return;
        }
        if command == WorkerCommand::Quit {
            return;
        }
        let end = status.map_or_else(|| "ended".to_owned(), describe_end);
        log::error!("worker {number} (pid {pid}) {end} after {requests} requests; {connections} connections were open");
        if let Stage::Stopping { cut, .. } = &mut self.stage {
            *cut |= connections > 0;
            return;
        }
        let now = Instant::now();
        if let Some(pause) = self.pace.failed(now, now - member.born) {
            let so_far = if self.served { "" } else { "no worker has become ready so far; " };
            log::warn!("{so_far}the next one starts in {:.1} s", pause.as_secs_f64());
        }
    }

    /// Tells once that connections are accepted: the app, the master, or, without one, people.
    fn announce(&mut self) {
        if self.served || !self.members.iter().any(|member| member.slot.state() == WorkerState::Ready) {
            return;
        }
        self.served = true;
        self.runtime.server_ready();
        match &self.master {
            Some(master) => master.say(Word::Ready),
            None => super::announce(&self.listeners, self.settings),
        }
    }

    /// Sleeps until something happens.
    fn sleep(&self) {
        let mut timeout = match self.stage {
            Stage::Serving => Some(self.pace.wait(Instant::now())).filter(|wait| !wait.is_zero()),
            Stage::Stopping { deadline, close_listeners, .. } => {
                let next = close_listeners.map_or(deadline, |moment| moment.min(deadline));
                Some(next.saturating_duration_since(Instant::now()))
            }
        };
        let mut at_most = |limit: Duration| timeout = Some(timeout.map_or(limit, |present| present.min(limit)));
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.signals.arrival(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.notices.0.as_fd(), PollFlags::IN),
        ];
        polled.extend(self.master.iter().map(|master| PollFd::from_borrowed_fd(master.0.as_fd(), PollFlags::IN)));
        for member in &self.members {
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
                // Not to run in circles while the system is short of memory.
                std::thread::sleep(LOOK_FOR_ENDED);
            }
        }
    }
}

impl Member {
    /// Gives the worker a command and wakes it.
    fn tell(&self, command: WorkerCommand) {
        self.slot.set_command(command);
        // A full pipe wakes it just as well.
        let _ = rustix::io::write(&self.waker, &[0]);
    }
}
