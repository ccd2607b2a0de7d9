//! A workforce: the processes that run an app. The first process of a server leads molds, each of which forks workers of its
//! own, or it forks workers itself.

use super::books::Books;
use super::server::Server;
use oribi_admin::control::{GenerationReport, ProcessReport, Progress};
use oribi_edge::parent_link::WorkerRequest;
use oribi_stats::app_metrics::Contexts;
use oribi_stats::scoreboard::{DrainState, RunningRequest};
use rustix::event::PollFd;
use rustix::process::{Pid, WaitStatus};
use std::time::{Duration, Instant};

/// The reason why a workforce finishes, which decides about clients that still wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The server stops: waiting clients are answered, and new ones are turned away.
    Last,
    /// The edges have ended: no client is left.
    AfterEdges,
    /// Another server accepts the clients that wait.
    Replaced,
}

/// The processes that run an app. All methods return at once.
pub(super) trait Workforce {
    /// Starts what must be there before anything else, and makes the server fail if that is not possible.
    fn begin(&mut self, server: &mut Server<'_>);

    /// Waits anew for the events that [`Self::polled`] reports. Called before everything that may cause them is looked at.
    fn rearm(&self);

    /// Handles its messages and deadlines.
    fn step(&mut self, server: &mut Server<'_>);

    /// While the server serves or drains: starts what is missing, and replaces what is due.
    fn keep_running(&mut self, server: &mut Server<'_>);

    /// Records the ends of its processes, if the server does not wait for all children.
    fn reap(&mut self, server: &mut Server<'_>);

    /// Records that a child has ended, which may be another one's.
    fn ended(&mut self, server: &mut Server<'_>, pid: Pid, status: WaitStatus);

    /// Whether its app has ever served.
    fn has_served(&self) -> bool;

    /// Whether it serves with all its processes, so that this server may take over from another one.
    fn is_complete(&self) -> bool;

    /// Whether there is a process that serves, starts, or loads the app.
    fn is_alive(&self) -> bool;

    /// Whether requests that wait will be answered if the server begins to stop now.
    fn answers_those_waiting(&self) -> bool;

    /// Loads the app again, or replaces the workers; returns a number for [`Self::reload_progress`].
    fn reload(&mut self, server: &mut Server<'_>) -> u64;

    /// Returns the progress of that reload.
    fn reload_progress(&self, number: u64) -> Progress;

    /// Returns the target number of workers.
    fn wanted(&self) -> usize;

    /// Returns the highest number of workers that may be set.
    fn most_workers(&self, server: &Server<'_>) -> usize;

    /// Sets the target number of workers; returns a number for [`Self::scale_progress`].
    ///
    /// # Errors
    /// The number is not possible; the message says why.
    fn scale(&mut self, server: &Server<'_>, workers: usize) -> Result<u64, String>;

    /// Returns the progress of that change.
    fn scale_progress(&self, number: u64) -> Progress;

    /// Begins to let workers leave one after the other, if that is possible; returns whether it is.
    fn leave_slowly(&mut self, server: &mut Server<'_>) -> bool;

    /// While leaving: takes the next step; returns whether the server stops now.
    fn let_next_leave(&mut self, server: &mut Server<'_>) -> bool;

    /// Begins to finish.
    fn stop(&mut self, server: &mut Server<'_>, finish: Finish);

    /// While stopping: kills processes that take too long. Returns whether all have ended, and no client waits.
    fn finish_up(&mut self, server: &mut Server<'_>) -> bool;

    /// Kills all workers without waiting for their requests.
    fn end_now(&mut self, server: &mut Server<'_>, reason: &str);

    /// Ends all processes, because the server cannot serve.
    fn give_up(&mut self);

    /// Whether no process is left.
    fn is_gone(&self) -> bool;

    /// Announces whether the server is about to end.
    fn set_drain_state(&self, drain_state: DrainState);

    /// Handles the request of an edge about a process, which may be none of these.
    fn hear_plea(&mut self, server: &Server<'_>, plea: WorkerRequest);

    /// Makes its processes reopen their logs.
    fn reopen_logs(&self);

    /// Records that no other server uses the listeners any more.
    fn own_listeners(&self);

    /// Adds its counters since the last time to `books`. `own_connections`: workers have connections, and so the counters that
    /// edges would have otherwise.
    fn enter_counts(&self, books: &Books, own_connections: bool);

    /// In a new process: closes the descriptors that belong to the first process alone.
    fn release(&mut self);

    /// Returns the longest time that the first process may sleep, if nothing happens.
    fn patience(&self, server: &Server<'_>, now: Instant) -> Option<Duration>;

    /// Adds the descriptors that wake the first process.
    fn polled<'p>(&'p self, polled: &mut Vec<PollFd<'p>>);

    /// Returns the loads of the app, if there may be several.
    fn generations(&self) -> Vec<GenerationReport>;

    /// Returns the state of the workers.
    fn processes(&self) -> Vec<ProcessReport>;

    /// Returns the requests that workers are running, if these have connections.
    fn running(&self) -> Vec<RunningRequest>;

    /// Returns the process that has forked the workers of a generation.
    fn parent_process(&self, generation: Option<u64>) -> Option<u32>;

    /// Reads the first `lines` lines of the memory in which worker `number` writes its backtraces.
    fn backtraces(&self, generation: Option<u64>, number: usize, lines: usize) -> Vec<u8>;

    /// Returns the contexts of languages in the workers.
    fn contexts(&self) -> Vec<Contexts>;
}
