//! Time-dependent work of an edge.

use super::AppPool;
use oribi_io::Backend;
use std::time::Duration;

/// If a request still waits after this time, another sleeping worker is woken: the first one may have died or been suspended.
/// This is rare, and costs a system call.
const WAKE_ANOTHER_AFTER: Duration = Duration::from_millis(5);

/// While there are requests: the interval at which the edge compares shared memory with its own state, and checks the queue.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// If apps have deadlines: the time after a request at which the edge first checks whether a worker has taken it.
const LOOKS_FOR_TAKERS_AFTER: Duration = Duration::from_millis(1);

/// If apps have deadlines: the interval at which the edge checks which requests workers have taken.
const LOOKS_FOR_TAKERS_EVERY: Duration = Duration::from_millis(10);

/// The times of the next checks.
#[derive(Debug, Default)]
pub(super) struct Timers {
    wake_another: Option<Duration>,
    look: Option<Duration>,
    look_for_takers: Option<Duration>,
}

impl Timers {
    /// Starts the timers for a request that has entered the pool. `watched`: whether apps have deadlines.
    #[inline]
    pub(super) fn submitted(&mut self, now: Duration, watched: bool) {
        self.wake_another.get_or_insert_with(|| now + WAKE_ANOTHER_AFTER);
        self.look.get_or_insert_with(|| now + LOOKS_EVERY);
        if watched {
            self.look_for_takers.get_or_insert(now + LOOKS_FOR_TAKERS_AFTER);
        }
    }
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Returns the time until the next timer expires. `None` if no timer runs.
    pub(in super::super) fn time_left(&self) -> Option<Duration> {
        if self.table.used() == 0 {
            return None;
        }
        let Timers { wake_another, look, look_for_takers } = self.timers;
        let earlier = |one: Option<Duration>, other: Option<Duration>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let due = earlier(earlier(wake_another, look), earlier(look_for_takers, self.deadlines.due()));
        due.map(|due| due.saturating_sub(self.now()))
    }

    /// Does the work of the expired timers.
    pub(in super::super) fn run_expired_timers(&mut self) {
        if self.table.used() == 0 {
            self.timers = Timers::default();
            return;
        }
        let now = self.now();
        let is_due = |time: &mut Option<Duration>| time.take_if(|time| *time <= now).is_some();
        if is_due(&mut self.timers.wake_another) {
            self.pool.wake_another();
        }
        if is_due(&mut self.timers.look_for_takers) {
            self.note_taken(now);
            if self.waiting_requests() > 0 {
                self.timers.look_for_takers = Some(now + LOOKS_FOR_TAKERS_EVERY);
            }
        }
        if is_due(&mut self.timers.look) {
            self.check_unwatched_workers();
            self.pool.audit();
            self.forget_ended();
            self.fail_lost_fetches();
            self.expire_queued(now);
            if self.pool.worker_counts().waiting > 0 {
                self.moved = now;
            }
            self.timers.look = Some(now + LOOKS_EVERY);
        }
        if self.deadlines.due().is_some_and(|due| due <= now) {
            self.handle_expired_deadlines(now);
        }
    }
}
