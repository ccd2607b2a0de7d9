//! Enforces the deadlines of apps: makes an app that takes too long log a backtrace, then interrupts the app, and then stops
//! its worker.
//!
//! The reaction of an interrupted app depends on its language. C code that never returns does not react at all. Then the
//! process must end; its other threads get a moment to finish their requests.

use super::super::server::Server;
use super::Workers;
use oribi_config::AppDeadlines;
use oribi_io::process::orders::{INTERRUPT, WARN, tell_of_orders};
use oribi_stats::scoreboard::WorkerCommand;
use oribi_stats::scoreboard::running::{self, OwnDeadline, RunningLine};
use oribi_stats::totals::Counter;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The bounds of the interval at which apps are checked; it is a tenth of the shortest deadline.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Returns the deadlines of an app: `deadlines`, unless the app has set its `own`.
fn with_own(deadlines: AppDeadlines, own: OwnDeadline) -> AppDeadlines {
    match own {
        OwnDeadline::None => deadlines,
        OwnDeadline::Never => deadlines.moved(None),
        OwnDeadline::After(timeout) => deadlines.moved(Some(timeout)),
    }
}

impl Workers<'_> {
    /// Returns the interval at which apps are checked.
    pub(super) fn look_for_stuck(&self) -> Duration {
        (AppDeadlines::of(self.settings).shortest() / 10).clamp(LOOKS.0, LOOKS.1)
    }

    /// Checks the threads of all workers, sends orders to apps that take too long, and stops workers whose apps do not react.
    /// Replacements start at once.
    pub(super) fn keep_app_deadlines(&mut self, server: &mut Server<'_>) {
        let deadlines = AppDeadlines::of(self.settings);
        let now = Instant::now();
        let has_edges = server.has_edges();
        let mut ended = false;
        for member in &mut self.members {
            if member.slot.command() == WorkerCommand::Quit {
                continue;
            }
            if member.stuck > 0 {
                // If only stuck threads have connections, no request can finish, so the worker need not wait. Behind an edge
                // this is unknown, because a worker has no connections.
                if !has_edges && member.slot.connections.load(Relaxed) as usize <= member.stuck {
                    member.end();
                }
                continue;
            }
            let (number, pid) = (member.number, member.pid);
            let (mut stuck, mut ordered): (Vec<&RunningLine>, u64) = (Vec::new(), 0);
            let mut allowed = Duration::ZERO;
            for (line, thread_progress) in member.slot.running.iter().zip(&mut member.progress) {
                let idle = thread_progress.check(line, now);
                let deadlines = with_own(deadlines, running::own_deadline(line));
                if idle < deadlines.shortest() {
                    continue;
                }
                let warn = |problem: &str, time: Duration| {
                    let (seconds, request) = (time.as_secs_f64(), running::text_of(line));
                    log::warn!(
                        "worker {number} (pid {pid}): its app {problem}; it has done nothing for {seconds} s: {request}"
                    );
                };
                if idle >= deadlines.kill {
                    allowed = allowed.max(deadlines.kill);
                    stuck.push(line);
                } else if idle >= deadlines.timeout && thread_progress.order(line, INTERRUPT) {
                    if !has_edges {
                        member.slot.parent_account.count(Counter::RequestTimeouts);
                    }
                    warn("is interrupted", deadlines.timeout);
                    ordered |= INTERRUPT;
                } else if idle >= deadlines.warning && idle < deadlines.timeout && thread_progress.order(line, WARN) {
                    warn("takes long", deadlines.warning);
                    ordered |= WARN;
                }
            }
            if ordered != 0
                && let Err(error) = tell_of_orders(pid, ordered)
            {
                log::error!("worker {number} (pid {pid}) cannot be sent orders for its app: {error}");
            }
            if stuck.is_empty() {
                continue;
            }
            member.stuck = stuck.len();
            member.cause = Some(Counter::EndedBecauseStuck);
            let (seconds, requests) = (allowed.as_secs_f64(), stuck.iter().map(|line| running::text_of(line)));
            let requests = requests.collect::<Vec<_>>().join(", ");
            log::error!("worker {number} (pid {pid}) is stopped: its app has done nothing for {seconds} s: {requests}");
            ended = true;
            if stuck.len() == member.slot.running.len() {
                member.end();
            } else {
                member.end_soon(now, self.settings.timeouts.graceful);
            }
        }
        server.note_cut(ended);
    }
}
