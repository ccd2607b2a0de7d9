//! The clients of a course: kept connections of which some are busy and most wait, short ones, and some with several requests at
//! once (HTTP/2).

use crate::load::{self, Load, Manner, Opened, Plan, Question};
use crate::streams;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Kept connections that have mostly a request under way.
const BUSY: usize = 12;

/// Kept connections that mostly wait: each has a request about twice a second.
const QUIET: usize = 24;

/// Connections for one request each, at a time.
const SHORT: usize = 4;

pub struct Clients {
    loads: Vec<(&'static str, Load)>,
}

/// Their common results.
#[derive(Debug, Default)]
pub struct Found {
    pub answers: usize,
    /// The longest 1 % of the answers on busy connections took at least so long.
    pub slow: Duration,
    /// Connections that the server has announced to end.
    pub parted: usize,
    /// Connections that it has closed otherwise.
    pub closed: usize,
    pub faults: Vec<String>,
}

/// Every kind of answer: short, long, longer than a whole answer may be in shared memory, in pieces, late, and those to content that
/// fits beside a request and that does not.
pub fn anything(number: u64) -> Question {
    match number % 16 {
        1 => Question::nap(number, 0.03),
        3 => Question::big(number, 60_000),
        5 => Question::stream(number, 20_000),
        7 => Question::upload(number, 500),
        9 => Question::upload(number, 40_000),
        11 if number % 64 == 11 => Question::big(number, 400_000),
        _ => Question::fast(number),
    }
}

/// Requests that another worker may get if one dies (`--retry-lost`).
pub fn repeatable(number: u64) -> Question {
    match number % 16 {
        1 => Question::nap(number, 0.03),
        3 => Question::big(number, 60_000),
        _ => Question::fast(number),
    }
}

impl Clients {
    /// Connects, and returns when each kept connection has an answer. `streams`: what may become of connections with several requests
    /// at once.
    pub fn start(address: SocketAddr, kept: Manner, streams: Manner, question: fn(u64) -> Question) -> Self {
        let begin = |connections, manner, pace| {
            let plan = Plan { connections, pace: Some(Duration::from_micros(pace)), requests: None, question };
            Opened::new(address, connections).behave(manner).begin(plan)
        };
        let mut loads = vec![
            ("busy connections", begin(BUSY, kept, 4_000)),
            ("quiet connections", begin(QUIET, kept, 20_000)),
            ("short connections", begin(SHORT, Manner::Short, 20_000)),
        ];
        loads.extend(streams::start(address, streams, question).into_iter().map(|load| ("streams", load)));
        Self { loads }
    }

    /// The number of faults so far.
    pub fn faults(&self) -> usize {
        self.loads.iter().map(|(_, load)| load.faults()).sum()
    }

    /// The number of answers so far, of the load that has the fewest.
    pub fn fewest_answers(&self) -> usize {
        self.loads.iter().map(|(_, load)| load.answered()).min().unwrap_or(0)
    }

    /// The workers that have answered since this was asked last.
    pub fn workers(&self) -> BTreeSet<u32> {
        self.loads.iter().flat_map(|(_, load)| load.workers()).collect()
    }

    /// Waits for the answers to the requests under way.
    pub fn stop(self) -> Found {
        let mut found = Found::default();
        for (name, load) in self.loads {
            let load::Report { statuses, parted, closed, faults, .. } = found.take(load.stop());
            found.parted += parted;
            found.closed += closed;
            let others: Vec<_> = statuses.iter().filter(|(status, _)| **status != 200).collect();
            if !others.is_empty() {
                found.faults.push(format!("{name}: statuses and how often: {others:?}"));
            }
            found.faults.extend(faults.into_iter().map(|fault| format!("{name}: {fault}")));
        }
        found
    }
}

impl Found {
    fn take(&mut self, report: load::Report) -> load::Report {
        if self.answers == 0 {
            self.slow = report.percentile(99);
        }
        self.answers += report.answers();
        report
    }
}
