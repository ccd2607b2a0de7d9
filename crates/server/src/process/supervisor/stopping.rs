//! Stopping: all workers together, or slowly, one after the other.

use super::Supervisor;
use crate::config::counted;
use crate::listen::{Listener, Seat, handshake_begun};
use crate::scoreboard::WorkerCommand;
use std::time::{Duration, Instant};

/// How many workers may be forked one after the other to empty the queues of the listeners when all others have ended.
const LAST_WORKERS: usize = 3;

/// How long handshakes that have begun may take once new connections are turned away: the first retransmission included (RFC
/// 6298, section 2.1).
const HANDSHAKES: Duration = Duration::from_secs(1);

/// What a supervisor is about.
pub(super) enum Stage {
    Serving,
    /// One worker after the other is told to finish; the next one then. None is replaced.
    Leaving {
        next: Instant,
    },
    Stopping {
        /// `Drain` when nobody will accept connections behind this process, else `Retire`.
        command: WorkerCommand,
        /// When those that have not finished are ended.
        deadline: Instant,
        /// Workers that may still be forked to empty the queues.
        last_workers: usize,
        /// When listeners whose queue is empty may be closed; `None`: not, or done.
        close_listeners: Option<Instant>,
        /// Until when handshakes that had begun are waited for.
        handshakes_until: Option<Instant>,
        /// Something had to be cut off.
        cut: bool,
    },
}

impl Supervisor<'_> {
    /// Begins to stop. A stop that leaves the queue to others may become one that does not.
    pub(super) fn stop(&mut self, command: WorkerCommand) {
        // Who waits at a listener that is lent waits for the next server.
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
            Stage::Stopping { .. } => return,
        }
        if command == WorkerCommand::Drain {
            let mut all = true;
            for listener in &mut self.listeners {
                listener.remove_file();
                all &= listener.turn_away();
            }
            if let Stage::Stopping { close_listeners, handshakes_until, .. } = &mut self.stage {
                let now = Instant::now();
                // The retransmission is as late as the timers of both ends, and half a second is more than these are.
                *handshakes_until = Some(now + HANDSHAKES * 3 / 2);
                *close_listeners = all.then(|| now + HANDSHAKES);
            }
        }
        for member in &self.members {
            member.tell(command);
        }
    }

    /// Begins to stop slowly, for a server above that has started the next one: a worker every `spawn_interval`, so that the
    /// next server warms up while this one still has most of the work.
    pub(super) fn leave_slowly(&mut self) {
        if self.settings.sockets_of_address() > 1 {
            // Nobody would take the connections of those who have left, and no server above has a copy of their sockets.
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
            // Whoever knocks during a long farewell should hear at once that nobody is in.
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
        // Connections may have arrived behind the back of workers that had already looked, and others may be about to. Those are
        // looked for first: a handshake that ends between the two looks is found by the second.
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
        // It has all doors.
        match self.start_worker(WorkerCommand::Drain, Seat::ONLY) {
            Ok(()) => false,
            Err(error) => {
                log::error!("cannot start a worker for the last connections: {error}");
                true
            }
        }
    }
}
