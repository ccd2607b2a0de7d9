//! A supervisor that a master has started.

use super::super::inheritance::{News, Word};
use super::super::scaling;
use super::Supervisor;
use oribi_config::Settings;
use oribi_stats::scoreboard::{Prospect, Scoreboard, WorkerCommand};
use oribi_stats::totals::Counter;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Creates the scoreboard, in the file that the master reads, if there is one with the right size.
pub(super) fn scoreboard(settings: &Settings, board: Option<OwnedFd>) -> io::Result<Scoreboard> {
    let (count, threads, routes) = (scaling::room(settings.workers), settings.watched_threads(), settings.routes_of_workers());
    let accepting = settings.edges_wanted() == 0;
    if let Some(board) = board {
        match Scoreboard::in_file(&board, count, threads, routes, accepting) {
            Ok(scoreboard) => return Ok(scoreboard),
            Err(error) => log::warn!("`oribi ctl` will not show the workers of this generation: {error}"),
        }
    }
    Scoreboard::new(count, threads, routes, accepting)
}

impl Supervisor<'_> {
    /// Handles the messages of the master.
    pub(super) fn obey_master(&mut self) {
        while let Some(master) = &self.master {
            match master.hear() {
                News::Word(Word::Stop) => self.stop(WorkerCommand::Drain),
                News::Word(Word::Retire) => {
                    self.ends_for = Counter::EndedByReload;
                    self.stop(WorkerCommand::Retire);
                }
                News::Word(Word::Announce) => self.foresee(Prospect::Ends),
                News::Word(Word::Part) => self.foresee(Prospect::Parts),
                News::Word(Word::Complete) => self.is_to_be_complete = true,
                News::Word(Word::Quit) => self.end_now("told to end at once"),
                News::Word(Word::Reopen) => self.reopen_logs(),
                News::Word(Word::Own) => self.listeners.iter_mut().for_each(|listener| listener.lent = false),
                News::Word(Word::Loaded | Word::Ready | Word::Incomplete | Word::Told) | News::Settled { .. } => {}
                News::Plea(plea) => self.hear_plea(plea),
                // Only molds send this, to masters.
                News::Trouble(_) => {}
                News::TimeLeft(left) => self.stop_by = Some(Instant::now() + left),
                News::Scale { workers, order } => {
                    if let Err(why) = self.have_workers(workers as usize) {
                        log::warn!("{why}");
                    }
                    // A generation that starts reports that it is ready instead.
                    self.owes_settled = self.announced.then_some(order);
                }
                News::None => return,
                News::End => {
                    log::error!("the master has died");
                    self.master = None;
                    self.stop(WorkerCommand::Drain);
                }
            }
        }
    }
}
