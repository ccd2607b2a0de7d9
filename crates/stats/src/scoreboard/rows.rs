//! The scoreboard as a process reads it that has not made it: a copy, of which nothing is believed. A worker can write anything into
//! its own memory, so numbers are shown, and nothing else is done with them.

use super::WorkerState;
use super::standing::{Connections, Numbers};
use crate::backtrace;
use crate::figures::{self, Contexts, Told};
use crate::totals::{Account, Counts, ROUTE_LINES};
use oribi_io::process::{SharedLine, shared_file};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Where in a worker's line the time of its start is.
pub(super) const SINCE: usize = 1;
/// Lines before those of the workers: one that all share, and the account of the process that starts them.
pub(super) const LINES_OF_ALL: usize = 1 + Account::LINES;

/// Where in a worker's lines is the one with its state.
const FIRST: usize = 0;

/// Where its account begins.
const ACCOUNT: usize = FIRST + 1;

/// Where it is told what its connections do.
const STANDING: usize = ACCOUNT + Account::LINES;

/// Where its threads have their lines.
const RUNNING: usize = STANDING + 1;

/// Lines of a worker with that many watched threads: one with its state, its account, one for its connections, and three for each
/// thread.
pub(super) const fn lines_each(threads: usize) -> usize {
    threads.saturating_mul(3).saturating_add(RUNNING)
}

/// Lines of a scoreboard with those in which workers say where their apps are, then those in which they count the figures of these, and
/// then those in which they count requests by that many routes. All three stand behind all others.
pub(super) const fn lines_in_all(count: usize, threads: usize, routes: usize) -> usize {
    first_of_routes(count, threads).saturating_add(count.saturating_mul(lines_of_routes(routes)))
}

/// Lines before those of the figures.
const fn first_of_figures(count: usize, threads: usize) -> usize {
    lines(count, threads).saturating_add(count.saturating_mul(backtrace::LINES))
}

/// Lines before those of the routes.
const fn first_of_routes(count: usize, threads: usize) -> usize {
    first_of_figures(count, threads).saturating_add(count.saturating_mul(figures::LINES))
}

/// Lines of a worker with that many routes.
pub(super) const fn lines_of_routes(routes: usize) -> usize {
    routes.saturating_mul(ROUTE_LINES)
}

/// Lines of a scoreboard without these.
pub(super) const fn lines(count: usize, threads: usize) -> usize {
    count.saturating_mul(lines_each(threads)).saturating_add(LINES_OF_ALL)
}

/// Milliseconds of a clock that all processes share and that is never set.
pub(super) fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000)
}

pub(super) fn halves(line: &SharedLine) -> [u32; 8] {
    line.halves.each_ref().map(|half| half.load(Relaxed))
}

/// The bytes of a line, as they stand in memory.
pub(super) fn bytes(line: &SharedLine) -> [u8; 64] {
    let parts = halves(line).into_iter().flat_map(u32::to_ne_bytes).chain(words(line).into_iter().flat_map(u64::to_ne_bytes));
    let mut bytes = [0; 64];
    bytes.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    bytes
}

pub(super) fn words(line: &SharedLine) -> [u64; 4] {
    line.words.each_ref().map(|word| word.load(Relaxed))
}

/// Whether a slot whose first line has these numbers has no worker.
const fn is_vacant([_, state, ..]: &[u32; 8]) -> bool {
    *state == WorkerState::Vacant as u32
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Counted from 1.
    pub number: usize,
    /// The number of the process.
    pub pid: u32,
    /// `starting`, `ready`, `retiring`, `finishing`.
    pub state: &'static str,
    /// The time since it began.
    pub age: Duration,
    /// The connections that it has.
    pub connections: u32,
    /// Lanes that have nothing to do, if there are several that may accept.
    pub idle: u32,
    /// Requests answered since it started.
    pub requests: u64,
    /// What its connections do.
    pub standing: Connections,
}

impl Row {
    /// `None`: the slot is vacant.
    pub(super) fn of(index: usize, halves: [u32; 8], words: [u64; 4], standing: Numbers) -> Option<Self> {
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
        let age = Duration::from_millis(clock().saturating_sub(words[SINCE]));
        let standing = Connections::of(connections, standing);
        Some(Self { number: index + 1, pid, state, age, connections, idle, requests: words[0], standing })
    }
}

/// A file in memory for the scoreboard of another process, which this process reads.
#[derive(Debug)]
pub struct Board {
    file: OwnedFd,
    count: usize,
    threads: usize,
    routes: usize,
}

impl Board {
    /// Makes the file of a scoreboard for `count` workers.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new(count: usize, threads: usize, routes: usize) -> io::Result<Self> {
        Ok(Self { file: shared_file("oribi-board", lines_in_all(count, threads, routes))?, count, threads, routes })
    }

    /// The file of the board.
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// What the workers are doing.
    pub fn rows(&self) -> Vec<Row> {
        (0..self.count).filter_map(|index| self.row(index)).collect()
    }

    /// Whoever asks often is not to read the megabyte that slots for hundreds of workers have, most of which no worker has ever had.
    fn row(&self, index: usize) -> Option<Row> {
        let line = self.line(index, FIRST)?;
        let halves = halves_in(&line);
        if is_vacant(&halves) {
            return None;
        }
        let standing = self.line(index, STANDING)?;
        Row::of(index, halves, words_in(&line), halves_in(&standing))
    }

    /// One of the lines of a slot.
    fn line(&self, index: usize, place: usize) -> Option<[u8; 64]> {
        let mut line = [0; 64];
        self.read_into(&mut line, lines(index, self.threads) + place).then_some(line)
    }

    /// The account in a slot.
    fn account_lines(&self, index: usize) -> Vec<[u8; 64]> {
        self.read_at(lines(index, self.threads) + ACCOUNT, Account::LINES)
    }

    /// What the threads of a slot's worker run.
    fn running_lines(&self, index: usize) -> Vec<[u8; 64]> {
        self.read_at(lines(index, self.threads) + RUNNING, lines_each(self.threads) - RUNNING)
    }

    /// What the process has counted that starts the workers and, with `workers`, what these have counted.
    pub fn counts(&self, workers: bool) -> Counts {
        let words = |lines: Vec<[u8; 64]>| lines.iter().map(words_in).collect::<Vec<_>>();
        let of_all = Account::read_copy(&words(self.read_at(1, LINES_OF_ALL - 1)), &[]);
        if !workers {
            return of_all;
        }
        // What the workers have counted that were in a slot stays there.
        let was_taken = |index: &usize| self.line(*index, FIRST).is_some_and(|line| words_in(&line)[SINCE] != 0);
        let account = |index: usize| Account::read_copy(&words(self.account_lines(index)), &words(self.route_lines(index)));
        (0..self.count).filter(was_taken).fold(of_all, |sum, index| sum.and(&account(index)))
    }

    /// How many workers have not ended, as far as this can be known.
    pub fn workers_left(&self) -> usize {
        self.rows().len()
    }

    /// The processes of workers, and the lines about what their threads run.
    pub(super) fn lines_of_workers(&self) -> Vec<(u32, Vec<[u8; 64]>)> {
        (0..self.count).filter_map(|index| Some((self.row(index)?.pid, self.running_lines(index)))).collect()
    }

    /// What worker `number` says of where its apps are: the first of its bytes, as many of them as that many lines have.
    pub fn backtraces(&self, number: usize, count: usize) -> Vec<u8> {
        let Some(index) = number.checked_sub(1).filter(|index| *index < self.count) else { return Vec::new() };
        let count = count.min(backtrace::LINES);
        self.read_at(lines(self.count, self.threads) + index * backtrace::LINES, count).as_flattened().to_vec()
    }

    /// What each worker, and those before it, have counted for their apps.
    pub fn figures(&self) -> impl Iterator<Item = Option<Told>> {
        (0..self.count).map(|index| Told::read(|lines| self.read_figures(index, lines)))
    }

    /// The contexts of languages that each worker has.
    pub fn contexts(&self) -> impl Iterator<Item = Contexts> {
        (0..self.count).map(|index| Contexts::read(|lines| self.read_figures(index, lines)))
    }

    fn read_figures(&self, index: usize, lines: Range<usize>) -> Vec<[u8; 64]> {
        let first = first_of_figures(self.count, self.threads) + index * figures::LINES;
        self.read_at(first + lines.start, lines.len())
    }

    /// What the workers have counted by routes that were in a slot.
    fn route_lines(&self, index: usize) -> Vec<[u8; 64]> {
        let each = lines_of_routes(self.routes);
        self.read_at(first_of_routes(self.count, self.threads) + index * each, each)
    }

    /// Lines of it; none, if the system refuses.
    fn read_at(&self, first: usize, count: usize) -> Vec<[u8; 64]> {
        let mut lines = vec![[0; 64]; count];
        if self.read_into(lines.as_flattened_mut(), first) { lines } else { Vec::new() }
    }

    /// Fills `bytes`, from line `first` on. `false`: the system refuses.
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
        second.standing.change(&[0; 8], &[0, 0, 3, 1, 0, 0, 2, 0]);
        second.set_state(WorkerState::Ready);
        second.requests.store(2, Relaxed);
        first.account.add(Counter::Responses2xx, 40);
        first.account.count(Counter::ConnectionsAccepted);
        second.account.add(Counter::Responses2xx, 2);
        first.keeper.count(Counter::WorkersFailed);
        for (slot, route) in [(first, 0), (second, 1), (second, 1)] {
            Tally::alone(slot.account).routed(route, 404, 5);
        }
        first.vacate();
        let (rows, counts) = (board.rows(), board.counts(true));
        let numbers = [Counter::Responses2xx, Counter::ConnectionsClosed, Counter::WorkersFailed];
        assert_eq!(numbers.map(|counter| counts.of(counter)), [42, 1, 1]);
        assert_eq!(counts.routes.iter().map(|route| route.classes[3]).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(numbers.map(|counter| board.counts(false).of(counter)), [0, 0, 1], "without those of the workers");
        assert_eq!((rows.len(), rows[0].number, rows[0].pid, rows[0].state), (1, 2, 77, "ready"));
        assert_eq!((rows[0].connections, rows[0].requests), (5, 2));
        let Connections { answering, sending, idle, http2, .. } = rows[0].standing;
        assert_eq!([answering, sending, idle, http2], [1, 1, 3, 2]);
        assert_eq!(scoreboard.rows()[0].standing, rows[0].standing);
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
        let row = Row::of(0, [u32::MAX; 8], [u64::MAX; 4], [u32::MAX; 8]).expect("it is not vacant");
        assert_eq!((row.age, row.state), (Duration::ZERO, "finishing"));
    }
}
