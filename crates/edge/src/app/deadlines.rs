//! Deadlines of apps: at the timeout the client gets an answer, even if the app still runs.
//!
//! The time counts from the moment when a worker took the request, or last made progress for its client. It does not run
//! while the app waits for its client. The edge notices by polling that a worker has taken a request (see `timers`): a few
//! milliseconds late at most while workers are free, and some tens of milliseconds while requests queue.

use super::AppPool;
use super::table::{Entry, Escalation};
use crate::parent_link::Reason;
use oribi_config::{AppDeadlines, Settings, Timeouts};
use oribi_io::Backend;
use oribi_pool::Ticket;
use oribi_stats::totals::Counter;
use std::collections::VecDeque;
use std::time::Duration;

/// The deadlines of apps.
#[derive(Debug)]
pub(super) struct Deadlines {
    of_settings: AppDeadlines,
    /// Whether apps have any deadlines.
    are_set: bool,
    /// The requests that perhaps no worker has taken yet, in their order of arrival.
    untaken: VecDeque<Ticket>,
    /// A time before which no deadline expires; `None` if there is no deadline.
    due: Option<Duration>,
}

impl Deadlines {
    pub(super) fn new(settings: &Settings) -> Self {
        let of_settings = AppDeadlines::of(settings);
        Self { of_settings, are_set: of_settings.shortest() < Timeouts::NEVER, untaken: VecDeque::new(), due: None }
    }

    /// Sets other deadlines. They apply to requests that are submitted, or make progress, from now on.
    pub(super) fn use_settings(&mut self, settings: &Settings) {
        self.of_settings = AppDeadlines::of(settings);
        self.are_set = self.of_settings.shortest() < Timeouts::NEVER;
        if !self.are_set {
            self.untaken.clear();
            self.due = None;
        }
    }

    /// Whether apps have any deadlines.
    #[inline]
    pub(super) const fn are_set(&self) -> bool {
        self.are_set
    }

    fn first(&self) -> Duration {
        self.of_settings.shortest()
    }

    pub(super) const fn due(&self) -> Option<Duration> {
        self.due
    }

    #[inline]
    pub(super) fn submitted(&mut self, ticket: Ticket) {
        if self.are_set() {
            self.untaken.push_back(ticket);
        }
    }

    /// Restarts the deadlines of an app that has waited for its client and may continue.
    pub(super) fn resumed(&mut self, now: Duration) {
        if self.are_set() {
            self.look_at(now + self.first());
        }
    }

    fn look_at(&mut self, time: Duration) {
        self.due = Some(self.due.map_or(time, |due| due.min(time)));
    }

    /// Returns the next measure against the app of a request, and the time for it. `None` if no further measure follows, or
    /// if the deadlines do not run now.
    fn next(&self, entry: &Entry) -> Option<(Escalation, Duration)> {
        let progress = entry.progress.filter(|_| !entry.paused)?;
        let AppDeadlines { warning, timeout, kill } =
            entry.own_deadline.map_or(self.of_settings, |own_deadline| self.of_settings.moved(own_deadline));
        let stages = [(Escalation::Warned, warning), (Escalation::Interrupted, timeout), (Escalation::Killed, kill)];
        let to_come = stages.into_iter().filter(|(stage, after)| *stage > entry.stage && *after < Timeouts::NEVER);
        to_come.map(|(stage, after)| (stage, progress + after)).min_by_key(|(_, at)| *at)
    }
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Records which requests workers have taken. If workers take them in their order of arrival, only the first ones are
    /// checked, otherwise all.
    pub(super) fn note_taken(&mut self, now: Duration) {
        let in_order = !self.table.shares.are_out_of_order();
        let mut untaken = std::mem::take(&mut self.deadlines.untaken);
        let is_untaken = |edge: &mut Self, ticket: Ticket| {
            let Some(entry) = edge.table.get(ticket) else { return false };
            if entry.progress.is_none() && edge.pool.holder(ticket).is_none() {
                return true;
            }
            entry.progress.get_or_insert(now);
            edge.deadlines.look_at(now + edge.deadlines.first());
            false
        };
        if in_order {
            while untaken.front().is_some_and(|ticket| !is_untaken(self, *ticket)) {
                untaken.pop_front();
            }
        } else {
            untaken.retain(|ticket| is_untaken(self, *ticket));
        }
        self.deadlines.untaken = untaken;
    }

    /// Sets the deadline that an app asks for, counted from now. `time` is `None` if the app may take any time.
    pub(super) fn change_deadline(&mut self, ticket: Ticket, time: Option<Duration>) {
        let now = self.now();
        let Some(entry) = self.table.get(ticket) else { return };
        entry.own_deadline = Some(time);
        entry.progress = Some(now);
        if let Some((_, at)) = self.deadlines.next(entry) {
            self.deadlines.look_at(at);
        }
    }

    /// Handles the deadlines that have expired.
    pub(super) fn handle_expired_deadlines(&mut self, now: Duration) {
        self.deadlines.due = None;
        let mut due = Vec::new();
        for entry in self.table.entries() {
            match self.deadlines.next(entry) {
                Some((stage, at)) if at <= now => due.push((entry.ticket, stage)),
                Some((_, at)) => self.deadlines.due = Some(self.deadlines.due.map_or(at, |due| due.min(at))),
                None => {}
            }
        }
        for (ticket, stage) in due {
            self.go_to_stage(ticket, stage, now);
        }
    }

    fn go_to_stage(&mut self, ticket: Ticket, stage: Escalation, now: Duration) {
        let holder = self.pool.holder(ticket);
        let Some(entry) = self.table.get(ticket) else { return };
        // Without a holder, the worker has finished with the request in the meantime.
        let Some(worker) = holder else { return };
        entry.stage = stage;
        let outcome = if entry.begun { "its response is cut off" } else { "its client gets a 504" };
        let took = entry.progress.map_or(Duration::ZERO, |progress| now.saturating_sub(progress)).as_secs_f64();
        let next = self.deadlines.next(entry);
        let (label, process) = (self.table.label(ticket), self.workers.process(worker).unwrap_or_default());
        let app = &self.label;
        if let Some((_, at)) = next {
            self.deadlines.look_at(at);
        }
        match stage {
            Escalation::Nothing => {}
            Escalation::Warned => {
                log::warn!("{app}{label} has been running for {took:.1} s in worker {process}");
                self.pool.warn(ticket);
                self.request_action(worker, Reason::Slow);
            }
            Escalation::Interrupted => {
                log::error!(
                    "{app}{label} has been running for {took:.1} s in worker {process}: {outcome}, and the app is interrupted"
                );
                self.slot.account.count(Counter::RequestTimeouts);
                self.fail(ticket, 504);
                self.pool.interrupt(ticket);
            }
            Escalation::Killed => {
                log::error!(
                    "{app}{label} has been running for {took:.1} s in worker {process} and does not stop: the worker is killed"
                );
                self.request_action(worker, Reason::Stuck);
            }
        }
        self.pool.wake_workers();
    }
}
