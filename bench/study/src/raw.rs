//! The raw results: lines of text that are appended to files at once, so that nothing is lost if the study is interrupted. The
//! report can be made from them without measuring again.

use crate::cells::{Cell, Pattern, StudyQuestion, Transport};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// One load of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The cell's name.
    pub cell: String,
    /// The row's name.
    pub row: String,
    /// From 1 on.
    pub round: usize,
    /// Requests a second that were due; none in a closed loop.
    pub rate: Option<f64>,
    /// Answers that were whole and right.
    pub responses: u64,
    /// The time from the start to the last of these answers, in seconds.
    pub seconds: f64,
    /// Bytes received.
    pub bytes: u64,
    /// Nanoseconds that the server's threads were running.
    pub running: u64,
    /// Nanoseconds that the busiest of these threads was running.
    pub busiest: u64,
    /// Context switches of the server's threads because they waited.
    pub voluntary: u64,
    /// Context switches because another thread's turn had come.
    pub involuntary: u64,
    /// The time within which half of the answers arrived, in microseconds.
    pub p50: f64,
    /// The same for 99 of 100 answers.
    pub p99: f64,
    /// The same for 999 of 1000 answers.
    pub p999: f64,
    /// The same for all answers.
    pub max: f64,
    /// Requests that went wrong.
    pub errors: u64,
}

/// Facts about a server in a cell that are measured once.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The cell's name.
    pub cell: String,
    /// The row's name.
    pub row: String,
    /// User memory of the server with no connection, in KiB.
    pub idle_memory: u64,
    /// User memory with all connections open and used, in KiB.
    pub open_memory: u64,
    /// System calls for the responses below; none if they could not be counted.
    pub calls: Option<u64>,
    /// The number of responses while system calls were counted.
    pub responses: u64,
}

/// A cell that was measured to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The cell.
    pub cell: Cell,
    /// Requests a second in the open loop; none where there was none.
    pub rate: Option<f64>,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The cell's name.
    pub cell: String,
    /// The row's name.
    pub row: String,
    /// What, in one line.
    pub what: String,
}

/// A program that took part, or was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The row's name.
    pub row: String,
    /// `own`, `floor` or `peer`.
    pub family: String,
    /// Its name in tables.
    pub title: String,
    /// Its version, or why it is missing.
    pub version: String,
    /// Whether it is there.
    pub found: bool,
    /// Its command line with its placeholders.
    pub command: String,
}

/// A cell, or a row of a cell, that is not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The cell's name.
    pub cell: String,
    /// The row's name; none for the whole cell.
    pub row: Option<String>,
    /// Why.
    pub reason: String,
}

/// Everything in a directory of raw results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw {
    /// Names and values about the machine and the plan.
    pub facts: Vec<(String, String)>,
    /// The rows, in the order of the tables.
    pub programs: Vec<Program>,
    /// The cells that are whole.
    pub finished: Vec<Finished>,
    /// All loads of these cells.
    pub loads: Vec<Load>,
    /// The counts in them.
    pub counts: Vec<Count>,
    /// The faults in them.
    pub problems: Vec<Problem>,
    /// The missing results.
    pub left_out: Vec<LeftOut>,
}

const LOADS: (&str, &str) = (
    "loads.csv",
    "cell,row,round,rate,responses,seconds,bytes,running_ns,busiest_ns,voluntary,involuntary,p50_us,p99_us,p999_us,max_us,errors",
);
const COUNTS: (&str, &str) = ("counts.csv", "cell,row,idle_kib,open_kib,system_calls,responses");
const CELLS: (&str, &str) = ("cells.csv", "cell,lanes,cpus,pattern,connections,active,body,transport,rate");
const PROBLEMS: (&str, &str) = ("problems.csv", "cell,row,what");
const PROGRAMS: (&str, &str) = ("programs.csv", "row,family,found,title,version,command");
const LEFT_OUT: (&str, &str) = ("left-out.csv", "cell,row,reason");
const FACTS: (&str, &str) = ("facts.csv", "name,value");

/// Replaces commas and line ends in free text, because fields of these files have no quotes.
fn field(text: &str) -> String {
    text.replace(',', ";").replace(['\n', '\r'], " ")
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

impl Load {
    fn line(&self) -> String {
        let Load { cell, row, round, responses, seconds, bytes, running, busiest, voluntary, involuntary, errors, .. } = self;
        format!(
            "{cell},{row},{round},{},{responses},{seconds:.6},{bytes},{running},{busiest},{voluntary},{involuntary},{:.1},{:.1},{:.1},{:.1},{errors}",
            optional(self.rate),
            self.p50,
            self.p99,
            self.p999,
            self.max
        )
    }

    fn parse(line: &str) -> Option<Load> {
        let fields: Vec<&str> = line.split(',').collect();
        let [
            cell,
            row,
            round,
            rate,
            responses,
            seconds,
            bytes,
            running,
            busiest,
            voluntary,
            involuntary,
            p50,
            p99,
            p999,
            max,
            errors,
        ] = fields[..]
        else {
            return None;
        };
        Some(Load {
            cell: cell.to_owned(),
            row: row.to_owned(),
            round: round.parse().ok()?,
            rate: if rate.is_empty() { None } else { Some(rate.parse().ok()?) },
            responses: responses.parse().ok()?,
            seconds: seconds.parse().ok()?,
            bytes: bytes.parse().ok()?,
            running: running.parse().ok()?,
            busiest: busiest.parse().ok()?,
            voluntary: voluntary.parse().ok()?,
            involuntary: involuntary.parse().ok()?,
            p50: p50.parse().ok()?,
            p99: p99.parse().ok()?,
            p999: p999.parse().ok()?,
            max: max.parse().ok()?,
            errors: errors.parse().ok()?,
        })
    }
}

impl Count {
    fn line(&self) -> String {
        let Count { cell, row, idle_memory, open_memory, responses, .. } = self;
        format!("{cell},{row},{idle_memory},{open_memory},{},{responses}", optional(self.calls))
    }

    fn parse(line: &str) -> Option<Count> {
        let fields: Vec<&str> = line.split(',').collect();
        let [cell, row, idle, open, calls, responses] = fields[..] else { return None };
        Some(Count {
            cell: cell.to_owned(),
            row: row.to_owned(),
            idle_memory: idle.parse().ok()?,
            open_memory: open.parse().ok()?,
            calls: if calls.is_empty() { None } else { Some(calls.parse().ok()?) },
            responses: responses.parse().ok()?,
        })
    }
}

impl Finished {
    fn line(&self) -> String {
        let Cell { part, pattern, connections, active, body, transport } = self.cell;
        let (lanes, cpus) = match part {
            StudyQuestion::Io => (1, 0),
            StudyQuestion::Network { lanes, cpus } => (lanes, cpus),
        };
        let (pattern, transport, rate) = (pattern.name(), transport.name(), optional(self.rate));
        format!("{},{lanes},{cpus},{pattern},{connections},{active},{body},{transport},{rate}", self.cell)
    }

    fn parse(line: &str) -> Option<Finished> {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, lanes, cpus, pattern, connections, active, body, transport, rate] = fields[..] else { return None };
        let cell = Cell {
            part: match cpus.parse().ok()? {
                0 => StudyQuestion::Io,
                cpus => StudyQuestion::Network { lanes: lanes.parse().ok()?, cpus },
            },
            pattern: Pattern::parse(pattern)?,
            connections: connections.parse().ok()?,
            active: active.parse().ok()?,
            body: body.parse().ok()?,
            transport: Transport::parse(transport)?,
        };
        Some(Finished { cell, rate: if rate.is_empty() { None } else { Some(rate.parse().ok()?) } })
    }
}

impl Problem {
    fn parse(line: &str) -> Option<Problem> {
        let mut fields = line.splitn(3, ',').map(str::to_owned);
        Some(Problem { cell: fields.next()?, row: fields.next()?, what: fields.next()? })
    }
}

impl LeftOut {
    fn line(&self) -> String {
        format!("{},{},{}", self.cell, self.row.as_deref().unwrap_or_default(), field(&self.reason))
    }

    fn parse(line: &str) -> Option<LeftOut> {
        let mut fields = line.splitn(3, ',').map(str::to_owned);
        let (cell, row) = (fields.next()?, fields.next()?);
        Some(LeftOut { cell, row: (!row.is_empty()).then_some(row), reason: fields.next()? })
    }
}

impl Program {
    fn line(&self) -> String {
        let Program { row, family, title, version, found, command } = self;
        format!("{row},{family},{found},{},{},{}", field(title), field(version), field(command))
    }

    fn parse(line: &str) -> Option<Program> {
        let mut fields = line.splitn(6, ',').map(str::to_owned);
        let mut next = || fields.next();
        let (row, family, found) = (next()?, next()?, next()? == "true");
        Some(Program { row, family, found, title: next()?.replace(';', ","), version: next()?, command: next()? })
    }
}

/// Reads the lines of a file after its heading; returns no lines if there is no file.
fn lines<T>(directory: &Path, (name, heading): (&str, &str), parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    let path = directory.join(name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut lines = text.lines();
    if lines.next() != Some(heading) {
        return Err(format!("{}: another heading than {heading}", path.display()));
    }
    lines.map(|line| parse(line).ok_or_else(|| format!("{}: cannot read {line:?}", path.display()))).collect()
}

impl Raw {
    /// Returns the number of rounds of the cell with the fewest; some cells have more (see [`crate::rounds::Plan::rounds_of`]).
    pub fn rounds(&self) -> usize {
        let of = |cell: String| self.loads.iter().filter(|load| load.cell == cell).map(|load| load.round).max().unwrap_or(0);
        self.finished.iter().map(|finished| of(finished.cell.to_string())).min().unwrap_or(0)
    }

    /// Reads a directory. Results of cells that were not measured completely are left out.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn read(directory: &Path) -> Result<Raw, String> {
        let finished = lines(directory, CELLS, Finished::parse)?;
        let whole: BTreeSet<String> = finished.iter().map(|finished| finished.cell.to_string()).collect();
        let mut raw = Raw {
            facts: lines(directory, FACTS, |line| {
                let (name, value) = line.split_once(',')?;
                Some((name.to_owned(), value.to_owned()))
            })?,
            programs: lines(directory, PROGRAMS, Program::parse)?,
            finished,
            loads: lines(directory, LOADS, Load::parse)?,
            counts: lines(directory, COUNTS, Count::parse)?,
            problems: lines(directory, PROBLEMS, Problem::parse)?,
            left_out: lines(directory, LEFT_OUT, LeftOut::parse)?,
        };
        raw.loads.retain(|load| whole.contains(&load.cell));
        raw.counts.retain(|count| whole.contains(&count.cell));
        raw.problems.retain(|problem| whole.contains(&problem.cell));
        Ok(raw)
    }

    /// Whether a cell is whole.
    pub fn has(&self, cell: &Cell) -> bool {
        self.finished.iter().any(|finished| finished.cell == *cell)
    }
}

/// Raw results that are being written.
pub struct Writer {
    directory: PathBuf,
}

impl Writer {
    /// Writes exactly the results `known` into a directory; further results are appended to them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(directory: &Path, known: &Raw) -> Result<Writer, String> {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let writer = Writer { directory: directory.to_owned() };
        let facts = known.facts.iter().map(|(name, value)| format!("{},{}", field(name), field(value)));
        writer.begin(FACTS, facts)?;
        writer.begin(PROGRAMS, known.programs.iter().map(Program::line))?;
        writer.begin(LEFT_OUT, known.left_out.iter().map(LeftOut::line))?;
        writer.begin(CELLS, known.finished.iter().map(Finished::line))?;
        writer.begin(LOADS, known.loads.iter().map(Load::line))?;
        writer.begin(COUNTS, known.counts.iter().map(Count::line))?;
        let problems = known.problems.iter().map(|Problem { cell, row, what }| format!("{cell},{row},{}", field(what)));
        writer.begin(PROBLEMS, problems)?;
        Ok(writer)
    }

    fn begin(&self, (name, heading): (&str, &str), lines: impl Iterator<Item = String>) -> Result<(), String> {
        let path = self.directory.join(name);
        let text = std::iter::once(heading.to_owned()).chain(lines).map(|line| line + "\n").collect::<String>();
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn append(&self, (name, _): (&str, &str), line: &str) -> Result<(), String> {
        let path = self.directory.join(name);
        let told = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut file: File = OpenOptions::new().append(true).open(&path).map_err(told)?;
        file.write_all(format!("{line}\n").as_bytes()).map_err(told)
    }

    /// Appends a load.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn load(&self, load: &Load) -> Result<(), String> {
        self.append(LOADS, &load.line())
    }

    /// Appends the counts of a server in a cell.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn count(&self, count: &Count) -> Result<(), String> {
        self.append(COUNTS, &count.line())
    }

    /// Appends a problem.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn problem(&self, Problem { cell, row, what }: &Problem) -> Result<(), String> {
        self.append(PROBLEMS, &format!("{cell},{row},{}", field(what)))
    }

    /// Records that a cell was measured to its end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, finished: &Finished) -> Result<(), String> {
        self.append(CELLS, &finished.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cell: &Cell, rate: Option<f64>) -> Load {
        Load {
            cell: cell.to_string(),
            row: "epoll".to_owned(),
            round: 3,
            rate,
            responses: 1000,
            seconds: 0.25,
            bytes: 70_000,
            running: 12_345_678,
            busiest: 12_000_000,
            voluntary: 7,
            involuntary: 1,
            p50: 10.5,
            p99: 20.0,
            p999: 30.1,
            max: 99.9,
            errors: 0,
        }
    }

    #[test]
    fn what_is_written_is_read_and_half_a_cell_is_forgotten() {
        let cells = crate::cells::all().0;
        let (whole, half) = (cells[0], cells[1]);
        let mut expected = Raw {
            facts: vec![("CPU".to_owned(), "a; b".to_owned())],
            programs: vec![Program {
                row: "epoll".to_owned(),
                family: "own".to_owned(),
                title: "Oribi, epoll".to_owned(),
                version: "1".to_owned(),
                found: true,
                command: "oribi --workers 1".to_owned(),
            }],
            left_out: vec![LeftOut { cell: half.to_string(), row: None, reason: "too much".to_owned() }],
            ..Raw::default()
        };
        let directory = std::env::temp_dir().join(format!("oribi-study-{}-raw", std::process::id()));
        let writer = Writer::new(&directory, &expected).expect("written");
        expected.loads = vec![load(&whole, None), load(&whole, Some(1500.0))];
        expected.loads.iter().for_each(|load| writer.load(load).expect("written"));
        let count = Count {
            cell: whole.to_string(),
            row: "epoll".to_owned(),
            idle_memory: 10,
            open_memory: 20,
            calls: None,
            responses: 5,
        };
        writer.count(&count).expect("written");
        expected.counts = vec![count];
        let what = "two, three".to_owned();
        writer.problem(&Problem { cell: whole.to_string(), row: "epoll".to_owned(), what }).expect("written");
        let what = "two; three".to_owned();
        expected.problems = vec![Problem { cell: whole.to_string(), row: "epoll".to_owned(), what }];
        expected.finished = vec![Finished { cell: whole, rate: Some(1500.0) }];
        writer.finish(&expected.finished[0]).expect("written");
        writer.load(&load(&half, None)).expect("written");
        assert_eq!(Raw::read(&directory).expect("read"), expected);
        Writer::new(&directory, &expected).expect("written");
        assert_eq!(Raw::read(&directory).expect("read"), expected);
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn every_cell_is_written_as_it_is() {
        for cell in crate::cells::all().0 {
            let finished = Finished { cell, rate: None };
            assert_eq!(Finished::parse(&finished.line()), Some(finished));
        }
    }
}
