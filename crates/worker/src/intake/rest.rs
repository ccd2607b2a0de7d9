//! Step 1, wait: an idle worker sleeps until an edge has a request, room or an order for it, or until there is another event
//! for its lane.
//!
//! The worker announces its sleep, checks once more, and then waits for its event sources, which include the pools. If threads
//! share the lane, one of them waits without using the lane. Meanwhile other threads may take requests in spite of the
//! announcement, which only makes the edges ring. They therefore do not revoke it, and every thread that finds no work
//! announces a new sleep before it waits.

use super::lent::Lent;
use super::open::{Open, Step};
use super::{Intake, IntakeState};
use crate::event_sources::Poller;
use oribi_io::Waiter;
use oribi_pool::Worker;
use oribi_source::Next;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// The time in nanoseconds after which the lane checks for other events even if further requests wait: a command to stop,
/// the timers of its app.
const NEWS_AFTER: u64 = 10_000_000;

/// The interval at which a lane that ends with its edges checks whether they have ended.
const LOOK_FOR_END: Duration = Duration::from_millis(20);

/// The interval at which a lane that only finishes its exchanges checks whether their edges have ended. Streams may last for
/// long, so it is longer.
const LOOK_FOR_LOSS: Duration = Duration::from_millis(200);

/// A time in nanoseconds of the clock that edges also use. It is read before each request, so a single number is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MonotonicTime(pub(super) u64);

impl MonotonicTime {
    #[inline]
    fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        // The clock starts with the system.
        Self(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    const fn after(self, nanoseconds: u64) -> Self {
        Self(self.0 + nanoseconds)
    }
}

/// Waits for the events of a lane, in a thread that must not use the lane now.
#[derive(Debug)]
pub struct Watcher {
    poller: Arc<Poller>,
    woken: bool,
    line: bool,
}

impl Waiter for Watcher {
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let found = self.poller.wait(timeout)?;
        self.woken |= found.other;
        self.line |= found.line;
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poller.descriptor())
    }
}

impl Intake<'_> {
    /// Returns the next request, or reports other work. With `patient`, for a lane with a single thread, waits until there is a
    /// request or other work.
    #[inline]
    pub(super) fn next(&mut self, patient: bool) -> io::Result<Next<Lent>> {
        self.left = false;
        loop {
            self.flow();
            let now = MonotonicTime::now();
            if now >= self.news_due {
                self.look(Some(Duration::ZERO))?;
                if self.client_changes.reported {
                    self.forget_gone();
                }
            }
            self.now = now;
            if self.woken || self.client_changes.seen || self.finished() {
                return Ok(Next::Command);
            }
            if let Some(lent) = self.take() {
                return Ok(Next::Exchange(lent));
            }
            self.note_lost();
            self.forget_gone();
            self.announce();
            if self.flow() || self.client_changes.seen || self.finished() {
                continue;
            }
            if let Some(lent) = self.take() {
                if patient {
                    self.awake();
                }
                return Ok(Next::Exchange(lent));
            }
            let timeout = self.patience();
            if !patient {
                return Ok(Next::Nothing(timeout));
            }
            self.look(timeout)?;
            self.awake();
        }
    }

    /// Reports other work than a request, without waiting. Announces a sleep in which edges wake other workers for requests.
    pub(super) fn next_event(&mut self) -> Next<Lent> {
        self.left = true;
        self.flow();
        self.note_lost();
        self.forget_gone();
        if !(self.woken || self.client_changes.seen || self.finished()) {
            self.announce();
            // Changes before the announcement ring for nobody.
            self.flow();
            self.forget_gone();
        }
        let is_command = self.woken || self.client_changes.seen || self.finished();
        if is_command { Next::Command } else { Next::Nothing(self.patience()) }
    }

    /// Waits while an app waits for room. Returns when there may be room, or at another event.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        self.left = true;
        self.announce();
        self.note_lost();
        if !self.flow() && !self.note_gone() {
            self.look(self.patience())?;
        }
        self.awake();
        self.note_lost();
        self.flow();
        Ok(())
    }

    /// Does all work that needs no wait. Returns a time of zero if there was an event, and otherwise the time until it must be
    /// called again. Takes no request, because the caller is in the middle of one: another thread takes those in the queue.
    pub(super) fn do_pending_work(&mut self) -> Option<Duration> {
        self.flow();
        self.note_lost();
        if !self.alone {
            // The caller may wait next, or leave that to another thread. A lone thread continues its app instead, and must
            // not be woken.
            self.announce();
        }
        let had_events = self.flow() | self.note_gone();
        if had_events { Some(Duration::ZERO) } else { self.patience() }
    }

    /// Returns the longest time that the lane may wait for events; `None` without a limit. No event reports that an edge has ended.
    fn patience(&self) -> Option<Duration> {
        match self.stage {
            IntakeState::Serving => None,
            IntakeState::Emptying => Some(LOOK_FOR_END),
            IntakeState::Stopping => (!self.opened.is_empty()).then_some(LOOK_FOR_LOSS),
        }
    }

    /// Whether there is work that needs no wait.
    pub(super) fn has_more(&self) -> bool {
        self.woken || (self.stage != IntakeState::Stopping && !self.left && self.pools.iter().any(Worker::has_queued))
    }

    /// Adopts the events that a watcher has found.
    pub(super) fn collect(&mut self, watcher: &mut Watcher) {
        self.woken |= std::mem::take(&mut watcher.woken);
        if std::mem::take(&mut watcher.line) {
            self.receive();
        }
    }

    /// Returns a watcher for this lane.
    pub(super) fn watcher(&self) -> Watcher {
        Watcher { poller: Arc::clone(&self.poller), woken: false, line: false }
    }

    fn look(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let found = self.poller.wait(timeout)?;
        self.woken |= found.other;
        if found.line {
            self.receive();
        }
        self.news_due = MonotonicTime::now().after(NEWS_AFTER);
        Ok(())
    }

    /// Reads the sockets of the pools, so that they never fill up.
    #[cold]
    fn receive(&mut self) {
        for pool in &mut self.pools {
            if let Err(error) = pool.receive() {
                log::error!("cannot read from an edge: {error}");
            }
        }
    }

    /// Announces to all edges that the worker sleeps.
    fn announce(&mut self) {
        let takes = self.stage != IntakeState::Stopping && !self.left;
        for (number, pool) in self.pools.iter_mut().enumerate() {
            let for_room = self.opened.iter().any(|open| open.pool == number && !open.backlog.is_empty());
            pool.announce_sleep(takes, for_room);
        }
    }

    pub(super) fn awake(&mut self) {
        self.pools.iter_mut().for_each(Worker::awake);
    }

    /// Writes parts that wait for room; returns whether it has written anything.
    #[inline]
    pub(super) fn flow(&mut self) -> bool {
        !self.opened.is_empty() && self.flow_each()
    }

    fn flow_each(&mut self) -> bool {
        let Self { opened, pools, .. } = self;
        // Of hundreds of event streams, hardly any waits for room.
        if opened.iter().all(|open| open.backlog.is_empty()) {
            return false;
        }
        let mut flowed = false;
        for open in opened.iter_mut().filter(|open| !open.backlog.is_empty()) {
            match open.backlog.flow(&mut pools[open.pool], &mut open.taken) {
                Ok(progress) => flowed |= progress,
                Err(error) => {
                    log::error!("cannot pass a response on: {error}");
                    open.broken = true;
                }
            }
        }
        for open in opened.take_all(|open| open.broken) {
            pools[open.pool].abandon(open.taken);
            flowed = true;
        }
        for open in opened.take_all(|open| open.step == Step::Ended && open.backlog.is_empty()) {
            pools[open.pool].finish(open.taken);
            flowed = true;
        }
        self.client_changes.note(flowed);
        flowed
    }

    /// While the lane stops, notes the exchanges whose edges have ended. At other times the next edge reports their ends.
    #[inline]
    fn note_lost(&mut self) {
        if self.stage != IntakeState::Serving && !self.opened.is_empty() {
            self.look_for_lost();
        }
    }

    #[cold]
    fn look_for_lost(&mut self) {
        let Self { opened, pools, .. } = self;
        for (number, pool) in pools.iter_mut().enumerate() {
            if opened.iter().any(|open| open.pool == number) && pool.clients_are_gone() {
                opened.iter_mut().filter(|open| open.pool == number).for_each(|open| open.lost = true);
            }
        }
    }

    /// Whether an edge reports, for the first time, that the client of any exchange no longer waits, or has ended itself.
    fn note_gone(&mut self) -> bool {
        let Self { opened, pools, .. } = self;
        let is_news = |open: &mut Open| !open.gone && open.is_over(pools);
        opened.iter_mut().filter_map(|open| is_news(open).then(|| open.gone = true)).count() > 0
    }

    /// Removes exchanges without a waiting client, unless a host has their requests.
    #[inline]
    fn forget_gone(&mut self) {
        if self.opened.is_empty() {
            return;
        }
        let Self { opened, pools, client_changes, .. } = self;
        for open in opened.take_all(|open| !open.lent && open.is_over(pools)) {
            pools[open.pool].abandon(open.taken);
            client_changes.note(true);
        }
    }
}
