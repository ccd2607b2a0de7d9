//! Handles the ends of molds.

use super::super::notify::Reloading;
use super::super::reloads::ReloadOutcome;
use super::super::server::{Phase, Server};
use super::{Generation, Molds};
use oribi_stats::totals::Counter;
use rustix::process::{Pid, WaitStatus};
use std::time::Instant;

impl Molds<'_> {
    /// Records that a mold has ended. Ignores all other processes: they are orphans of molds or of apps.
    pub(in super::super) fn mold_ended(&mut self, server: &mut Server<'_>, pid: Pid, status: WaitStatus) {
        // The last message of the mold may report that it is ready.
        self.listen_to_molds(server);
        let Some(index) = self.generations.iter().position(|generation| generation.pid == pid) else { return };
        let generation = self.generations.remove(index);
        generation.add_last_counts(&server.totals, server.edges.is_none(), status);
        let Generation { number, started_at, late, ready, end_by, failure, board, counted, counted_metrics, .. } = generation;
        if status.exit_status().is_none() {
            server.totals.keep_orphaned(board, (counted, counted_metrics), server.edges.is_none(), self.patience());
        }
        let end = self.describe_end_of_mold(late, status);
        let why = failure.unwrap_or_else(|| format!("the process that loads the app {end}"));
        let given_up = end_by.is_some() || server.phase != Phase::Serving;
        if !given_up && !ready {
            server.totals.count(Counter::GenerationsFailed);
        }
        self.reloads.end(number, if given_up { ReloadOutcome::GivenUp } else { ReloadOutcome::Failed(why) });
        let serving = self.generations.iter().find(|generation| generation.ready && generation.stays());
        match (&mut server.phase, serving) {
            (Phase::Stopping { cut, .. }, _) => *cut |= ready && cuts_off(server.edges.is_some(), status),
            (Phase::Serving | Phase::Draining, _) if end_by.is_some() => {
                log::info!("generation {number}{} {end}", self.label.of());
            }
            (Phase::Serving | Phase::Draining, _) if !self.served => {
                let now = Instant::now();
                self.pace.failed(now, now - started_at);
                let again =
                    if self.label.is_unnamed() && !self.range.may_sleep() { String::new() } else { self.next_load(now, ready) };
                log::error!("the process that loads {} (pid {pid}) {end} before the app could serve{again}", self.label);
                self.fail_to_start(server);
            }
            (Phase::Serving | Phase::Draining, Some(serving)) if serving.number > number => {
                log::error!(
                    "the mold of generation {number}{} (pid {pid}) {end}; generation {} keeps serving",
                    self.label.of(),
                    serving.number
                );
            }
            (Phase::Serving | Phase::Draining, Some(serving)) => {
                let present = serving.number;
                log::error!(
                    "{} could not be reloaded: generation {number} (pid {pid}) {end}; generation {present} keeps serving",
                    self.label
                );
                if !self.generations.iter().any(|generation| generation.stays() && !generation.ready) {
                    server
                        .notifier
                        .reloaded(Reloading::App(self.index), "the app could not be reloaded; serving the one before");
                }
            }
            (Phase::Serving | Phase::Draining, None) => {
                let (now, next) = (Instant::now(), self.generations.iter().find(|generation| generation.stays()));
                if !ready {
                    self.failed = true;
                    self.pace.failed(now, now - started_at);
                } else if next.is_none() {
                    // The death of a mold that has served does not predict the fate of the next one.
                    self.pace.lost(now);
                }
                let what_now = match next {
                    Some(next) => format!("; generation {} is being loaded", next.number),
                    None if self.is_present() => self.next_load(now, ready),
                    // An app that no route leads to is not loaded again.
                    None => String::new(),
                };
                log::error!("the mold of generation {number}{} (pid {pid}) {end}{what_now}", self.label.of());
            }
            (Phase::Leaving { .. } | Phase::Failed, _) => {}
        }
    }
}

impl Molds<'_> {
    /// Describes when the app is loaded again, in words that end a message. `had_served`: whether the mold that has ended had
    /// served.
    fn next_load(&self, now: Instant, had_served: bool) -> String {
        let how_often = if had_served { String::new() } else { self.pace.how_often() };
        let wait = self.pace.wait(now).as_secs_f64();
        format!("; {} is loaded again in {wait:.1} s{how_often}", self.label)
    }
}

/// Whether the end of a stopping mold means that requests were cut off. If there were edges, a mold that a signal has killed
/// does not count: the edges have ended before, so no client waits for its workers.
fn cuts_off(edges: bool, status: WaitStatus) -> bool {
    status.exit_status() != Some(0) && !(edges && status.terminating_signal().is_some())
}
