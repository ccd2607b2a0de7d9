//! Implements the orders of `oribi ctl`, and the data of metrics.

use super::super::edges::Edges;
use super::super::server::Phase;
use super::super::workforce::Apply;
use super::super::{memory_use, requests};
use super::FirstProcess;
use oribi_admin::control::{Control, ProcessReport, Progress, ReadinessProgress, Report, Steered};
use oribi_admin::metrics::{Measured, Metrics, Traffic};
use oribi_control_api::{Health, Requests, WorkerTarget};
use oribi_listen::expiries;
use oribi_stats::app_metrics::AppMetrics;
use oribi_stats::scoreboard::{Connections, Row};
use std::path::PathBuf;
use std::time::Instant;

/// The answer to orders that arrive too late.
const STOPPING: &str = "the server is stopping";

impl FirstProcess<'_> {
    fn state(&self) -> &'static str {
        match self.server.phase {
            Phase::Serving if self.server.drain_period.is_some() => "draining",
            Phase::Serving if self.workforce.has_served() => "serving",
            Phase::Serving => "loading",
            Phase::Draining => "draining",
            Phase::Leaving { .. } | Phase::Stopping { .. } | Phase::Failed => "stopping",
        }
    }

    /// Returns the connections of clients by state: the connections of edges, or of workers if there are no edges.
    fn connections(&self) -> Connections {
        let gauges = |row: Row| row.gauges;
        match &self.server.edges {
            Some(edges) => edges.rows().into_iter().map(gauges).sum(),
            None => self.workforce.processes().into_iter().map(|process| gauges(process.row)).sum(),
        }
    }

    /// Returns the progress of an order that only a serving server carries out: a pending order fails when the server stops.
    fn while_serving(&self, progress: Progress) -> Progress {
        match progress {
            Progress::Pending if self.server.phase != Phase::Serving => Progress::Failed(STOPPING.to_owned()),
            progress => progress,
        }
    }
}

impl Steered for FirstProcess<'_> {
    fn control(&mut self) -> Option<&mut Control> {
        self.server.control.as_mut()
    }

    fn report(&self) -> Report {
        self.add_counts();
        let Self { server, workforce, .. } = self;
        Report {
            app: server.settings.app_name.clone(),
            state: self.state(),
            uptime: server.started_at.elapsed(),
            addresses: server.listeners.iter().map(|listener| listener.display.clone()).collect(),
            generations: workforce.generations(),
            apps: workforce.app_states(),
            edges: server.settings.edges_wanted(),
            workers: workforce.wanted(),
            threads: server.settings.threads,
            connections: self.connections(),
            certificates: expiries(&server.listeners),
            counted: server.totals.read(),
        }
    }

    fn ask_readiness(&mut self) {
        self.server.edges.iter_mut().for_each(Edges::ask_readiness);
    }

    fn readiness(&self) -> ReadinessProgress {
        let not_ready = |state, note: &'static str| ReadinessProgress::Known(Health::not_ready(state, note));
        match (self.state(), &self.server.edges) {
            (state @ "loading", _) => not_ready(state, "the app is being loaded"),
            (state @ "draining", _) => not_ready(state, "the server is about to stop"),
            ("serving", Some(edges)) => edges.readiness(),
            ("serving", None) if self.processes().iter().any(|process| matches!(process.row.state, "ready" | "retiring")) => {
                ReadinessProgress::Known(Health::READY)
            }
            ("serving", None) => not_ready("alive", "no worker accepts requests"),
            (state, _) => not_ready(state, "the server is stopping"),
        }
    }

    fn processes(&self) -> Vec<ProcessReport> {
        let edges = self.server.edges.iter().flat_map(Edges::rows);
        let edges = edges.map(|row| ProcessReport { kind: "edge", app: None, generation: None, row });
        edges.chain(self.workforce.processes()).collect()
    }

    fn requests(&self) -> Result<Requests, String> {
        let processes = self.processes();
        match &self.server.edges {
            Some(edges) => requests::in_pools(edges.apps(), &processes),
            None => requests::in_workers(&self.workforce.running(), self.server.settings, &processes),
        }
    }

    fn parent_process(&self, worker: &ProcessReport) -> Option<u32> {
        self.workforce.parent_process(worker)
    }

    fn backtraces(&self, worker: &ProcessReport, lines: usize) -> Vec<u8> {
        self.workforce.backtraces(worker, lines)
    }

    fn begin_reload(&mut self, app: Option<&str>) -> Result<u64, String> {
        if !self.server.stays() {
            return Err(STOPPING.to_owned());
        }
        self.workforce.reload(&mut self.server, app)
    }

    fn stop_app(&mut self, app: &str) -> Result<(), String> {
        self.workforce.stop_app(app)
    }

    fn is_serving(&mut self, app: &str) -> Result<bool, String> {
        self.workforce.is_serving(app)
    }

    fn reload_progress(&self, number: u64) -> Progress {
        self.while_serving(self.workforce.reload_progress(number))
    }

    fn begin_apply(&mut self, file: Option<PathBuf>, dry_run: bool) -> Result<u64, String> {
        if !self.server.stays() {
            return Err(STOPPING.to_owned());
        }
        self.workforce.apply(&mut self.server, Apply { file, dry_run, reloads: false })
    }

    fn apply_progress(&self, number: u64) -> Progress {
        self.while_serving(self.workforce.apply_progress(number))
    }

    fn begin_purge(&mut self, app: Option<&str>, target: Option<&str>) -> Result<u64, String> {
        let index = app.map(|app| self.workforce.index_of(app)).transpose()?;
        let edges = self.server.edges.as_mut().ok_or("this server has no edges, which store responses")?;
        edges.begin_purge(index, target)
    }

    fn purge_progress(&self, number: u64) -> Option<u64> {
        self.server.edges.as_ref().map_or(Some(0), |edges| edges.purged(number))
    }

    fn begin_stop(&mut self) {
        self.begin_to_drain(Instant::now());
    }

    fn scale(&mut self, app: Option<&str>, target: WorkerTarget) -> Result<(usize, usize, u64), String> {
        if self.server.phase != Phase::Serving {
            return Err(STOPPING.to_owned());
        }
        let before = self.workforce.workers_of(app)?;
        let number = self.workforce.scale(&self.server, app, target)?;
        Ok((before, self.workforce.workers_of(app)?, number))
    }

    fn scale_progress(&self, number: u64) -> Progress {
        self.while_serving(self.workforce.scale_progress(number))
    }

    fn reopen_all_logs(&mut self) {
        self.reopen_logs();
    }

    fn begin_upgrade(&mut self) -> Result<(), String> {
        self.upgrade()
    }

    fn upgrade_progress(&self) -> Progress {
        self.server.succession.outcome()
    }
}

impl Measured for FirstProcess<'_> {
    fn metrics(&mut self) -> Option<&mut Metrics> {
        self.server.metrics.as_mut()
    }

    fn traffic(&self) -> Traffic {
        match &self.server.edges {
            Some(edges) => requests::traffic_in_pools(edges.apps()),
            None => requests::traffic_in_workers(self.workforce.running().len(), self.server.settings),
        }
    }

    fn app_metrics(&self) -> AppMetrics {
        self.server.totals.app_metrics(self.workforce.contexts().into_iter())
    }

    fn memory_of(process: u32) -> Option<u64> {
        memory_use::of(process)
    }
}
