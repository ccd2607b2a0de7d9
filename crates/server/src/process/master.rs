//! The master: a small process without a language. It opens the listeners and starts a mold, which loads the app and forks the
//! workers. It starts another mold if that one dies, or when it is told to reload the app.

mod generation;

use super::adoption::adopt_or_open;
use super::inheritance::Word;
use super::pace::Pace;
use super::pid_file::PidFile;
use super::privileges::Privileges;
use super::restart_file::RestartFile;
use super::signals::{self, Signals, Wish, Wishes};
use super::title::Title;
use super::{describe_end, raise_descriptor_limit};
use crate::config::Settings;
use crate::listen::Listener;
use generation::Generation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use std::io;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// How much longer than its workers a mold may take to stop.
const MOLD_GRACE: Duration = Duration::from_secs(5);

/// Runs `mold` as the process that loads the app, and serves until told to stop. `mold` finds the listeners in its environment,
/// and [`supervise`](super::supervise) takes them over. Returns the exit status for the process: 0, or 1 if the app could not
/// be loaded at the start, the listeners could not be opened, or requests had to be cut off.
///
/// Signals have the same meaning as for [`supervise`](super::supervise), except that HUP loads the app anew, in another mold;
/// when that mold's workers accept connections, the old ones retire. The master may run as process 1. The process must have
/// only one thread.
pub fn run(settings: &Settings, mold: Command) -> i32 {
    let mut master = match Master::start(settings, mold) {
        Ok(master) => master,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    let status = master.run();
    master.listeners.iter_mut().for_each(Listener::end);
    status
}

struct Master<'a> {
    settings: &'a Settings,
    mold: Command,
    listeners: Vec<Listener>,
    privileges: Privileges,
    signals: Signals,
    wishes: Wishes,
    /// The serving generation, the one being loaded, and those that are finishing.
    generations: Vec<Generation>,
    /// How many generations have been started.
    started: u64,
    /// Whether any generation has been ready.
    served: bool,
    pace: Pace,
    stage: Stage,
    restart_file: Option<RestartFile<'a>>,
    _pid_file: Option<PidFile>,
}

/// Sets the title of this process.
fn entitle(settings: &Settings, state: &str) {
    Title { role: "master", generation: None, state }.show(settings, None);
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Serving,
    Stopping {
        deadline: Instant,
        /// Requests had to be cut off.
        cut: bool,
    },
    /// Everything has ended.
    Ended {
        status: i32,
    },
}

impl<'a> Master<'a> {
    fn start(settings: &'a Settings, mut mold: Command) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let privileges = Privileges::of(settings)?;
        privileges.drop_in(&mut mold);
        let signals = Signals::watch(true).map_err(|error| failed("watch signals", error))?;
        raise_descriptor_limit();
        // Workers whose mold has died become children of this process, so that it can wait for them.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| failed("become the parent of orphans", error.into()))?;
        let mut listeners = adopt_or_open(settings)?;
        let pid_file = privileges
            .hand_over(settings, &listeners)
            .and_then(|()| settings.pid_file.as_deref().map(PidFile::write).transpose())
            .inspect_err(|_| listeners.iter_mut().for_each(Listener::remove_file))?;
        entitle(settings, "loading");
        Ok(Self {
            settings,
            mold,
            listeners,
            privileges,
            signals,
            wishes: Wishes::default(),
            generations: Vec::new(),
            started: 0,
            served: false,
            pace: Pace::new(Duration::ZERO, settings.respawn_interval),
            stage: Stage::Serving,
            restart_file: settings.restart_file.as_deref().map(|path| RestartFile::new(path, Instant::now())),
            _pid_file: pid_file,
        })
    }

    fn run(&mut self) -> i32 {
        loop {
            self.signals.rearm();
            self.obey_signals();
            self.listen_to_molds();
            self.reap();
            self.end_overdue();
            match self.stage {
                Stage::Serving => self.keep_running(),
                Stage::Stopping { deadline, cut } => self.finish_up(deadline, cut),
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
                self.stage = Stage::Stopping { deadline: Instant::now() + MOLD_GRACE, cut: true };
            }
            Wish::Stop => self.stop(),
            Wish::Nothing if signals::take(Signal::QUIT) > 0 => self.stop(),
            Wish::Nothing => {}
        }
        let told = signals::take(Signal::HUP) > 0;
        let touched = self.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        if (told || touched) && self.stage == Stage::Serving {
            self.reload();
        }
        if signals::take(Signal::USR1) > 0 {
            super::reopen_error_log(self.settings, &self.privileges);
            self.say(Word::Reopen);
        }
        if signals::take(Signal::USR2) > 0 {
            log::warn!("{}", signals::NO_USR2);
        }
        (0..signals::take(Signal::TTIN)).for_each(|_| self.say(Word::Grow));
        (0..signals::take(Signal::TTOU)).for_each(|_| self.say(Word::Shrink));
    }

    fn say(&self, word: Word) {
        self.generations.iter().for_each(|generation| generation.link.say(word));
    }

    /// Begins to stop. The molds turn new connections away; this process only removes the files of Unix sockets.
    fn stop(&mut self) {
        if self.stage != Stage::Serving {
            return;
        }
        self.listeners.iter_mut().for_each(Listener::remove_file);
        self.generations.iter().for_each(Generation::stop);
        self.stage = Stage::Stopping { deadline: Instant::now() + self.patience(), cut: false };
        entitle(self.settings, "stopping");
    }

    /// How long a mold may take to stop.
    fn patience(&self) -> Duration {
        self.settings.timeouts.graceful + MOLD_GRACE
    }

    /// Loads the app anew. The present generation serves until the new one is ready.
    fn reload(&mut self) {
        let patience = self.patience();
        // A load that is still going on began before this request, so it is abandoned.
        for generation in self.generations.iter_mut().filter(|generation| !generation.ready) {
            generation.leave(patience);
        }
        match self.start_generation() {
            Ok(number) => log::info!("loading the app anew, as generation {number}"),
            Err(error) => log::error!("cannot load the app anew: {}: {error}", self.mold.get_program().display()),
        }
    }

    fn listen_to_molds(&mut self) {
        let patience = self.patience();
        let mut newest = None;
        for generation in &mut self.generations {
            if !generation.has_become_ready() {
                continue;
            }
            if generation.end_by.is_some() {
                // The stop was requested before this generation could receive messages.
                generation.stop();
            } else if self.served {
                log::info!("generation {} has taken over (pid {})", generation.number, generation.pid);
                newest = Some(generation.number);
            } else {
                self.served = true;
                entitle(self.settings, "");
                super::announce(&self.listeners, self.settings);
            }
        }
        let Some(newest) = newest else { return };
        for generation in self.generations.iter_mut().filter(|generation| generation.number < newest && generation.stays()) {
            generation.leave(patience);
        }
    }

    /// Waits for children that have ended: molds, and orphans of molds or of apps.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        // Its last message may have been that it is ready.
        self.listen_to_molds();
        let Some(index) = self.generations.iter().position(|generation| generation.pid == pid) else { return };
        let Generation { number, born, ready, end_by, .. } = self.generations.remove(index);
        let end = describe_end(status);
        let serving = self.generations.iter().find(|generation| generation.ready && generation.stays());
        match (&mut self.stage, serving) {
            (Stage::Stopping { cut, .. }, _) => *cut |= ready && status.exit_status() != Some(0),
            (Stage::Serving, _) if end_by.is_some() => log::info!("generation {number} {end}"),
            (Stage::Serving, _) if !self.served => {
                log::error!("the process that loads the app (pid {pid}) {end} before the app could serve");
                self.stage = Stage::Ended { status: 1 };
            }
            (Stage::Serving, Some(serving)) => {
                let present = serving.number;
                log::error!(
                    "the app could not be loaded anew: generation {number} (pid {pid}) {end}; generation {present} serves on"
                );
            }
            (Stage::Serving, None) => {
                let now = Instant::now();
                let pause = self.pace.failed(now, now - born);
                let pause = pause.unwrap_or_else(|| self.pace.wait(now)).as_secs_f64();
                let what_now = match self.generations.iter().find(|generation| generation.stays()) {
                    Some(next) => format!("generation {} is being loaded", next.number),
                    None => format!("the app is loaded again in {pause:.1} s"),
                };
                log::error!("the mold of generation {number} (pid {pid}) {end}; {what_now}");
            }
            (Stage::Ended { .. }, _) => {}
        }
    }

    /// While serving: starts a mold if none serves or loads.
    fn keep_running(&mut self) {
        if self.generations.iter().any(Generation::stays) || !self.pace.wait(Instant::now()).is_zero() {
            return;
        }
        match self.start_generation() {
            Ok(number) => log::debug!("generation {number} started"),
            Err(error) => {
                log::error!("cannot start {}: {error}", self.mold.get_program().display());
                self.pace.failed(Instant::now(), Duration::ZERO);
                if !self.served {
                    self.stage = Stage::Ended { status: 1 };
                }
            }
        }
    }

    /// Starts a generation and returns its number.
    fn start_generation(&mut self) -> io::Result<u64> {
        self.started += 1;
        let generation = Generation::start(self.started, &mut self.mold, &self.listeners)?;
        self.pace.started(generation.born);
        self.generations.push(generation);
        Ok(self.started)
    }

    /// Ends molds that were told to stop and take too long. The system tells their workers that they have died.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        for generation in &mut self.generations {
            if generation.end_by.is_some_and(|end_by| now >= end_by) {
                generation.end(now + MOLD_GRACE);
            }
        }
    }

    /// While stopping: ends molds that take too long.
    fn finish_up(&mut self, deadline: Instant, cut: bool) {
        if self.generations.is_empty() {
            self.stage = Stage::Ended { status: i32::from(cut) };
            return;
        }
        let now = Instant::now();
        if now >= deadline {
            self.generations.iter_mut().for_each(|generation| generation.end(now + MOLD_GRACE));
            self.stage = Stage::Stopping { deadline: now + MOLD_GRACE, cut: true };
        }
    }

    /// Sleeps until something happens.
    fn sleep(&self) {
        let now = Instant::now();
        let stage_ends = match self.stage {
            Stage::Serving if !self.generations.iter().any(Generation::stays) => Some(now + self.pace.wait(now)),
            Stage::Stopping { deadline, .. } => Some(deadline),
            _ => None,
        };
        let look = self.restart_file.as_ref().filter(|_| self.stage == Stage::Serving).map(|file| now + file.wait(now));
        let next = self.generations.iter().filter_map(|generation| generation.end_by).chain(stage_ends).chain(look).min();
        let timeout = next.and_then(|moment| Timespec::try_from(moment.saturating_duration_since(now)).ok());
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.arrival(), PollFlags::IN)];
        let loading = self.generations.iter().filter(|generation| !generation.ready);
        polled.extend(loading.map(|generation| PollFd::from_borrowed_fd(generation.link.0.as_fd(), PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                log::error!("cannot wait for the mold: {}", io::Error::from(error));
                // Prevents a busy loop while the system is short of memory.
                std::thread::sleep(Duration::from_millis(250));
            }
        }
    }
}
