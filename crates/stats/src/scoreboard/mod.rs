//! The shared memory of the supervisor and its workers: one slot of atomics for each worker.

mod doorbell;
mod drain_state;
mod gauges;
mod readiness;
mod rows;
pub mod running;
mod running_requests;

pub use doorbell::SharedDoorbell;
pub use drain_state::DrainState;
pub use gauges::{ConnectionGauges, Connections, GAUGE_COUNT, GaugeValues, Holdings};
pub use readiness::{Readiness, ReadinessQuestion};
pub use rows::{Board, Row};
pub use running_requests::RunningRequest;

use crate::app_metrics::{self, Contexts, Table, TableCopy};
use crate::backtrace::{self, Area, AskPolicy};
use crate::clock::milliseconds;
use crate::totals::{Account, Counts};
use oribi_io::process::{SharedLine, lines_of_file, shared_lines};
use running::RunningLine;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The state of a worker. The worker writes it; the supervisor also writes it before it forks the worker, and after the
/// worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkerState {
    /// No process uses this slot.
    Vacant = 0,
    /// The worker was forked, and does not accept yet.
    Starting = 1,
    /// The worker accepts requests.
    Ready = 2,
    /// The worker still accepts, but asks for its replacement: it has reached its number of requests, its age or its memory
    /// limit, its app has asked to retire, or it got TERM.
    Retiring = 3,
}

/// The command for a worker. Written by the supervisor, or by the worker's own signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkerCommand {
    /// Accept connections, and answer requests.
    Serve = 0,
    /// Accept the connections that wait in the queue, close the listeners, answer all accepted requests, then end.
    Drain = 1,
    /// Stop accepting but leave the queue to the other workers; answer all accepted requests, then end.
    Retire = 2,
    /// Stop at once, without answering requests.
    Quit = 3,
    /// Stop accepting and leave the queue to the next server. Hand over each connection to the next server as soon as it is
    /// between two requests, then end. Only edges get this command.
    HandOver = 4,
}

/// The part of a worker's slot that lanes of other workers read.
#[derive(Clone, Copy, Debug)]
pub struct Presence {
    /// The number of open connections.
    pub connections: &'static AtomicU32,
    /// The number of idle lanes.
    pub idle: &'static AtomicU32,
}

/// A worker's part of the scoreboard: names for the atomics in its own cache line, and references to other shared memory.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSlot {
    /// The process id, 0 in a vacant slot.
    pub pid: &'static AtomicU32,
    /// The worker's [`WorkerState`] as a number.
    pub state: &'static AtomicU32,
    /// The worker's [`WorkerCommand`] as a number.
    pub command: &'static AtomicU32,
    /// The number of open connections.
    pub connections: &'static AtomicU32,
    /// The number of requests answered since the worker started.
    pub requests: &'static AtomicU64,
    /// The number of open connections of all workers.
    pub all_connections: &'static AtomicU32,
    /// The number of idle lanes of this worker.
    pub idle: &'static AtomicU32,
    /// The number of iterations of an edge's event loop: see [`WorkerSlot::count_iteration`].
    iterations: &'static AtomicU32,
    /// The question for the readiness of an edge, and its answer.
    pub readiness: ReadinessQuestion,
    /// The presence of all workers, for lanes that share listeners with lanes of other workers.
    pub workers: &'static [Presence],
    /// The doorbell that lanes ring when they leave a connection to another lane; `None` without other lanes.
    pub doorbell: Option<&'static SharedDoorbell>,
    /// How often all workers were asked to reopen their log files. All slots share this counter.
    pub log_opening: &'static AtomicU32,
    /// The value of `log_opening` when the worker was forked, and so the number of reopenings before it inherited the error
    /// log.
    inherited_opening: u32,
    /// The [`DrainState`] for all workers, as a number.
    drain_state: &'static AtomicU32,
    /// The apps that run on the threads of the worker, one element for each thread. Empty if apps are not watched.
    pub running: &'static [RunningLine],
    /// The area in which the worker answers questions for backtraces.
    pub backtraces: Area,
    /// The table in which the worker counts the metrics of its apps.
    pub app_metrics: Table,
    /// The counters of the worker and of the earlier workers in this slot.
    pub account: Account,
    /// The counters of connections by state.
    pub gauges: ConnectionGauges,
    /// The counters of the process that starts the workers.
    pub parent_account: Account,
    /// The line that contains the atomics of this worker.
    line: &'static SharedLine,
}

/// The references to memory that all slots share.
#[derive(Clone, Copy)]
struct Common {
    line: &'static SharedLine,
    parent_account: Account,
}

impl WorkerSlot {
    const fn of(
        line: &'static SharedLine,
        account: Account,
        gauges: &'static SharedLine,
        running: &'static [RunningLine],
        common: Common,
    ) -> Self {
        let Common { line: common, parent_account } = common;
        let [pid, state, command, connections, idle, iterations, question, answer] = &line.halves;
        let [requests, ..] = &line.words;
        let [all_connections, log_opening, drain_state, ..] = &common.halves;
        let (workers, doorbell): (&[Presence], _) = (&[], None);
        Self {
            pid,
            state,
            command,
            connections,
            requests,
            all_connections,
            idle,
            iterations,
            readiness: ReadinessQuestion::new(question, answer),
            workers,
            doorbell,
            log_opening,
            inherited_opening: 0,
            drain_state,
            running,
            backtraces: Area(&[]),
            app_metrics: Table::in_lines(&[]),
            account,
            gauges: ConnectionGauges(gauges),
            parent_account,
            line,
        }
    }

    /// Returns a slot that is not shared, for a lane without a supervisor.
    #[must_use]
    pub fn unshared() -> Self {
        let common = Common { line: Box::leak(Box::default()), parent_account: Account::unshared() };
        Self::of(Box::leak(Box::default()), Account::unshared(), Box::leak(Box::default()), &[], common)
    }

    /// Returns the state of the worker.
    #[must_use]
    pub fn state(&self) -> WorkerState {
        match self.state.load(Acquire) {
            0 => WorkerState::Vacant,
            1 => WorkerState::Starting,
            2 => WorkerState::Ready,
            _ => WorkerState::Retiring,
        }
    }

    /// Sets the state of the worker.
    pub fn set_state(&self, state: WorkerState) {
        self.state.store(state as u32, Release);
    }

    /// Returns the worker's command.
    #[must_use]
    pub fn command(&self) -> WorkerCommand {
        match self.command.load(Acquire) {
            0 => WorkerCommand::Serve,
            1 => WorkerCommand::Drain,
            2 => WorkerCommand::Retire,
            4 => WorkerCommand::HandOver,
            _ => WorkerCommand::Quit,
        }
    }

    /// Whether the worker must end when it has answered its requests, each with `Connection: close`.
    #[inline]
    #[must_use]
    pub fn is_to_stop(&self) -> bool {
        (WorkerCommand::Drain as u32..=WorkerCommand::Quit as u32).contains(&self.command.load(Acquire))
    }

    /// Sets the worker's command. The worker reads it the next time that it is woken.
    pub fn set_command(&self, command: WorkerCommand) {
        self.command.store(command as u32, Release);
    }

    /// Counts an iteration of an edge's event loop.
    #[inline]
    pub fn count_iteration(&self) {
        self.iterations.store(self.iterations.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns the number of iterations.
    #[inline]
    pub fn iterations(&self) -> u32 {
        self.iterations.load(Relaxed)
    }

    /// Returns how far the end of the server has been announced.
    #[must_use]
    pub fn drain_state(&self) -> DrainState {
        DrainState::read(self.drain_state)
    }

    /// Announces to all workers whether the server is about to end. They read this the next time that they are woken.
    pub fn set_drain_state(&self, drain_state: DrainState) {
        drain_state.write(self.drain_state);
    }

    /// Commands a worker that still serves to retire. Any other command stays. Returns whether the command has changed.
    pub fn retire_if_serving(&self) -> bool {
        let (serve, retire) = (WorkerCommand::Serve as u32, WorkerCommand::Retire as u32);
        self.command.compare_exchange(serve, retire, SeqCst, SeqCst).is_ok()
    }

    /// Requests the replacement of a serving worker, as if the worker had asked for it. Returns `false` if it has asked
    /// already, or does not serve.
    pub fn ask_for_replacement(&self) -> bool {
        let (ready, retiring) = (WorkerState::Ready as u32, WorkerState::Retiring as u32);
        self.state.compare_exchange(ready, retiring, SeqCst, SeqCst).is_ok()
    }

    /// Returns this slot for a process that is about to be forked. That process compares the later number of reopenings with
    /// the number at this moment, so it notices when the log files are reopened during its setup.
    pub fn for_heir(self) -> Self {
        Self { inherited_opening: self.log_opening.load(Relaxed), ..self }
    }

    /// Returns how often the log files had been reopened when this process inherited the error log.
    pub const fn inherited_opening(&self) -> u32 {
        self.inherited_opening
    }

    /// Prepares the slot for a worker that is about to be forked.
    pub fn occupy(&self, command: WorkerCommand) {
        self.connections.store(0, Relaxed);
        self.requests.store(0, Relaxed);
        self.idle.store(0, Relaxed);
        self.gauges.clear();
        self.running.iter().for_each(running::clear);
        self.backtraces.announce(AskPolicy::NotYet);
        self.app_metrics.pass_on();
        self.line.words[rows::SINCE].store(milliseconds(), Relaxed);
        self.set_command(command);
        self.set_state(WorkerState::Starting);
    }

    /// Returns a summary of the slot with this index; `None` without a worker.
    pub(crate) fn row(&self, index: usize) -> Option<Row> {
        let gauges = (rows::halves(self.gauges.0), rows::words(self.gauges.0));
        Row::of(index, rows::halves(self.line), rows::words(self.line), gauges)
    }

    /// Frees the slot of a worker that has ended.
    pub fn vacate(&self) {
        self.pid.store(0, Relaxed);
        // The counters stay for the next worker in this slot.
        self.account.close_connections();
        self.app_metrics.close_contexts();
        self.requests.store(0, Relaxed);
        // A worker that was killed did not subtract its connections from the number of all workers.
        self.all_connections.fetch_sub(self.connections.swap(0, Relaxed), Relaxed);
        self.idle.store(0, Relaxed);
        self.gauges.clear();
        self.set_state(WorkerState::Vacant);
    }
}

/// All slots. They are created before the first fork, and their number never changes.
#[derive(Debug)]
pub struct Scoreboard {
    slots: Vec<WorkerSlot>,
    /// The counters of the process that starts the workers.
    pub parent_account: Account,
}

impl Scoreboard {
    /// Creates slots for `count` workers with `threads` watched threads each, which count the requests of `routes` routes.
    /// `accepting`: whether several lanes may accept connections, so that they need a doorbell.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn new(count: usize, threads: usize, routes: usize, accepting: bool) -> io::Result<Self> {
        Self::on(shared_lines(rows::lines_in_all(count, threads, routes))?, count, threads, accepting)
    }

    /// As [`Scoreboard::new`], with the slots in `file`, which another process reads.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn in_file(file: impl AsFd, count: usize, threads: usize, routes: usize, accepting: bool) -> io::Result<Self> {
        Self::on(lines_of_file(file, rows::lines_in_all(count, threads, routes))?, count, threads, accepting)
    }

    fn on(lines: &'static [SharedLine], count: usize, threads: usize, accepting: bool) -> io::Result<Self> {
        let (lines, behind) = lines.split_at(rows::lines(count, threads));
        let (areas, behind) = behind.split_at(count * backtrace::LINES);
        let (tables, routes) = behind.split_at(count * app_metrics::LINES);
        let account = |lines: &'static [SharedLine]| {
            let (line, lines) = lines.split_first()?;
            Some((line, Account::first_of(lines)?, &lines[Account::LINES..]))
        };
        let (line, parent_account, lines) = account(lines).ok_or(io::ErrorKind::InvalidInput)?;
        let slot = |lines: &'static [SharedLine]| {
            let (own, account, rest) = account(lines)?;
            let (gauges, running) = rest.split_first()?;
            Some(WorkerSlot::of(own, account, gauges, running.as_chunks().0, Common { line, parent_account }))
        };
        let mut slots: Vec<WorkerSlot> = lines.chunks(rows::lines_each(threads)).filter_map(slot).collect();
        slots.iter_mut().zip(areas.chunks(backtrace::LINES)).for_each(|(slot, area)| slot.backtraces = Area(area));
        let routes = routes.chunks((routes.len() / count.max(1)).max(1));
        slots.iter_mut().zip(routes).for_each(|(slot, routes)| slot.account = slot.account.with_routes(routes));
        slots
            .iter_mut()
            .zip(tables.chunks(app_metrics::LINES))
            .for_each(|(slot, table)| slot.app_metrics = Table::in_lines(table));
        let presence = |slot: &WorkerSlot| Presence { connections: slot.connections, idle: slot.idle };
        let workers: &[Presence] = Vec::leak(slots.iter().map(presence).collect());
        let doorbell: Option<&SharedDoorbell> =
            if accepting { Some(Box::leak(Box::new(SharedDoorbell::new()?))) } else { None };
        slots.iter_mut().for_each(|slot| (slot.workers, slot.doorbell) = (workers, doorbell));
        Ok(Self { slots, parent_account })
    }

    /// Returns a summary of each worker.
    pub fn rows(&self) -> Vec<Row> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| slot.row(index)).collect()
    }

    /// Returns the counters of the process that forks the workers. With `workers`, adds the counters of all workers.
    pub fn counts(&self, workers: bool) -> Counts {
        let slots = if workers { &self.slots[..] } else { &[] };
        slots.iter().fold(self.parent_account.read(), |sum, slot| sum.and(&slot.account.read()))
    }

    /// Returns the app metrics of each slot, counted by its current worker and the earlier ones. `None` for a slot whose
    /// table is not readable.
    pub fn app_metrics(&self) -> impl Iterator<Item = Option<TableCopy>> {
        self.slots.iter().map(|slot| slot.app_metrics.copy())
    }

    /// Returns the language contexts of each worker.
    pub fn contexts(&self) -> impl Iterator<Item = Contexts> {
        self.slots.iter().map(|slot| slot.app_metrics.contexts())
    }

    /// Returns the first `count` lines of the area for backtraces of worker `number`, which is counted from 1, as bytes.
    pub fn backtraces(&self, number: usize, count: usize) -> Vec<u8> {
        let area = number.checked_sub(1).and_then(|index| self.slots.get(index)).map_or(&[][..], |slot| slot.backtraces.0);
        area.iter().take(count).flat_map(rows::bytes).collect()
    }

    /// Returns the slots. A worker keeps its slot for life. The index of its slot is its number, counted from 0 here, and
    /// from 1 for users.
    #[inline]
    pub fn slots(&self) -> &[WorkerSlot] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_heir_has_logs_from_before_it_was_forked() {
        let scoreboard = Scoreboard::new(1, 0, 0, false).expect("memory is there");
        let slot = scoreboard.slots()[0];
        slot.log_opening.fetch_add(1, Relaxed);
        let heir = slot.for_heir();
        slot.log_opening.fetch_add(1, Relaxed);
        assert_eq!((heir.inherited_opening(), heir.log_opening.load(Relaxed)), (1, 2));
    }

    #[test]
    fn a_slot_is_vacant_until_occupied_and_vacant_again_behind_its_worker() {
        let scoreboard = Scoreboard::new(2, 3, 0, true).expect("memory is to be had");
        let slot = scoreboard.slots()[1];
        assert_eq!((scoreboard.slots().len(), slot.running.len()), (2, 3));
        assert_eq!(slot.state(), WorkerState::Vacant);
        slot.requests.store(7, Relaxed);
        slot.occupy(WorkerCommand::Drain);
        assert_eq!(
            (slot.state(), slot.command(), slot.requests.load(Relaxed)),
            (WorkerState::Starting, WorkerCommand::Drain, 0)
        );
        assert_eq!(scoreboard.slots()[0].state(), WorkerState::Vacant);
        slot.vacate();
        assert_eq!(slot.state(), WorkerState::Vacant);
    }

    #[test]
    fn a_worker_retires_by_itself_only_while_it_is_told_nothing_else() {
        let slot = WorkerSlot::unshared();
        assert!(slot.retire_if_serving());
        assert_eq!(slot.command(), WorkerCommand::Retire);
        slot.set_command(WorkerCommand::Drain);
        assert!(!slot.retire_if_serving());
        assert_eq!(slot.command(), WorkerCommand::Drain);
    }
}
