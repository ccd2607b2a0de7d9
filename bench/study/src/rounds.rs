//! Measures one cell: all its servers are up at the same time with their connections open, and take turns.

use crate::cells::Cell;
use crate::counter::Counter;
use crate::generator::{Generator, Outcome, Pace};
use crate::raw::{Count, Finished, Load, Problem, Writer};
use crate::rows::Row;
use crate::server::{Server, StudyEnvironment};
use oribi_bench::interrupt;
use oribi_bench::threads::Spent;
use std::time::Duration;

/// Seconds of load before anything counts.
pub const WARM_UP: f64 = 0.1;
/// Seconds of the load that finds out how fast a server is.
pub const TRIAL: f64 = 0.15;
/// Seconds of the load during which system calls are counted.
pub const COUNTED: f64 = 0.2;
/// The rate of the open loop, as a share of the peak of the slowest server in a cell, so that no server falls behind.
const SHARE: f64 = 0.5;
/// The factor by which a load of slow clients is longer.
const SLOW: f64 = 6.0;
/// The least duration of a load of slow clients, in seconds: they need one second to do anything.
const SLOWEST: f64 = 1.5;
/// The duration of the warm-up with slow clients, in seconds: then the first clients have their answers, and the kernel has
/// taken its part of all others.
pub const SLOW_WARM_UP: f64 = 1.5;
/// The time between the end of a load and the reading of the counters.
const SETTLE: Duration = Duration::from_millis(10);

/// The way in which cells are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The number of loads of each server.
    pub rounds: usize,
    /// The duration of each load in seconds, in the closed loop and again in the open loop.
    pub seconds: f64,
}

/// The factor for the number of rounds in cells with targets. The median of a few short loads may differ by a tenth from one
/// run to the next, so it could not show whether a limit of a tenth is kept.
const ROUNDS_FOR_TARGETS: usize = 8;

impl Plan {
    /// The number of loads of each server in a cell.
    pub fn rounds_of(self, cell: &Cell) -> usize {
        if cell.has_target() { self.rounds * ROUNDS_FOR_TARGETS } else { self.rounds }
    }

    /// The time that a load takes in a cell.
    pub fn seconds_of(self, cell: &Cell) -> f64 {
        if cell.pattern.is_slow() { (self.seconds * SLOW).max(SLOWEST) } else { self.seconds }
    }
}

/// A server with its load generator, while a cell is measured.
struct Runner<'a> {
    row: &'a Row,
    server: Server,
    /// The load generator; `None` after it broke down.
    generator: Option<Generator>,
    idle_memory: u64,
    open_memory: u64,
}

/// The known facts about the cell, and the keeper of the results.
struct CellContext<'a> {
    place: &'a StudyEnvironment,
    writer: &'a Writer,
    cell: Cell,
    problems: usize,
}

impl CellContext<'_> {
    fn problem(&mut self, row: &Row, what: String) -> Result<(), String> {
        // An order to stop is not a failure.
        interrupt::check()?;
        eprintln!("    {}: {what}", row.name);
        self.problems += 1;
        self.writer.problem(&Problem { cell: self.cell.to_string(), row: row.name.to_owned(), what })
    }

    /// Loads a server once. Returns `None` if that failed, and records the problem.
    fn load(&mut self, runner: &mut Runner<'_>, seconds: f64, pace: Pace) -> Result<Option<(Outcome, Spent)>, String> {
        let Some(generator) = &mut runner.generator else { return Ok(None) };
        let before = runner.server.threads();
        let outcome = generator.load(seconds, pace);
        interrupt::sleep(SETTLE)?;
        let spent = runner.server.threads().since(&before);
        match outcome {
            Ok(outcome) => {
                if outcome.errors > 0 {
                    self.problem(runner.row, format!("errors: {}", outcome.kinds))?;
                } else if outcome.bytes == 0 {
                    self.problem(runner.row, format!("not one byte in {seconds:.2} s"))?;
                }
                Ok(Some((outcome, spent)))
            }
            Err(e) => {
                runner.generator = None;
                self.problem(runner.row, e)?;
                Ok(None)
            }
        }
    }
}

/// Measures a cell and writes the results. Returns the number of problems.
///
/// # Errors
/// The user wants to stop, or results cannot be written. Faults of servers are a part of the results.
pub fn measure(place: &StudyEnvironment, writer: &Writer, cell: &Cell, rows: &[&Row], plan: Plan) -> Result<usize, String> {
    let mut context = CellContext { place, writer, cell: *cell, problems: 0 };
    let mut runners = start(&mut context, rows)?;
    let seconds = plan.seconds_of(cell);
    let rate = if cell.pattern.is_slow() { None } else { common_rate(&mut context, &mut runners)? };
    let count = runners.len();
    for round in 0..plan.rounds_of(cell) {
        // Each round begins with another server, so that none is always the one after the heaviest.
        for index in (0..count).map(|offset| (round + offset) % count) {
            for pace in [Some(Pace::Closed), rate.map(Pace::Open)].into_iter().flatten() {
                let runner = &mut runners[index];
                let Some((outcome, spent)) = context.load(runner, seconds, pace)? else { continue };
                writer.load(&line(cell, runner.row, round + 1, pace, &outcome, &spent))?;
            }
        }
    }
    for runner in &mut runners {
        let (calls, responses) = if cell.pattern.is_slow() { (None, 0) } else { count_calls(&mut context, runner)? };
        writer.count(&Count {
            cell: cell.to_string(),
            row: runner.row.name.to_owned(),
            idle_memory: runner.idle_memory,
            open_memory: runner.open_memory,
            calls,
            responses,
        })?;
    }
    for runner in runners {
        drop(runner.generator);
        if let Err(e) = runner.server.end() {
            context.problem(runner.row, e)?;
        }
    }
    writer.finish(&Finished { cell: *cell, rate })?;
    Ok(context.problems)
}

/// Starts all servers, and then opens the connections to one server after the other.
fn start<'a>(context: &mut CellContext<'_>, rows: &[&'a Row]) -> Result<Vec<Runner<'a>>, String> {
    let mut runners = Vec::new();
    for &row in rows {
        match Server::start(context.place, row, &context.cell) {
            Ok(server) => runners.push(Runner { row, server, generator: None, idle_memory: 0, open_memory: 0 }),
            Err(e) => context.problem(row, e)?,
        }
    }
    for runner in &mut runners {
        runner.idle_memory = runner.server.memory();
        let warm_up = if context.cell.pattern.is_slow() { SLOW_WARM_UP } else { WARM_UP };
        match Generator::open(context.place, &runner.server.address, runner.row, &context.cell, warm_up) {
            Ok(generator) => runner.generator = Some(generator),
            Err(e) => context.problem(runner.row, e)?,
        }
        runner.open_memory = runner.server.memory();
    }
    Ok(runners)
}

/// Returns the rate of the open loop, which is the same for all servers: each could do twice as much.
fn common_rate(context: &mut CellContext<'_>, runners: &mut [Runner<'_>]) -> Result<Option<f64>, String> {
    let mut slowest: Option<f64> = None;
    for runner in runners {
        let Some((outcome, _)) = context.load(runner, TRIAL, Pace::Closed)? else { continue };
        let rate = outcome.responses as f64 / outcome.seconds.max(1e-6);
        slowest = Some(slowest.map_or(rate, |slowest| slowest.min(rate)));
    }
    Ok(slowest.map(|rate| rounded(rate * SHARE)).filter(|rate| *rate > 0.0))
}

/// Rounds to two digits, because further digits mean nothing.
fn rounded(rate: f64) -> f64 {
    let step = 10f64.powf((rate.max(1.0).log10().floor() - 1.0).max(0.0));
    (rate / step).floor() * step
}

fn line(cell: &Cell, row: &Row, round: usize, pace: Pace, outcome: &Outcome, spent: &Spent) -> Load {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Load {
        cell: cell.to_string(),
        row: row.name.to_owned(),
        round,
        rate: match pace {
            Pace::Closed => None,
            Pace::Open(rate) => Some(rate),
        },
        responses: outcome.responses,
        seconds: outcome.seconds,
        bytes: outcome.bytes,
        running: nanoseconds(spent.running),
        busiest: nanoseconds(spent.by_thread.first().copied().unwrap_or_default()),
        voluntary: spent.voluntary,
        involuntary: spent.involuntary,
        p50: outcome.p50,
        p99: outcome.p99,
        p999: outcome.p999,
        max: outcome.max,
        errors: outcome.errors,
    }
}

/// Counts the system calls during a separate load. Also returns the number of responses to that load.
fn count_calls(context: &mut CellContext<'_>, runner: &mut Runner<'_>) -> Result<(Option<u64>, u64), String> {
    if runner.generator.is_none() {
        return Ok((None, 0));
    }
    let counter = match Counter::start(&runner.server.processes(), context.place.load_cpu, &context.place.scratch) {
        Ok(counter) => counter,
        Err(e) => {
            context.problem(runner.row, e)?;
            return Ok((None, 0));
        }
    };
    let outcome = context.load(runner, COUNTED, Pace::Closed)?;
    match (counter.finish(), outcome) {
        (Ok(calls), Some((outcome, _))) => Ok((Some(calls), outcome.responses)),
        (Err(e), _) => {
            context.problem(runner.row, e)?;
            Ok((None, 0))
        }
        (_, None) => Ok((None, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn rates_have_two_digits_and_do_not_grow() {
        assert_eq!([123_456.0, 99_999.0, 1234.0, 12.7, 7.9, 0.4].map(rounded), [120_000.0, 99_000.0, 1200.0, 12.0, 7.0, 0.0]);
    }
}
