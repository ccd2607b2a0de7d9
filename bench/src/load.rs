//! One run of a load generator against one server: wrk, h2load in the cells of HTTP/2, or openssl where sessions of TLS are resumed.

use crate::cell::{Cell, Encryption};
use crate::group::Group;
use crate::server::{Installation, Server};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time that wrk's own start and end may add to the time of its run.
const MARGIN: Duration = Duration::from_secs(15);

/// The results of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Responses received in whole.
    pub requests: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// The real duration of the load.
    pub duration: Duration,
    /// The time within which half of the responses arrived; `None` with h2load, which does not print it.
    pub median: Option<Duration>,
    /// The time within which 99 of 100 responses arrived.
    pub p99: Option<Duration>,
    /// Failures: of connections, reads and writes; statuses outside 2xx and 3xx; responses that took longer than two seconds;
    /// and responses that cannot have been complete.
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
    /// The status was that of an error.
    pub status: u64,
    /// The response took more than wrk's limit of two seconds.
    pub timeout: u64,
    /// There were more responses than fit into the received bytes.
    pub short: u64,
}

impl Failures {
    /// All of them.
    pub fn total(self) -> u64 {
        self.connect + self.read + self.write + self.status + self.timeout + self.short
    }

    /// Adds the failures of another run.
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

/// A load generator under way.
pub struct Load<'a> {
    group: Group,
    cell: &'a Cell,
    seconds: u64,
}

impl Load<'_> {
    /// Starts a load generator for `seconds`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<'a>(installation: &Installation, server: &Server, cell: &'a Cell, seconds: u64) -> Result<Load<'a>, String> {
        let scheme = if cell.encryption == Encryption::None { "http" } else { "https" };
        let url = format!("{scheme}://127.0.0.1:{}{}", server.port, cell.answer.path());
        let output = installation.scratch.join("load");
        let start = |words: &[String]| Group::start(words, &[installation.load_cpu], &output);
        if cell.streams > 0 {
            let (connections, streams, time) =
                (format!("-c{}", cell.connections), format!("-m{}", cell.streams), format!("-D{seconds}"));
            let words = ["h2load", "-t1", &connections, &streams, &time, &url].map(str::to_owned);
            return Ok(Load { group: start(&words)?, cell, seconds });
        }
        if cell.encryption == Encryption::Resumed {
            let (address, time) = (format!("127.0.0.1:{}", server.port), seconds.to_string());
            let words =
                ["openssl", "s_time", "-reuse", "-tls1_3", "-connect", &address, "-www", cell.answer.path(), "-time", &time];
            return Ok(Load { group: start(&words.map(str::to_owned))?, cell, seconds });
        }
        let mut words: Vec<String> = ["wrk", "-t1", "--latency"].map(str::to_owned).to_vec();
        words.push(format!("-c{}", cell.connections));
        words.push(format!("-d{seconds}s"));
        if cell.close {
            words.extend(["-H", "Connection: close"].map(str::to_owned));
        }
        words.push("-s".to_owned());
        words.push(installation.bench.join("wrk/cell.lua").display().to_string());
        words.push(url);
        words.extend(["--".to_owned(), cell.depth.to_string(), cell.upload.to_string()]);
        Ok(Load { group: start(&words)?, cell, seconds })
    }

    /// Waits until the load generator ends, and returns its result.
    ///
    /// # Errors
    /// The load generator fails, or does not end in time.
    pub fn finish(mut self) -> Result<Outcome, String> {
        self.group.finish(Duration::from_secs(self.seconds) + MARGIN).map_err(|e| format!("load: {e}"))?;
        let output = self.group.output();
        if self.cell.streams > 0 {
            let outcome = parse_h2load(&output, self.cell.body().len() as u64);
            return outcome.ok_or_else(|| format!("h2load printed no result: {}", self.group.last_words(0)));
        }
        if self.cell.encryption == Encryption::Resumed {
            let outcome = parse_s_time(&output, self.cell.body().len() as u64);
            return outcome.ok_or_else(|| format!("openssl printed no result: {}", self.group.last_words(0)));
        }
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
        median: Some(time("p50")?),
        p99: Some(time("p99")?),
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

/// Reads the last lines of the output of h2load. h2load prints failures without their kinds, so all of them count as failed
/// reads.
fn parse_h2load(output: &str, body: u64) -> Option<Outcome> {
    let line = |start| output.lines().find_map(|line| line.strip_prefix(start));
    let before = |text: &str, word: &str| {
        let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let place = words.iter().position(|other| *other == word)?;
        words.get(place.checked_sub(1)?)?.trim_matches(['(', ')']).parse::<u64>().ok()
    };
    let (requests, statuses, traffic) = (line("requests: ")?, line("status codes: ")?, line("traffic: ")?);
    let number = |word| before(requests, word);
    let succeeded = number("succeeded")?;
    let bytes_in = |word| before(traffic, word);
    let seconds: f64 = line("finished in ")?.split_once("s,")?.0.parse().ok()?;
    let failures = Failures {
        read: number("failed")?,
        status: ["3xx", "4xx", "5xx"].into_iter().try_fold(0, |sum, word| Some(sum + before(statuses, word)?))?,
        timeout: number("timeout")?,
        short: succeeded.saturating_sub(bytes_in("data")? / body.max(1)),
        ..Failures::default()
    };
    let (requests, bytes) = (succeeded, bytes_in("total")?);
    Some(Outcome { requests, bytes, duration: Duration::from_secs_f64(seconds), median: None, p99: None, failures })
}

/// Reads the output of `openssl s_time -reuse`: a letter for each connection, `r` if its session was resumed, and two lines
/// with counts. A connection whose session was not resumed counts as failed.
fn parse_s_time(output: &str, body: u64) -> Option<Outcome> {
    let letters = output.split_once("starting\n")?.1.lines().next()?;
    let line = output.lines().find(|line| line.contains(" real seconds, "))?;
    let (requests, rest) = line.split_once(" connections in ")?;
    let (seconds, rest) = rest.split_once(" real seconds, ")?;
    let requests: u64 = requests.trim().parse().ok()?;
    let each: u64 = rest.split_once(" bytes read per connection")?.0.parse().ok()?;
    let resumed = letters.bytes().filter(|letter| *letter == b'r').count() as u64;
    let failures = Failures {
        connect: requests.saturating_sub(resumed),
        short: if each < body { requests } else { 0 },
        ..Failures::default()
    };
    let duration = Duration::from_secs(seconds.parse().ok()?);
    Some(Outcome { requests, bytes: requests * each, duration, median: None, p99: None, failures })
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
        assert_eq!(outcome.p99, Some(Duration::from_micros(211)));
        assert_eq!(outcome.failures.total(), 15);
        assert_eq!(outcome.failures.describe(), "1 connect, 2 read, 3 write, 4 status, 5 slower than 2 s");
        assert_eq!(Failures::default().describe(), "0");
    }

    const H2LOAD: &str = "\
finished in 1.02s, 25191.00 req/s, 1.88MB/s
requests: 25191 total, 25831 started, 25191 done, 25190 succeeded, 1 failed, 1 errored, 2 timeout
status codes: 25188 2xx, 0 3xx, 1 4xx, 1 5xx
traffic: 1.88MB (1968092) total, 1.18MB (1234408) headers (space savings 50.51%), 270.61KB (277013) data
";

    #[test]
    fn what_h2load_prints_is_read() {
        let outcome = parse_h2load(H2LOAD, 11).expect("a result");
        assert_eq!((outcome.requests, outcome.bytes, outcome.duration.as_millis()), (25190, 1_968_092, 1020));
        assert_eq!(outcome.failures.describe(), "1 read, 2 status, 2 slower than 2 s, 7 short");
        assert_eq!(parse_h2load(&H2LOAD[..200], 11), None);
    }

    const S_TIME: &str = "\
Collecting connection statistics for 2 seconds


Now timing with session id reuse.
starting
rrr*

4 connections in 0.14s; 9264.29 connections/user sec, bytes read 968
4 connections in 3 real seconds, 242 bytes read per connection
";

    #[test]
    fn what_openssl_prints_is_read() {
        let outcome = parse_s_time(S_TIME, 11).expect("a result");
        assert_eq!((outcome.requests, outcome.bytes, outcome.duration.as_secs()), (4, 968, 3));
        assert_eq!(outcome.failures.describe(), "1 connect");
        assert_eq!(parse_s_time(S_TIME, 300).map(|outcome| outcome.failures.short), Some(4));
        assert_eq!(parse_s_time(&S_TIME[..100], 11), None);
    }

    #[test]
    fn half_a_line_is_no_result() {
        assert_eq!(parse(&LINE[..LINE.len() - 12]), None);
        assert_eq!(parse("requests=many"), None);
    }
}
