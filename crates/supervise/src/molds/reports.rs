//! Implements the orders of `oribi ctl` for a master.

use super::super::certifier::Certifier;
use super::super::edges::Edges;
use super::super::exporter::Exporter;
use super::super::inheritance::Word;
use super::super::reloads::Outcome;
use super::super::{memory_use, requests, upgrade};
use super::{Generation, Master, Stage};
use oribi_admin::control::{Control, GenerationReport, ProcessReport, Progress, Report, Requests, Steered};
use oribi_admin::metrics::{Measured, Metrics, Traffic};
use oribi_listen::expiries;
use oribi_stats::figures::Figures;
use oribi_stats::scoreboard::{Connections, Row, Shown};
use std::time::Instant;

impl Master<'_> {
    /// Makes all processes reopen their logs.
    pub(super) fn reopen_logs(&self) {
        super::super::reopen_error_log(self.settings, &self.privileges);
        self.edges.iter().for_each(Edges::reopen_logs);
        self.certifier.iter().for_each(Certifier::reopen_logs);
        self.exporter.iter().for_each(Exporter::reopen_logs);
        self.say(Word::Reopen);
    }
}

impl Master<'_> {
    fn generation(&self, number: u64) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.number == number)
    }
}

impl Master<'_> {
    /// Returns the connections of clients by state: those of edges, or of workers if there are none.
    fn connections(&self) -> Connections {
        let standing = |row: Row| row.standing;
        match &self.edges {
            Some(edges) => edges.rows().into_iter().map(standing).sum(),
            None => self.generations.iter().flat_map(|generation| generation.board.rows()).map(standing).sum(),
        }
    }
}

impl Steered for Master<'_> {
    fn control(&mut self) -> Option<&mut Control> {
        self.control.as_mut()
    }

    fn report(&self) -> Report {
        self.keep_books();
        let state = match self.stage {
            Stage::Serving if self.farewell.is_some() => "draining",
            Stage::Serving if self.served => "serving",
            Stage::Serving => "loading",
            Stage::Draining { .. } => "draining",
            Stage::Stopping { .. } | Stage::Ended { .. } => "stopping",
        };
        let generation = |generation: &Generation| GenerationReport {
            number: generation.number,
            pid: generation.pid.as_raw_nonzero().get(),
            state: match (generation.ready, generation.stays()) {
                (_, false) => "finishing",
                (false, true) => "loading",
                (true, true) => "serving",
            },
            age: generation.born.elapsed(),
        };
        Report {
            app: self.settings.app_name.clone(),
            state,
            uptime: self.born.elapsed(),
            addresses: self.listeners.iter().map(|listener| listener.display.clone()).collect(),
            generations: self.generations.iter().map(generation).collect(),
            edges: self.settings.edges_wanted(),
            workers: self.wanted,
            threads: self.settings.threads,
            connections: self.connections(),
            certificates: expiries(&self.listeners),
            counted: self.books.read(),
        }
    }

    fn processes(&self) -> Vec<ProcessReport> {
        let edges = self.edges.iter().flat_map(Edges::rows);
        let edges = edges.map(|row| ProcessReport { kind: "edge", generation: None, row });
        let workers = self.generations.iter().flat_map(|generation| {
            let number = Some(generation.number);
            generation.board.rows().into_iter().map(move |row| ProcessReport { kind: "worker", generation: number, row })
        });
        edges.chain(workers).collect()
    }

    fn requests(&self) -> Result<Requests, String> {
        let processes = self.processes();
        let Some(edges) = &self.edges else {
            let running: Vec<Shown> = self.generations.iter().flat_map(|generation| generation.board.shown()).collect();
            return requests::in_workers(&running, self.settings, &processes);
        };
        requests::in_pools(edges.pools(), self.settings, &processes)
    }

    fn keeper(&self, generation: Option<u64>) -> Option<u32> {
        self.generation(generation?).map(|generation| generation.pid.as_raw_nonzero().get().unsigned_abs())
    }

    fn backtraces(&self, generation: Option<u64>, number: usize, lines: usize) -> Vec<u8> {
        let generation = generation.and_then(|generation| self.generation(generation));
        generation.map(|generation| generation.board.backtraces(number, lines)).unwrap_or_default()
    }

    fn begin_reload(&mut self) -> Result<u64, String> {
        if self.stage != Stage::Serving || self.farewell.is_some() {
            return Err("the server is stopping".to_owned());
        }
        Ok(self.reload())
    }

    fn reload_progress(&self, number: u64) -> Progress {
        // A later request for a reload may have replaced this one.
        let (number, outcome) = (number..=self.started)
            .filter_map(|number| Some((number, self.reloads.outcome(number)?)))
            .find(|(_, outcome)| **outcome != Outcome::GivenUp)
            .unwrap_or((number, &Outcome::GivenUp));
        match outcome {
            Outcome::UnderWay => Progress::Pending,
            Outcome::TakenOver => Progress::Done(format!("generation {number} has taken over")),
            Outcome::Failed(why) => {
                Progress::Failed(format!("generation {number} cannot serve, the one before serves on: {why}"))
            }
            Outcome::GivenUp => Progress::Failed(format!("generation {number} was given up")),
        }
    }

    fn begin_stop(&mut self) {
        self.say_farewell(Instant::now());
    }

    fn scale(&mut self, workers: usize) -> Result<(usize, u64), String> {
        if self.stage != Stage::Serving {
            return Err("the server is stopping".to_owned());
        }
        let before = self.wanted;
        Ok((before, self.have_workers(workers)?))
    }

    fn scale_progress(&self, number: u64) -> Progress {
        self.change_progress(number)
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

impl Measured for Master<'_> {
    fn metrics(&mut self) -> Option<&mut Metrics> {
        self.metrics.as_mut()
    }

    fn traffic(&self) -> Traffic {
        match &self.edges {
            Some(edges) => requests::traffic_in_pools(edges.pools()),
            None => {
                let running = self.generations.iter().map(|generation| generation.board.shown().len()).sum();
                requests::traffic_in_workers(running, self.settings)
            }
        }
    }

    fn figures(&self) -> Figures {
        self.books.figures(self.generations.iter().flat_map(|generation| generation.board.contexts()))
    }

    fn memory_of(process: u32) -> Option<u64> {
        memory_use::of(process)
    }
}
