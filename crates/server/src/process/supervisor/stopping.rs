//! Stopping: all workers together, or slowly, one after the other.

use super::Supervisor;
use crate::config::counted;
use crate::listen::{Listener, Seat, handshake_begun};
use crate::scoreboard::WorkerCommand;
use std::time::{Duration, Instant};

/// How many workers may be forked, one after the other, to empty the queues of the listeners after all others have ended.
const LAST_WORKERS: usize = 3;

/// How long handshakes that have begun may take after new connections are turned away: enough for the first retransmission (RFC
/// 6298, section 2.1).
const HANDSHAKES: Duration = Duration::from_secs(1);

/// The phase of a supervisor.
pub(super) enum Stage {
    Serving,
    /// No worker has become ready, and no more are started: the app, or a hook of it, cannot run in workers.
    Failed,
    /// Workers are told to finish one after the other, the next one at `next`; none is replaced.
    Leaving {
        next: Instant,
    },
    Stopping {
        /// `Drain` if no other process will accept connections after this one, else `Retire`.
        command: WorkerCommand,
        /// When to end workers that have not finished.
        deadline: Instant,
        /// How many workers may still be forked to empty the queues.
        last_workers: usize,
        /// When to close listeners whose queue is empty; `None`: never, or done.
        close_listeners: Option<Instant>,
        /// Until when to wait for handshakes that had begun.
        handshakes_until: Option<Instant>,
        /// Requests had to be cut off.
        cut: bool,
    },
}

impl Supervisor<'_> {
    /// Begins to stop. A stop with `Retire` may later become one with `Drain`.
    pub(super) fn stop(&mut self, command: WorkerCommand) {
        // Clients that wait at a lent listener wait for the next server.
        let lent = self.listeners.iter().any(|listener| listener.lent);
        let command = if lent { WorkerCommand::Retire } else { command };
        match &mut self.stage {
            Stage::Serving | Stage::Leaving { .. } => {
                self.stage = Stage::Stopping {
                    command,
                    deadline: Instant::now() + self.settings.timeouts.graceful,
                    last_workers: LAST_WORKERS,
                    close_listeners: None,
                    handshakes_until: None,
                    cut: false,
                };
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
        if command == WorkerCommand::Drain {
            let mut all = true;
            for listener in &mut self.listeners {
                listener.remove_file();
                all &= listener.turn_away();
            }
            if let Stage::Stopping { close_listeners, handshakes_until, .. } = &mut self.stage {
                let now = Instant::now();
                // Both ends' timers delay the retransmission, by less than half a second.
                *handshakes_until = Some(now + HANDSHAKES * 3 / 2);
                *close_listeners = all.then(|| now + HANDSHAKES);
            }
        }
        for member in &self.members {
            member.tell(command);
        }
    }

    /// Begins to stop slowly, after a parent program has started the next server: one worker every `spawn_interval`, so that
    /// the next server warms up while this one still does most of the work.
    pub(super) fn leave_slowly(&mut self) {
        if self.settings.sockets_of_address() > 1 {
            // Nobody would accept at the sockets of workers that have left, and no parent program has a copy of them.
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

    /// Ends all workers without waiting for their requests.
    pub(super) fn end_now(&mut self, reason: &str) {
        self.stop(WorkerCommand::Drain);
        let mut connections = 0;
        for member in &self.members {
            connections += member.end();
        }
        if !self.members.is_empty() {
            let (workers, connections) =
                (counted(self.members.len(), "worker"), counted(connections as usize, "open connection"));
            log::warn!("{reason}: ended {workers} with {connections}");
        }
        if let Stage::Stopping { cut, last_workers, deadline, close_listeners, handshakes_until, .. } = &mut self.stage {
            *cut = true;
            *close_listeners = None;
            *handshakes_until = None;
            *last_workers = 0;
            *deadline = Instant::now() + Duration::from_secs(60);
        }
    }

    /// While stopping: ends what takes too long. Returns whether everything has ended.
    pub(super) fn finish_up(&mut self) -> bool {
        let Stage::Stopping { command, deadline, last_workers, close_listeners, handshakes_until, .. } = &mut self.stage else {
            return false;
        };
        let now = Instant::now();
        if close_listeners.is_some_and(|moment| now >= moment) {
            // A client that connects while the last requests take long is refused at once instead of waiting.
            let begun = handshakes_until.is_some_and(|end| now < end) && handshake_begun(&self.listeners);
            let waiting = begun || self.listeners.iter().any(Listener::has_waiting);
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
        // Connections may have arrived after the last look of the workers, and others may be in their handshakes. Check the
        // handshakes first: one that completes between the two checks is found by the second.
        let drains = *command == WorkerCommand::Drain;
        let begun = drains && handshakes_until.is_some_and(|end| now < end) && handshake_begun(&self.listeners);
        let waiting = drains && self.listeners.iter().any(Listener::has_waiting);
        if begun && !waiting {
            return false;
        }
        if !waiting || *last_workers == 0 || now >= *deadline {
            return true;
        }
        *last_workers -= 1;
        // It has the sockets of all seats.
        match self.start_worker(WorkerCommand::Drain, Seat::ONLY) {
            Ok(()) => false,
            Err(error) => {
                log::error!("cannot start a worker for the last connections: {error}");
                true
            }
        }
    }
}
