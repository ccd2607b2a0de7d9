//! Handles the wake-up of a lane.

use super::Lane;
use oribi_source::Source;
use oribi_stats::scoreboard::{DrainState, WorkerCommand};
use std::sync::atomic::Ordering;

impl<S: Source> Lane<'_, S> {
    /// Reads the worker's command, reopens logs, and passes on answers of the first process; `false` at the end of the lane.
    pub fn handle_command(&self) -> bool {
        let mut source = self.source.borrow_mut();
        if source.take_wake()
            && let Some(event_sources) = &self.event_sources
        {
            event_sources.clear();
        }
        let reopenings = self.slot.log_opening.load(Ordering::Relaxed);
        if self.logs_opened.get().is_some_and(|opened| opened != reopenings) {
            self.logs_opened.set(Some(reopenings));
            source.reopen_logs();
        }
        drop(source);
        self.resume_front();
        let mut source = self.source.borrow_mut();
        self.pass_on_command(&mut source) && !source.finished()
    }

    /// Passes the worker's command to the source; `false` to end at once.
    pub(super) fn pass_on_command(&self, source: &mut S) -> bool {
        match self.slot.command() {
            WorkerCommand::Serve if self.slot.drain_state() == DrainState::Closing => source.part(),
            WorkerCommand::Serve => {}
            WorkerCommand::Drain => source.stop(true),
            WorkerCommand::Retire => source.stop(false),
            WorkerCommand::Quit => return false,
            // The edge already knows the destination.
            WorkerCommand::HandOver => {}
        }
        true
    }
}
