//! Stops the edges first, then the molds.

use super::super::edges::Drained;
use super::{MOLD_GRACE, Master, Stage, entitle};
use oribi_io::process::fork;
use oribi_listen::Listener;
use std::time::{Duration, Instant};

impl Master<'_> {
    /// Begins to stop. Without edges, the molds turn new connections away, and this process only removes the files of Unix
    /// sockets. With edges, these finish first.
    pub(super) fn stop(&mut self) {
        if self.stage != Stage::Serving {
            return;
        }
        entitle(self.settings, "stopping");
        self.notifier.stopping();
        let (now, patience) = (Instant::now(), self.patience());
        match &mut self.edges {
            Some(edges) => {
                log::info!("stopping: the edges finish what they have begun");
                edges.drain(&mut self.listeners, now + self.settings.timeouts.graceful);
                self.stage = Stage::Draining { deadline: now + patience };
                if !self.served {
                    // No process would answer before the app is loaded. Workers that this process does not know of yet take
                    // requests until the edges have ended.
                    edges.await_nobody();
                    self.stop_molds(false);
                }
            }
            None => {
                self.listeners.iter_mut().for_each(Listener::remove_file);
                self.stop_molds(false);
            }
        }
    }

    /// Tells the molds to stop.
    pub(super) fn stop_molds(&mut self, cut: bool) {
        let now = Instant::now();
        let deadline = match self.stage {
            Stage::Draining { deadline } => deadline,
            _ => now + self.patience(),
        };
        let left = deadline.saturating_duration_since(now + MOLD_GRACE);
        self.generations.iter().for_each(|generation| generation.stop(left));
        self.stage = Stage::Stopping { deadline: deadline.max(now + MOLD_GRACE), cut };
    }

    /// While the edges finish: keeps the workers that they need, and stops these when all edges have ended.
    pub(super) fn drain(&mut self) {
        let Some(edges) = &mut self.edges else { return self.stop_molds(false) };
        match edges.finish_up(&self.listeners, fork) {
            (_, Some(birth)) => self.become_edge(birth),
            (Drained::NotYet, None) => self.keep_running(),
            (Drained::Done { cut }, None) => self.stop_molds(cut),
        }
    }

    /// Returns the time that a mold may take to stop.
    pub(super) fn patience(&self) -> Duration {
        self.settings.timeouts.graceful + MOLD_GRACE
    }

    /// Ends the server, because the app could not be loaded at the start.
    pub(super) fn fail_to_start(&mut self) {
        self.stage = match &mut self.edges {
            Some(edges) => {
                edges.end_now("there is no app to serve");
                Stage::Stopping { deadline: Instant::now() + MOLD_GRACE, cut: true }
            }
            None => Stage::Ended { status: 1 },
        };
    }

    /// Kills stopping molds that take too long. The system signals the death to their workers.
    pub(super) fn end_overdue(&mut self) {
        let now = Instant::now();
        for generation in &mut self.generations {
            if generation.end_by.is_some_and(|end_by| now >= end_by) {
                generation.end(now + MOLD_GRACE);
            }
        }
    }

    /// While stopping: kills molds that take too long.
    pub(super) fn finish_up(&mut self, deadline: Instant, cut: bool) {
        if self.generations.is_empty() {
            match self.edges.as_mut().filter(|edges| !edges.are_gone()) {
                // No process is left that could answer.
                Some(edges) => edges.end_now("there is no app any more"),
                None => {
                    self.stage = Stage::Ended { status: i32::from(cut) };
                    return;
                }
            }
        }
        let now = Instant::now();
        if now >= deadline {
            self.generations.iter_mut().for_each(|generation| generation.end(now + MOLD_GRACE));
            self.stage = Stage::Stopping { deadline: now + MOLD_GRACE, cut: true };
        }
    }
}
