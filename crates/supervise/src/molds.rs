//! The molds of an app: separate processes that load the app and fork its workers, so that the first process needs no language.
//! It starts another mold if a mold dies, and reloads the app by a new mold.

mod changing;
mod ends;
mod following;
mod generation;
mod joining;
mod late;
mod loading;
mod reports;
mod rolling;
mod sleeping;
mod stopping;
mod taking_over;

use super::app::{App, AppKey};
use super::inheritance::Message;
use super::pace::Pace;
use super::reloads::Reloads;
use super::restart_file::RestartFile;
use super::server::{Phase, Server};
use super::server_totals::ServerTotals;
use super::wait::wake_by;
use super::watch::{self, Watch};
use generation::Generation;
use oribi_config::directory::Directory;
use oribi_config::{Settings, WorkerRange};
use oribi_edge::parent_link::WorkerRequest;
use oribi_stats::app_metrics::Contexts;
use oribi_stats::scoreboard::{DrainState, RunningRequest};
use rolling::Rolling;
use rustix::event::PollFd;
use rustix::process::Pid;
use sleeping::Wakefulness;
use std::fmt::{self, Display, Formatter};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that a mold may take to stop, in addition to the time of its workers.
pub(super) const MOLD_GRACE: Duration = Duration::from_secs(5);

/// The limits for the replacement of molds that had served: the number that is replaced at once, and the interval after which
/// one more is. The number is small, because loading an app occupies a processor.
const MOLDS: (u32, Duration) = (5, Duration::from_secs(1));

/// The name of an app in messages, if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppLabel<'a>(Option<&'a str>);

impl<'a> AppLabel<'a> {
    /// Whether the app has no name, because its server was started for this app alone.
    pub(super) const fn is_unnamed(self) -> bool {
        self.0.is_none()
    }

    /// Returns the name.
    pub(super) const fn name(self) -> Option<&'a str> {
        self.0
    }

    /// Returns words that follow the name of a part of the app.
    fn of(self) -> String {
        self.0.map_or_else(String::new, |name| format!(" of {name}"))
    }
}

impl Display for AppLabel<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.unwrap_or("the app"))
    }
}

/// The molds of one app.
pub(super) struct Molds<'a> {
    settings: &'a Settings,
    /// The index of the app among those of the server.
    index: usize,
    label: AppLabel<'a>,
    mold: Command,
    /// The generations: the serving one, the one that is being loaded, and those that are finishing.
    generations: Vec<Generation>,
    /// The number of generations started so far, which is also the number of the last generation.
    started: u64,
    /// The outcomes of the last reloads, for the clients that requested them.
    reloads: Reloads,
    /// The rolling reload in progress.
    rolling: Option<Rolling>,
    /// Whether any generation has ever been ready.
    served: bool,
    /// Whether the app could not be loaded, and has not served since.
    failed: bool,
    /// Whether an order has stopped the app.
    stopped: bool,
    pace: Pace,
    /// The target number of workers of each generation.
    wanted: usize,
    /// The limits of that number.
    range: WorkerRange,
    wakefulness: Wakefulness,
    /// The number of threads of a worker that take requests by themselves.
    lanes: usize,
    change: changing::Changing,
    /// The directory in which the app is loaded. It is entered again by its original path for each generation, because a link
    /// there may lead to a new release.
    directory: Directory,
    /// The file that a user touches to reload the app, and the files of the app whose changes reload it. `None` if the app has no
    /// name: then the server itself watches them.
    restart_file: Option<RestartFile<'a>>,
    watch: Option<Watch>,
    role: Role,
    /// Everything on which the loaded app depends.
    key: AppKey,
    /// The options from which edges make the settings.
    arguments: Vec<String>,
}

/// The part of an app in its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Routes lead to it.
    Present,
    /// It is loaded before routes lead to it.
    Joining,
    /// No route leads to it any more. It is stopped when no request of it is left, at the latest at this time.
    Leaving(Instant),
}

impl<'a> Molds<'a> {
    /// Creates the workforce of an app without a mold. `index`: the index of the app.
    pub(super) fn new(app: App<'a>, index: usize) -> Self {
        let App { name, settings, mold, lanes, directory, arguments } = app;
        let key = AppKey::of(&mold, settings, &directory);
        let restart_file = settings.restart_file.as_deref().filter(|_| name.is_some());
        Self {
            settings,
            index,
            label: AppLabel(name),
            mold,
            generations: Vec::new(),
            started: 0,
            reloads: Reloads::default(),
            rolling: None,
            served: false,
            failed: false,
            stopped: false,
            pace: Pace::new(Duration::ZERO, settings.respawn_interval).replacing(MOLDS.0, MOLDS.1),
            wanted: settings.workers.at_start(),
            range: settings.workers,
            wakefulness: if settings.workers.may_sleep() { Wakefulness::Asleep } else { Wakefulness::Awake },
            lanes,
            change: changing::Changing::default(),
            directory,
            restart_file: restart_file.map(|path| RestartFile::new(path, Instant::now())),
            watch: name.and_then(|_| watch::begin(settings)),
            role: Role::Present,
            key,
            arguments,
        }
    }

    pub(super) const fn label(&self) -> AppLabel<'a> {
        self.label
    }

    /// Handles the messages and deadlines of the molds. At this point their ends have been recorded, with their last messages.
    pub(super) fn step(&mut self, server: &mut Server<'_>) {
        self.listen_to_molds(server);
        let touched = self.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        let is_awake = self.role == Role::Present && !self.stopped && !self.is_asleep();
        if (watch::look(self.watch.as_mut()) || touched) && server.stays() && is_awake {
            self.load_again(server);
        }
        self.roll(server);
        self.advance_change();
        self.end_overdue();
        self.end_late_loads();
        self.leave_when_empty(server);
    }

    /// Whether a process with this id is a mold of the app.
    pub(super) fn owns(&self, pid: Pid) -> bool {
        self.generations.iter().any(|generation| generation.pid == pid)
    }

    /// Whether an order has stopped the app.
    pub(super) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the app has served, or does not serve now: it could not be loaded, or sleeps, or an order has stopped it.
    pub(super) fn is_settled(&self) -> bool {
        self.has_started() || self.failed || self.stopped
    }

    /// Whether requests of the app will be answered: they may have to wait until it is loaded.
    pub(super) fn is_available(&self) -> bool {
        !self.stopped && (!self.failed || self.serves())
    }

    /// Whether a generation answers requests.
    fn serves(&self) -> bool {
        self.generations.iter().any(|generation| generation.ready && generation.stays())
    }

    /// The state of the app in a word.
    pub(super) fn state(&self) -> &'static str {
        match (self.stopped, self.serves(), self.failed) {
            (true, ..) => "stopped",
            _ if self.is_asleep() => "asleep",
            (false, true, _) => "serving",
            (false, false, true) => "failed",
            (false, false, false) => "loading",
        }
    }

    /// Whether a process serves, starts, or loads the app, or none is to do so.
    pub(super) fn is_alive(&self) -> bool {
        self.stopped || self.is_asleep() || self.generations.iter().any(Generation::stays)
    }

    /// The target number of workers; 0 while the app sleeps.
    pub(super) fn wanted(&self) -> usize {
        if self.is_asleep() { 0 } else { self.wanted }
    }

    pub(super) const fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Makes all molds end without waiting for requests.
    pub(super) fn end_now(&mut self) {
        self.send_all(Message::Quit);
    }

    /// Makes all molds finish, because the server cannot serve.
    pub(super) fn give_up(&mut self) {
        let patience = self.patience();
        self.generations.iter_mut().filter(|generation| generation.stays()).for_each(|generation| generation.leave(patience));
    }

    /// Whether no mold is left.
    pub(super) fn is_gone(&self) -> bool {
        self.generations.is_empty()
    }

    pub(super) fn set_drain_state(&self, drain_state: DrainState) {
        self.generations.iter().for_each(|generation| generation.announce_drain_state(drain_state));
    }

    /// Forwards the request to all molds. Each mold ignores requests about workers of other molds.
    pub(super) fn handle_request(&self, request: WorkerRequest) {
        self.generations.iter().for_each(|generation| generation.link.pass_on(request));
    }

    pub(super) fn add_counts(&self, totals: &ServerTotals, own_connections: bool) {
        self.generations.iter().for_each(|generation| generation.add_counts(totals, own_connections));
    }

    /// In a new process: closes the sockets to the molds.
    pub(super) fn release(&mut self) {
        self.generations.clear();
        self.watch = None;
    }

    /// Returns the longest time that the master may sleep because of this app. `None` without a deadline.
    pub(super) fn next_step(&self, server: &Server<'_>, now: Instant) -> Option<Duration> {
        let serves = matches!(server.phase, Phase::Serving | Phase::Draining);
        let start = (serves && !self.is_alive()).then(|| self.pace.wait(now));
        let ends = self.generations.iter().filter_map(|generation| generation.end_by);
        let end = ends.map(|end_by| end_by.saturating_duration_since(now)).min();
        let restart_file = self.restart_file.as_ref().filter(|_| server.stays()).map(|file| file.wait(now));
        let watch = self.watch.as_ref().and_then(|watch| watch.wait(now));
        let start = start.into_iter().chain(self.next_look_at_rest());
        start.chain(end).chain(self.next_late_load(now)).chain(restart_file).chain(watch).min()
    }

    pub(super) fn polled<'p>(&'p self, polled: &mut Vec<PollFd<'p>>) {
        wake_by(polled, self.generations.iter().map(|generation| generation.link.0.as_fd()));
        wake_by(polled, self.watch.iter().map(Watch::descriptor));
    }

    pub(super) fn running(&self) -> impl Iterator<Item = RunningRequest> {
        self.generations.iter().flat_map(|generation| generation.board.running_requests())
    }

    pub(super) fn parent_process(&self, generation: u64) -> Option<u32> {
        self.generation(generation).map(|generation| generation.pid.as_raw_nonzero().get().unsigned_abs())
    }

    pub(super) fn backtraces(&self, generation: u64, number: usize, lines: usize) -> Vec<u8> {
        self.generation(generation).map(|generation| generation.board.backtraces(number, lines)).unwrap_or_default()
    }

    pub(super) fn contexts(&self) -> impl Iterator<Item = Contexts> {
        self.generations.iter().flat_map(|generation| generation.board.contexts())
    }

    pub(super) fn send_all(&self, message: Message) {
        self.generations.iter().for_each(|generation| generation.link.send(message));
    }
}

impl Molds<'_> {
    fn generation(&self, number: u64) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.number == number)
    }

    /// Returns the time that a mold may take to stop.
    fn patience(&self) -> Duration {
        self.settings.timeouts.graceful.saturating_add(MOLD_GRACE)
    }
}
