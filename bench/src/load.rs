//! One run of wrk against one server.

use crate::cell::Cell;
use crate::group::Group;
use crate::server::{Installation, Server};
use std::collections::BTreeMap;
use std::time::Duration;

/// What wrk's own start and end may add to the time it was told to run.
const MARGIN: Duration = Duration::from_secs(15);

/// What one run showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Responses received in whole.
    pub requests: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// How long it really took.
    pub duration: Duration,
    /// Half of the responses took at most this.
    pub median: Duration,
    /// 99 of 100 responses took at most this.
    pub p99: Duration,
    /// Connections that failed, reads and writes that failed, statuses outside 2xx and 3xx, responses that took above two
    /// seconds, and responses that cannot have been whole.
    pub failures: Failures,
}

/// Failures by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The connection was refused or timed out.
    pub connect: u64,
    /// The connection broke while a response was expected.
    pub read: u64,
    /// The connection broke while a request was written.
    pub write: u64,
    /// The status said so.
    pub status: u64,
    /// It took more than wrk's limit of two seconds.
    pub timeout: u64,
    /// More responses were counted than the bytes received can hold.
    pub short: u64,
}

impl Failures {
    /// All of them.
    pub fn total(self) -> u64 {
        self.connect + self.read + self.write + self.status + self.timeout + self.short
    }

    /// Adds another run's.
    pub fn add(&mut self, other: Failures) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.status += other.status;
        self.timeout += other.timeout;
        self.short += other.short;
    }

    /// The kinds that occurred, for the table.
    pub fn describe(self) -> String {
        let kinds = [
            (self.connect, "connect"),
            (self.read, "read"),
            (self.write, "write"),
            (self.status, "status"),
            (self.timeout, "slower than 2 s"),
            (self.short, "short"),
        ];
        let named: Vec<String> =
            kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
        if named.is_empty() { "0".to_owned() } else { named.join(", ") }
    }
}

/// wrk under way.
pub struct Load<'a> {
    group: Group,
    cell: &'a Cell,
    seconds: u64,
}

impl Load<'_> {
    /// Starts wrk for `seconds`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start<'a>(installation: &Installation, server: &Server, cell: &'a Cell, seconds: u64) -> Result<Load<'a>, String> {
        let mut words: Vec<String> = ["wrk", "-t1", "--latency"].map(str::to_owned).to_vec();
        words.push(format!("-c{}", cell.connections));
        words.push(format!("-d{seconds}s"));
        if cell.close {
            words.extend(["-H", "Connection: close"].map(str::to_owned));
        }
        words.push("-s".to_owned());
        words.push(installation.bench.join("wrk/cell.lua").display().to_string());
        words.push(format!("http://127.0.0.1:{}{}", server.port, cell.answer.path()));
        words.extend(["--".to_owned(), cell.depth.to_string(), cell.upload.to_string()]);
        let output = installation.scratch.join("wrk");
        Ok(Load { group: Group::start(&words, &[installation.load_cpu], &output)?, cell, seconds })
    }

    /// Waits for its end and reads the result.
    ///
    /// # Errors
    /// When wrk fails or does not end in time.
    pub fn finish(mut self) -> Result<Outcome, String> {
        self.group.finish(Duration::from_secs(self.seconds) + MARGIN).map_err(|e| format!("wrk: {e}"))?;
        let output = self.group.output();
        let line = output.lines().find_map(|line| line.strip_prefix("RESULT "));
        let mut outcome = line.and_then(parse).ok_or_else(|| format!("wrk printed no result: {}", self.group.last_words(0)))?;
        let body = self.cell.body().len() as u64;
        outcome.failures.short = outcome.requests.saturating_sub(outcome.bytes / body.max(1));
        Ok(outcome)
    }
}

/// Reads the line that `cell.lua` writes.
fn parse(line: &str) -> Option<Outcome> {
    let pairs = line.split_whitespace().map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name, value.parse::<u64>().ok()?))
    });
    let values: BTreeMap<&str, u64> = pairs.collect::<Option<_>>()?;
    let value = |name| values.get(name).copied();
    let time = |name| value(name).map(Duration::from_micros);
    Some(Outcome {
        requests: value("requests")?,
        bytes: value("bytes")?,
        duration: time("microseconds")?,
        median: time("p50")?,
        p99: time("p99")?,
        failures: Failures {
            connect: value("connect")?,
            read: value("read")?,
            write: value("write")?,
            status: value("status")?,
            timeout: value("timeout")?,
            short: 0,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "requests=7144 bytes=542944 microseconds=1001385 p50=134 p99=211 connect=1 read=2 write=3 status=4 timeout=5";

    #[test]
    fn the_line_of_the_script_is_read() {
        let outcome = parse(LINE).expect("a whole line");
        assert_eq!(outcome.requests, 7144);
        assert_eq!(outcome.p99, Duration::from_micros(211));
        assert_eq!(outcome.failures.total(), 15);
        assert_eq!(outcome.failures.describe(), "1 connect, 2 read, 3 write, 4 status, 5 slower than 2 s");
        assert_eq!(Failures::default().describe(), "0");
    }

    #[test]
    fn half_a_line_is_no_result() {
        assert_eq!(parse(&LINE[..LINE.len() - 12]), None);
        assert_eq!(parse("requests=many"), None);
    }
}
