//! Forks workers.

use super::super::edge_pools::EdgePools;
use super::super::foreground::leave_report;
use super::super::member::Member;
use super::super::server::Server;
use super::super::worker::{self, WorkerSetup};
use super::{Workers, aging, lanes_of_worker};
use oribi_config::counted;
use oribi_config::directory::Directory;
use oribi_io::process::{Fork, Heirs};
use oribi_listen::Shard;
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
use oribi_stats::totals::Counter;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl Workers<'_> {
    /// Starts a worker. The error is `ResourceBusy` if no slot is free, because too many workers are still finishing.
    pub(super) fn start_worker(&mut self, server: &mut Server<'_>, command: WorkerCommand, shard: Shard) -> io::Result<()> {
        let slots = self.scoreboard.slots();
        let vacant = slots.iter().position(|slot| slot.state() == WorkerState::Vacant);
        let full = || format!("{} not ended yet", counted(slots.len(), "worker"));
        let index = vacant.ok_or_else(|| io::Error::new(io::ErrorKind::ResourceBusy, full()))?;
        let (slot, number) = (slots[index].for_heir(), index + 1);
        self.runtime.before_fork(number);
        let (wake, waker) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let supervisor = rustix::process::getpid();
        slot.occupy(command);
        let heirs = Heirs::begin();
        match server.fork() {
            Err(error) => {
                slot.vacate();
                Err(error)
            }
            Ok(Fork::Parent(pid)) => {
                slot.pid.store(pid.as_raw_nonzero().get().unsigned_abs(), Relaxed);
                slot.parent_account.count(Counter::WorkersStarted);
                let process = pidfd_open(pid, PidfdFlags::empty()).ok();
                let started_at = Instant::now();
                let mut member = Member::new(slot, number, pid, shard.number, waker, process, started_at);
                member.due = self.settings.life.max_lifetime.map(|most| started_at + aging::draw_lifetime(most));
                self.members.push(member);
                self.pace.started(started_at);
                log::debug!("worker {number} started (pid {pid})");
                Ok(())
            }
            Ok(Fork::Child) => {
                leave_report();
                self.become_worker(server, (slot, number, shard), (wake, waker), supervisor, heirs)
            }
        }
    }

    /// In a new worker: closes the descriptors that only the parent may have, and runs the worker.
    fn become_worker(
        &mut self,
        server: &mut Server<'_>,
        (slot, number, shard): (WorkerSlot, usize, Shard),
        (wake, waker): (OwnedFd, OwnedFd),
        supervisor: Pid,
        heirs: Heirs,
    ) -> ! {
        self.directory.iter().for_each(Directory::enter);
        self.members.clear();
        self.master = None;
        server.release();
        let pools = server.take_pools();
        if !pools.is_empty() {
            // The app of a worker behind edges must not have access to client connections.
            server.listeners.clear();
        }
        self.failure_pipe.keep_writer();
        let notice = std::mem::take(&mut self.wake_pipe).into_writer().unwrap_or_else(|error| {
            log::error!("worker {number}: {error}");
            oribi_io::process::exit_now(1)
        });
        let worker = WorkerSetup {
            settings: self.settings,
            runtime: self.runtime,
            listeners: &server.listeners,
            pools: EdgePools::new(pools, lanes_of_worker(self.settings, self.runtime)),
            privileges: &server.privileges,
            generation: server.role.generation(),
            shard,
            slot,
            number,
            wake,
            waker,
            notice,
            failure_pipe: &self.failure_pipe,
            must_log: !self.served && self.generation == 1,
            supervisor,
        };
        worker.set_title("");
        worker::run_and_exit(&worker, &mut server.signals, heirs)
    }
}
