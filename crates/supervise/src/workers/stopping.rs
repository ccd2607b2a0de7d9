//! Stops all workers together, or slowly, one after the other.

use super::super::closing::{Closing, NextStep};
use super::super::member::Member;
use super::super::process_state;
use super::super::server::{Phase, Server};
use super::Workers;
use oribi_config::counted;
use oribi_listen::{Shard, is_any_lent};
use oribi_stats::scoreboard::{DrainState, WorkerCommand, WorkerState};
use std::time::{Duration, Instant};

/// The time that workers have to end properly even if the edges have used up `--graceful-timeout`: the workers have no requests
/// left, but exit handlers to run.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// The state of the last phase, in which all workers finish.
#[derive(Debug)]
pub(super) struct FinalPhase {
    /// `Drain` if no other process will accept connections after this one, else `Retire`.
    command: WorkerCommand,
    /// The last phase of the listeners, which must not lose the clients in their queues.
    closing: Closing,
    /// The time when workers that are still starting are killed. `None` if clients wait until such a worker has started.
    starters: Option<Instant>,
}

impl FinalPhase {
    /// Returns the time of the next look at listeners and starting workers.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.closing.next_look().into_iter().chain(self.starters).min()
    }
}

impl Workers<'_> {
    /// Begins to stop the workers by `command`: `Retire` or `Drain`. If they stop by `Retire` already, they may later get
    /// `Drain`; all other calls while they stop do nothing. Edges of this process must have ended.
    pub(in super::super) fn stop_workers(&mut self, server: &mut Server<'_>, command: WorkerCommand) {
        // The next server accepts the clients that wait at a lent listener.
        let lent = is_any_lent(&server.listeners);
        let command = if lent { WorkerCommand::Retire } else { command };
        let final_phase = match (server.phase, self.final_phase.take()) {
            (Phase::Serving | Phase::Leaving { .. } | Phase::Draining, _) => self.begin_to_stop(server, command),
            (Phase::Stopping { .. }, Some(final_phase))
                if (final_phase.command, command) == (WorkerCommand::Retire, WorkerCommand::Drain) =>
            {
                FinalPhase { command, ..final_phase }
            }
            (Phase::Stopping { .. } | Phase::Failed, final_phase) => {
                self.final_phase = final_phase;
                return;
            }
        };
        let final_phase = self.final_phase.insert(final_phase);
        if command == WorkerCommand::Drain {
            final_phase.closing.begin(&mut server.listeners);
            if final_phase.closing.awaits_clients() {
                return self.announce_drain_state(DrainState::Closing);
            }
        }
        self.members.iter().for_each(|member| member.send_command(command));
    }

    fn begin_to_stop(&self, server: &mut Server<'_>, command: WorkerCommand) -> FinalPhase {
        let (now, graceful) = (Instant::now(), self.settings.timeouts.graceful);
        let deadline = server.stop_by.unwrap_or(now + graceful).max(now + LAST_MOMENT.min(graceful));
        // Starting workers have no requests. If other workers answer the waiting clients, starting workers are not needed, and
        // their load of the app may take forever.
        let needed = self.served && !server.has_edges() && !self.members.iter().any(Member::accepts);
        let starters = (!needed).then_some(now + LAST_MOMENT);
        server.phase = Phase::Stopping { deadline, cut: false };
        server.set_title("stopping");
        let finish = if self.members.len() == 1 { "finishes what it has" } else { "finish what they have" };
        log::info!("stopping: {} {finish} begun", counted(self.members.len(), "worker"));
        FinalPhase { command, closing: Closing::default(), starters }
    }

    /// Begins to stop slowly, after a parent program has started the next server: one worker every `spawn_interval`, so that
    /// the next server warms up while this one still does most of the work. Workers with sockets of their own stop together
    /// instead, because no process would accept at the sockets of a worker that has left: the parent program has no copy of
    /// these sockets.
    pub(super) fn begin_to_leave(&self, server: &mut Server<'_>) {
        if server.phase != Phase::Serving {
            return;
        }
        server.phase = Phase::Leaving { next: Instant::now() };
        if !self.workers_have_sockets(server) {
            let interval = self.settings.spawn_interval.as_secs_f64();
            log::info!("stopping slowly: {}, one every {interval} s", counted(self.members.len(), "worker"));
        }
    }

    /// While leaving: commands the next worker to finish when its time has come. Returns whether at most one worker is left, so
    /// that the server must stop with that worker.
    pub(super) fn next_leaves(&mut self, server: &mut Server<'_>) -> bool {
        let Phase::Leaving { next } = server.phase else { return false };
        if self.workers_have_sockets(server) {
            return true;
        }
        let now = Instant::now();
        if now < next {
            return false;
        }
        let serving = self.members.iter_mut().filter(|member| member.serving().is_some());
        let mut serving: Vec<_> = serving.collect();
        serving.sort_by_key(|member| member.pid.as_raw_nonzero());
        match serving.as_mut_slice() {
            [] | [_] => true,
            [first, ..] => {
                first.retire(now + self.settings.timeouts.graceful);
                server.phase = Phase::Leaving { next: now + self.settings.spawn_interval };
                false
            }
        }
    }

    /// Kills all workers without waiting for their requests. A stop in progress keeps its command, which depends on whether
    /// another process accepts at the listeners.
    pub(in super::super) fn kill_all(&mut self, server: &mut Server<'_>, reason: &str) {
        if !matches!(server.phase, Phase::Stopping { .. }) {
            let command = if server.edges.is_some() { WorkerCommand::Retire } else { WorkerCommand::Drain };
            self.stop_workers(server, command);
        }
        let mut connections = 0;
        for member in &self.members {
            if let Some(state) = process_state::of(member.pid) {
                log::info!("{reason}: killing worker {} (pid {}), which {state}", member.number, member.pid);
            }
            connections += member.end();
        }
        if !self.members.is_empty() {
            let (workers, connections) =
                (counted(self.members.len(), "worker"), counted(connections as usize, "open connection"));
            log::warn!("{reason}: killed {workers} with {connections}");
        }
        self.final_phase.iter_mut().for_each(|final_phase| final_phase.closing.give_up());
        if let Phase::Stopping { cut, deadline } = &mut server.phase {
            *cut = true;
            *deadline = Instant::now() + Duration::from_secs(60);
        }
    }

    /// While stopping: kills workers that are still starting.
    fn end_starters(&mut self) {
        let Some(final_phase) = &mut self.final_phase else { return };
        if final_phase.starters.take_if(|time| Instant::now() >= *time).is_none() {
            return;
        }
        for member in self.members.iter().filter(|member| member.slot.state() == WorkerState::Starting) {
            log::info!("worker {} (pid {}) was still starting, and is killed", member.number, member.pid);
            member.end();
        }
    }

    /// While stopping: kills workers that take too long, and starts a last worker if clients are left. Returns whether all
    /// workers have ended and no client waits.
    pub(super) fn end_late(&mut self, server: &mut Server<'_>) -> bool {
        self.end_starters();
        let (Phase::Stopping { deadline, .. }, Some(final_phase)) = (server.phase, &mut self.final_phase) else { return false };
        let closing = &mut final_phase.closing;
        if closing.have_all_arrived(&server.listeners) {
            self.members.iter().for_each(|member| member.send_command(WorkerCommand::Drain));
        }
        closing.close_if_quiet(&server.listeners);
        if !self.members.is_empty() {
            if Instant::now() >= deadline {
                self.kill_all(server, "time to finish is over");
            }
            return false;
        }
        let command = match closing.next_step(&server.listeners, deadline) {
            NextStep::Wait => return false,
            NextStep::Nothing => return true,
            NextStep::ForkOneMore(command) => command,
        };
        // Clients wait until this worker has started, so it must not be killed before.
        final_phase.starters = None;
        // This worker takes the sockets of all shards.
        match self.start_worker(server, command, Shard::ONLY) {
            Ok(()) => false,
            Err(error) => {
                log::error!("cannot start a worker for clients that are connected and not accepted yet: {error}");
                true
            }
        }
    }
}
