//! The clients of a course: kept connections, some of which are busy while most wait; short connections; and connections of
//! HTTP/2 with several requests at once.

use crate::load::{self, Load, Manner, Opened, Plan, Question};
use crate::streams;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// The number of kept connections that mostly have an open request.
const BUSY: usize = 12;

/// The number of kept connections that are mostly idle: each has a request about twice a second.
const QUIET: usize = 24;

/// The number of short connections, each for one request, that are open at the same time.
const SHORT: usize = 4;

pub struct Clients {
    loads: Vec<(&'static str, Load)>,
}

/// Their common results.
#[derive(Debug, Default)]
pub struct Found {
    pub answers: usize,
    /// The time that the slowest 1 % of the answers on busy connections took at least.
    pub slow: Duration,
    /// Connections that the server has announced to end.
    pub parted: usize,
    /// Connections that the server has closed without announcing it.
    pub closed: usize,
    pub faults: Vec<String>,
}

/// Returns a request for one of all kinds of answers: short, long, longer than a complete answer may be in shared memory, in
/// pieces, and late. Others have content that fits beside the request, or that does not fit.
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

/// Returns a request that may be sent to another worker if its worker dies (`--retry-lost`).
pub fn repeatable(number: u64) -> Question {
    match number % 16 {
        1 => Question::nap(number, 0.03),
        3 => Question::big(number, 60_000),
        _ => Question::fast(number),
    }
}

impl Clients {
    /// Connects all clients, and returns when each kept connection has an answer. `streams` says how connections with several
    /// requests at once may end.
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

    /// Returns the ids of the workers that have answered since the last call.
    pub fn workers(&self) -> BTreeSet<u32> {
        self.loads.iter().flat_map(|(_, load)| load.workers()).collect()
    }

    /// Stops the clients, waits for the answers to open requests, and returns the results.
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
