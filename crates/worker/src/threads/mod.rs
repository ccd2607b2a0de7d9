//! The thread pool of a lane: decides which thread waits for events, which threads rest, and when the pool wakes or starts
//! another thread.
//!
//! The language's lock protects everything here, including the lane. A thread keeps the lock from request to request, and
//! releases it when the thread is idle, or when its app releases it. One thread at a time waits for events without the lock;
//! other idle threads rest. Before a thread calls an app, it ensures that another thread is about to take the next turn. That
//! thread gets the lock when the app waits for something, or when the language switches threads. So a request costs no switch
//! of threads unless an app really waits.

mod parker;

use crate::event_sources::Interrupter;
use oribi_host::{GlobalLock, Wait};
use parker::{Parker, WakeCondition, WakeReason};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The time that a thread beyond the minimum rests before it ends.
const REST: Duration = Duration::from_secs(30);

/// The longest wait for events while there are other threads. During the wait, these may set new deadlines, and must wake the
/// waiting thread for a deadline that is earlier than the end of its wait. Most deadlines are later than this limit, so that is
/// rare.
const MOST_PATIENCE: Duration = Duration::from_secs(10);

/// A wait for events of a lane, with a report whether the language interrupted it.
pub(crate) trait WaitForEvents: Wait {
    fn was_interrupted(&self) -> bool;
}

/// The thread pool of a worker.
pub struct ThreadPool<'a> {
    lock: &'a dyn GlobalLock,
    least: usize,
    /// The maximal number of threads, while as many apps as possible only wait.
    most: usize,
    /// The maximal number of threads while no app only waits.
    most_without_waiting: usize,
    /// The number of apps that only wait.
    waiting: Cell<usize>,
    /// The maximal number of threads while so many apps only wait.
    limit: Cell<usize>,
    /// The number of threads that exist or are being started. The lane must not be freed before this is 0: see
    /// [`ThreadPool::is_empty`].
    threads: Cell<usize>,
    resting: Cell<usize>,
    /// The number of threads whose app waits for its client while another thread waits for events.
    pausing: Cell<usize>,
    /// Whether a thread was woken or started and has not begun its turn.
    called: Cell<bool>,
    ended: Cell<bool>,
    watch: Cell<Option<Watch>>,
    /// Whether the thread that waits for events has stopped waiting, and only needs the lock. It sets this without the lock.
    watch_is_up: AtomicBool,
    interrupter: Interrupter,
    parker: Parker,
}

/// The thread that waits for events.
#[derive(Clone, Copy)]
struct Watch {
    /// The time at which it stops waiting by itself; `None` for never.
    until: Option<Instant>,
    /// Whether the thread is in the middle of an app that waits for its client.
    held: bool,
}

/// A wait for events that records its end.
struct Noted<'w, W> {
    event_wait: W,
    is_over: &'w AtomicBool,
}

impl<W: WaitForEvents> Wait for Noted<'_, W> {
    fn wait(&self) {
        self.event_wait.wait();
        self.is_over.store(true, SeqCst);
    }

    fn interrupt(&self) {
        self.event_wait.interrupt();
    }
}

/// The membership of a thread in the pool. The thread leaves when this is dropped, in whichever way it ends.
pub struct Membership<'r, 'a>(&'r ThreadPool<'a>);

impl Drop for Membership<'_, '_> {
    fn drop(&mut self) {
        self.0.depart();
    }
}

impl<'a> ThreadPool<'a> {
    /// Creates a pool of `least` to `most` threads, at first without any thread, and up to `waiting` more while apps only wait.
    /// `interrupter` wakes the thread that waits for events.
    pub(crate) fn new(
        lock: &'a dyn GlobalLock,
        (least, most): (usize, usize),
        waiting: usize,
        interrupter: Interrupter,
    ) -> Self {
        let least = least.max(1);
        let most = most.max(least);
        Self {
            lock,
            least,
            most: most.saturating_add(waiting),
            most_without_waiting: most,
            waiting: Cell::new(0),
            limit: Cell::new(most),
            threads: Cell::new(0),
            resting: Cell::new(0),
            pausing: Cell::new(0),
            called: Cell::new(false),
            ended: Cell::new(false),
            watch: Cell::new(None),
            watch_is_up: AtomicBool::new(false),
            interrupter,
            parker: Parker::default(),
        }
    }

    /// Returns the maximal number of threads.
    #[inline]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Returns the maximal number of threads while as many apps only wait as now.
    #[inline]
    pub(crate) const fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Whether every thread that may use the lane, now or later, has left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.threads.get() == 0
    }

    // ---- The life of the threads ---------------------------------------------------------------------------------------

    /// Counts a thread that is about to serve.
    #[inline]
    pub fn add_thread(&self) {
        self.threads.set(self.threads.get() + 1);
    }

    /// Begins the service of a thread, which belongs to the pool until it drops the result.
    #[inline]
    pub fn arrive(&self) -> Membership<'_, 'a> {
        self.called.set(false);
        Membership(self)
    }

    /// Removes a thread from the pool.
    fn depart(&self) {
        self.threads.set(self.threads.get() - 1);
        if self.most > 1 && !self.ended.get() {
            if self.watch.get().is_some() {
                // The leaving thread may have begun work that only a turn completes.
                self.wake_watch();
            } else if self.nobody_comes() {
                // The leaving thread may have been the one that waits for events, and the language does not report its end.
                self.call_another();
            }
        }
        self.lock.wake_main();
        self.parker.wake_main();
    }

    /// Starts threads up to the minimum.
    pub fn fill_up(&self) {
        while !self.ended.get() && self.threads.get() < self.least && self.start_thread() {}
    }

    /// Parks the main thread until a thread has left the pool or the language has work for it; `false` if the app has ended
    /// the main thread.
    pub fn park_main(&self) -> bool {
        // A thread leaves with the lock held, so none leaves between this line and the sleep.
        let wakes_before = self.parker.main_wakes();
        self.lock.rest_main().unwrap_or_else(|| {
            self.parker.sleep(self.lock, WakeCondition::MainWoken(wakes_before), None);
            self.lock.see_to_interrupts()
        })
    }

    /// Stops all threads, together with the worker.
    pub fn end(&self) {
        self.ended.set(true);
        self.parker.end();
        // The thread that waits for events would wait in vain if the turn that ended the worker has handled its event.
        self.wake_watch();
    }

    fn start_thread(&self) -> bool {
        self.add_thread();
        self.called.set(true);
        if self.lock.start_thread() {
            return true;
        }
        self.threads.set(self.threads.get() - 1);
        self.called.set(false);
        false
    }

    // ---- With nothing to do ----------------------------------------------------------------------------------------------

    /// Waits for events, or rests if another thread waits for them; `false` if the calling thread has rested for long, and
    /// the pool has enough threads without it.
    pub(crate) fn idle<W: WaitForEvents>(
        &self,
        timeout: Option<Duration>,
        event_wait: impl FnOnce(Option<Duration>) -> W,
    ) -> bool {
        if self.watch.get().is_some() {
            self.hurry_watch(timeout);
            return self.rest();
        }
        self.wait_for_events(timeout, false, event_wait);
        true
    }

    /// Waits for events; `false` if the thread was interrupted.
    fn wait_for_events<W: WaitForEvents>(
        &self,
        timeout: Option<Duration>,
        held: bool,
        event_wait: impl FnOnce(Option<Duration>) -> W,
    ) -> bool {
        let mut watch = Watch { until: None, held };
        let mut timeout = timeout;
        if self.most > 1 {
            let patience = timeout.map_or(MOST_PATIENCE, |timeout| timeout.min(MOST_PATIENCE));
            watch.until = Some(Instant::now() + patience);
            timeout = Some(patience);
        }
        self.watch.set(Some(watch));
        self.watch_is_up.store(false, SeqCst);
        let noted = Noted { event_wait: event_wait(timeout), is_over: &self.watch_is_up };
        let waited = self.lock.without_lock(&noted);
        self.watch.set(None);
        waited && !noted.event_wait.was_interrupted()
    }

    /// Rests until woken; `false` if the calling thread has rested for long, and the pool has enough threads without it.
    fn rest(&self) -> bool {
        self.resting.set(self.resting.get() + 1);
        let woken = self.parker.sleep(self.lock, WakeCondition::Called, Some(REST));
        self.resting.set(self.resting.get() - 1);
        // Any thread that stops resting answers the wake-up, even if it was interrupted or its time had just expired: it may
        // be the one that was woken.
        let called = self.called.replace(false);
        called || woken != WakeReason::Late || self.threads.get() <= self.least
    }

    // ---- In the middle of an app -------------------------------------------------------------------------------------------

    /// Waits for the client of the calling thread's app, at most for `timeout`; `false` if the thread was interrupted.
    pub(crate) fn pause<W: WaitForEvents>(
        &self,
        timeout: Option<Duration>,
        event_wait: impl FnOnce(Option<Duration>) -> W,
    ) -> bool {
        let round = self.parker.round();
        if self.nobody_comes() {
            self.call_another();
        }
        if self.nobody_comes() {
            let waited = self.wait_for_events(timeout, true, event_wait);
            // Other threads may rest or pause by now, and this thread may return to its app.
            self.release_lane();
            return waited;
        }
        self.hurry_watch(timeout);
        self.pausing.set(self.pausing.get() + 1);
        let woken = self.parker.sleep(self.lock, WakeCondition::Round(round), timeout);
        self.pausing.set(self.pausing.get() - 1);
        woken != WakeReason::Interrupted
    }

    /// Ends every pause, because an event for which one of the apps waits has occurred.
    pub(crate) fn resume(&self) {
        if self.pausing.get() > 0 {
            self.parker.next_round();
        }
        // Another thread may have handled the event in its turn; then the waiting thread would wait in vain.
        if self.watch.get().is_some_and(|watch| watch.held) {
            self.wake_watch();
        }
    }

    /// Wakes another thread for pending work, because the calling thread runs an app or is about to.
    pub(crate) fn wake_another(&self) {
        if self.watch.get().is_some() {
            self.wake_watch();
        } else {
            self.release_lane();
        }
    }

    /// Ensures that another thread waits for events, or is about to, when the calling thread releases the lock.
    #[inline]
    pub(crate) fn release_lane(&self) {
        if self.nobody_comes() && !(self.lock.tells_before_unlocking() && (self.resting.get() > 0 || self.pausing.get() > 0)) {
            self.call_another();
        }
    }

    /// Counts an app of a thread as one that only waits from now on, so that another thread may run an app in its place.
    pub fn mark_waiting(&self) {
        self.set_waiting(self.waiting.get() + 1);
        self.release_lane();
    }

    /// Ends that on the thread of the app; `false` if the thread must leave, because there are too many now.
    pub fn unmark_waiting(&self) -> bool {
        self.set_waiting(self.waiting.get() - 1);
        self.threads.get() <= self.limit.get()
    }

    fn set_waiting(&self, waiting: usize) {
        self.waiting.set(waiting);
        self.limit.set(self.most_without_waiting.saturating_add(waiting).min(self.most));
    }

    /// Called before a thread releases the lock. Waking another thread only now costs nothing if an app never waits.
    pub fn before_unlocking(&self) {
        if !self.nobody_comes() {
            return;
        }
        if self.resting.get() > 0 {
            self.call_resting();
        } else if self.pausing.get() > 0 {
            self.parker.next_round();
        }
    }

    #[inline]
    const fn nobody_comes(&self) -> bool {
        self.watch.get().is_none() && !self.called.get()
    }

    /// Makes another thread take the next turn, or a pausing one wait for events.
    fn call_another(&self) {
        if self.resting.get() > 0 {
            self.call_resting();
        } else if !(self.threads.get() < self.limit.get() && self.start_thread()) && self.pausing.get() > 0 {
            self.parker.next_round();
        }
    }

    fn call_resting(&self) {
        self.called.set(true);
        self.parker.call(self.resting.get());
    }

    /// Ensures that the thread that waits for events stops waiting after `timeout` at the latest.
    fn hurry_watch(&self, timeout: Option<Duration>) {
        if let (Some(timeout), Some(Watch { until: Some(until), .. })) = (timeout, self.watch.get())
            && Instant::now() + timeout < until
        {
            self.wake_watch();
        }
    }

    /// Ends the wait of the thread that waits for events, if there is one. An earlier interrupt does not suffice: another
    /// thread that has looked for events may have consumed it, and the waiting thread has kept sleeping.
    pub fn wake_watch(&self) {
        if self.watch.get().is_some() && !self.watch_is_up.load(SeqCst) {
            self.interrupter.interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_sources::{EventSources, Poller};
    use oribi_host::{Crew, Host, Native};
    use std::os::fd::AsFd;
    use std::sync::Arc;

    type Meanwhile = Box<dyn FnOnce(&dyn Wait)>;

    /// A language in which other threads act while one of them waits.
    #[derive(Default)]
    struct Language(Cell<Option<Meanwhile>>);

    impl GlobalLock for Language {
        fn begin(&self, _crew: &dyn Crew, _most: usize) {}

        fn end(&self) {}

        fn open(&self) -> Result<Box<dyn Host>, String> {
            Ok(Box::new(Native::new("whole")))
        }

        fn without_lock(&self, wait: &dyn Wait) -> bool {
            if let Some(meanwhile) = self.0.take() {
                meanwhile(wait);
            }
            true
        }

        fn start_thread(&self) -> bool {
            false
        }
    }

    /// A wait that ends at once.
    struct Ready;

    impl Wait for Ready {
        fn wait(&self) {}

        fn interrupt(&self) {}
    }

    impl WaitForEvents for Ready {
        fn was_interrupted(&self) -> bool {
            false
        }
    }

    /// Makes a thread of a pool of two wait for events, and calls `meanwhile` with the pool, the wait, and the event sources.
    fn while_one_waits(meanwhile: impl FnOnce(&ThreadPool<'_>, &dyn Wait, &Poller) + 'static) {
        let (command, _writer) = std::io::pipe().expect("a pipe is to be had");
        let event_sources = EventSources::new(command.as_fd()).expect("epoll works");
        let language: &'static Language = Box::leak(Box::default());
        let thread_pool: &'static ThreadPool<'static> =
            Box::leak(Box::new(ThreadPool::new(language, (2, 2), 0, event_sources.interrupter())));
        thread_pool.add_thread();
        thread_pool.add_thread();
        let (poller, done) = (event_sources.poller(), Arc::new(AtomicBool::new(false)));
        let noted = Arc::clone(&done);
        language.0.set(Some(Box::new(move |wait| {
            meanwhile(thread_pool, wait, &poller);
            noted.store(true, SeqCst);
        })));
        assert!(thread_pool.idle(None, |_| Ready));
        assert!(done.load(SeqCst), "a thread waited");
    }

    #[test]
    fn apps_that_only_wait_raise_the_number_of_threads_up_to_the_bound() {
        let (command, _writer) = std::io::pipe().expect("a pipe is to be had");
        let event_sources = EventSources::new(command.as_fd()).expect("epoll works");
        let language = Language::default();
        let thread_pool = ThreadPool::new(&language, (1, 1), 2, event_sources.interrupter());
        assert_eq!((thread_pool.limit(), thread_pool.most()), (1, 3));
        for (marked, limit) in [(1, 2), (2, 3), (3, 3)] {
            thread_pool.add_thread();
            thread_pool.mark_waiting();
            assert_eq!(thread_pool.limit(), limit, "{marked} marked");
        }
        assert!(thread_pool.unmark_waiting(), "the third one counted all along");
        assert!(!thread_pool.unmark_waiting(), "three threads, where there may be two");
        drop(thread_pool.arrive());
        assert!(!thread_pool.unmark_waiting());
        assert_eq!((thread_pool.limit(), thread_pool.threads.get()), (1, 2));
    }

    /// Consumes events as a thread does in its turn, so that they no longer wake the waiting thread.
    fn takes_interrupt(poller: &Poller) -> bool {
        poller.wait(Some(Duration::ZERO)).expect("it can look").other
    }

    #[test]
    fn a_thread_whose_interrupt_another_one_has_taken_is_interrupted_again() {
        while_one_waits(|thread_pool, _, poller| {
            for _ in 0..3 {
                thread_pool.wake_another();
                assert!(takes_interrupt(poller));
            }
            thread_pool.hurry_watch(Some(Duration::ZERO));
            assert!(takes_interrupt(poller));
        });
    }

    #[test]
    fn a_thread_that_only_needs_the_lock_is_not_interrupted() {
        while_one_waits(|thread_pool, wait, poller| {
            wait.wait();
            thread_pool.wake_another();
            assert!(!takes_interrupt(poller));
        });
    }

    #[test]
    fn a_thread_that_leaves_has_the_waiting_one_look() {
        while_one_waits(|thread_pool, _, poller| {
            drop(thread_pool.arrive());
            assert!(takes_interrupt(poller));
        });
    }
}
