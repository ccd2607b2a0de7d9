//! Watches the processes of workers: only the edge may declare the memory of a dead worker free.

use super::AppPool;
use crate::parent_link::Reason;
use oribi_io::Backend;
use oribi_pool::Arrival;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use std::os::fd::{AsFd, OwnedFd};

/// A worker whose process is watched.
#[derive(Debug)]
struct WatchedWorker {
    process: u32,
    /// A pidfd, readable when the process has ended. `None` without pidfds: then the edge checks from time to time whether
    /// the process exists.
    pidfd: Option<OwnedFd>,
}

/// The workers of the pool.
#[derive(Debug)]
pub(super) struct Workers {
    watched: Vec<Option<WatchedWorker>>,
    /// The process id of the last worker with each index; 0 if there was none. That worker may have ended, with its last
    /// answers still unread.
    latest: Vec<u32>,
}

impl Workers {
    pub(super) fn new(workers: u32) -> Self {
        Self { watched: (0..workers).map(|_| None).collect(), latest: vec![0; workers as usize] }
    }

    /// Returns the process id of the worker with this index, as the worker has written it. `None` if no such worker is
    /// watched.
    pub(super) fn process(&self, worker: u32) -> Option<u32> {
        self.watched.get(worker as usize)?.as_ref().map(|watched| watched.process)
    }

    /// Returns the process id of the last worker with this index, which may have ended. `None` if there was none.
    pub(super) fn latest_process(&self, worker: u32) -> Option<u32> {
        self.latest.get(worker as usize).copied().filter(|process| *process > 0)
    }

    /// Removes workers that have ended, and returns their indexes.
    fn take_ended(&mut self) -> Vec<u32> {
        let has_ended = |watched: &mut Option<WatchedWorker>| watched.take_if(|watched| watched.has_ended()).is_some();
        (0..).zip(&mut self.watched).filter_map(|(number, watched)| has_ended(watched).then_some(number)).collect()
    }

    /// Whether the kernel reports the end of every worker.
    fn are_all_watched(&self) -> bool {
        self.watched.iter().flatten().all(|watched| watched.pidfd.is_some())
    }
}

impl WatchedWorker {
    fn has_ended(&self) -> bool {
        match &self.pidfd {
            Some(pidfd) => {
                let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
                poll(&mut polled, Some(&Timespec::default())).is_ok() && !polled[0].revents().is_empty()
            }
            None => process_id(self.process).is_none_or(|id| test_kill_process(id) == Err(Errno::SRCH)),
        }
    }
}

fn process_id(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Begins to watch the workers that have joined the pool.
    #[inline]
    pub(in super::super) fn watch_new_workers(&mut self) {
        for arrival in self.pool.arrivals() {
            self.watch(arrival);
        }
        let executed = self.pool.take_executed();
        if !executed.is_empty() {
            self.forget_workers(&executed);
        }
    }

    /// Removes workers whose processes have executed another program.
    #[cold]
    fn forget_workers(&mut self, executed: &[u32]) {
        executed.iter().for_each(|worker| self.workers.watched[*worker as usize] = None);
        self.report_death(executed);
    }

    pub(in super::super) fn watch(&mut self, Arrival { worker, process }: Arrival) {
        self.workers.latest[worker as usize] = process;
        let pidfd = match process_id(process).map(|id| pidfd_open(id, PidfdFlags::empty())) {
            Some(Ok(pidfd)) => Some(pidfd).filter(|pidfd| self.is_watched(pidfd)),
            // The process has ended already, or its id is invalid.
            None | Some(Err(Errno::SRCH)) => return self.report_death(&[worker]),
            Some(Err(_)) => None,
        };
        self.workers.watched[worker as usize] = Some(WatchedWorker { process, pidfd });
    }

    fn is_watched(&self, pidfd: &OwnedFd) -> bool {
        self.lane.event_sources().is_some_and(|event_sources| event_sources.watch(pidfd.as_fd()).is_ok())
    }

    /// Checks whether the workers have ended whose end the kernel does not report.
    pub(super) fn check_unwatched_workers(&mut self) {
        if !self.workers.are_all_watched() {
            self.handle_ended_workers();
        }
    }

    /// Handles the workers that have ended.
    pub(in super::super) fn handle_ended_workers(&mut self) {
        let dead = self.workers.take_ended();
        self.report_death(&dead);
    }

    fn report_death(&mut self, dead: &[u32]) {
        dead.iter().for_each(|worker| self.pool.report_death(*worker));
        if !dead.is_empty() {
            // Handles the last output of these workers, and the requests that are lost with them.
            self.handle_answers(true);
        }
    }

    /// Handles a worker that has written invalid data into its shared memory. The worker's own memory may also be corrupt, so
    /// the parent process must kill it.
    pub(super) fn handle_breach(&mut self, worker: u32) {
        let process = self.workers.process(worker);
        log::error!(
            "worker {} has damaged the memory that it shares with this process, and is killed: the usual cause is a module \
             written in C that writes beyond its memory",
            process.map_or_else(|| format!("at place {worker}"), |process| process.to_string())
        );
        self.request_action(worker, Reason::Broken);
    }

    /// Asks the parent process to stop or signal a worker.
    pub(super) fn request_action(&mut self, worker: u32, reason: Reason) {
        let (Some(process), Some(parent_link)) = (self.workers.process(worker), self.parent_link) else { return };
        if !parent_link.request_action(process, reason) {
            log::error!("cannot report worker {process} ({reason:?}) to its supervisor: the socket is full or closed");
        }
    }
}
