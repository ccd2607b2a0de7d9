//! A worker: the process that runs lanes.

use super::contexts::{ContextPool, PooledContexts, RETIRING, Reporter, SingleContext};
use super::edge_pools::EdgePools;
use super::failure_pipe::FailurePipe;
use super::privileges::Privileges;
use super::shared_lane::SharedLane;
use super::signals;
use super::title::Title;
use oribi_config::{Settings, Timeouts};
use oribi_host::{GlobalLock, Runtime};
use oribi_io::process::{Effect, Heirs, LastResort, Watch, exit_now, orders, watch};
use oribi_listen::{ListenSocket, Listener, Shard, listen_sockets};
use oribi_pool::Worker;
use oribi_stats::app_metrics;
use oribi_stats::backtrace;
use oribi_stats::scoreboard::running::RunningLine;
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
use oribi_worker::boot::Boot;
use oribi_worker::lane::{self, ContextSupply, LaneSetup};
use rustix::process::{Pid, Signal};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

/// The stack size of a lane's thread in bytes: as large as that of a process's first thread usually is, because apps recurse.
const LANE_STACK: usize = 8 << 20;

/// The parameters of a worker that the supervisor forks.
pub(super) struct WorkerSetup<'a> {
    pub(super) settings: &'a Settings,
    pub(super) runtime: &'a dyn Runtime,
    /// Empty if there are edges.
    pub(super) listeners: &'a [Listener],
    /// The memory that the worker shares with each edge. Empty if the worker has connections of its own.
    pub(super) pools: EdgePools,
    pub(super) privileges: &'a Privileges,
    /// The number of the load of the app. `None` without a master.
    pub(super) generation: Option<u64>,
    /// The worker's shard of the listening sockets.
    pub(super) shard: Shard,
    pub(super) slot: WorkerSlot,
    /// The number of the worker, counted from 1.
    pub(super) number: usize,
    /// The pipe by which the supervisor and the worker's own signal handlers make the worker read its command.
    pub(super) wake: OwnedFd,
    pub(super) waker: OwnedFd,
    /// The write end of the pipe that wakes the supervisor.
    pub(super) notice: OwnedFd,
    pub(super) failure_pipe: &'a FailurePipe,
    /// Whether no client has been served yet: see [`LaneSetup::must_log`].
    pub(super) must_log: bool,
    pub(super) supervisor: Pid,
}

impl WorkerSetup<'_> {
    /// Whether TERM only makes the worker ask for its replacement. A TERM that is sent to all processes must not stop the
    /// worker while the server continues to serve, for its edges or in its drain period.
    fn survives_term(&self) -> bool {
        !self.pools.is_empty() || !self.settings.timeouts.shutdown_delay.is_zero()
    }

    /// Sets the title of this process. See [`Runtime::set_title`] for the thread that may call this.
    pub(super) fn set_title(&self, state: &str) {
        let role = format!("worker {}", self.number);
        Title { role: &role, generation: self.generation, state }.show(self.settings, Some(self.runtime));
    }
}

/// Runs the worker and ends the process.
pub(super) fn run_and_exit(worker: &WorkerSetup<'_>, supervisor_signals: &mut signals::Signals, heirs: Heirs) -> ! {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let outcome = serve(worker, supervisor_signals, heirs);
        if let Err(message) = &outcome {
            log::error!("worker {}: {message}", worker.number);
            worker.failure_pipe.leave(std::process::id(), message);
        }
        let status = i32::from(outcome.is_err());
        end(worker, status);
        status
    }));
    exit_now(outcome.unwrap_or_else(|panic| {
        log::error!("worker {}: panic: {}", worker.number, panic_message(panic.as_ref()));
        1
    }))
}

/// Lets the language runtime end the process. The app's exit handlers may hang, and the supervisor may not expect this end, or
/// may have died. So a timer limits the time for the exit handlers.
fn end(worker: &WorkerSetup<'_>, status: i32) {
    let graceful = worker.settings.timeouts.graceful;
    if graceful < Timeouts::NEVER {
        match LastResort::new(graceful) {
            Ok(last_resort) => last_resort.start(),
            Err(error) => log::error!("worker {}: its exit has no time limit: {error}", worker.number),
        }
    }
    worker.runtime.end(status);
}

fn serve(worker: &WorkerSetup<'_>, supervisor_signals: &mut signals::Signals, heirs: Heirs) -> Result<(), String> {
    let _watches =
        take_over_signals(worker, supervisor_signals, heirs).map_err(|error| format!("cannot watch signals: {error}"))?;
    // The app must not run as root, so the privileges are dropped first.
    worker.privileges.drop_here()?;
    follow_supervisor(worker)?;
    if worker.settings.serves_metrics() {
        app_metrics::begin(worker.slot.app_metrics);
    }
    worker.runtime.worker_started(worker.number);
    // A hook may have changed the user, and then the system cancels the signal (prctl(2), PR_SET_PDEATHSIG).
    follow_supervisor(worker)?;
    let outcome = match worker.runtime.global_lock() {
        Some(lock) => run_shared_lane(worker, lock),
        None if worker.settings.threads > 1 => run_lanes(worker),
        None => run_lane(worker),
    };
    // The app's hooks and handlers may take long.
    worker.set_title("ending");
    worker.runtime.worker_stopping(worker.number);
    outcome
}

/// Makes the worker stop when its supervisor dies.
fn follow_supervisor(worker: &WorkerSetup<'_>) -> Result<(), String> {
    // Without its supervisor no process would replace or stop this worker. The signal is QUIT and not TERM, because the other
    // workers are also stopping, so this worker cannot leave the queue of the listeners to them.
    rustix::process::set_parent_process_death_signal(Some(Signal::QUIT))
        .map_err(|error| format!("cannot ask for a signal when the supervisor dies: {error}"))?;
    if rustix::process::getppid() == Some(worker.supervisor) { Ok(()) } else { Err("the supervisor has died".to_owned()) }
}

/// The signals that a terminal or a service manager sends to all processes. They do nothing in a worker, because the supervisor
/// handles them. Processes that the app forks have the default actions.
const OF_SUPERVISOR: [Signal; 6] = [Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::TTIN, Signal::TTOU];

/// The counter of ignored signals, which is never read.
static DISREGARDED: AtomicU32 = AtomicU32::new(0);

/// Replaces the supervisor's signal handlers by those of a worker. TERM retires the worker; if it [survives
/// TERM](WorkerSetup::survives_term), TERM makes it ask for its replacement. QUIT drains the worker; behind edges under a
/// master it retires the worker.
fn take_over_signals(
    worker: &WorkerSetup<'_>,
    supervisor_signals: &mut signals::Signals,
    heirs: Heirs,
) -> io::Result<Vec<Watch>> {
    let handle = |signal, command: WorkerCommand, last_resort| {
        let effect = Effect::Exchange { from: WorkerCommand::Serve as u32, to: command as u32 };
        let wake = vec![worker.waker.try_clone()?, worker.notice.try_clone()?];
        watch(signal, worker.slot.command, effect, wake, last_resort)
    };
    // If the supervisor is dead, no process is left to kill a worker whose app is stuck. So this timer ends the worker.
    let graceful = worker.settings.timeouts.graceful;
    let last_resort = (graceful < Timeouts::NEVER).then(|| LastResort::new(graceful)).transpose()?;
    let (terminate, orphaned) = if worker.survives_term() {
        // TERM may have been sent to all processes, while requests still wait for this worker. So it serves until another
        // worker has taken its place, or until the edges have ended.
        let effect = Effect::Exchange { from: WorkerState::Ready as u32, to: WorkerState::Retiring as u32 };
        let terminate = watch(Signal::TERM, worker.slot.state, effect, vec![worker.notice.try_clone()?], None)?;
        // If the mold of this worker dies, the waiting requests are for the workers of the next mold.
        let behind = !worker.pools.is_empty() && worker.generation.is_some();
        let command = if behind { WorkerCommand::Retire } else { WorkerCommand::Drain };
        (terminate, command)
    } else {
        (handle(Signal::TERM, WorkerCommand::Retire, None)?, WorkerCommand::Drain)
    };
    let mut watches = vec![terminate, handle(Signal::QUIT, orphaned, last_resort)?];
    for signal in OF_SUPERVISOR {
        watches.push(watch(signal, &DISREGARDED, Effect::Nothing, Vec::new(), None)?);
    }
    watches.extend(signals::survive_failing_writes()?);
    if worker.settings.has_app_deadlines() {
        orders::receive_orders()?;
    }
    backtrace::answer_questions(worker.slot.backtraces, worker.runtime.tracing(), worker.settings.most_threads() == 1)?;
    supervisor_signals.release();
    // Until here the supervisor's handlers have counted the signals since the fork.
    let term_arrived = signals::take(Signal::TERM) > 0 && !worker.survives_term();
    if signals::take(Signal::QUIT) > 0 || term_arrived {
        worker.slot.retire_if_serving();
    }
    drop(heirs);
    Ok(watches)
}

/// Returns the setup of a lane that accepts at `listen_sockets`. The supervisor watches its threads by the lines `running`.
fn lane_setup<'a>(
    worker: &'a WorkerSetup<'_>,
    listen_sockets: &'a [ListenSocket<'a>],
    running: &'static [RunningLine],
) -> LaneSetup<'a> {
    let WorkerSetup { settings, listeners, slot, wake, must_log, .. } = worker;
    LaneSetup { settings, listeners, listen_sockets, slot, running, wake: wake.as_fd(), must_log: *must_log }
}

fn run_lane(worker: &WorkerSetup<'_>) -> Result<(), String> {
    let reporter = Reporter { slot: &worker.slot, notice: &worker.notice, set_title: &|state| worker.set_title(state) };
    let mut supply = SingleContext::new(worker.settings, worker.runtime, reporter, boot(worker)?);
    run(worker, worker.shard, worker.slot.running, &mut supply)
}

/// Runs a lane with connections of its own or behind edges.
fn run(
    worker: &WorkerSetup<'_>,
    shard: Shard,
    running: &'static [RunningLine],
    supply: &mut dyn ContextSupply,
) -> Result<(), String> {
    let outcome = if worker.pools.is_empty() {
        lane::run(&lane_setup(worker, &listen_sockets(worker.listeners, shard), running), supply)
    } else {
        // The edges enforce the deadlines of apps until the apps have answered; after that, the supervisor does.
        let Some(attachments) = attachments(worker)? else { return Ok(()) };
        lane::run_behind(&lane_setup(worker, &[], running), attachments, supply)
    };
    outcome.map_err(|error| oribi_engine::shortage::explain(&error))
}

/// Returns the request of `--boot-request`, which each lane answers before all others. `None` if the settings have none.
fn boot<'a>(worker: &'a WorkerSetup<'_>) -> Result<Option<Boot<'a>>, String> {
    Boot::new(worker.settings, &worker.slot, worker.wake.as_fd())
        .map_err(|error| format!("cannot prepare the boot request: {error}"))
}

/// Takes a place in the pool of each edge. `None` if the worker got a command to end while it waited for a place.
fn attachments(worker: &WorkerSetup<'_>) -> Result<Option<Vec<Worker>>, String> {
    let attachments = worker.pools.attach(|| worker.slot.command() == WorkerCommand::Serve)?;
    if worker.settings.has_app_deadlines() {
        // The edge writes to this socket when an app takes too long; the kernel then sends the worker a signal.
        for attachment in attachments.iter().flatten() {
            orders::signal_on_input(attachment.line())
                .map_err(|error| format!("cannot report an app that takes too long: {error}"))?;
        }
    }
    Ok(attachments)
}

/// Makes the threads of a language with one lock share one lane.
fn run_shared_lane(worker: &WorkerSetup<'_>, lock: &dyn GlobalLock) -> Result<(), String> {
    let reporter = Reporter { slot: &worker.slot, notice: &worker.notice, set_title: &|state| worker.set_title(state) };
    let listen_sockets = if worker.pools.is_empty() { listen_sockets(worker.listeners, worker.shard) } else { Vec::new() };
    let lane_setup = lane_setup(worker, &listen_sockets, worker.slot.running);
    let failed = |error: io::Error| error.to_string();
    if worker.pools.is_empty() {
        // `io_model::explain` has refused the models that threads cannot share.
        let backend = worker.settings.io.model().open_for_threads().map_err(failed)?;
        SharedLane::new(backend, &lane_setup, lock, reporter).map_err(failed)?.work(boot(worker)?)
    } else {
        let Some(attachments) = attachments(worker)? else { return Ok(()) };
        SharedLane::behind(&lane_setup, attachments, lock, reporter).map_err(failed)?.work(boot(worker)?)
    }
}

/// Runs each lane in a thread of its own. Makes the contexts of all lanes in this thread, which has loaded the app, and which
/// the kernel prefers when it delivers signals.
fn run_lanes(worker: &WorkerSetup<'_>) -> Result<(), String> {
    let pool = ContextPool::new(worker.settings.threads);
    let spares = usize::from(worker.settings.max_requests.is_some());
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for index in 0..worker.settings.threads {
            let (pool, failed) = (&pool, &failed);
            let thread = std::thread::Builder::new().name(format!("lane {}", index + 1)).stack_size(LANE_STACK);
            let spawned = thread.spawn_scoped(scope, move || {
                if let Err(message) = run_one_of_many(worker, index, pool) {
                    log::error!("worker {}, lane {}: {message}", worker.number, index + 1);
                    give_up(worker, failed, message);
                }
                pool.lane_ended();
            });
            if let Err(error) = spawned {
                let message = format!("cannot start a thread for lane {}: {error}", index + 1);
                log::error!("worker {}: {message}", worker.number);
                give_up(worker, failed, message);
                pool.lane_ended();
            }
        }
        pool.keep(worker.runtime, spares, || worker.set_title(RETIRING));
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(message) => Err(format!("a lane failed: {message}")),
        None => Ok(()),
    }
}

fn run_one_of_many(worker: &WorkerSetup<'_>, index: usize, pool: &ContextPool) -> Result<(), String> {
    let reporter = Reporter { slot: &worker.slot, notice: &worker.notice, set_title: &|state| worker.set_title(state) };
    let running = worker.slot.running.get(index..=index).unwrap_or_default();
    let mut supply = PooledContexts::new(worker.settings, pool, reporter, boot(worker)?);
    let shard = worker.shard.part(index, worker.settings.threads);
    match catch_unwind(AssertUnwindSafe(|| run(worker, shard, running, &mut supply))) {
        Ok(outcome) => outcome,
        Err(panic) => Err(format!("panic: {}", panic_message(panic.as_ref()))),
    }
}

/// Handles the failure of a lane: the other lanes finish their requests, and the supervisor replaces the worker.
fn give_up(worker: &WorkerSetup<'_>, failed: &Mutex<Option<String>>, message: String) {
    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
    worker.slot.retire_if_serving();
    let _ = rustix::io::write(&worker.waker, &[0]);
    let _ = rustix::io::write(&worker.notice, &[0]);
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
