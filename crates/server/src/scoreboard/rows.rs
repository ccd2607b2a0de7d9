//! The scoreboard as a process reads it that has not made it: a copy, of which nothing is believed. A worker can write anything into
//! its own memory, so numbers are shown, and nothing else is done with them.

use super::WorkerState;
use crate::totals::{Account, Counts};
use oribi_io::process::{SharedLine, shared_file};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Where in a worker's line the time of its start is.
pub(super) const SINCE: usize = 1;
/// Lines before those of the workers: one that all share, and the account of the process that starts them.
pub(super) const LINES_OF_ALL: usize = 1 + Account::LINES;

/// Lines of a worker with that many watched threads: one with its state, its account, and two for each thread.
pub(super) const fn lines_each(threads: usize) -> usize {
    threads.saturating_mul(2).saturating_add(1 + Account::LINES)
}

/// Lines of a scoreboard.
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

pub(super) fn words(line: &SharedLine) -> [u64; 4] {
    line.words.each_ref().map(|word| word.load(Relaxed))
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) pid: u32,
    /// `starting`, `ready`, `retiring`, `finishing`.
    pub(crate) state: &'static str,
    pub(crate) age: Duration,
    pub(crate) connections: u32,
    /// Requests answered since it started.
    pub(crate) requests: u64,
}

impl Row {
    /// `None`: the slot is vacant.
    pub(super) fn of(index: usize, halves: [u32; 8], words: [u64; 4]) -> Option<Self> {
        let [pid, state, command, connections, ..] = halves;
        if state == WorkerState::Vacant as u32 {
            return None;
        }
        let state = match (state, command) {
            (_, 1..) => "finishing",
            (1, _) => "starting",
            (2, _) => "ready",
            _ => "retiring",
        };
        let age = Duration::from_millis(clock().saturating_sub(words[SINCE]));
        Some(Self { number: index + 1, pid, state, age, connections, requests: words[0] })
    }
}

/// A file in memory for the scoreboard of another process, which this process reads.
#[derive(Debug)]
pub(crate) struct Board {
    file: OwnedFd,
    count: usize,
    threads: usize,
}

impl Board {
    /// Makes a file for a scoreboard of that many slots.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn new(count: usize, threads: usize) -> io::Result<Self> {
        Ok(Self { file: shared_file("oribi-board", lines(count, threads))?, count, threads })
    }

    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// What the workers are doing.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let lines = self.read();
        let workers = lines.get(LINES_OF_ALL..).unwrap_or_default().chunks(lines_each(self.threads)).filter_map(<[_]>::first);
        workers.enumerate().filter_map(|(index, line)| Row::of(index, halves_in(line), words_in(line))).collect()
    }

    /// What the process has counted that starts the workers and, with `workers`, what these have counted.
    pub(crate) fn counts(&self, workers: bool) -> Counts {
        let lines: Vec<[u64; 4]> = self.read().iter().map(words_in).collect();
        let of_all = Account::read_copy(lines.get(1..LINES_OF_ALL).unwrap_or_default());
        if !workers {
            return of_all;
        }
        let each = lines.get(LINES_OF_ALL..).unwrap_or_default().chunks(lines_each(self.threads));
        each.filter_map(|lines| lines.get(1..LINES_OF_ALL)).fold(of_all, |sum, lines| sum.and(&Account::read_copy(lines)))
    }

    /// How many workers have not ended, as far as this can be known.
    pub(crate) fn workers_left(&self) -> usize {
        self.rows().len()
    }

    /// The processes of workers, and the lines about what their threads run.
    pub(super) fn lines_of_workers(&self) -> Vec<(u32, Vec<[u8; 64]>)> {
        let lines = self.read();
        let workers = lines.get(LINES_OF_ALL..).unwrap_or_default().chunks(lines_each(self.threads));
        let one = |(index, lines): (usize, &[[u8; 64]])| {
            let row = Row::of(index, halves_in(lines.first()?), words_in(lines.first()?))?;
            Some((row.pid, lines.get(1 + Account::LINES..)?.to_vec()))
        };
        workers.enumerate().filter_map(one).collect()
    }

    /// All of it; nothing, if the system refuses.
    fn read(&self) -> Vec<[u8; 64]> {
        let mut bytes = vec![0; lines(self.count, self.threads) * size_of::<SharedLine>()];
        let mut read = 0;
        while read < bytes.len() {
            match rustix::io::pread(&self.file, &mut bytes[read..], read as u64) {
                Ok(count @ 1..) => read += count,
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return Vec::new(),
            }
        }
        bytes.as_chunks().0.to_vec()
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
    use crate::totals::Counter;

    #[test]
    fn another_process_reads_what_the_workers_do_and_what_those_have_done_that_are_gone() {
        let board = Board::new(3, 2).expect("a file in memory");
        let scoreboard = Scoreboard::in_file(board.descriptor(), 3, 2, false).expect("it has the size");
        assert_eq!((board.rows(), board.counts(true)), (Vec::new(), Counts::default()));
        let [first, second, _] = scoreboard.slots() else { panic!("three slots") };
        first.occupy(WorkerCommand::Serve);
        second.occupy(WorkerCommand::Serve);
        second.pid.store(77, Relaxed);
        second.connections.store(5, Relaxed);
        second.set_state(WorkerState::Ready);
        second.requests.store(2, Relaxed);
        first.account.add(Counter::Responses2xx, 40);
        first.account.count(Counter::ConnectionsAccepted);
        second.account.add(Counter::Responses2xx, 2);
        first.keeper.count(Counter::WorkersFailed);
        first.vacate();
        let (rows, counts) = (board.rows(), board.counts(true));
        let numbers = [Counter::Responses2xx, Counter::ConnectionsClosed, Counter::WorkersFailed];
        assert_eq!(numbers.map(|counter| counts.of(counter)), [42, 1, 1]);
        assert_eq!(numbers.map(|counter| board.counts(false).of(counter)), [0, 0, 1], "without those of the workers");
        assert_eq!((rows.len(), rows[0].number, rows[0].pid, rows[0].state), (1, 2, 77, "ready"));
        assert_eq!((rows[0].connections, rows[0].requests), (5, 2));
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
        let row = Row::of(0, [u32::MAX; 8], [u64::MAX; 4]).expect("it is not vacant");
        assert_eq!((row.age, row.state), (Duration::ZERO, "finishing"));
    }
}
