//! Stops all workers together, or slowly, one after the other.

use super::super::closing::{Closing, Rest};
use super::super::edges::Edges;
use super::super::member::Member;
use super::Supervisor;
use oribi_config::counted;
use oribi_listen::{Seat, is_any_lent};
use oribi_stats::scoreboard::{Prospect, WorkerCommand, WorkerState};
use std::time::{Duration, Instant};

/// The time that workers have to end properly even if the edges before them have used up `--graceful-timeout`: they have no
/// request any more, but exit handlers to run.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// The phase of a supervisor.
pub(super) enum Stage {
    Serving,
    /// The edges of this process finish their requests. Workers serve as before.
    Draining,
    /// No worker has become ready, and no more are started: the app, or a hook of it, cannot run in workers.
    Failed,
    /// Workers are told to finish one after the other, the next one at `next`; none is replaced.
    Leaving {
        next: Instant,
    },
    Stopping {
        /// `Drain` if no other process will accept connections after this one, else `Retire`.
        command: WorkerCommand,
        /// The time when workers that have not finished are killed.
        deadline: Instant,
        /// The state of the listeners.
        closing: Closing,
        /// The time when workers that are still starting are killed; `None`: they are waited for.
        starters: Option<Instant>,
        /// Whether requests had to be cut off.
        cut: bool,
    },
}

impl Supervisor<'_> {
    /// Begins to stop. A stop with `Retire` may later become one with `Drain`. If this process has edges, these finish first.
    pub(super) fn stop(&mut self, command: WorkerCommand) {
        if matches!(self.stage, Stage::Serving | Stage::Leaving { .. }) {
            self.notifier.stopping();
        }
        match (&mut self.edges, &self.stage) {
            (Some(edges), Stage::Serving | Stage::Leaving { .. }) => {
                log::info!("stopping: the edges finish what they have begun");
                let deadline = *self.stop_by.get_or_insert_with(|| Instant::now() + self.settings.timeouts.graceful);
                edges.drain(&mut self.listeners, deadline);
                self.stage = Stage::Draining;
                self.entitle("stopping");
            }
            (Some(_), Stage::Draining) => {}
            _ => self.stop_workers(command),
        }
    }

    /// Begins to stop the workers. If there were edges in this process, they have ended.
    pub(super) fn stop_workers(&mut self, command: WorkerCommand) {
        // Clients that wait at a lent listener wait for the next server.
        let lent = is_any_lent(&self.listeners);
        let command = if lent { WorkerCommand::Retire } else { command };
        match &mut self.stage {
            Stage::Serving | Stage::Leaving { .. } | Stage::Draining => {
                let (now, graceful) = (Instant::now(), self.settings.timeouts.graceful);
                let deadline = self.stop_by.unwrap_or(now + graceful).max(now + LAST_MOMENT.min(graceful));
                // They have no request, and other workers answer the waiting clients. The load of the app may take forever.
                let needed = self.served && !self.has_edges() && !self.members.iter().any(Member::accepts);
                let starters = (!needed).then_some(now + LAST_MOMENT);
                self.stage = Stage::Stopping { command, deadline, closing: Closing::default(), starters, cut: false };
                self.entitle("stopping");
                let finish = if self.members.len() == 1 { "finishes what it has" } else { "finish what they have" };
                log::info!("stopping: {} {finish} begun", counted(self.members.len(), "worker"));
            }
            Stage::Stopping { command: WorkerCommand::Retire, .. } if command == WorkerCommand::Drain => {
                if let Stage::Stopping { command: present, .. } = &mut self.stage {
                    *present = command;
                }
            }
            Stage::Stopping { .. } | Stage::Failed => return,
        }
        if command == WorkerCommand::Drain
            && let Stage::Stopping { closing, .. } = &mut self.stage
        {
            closing.begin(&mut self.listeners);
            if closing.awaits_clients() {
                return self.foresee(Prospect::Parts);
            }
        }
        self.members.iter().for_each(|member| member.tell(command));
    }

    /// Begins to stop slowly, after a parent program has started the next server: one worker every `spawn_interval`, so that
    /// the next server warms up while this one still does most of the work.
    pub(super) fn leave_slowly(&mut self) {
        if self.workers_have_sockets() {
            // No process would accept at the sockets of workers that have left, and no parent program has a copy of them.
            return self.stop(WorkerCommand::Drain);
        }
        if let Stage::Serving = self.stage {
            let interval = self.settings.spawn_interval.as_secs_f64();
            log::info!("stopping slowly: {}, one every {interval} s", counted(self.members.len(), "worker"));
            self.stage = Stage::Leaving { next: Instant::now() };
        }
    }

    /// While leaving: tells the next worker to finish, and begins to stop with the last one.
    pub(super) fn let_next_leave(&mut self) {
        let Stage::Leaving { next } = self.stage else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        let serving = self.members.iter_mut().filter(|member| member.serving().is_some());
        let mut serving: Vec<_> = serving.collect();
        serving.sort_by_key(|member| member.pid.as_raw_nonzero());
        match serving.as_mut_slice() {
            [] | [_] => self.stop(WorkerCommand::Drain),
            [first, ..] => {
                first.retire(now + self.settings.timeouts.graceful);
                self.stage = Stage::Leaving { next: now + self.settings.spawn_interval };
            }
        }
    }

    /// Kills all workers without waiting for their requests. A stop in progress keeps its command, which says whether another
    /// process accepts at the listeners.
    pub(super) fn end_now(&mut self, reason: &str) {
        if let Some(edges) = &mut self.edges {
            edges.end_now(reason);
        }
        if !matches!(self.stage, Stage::Stopping { .. }) {
            self.stop_workers(if self.edges.is_some() { WorkerCommand::Retire } else { WorkerCommand::Drain });
        }
        let mut connections = 0;
        for member in &self.members {
            connections += member.end();
        }
        if !self.members.is_empty() {
            let (workers, connections) =
                (counted(self.members.len(), "worker"), counted(connections as usize, "open connection"));
            log::warn!("{reason}: ended {workers} with {connections}");
        }
        if let Stage::Stopping { cut, deadline, closing, .. } = &mut self.stage {
            *cut = true;
            closing.give_up();
            *deadline = Instant::now() + Duration::from_secs(60);
        }
    }

    /// While stopping: kills workers that are still starting.
    fn end_starters(&mut self) {
        let Stage::Stopping { starters, .. } = &mut self.stage else { return };
        if starters.take_if(|moment| Instant::now() >= *moment).is_none() {
            return;
        }
        for member in self.members.iter().filter(|member| member.slot.state() == WorkerState::Starting) {
            log::info!("worker {} (pid {}) was still starting, and is ended", member.number, member.pid);
            member.end();
        }
    }

    /// While stopping: kills workers that take too long. Returns whether everything has ended.
    pub(super) fn finish_up(&mut self) -> bool {
        self.end_starters();
        let Stage::Stopping { deadline, closing, starters, .. } = &mut self.stage else { return false };
        if closing.have_all_come(&self.listeners) {
            self.members.iter().for_each(|member| member.tell(WorkerCommand::Drain));
        }
        closing.close_if_quiet(&self.listeners);
        if !self.members.is_empty() {
            if Instant::now() >= *deadline {
                self.end_now("time to finish is over");
            }
            return false;
        }
        let command = match closing.rest(&self.listeners, *deadline) {
            Rest::Wait => return false,
            Rest::Nothing => return self.edges.as_ref().is_none_or(Edges::are_gone),
            Rest::OneMore(command) => command,
        };
        // Clients wait for the end of its start.
        *starters = None;
        // It has the sockets of all seats.
        match self.start_worker(command, Seat::ONLY) {
            Ok(()) => false,
            Err(error) => {
                log::error!("cannot start a worker for the last connections: {error}");
                true
            }
        }
    }
}
