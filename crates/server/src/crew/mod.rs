//! What each thread of a crew does, and who is to do what next.
//!
//! The language's lock protects everything here, the lane included. A thread keeps the lock from request to request and lets go of it
//! only when there is nothing to do, or when its app does. One thread at a time waits for news, without the lock; others that have
//! nothing to do rest. A thread that is about to call an app makes sure that another one is on its way to take the next turn: that
//! one gets the lock when the app waits for something, or when the language has threads change over, and not before. So a request
//! costs no change of threads unless an app really waits.

mod bed;

use crate::attention::Nudge;
use bed::{Bed, Until, Woken};
use oribi_host::{GlobalLock, Wait};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread beyond the least number rests before it ends.
const REST: Duration = Duration::from_secs(30);

/// How long the thread that waits for news waits at most, where there are others. They find deadlines while it waits, and must wake
/// it for those that are nearer than the one it knows of: with this bound that is rarely so, for most are farther than that.
const MOST_PATIENCE: Duration = Duration::from_secs(10);

/// Waiting for news of a lane, which tells afterwards whether the language has interrupted it.
pub(crate) trait WaitForNews: Wait {
    fn was_interrupted(&self) -> bool;
}

/// The threads of a worker.
pub(crate) struct Roster<'a> {
    lock: &'a dyn GlobalLock,
    least: usize,
    most: usize,
    /// That exist or are being started. The lane is not left alone while there is one: see [`Roster::is_empty`].
    threads: Cell<usize>,
    resting: Cell<usize>,
    /// Threads whose app waits for its client while another thread waits for news.
    pausing: Cell<usize>,
    /// A thread was called or started and has not come yet.
    called: Cell<bool>,
    ended: Cell<bool>,
    watch: Cell<Option<Watch>>,
    nudge: Nudge,
    bed: Bed,
}

/// What is known of the thread that waits for news.
#[derive(Clone, Copy)]
struct Watch {
    /// When it looks by itself; `None`: never.
    until: Option<Instant>,
    /// Its app waits for its client.
    held: bool,
    /// It was woken and has not come back yet.
    woken: bool,
}

/// A thread in the lane. Whatever it leaves by, it is counted.
pub(crate) struct Place<'r, 'a>(&'r Roster<'a>);

impl Drop for Place<'_, '_> {
    fn drop(&mut self) {
        self.0.depart();
    }
}

impl<'a> Roster<'a> {
    /// A crew of between `least` and `most` threads, none of which has come yet. `nudge` wakes the one that waits for news.
    pub(crate) fn new(lock: &'a dyn GlobalLock, least: usize, most: usize, nudge: Nudge) -> Self {
        let least = least.max(1);
        Self {
            lock,
            least,
            most: most.max(least),
            threads: Cell::new(0),
            resting: Cell::new(0),
            pausing: Cell::new(0),
            called: Cell::new(false),
            ended: Cell::new(false),
            watch: Cell::new(None),
            nudge,
            bed: Bed::default(),
        }
    }

    /// How many threads there may be.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Whether no thread is left that may use the lane, now or later.
    pub(crate) const fn is_empty(&self) -> bool {
        self.threads.get() == 0
    }

    // ---- The life of the threads ---------------------------------------------------------------------------------------

    /// The calling thread, which was not started for this, is one of the crew.
    pub(crate) fn take_in(&self) {
        self.threads.set(self.threads.get() + 1);
    }

    /// A thread that was started, or taken in, is there until it drops what this returns.
    pub(crate) fn arrive(&self) -> Place<'_, 'a> {
        self.called.set(false);
        Place(self)
    }

    /// A thread goes.
    fn depart(&self) {
        self.threads.set(self.threads.get() - 1);
        // It may have been the one that waited for news, and no language tells of its end.
        if self.most > 1 && !self.ended.get() && self.nobody_comes() {
            self.call_another();
        }
        self.lock.wake_main();
        self.bed.summon_main();
    }

    /// Starts what is missing of the least number.
    pub(crate) fn fill_up(&self) {
        while !self.ended.get() && self.threads.get() < self.least && self.start_thread() {}
    }

    /// Has the main thread sleep until a thread has gone or the language had something to do. `false`: the app has ended it.
    pub(crate) fn rest_main(&self) -> bool {
        // Threads go with the lock held, so none goes between this look and the sleep.
        let seen = self.bed.summonses();
        self.lock.rest_main().unwrap_or_else(|| {
            self.bed.sleep(self.lock, Until::Summons(seen), None);
            self.lock.see_to_interrupts()
        })
    }

    /// The worker ends: all threads are to leave.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.bed.end();
        // The turn that ends all may have taken the news for which this one waits.
        self.wake_watch();
    }

    fn start_thread(&self) -> bool {
        self.take_in();
        self.called.set(true);
        if self.lock.start_thread() {
            return true;
        }
        self.threads.set(self.threads.get() - 1);
        self.called.set(false);
        false
    }

    // ---- With nothing to do ----------------------------------------------------------------------------------------------

    /// Waits for news, or rests if another thread waits for them. `false`: that was long, and the crew is large enough without the
    /// calling thread.
    pub(crate) fn idle<W: WaitForNews>(&self, timeout: Option<Duration>, news: impl FnOnce(Option<Duration>) -> W) -> bool {
        if self.watch.get().is_some() {
            self.hurry_watch(timeout);
            return self.rest();
        }
        self.wait_for_news(timeout, false, news);
        true
    }

    /// `false`: the thread was interrupted.
    fn wait_for_news<W: WaitForNews>(
        &self,
        timeout: Option<Duration>,
        held: bool,
        news: impl FnOnce(Option<Duration>) -> W,
    ) -> bool {
        let mut watch = Watch { until: None, held, woken: false };
        let mut timeout = timeout;
        if self.most > 1 {
            let patience = timeout.map_or(MOST_PATIENCE, |timeout| timeout.min(MOST_PATIENCE));
            watch.until = Some(Instant::now() + patience);
            timeout = Some(patience);
        }
        self.watch.set(Some(watch));
        let news = news(timeout);
        let waited = self.lock.without_lock(&news);
        self.watch.set(None);
        waited && !news.was_interrupted()
    }

    /// Rests until called. `false`: it was long, and the crew is large enough without the calling thread.
    fn rest(&self) -> bool {
        self.resting.set(self.resting.get() + 1);
        let woken = self.bed.sleep(self.lock, Until::Called, Some(REST));
        self.resting.set(self.resting.get() - 1);
        // Whoever comes, comes for the call, too; and a call that went to a thread which was interrupted, or had just had enough
        // rest, is not waited for.
        let called = self.called.replace(false);
        called || woken != Woken::Late || self.threads.get() <= self.least
    }

    // ---- In the middle of an app -------------------------------------------------------------------------------------------

    /// The app of the calling thread waits for its client, and for `timeout` at most. `false`: the thread was interrupted.
    pub(crate) fn pause<W: WaitForNews>(&self, timeout: Option<Duration>, news: impl FnOnce(Option<Duration>) -> W) -> bool {
        let round = self.bed.round();
        if self.nobody_comes() {
            self.call_another();
        }
        if self.nobody_comes() {
            let waited = self.wait_for_news(timeout, true, news);
            // Others may have had to rest or to pause meanwhile, and this thread may go back to its app.
            self.leave_the_lane();
            return waited;
        }
        self.hurry_watch(timeout);
        self.pausing.set(self.pausing.get() + 1);
        let woken = self.bed.sleep(self.lock, Until::Round(round), timeout);
        self.pausing.set(self.pausing.get() - 1);
        woken != Woken::Interrupted
    }

    /// Ends every pause, for what one of them waits for has happened.
    pub(crate) fn resume(&self) {
        if self.pausing.get() > 0 {
            self.bed.next_round();
        }
        // Its news may have been taken by a thread whose turn it was, and then it waits for nothing.
        if self.watch.get().is_some_and(|watch| watch.held) {
            self.wake_watch();
        }
    }

    /// There is something to do, and the calling thread, which runs an app or is about to, may take no turn soon. Another one should.
    pub(crate) fn summon(&self) {
        if self.watch.get().is_some() {
            self.wake_watch();
        } else {
            self.leave_the_lane();
        }
    }

    /// Sees to it that somebody waits for news, or is on the way to, should the calling thread let go of the lock.
    #[inline]
    pub(crate) fn leave_the_lane(&self) {
        if self.nobody_comes() && !(self.lock.tells_before_unlocking() && (self.resting.get() > 0 || self.pausing.get() > 0)) {
            self.call_another();
        }
    }

    /// A thread is about to let go of the lock. That is early enough to call another one, so that apps which do not wait cost no call.
    pub(crate) fn before_unlocking(&self) {
        if !self.nobody_comes() {
            return;
        }
        if self.resting.get() > 0 {
            self.call_resting();
        } else if self.pausing.get() > 0 {
            self.bed.next_round();
        }
    }

    #[inline]
    const fn nobody_comes(&self) -> bool {
        self.watch.get().is_none() && !self.called.get()
    }

    /// Has another thread take the next turn, or else wait for news in its pause.
    fn call_another(&self) {
        if self.resting.get() > 0 {
            self.call_resting();
        } else if !(self.threads.get() < self.most && self.start_thread()) && self.pausing.get() > 0 {
            self.bed.next_round();
        }
    }

    fn call_resting(&self) {
        self.called.set(true);
        self.bed.call(self.resting.get());
    }

    /// Sees to it that the thread which waits looks after `timeout` at the latest.
    fn hurry_watch(&self, timeout: Option<Duration>) {
        if let (Some(timeout), Some(Watch { until: Some(until), .. })) = (timeout, self.watch.get())
            && Instant::now() + timeout < until
        {
            self.wake_watch();
        }
    }

    /// Has the thread that waits for news, if there is one, come back.
    pub(crate) fn wake_watch(&self) {
        if let Some(watch) = self.watch.get()
            && !watch.woken
        {
            self.watch.set(Some(Watch { woken: true, ..watch }));
            self.nudge.nudge();
        }
    }
}
