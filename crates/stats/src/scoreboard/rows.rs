//! Reads the scoreboard of another process. The copies are not trusted, because a worker can write anything into its memory.
//! So the numbers are displayed and have no other effect.

use super::WorkerState;
use super::gauges::{Connections, GaugeValues};
use crate::app_metrics::{self, Contexts, TableCopy};
use crate::backtrace;
use crate::clock::milliseconds;
use crate::totals::{Account, Counts, ROUTE_LINES};
use oribi_io::process::{SharedLine, shared_file};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The index of the word that holds the start time, in the first line of a worker.
pub(super) const SINCE: usize = 1;
/// The number of lines before those of the workers: one that all workers share, and the account of the process that forks
/// them.
pub(super) const LINES_OF_ALL: usize = 1 + Account::LINES;

/// The index of the line with the state, among the lines of a worker.
const FIRST: usize = 0;

/// The index of the first line of the worker's account.
const ACCOUNT: usize = FIRST + 1;

/// The index of the line with the states of the worker's connections.
const GAUGES_AT: usize = ACCOUNT + Account::LINES;

/// The index of the first line of the worker's threads.
const RUNNING: usize = GAUGES_AT + 1;

/// Returns the number of lines of a worker with this number of watched threads: one line for its state, the lines of its
/// account, one line for its connections, and three lines for each thread.
pub(super) const fn lines_each(threads: usize) -> usize {
    threads.saturating_mul(3).saturating_add(RUNNING)
}

/// Returns the size of a scoreboard in lines: the slots, then backtraces, app metrics and counters by route of all workers.
pub(super) const fn lines_in_all(count: usize, threads: usize, routes: usize) -> usize {
    first_of_routes(count, threads).saturating_add(count.saturating_mul(lines_of_routes(routes)))
}

/// Returns the number of lines before the app metrics of the workers.
const fn first_of_app_metrics(count: usize, threads: usize) -> usize {
    lines(count, threads).saturating_add(count.saturating_mul(backtrace::LINES))
}

/// Returns the number of lines before the counters by route of the workers.
const fn first_of_routes(count: usize, threads: usize) -> usize {
    first_of_app_metrics(count, threads).saturating_add(count.saturating_mul(app_metrics::LINES))
}

/// Returns the number of lines in which a worker counts by route, for this number of routes.
pub(super) const fn lines_of_routes(routes: usize) -> usize {
    routes.saturating_mul(ROUTE_LINES)
}

/// Returns the number of lines of the slots, and of the lines before them.
pub(super) const fn lines(count: usize, threads: usize) -> usize {
    count.saturating_mul(lines_each(threads)).saturating_add(LINES_OF_ALL)
}

pub(super) fn halves(line: &SharedLine) -> [u32; 8] {
    line.halves.each_ref().map(|half| half.load(Relaxed))
}

/// Returns the bytes of a line as they are in memory.
pub(super) fn bytes(line: &SharedLine) -> [u8; 64] {
    let parts = halves(line).into_iter().flat_map(u32::to_ne_bytes).chain(words(line).into_iter().flat_map(u64::to_ne_bytes));
    let mut bytes = [0; 64];
    bytes.iter_mut().zip(parts).for_each(|(target, byte)| *target = byte);
    bytes
}

pub(super) fn words(line: &SharedLine) -> [u64; 4] {
    line.words.each_ref().map(|word| word.load(Relaxed))
}

/// Whether the first line of a slot shows that it has no worker.
const fn is_vacant([_, state, ..]: &[u32; 8]) -> bool {
    *state == WorkerState::Vacant as u32
}

/// A summary of a worker or an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of the worker, counted from 1.
    pub number: usize,
    /// The process id of the worker.
    pub pid: u32,
    /// `starting`, `ready`, `retiring`, `finishing`.
    pub state: &'static str,
    /// The time since it started.
    pub age: Duration,
    /// The number of its connections.
    pub connections: u32,
    /// The number of idle lanes. It is counted only if several lanes may accept.
    pub idle: u32,
    /// The number of requests answered since it started.
    pub requests: u64,
    /// The states of its connections.
    pub gauges: Connections,
}

impl Row {
    /// Decodes a slot; `None` if it is vacant.
    pub(super) fn of(index: usize, halves: [u32; 8], words: [u64; 4], gauges: (GaugeValues, [u64; 4])) -> Option<Self> {
        let [pid, state, command, connections, idle, ..] = halves;
        if is_vacant(&halves) {
            return None;
        }
        let state = match (state, command) {
            (_, 1..) => "finishing",
            (1, _) => "starting",
            (2, _) => "ready",
            _ => "retiring",
        };
        let age = Duration::from_millis(milliseconds().saturating_sub(words[SINCE]));
        let gauges = Connections::of(connections, gauges.0, gauges.1);
        Some(Self { number: index + 1, pid, state, age, connections, idle, requests: words[0], gauges })
    }
}

/// A file in memory for the scoreboard of another process. This process creates the file and reads it.
#[derive(Debug)]
pub struct Board {
    file: OwnedFd,
    count: usize,
    threads: usize,
    routes: usize,
}

impl Board {
    /// Creates the file of a scoreboard for `count` workers with `threads` watched threads each, which count the requests of
    /// `routes` routes.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn new(count: usize, threads: usize, routes: usize) -> io::Result<Self> {
        Ok(Self { file: shared_file("oribi-board", lines_in_all(count, threads, routes))?, count, threads, routes })
    }

    /// Returns the file of the board.
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns a summary of each worker.
    pub fn rows(&self) -> Vec<Row> {
        (0..self.count).filter_map(|index| self.row(index)).collect()
    }

    /// Returns the summary of a slot; `None` if it is vacant. Reads the first line of the slot before the others: a
    /// scoreboard has slots for hundreds of workers, most of them never used, and reading all lines would cost a megabyte
    /// each time.
    fn row(&self, index: usize) -> Option<Row> {
        let line = self.line(index, FIRST)?;
        let halves = halves_in(&line);
        if is_vacant(&halves) {
            return None;
        }
        let gauges = self.line(index, GAUGES_AT)?;
        Row::of(index, halves, words_in(&line), (halves_in(&gauges), words_in(&gauges)))
    }

    /// Reads the line with this offset among the lines of a slot.
    fn line(&self, index: usize, offset: usize) -> Option<[u8; 64]> {
        let mut line = [0; 64];
        self.read_into(&mut line, lines(index, self.threads) + offset).then_some(line)
    }

    /// Reads the account of a slot.
    fn account_lines(&self, index: usize) -> Vec<[u8; 64]> {
        self.read_at(lines(index, self.threads) + ACCOUNT, Account::LINES)
    }

    /// Reads the lines of the threads of a slot's worker.
    fn running_lines(&self, index: usize) -> Vec<[u8; 64]> {
        self.read_at(lines(index, self.threads) + RUNNING, lines_each(self.threads) - RUNNING)
    }

    /// Returns the counters of the process that forks the workers. With `workers`, adds the counters of all workers.
    pub fn counts(&self, workers: bool) -> Counts {
        let words = |lines: Vec<[u8; 64]>| lines.iter().map(words_in).collect::<Vec<_>>();
        let of_all = Account::read_copy(&words(self.read_at(1, LINES_OF_ALL - 1)), &[]);
        if !workers {
            return of_all;
        }
        // The counters of workers that have ended stay in their slots.
        let was_taken = |index: &usize| self.line(*index, FIRST).is_some_and(|line| words_in(&line)[SINCE] != 0);
        let account = |index: usize| Account::read_copy(&words(self.account_lines(index)), &words(self.route_lines(index)));
        (0..self.count).filter(was_taken).fold(of_all, |sum, index| sum.and(&account(index)))
    }

    /// Returns the number of workers that have not ended, as far as the scoreboard shows.
    pub fn workers_left(&self) -> usize {
        self.rows().len()
    }

    /// Returns, for each worker, the process id and the lines of its threads.
    pub(super) fn lines_of_workers(&self) -> Vec<(u32, Vec<[u8; 64]>)> {
        (0..self.count).filter_map(|index| Some((self.row(index)?.pid, self.running_lines(index)))).collect()
    }

    /// Returns the first `count` lines of the area for backtraces of worker `number`, which is counted from 1, as bytes.
    pub fn backtraces(&self, number: usize, count: usize) -> Vec<u8> {
        let Some(index) = number.checked_sub(1).filter(|index| *index < self.count) else { return Vec::new() };
        let count = count.min(backtrace::LINES);
        self.read_at(lines(self.count, self.threads) + index * backtrace::LINES, count).as_flattened().to_vec()
    }

    /// Returns the app metrics of each slot, counted by its current worker and the earlier ones. `None` for a slot whose
    /// table is not readable.
    pub fn app_metrics(&self) -> impl Iterator<Item = Option<TableCopy>> {
        (0..self.count).map(|index| TableCopy::read(|lines| self.read_app_metrics(index, lines)))
    }

    /// Returns the language contexts of each worker.
    pub fn contexts(&self) -> impl Iterator<Item = Contexts> {
        (0..self.count).map(|index| Contexts::read(|lines| self.read_app_metrics(index, lines)))
    }

    fn read_app_metrics(&self, index: usize, lines: Range<usize>) -> Vec<[u8; 64]> {
        let first = first_of_app_metrics(self.count, self.threads) + index * app_metrics::LINES;
        self.read_at(first + lines.start, lines.len())
    }

    /// Reads the counters by route of the worker in a slot.
    fn route_lines(&self, index: usize) -> Vec<[u8; 64]> {
        let each = lines_of_routes(self.routes);
        self.read_at(first_of_routes(self.count, self.threads) + index * each, each)
    }

    /// Reads `count` lines of the file, from line `first` on. Returns none if the system call fails.
    fn read_at(&self, first: usize, count: usize) -> Vec<[u8; 64]> {
        let mut lines = vec![[0; 64]; count];
        if self.read_into(lines.as_flattened_mut(), first) { lines } else { Vec::new() }
    }

    /// Fills `bytes` from line `first` on. `false` if the system call failed.
    fn read_into(&self, bytes: &mut [u8], first: usize) -> bool {
        let start = first * size_of::<SharedLine>();
        let mut read = 0;
        while read < bytes.len() {
            match rustix::io::pread(&self.file, &mut bytes[read..], (start + read) as u64) {
                Ok(count @ 1..) => read += count,
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return false,
            }
        }
        true
    }
}

pub(super) fn halves_in(line: &[u8; 64]) -> [u32; 8] {
    let mut halves = line.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
    std::array::from_fn(|_| halves.next().unwrap_or_default())
}

pub(super) fn words_in(line: &[u8; 64]) -> [u64; 4] {
    let mut words = line.as_chunks::<8>().0.iter().skip(4).map(|bytes| u64::from_ne_bytes(*bytes));
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{Scoreboard, WorkerCommand};
    use super::*;
    use crate::totals::{Counter, Tally};

    #[test]
    fn another_process_reads_what_the_workers_do_and_what_those_have_done_that_are_gone() {
        let board = Board::new(3, 2, 2).expect("a file in memory");
        let scoreboard = Scoreboard::in_file(board.descriptor(), 3, 2, 2, false).expect("it has the size");
        assert_eq!((board.rows(), board.counts(true)), (Vec::new(), Counts::default()));
        let [first, second, _] = scoreboard.slots() else { panic!("three slots") };
        first.occupy(WorkerCommand::Serve);
        second.occupy(WorkerCommand::Serve);
        second.pid.store(77, Relaxed);
        second.connections.store(5, Relaxed);
        second.gauges.change(&[0; 8], &[0, 0, 3, 1, 0, 0, 2, 0]);
        second.set_state(WorkerState::Ready);
        second.requests.store(2, Relaxed);
        first.account.add(Counter::Responses2xx, 40);
        first.account.count(Counter::ConnectionsAccepted);
        second.account.add(Counter::Responses2xx, 2);
        first.parent_account.count(Counter::WorkersFailed);
        for (slot, route) in [(first, 0), (second, 1), (second, 1)] {
            Tally::of_only_lane(slot.account).routed(route, 404, 5);
        }
        first.vacate();
        let (rows, counts) = (board.rows(), board.counts(true));
        let numbers = [Counter::Responses2xx, Counter::ConnectionsClosed, Counter::WorkersFailed];
        assert_eq!(numbers.map(|counter| counts.of(counter)), [42, 1, 1]);
        assert_eq!(counts.routes.iter().map(|route| route.classes[3]).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(numbers.map(|counter| board.counts(false).of(counter)), [0, 0, 1], "without those of the workers");
        assert_eq!((rows.len(), rows[0].number, rows[0].pid, rows[0].state), (1, 2, 77, "ready"));
        assert_eq!((rows[0].connections, rows[0].requests), (5, 2));
        let Connections { answering, sending, idle, http2, .. } = rows[0].gauges;
        assert_eq!([answering, sending, idle, http2], [1, 1, 3, 2]);
        assert_eq!(scoreboard.rows()[0].gauges, rows[0].gauges);
        assert!(rows[0].age < Duration::from_secs(60));
        assert_eq!((scoreboard.counts(true), scoreboard.counts(false)), (counts, board.counts(false)));
        second.set_command(WorkerCommand::Retire);
        assert_eq!(board.rows()[0].state, "finishing");
        first.occupy(WorkerCommand::Serve);
        first.account.count(Counter::Responses2xx);
        assert_eq!(board.counts(true).of(Counter::Responses2xx), 43, "the next worker goes on with the account");
    }

    #[test]
    fn nonsense_is_shown_and_does_no_harm() {
        let row = Row::of(0, [u32::MAX; 8], [u64::MAX; 4], ([u32::MAX; 8], [u64::MAX; 4])).expect("it is not vacant");
        assert_eq!((row.age, row.state), (Duration::ZERO, "finishing"));
    }
}
