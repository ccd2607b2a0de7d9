//! The state of a server as its first process knows it. Answers to clients and metrics are made from it.

use oribi_control_api as api;
use oribi_control_api::{AppState, Bucket, Certificate, CounterValue, Counters, Generation, Process, Seconds, Status};
use oribi_stats::scoreboard::{Connections, Row};
use oribi_stats::totals::{COUNTER_ROWS, Counter, CounterRow, Counts, Histogram, RequestPhase, Times, Unit};
use std::time::Duration;

/// The state of the server.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the app.
    pub app: String,
    /// `loading`, `serving`, `draining`, `stopping`.
    pub state: &'static str,
    /// The time since the first process started.
    pub uptime: Duration,
    /// The addresses of the listeners.
    pub addresses: Vec<String>,
    /// The loads of the app, one for each generation. Empty without a master.
    pub generations: Vec<Generation>,
    /// The apps that have names.
    pub apps: Vec<AppState>,
    /// The number of edges.
    pub edges: usize,
    /// The target number of workers.
    pub workers: usize,
    /// The number of threads of each worker.
    pub threads: usize,
    /// The connections of clients, by state and protocol.
    pub connections: Connections,
    /// The names of the certificates that listeners offer, and their expiry in seconds since 1970.
    pub certificates: Vec<(String, u64)>,
    /// The counters, and the time since they began at zero.
    pub counted: (Counts, Duration),
}

/// A worker or an edge.
#[derive(Clone, Debug)]
pub struct ProcessReport {
    /// `worker` or `edge`.
    pub kind: &'static str,
    /// The app of the worker; `None` for an edge, and if the app has no name.
    pub app: Option<String>,
    /// The generation of the worker; `None` for an edge and without a master.
    pub generation: Option<u64>,
    /// The row of the process on the scoreboard.
    pub row: Row,
}

impl ProcessReport {
    /// Returns the process as clients see it.
    pub(super) fn process(&self) -> Process {
        let Self { kind, app, generation, row } = self;
        Process {
            kind: (*kind).into(),
            app: app.clone(),
            number: row.number,
            pid: row.pid,
            generation: *generation,
            state: row.state.into(),
            age: row.age.into(),
            connections: row.connections,
            requests: row.requests,
        }
    }
}

impl Report {
    /// Returns the state as clients see it.
    pub(super) fn status(self) -> Status {
        let (counts, age) = &self.counted;
        let certificate = |(name, expires)| Certificate { name, expires };
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            state: self.state.into(),
            uptime: self.uptime.into(),
            edges: self.edges,
            workers: self.workers,
            threads: self.threads,
            connections: connections(&self.connections),
            requests: counts.responses(),
            workers_started: counts.of(Counter::WorkersStarted),
            workers_failed: counts.of(Counter::WorkersFailed),
            counters: counters(counts, *age),
            times: times(&counts.times),
            app: self.app,
            apps: self.apps,
            addresses: self.addresses,
            generations: self.generations,
            certificates: self.certificates.into_iter().map(certificate).collect(),
        }
    }
}

fn connections(connections: &Connections) -> api::Connections {
    let Connections { reading, answering, sending, idle, lingering, http2, fastcgi, .. } = *connections;
    let [(_, http1), ..] = connections.by_protocol();
    api::Connections { reading, answering, sending, idle, lingering, http1, http2, fastcgi }
}

fn times(times: &Times) -> api::Times {
    let of = |phase| histogram(times.of(phase));
    api::Times {
        queue: of(RequestPhase::Queue),
        app: of(RequestPhase::App),
        send: of(RequestPhase::Send),
        total: of(RequestPhase::Total),
    }
}

fn histogram(histogram: &Histogram) -> api::Histogram {
    let bucket = |(bound, count): (Option<Duration>, u64)| Bucket { bound: bound.map(|bound| bound.as_secs_f64()), count };
    api::Histogram {
        count: histogram.count(),
        seconds: histogram.sum().into(),
        buckets: histogram.filled().map(bucket).collect(),
    }
}

/// Returns all counters by their names, and the time since they began at zero.
pub(crate) fn counters(counts: &Counts, age: Duration) -> Counters {
    let value = |counter: Counter| match counter.unit() {
        Unit::Count => CounterValue::Count(counts.of(counter)),
        Unit::Time | Unit::Longest => CounterValue::Time(Seconds::from(Duration::from_micros(counts.of(counter)))),
    };
    let one = |row: &CounterRow| (row.name.into(), value(row.counter));
    Counters { seconds: age.into(), values: COUNTER_ROWS.iter().map(one).collect() }
}
