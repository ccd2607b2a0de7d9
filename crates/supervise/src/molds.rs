//! Molds: a workforce that loads the app in separate processes, which fork the workers. So the first process needs no language.
//! It starts another mold if a mold dies, and reloads the app by a new mold.

mod changing;
mod ends;
mod generation;
mod late;
mod loading;
mod reports;
mod rolling;
mod stopping;
mod taking_over;

use super::inheritance::Message;
use super::pace::Pace;
use super::reloads::Reloads;
use super::server::{Phase, Server};
use super::server_totals::ServerTotals;
use super::wait::wake_by;
use super::workforce::{Finish, Workforce};
use generation::Generation;
use oribi_admin::control::{ProcessReport, Progress};
use oribi_config::Settings;
use oribi_config::directory::Directory;
use oribi_control_api as api;
use oribi_edge::parent_link::WorkerRequest;
use oribi_stats::app_metrics::Contexts;
use oribi_stats::scoreboard::{DrainState, RunningRequest};
use rolling::Rolling;
use rustix::event::PollFd;
use rustix::process::{Pid, WaitStatus};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that a mold may take to stop, in addition to the time of its workers.
const MOLD_GRACE: Duration = Duration::from_secs(5);

/// The limits for the replacement of molds that had served: the number that is replaced at once, and the interval after which
/// one more is. The number is small, because loading an app occupies a processor.
const MOLDS: (u32, Duration) = (5, Duration::from_secs(1));

pub(super) struct Molds<'a> {
    settings: &'a Settings,
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
    pace: Pace,
    /// The target number of workers of each generation.
    wanted: usize,
    /// The number of threads of a worker that take requests by themselves.
    lanes: usize,
    change: changing::Changing,
    /// The directory in which the app is loaded. It is entered again by its original path for each generation, because a link
    /// there may lead to a new release.
    directory: Directory,
}

impl<'a> Molds<'a> {
    /// Creates the workforce without a mold. `mold` is the command that loads the app; each worker of that process has `lanes`
    /// threads that take requests by themselves.
    pub(super) fn new(settings: &'a Settings, mold: Command, lanes: usize) -> Self {
        Self {
            settings,
            mold,
            generations: Vec::new(),
            started: 0,
            reloads: Reloads::default(),
            rolling: None,
            served: false,
            pace: Pace::new(Duration::ZERO, settings.respawn_interval).replacing(MOLDS.0, MOLDS.1),
            wanted: settings.workers.max(1),
            lanes,
            change: changing::Changing::default(),
            directory: Directory::current(),
        }
    }
}

impl Workforce for Molds<'_> {
    /// Does nothing: [`Self::keep_running`] starts the first mold.
    fn begin(&mut self, _: &mut Server<'_>) {}

    fn rearm(&self) {}

    fn step(&mut self, server: &mut Server<'_>) {
        // At this point the ends of molds have been recorded, with their last messages.
        self.listen_to_molds(server);
        self.roll(server);
        self.advance_change();
        self.end_overdue();
        self.end_late_loads();
    }

    fn keep_running(&mut self, server: &mut Server<'_>) {
        self.keep_a_mold(server);
    }

    /// Does nothing: a master waits for all its children, and passes their ends to [`Self::ended`].
    fn reap(&mut self, _: &mut Server<'_>) {}

    fn ended(&mut self, server: &mut Server<'_>, pid: Pid, status: WaitStatus) {
        self.mold_ended(server, pid, status);
    }

    fn has_served(&self) -> bool {
        self.served
    }

    fn is_complete(&self) -> bool {
        self.served
    }

    fn is_alive(&self) -> bool {
        self.generations.iter().any(Generation::stays)
    }

    fn answers_those_waiting(&self) -> bool {
        // Loading the app may take long.
        self.served
    }

    fn reload(&mut self, server: &mut Server<'_>) -> u64 {
        self.load_again(server)
    }

    fn reload_progress(&self, number: u64) -> Progress {
        self.progress_of_reload(number)
    }

    fn wanted(&self) -> usize {
        self.wanted
    }

    fn most_workers(&self, server: &Server<'_>) -> usize {
        self.most(server)
    }

    fn scale(&mut self, server: &Server<'_>, workers: usize) -> Result<u64, String> {
        self.have_workers(server, workers)
    }

    fn scale_progress(&self, number: u64) -> Progress {
        self.change_progress(number)
    }

    fn leave_slowly(&mut self, _: &mut Server<'_>) -> bool {
        false
    }

    fn let_next_leave(&mut self, _: &mut Server<'_>) -> bool {
        true
    }

    fn stop(&mut self, server: &mut Server<'_>, finish: Finish) {
        self.stop_molds(server, finish);
    }

    fn finish_up(&mut self, server: &mut Server<'_>) -> bool {
        self.end_late(server)
    }

    fn end_now(&mut self, server: &mut Server<'_>, _: &str) {
        self.send_all(Message::Quit);
        server.phase = Phase::Stopping { deadline: Instant::now() + MOLD_GRACE, cut: true };
    }

    fn give_up(&mut self) {
        let patience = self.patience();
        self.generations.iter_mut().filter(|generation| generation.stays()).for_each(|generation| generation.leave(patience));
    }

    fn is_gone(&self) -> bool {
        self.generations.is_empty()
    }

    fn set_drain_state(&self, drain_state: DrainState) {
        self.generations.iter().for_each(|generation| generation.announce_drain_state(drain_state));
    }

    /// Forwards the request to all molds. Each mold ignores requests about workers of other molds.
    fn handle_request(&mut self, _: &Server<'_>, request: WorkerRequest) {
        self.generations.iter().for_each(|generation| generation.link.pass_on(request));
    }

    fn reopen_logs(&self) {
        self.send_all(Message::Reopen);
    }

    fn own_listeners(&self) {
        self.send_all(Message::Own);
    }

    fn add_counts(&self, totals: &ServerTotals, own_connections: bool) {
        self.generations.iter().for_each(|generation| generation.add_counts(totals, own_connections));
        totals.add_orphaned();
    }

    fn release(&mut self) {
        self.generations.clear();
    }

    fn patience(&self, server: &Server<'_>, now: Instant) -> Option<Duration> {
        let serves = matches!(server.phase, Phase::Serving | Phase::Draining);
        let start = (serves && !self.is_alive()).then(|| self.pace.wait(now));
        let ends = self.generations.iter().filter_map(|generation| generation.end_by);
        let end = ends.map(|end_by| end_by.saturating_duration_since(now)).min();
        start.into_iter().chain(end).chain(self.next_late_load(now)).min()
    }

    fn polled<'p>(&'p self, polled: &mut Vec<PollFd<'p>>) {
        wake_by(polled, self.generations.iter().map(|generation| generation.link.0.as_fd()));
    }

    fn generations(&self) -> Vec<api::Generation> {
        self.generations.iter().map(reports::of_generation).collect()
    }

    fn processes(&self) -> Vec<ProcessReport> {
        self.generations.iter().flat_map(reports::of_workers).collect()
    }

    fn running(&self) -> Vec<RunningRequest> {
        self.generations.iter().flat_map(|generation| generation.board.running_requests()).collect()
    }

    fn parent_process(&self, generation: Option<u64>) -> Option<u32> {
        self.generation(generation?).map(|generation| generation.pid.as_raw_nonzero().get().unsigned_abs())
    }

    fn backtraces(&self, generation: Option<u64>, number: usize, lines: usize) -> Vec<u8> {
        let generation = generation.and_then(|generation| self.generation(generation));
        generation.map(|generation| generation.board.backtraces(number, lines)).unwrap_or_default()
    }

    fn contexts(&self) -> Vec<Contexts> {
        self.generations.iter().flat_map(|generation| generation.board.contexts()).collect()
    }
}

impl Molds<'_> {
    fn send_all(&self, message: Message) {
        self.generations.iter().for_each(|generation| generation.link.send(message));
    }

    fn generation(&self, number: u64) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.number == number)
    }

    /// Returns the time that a mold may take to stop.
    fn patience(&self) -> Duration {
        self.settings.timeouts.graceful.saturating_add(MOLD_GRACE)
    }
}
