//! Workers: a workforce that this process itself forks, replaces and stops. This process is the first process, or a mold.

mod aging;
mod counting;
mod edge_requests;
mod ends;
mod executed;
mod forking;
mod maintaining;
mod starting;
mod stopping;
mod stuck;

use super::failure_pipe::FailurePipe;
use super::inheritance::Link;
use super::member::Member;
use super::pace::Pace;
use super::server::{Phase, Server};
use super::server_totals::ServerTotals;
use super::wait::wake_by;
use super::wake_pipe::WakePipe;
use super::workforce::{Finish, ONLY_APP, Workforce};
use super::{LOOK_FOR_ENDED, LOOK_FOR_HANDSHAKES, failed_to, scaling};
use oribi_admin::control::{ProcessReport, Progress};
use oribi_config::Settings;
use oribi_config::directory::Directory;
use oribi_control_api::{Generation, WorkerTarget};
use oribi_edge::parent_link::WorkerRequest;
use oribi_host::Runtime;
use oribi_stats::app_metrics::Contexts;
use oribi_stats::scoreboard::{DrainState, RunningRequest, Scoreboard, WorkerCommand};
use oribi_stats::totals::Counter;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitStatus};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use stopping::FinalPhase;

/// The answer to an order that lets the number of workers follow the load, or a setting that does, without a master.
pub(super) const FIXED: &str = "the number of workers can follow the load only where `oribi` itself starts the app, with an \
                                edge: set one number";

/// Returns the number of threads of a worker that take requests by themselves.
pub(super) fn lanes_of_worker(settings: &Settings, runtime: &dyn Runtime) -> usize {
    if runtime.global_lock().is_some() { 1 } else { settings.threads.max(1) }
}

pub(super) struct Workers<'a> {
    settings: &'a Settings,
    runtime: &'a dyn Runtime,
    /// The link to the master, if this process is a mold whose master lives.
    pub(super) master: Option<Link>,
    /// The number of loads of the app so far, including this one: 1 without a master.
    generation: u64,
    /// The pipe to which workers write when their state changes.
    wake_pipe: WakePipe,
    /// The pipe on which workers report why they cannot serve.
    failure_pipe: FailurePipe,
    scoreboard: Scoreboard,
    /// The counter for workers that end because this process stops.
    pub(super) ends_for: Counter,
    members: Vec<Member>,
    /// The target number of workers that accept connections.
    wanted: usize,
    /// The last change of the target number, for the client that waits for its completion.
    change: scaling::WorkerCountChange,
    /// The number that identifies the master's last order to change the number of workers, until the order is reported as
    /// carried out.
    owes_settled: Option<u32>,
    pace: Pace,
    /// The state of the last phase, while stopping.
    final_phase: Option<FinalPhase>,
    /// Whether all workers are being replaced.
    replacing: bool,
    /// The reason why the last replacement of the workers was given up, if it was.
    replacement_failure: Option<String>,
    /// Whether the memory use of workers is only estimated, because the system refuses exact numbers.
    estimates_memory: bool,
    /// The number of workers that ended before they could serve. It counts towards giving up the start, or the replacement in
    /// progress.
    failed_starts: usize,
    /// The number of workers in a row that a signal has killed before they could serve.
    killed_starts: usize,
    /// Whether any worker has become ready.
    served: bool,
    /// Whether the start has been reported, to the master or in the log.
    announced: bool,
    /// Whether another server or generation serves until all workers here serve.
    pub(super) is_to_be_complete: bool,
    /// The directory in which each worker loads the app. `None` if this process has loaded the app: then the app may have
    /// changed the working directory.
    directory: Option<Directory>,
}

impl<'a> Workers<'a> {
    /// Creates the workforce, with the pipes that workers share with this process. Starts no worker yet.
    ///
    /// # Errors
    /// The system refuses a pipe.
    pub(super) fn new(
        settings: &'a Settings,
        runtime: &'a dyn Runtime,
        scoreboard: Scoreboard,
        (master, generation): (Option<Link>, u64),
        directory: Option<Directory>,
    ) -> Result<Self, String> {
        Ok(Self {
            settings,
            runtime,
            master,
            generation,
            wake_pipe: WakePipe::new().map_err(|error| failed_to("make a pipe", &error))?,
            failure_pipe: FailurePipe::new().map_err(|error| failed_to("make a pipe", &error))?,
            scoreboard,
            ends_for: Counter::EndedByStop,
            members: Vec::new(),
            wanted: settings.workers.at_start(),
            change: scaling::WorkerCountChange::default(),
            owes_settled: None,
            pace: Pace::new(settings.spawn_interval, settings.respawn_interval),
            final_phase: None,
            replacing: false,
            replacement_failure: None,
            estimates_memory: false,
            failed_starts: 0,
            killed_starts: 0,
            served: false,
            announced: false,
            is_to_be_complete: false,
            directory,
        })
    }

    /// Carries out an order of the master to change the number of workers. `order` is the number that identifies the order.
    pub(super) fn handle_scale(&mut self, server: &Server<'_>, workers: u32, order: u32) {
        if let Err(why) = self.have_workers(server, workers as usize) {
            log::warn!("{why}");
        }
        // A generation that has not reported its start yet reports the start instead.
        self.owes_settled = self.announced.then_some(order);
    }

    /// Announces to the workers whether the server is about to end.
    fn announce_drain_state(&self, drain_state: DrainState) {
        // All slots share this value, so workers that start later also read it.
        if let Some(slot) = self.scoreboard.slots().first() {
            slot.set_drain_state(drain_state);
        }
        self.members.iter().for_each(Member::wake);
    }
}

impl Workforce for Workers<'_> {
    fn begin(&mut self, server: &mut Server<'_>) {
        self.start_first(server);
    }

    fn rearm(&self) {
        self.wake_pipe.rearm();
    }

    fn step(&mut self, server: &mut Server<'_>) {
        self.look_for_other_programs(server);
        self.report_start(server);
        self.end_overdue();
        self.end_late_starters();
        self.replace_aged();
        self.keep_app_deadlines(server);
    }

    fn keep_running(&mut self, server: &mut Server<'_>) {
        self.maintain_number(server);
    }

    fn reap(&mut self, server: &mut Server<'_>) {
        self.reap_workers(server);
    }

    fn ended(&mut self, server: &mut Server<'_>, pid: Pid, status: WaitStatus) {
        if let Some(index) = self.members.iter().position(|member| member.pid == pid) {
            self.worker_ended(server, index, Some(status));
        }
    }

    fn has_served(&self) -> bool {
        self.served
    }

    fn is_complete(&self) -> bool {
        self.announced
    }

    fn is_alive(&self) -> bool {
        !self.members.is_empty()
    }

    fn answers_those_waiting(&self) -> bool {
        true
    }

    fn reload(&mut self, server: &mut Server<'_>, app: Option<&str>) -> Result<u64, String> {
        only(app)?;
        self.replace_all(server);
        Ok(0)
    }

    fn reload_progress(&self, _: u64) -> Progress {
        match &self.replacement_failure {
            Some(why) => Progress::Failed(why.clone()),
            None if self.replacing => Progress::Pending,
            None => Progress::Done("all workers have been replaced".to_owned()),
        }
    }

    fn wanted(&self) -> usize {
        self.wanted
    }

    fn most_workers(&self, server: &Server<'_>) -> usize {
        self.most(server)
    }

    fn workers_of(&mut self, app: Option<&str>) -> Result<usize, String> {
        only(app).map(|()| self.wanted)
    }

    fn scale(&mut self, server: &Server<'_>, app: Option<&str>, target: WorkerTarget) -> Result<u64, String> {
        only(app)?;
        let WorkerTarget::Number(workers) = target else { return Err(FIXED.to_owned()) };
        self.have_workers(server, workers)
    }

    fn scale_progress(&self, number: u64) -> Progress {
        self.change.progress(number, self.wanted)
    }

    fn leave_slowly(&mut self, server: &mut Server<'_>) -> bool {
        self.begin_to_leave(server);
        true
    }

    fn let_next_leave(&mut self, server: &mut Server<'_>) -> bool {
        self.next_leaves(server)
    }

    fn stop(&mut self, server: &mut Server<'_>, finish: Finish) {
        let command = if finish == Finish::Last { WorkerCommand::Drain } else { WorkerCommand::Retire };
        self.stop_workers(server, command);
    }

    fn finish_up(&mut self, server: &mut Server<'_>) -> bool {
        self.end_late(server)
    }

    fn end_now(&mut self, server: &mut Server<'_>, reason: &str) {
        self.kill_all(server, reason);
    }

    fn give_up(&mut self) {
        for member in &self.members {
            member.end();
        }
    }

    fn is_gone(&self) -> bool {
        self.members.is_empty()
    }

    fn set_drain_state(&self, drain_state: DrainState) {
        self.announce_drain_state(drain_state);
    }

    fn handle_request(&mut self, _: &Server<'_>, request: WorkerRequest) {
        self.handle_edge_request(request);
    }

    fn reopen_logs(&self) {
        let Some(member) = self.members.first() else { return };
        // All slots share this counter.
        member.slot.log_opening.fetch_add(1, Relaxed);
        self.members.iter().for_each(Member::wake);
    }

    /// Does nothing: workers do not know whether listeners are lent.
    fn own_listeners(&self) {}

    fn add_counts(&self, totals: &ServerTotals, own_connections: bool) {
        totals.add_workers(&self.scoreboard.counts(own_connections), &self.scoreboard);
    }

    fn release(&mut self) {
        self.members.clear();
        self.wake_pipe = WakePipe::default();
        self.failure_pipe = FailurePipe::default();
    }

    fn patience(&self, server: &Server<'_>, now: Instant) -> Option<Duration> {
        let serves = matches!(server.phase, Phase::Serving | Phase::Draining);
        let has_unwatched = self.members.iter().any(|member| member.process.is_none());
        let watches_apps = self.settings.watched_threads() > 0 && !self.members.is_empty();
        let looks_for_last = self.members.is_empty() && matches!(server.phase, Phase::Stopping { .. });
        let times = self.members.iter().filter_map(|member| member.end_by);
        let times = times.chain(self.final_phase.as_ref().and_then(FinalPhase::next_look));
        let waits = [
            serves.then(|| self.pace.wait(now)).filter(|wait| !wait.is_zero()),
            times.min().map(|time| time.saturating_duration_since(now)),
            looks_for_last.then_some(LOOK_FOR_HANDSHAKES),
            self.next_late_starter(now),
            self.next_aged(now),
            watches_apps.then(|| self.look_for_stuck()),
            has_unwatched.then_some(LOOK_FOR_ENDED),
        ];
        waits.into_iter().flatten().min()
    }

    fn polled<'p>(&'p self, polled: &mut Vec<PollFd<'p>>) {
        wake_by(polled, self.wake_pipe.arrival());
        wake_by(polled, self.master.iter().map(|master| master.0.as_fd()));
        for member in &self.members {
            if !member.left {
                polled.push(PollFd::from_borrowed_fd(member.waker.as_fd(), PollFlags::empty()));
            }
            wake_by(polled, member.process.iter().map(AsFd::as_fd));
        }
    }

    /// Returns none: the app is loaded only once, or by each worker.
    fn generations(&self) -> Vec<Generation> {
        Vec::new()
    }

    fn processes(&self) -> Vec<ProcessReport> {
        let rows = self.scoreboard.rows().into_iter();
        rows.map(|row| ProcessReport { kind: "worker", app: None, generation: None, row }).collect()
    }

    fn running(&self) -> Vec<RunningRequest> {
        self.scoreboard.running_requests()
    }

    fn parent_process(&self, _: &ProcessReport) -> Option<u32> {
        Some(std::process::id())
    }

    fn backtraces(&self, worker: &ProcessReport, lines: usize) -> Vec<u8> {
        self.scoreboard.backtraces(worker.row.number, lines)
    }

    fn contexts(&self) -> Vec<Contexts> {
        self.scoreboard.contexts().collect()
    }
}

/// Refuses the name of an app, because there is only one.
fn only(app: Option<&str>) -> Result<(), String> {
    app.map_or(Ok(()), |_| Err(ONLY_APP.to_owned()))
}
