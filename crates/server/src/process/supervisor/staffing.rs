//! While serving: keeps the wanted number of workers, and replaces workers that are due.

use super::super::inheritance::Word;
use super::{Stage, Supervisor};
use crate::listen::Seat;
use crate::scoreboard::{WorkerCommand, WorkerState};
use std::time::{Duration, Instant};

impl Supervisor<'_> {
    /// Changes how many workers are wanted.
    pub(super) fn change_workers(&mut self, word: Word) {
        if self.workers_have_sockets() {
            log::warn!("the number of workers stays: the sockets are opened for {} of them (--accept)", self.wanted);
            return;
        }
        let most = self.scoreboard.slots().len() / 4;
        match word {
            Word::Grow if self.wanted < most => self.wanted += 1,
            Word::Shrink if self.wanted > 1 => self.wanted -= 1,
            _ => return,
        }
        log::info!("workers: {}", self.wanted);
    }

    /// Begins to replace all present workers, one after the other.
    pub(super) fn replace_all(&mut self) {
        if !matches!(self.stage, Stage::Serving) {
            return;
        }
        for member in &mut self.members {
            member.outdated = member.serving().is_some();
        }
        self.replacing = true;
        // What made workers fail may have been mended.
        self.pace.forgive();
        log::info!("replacing the workers, one after the other");
    }

    /// Called when a worker has ended before it could serve. Where others would do no better, no other is started: at the very
    /// start the server ends, and the first failure of a replacement leaves the present workers in their places. Returns whether
    /// that is so. An `outdated` worker was started before the replacement was asked for, and tells nothing of it.
    pub(super) fn start_has_failed(&mut self, outdated: bool) -> bool {
        if self.served_since.is_none() {
            self.failed_starts += 1;
            // A few may be slower than the first that fails.
            if self.failed_starts < self.wanted && !self.members.is_empty() {
                return false;
            }
            log::error!("no worker could start: fix the errors above, then start the server again");
            self.fail();
            return true;
        }
        let fresh_accepts = self.members.iter().any(|member| !member.outdated && member.accepts());
        let gives_up = self.replacing && !outdated && !fresh_accepts;
        if gives_up {
            self.replacing = false;
            self.members.iter_mut().for_each(|member| member.outdated = false);
            log::error!("the present workers stay: fix the errors above, then send HUP again");
        }
        gives_up
    }

    /// The server cannot go on.
    pub(super) fn fail(&mut self) {
        self.stage = Stage::Failed;
        self.edges.iter_mut().for_each(|edges| edges.end_now("there is no worker"));
        for member in &self.members {
            member.end();
        }
    }

    /// Starts missing workers, and retires workers that have been replaced.
    pub(super) fn keep_staffed(&mut self) {
        // One outdated worker at a time: the next follows when the replacement of this one accepts and this one was told to
        // retire.
        let aside = self.members.iter().position(|member| member.outdated && member.serving().is_some());
        if aside.is_none() && std::mem::take(&mut self.replacing) {
            log::info!("all workers have been replaced");
        }
        let (mut staying, mut accepting) = (0, 0);
        for (index, member) in self.members.iter().enumerate() {
            let stays = aside != Some(index);
            match member.serving() {
                Some(WorkerState::Starting) => staying += usize::from(stays),
                Some(WorkerState::Ready) => (staying, accepting) = (staying + usize::from(stays), accepting + 1),
                Some(WorkerState::Retiring) => accepting += 1,
                Some(WorkerState::Vacant) | None => {}
            }
        }
        while staying < self.wanted && self.pace.wait(Instant::now()).is_zero() {
            match self.start_worker(WorkerCommand::Serve, self.vacant_seat()) {
                Ok(()) => staying += 1,
                Err(error) => {
                    log::error!("cannot start a worker: {error}");
                    self.pace.failed(Instant::now(), Duration::ZERO);
                }
            }
        }
        while accepting > self.wanted
            && let Some(index) = self.dispensable()
        {
            self.members[index].retire(Instant::now() + self.settings.timeouts.graceful);
            accepting -= 1;
        }
    }

    /// Whether each lane of a worker accepts from sockets of its own.
    pub(super) fn workers_have_sockets(&self) -> bool {
        !self.has_edges() && self.settings.sockets_of_address() > 1
    }

    /// The number of seats. If all lanes wait at the same sockets, there is one.
    fn seats(&self) -> usize {
        if self.workers_have_sockets() { self.wanted } else { 1 }
    }

    /// The seat with the fewest workers that will stay.
    pub(super) fn vacant_seat(&self) -> Seat {
        let stays = |member: &&super::Member| matches!(member.serving(), Some(WorkerState::Starting | WorkerState::Ready));
        let taken = |number: usize| {
            let here = self.members.iter().filter(stays).filter(|member| member.seat == number);
            let fresh = here.clone().filter(|member| !member.outdated).count();
            (fresh, here.count())
        };
        let of = self.seats();
        Seat { number: (0..of).min_by_key(|&number| taken(number)).unwrap_or(0), of }
    }

    /// Whether another worker accepts connections in this worker's seat.
    fn is_covered(&self, member: &super::Member) -> bool {
        let same = |other: &&super::Member| other.seat == member.seat && other.pid != member.pid;
        self.members.iter().filter(same).any(super::Member::accepts)
    }

    /// The worker to retire when more accept than are wanted: one that asked for it, else an outdated one, else the newest.
    fn dispensable(&self) -> Option<usize> {
        let members = self.members.iter();
        let covered = |member: &super::Member, state| member.serving() == Some(state) && self.is_covered(member);
        let asking = members.clone().position(|member| covered(member, WorkerState::Retiring));
        let ready = |member: &super::Member| covered(member, WorkerState::Ready);
        asking
            .or_else(|| members.clone().position(|member| member.outdated && ready(member)))
            .or_else(|| members.clone().rposition(ready))
    }

    /// Ends workers that were told to finish and take too long.
    pub(super) fn end_overdue(&mut self) {
        let now = Instant::now();
        for member in &mut self.members {
            if member.end_by.take_if(|end_by| now >= *end_by).is_some() && member.slot.command() != WorkerCommand::Quit {
                let connections = member.end();
                let (number, pid) = (member.number, member.pid);
                log::warn!("worker {number} (pid {pid}) did not finish in time: ended with {connections} open connections");
            }
        }
    }
}
