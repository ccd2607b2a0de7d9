//! The master: a small process without a language in it. It opens the listeners, starts a mold that loads the app and forks
//! the workers, and starts another should that one die.

use super::adoption::adopt_or_open;
use super::inheritance::{self, GENERATION, LISTENERS, Link, MASTER, News, Word};
use super::listener::Listener;
use super::pace::Pace;
use super::pid_file::PidFile;
use super::signals::{self, Signals, Wish, Wishes};
use super::{describe_end, raise_descriptor_limit};
use crate::config::Settings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// How much longer than its workers a mold may take to stop.
const MOLD_GRACE: Duration = Duration::from_secs(5);

/// Runs `mold` as the process that loads the app, and serves until told to stop. `mold` finds the listeners in its environment:
/// [`supervise`](super::supervise) takes them over. Returns the exit status for the process: 0, or 1 when the app could not be
/// loaded at the start, the listeners could not be opened, or requests had to be cut off.
///
/// Signals mean what they mean to [`supervise`](super::supervise). It may run as process 1. The process must have one thread
/// only.
pub fn run(settings: &Settings, mold: Command) -> i32 {
    let mut master = match Master::start(settings, mold) {
        Ok(master) => master,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    let status = master.run();
    master.listeners.iter_mut().for_each(Listener::remove_file);
    status
}

struct Master<'a> {
    settings: &'a Settings,
    mold: Command,
    listeners: Vec<Listener>,
    signals: Signals,
    wishes: Wishes,
    /// The mold and its workers; `None` between the death of one and the start of the next.
    generation: Option<Generation>,
    /// How many have been started.
    generations: u64,
    /// Whether one has ever been ready.
    served: bool,
    pace: Pace,
    stage: Stage,
    _pid_file: Option<PidFile>,
}

/// All workers started from one load of the app, and the mold that forks them.
struct Generation {
    number: u64,
    pid: Pid,
    link: Link,
    born: Instant,
    /// Whether its first worker has accepted connections.
    ready: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Serving,
    Stopping {
        deadline: Instant,
    },
    /// All is over.
    Ended {
        status: i32,
    },
}

impl<'a> Master<'a> {
    fn start(settings: &'a Settings, mold: Command) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let signals = Signals::watch(true).map_err(|error| failed("watch signals", error))?;
        raise_descriptor_limit();
        // Workers whose mold has died come to this process, so that they are waited for.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| failed("become the parent of orphans", error.into()))?;
        let mut listeners = adopt_or_open(settings)?;
        let pid_file = settings.pid_file.as_deref().map(PidFile::write).transpose().inspect_err(|_| {
            listeners.iter_mut().for_each(Listener::remove_file);
        })?;
        Ok(Self {
            settings,
            mold,
            listeners,
            signals,
            wishes: Wishes::default(),
            generation: None,
            generations: 0,
            served: false,
            pace: Pace::new(Duration::ZERO, settings.respawn_interval),
            stage: Stage::Serving,
            _pid_file: pid_file,
        })
    }

    fn run(&mut self) -> i32 {
        loop {
            self.signals.rearm();
            self.obey_signals();
            self.listen_to_mold();
            self.reap();
            match self.stage {
                Stage::Serving => self.keep_running(),
                Stage::Stopping { deadline } => self.finish_up(deadline),
                Stage::Ended { status } => return status,
            }
            if !matches!(self.stage, Stage::Ended { .. }) {
                self.sleep();
            }
        }
    }

    fn obey_signals(&mut self) {
        let stops = signals::take(Signal::TERM) + signals::take(Signal::INT);
        let stopping = matches!(self.stage, Stage::Stopping { .. });
        match self.wishes.heard(stops, stopping, Instant::now()) {
            Wish::EndNow => {
                self.say(Word::Quit);
                self.stage = Stage::Stopping { deadline: Instant::now() + MOLD_GRACE };
            }
            Wish::Stop => self.stop(),
            Wish::Nothing if signals::take(Signal::QUIT) > 0 => self.stop(),
            Wish::Nothing => {}
        }
        for (signal, name) in [(Signal::HUP, "HUP"), (Signal::USR1, "USR1"), (Signal::USR2, "USR2")] {
            if signals::take(signal) > 0 {
                log::warn!("signal {name} has no meaning here yet and is ignored");
            }
        }
        (0..signals::take(Signal::TTIN)).for_each(|_| self.say(Word::Grow));
        (0..signals::take(Signal::TTOU)).for_each(|_| self.say(Word::Shrink));
    }

    fn say(&self, word: Word) {
        if let Some(generation) = &self.generation {
            generation.link.say(word);
        }
    }

    /// Begins to stop. The mold turns new connections away; only the files of Unix sockets are this process's to remove.
    fn stop(&mut self) {
        if self.stage != Stage::Serving {
            return;
        }
        self.listeners.iter_mut().for_each(Listener::remove_file);
        self.say(Word::Stop);
        if let Some(generation) = &self.generation
            && !generation.ready
        {
            // It may be loading the app still, and hears no word meanwhile.
            let _ = kill_process(generation.pid, Signal::TERM);
        }
        self.stage = Stage::Stopping { deadline: Instant::now() + self.settings.timeouts.graceful + MOLD_GRACE };
    }

    fn listen_to_mold(&mut self) {
        let Some(generation) = &mut self.generation else { return };
        // The end is told by the system, too, with the reason.
        while let News::Word(word) = generation.link.hear() {
            if word != Word::Ready || generation.ready {
                continue;
            }
            generation.ready = true;
            if self.served {
                log::info!("generation {} has taken over (pid {})", generation.number, generation.pid);
            } else {
                self.served = true;
                super::announce(&self.listeners, self.settings);
            }
        }
    }

    /// Waits for children that have ended: the mold, and orphans left by it or by an app.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if self.generation.as_ref().is_some_and(|generation| generation.pid == pid) {
                        self.mold_ended(status);
                    }
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn mold_ended(&mut self, status: WaitStatus) {
        // Its last word may have been that it is ready.
        self.listen_to_mold();
        let Some(generation) = self.generation.take() else { return };
        let end = describe_end(status);
        match self.stage {
            Stage::Stopping { .. } => {
                self.stage = Stage::Ended { status: i32::from(generation.ready && status.exit_status() != Some(0)) };
            }
            Stage::Serving if !self.served => {
                log::error!("the process that loads the app (pid {}) {end} before the app could serve", generation.pid);
                self.stage = Stage::Ended { status: 1 };
            }
            Stage::Serving => {
                let now = Instant::now();
                let pause = self.pace.failed(now, now - generation.born);
                let pause = pause.unwrap_or_else(|| self.pace.wait(now)).as_secs_f64();
                log::error!(
                    "the mold of generation {} (pid {}) {end}; the app is loaded again in {pause:.1} s",
                    generation.number,
                    generation.pid
                );
            }
            Stage::Ended { .. } => {}
        }
    }

    /// While serving: loads the app if nobody does.
    fn keep_running(&mut self) {
        if self.generation.is_some() || !self.pace.wait(Instant::now()).is_zero() {
            return;
        }
        match self.start_generation() {
            Ok(generation) => {
                log::debug!("generation {} started (pid {})", generation.number, generation.pid);
                self.pace.started(generation.born);
                self.generation = Some(generation);
            }
            Err(error) => {
                log::error!("cannot start {}: {error}", self.mold.get_program().display());
                self.pace.failed(Instant::now(), Duration::ZERO);
                if !self.served {
                    self.stage = Stage::Ended { status: 1 };
                }
            }
        }
    }

    fn start_generation(&mut self) -> io::Result<Generation> {
        let (own, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        self.generations += 1;
        let own_pid = rustix::process::getpid();
        self.mold.env(MASTER, format!("{}:{own_pid}", given.as_raw_fd()));
        self.mold.env(LISTENERS, inheritance::describe(&self.listeners));
        self.mold.env(GENERATION, self.generations.to_string());
        let spawned = {
            let _inherited = Inheritable::new(self.listeners.iter().map(|listener| &listener.socket).chain([&given]))?;
            self.mold.spawn()?
        };
        let pid = i32::try_from(spawned.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the system gave a process no number"))?;
        Ok(Generation { number: self.generations, pid, link: Link(own), born: Instant::now(), ready: false })
    }

    /// While stopping: ends a mold that takes too long. Its workers hear of its death from the system.
    fn finish_up(&mut self, deadline: Instant) {
        let Some(generation) = &self.generation else {
            self.stage = Stage::Ended { status: 0 };
            return;
        };
        if Instant::now() >= deadline {
            log::error!("the mold (pid {}) does not stop and is ended", generation.pid);
            // It has not been waited for, so its number cannot belong to another process.
            let _ = kill_process(generation.pid, Signal::KILL);
            self.stage = Stage::Stopping { deadline: Instant::now() + MOLD_GRACE };
        }
    }

    /// Sleeps until something happens.
    fn sleep(&self) {
        let now = Instant::now();
        let timeout = match self.stage {
            Stage::Serving if self.generation.is_none() => Some(self.pace.wait(now)),
            Stage::Stopping { deadline } => Some(deadline.saturating_duration_since(now)),
            _ => None,
        };
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.arrival(), PollFlags::IN)];
        if let Some(generation) = &self.generation
            && !generation.ready
        {
            polled.push(PollFd::from_borrowed_fd(generation.link.0.as_fd(), PollFlags::IN));
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                log::error!("cannot wait for the mold: {}", io::Error::from(error));
                // Not to run in circles while the system is short of memory.
                std::thread::sleep(Duration::from_millis(250));
            }
        }
    }
}

/// Descriptors that a program executed meanwhile keeps open.
struct Inheritable<'a>(Vec<&'a OwnedFd>);

impl<'a> Inheritable<'a> {
    fn new(descriptors: impl Iterator<Item = &'a OwnedFd>) -> io::Result<Self> {
        let inheritable = Self(descriptors.collect());
        for descriptor in &inheritable.0 {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(inheritable)
    }
}

impl Drop for Inheritable<'_> {
    fn drop(&mut self) {
        for descriptor in &self.0 {
            // It cannot fail for a descriptor that is open.
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}
