//! A lane that the threads of a runtime share, because the runtime has one lock for all of them.

use super::contexts::{Reporter, draw_limit};
use super::scoreboard::WorkerState;
use crate::config::Settings;
use crate::engine::Next;
use crate::lane::{Lane, LaneSetup};
use crate::process::Listener;
use oribi_host::{Crew, Host, Runtime, Turn};
use oribi_io::Epoll;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// One engine for all threads of a worker: a request is answered by whoever is free, so that none waits behind a slow one
/// while another thread has nothing to do. The runtime's lock is the engine's lock, too; only waiting needs neither.
pub(super) struct SharedLane<'a> {
    lane: Lane<'a, Epoll>,
    listeners: &'a [Listener],
    reporter: Reporter<'a>,
    answered: Cell<u64>,
    /// The count of answered requests at which the process is to be replaced.
    due: Cell<u64>,
    ended: Cell<bool>,
    failed: Cell<bool>,
}

impl<'a> SharedLane<'a> {
    pub(super) fn new(
        setup: &LaneSetup<'a>,
        settings: &Settings,
        runtime: &'a dyn Runtime,
        reporter: Reporter<'a>,
    ) -> io::Result<Self> {
        let lane = Lane::shared(setup.engine(settings.workers)?, setup.slot, runtime)?.watched(setup.running);
        lane.obey();
        Ok(Self {
            lane,
            listeners: setup.listeners,
            reporter,
            answered: Cell::new(0),
            due: Cell::new(draw_limit(settings).unwrap_or(u64::MAX)),
            ended: Cell::new(false),
            failed: Cell::new(false),
        })
    }

    /// Gives up what the threads have left unanswered. Returns whether all went well.
    pub(super) fn finish(self) -> bool {
        self.lane.engine().abandon_all();
        !self.failed.get()
    }

    /// Asks for the replacement of the process when it has answered its share, or at once if its app wants that.
    fn count(&self, retire: bool) {
        self.answered.set(self.answered.get() + 1);
        if retire {
            self.lane.engine().stop(false);
        } else if self.answered.get() < self.due.get() {
            return;
        }
        self.due.set(u64::MAX);
        self.reporter.report(WorkerState::Retiring);
    }

    fn fail(&self, error: &io::Error) {
        log::error!("cannot wait for requests: {error}");
        self.failed.set(true);
        self.ended.set(true);
    }
}

impl Crew for SharedLane<'_> {
    fn turn(&self, host: &mut dyn Host) -> Turn {
        while !self.ended.get() {
            // The engine must not be borrowed while the app runs.
            let next = self.lane.engine_with_news().next_exchange_now();
            match next {
                Ok(Next::Exchange(exchange)) => {
                    let retire = self.lane.answer(exchange, self.listeners, host);
                    self.count(retire);
                    return Turn::Answered;
                }
                Ok(Next::Command) => self.ended.set(!self.lane.obey()),
                Ok(Next::Nothing(timeout)) if timeout == Some(Duration::ZERO) => {}
                Ok(Next::Nothing(timeout)) => return Turn::Idle(timeout),
                Err(error) => self.fail(&error),
            }
        }
        Turn::End
    }

    fn wait(&self, timeout: Option<Duration>) {
        if let Err(error) = self.lane.wait_aside(timeout) {
            // The next turn will find the same, and may say so with the lock held.
            log::error!("cannot wait: {error}");
        }
    }
}
