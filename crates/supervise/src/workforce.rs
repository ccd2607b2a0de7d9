//! A workforce: the processes that run an app. The first process of a server either leads molds, each of which forks its own
//! workers, or forks the workers itself.

use super::server::Server;
use super::server_totals::ServerTotals;
use oribi_admin::control::{ProcessReport, Progress};
use oribi_control_api::{AppState, Generation, WorkerTarget};
use oribi_edge::parent_link::WorkerRequest;
use oribi_stats::app_metrics::Contexts;
use oribi_stats::scoreboard::{DrainState, RunningRequest};
use rustix::event::PollFd;
use rustix::process::{Pid, WaitStatus};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The answer to an order for a named app, if the server has only one.
pub(super) const ONLY_APP: &str = "this server was started for one app, which has no name: use the orders without a name";

/// The reason why a workforce finishes. It decides whether this server still answers waiting clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The server stops without edges: waiting clients are answered, and new ones are turned away.
    Last,
    /// The edges have ended, or answer no further client: no client waits for the workforce.
    AfterEdges,
    /// Another server accepts the waiting clients.
    Replaced,
}

/// An order to read the file of the server again.
#[derive(Clone, Debug, Default)]
pub(super) struct Apply {
    /// The file that is read instead, an absolute path.
    pub(super) file: Option<PathBuf>,
    /// Whether the differences are only described.
    pub(super) dry_run: bool,
    /// Whether apps that do not differ are loaded again.
    pub(super) reloads: bool,
}

/// The processes that run an app, as their parent controls them. No method blocks until a process ends.
pub(super) trait Workforce {
    /// Starts the processes that must exist before signals are first handled. If a process cannot start, the server fails.
    fn begin(&mut self, server: &mut Server<'_>);

    /// Empties the pipes that wake this process, so that [`Self::polled`] waits for the next event. Called at the beginning of
    /// each turn, so that an event during the checks ends the next sleep at once.
    fn rearm(&self);

    /// Handles the messages and deadlines of the processes.
    fn step(&mut self, server: &mut Server<'_>);

    /// While the server serves or drains: starts missing processes, and replaces those that are due.
    fn keep_running(&mut self, server: &mut Server<'_>);

    /// Collects the exit status of processes that have ended, and records their ends. Where the first process waits for all its
    /// children, it has called [`Self::ended`] for most of them before.
    fn reap(&mut self, server: &mut Server<'_>);

    /// Records that a child has ended. The child may be an orphan that belongs to no workforce.
    fn ended(&mut self, server: &mut Server<'_>, pid: Pid, status: WaitStatus);

    /// Whether the app has served at least once.
    fn has_served(&self) -> bool;

    /// Whether the workforce has started completely, so that this server may take over from the previous server, or be replaced
    /// by the next one.
    fn is_complete(&self) -> bool;

    /// Whether a process serves, starts, or loads the app. Otherwise the watchdog must restart the server.
    fn is_alive(&self) -> bool;

    /// Whether waiting requests will be answered if the server begins to stop now.
    fn answers_those_waiting(&self) -> bool;

    /// Begins to load an app again, or to replace the workers; without a name, of all apps that are not stopped. Returns the number
    /// that identifies the reload, for [`Self::reload_progress`].
    ///
    /// # Errors
    /// There is no such app.
    fn reload(&mut self, server: &mut Server<'_>, app: Option<&str>) -> Result<u64, String>;

    /// Returns the progress of the reload that `number` identifies.
    fn reload_progress(&self, number: u64) -> Progress;

    /// Returns the target number of workers of all apps.
    fn wanted(&self) -> usize;

    /// Returns the target number of workers of one app.
    ///
    /// # Errors
    /// There is no such app, or there are several and none is named.
    fn workers_of(&mut self, app: Option<&str>) -> Result<usize, String>;

    /// Returns the highest number of workers that may be set.
    fn most_workers(&self, server: &Server<'_>) -> usize;

    /// Sets the target number of workers of an app, or its limits. Returns the number that identifies this change, for
    /// [`Self::scale_progress`].
    ///
    /// # Errors
    /// The number is not possible, or there is no such app; the message says why.
    fn scale(&mut self, server: &Server<'_>, app: Option<&str>, target: WorkerTarget) -> Result<u64, String>;

    /// Whether the number of workers of the only app follows the load.
    fn follows_load(&self) -> bool {
        false
    }

    /// Before the first start: sets the number of workers with which an app begins whose number follows the load.
    fn begin_with(&mut self, _workers: usize) {}

    /// Returns the progress of the change that `number` identifies.
    fn scale_progress(&self, number: u64) -> Progress;

    /// Stops an app alone: its workers finish, and its clients get a 503.
    ///
    /// # Errors
    /// There is no such app, or it is the only one.
    fn stop_app(&mut self, _name: &str) -> Result<(), String> {
        Err(ONLY_APP.to_owned())
    }

    /// Returns the index of an app in the edges.
    ///
    /// # Errors
    /// There is no such app, or it is the only one.
    fn index_of(&mut self, _name: &str) -> Result<usize, String> {
        Err(ONLY_APP.to_owned())
    }

    /// Whether an app serves at the moment.
    ///
    /// # Errors
    /// There is no such app, or it is the only one.
    fn is_serving(&mut self, _name: &str) -> Result<bool, String> {
        Err(ONLY_APP.to_owned())
    }

    /// Reads the file of the server again, or another one, and begins to change what differs. Returns the number that identifies
    /// this change, for [`Self::apply_progress`].
    ///
    /// # Errors
    /// Nothing was changed; the message says why.
    fn apply(&mut self, _: &mut Server<'_>, _: Apply) -> Result<u64, String> {
        Err("this server has no file with apps: start it with oribi -c FILE".to_owned())
    }

    /// Returns the progress of the change that `number` identifies.
    fn apply_progress(&self, _number: u64) -> Progress {
        Progress::Failed("the change is forgotten".to_owned())
    }

    /// Whether a change of the file is under way.
    fn is_applying(&self) -> bool {
        false
    }

    /// Whether HUP reads a file again.
    fn has_file(&self) -> bool {
        false
    }

    /// Whether there is only one app.
    fn has_one_app(&self) -> bool {
        true
    }

    /// Returns the state of each app. Empty if there is only one.
    fn app_states(&self) -> Vec<AppState> {
        Vec::new()
    }

    /// Begins a slow stop, in which one worker after the other finishes. Returns `false` if the workforce cannot stop slowly.
    fn leave_slowly(&mut self, server: &mut Server<'_>) -> bool;

    /// While leaving: takes the next step when it is due. Returns whether the rest of the server must stop now.
    fn let_next_leave(&mut self, server: &mut Server<'_>) -> bool;

    /// Begins to finish for this reason, and sets the phase of the server to `Stopping`.
    fn stop(&mut self, server: &mut Server<'_>, finish: Finish);

    /// While stopping: kills processes that take too long. Returns whether all have ended and no client waits.
    fn finish_up(&mut self, server: &mut Server<'_>) -> bool;

    /// Kills all workers without waiting for their requests. `reason` is for the log.
    fn end_now(&mut self, server: &mut Server<'_>, reason: &str);

    /// Stops all processes, because the server cannot serve.
    fn give_up(&mut self);

    /// Whether no process is left.
    fn is_gone(&self) -> bool;

    /// Announces to the workers whether the server is about to end.
    fn set_drain_state(&self, drain_state: DrainState);

    /// Handles the request of an edge about a process, which may not be one of this workforce.
    fn handle_request(&mut self, server: &Server<'_>, request: WorkerRequest);

    /// Makes the processes of the workforce reopen their logs.
    fn reopen_logs(&self);

    /// Records that no other server shares the listeners from now on.
    fn own_listeners(&self);

    /// Adds to `totals` the counters of the workforce since the last call. `own_connections`: whether workers have connections,
    /// and so also count the events that edges would count otherwise.
    fn add_counts(&self, totals: &ServerTotals, own_connections: bool);

    /// In a new process: closes the descriptors that only the first process may have.
    fn release(&mut self);

    /// Returns the longest time that the parent may sleep. `None` without a deadline.
    fn patience(&self, server: &Server<'_>, now: Instant) -> Option<Duration>;

    /// Adds the descriptors that wake the parent.
    fn polled<'p>(&'p self, polled: &mut Vec<PollFd<'p>>);

    /// Returns the generations of the app. Empty if the app is loaded only once, or by each worker.
    fn generations(&self) -> Vec<Generation>;

    /// Returns the state of the workers.
    fn processes(&self) -> Vec<ProcessReport>;

    /// Returns the requests that workers are running, if the workers have connections.
    fn running(&self) -> Vec<RunningRequest>;

    /// Returns the id of the process that has forked a worker.
    fn parent_process(&self, worker: &ProcessReport) -> Option<u32>;

    /// Reads the first `lines` lines of the memory in which a worker writes its backtraces.
    fn backtraces(&self, worker: &ProcessReport, lines: usize) -> Vec<u8>;

    /// Returns the contexts of languages in the workers.
    fn contexts(&self) -> Vec<Contexts>;
}
