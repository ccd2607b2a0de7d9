//! The load generator: started once for each server of a cell, so that its connections stay open from round to round.

use crate::cells::{Cell, Pattern, READER, SENDER};
use crate::rows::Row;
use crate::server::StudyEnvironment;
use oribi_bench::group::Group;
use oribi_bench::interrupt;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The time that opening all connections may take, and the time that a load may take in addition to its duration.
const PATIENCE: Duration = Duration::from_secs(60);

/// The addresses of clients in the cells that need several.
const SOURCES: usize = 32;

/// The pace of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each connection asks again as soon as it was answered: the peak.
    Closed,
    /// This number of requests is due each second, however long the answers take.
    Open(f64),
}

/// The results of one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Answers that were whole and right.
    pub responses: u64,
    /// The time from the start to the last answer, in seconds.
    pub seconds: f64,
    /// Bytes received.
    pub bytes: u64,
    /// The time within which half of the answers arrived, in microseconds from when the request was due.
    pub p50: f64,
    /// The same for 99 of 100 answers.
    pub p99: f64,
    /// The same for 999 of 1000 answers.
    pub p999: f64,
    /// The same for all answers.
    pub max: f64,
    /// Requests that went wrong, and idle connections that were lost.
    pub errors: u64,
    /// The kinds of errors that occurred, for people.
    pub kinds: String,
}

/// A load generator with all its connections.
pub struct Generator {
    group: Group,
    input: ChildStdin,
    lines: Receiver<String>,
    /// The number of errors that were already reported; the generator counts errors from its start.
    told: u64,
}

impl Generator {
    /// Opens the connections of a cell to a server, and warms the server up.
    ///
    /// # Errors
    /// That does not succeed; the error has the first faults.
    pub fn open(place: &StudyEnvironment, address: &str, row: &Row, cell: &Cell, warm_up: f64) -> Result<Generator, String> {
        let pattern = if cell.pattern.is_slow() { Pattern::KeepAlive } else { cell.pattern };
        let mut words = vec![place.load.display().to_string()];
        let mut give = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        give("address", address.to_owned());
        give("pattern", pattern.name().to_owned());
        give("connections", cell.connections.to_string());
        give("active", cell.active.to_string());
        give("path", row.path.to_owned());
        give("body", cell.body.to_string());
        give("warm-up", warm_up.to_string());
        match cell.pattern {
            Pattern::SlowReaders => give("reader", READER.to_string()),
            Pattern::SlowSenders => give("sender", SENDER.to_string()),
            _ => {}
        }
        if cell.needs_sources() {
            give("sources", SOURCES.to_string());
        }
        let output = place.scratch.join(format!("load-{}", row.name));
        let (group, input, answers) = Group::converse(&words, &[place.load_cpu], &output)?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut generator = Generator { group, input, lines, told: 0 };
        match generator.next_line(PATIENCE)?.as_str() {
            "ready" => Ok(generator),
            line => Err(format!("the load generator said {line:?}")),
        }
    }

    /// Loads the server for `seconds`.
    ///
    /// # Errors
    /// The generator breaks down. Faults of the server are a part of the outcome.
    pub fn load(&mut self, seconds: f64, pace: Pace) -> Result<Outcome, String> {
        let order = match pace {
            Pace::Closed => format!("{seconds}\n"),
            Pace::Open(rate) => format!("{seconds} {rate}\n"),
        };
        self.input.write_all(order.as_bytes()).map_err(|e| format!("the load generator is gone: {e}"))?;
        let line = self.next_line(Duration::from_secs_f64(seconds) + PATIENCE)?;
        let (mut outcome, errors) = parse(&line).ok_or_else(|| format!("the load generator said {line:?}"))?;
        outcome.errors = errors - self.told.min(errors);
        self.told = errors;
        if outcome.errors > 0 {
            outcome.kinds = format!("{} ({})", outcome.kinds, self.group.last_words(0));
        }
        Ok(outcome)
    }

    fn next_line(&mut self, patience: Duration) -> Result<String, String> {
        let end = Instant::now() + patience;
        loop {
            interrupt::check()?;
            match self.lines.recv_timeout(interrupt::STEP) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
                Err(RecvTimeoutError::Timeout) => return Err(format!("no answer after {} s", patience.as_secs())),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the load generator gave up: {}", self.group.last_words(0)));
                }
            }
        }
    }
}

/// Parses an outcome. Also returns the number of errors since the start of the program.
fn parse(line: &str) -> Option<(Outcome, u64)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let (count, figure) = (|key: &str| value[key].as_u64(), |key: &str| value[key].as_f64());
    let kinds: Vec<(String, u64)> = value["errors"]
        .as_object()?
        .iter()
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(u64::MAX)))
        .chain([("idle connections lost".to_owned(), count("idle_lost")?)])
        .filter(|(_, count)| *count > 0)
        .collect();
    let outcome = Outcome {
        responses: count("responses")?,
        seconds: figure("seconds")?,
        bytes: count("bytes")?,
        p50: figure("p50_us")?,
        p99: figure("p99_us")?,
        p999: figure("p999_us")?,
        max: figure("max_us")?,
        errors: 0,
        kinds: kinds.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(" "),
    };
    Some((outcome, kinds.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"responses":10,"requests":12,"seconds":0.5,"bytes":700,"errors":{"connect":0,"broken":2,"short":0,
        "status":0,"mismatch":0,"timeout":0},"p50_us":1.5,"p99_us":2,"p999_us":3.0,"max_us":4.0,"connections_open":3,"idle_lost":1}"#;

    #[test]
    fn an_outcome_is_read() {
        let (outcome, errors) = parse(LINE).expect("a whole line");
        assert_eq!((outcome.responses, outcome.p50, outcome.p99, errors), (10, 1.5, 2.0, 3));
        assert_eq!(outcome.kinds, "2 broken 1 idle connections lost");
        assert_eq!(parse(&LINE.replace("\"bytes\"", "\"bits\"")), None);
        assert_eq!(parse("ready"), None);
    }
}
