//! Apps that a change of the file adds or removes while the server serves.

use super::super::app::AppKey;
use super::super::reloads::ReloadOutcome;
use super::super::scaling;
use super::super::server::Server;
use super::{Generation, Molds, Role};
use oribi_admin::control::Progress;
use oribi_config::{Settings, WorkerRange};
use oribi_control_api::WorkerTarget;
use oribi_engine::shortage::explain;
use std::time::{Duration, Instant};

/// The interval at which requests of a leaving app are counted.
const LOOK: Duration = Duration::from_millis(50);

/// The part of an app's state that survives other options.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct StateForNext {
    started: u64,
    stopped: bool,
    /// The target number of workers, its limits, and the configured ones.
    wanted: usize,
    range: WorkerRange,
    configured: WorkerRange,
}

impl<'a> Molds<'a> {
    pub(in super::super) fn key(&self) -> &AppKey {
        &self.key
    }

    /// Returns the name and the options for the plan of edges. An app that leaves has no name.
    pub(in super::super) fn for_edges(&self) -> (String, Vec<String>) {
        let name = self.label.name().filter(|_| !matches!(self.role, Role::Leaving(_)));
        (name.unwrap_or_default().to_owned(), self.arguments.clone())
    }

    /// Whether routes lead to the app.
    pub(in super::super) fn is_present(&self) -> bool {
        self.role == Role::Present
    }

    /// Whether the app has left, with all its processes, so that its place is free.
    pub(in super::super) fn has_left(&self) -> bool {
        matches!(self.role, Role::Leaving(_)) && self.stopped && self.generations.is_empty()
    }

    /// Returns what the same app with other options continues with.
    pub(in super::super) fn state_for_next(&self) -> StateForNext {
        let Self { started, stopped, wanted, range, settings, .. } = *self;
        StateForNext { started, stopped, wanted, range, configured: settings.workers }
    }

    /// Loads the app, to which no route leads yet. It continues the numbers of generations and of workers of `before`, the same
    /// app with other options; if that was stopped, it is not loaded.
    pub(in super::super) fn join(&mut self, server: &mut Server<'_>, before: Option<StateForNext>) {
        self.role = Role::Joining;
        if let Some(before) = before {
            self.started = before.started;
            self.stopped = before.stopped;
            if before.configured == self.settings.workers {
                self.wanted = before.wanted.min(self.most(server));
                self.range = before.range;
            }
        }
        // One that may sleep is loaded all the same, to see whether it can be.
        self.wake();
        if self.stopped {
            return;
        }
        match self.start_generation(server) {
            Ok(number) => {
                self.reloads.begin(number);
                log::info!("loading {}, as generation {number}", self.label);
            }
            Err(error) => {
                let why = format!("{}: {}", self.mold.get_program().display(), explain(&error));
                self.reloads.begin(self.started);
                self.reloads.end(self.started, ReloadOutcome::Failed(why));
            }
        }
    }

    /// Does what orders to `before`, the same app with other options, have changed while this one was loaded.
    pub(in super::super) fn go_on_as(&mut self, server: &Server<'_>, before: StateForNext) {
        if before.stopped && !self.stopped {
            self.stop_app();
        }
        if before.configured == self.settings.workers && (before.wanted, before.range) != (self.wanted, self.range) {
            self.range = before.range;
            if let Err(why) = self.have_workers(server, before.wanted.min(self.most(server))) {
                log::error!("{}: the number of workers stays: {why}", self.label);
            }
        }
    }

    /// Returns whether the joining app can serve.
    pub(in super::super) fn join_progress(&self) -> Progress {
        if self.stopped || self.serves() {
            return Progress::Done(String::new());
        }
        if let Some(generation) = self.generations.iter().find(|generation| generation.incomplete) {
            let why = generation.failure.clone();
            return Progress::Failed(why.unwrap_or_else(|| "not all of its workers can start".to_owned()));
        }
        let outcome = self.reloads.outcome(self.started);
        if !self.generations.iter().any(Generation::stays) && !matches!(outcome, Some(ReloadOutcome::Failed(_))) {
            return Progress::Failed("the process that had loaded it has ended".to_owned());
        }
        match outcome {
            Some(ReloadOutcome::Failed(why)) => Progress::Failed(why.clone()),
            Some(ReloadOutcome::UnderWay | ReloadOutcome::TakenOver) => Progress::Pending,
            Some(ReloadOutcome::GivenUp) | None => Progress::Failed("the load was given up".to_owned()),
        }
    }

    /// Notes that routes lead to the app now.
    pub(in super::super) fn be_present(&mut self) {
        self.role = Role::Present;
    }

    /// Makes the app leave: at once, or when no request of it is left.
    pub(in super::super) fn leave(&mut self, at_once: bool) {
        if matches!(self.role, Role::Leaving(_)) {
            return;
        }
        let wait = self.settings.timeouts.graceful.saturating_add(self.settings.queue_timeout);
        let now = Instant::now();
        self.role = Role::Leaving(now.checked_add(wait).unwrap_or(now + Duration::from_secs(3600)));
        if at_once || self.stopped {
            self.stop_app();
        }
    }

    /// Stops a leaving app, when no request of it is left or its time is over.
    pub(super) fn leave_when_empty(&mut self, server: &Server<'_>) {
        let Role::Leaving(until) = self.role else { return };
        let is_empty = || server.edges.as_ref().is_none_or(|edges| edges.is_empty(self.index));
        if !self.stopped && (Instant::now() >= until || is_empty()) {
            log::info!("{} leaves: its workers finish", self.label);
            self.stop_app();
        }
    }

    /// Returns the time until requests of a leaving app are counted again.
    pub(super) fn next_look_at_rest(&self) -> Option<Duration> {
        (matches!(self.role, Role::Leaving(_)) && !self.stopped).then_some(LOOK)
    }

    /// Sets settings that differ only in the number of workers, and begins to change that number.
    pub(in super::super) fn use_number(
        &mut self,
        server: &Server<'_>,
        settings: &'a Settings,
        arguments: Vec<String>,
    ) -> Result<(), String> {
        (self.settings, self.arguments) = (settings, arguments);
        self.scale_to(server, WorkerTarget::Auto).map(drop)
    }

    /// Checks a number of workers for the app.
    pub(in super::super) fn check_number(&self, server: &Server<'_>, settings: &Settings) -> Result<(), String> {
        scaling::check(settings, settings.workers.most(), self.most(server)).map(drop)
    }
}
