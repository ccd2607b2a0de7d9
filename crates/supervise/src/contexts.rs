//! Supplies the lanes of a worker with contexts, and replaces contexts that are due.

use crate::load_error::LoadError;
use oribi_config::Settings;
use oribi_host::{After, Host, Runtime};
use oribi_stats::scoreboard::{WorkerSlot, WorkerState};
use oribi_worker::boot::Boot;
use oribi_worker::lane::{ContextSupply, Renewal};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pause after a spare context could not be made; meanwhile the lanes continue with their contexts.
const SPARE_RETRY: Duration = Duration::from_secs(1);

/// Reports the state of a worker to the supervisor.
#[derive(Clone, Copy)]
pub(super) struct Reporter<'a> {
    pub(super) slot: &'a WorkerSlot,
    /// The write end of the pipe that wakes the supervisor.
    pub(super) notice: &'a OwnedFd,
    /// Sets the process title to the worker's activity; see [`Runtime::set_title`] for the thread that may call it.
    pub(super) set_title: &'a dyn Fn(&str),
}

/// The title of a worker that has stopped accepting connections and answers those it has.
pub(super) const RETIRING: &str = "retiring";

impl Reporter<'_> {
    /// Changes the worker's state and wakes the supervisor.
    pub(super) fn report(&self, state: WorkerState) {
        self.slot.set_state(state);
        // If the pipe is full, the supervisor wakes up anyway.
        let _ = rustix::io::write(self.notice, &[0]);
    }

    /// Called when the worker stops accepting connections.
    pub(super) fn retires(&self) {
        (self.set_title)(RETIRING);
    }
}

/// Returns the number of requests after which a context is due. The number is drawn between `min_requests` and `max_requests`,
/// so that workers that started together do not end together. `None` without a limit.
pub(super) fn draw_limit(settings: &Settings) -> Option<u64> {
    let most = settings.max_requests?;
    let least = settings.min_requests.unwrap_or(most);
    let mut random = [0; 8];
    // Without random numbers every worker gets the highest number.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK);
    Some(draw(least, most, u64::from_ne_bytes(random)))
}

fn draw(least: u64, most: u64, random: u64) -> u64 {
    match most.checked_sub(least).and_then(|width| width.checked_add(1)) {
        Some(width) => most - random % width,
        None => most,
    }
}

/// The supply of a worker with one lane: the runtime's own context, which is replaced together with its process.
pub(super) struct SingleContext<'a> {
    runtime: &'a dyn Runtime,
    reporter: Reporter<'a>,
    boot: Option<Boot<'a>>,
    /// Whether load errors are shown to browsers: see [`Life::shows_load_errors`](oribi_config::Life::shows_load_errors).
    shows_load_errors: bool,
    limit: Option<u64>,
}

impl<'a> SingleContext<'a> {
    pub(super) fn new(settings: &Settings, runtime: &'a dyn Runtime, reporter: Reporter<'a>, boot: Option<Boot<'a>>) -> Self {
        Self { runtime, reporter, boot, shows_load_errors: settings.life.shows_load_errors, limit: draw_limit(settings) }
    }
}

impl ContextSupply for SingleContext<'_> {
    fn first(&mut self) -> Result<Box<dyn Host>, String> {
        let context: Box<dyn Host> = match self.runtime.open(false) {
            Err(reason) if self.shows_load_errors => {
                log::error!("{reason}");
                Box::new(LoadError::new(&reason))
            }
            opened => {
                let mut context = opened?;
                if let Some(boot) = self.boot.take() {
                    boot.ask(&mut *context, None)?;
                }
                context
            }
        };
        self.reporter.report(WorkerState::Ready);
        Ok(context)
    }

    fn due(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }

    /// Asks for the replacement of the process. A context that has not asked to retire continues until the new worker is ready.
    fn renew(&mut self, present: Box<dyn Host>, _answered: u64, after: After) -> Renewal {
        self.reporter.report(WorkerState::Retiring);
        if after.retire { Renewal::Stop(present) } else { Renewal::Serve(present, u64::MAX) }
    }

    fn ends_with_context(&self) -> bool {
        true
    }

    fn retires(&mut self) {
        self.reporter.retires();
    }
}

/// The contexts of a worker with several lanes. One thread makes and drops all of them, so the runtime never has to make two
/// contexts at once, and no lane waits while a context is dropped.
pub(super) struct ContextPool {
    state: Mutex<ContextPoolState>,
    changed: Condvar,
}

struct ContextPoolState {
    /// Contexts that are ready and unused.
    spares: Vec<Box<dyn Host>>,
    /// Used contexts, to be dropped.
    retired: Vec<Box<dyn Host>>,
    /// The number of lanes that wait for a context.
    waiting: usize,
    /// The number of lanes that have not ended.
    lanes: usize,
    /// The number of lanes without their first context so far.
    starting: usize,
    /// The reason why no context can be made for a waiting lane: the worker must end.
    failure: Option<String>,
    /// Whether a lane has stopped accepting connections, and [`ContextPool::keep`] has not reported that yet.
    retires: bool,
    /// Whether a lane has stopped accepting connections.
    retiring: bool,
}

impl ContextPool {
    pub(super) fn new(lanes: usize) -> Self {
        let state = ContextPoolState {
            spares: Vec::new(),
            retired: Vec::new(),
            waiting: 0,
            lanes,
            starting: lanes,
            failure: None,
            retires: false,
            retiring: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The state is consistent whenever the lock is released, so a lane that panicked has not damaged it.
    fn lock(&self) -> MutexGuard<'_, ContextPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes contexts until all lanes have ended: one for each waiting lane, and `spares` in advance once all lanes have
    /// started. Calls `retires` once, when the first lane has stopped accepting connections.
    pub(super) fn keep(&self, runtime: &dyn Runtime, spares: usize, retires: impl Fn()) {
        let mut state = self.lock();
        let mut retry_later = false;
        while state.lanes > 0 {
            if std::mem::take(&mut state.retires) {
                drop(state);
                retires();
                state = self.lock();
                continue;
            }
            let ahead = if retry_later || state.starting > 0 { 0 } else { spares };
            if state.failure.is_none() && state.spares.len() < state.waiting + ahead {
                drop(state);
                // A panic here would make the lanes wait forever.
                let made = catch_unwind(AssertUnwindSafe(|| runtime.open(true)))
                    .unwrap_or_else(|_| Err("panic while making a context".to_owned()));
                state = self.lock();
                match made {
                    Ok(context) => state.spares.push(context),
                    Err(message) if state.waiting > 0 => state.failure = Some(message),
                    Err(message) => {
                        log::error!("cannot make a spare context: {message}");
                        retry_later = true;
                    }
                }
                self.changed.notify_all();
            } else if let Some(context) = state.retired.pop() {
                drop(state);
                drop(context);
                state = self.lock();
            } else if retry_later {
                state = self.changed.wait_timeout(state, SPARE_RETRY).unwrap_or_else(PoisonError::into_inner).0;
                retry_later = false;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let left = (std::mem::take(&mut state.spares), std::mem::take(&mut state.retired));
        drop(state);
        drop(left);
    }

    /// Waits for a context.
    fn wait_for_context(&self) -> Result<Box<dyn Host>, String> {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        let outcome = loop {
            if let Some(context) = state.spares.pop() {
                break Ok(context);
            }
            if let Some(message) = &state.failure {
                break Err(message.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.waiting -= 1;
        outcome
    }

    /// Returns a spare context, unless there are only enough for the lanes that wait for one.
    fn spare(&self) -> Option<Box<dyn Host>> {
        let mut state = self.lock();
        if state.spares.len() <= state.waiting {
            return None;
        }
        state.spares.pop()
    }

    fn give_back(&self, context: Box<dyn Host>) {
        self.lock().retired.push(context);
        self.changed.notify_all();
    }

    /// Records that a lane has its first context. Returns whether all lanes have one.
    fn lane_started(&self) -> bool {
        let mut state = self.lock();
        state.starting = state.starting.saturating_sub(1);
        self.changed.notify_all();
        state.starting == 0
    }

    /// Records that a lane has stopped accepting connections, so the worker retires.
    fn lane_retires(&self) {
        let mut state = self.lock();
        state.retires |= !std::mem::replace(&mut state.retiring, true);
        self.changed.notify_all();
    }

    /// Records that a lane has ended.
    pub(super) fn lane_ended(&self) {
        let mut state = self.lock();
        state.lanes = state.lanes.saturating_sub(1);
        self.changed.notify_all();
    }
}

/// The supply of one lane among several.
pub(super) struct PooledContexts<'a> {
    settings: &'a Settings,
    pool: &'a ContextPool,
    reporter: Reporter<'a>,
    boot: Option<Boot<'a>>,
}

impl<'a> PooledContexts<'a> {
    pub(super) fn new(settings: &'a Settings, pool: &'a ContextPool, reporter: Reporter<'a>, boot: Option<Boot<'a>>) -> Self {
        Self { settings, pool, reporter, boot }
    }

    /// Returns the number of answered requests at which a context that starts after `answered` requests is due.
    fn due_after(&self, answered: u64) -> u64 {
        draw_limit(self.settings).map_or(u64::MAX, |limit| answered.saturating_add(limit))
    }
}

impl ContextSupply for PooledContexts<'_> {
    fn first(&mut self) -> Result<Box<dyn Host>, String> {
        let mut context = self.pool.wait_for_context()?;
        if let Some(boot) = self.boot.take() {
            boot.ask(&mut *context, None)?;
        }
        if self.pool.lane_started() {
            self.reporter.report(WorkerState::Ready);
        }
        Ok(context)
    }

    fn due(&self) -> u64 {
        self.due_after(0)
    }

    /// Replaces the context without making a client wait: the current context continues until a spare context is ready. If the
    /// current context has asked to retire, the lane waits for the new one instead.
    fn renew(&mut self, present: Box<dyn Host>, answered: u64, after: After) -> Renewal {
        let fresh = if after.retire { self.pool.wait_for_context().map(Some) } else { Ok(self.pool.spare()) };
        match fresh {
            Ok(Some(fresh)) => {
                self.pool.give_back(present);
                Renewal::Serve(fresh, self.due_after(answered))
            }
            Ok(None) => Renewal::Serve(present, answered + 1),
            Err(message) => {
                log::error!("cannot make a fresh context: {message}");
                self.reporter.report(WorkerState::Retiring);
                Renewal::Stop(present)
            }
        }
    }

    fn retires(&mut self) {
        self.pool.lane_retires();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_host::Native;

    #[test]
    fn limits_are_drawn_between_the_two_bounds_which_both_occur() {
        assert_eq!(draw(5, 5, 123), 5);
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|random| draw(3, 7, random)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        assert_eq!(draw(0, u64::MAX, 9), u64::MAX, "a range without a width");
        assert_eq!(draw(9, 5, 123), 5, "bounds the wrong way round");
    }

    #[test]
    fn a_limit_is_drawn_only_where_one_is_set() {
        let mut settings = Settings::default();
        assert_eq!(draw_limit(&settings), None);
        settings.max_requests = Some(10);
        assert_eq!(draw_limit(&settings), Some(10));
        settings.min_requests = Some(8);
        assert!((0..20).all(|_| (8..=10).contains(&draw_limit(&settings).expect("it is set"))));
    }

    #[test]
    fn a_due_lane_serves_on_until_a_spare_is_ready() {
        let settings = Settings { max_requests: Some(10), threads: 1, ..Settings::default() };
        let slot = WorkerSlot::unshared();
        let (_reader, notice) = rustix::pipe::pipe().expect("a pipe is to be had");
        let _deadline = oribi_test_support::waits_for("contexts, or the thread that makes them");
        let pool = ContextPool::new(1);
        let runtime = Native::new("x");
        let mut supply =
            PooledContexts::new(&settings, &pool, Reporter { slot: &slot, notice: &notice, set_title: &|_| () }, None);
        let present = runtime.open(true).expect("it always opens");
        let Renewal::Serve(present, due) = supply.renew(present, 10, After::default()) else { panic!("it must serve on") };
        assert_eq!(due, 11, "asked again at the next request");

        std::thread::scope(|scope| {
            scope.spawn(|| pool.keep(&runtime, 1, || ()));
            supply.first().expect("the keeper makes one");
            assert_eq!(slot.state(), WorkerState::Ready);
            let mut state = pool.lock();
            while state.spares.is_empty() {
                state = pool.changed.wait(state).expect("nobody panics");
            }
            drop(state);
            let Renewal::Serve(_, due) = supply.renew(present, 12, After::default()) else { panic!("it must serve on") };
            assert_eq!(due, 22);
            pool.lane_ended();
        });
        assert!(pool.lock().spares.is_empty(), "the keeper has dropped what was left");
    }

    /// A runtime that makes a few contexts and then fails.
    struct Failing(std::sync::atomic::AtomicUsize);

    impl Runtime for Failing {
        fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
            match self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
                Ok(_) => Ok(Box::new(Native::new("x"))),
                Err(_) => Err("no more".to_owned()),
            }
        }
    }

    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn a_lane_that_cannot_get_a_context_is_told_why() {
        let settings = Settings::default();
        let slot = WorkerSlot::unshared();
        let (_reader, notice) = rustix::pipe::pipe().expect("a pipe is to be had");
        let _deadline = oribi_test_support::waits_for("contexts, or the thread that makes them");
        let pool = ContextPool::new(1);
        let runtime = Failing(1.into());
        std::thread::scope(|scope| {
            scope.spawn(|| pool.keep(&runtime, 0, || ()));
            let mut supply =
                PooledContexts::new(&settings, &pool, Reporter { slot: &slot, notice: &notice, set_title: &|_| () }, None);
            let present = supply.first().expect("there is one");
            let after = After { retire: true, ..After::default() };
            assert!(matches!(supply.renew(present, 1, after), Renewal::Stop(_)));
            assert_eq!(slot.state(), WorkerState::Retiring, "the worker asks to be replaced");
            assert_eq!(supply.first().err().as_deref(), Some("no more"));
            pool.lane_ended();
        });
    }
}
