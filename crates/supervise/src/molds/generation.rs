//! A generation: all workers started from one load of the app, and the mold that forks them.

use super::super::edges::pools;
use super::super::inheritable::Inheritable;
use super::super::inheritance::{
    self, BOARD, GENERATION, LISTENERS, Link, MASTER, METRICS_REQUESTS, Message, PROOF, Received, SPANS, VAULT,
};
use super::super::outbox;
use super::super::server_totals::ServerTotals;
use oribi_admin::metrics::MetricsClient;
use oribi_ipc::posts::Outbox;
use oribi_ipc::spans::SpanSender;
use oribi_listen::{Listener, Vault};
use oribi_pool::Memory;
use oribi_stats::app_metrics;
use oribi_stats::scoreboard::{Board, DrainState};
use oribi_stats::totals::{Counter, FoldedCounts};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// A generation whose mold has not been waited for yet.
pub(super) struct Generation {
    /// The number of the generation, counted from 1.
    pub(super) number: u64,
    pub(super) pid: Pid,
    pub(super) link: Link,
    pub(super) started_at: Instant,
    /// Whether the mold has loaded the app.
    pub(super) loaded: bool,
    /// Whether the mold was killed because it took too long to load the app.
    pub(super) late: bool,
    /// Whether the workers accept connections.
    pub(super) ready: bool,
    /// Whether the generation has reported that it has as many workers as the last order has set.
    pub(super) settled: bool,
    /// The number of orders to change the number of workers so far. It identifies the last order.
    scaled: u32,
    /// Whether some of the workers cannot start.
    pub(super) incomplete: bool,
    /// The reason why the generation cannot serve, if the mold has sent it.
    pub(super) failure: Option<String>,
    /// Whether the mold got a signal to end, and waits until another generation takes over.
    pub(super) termination_requested: bool,
    /// The time when the mold is killed if it has not ended. `None` while the generation is not leaving.
    pub(super) end_by: Option<Instant>,
    /// The scoreboard to which the mold and its workers write, in shared memory.
    pub(super) board: Board,
    /// The counters of the generation that have been added to the totals.
    pub(super) counted: FoldedCounts,
    /// The app metrics of the generation that have been added to the totals.
    pub(super) counted_metrics: app_metrics::FoldedMetrics,
}

impl Generation {
    /// Runs the command `mold`. The mold inherits a socket to this process and `listeners`; if there are edges, it inherits
    /// `pools` instead of the listeners.
    pub(super) fn start(
        number: u64,
        mold: &mut Command,
        listeners: &[Listener],
        pools: &[Memory],
        board: Board,
    ) -> io::Result<Self> {
        let (own, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let own_pid = rustix::process::getpid();
        mold.env(MASTER, format!("{}:{own_pid}", given.as_raw_fd()));
        let listeners = if pools.is_empty() { listeners } else { &[] };
        mold.env(LISTENERS, inheritance::describe(listeners));
        mold.env(pools::POOLS, pools::describe(pools));
        mold.env(GENERATION, number.to_string());
        mold.env(BOARD, board.descriptor().as_raw_fd().to_string());
        let vault = Vault::fill(listeners)?;
        match &vault {
            Some(vault) => mold.env(VAULT, vault.as_raw_fd().to_string()),
            None => mold.env_remove(VAULT),
        };
        let proof = oribi_listen::proof(listeners);
        match proof {
            Some(proof) => mold.env(PROOF, proof.as_raw_fd().to_string()),
            None => mold.env_remove(PROOF),
        };
        // Edges send the spans of their requests themselves.
        let spans = SpanSender::of_process().filter(|_| pools.is_empty());
        match &spans {
            Some(spans) => mold.env(SPANS, spans.as_fd().as_raw_fd().to_string()),
            None => mold.env_remove(SPANS),
        };
        // Edges also serve metrics themselves.
        let metrics_requests = MetricsClient::of_process().filter(|_| pools.is_empty());
        match &metrics_requests {
            Some(metrics_requests) => mold.env(METRICS_REQUESTS, metrics_requests.as_fd().as_raw_fd().to_string()),
            None => mold.env_remove(METRICS_REQUESTS),
        };
        // Workers without edges have nobody to write to.
        let outbox = Outbox::of_process().filter(|_| !pools.is_empty());
        outbox::describe(outbox.as_ref(), mold);
        let spawned = {
            let sockets =
                listeners.iter().flat_map(Listener::sockets).chain([&given]).map(AsFd::as_fd).chain([board.descriptor()]);
            let others = pools.iter().flat_map(Memory::descriptors).chain(vault.as_ref().map(AsFd::as_fd));
            let others = others.chain(proof.map(AsFd::as_fd)).chain(spans.as_ref().map(AsFd::as_fd));
            let others = others.chain(metrics_requests.as_ref().map(AsFd::as_fd));
            let others = others.chain(outbox.iter().flat_map(Outbox::descriptors));
            let _inherited = Inheritable::new(sockets.chain(others))?;
            mold.spawn()?
        };
        let pid = i32::try_from(spawned.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the system returned no process id"))?;
        let (link, started_at) = (Link(own), Instant::now());
        let (loaded, late, ready, settled, incomplete, termination_requested) = (false, false, false, false, false, false);
        let (failure, end_by, scaled) = (None, None, 0);
        let (counted, counted_metrics) = (FoldedCounts::default(), app_metrics::FoldedMetrics::default());
        Ok(Self {
            number,
            pid,
            link,
            started_at,
            loaded,
            late,
            ready,
            settled,
            scaled,
            incomplete,
            failure,
            termination_requested,
            end_by,
            board,
            counted,
            counted_metrics,
        })
    }

    /// Announces to the mold whether the server is about to end.
    pub(super) fn announce_drain_state(&self, drain_state: DrainState) {
        match drain_state {
            DrainState::Serving => {}
            DrainState::Announced => self.link.send(Message::Announce),
            DrainState::Closing => self.link.send(Message::Part),
        }
    }

    /// Adds to `totals` the counters of this generation since the last call. `own_connections`: whether workers have
    /// connections. If not, the sums of the workers are left out, because edges count the same events.
    pub(super) fn add_counts(&self, totals: &ServerTotals, own_connections: bool) {
        totals.add(&self.counted, &self.board.counts(own_connections));
        totals.add_app_metrics(&self.counted_metrics, &self.board);
    }

    /// Adds the last counters of this generation to `totals`, after its mold has ended with `status`. If a signal killed the
    /// mold, each worker that was left counts as failed.
    pub(super) fn add_last_counts(&self, totals: &ServerTotals, own_connections: bool, status: WaitStatus) {
        self.add_counts(totals, own_connections);
        if status.exit_status().is_none() {
            (0..self.board.workers_left()).for_each(|_| totals.count(Counter::EndedByFailure));
        }
    }

    /// Whether the generation is not leaving.
    pub(super) fn stays(&self) -> bool {
        self.end_by.is_none()
    }

    /// Reads the messages of the mold. Returns whether its workers have begun to accept connections since the last call.
    pub(super) fn has_become_ready(&mut self) -> bool {
        let before = self.ready;
        // The end of the socket is ignored: the system also reports the end of the mold, with the reason.
        loop {
            match self.link.receive() {
                Received::Message(Message::Loaded) => self.loaded = true,
                // Molds of earlier versions do not send `Loaded`.
                Received::Message(Message::Ready) => {
                    (self.loaded, self.ready) = (true, true);
                    if std::mem::take(&mut self.incomplete) {
                        // The workers that could not start have started since.
                        self.failure = None;
                    }
                }
                Received::Message(Message::TerminationRequested) => self.termination_requested = true,
                // An answer to an order before the last one does not count.
                Received::Settled { order } => self.settled |= order == self.scaled,
                Received::Message(Message::Incomplete) => self.incomplete = true,
                Received::Failure(text) => self.failure = Some(text),
                Received::Message(_) | Received::WorkerRequest(_) | Received::TimeLeft(_) | Received::Scale { .. } => {}
                Received::End | Received::None => break,
            }
        }
        self.ready && !before
    }

    /// Sends the mold the target number of workers.
    pub(super) fn scale(&mut self, workers: usize) {
        self.scaled = self.scaled.wrapping_add(1);
        (self.settled, self.incomplete) = (false, false);
        self.link.scale(u32::try_from(workers).unwrap_or(u32::MAX), self.scaled);
    }

    /// Commands the mold to stop because the whole server stops, and sends the time left. Does nothing if the generation is
    /// leaving.
    pub(super) fn stop(&self, left: Duration) {
        if !self.stays() {
            return self.retire();
        }
        self.link.stop_within(left);
        self.wake_if_loading();
    }

    /// Commands the mold to finish running requests.
    pub(super) fn retire(&self) {
        self.link.send(Message::Retire);
        self.wake_if_loading();
    }

    /// Commands the mold to finish. It is killed if it has not ended after `patience`.
    pub(super) fn leave(&mut self, patience: Duration) {
        self.end_by = Some(Instant::now() + patience);
        self.retire();
    }

    fn wake_if_loading(&self) {
        if !self.ready {
            // The mold may still be loading the app, and then reads no messages.
            let _ = kill_process(self.pid, Signal::TERM);
        }
    }

    /// Kills the mold. It is killed again at `next` if it still exists then.
    pub(super) fn end(&mut self, next: Instant) {
        log::error!("the mold of generation {} (pid {}) does not stop and is killed", self.number, self.pid);
        // The mold has not been waited for, so its process id cannot belong to another process.
        let _ = kill_process(self.pid, Signal::KILL);
        self.end_by = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_has_settled_when_it_says_so_of_the_last_order() {
        let (own, given) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("sockets are to be had");
        let mold = Link(given);
        let mut generation = Generation {
            number: 1,
            pid: rustix::process::getpid(),
            link: Link(own),
            started_at: Instant::now(),
            loaded: true,
            late: false,
            ready: true,
            settled: false,
            scaled: 0,
            incomplete: false,
            failure: None,
            termination_requested: false,
            end_by: None,
            board: Board::new(1, 0, 0).expect("memory is to be had"),
            counted: FoldedCounts::default(),
            counted_metrics: app_metrics::FoldedMetrics::default(),
        };
        let mut asked = |workers| {
            generation.scale(workers);
            let Received::Scale { workers: heard, order } = mold.receive() else { panic!("it was asked") };
            assert_eq!(heard as usize, workers);
            order
        };
        let orders = [asked(7), asked(1)];
        let mut has_settled = |order| {
            mold.send_settled(order);
            generation.has_become_ready();
            generation.settled
        };
        assert!(!has_settled(orders[0]), "that was about seven workers");
        assert!(has_settled(orders[1]));
    }
}
