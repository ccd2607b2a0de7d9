//! Implements the orders of `oribi ctl` for a supervisor without a master.

use super::super::edges::Edges;
use super::super::{memory_use, requests, upgrade};
use super::{Stage, Supervisor};
use oribi_admin::control::{Control, ProcessReport, Progress, Report, Requests, Steered};
use oribi_admin::metrics::{Measured, Metrics, Traffic};
use oribi_listen::expiries;
use oribi_stats::figures::Figures;
use std::time::Instant;

impl Steered for Supervisor<'_> {
    fn control(&mut self) -> Option<&mut Control> {
        self.control.as_mut()
    }

    fn report(&self) -> Report {
        let state = match self.stage {
            Stage::Serving if self.farewell.is_some() => "draining",
            Stage::Serving if self.served => "serving",
            Stage::Serving => "loading",
            Stage::Draining => "draining",
            Stage::Leaving { .. } | Stage::Stopping { .. } | Stage::Failed => "stopping",
        };
        Report {
            app: self.settings.app_name.clone(),
            state,
            uptime: self.born.elapsed(),
            addresses: self.listeners.iter().map(|listener| listener.display.clone()).collect(),
            generations: Vec::new(),
            edges: self.settings.edges_wanted(),
            workers: self.wanted,
            threads: self.settings.threads,
            connections: self.processes().into_iter().map(|process| process.row.standing).sum(),
            certificates: expiries(&self.listeners),
            counted: self.books().read(),
        }
    }

    fn processes(&self) -> Vec<ProcessReport> {
        let report = |kind| move |row| ProcessReport { kind, generation: None, row };
        let edges = self.edges.iter().flat_map(Edges::rows).map(report("edge"));
        edges.chain(self.scoreboard.rows().into_iter().map(report("worker"))).collect()
    }

    fn requests(&self) -> Result<Requests, String> {
        let processes = self.processes();
        match &self.edges {
            Some(edges) => requests::in_pools(edges.pools(), self.settings, &processes),
            None => requests::in_workers(&self.scoreboard.shown(), self.settings, &processes),
        }
    }

    fn keeper(&self, _: Option<u64>) -> Option<u32> {
        Some(std::process::id())
    }

    fn backtraces(&self, _: Option<u64>, number: usize, lines: usize) -> Vec<u8> {
        self.scoreboard.backtraces(number, lines)
    }

    fn begin_reload(&mut self) -> Result<u64, String> {
        if !matches!(self.stage, Stage::Serving) || self.farewell.is_some() {
            return Err("the server is stopping".to_owned());
        }
        self.replace_all();
        Ok(0)
    }

    fn reload_progress(&self, _: u64) -> Progress {
        match &self.replacement_failure {
            Some(why) => Progress::Failed(why.clone()),
            None if !matches!(self.stage, Stage::Serving) => Progress::Failed("the server is stopping".to_owned()),
            None if self.replacing => Progress::Pending,
            None => Progress::Done("all workers have been replaced".to_owned()),
        }
    }

    fn begin_stop(&mut self) {
        self.say_farewell(Instant::now());
    }

    fn scale(&mut self, workers: usize) -> Result<(usize, u64), String> {
        if !matches!(self.stage, Stage::Serving) {
            return Err("the server is stopping".to_owned());
        }
        let before = self.wanted;
        Ok((before, self.have_workers(workers)?))
    }

    fn scale_progress(&self, number: u64) -> Progress {
        match (self.change.progress(number, self.wanted), &self.stage) {
            (Progress::Pending, Stage::Serving) => Progress::Pending,
            (Progress::Pending, _) => Progress::Failed("the server is stopping".to_owned()),
            (progress, _) => progress,
        }
    }

    fn reopen_all_logs(&mut self) {
        self.reopen_logs();
    }

    fn begin_upgrade(&mut self) -> Result<(), String> {
        upgrade::begin(self)
    }

    fn upgrade_progress(&self) -> Progress {
        self.succession.outcome()
    }
}

impl Measured for Supervisor<'_> {
    fn metrics(&mut self) -> Option<&mut Metrics> {
        self.metrics.as_mut()
    }

    fn traffic(&self) -> Traffic {
        match &self.edges {
            Some(edges) => requests::traffic_in_pools(edges.pools()),
            None => requests::traffic_in_workers(self.scoreboard.shown().len(), self.settings),
        }
    }

    fn figures(&self) -> Figures {
        self.books.figures(self.scoreboard.contexts())
    }

    fn memory_of(process: u32) -> Option<u64> {
        memory_use::of(process)
    }
}
