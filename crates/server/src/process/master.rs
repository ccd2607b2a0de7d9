//! The master: a small process without a language. It opens the listeners and starts a mold, which loads the app and forks the
//! workers. It starts another mold if that one dies, or when it is told to reload the app.

mod farewell;
mod generation;
mod rolling;
mod steered;
mod taking_over;
mod upgrade;

use super::adoption::adopt_or_open;
use super::edges::{Birth, Drained, Edges, End};
use super::farewell::Farewell;
use super::inheritance::Word;
use super::notify::{self, Notifier};
use super::pace::Pace;
use super::pid_file::PidFile;
use super::privileges::Privileges;
use super::reloads::{Outcome, Reloads};
use super::restart_file::RestartFile;
use super::signals::{self, Signals, Wishes};
use super::title::Title;
use super::upgrade::VARIABLES;
use super::watch::{self, Watch};
use super::{describe_end, raise_descriptor_limit, scaling};
use crate::config::Settings;
use crate::control::{self, Control};
use crate::listen::Listener;
use crate::scoreboard::{Board, Tally};
use generation::Generation;
use oribi_io::process::fork;
use rolling::Rolling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use std::io;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};
use upgrade::Succession;

/// How much longer than its workers a mold may take to stop.
const MOLD_GRACE: Duration = Duration::from_secs(5);

/// Runs `mold` as the process that loads the app, and serves until told to stop. `mold` finds the listeners in its environment,
/// and [`supervise`](super::supervise) takes them over. Returns the exit status for the process: 0, or 1 if the app could not
/// be loaded at the start, the listeners could not be opened, or requests had to be cut off.
///
/// Signals have the same meaning as for [`supervise`](super::supervise), except that HUP loads the app anew, in another mold;
/// when that mold's workers accept connections, the old ones retire. The master may run as process 1. The process must have
/// only one thread. A worker of the mold has that many `lanes`: threads that take requests by themselves.
///
/// If there are edges, this process keeps them. They stop first, and workers only when no request is left.
pub fn run(settings: &Settings, mold: Command, lanes: usize) -> i32 {
    let mut master = match Master::start(settings, mold, lanes) {
        Ok(master) => master,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    let status = master.run();
    let status = master.conclude(status);
    master.listeners.iter_mut().for_each(Listener::end);
    status
}

struct Master<'a> {
    settings: &'a Settings,
    mold: Command,
    listeners: Vec<Listener>,
    /// `None`: workers have the connections.
    edges: Option<Edges<'a>>,
    privileges: Privileges,
    signals: Signals,
    wishes: Wishes,
    notifier: Notifier,
    /// The serving generation, the one being loaded, and those that are finishing.
    generations: Vec<Generation>,
    /// How many generations have been started.
    started: u64,
    /// What has become of reloads.
    reloads: Reloads,
    /// A reload that takes over one worker after the other.
    rolling: Option<Rolling>,
    /// Whether any generation has been ready.
    served: bool,
    pace: Pace,
    stage: Stage,
    /// It has been told to stop, and still serves.
    farewell: Option<Farewell>,
    restart_file: Option<RestartFile<'a>>,
    control: Option<Control>,
    /// What the workers of generations have done that have ended.
    past: Tally,
    born: Instant,
    /// How many workers each generation should have.
    wanted: usize,
    pid_file: Option<PidFile>,
    succession: Succession,
    /// The files of the app, if it is loaded anew when one of them changes.
    watch: Option<Watch>,
}

/// Sets the title of this process.
fn entitle(settings: &Settings, state: &str) {
    Title { role: "master", generation: None, state }.show(settings, None);
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Serving,
    /// The edges finish what they have begun. Workers serve as before.
    Draining {
        /// When everything must have ended.
        deadline: Instant,
    },
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
    fn start(settings: &'a Settings, mut mold: Command, lanes: usize) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let mut privileges = Privileges::of(settings)?;
        privileges.look_up_edges(settings)?;
        privileges.drop_in(&mut mold);
        notify::VARIABLES.iter().chain(&VARIABLES).for_each(|variable| _ = mold.env_remove(variable));
        let (succession, inherited) = Succession::of_process()?;
        let is_first = inherited.is_none();
        let signals = Signals::watch(true).map_err(|error| failed("watch signals", error))?;
        raise_descriptor_limit();
        // Workers whose mold has died become children of this process, so that it can wait for them.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| failed("become the parent of orphans", error.into()))?;
        let mut listeners = inherited.map_or_else(|| adopt_or_open(settings), Ok)?;
        let pid_file = privileges
            .hand_over(settings, &listeners)
            .and_then(|()| settings.pid_file.as_deref().filter(|_| is_first).map(PidFile::write).transpose())
            .inspect_err(|_| listeners.iter_mut().for_each(Listener::remove_file))?;
        let made = Edges::new(settings, lanes).and_then(|edges| {
            // The socket for orders is that of the server before until this one takes over.
            Ok((edges, if is_first { Control::open(settings)? } else { None }))
        });
        let (mut edges, control) = made.inspect_err(|_| listeners.iter_mut().for_each(Listener::remove_file))?;
        let mut notifier = Notifier::default();
        if is_first {
            notifier = Notifier::of_environment();
            notifier.store(&mut listeners, settings);
            notifier.loading();
        } else {
            edges.iter_mut().for_each(Edges::succeed);
        }
        entitle(settings, "loading");
        Ok(Self {
            settings,
            mold,
            listeners,
            edges,
            privileges,
            signals,
            wishes: Wishes::default(),
            notifier,
            generations: Vec::new(),
            started: 0,
            reloads: Reloads::default(),
            rolling: None,
            served: false,
            pace: Pace::new(Duration::ZERO, settings.respawn_interval),
            stage: Stage::Serving,
            farewell: None,
            watch: watch::begin(settings),
            restart_file: settings.restart_file.as_deref().map(|path| RestartFile::new(path, Instant::now())),
            control,
            past: Tally::default(),
            born: Instant::now(),
            wanted: settings.workers.max(1),
            pid_file,
            succession,
        })
    }

    fn run(&mut self) -> i32 {
        loop {
            self.signals.rearm();
            self.obey_signals();
            self.go_on_with_farewell();
            self.listen_to_molds();
            self.roll();
            self.reap();
            self.end_overdue();
            self.pass_on_pleas();
            self.keep_watchdog();
            self.go_on_with_upgrade();
            match self.stage {
                Stage::Serving => {
                    self.keep_edges();
                    self.keep_running();
                }
                Stage::Draining { .. } => self.drain(),
                Stage::Stopping { deadline, cut } => self.finish_up(deadline, cut),
                Stage::Ended { status } => {
                    control::say_end(self, status);
                    return status;
                }
            }
            if !matches!(self.stage, Stage::Ended { .. }) && !control::steer(self) {
                self.sleep();
            }
        }
    }

    fn obey_signals(&mut self) {
        if self.pass_signals_on() {
            return;
        }
        self.obey_stops();
        let told = signals::take(Signal::HUP) > 0;
        let touched = self.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        let changed = watch::look(self.watch.as_mut());
        if (told || touched || changed) && self.stage == Stage::Serving && self.farewell.is_none() {
            self.reload();
        }
        if signals::take(Signal::USR1) > 0 {
            self.reopen_logs();
        }
        if signals::take(Signal::USR2) > 0
            && let Err(why) = self.upgrade()
        {
            log::warn!("{why}");
        }
        let (more, fewer) = (signals::take(Signal::TTIN) as usize, signals::take(Signal::TTOU) as usize);
        if more + fewer > 0
            && let Err(why) = self.have_workers(scaling::changed(self.settings, self.wanted, more, fewer))
        {
            log::warn!("{why}");
        }
    }

    fn say(&self, word: Word) {
        self.generations.iter().for_each(|generation| generation.link.say(word));
    }

    /// Begins to stop. Without edges, the molds turn new connections away, and this process only removes the files of Unix
    /// sockets. With edges, these finish first.
    fn stop(&mut self) {
        if self.stage != Stage::Serving {
            return;
        }
        entitle(self.settings, "stopping");
        self.notifier.stopping();
        let now = Instant::now();
        match &mut self.edges {
            Some(edges) => {
                log::info!("stopping: the edges finish what they have begun");
                edges.drain(&mut self.listeners, now + self.settings.timeouts.graceful);
                self.stage = Stage::Draining { deadline: now + self.patience() };
                if !self.served {
                    // Nobody would answer before the app is loaded.
                    self.stop_molds(false);
                }
            }
            None => {
                self.listeners.iter_mut().for_each(Listener::remove_file);
                self.stop_molds(false);
            }
        }
    }

    /// Tells the molds to stop.
    fn stop_molds(&mut self, cut: bool) {
        let now = Instant::now();
        let deadline = match self.stage {
            Stage::Draining { deadline } => deadline,
            _ => now + self.patience(),
        };
        let left = deadline.saturating_duration_since(now + MOLD_GRACE);
        self.generations.iter().for_each(|generation| generation.stop(left));
        self.stage = Stage::Stopping { deadline: deadline.max(now + MOLD_GRACE), cut };
    }

    /// While the edges finish: keeps the workers that they need, and stops these when all edges have ended.
    fn drain(&mut self) {
        let Some(edges) = &mut self.edges else { return self.stop_molds(false) };
        match edges.finish_up(&self.listeners, fork) {
            (_, Some(birth)) => self.become_edge(birth),
            (Drained::NotYet, None) => self.keep_running(),
            (Drained::Done { cut }, None) => self.stop_molds(cut),
        }
    }

    /// While serving: starts the edges that are missing.
    fn keep_edges(&mut self) {
        // As long as another server serves, clients are not to wait here until the app is loaded.
        let serves = self.served || !self.succession.is_not_ready();
        if let Some(edges) = self.edges.as_mut().filter(|_| serves)
            && let Some(birth) = edges.keep_running(fork)
        {
            self.become_edge(birth);
        }
    }

    /// In a new edge: releases what belongs to the master.
    fn become_edge(&mut self, birth: Birth) -> ! {
        // If an edge kept the sockets to the molds, these would not learn of the master's death.
        self.generations.clear();
        self.control = None;
        self.succession.close();
        self.watch = None;
        let pools = self.edges.take().map(Edges::into_pools).unwrap_or_default();
        let entitle = |role: &str| Title { role, generation: None, state: "" }.show(self.settings, None);
        birth.live(self.settings, &self.listeners, pools, &self.privileges, &mut self.signals, entitle)
    }

    /// Tells the service manager that this server is alive, as long as its edges and a mold are there.
    fn keep_watchdog(&mut self) {
        let Self { notifier, generations, edges, stage, .. } = self;
        let has_mold = generations.iter().any(Generation::stays);
        let alive = || *stage != Stage::Serving || has_mold && edges.as_ref().is_none_or(Edges::are_all_there);
        notifier.keep_watchdog(Instant::now(), alive);
    }

    /// Passes on what edges ask for about workers. Each mold knows its own workers.
    fn pass_on_pleas(&self) {
        for plea in self.edges.iter().flat_map(Edges::pleas) {
            self.generations.iter().for_each(|generation| generation.link.pass_on(plea));
        }
    }

    /// How long a mold may take to stop.
    fn patience(&self) -> Duration {
        self.settings.timeouts.graceful + MOLD_GRACE
    }

    /// Loads the app anew. The present generation serves until the new one is ready.
    fn reload(&mut self) -> u64 {
        self.roll_back(Outcome::GivenUp);
        let patience = self.patience();
        // A load that is still going on began before this request, so it is abandoned.
        for generation in self.generations.iter_mut().filter(|generation| !generation.ready) {
            generation.leave(patience);
            self.reloads.end(generation.number, Outcome::GivenUp);
        }
        self.notifier.reloading();
        match self.start_generation() {
            Ok(number) => {
                self.reloads.begin(number);
                log::info!("loading the app anew, as generation {number}");
                number
            }
            Err(error) => {
                let why = format!("{}: {error}", self.mold.get_program().display());
                log::error!("cannot load the app anew: {why}");
                self.reloads.begin(self.started);
                self.reloads.end(self.started, Outcome::Failed(why));
                self.notifier.reloaded("the app could not be loaded anew; serving the one before");
                self.started
            }
        }
    }

    fn listen_to_molds(&mut self) {
        let mut newest = None;
        let mut told = false;
        let mut fresh = Vec::new();
        for generation in &mut self.generations {
            let ready = generation.has_become_ready();
            told |= std::mem::take(&mut generation.told) && generation.stays();
            if !ready {
                continue;
            }
            fresh.push(generation.number);
            if generation.end_by.is_some() {
                // The stop was requested before this generation could receive messages.
                generation.retire();
            } else if self.served {
                newest = Some(generation.number);
            } else {
                self.served = true;
                self.notifier.ready("serving");
                entitle(self.settings, "");
                if !self.succession.is_not_ready() {
                    super::announce(&self.listeners, self.settings);
                }
            }
        }
        self.give_up_incomplete();
        if told && self.stage == Stage::Serving && self.farewell.is_none() {
            self.reload();
        }
        for generation in self.generations.iter().filter(|generation| fresh.contains(&generation.number)) {
            self.tell_of_farewell(generation);
        }
        let Some(newest) = newest else { return };
        let before = |generation: &&Generation| generation.number < newest && generation.ready && generation.stays();
        let present = self.generations.iter().filter(before).map(|generation| generation.number).max();
        if self.stage != Stage::Serving || !self.begin_rolling(newest, present) {
            self.take_over(newest);
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
        if self.note_end_of_master(pid, status) {
            return;
        }
        match self.edges.as_mut().map_or(End::NoEdge, |edges| edges.ended(pid, Some(status))) {
            End::NoEdge => {}
            End::Usual => return,
            End::CannotServe => {
                log::error!("no edge could start: fix the errors above, then start the server again");
                self.stage = Stage::Stopping { deadline: Instant::now(), cut: true };
                return;
            }
        }
        // Its last message may have been that it is ready.
        self.listen_to_molds();
        let Some(index) = self.generations.iter().position(|generation| generation.pid == pid) else { return };
        let Generation { number, born, ready, end_by, trouble, board, .. } = self.generations.remove(index);
        self.past.add(board.read().1);
        let end = describe_end(status);
        let why = trouble.unwrap_or_else(|| format!("the process that loads the app {end}"));
        let given_up = end_by.is_some() || self.stage != Stage::Serving;
        self.reloads.end(number, if given_up { Outcome::GivenUp } else { Outcome::Failed(why) });
        let serving = self.generations.iter().find(|generation| generation.ready && generation.stays());
        match (&mut self.stage, serving) {
            (Stage::Stopping { cut, .. }, _) => *cut |= ready && farewell::cuts_off(self.edges.is_some(), status),
            (Stage::Serving | Stage::Draining { .. }, _) if end_by.is_some() => log::info!("generation {number} {end}"),
            (Stage::Serving | Stage::Draining { .. }, _) if !self.served => {
                log::error!("the process that loads the app (pid {pid}) {end} before the app could serve");
                self.fail_to_start();
            }
            (Stage::Serving | Stage::Draining { .. }, Some(serving)) if serving.number > number => {
                log::error!("the mold of generation {number} (pid {pid}) {end}; generation {} serves on", serving.number);
            }
            (Stage::Serving | Stage::Draining { .. }, Some(serving)) => {
                let present = serving.number;
                log::error!(
                    "the app could not be loaded anew: generation {number} (pid {pid}) {end}; generation {present} serves on"
                );
                if !self.generations.iter().any(|generation| generation.stays() && !generation.ready) {
                    self.notifier.reloaded("the app could not be loaded anew; serving the one before");
                }
            }
            (Stage::Serving | Stage::Draining { .. }, None) => {
                let now = Instant::now();
                let pause = self.pace.failed(now, now - born);
                let pause = pause.unwrap_or_else(|| self.pace.wait(now)).as_secs_f64();
                let what_now = match self.generations.iter().find(|generation| generation.stays()) {
                    Some(next) => format!("generation {} is being loaded", next.number),
                    None => format!("the app is loaded again in {pause:.1} s{}", self.pace.how_often()),
                };
                log::error!("the mold of generation {number} (pid {pid}) {end}; {what_now}");
            }
            (Stage::Ended { .. }, _) => {}
        }
    }

    /// The app could not be loaded at the start.
    fn fail_to_start(&mut self) {
        self.stage = match &mut self.edges {
            Some(edges) => {
                edges.end_now("there is no app to serve");
                Stage::Stopping { deadline: Instant::now() + MOLD_GRACE, cut: true }
            }
            None => Stage::Ended { status: 1 },
        };
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
                    self.fail_to_start();
                }
            }
        }
    }

    /// Starts a generation and returns its number.
    fn start_generation(&mut self) -> io::Result<u64> {
        self.started += 1;
        let pools = self.edges.as_ref().map_or(&[][..], Edges::pools);
        let board = Board::new(scaling::room(self.settings.workers), self.settings.watched_threads())?;
        let generation = Generation::start(self.started, &mut self.mold, &self.listeners, pools, board)?;
        let serves = self.generations.iter().any(|generation| generation.ready && generation.stays());
        let workers = if serves && self.rolls() { 1 } else { self.wanted };
        self.pace.started(generation.born);
        if workers != self.settings.workers.max(1) {
            generation.link.scale(u32::try_from(workers).unwrap_or(u32::MAX));
        }
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
            match self.edges.as_mut().filter(|edges| !edges.are_gone()) {
                // Nobody is left who could answer.
                Some(edges) => edges.end_now("there is no app any more"),
                None => {
                    self.stage = Stage::Ended { status: i32::from(cut) };
                    return;
                }
            }
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
            Stage::Stopping { deadline, .. } | Stage::Draining { deadline } => Some(deadline),
            _ => None,
        };
        let farewell = self.farewell.as_ref().map(|farewell| now + farewell.wait(now));
        let look = self.restart_file.as_ref().filter(|_| self.stage == Stage::Serving).map(|file| now + file.wait(now));
        let next =
            self.generations.iter().filter_map(|generation| generation.end_by).chain(stage_ends).chain(farewell).chain(look);
        let of_edges = self.edges.iter().filter_map(|edges| edges.patience(now));
        let waits = of_edges.chain(self.control.iter().filter_map(|control| control.patience(now)));
        let waits = waits.chain(self.notifier.patience(now)).chain(self.succession.patience(self.served, now));
        let waits = waits.chain(self.watch.as_ref().and_then(|watch| watch.wait(now)));
        let next = next.chain(waits.map(|wait| now + wait)).min();
        let timeout = next.and_then(|moment| Timespec::try_from(moment.saturating_duration_since(now)).ok());
        let arrival = self.signals.arrival().into_iter();
        let mut polled: Vec<_> = arrival.map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).collect();
        polled.extend(self.watch.iter().map(|watch| PollFd::from_borrowed_fd(watch.descriptor(), PollFlags::IN)));
        // Molds that serve may have something to say as well.
        polled.extend(
            self.generations.iter().map(|generation| PollFd::from_borrowed_fd(generation.link.0.as_fd(), PollFlags::IN)),
        );
        polled.extend(self.succession.descriptors().map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        let of_edges = self.edges.iter().flat_map(Edges::descriptors);
        polled.extend(of_edges.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        polled.extend(self.control.iter().flat_map(Control::polled));
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
