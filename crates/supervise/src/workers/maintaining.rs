//! Maintains the target number of workers while the server serves or drains, and replaces workers that are due.

use super::super::inheritance::Message;
use super::super::member::Member;
use super::super::notify::Reloading;
use super::super::scaling;
use super::super::server::Server;
use super::{Workers, lanes_of_worker};
use oribi_config::{ReloadMode, ReplaceOrder};
use oribi_engine::shortage::explain;
use oribi_listen::Shard;
use oribi_stats::scoreboard::{WorkerCommand, WorkerState};
use oribi_stats::totals::Counter;
use std::io::ErrorKind;
use std::time::Instant;

/// The number of workers of each kind.
#[derive(Debug, Default)]
struct WorkerCounts {
    /// Workers that stay, or whose replacement must not start yet.
    staying: usize,
    /// Workers that take requests.
    accepting: usize,
    /// Workers that take requests and are not outdated.
    fresh: usize,
    /// Whether a worker is starting or, with the order "old first", finishing.
    changing: bool,
}

impl Workers<'_> {
    /// Sets the target number of workers; returns the number that identifies this change.
    pub(super) fn have_workers(&mut self, server: &Server<'_>, workers: usize) -> Result<u64, String> {
        let workers = scaling::check(self.settings, workers, self.most(server))?;
        let number = self.change.begin();
        if workers != self.wanted {
            self.wanted = workers;
            log::info!("workers: {workers}");
        }
        Ok(number)
    }

    /// Returns the highest number of workers that may be set.
    pub(super) fn most(&self, server: &Server<'_>) -> usize {
        let capacity = server.pools(0).first().map(|memory| memory.shape().workers as usize);
        scaling::most_with(self.settings, capacity, lanes_of_worker(self.settings, self.runtime))
    }

    /// Begins to replace all current workers.
    pub(super) fn replace_all(&mut self, server: &mut Server<'_>) {
        server.renew_certificates();
        let whole = self.settings.life.reload_mode == ReloadMode::Whole;
        let end_by = Instant::now() + self.settings.timeouts.graceful;
        for member in &mut self.members {
            // Workers that end because they could not serve do not predict the fate of the new workers.
            member.outdated = member.serving().is_some() || member.slot.state() == WorkerState::Starting;
            // This worker began to start before the replacement was requested, and other workers serve. So it is not needed.
            if whole && self.served && member.serving() == Some(WorkerState::Starting) {
                member.retire(end_by);
            }
        }
        self.replacing = true;
        self.replacement_failure = None;
        self.failed_starts = 0;
        // The cause of earlier failures may have been fixed.
        self.pace.forgive();
        server.notifier.reloading(Reloading::App(0));
        let how = if self.replaces_whole() { "" } else { ", one after the other" };
        log::info!("replacing the workers{how}");
    }

    /// Starts missing workers, and retires workers that are replaced or surplus.
    pub(super) fn maintain_number(&mut self, server: &mut Server<'_>) {
        let outdated = self.members.iter().any(|member| member.outdated && member.serving().is_some());
        if !outdated && std::mem::take(&mut self.replacing) {
            self.scoreboard.parent_account.count(Counter::GenerationsLoaded);
            server.notifier.reloaded(Reloading::App(0), "serving");
            log::info!("all workers have been replaced");
        }
        let mut counts = self.counts();
        self.report_if_settled(&counts);
        while counts.staying < self.wanted && self.pace.wait(Instant::now()).is_zero() {
            match self.start_worker(server, WorkerCommand::Serve, self.vacant_shard(server)) {
                Ok(()) => counts.staying += 1,
                Err(error) => {
                    let why = explain(&error);
                    log::error!("cannot start a worker: {why}");
                    self.pace.refused(Instant::now());
                    let why = format!("a worker cannot be started: {why}");
                    if error.kind() == ErrorKind::ResourceBusy {
                        // There is room again when the workers that finish have ended.
                        self.report_shortage(&why);
                    } else {
                        self.fork_has_failed(server, &why);
                    }
                    counts = self.counts();
                    break;
                }
            }
        }
        if counts.staying >= self.wanted {
            self.pace.is_complete();
        }
        if self.replaces_whole() && counts.fresh < self.wanted {
            // If another replacement is requested before the last one is complete, more outdated workers may accept than are
            // wanted. The excess workers retire at once.
            while counts.accepting - counts.fresh > self.wanted
                && let Some(index) = self.dispensable()
            {
                self.retire(index);
                counts.accepting -= 1;
            }
            return;
        }
        while counts.accepting > self.wanted
            && let Some(index) = self.dispensable()
        {
            self.retire(index);
            (counts.accepting, counts.changing) = (counts.accepting - 1, true);
        }
        if self.settings.life.replace_order == ReplaceOrder::OldFirst
            && !counts.changing
            && counts.accepting >= self.wanted
            && let Some(index) = self.due()
        {
            self.retire(index);
        }
    }

    /// Reports to the client or master that waits for it that the target number is reached, if it is.
    fn report_if_settled(&mut self, counts: &WorkerCounts) {
        let as_many = !counts.changing && counts.accepting == self.wanted;
        if as_many {
            let leaving = self.members.iter().filter(|member| member.serving().is_none());
            self.change.await_ends_of(leaving.map(|member| member.pid));
        }
        let settled = as_many && !self.members.iter().any(|member| self.change.awaits_end_of(member.pid));
        if settled {
            self.change.end();
        }
        if let Some(master) = self.master.as_ref().filter(|_| settled)
            && let Some(order) = self.owes_settled.take()
        {
            master.send_settled(order);
        }
    }

    /// Reports to the client or master that waits for the target number that a worker cannot start.
    pub(super) fn report_shortage(&mut self, why: &str) {
        self.change.fail(why);
        if let Some(master) = self.master.as_ref().filter(|_| self.owes_settled.is_some()) {
            // The worker may be a step of a rolling reload, which must not continue.
            master.send_failure(why);
            master.send(Message::Incomplete);
        }
    }

    /// Whether more workers must be started.
    pub(super) fn has_too_few(&self) -> bool {
        self.counts().staying < self.wanted
    }

    fn retire(&mut self, index: usize) {
        self.members[index].cause = Some(self.cause_of_retirement(index));
        self.members[index].retire(Instant::now() + self.settings.timeouts.graceful);
    }

    /// Whether all workers are being replaced as a whole: all new ones must accept before the first old one retires.
    fn replaces_whole(&self) -> bool {
        self.replacing && self.settings.life.reload_mode == ReloadMode::Whole
    }

    /// Counts the workers.
    fn counts(&self) -> WorkerCounts {
        let old_first = self.settings.life.replace_order == ReplaceOrder::OldFirst;
        // The outdated workers are replaced one after the other: this one first. The next one follows when the replacement of
        // this one accepts, and this one has its command to retire.
        let aside = self.members.iter().position(|member| member.outdated && member.serving().is_some());
        let mut counts = WorkerCounts::default();
        for (index, member) in self.members.iter().enumerate() {
            let stays = if self.replaces_whole() { !member.outdated } else { old_first || aside != Some(index) };
            match member.serving() {
                Some(WorkerState::Starting) => {
                    counts.staying += usize::from(stays);
                    counts.changing = true;
                }
                Some(WorkerState::Ready) => {
                    counts.staying += usize::from(stays);
                    counts.accepting += 1;
                    counts.fresh += usize::from(!member.outdated);
                }
                // The replacement of this worker starts now. With the order "old first", it starts when this worker has ended.
                Some(WorkerState::Retiring) => {
                    counts.staying += usize::from(old_first && stays);
                    counts.accepting += 1;
                }
                // If the worker could not serve, [`Self::worker_ended`] decides whether another one starts.
                None if member.has_given_up() || member.late => counts.staying += usize::from(stays),
                None if old_first && member.slot.command() != WorkerCommand::Quit && !self.replaces_whole() => {
                    counts.staying += 1;
                    counts.changing = true;
                }
                Some(WorkerState::Vacant) | None => {}
            }
        }
        counts
    }

    /// Returns the index of the worker to retire next with the order "old first": a worker that has asked for its replacement,
    /// or else an outdated one. `None` if there is neither.
    fn due(&self) -> Option<usize> {
        let asking = self.members.iter().position(|member| member.serving() == Some(WorkerState::Retiring));
        let rolls = self.replacing && !self.replaces_whole();
        asking.or_else(|| {
            let outdated = |member: &Member| member.outdated && member.serving().is_some();
            rolls.then(|| self.members.iter().position(outdated)).flatten()
        })
    }

    /// Whether each lane of a worker accepts at sockets of its own.
    pub(super) fn workers_have_sockets(&self, server: &Server<'_>) -> bool {
        !server.has_edges() && self.settings.sockets_of_address() > 1
    }

    /// Returns the number of shards; 1 if all lanes share the sockets.
    fn shards(&self, server: &Server<'_>) -> usize {
        if self.workers_have_sockets(server) { self.wanted } else { 1 }
    }

    /// Returns the shard with the fewest workers that will stay.
    pub(super) fn vacant_shard(&self, server: &Server<'_>) -> Shard {
        let stays = |member: &&Member| matches!(member.serving(), Some(WorkerState::Starting | WorkerState::Ready));
        let taken = |number: usize| {
            let here = self.members.iter().filter(stays).filter(|member| member.shard == number);
            let fresh = here.clone().filter(|member| !member.outdated).count();
            (fresh, here.count())
        };
        let of = self.shards(server);
        Shard { number: (0..of).min_by_key(|&number| taken(number)).unwrap_or(0), of }
    }

    /// Whether another worker accepts connections in the shard of this worker.
    fn is_covered(&self, member: &Member) -> bool {
        let same = |other: &&Member| other.shard == member.shard && other.pid != member.pid;
        self.members.iter().filter(same).any(Member::accepts)
    }

    /// Returns the index of the worker to retire when too many accept: a worker that has asked for its replacement, or else an
    /// outdated one, or else the newest. Only workers whose shards have another accepting worker may retire. `None` if there is
    /// no such worker.
    fn dispensable(&self) -> Option<usize> {
        let members = self.members.iter();
        let covered = |member: &Member, state| member.serving() == Some(state) && self.is_covered(member);
        let asking = members.clone().position(|member| covered(member, WorkerState::Retiring));
        let ready = |member: &Member| covered(member, WorkerState::Ready);
        asking
            .or_else(|| members.clone().position(|member| member.outdated && ready(member)))
            .or_else(|| members.clone().rposition(ready))
    }

    /// Kills workers that have not finished in time.
    pub(super) fn end_overdue(&mut self) {
        let now = Instant::now();
        for member in &mut self.members {
            if member.end_by.take_if(|end_by| now >= *end_by).is_some() && member.slot.command() != WorkerCommand::Quit {
                let connections = member.end();
                let (number, pid) = (member.number, member.pid);
                log::warn!("worker {number} (pid {pid}) did not finish in time: killed with {connections} open connections");
            }
        }
    }
}
