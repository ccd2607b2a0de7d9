//! The report of a server on its own state.

use super::json::{Array, Object, quoted};
use oribi_stats::scoreboard::{Connections, Row};
use oribi_stats::totals::{COUNTER_ROWS, Counter, CounterRow, Counts, RequestPhase, Times, Unit};
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
    /// The loads of the app; empty without a master.
    pub generations: Vec<GenerationReport>,
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
    /// The counters, and the time since they began.
    pub counted: (Counts, Duration),
}

/// A worker or an edge.
#[derive(Clone, Debug)]
pub struct ProcessReport {
    /// `worker` or `edge`.
    pub kind: &'static str,
    /// Its generation; `None` without one.
    pub generation: Option<u64>,
    /// Its row of the scoreboard.
    pub row: Row,
}

/// Returns the answer with all workers and edges.
pub(crate) fn of_processes(processes: &[ProcessReport]) -> String {
    let one = |process: &ProcessReport| {
        let ProcessReport { kind, generation, row } = process;
        let object = Object::new().text("kind", kind).raw("number", row.number).raw("pid", row.pid);
        let object = match generation {
            Some(generation) => object.raw("generation", generation),
            None => object,
        };
        let object = object.text("state", row.state).seconds("age", row.age);
        object.raw("connections", row.connections).raw("requests", row.requests).end()
    };
    Object::well().raw("processes", Array::of(processes.iter().map(one))).end()
}

/// A load of the app.
#[derive(Clone, Debug)]
pub struct GenerationReport {
    /// The number of the generation.
    pub number: u64,
    /// The process id of its supervisor.
    pub pid: i32,
    /// One of `loading`, `serving` and `finishing`.
    pub state: &'static str,
    /// The time since it was loaded.
    pub age: Duration,
}

impl Report {
    pub(crate) fn object(&self) -> Object {
        let generation = |generation: &GenerationReport| {
            let GenerationReport { number, pid, state, age } = generation;
            Object::new().raw("number", number).raw("pid", pid).text("state", state).seconds("age", *age).end()
        };
        let (counts, age) = &self.counted;
        Object::well()
            .text("version", env!("CARGO_PKG_VERSION"))
            .raw("pid", std::process::id())
            .text("app", &self.app)
            .text("state", self.state)
            .seconds("uptime", self.uptime)
            .raw("addresses", Array::of(self.addresses.iter().map(|address| quoted(address.as_bytes()))))
            .raw("generations", Array::of(self.generations.iter().map(generation)))
            .raw("edges", self.edges)
            .raw("workers", self.workers)
            .raw("threads", self.threads)
            .raw("connections", connections(&self.connections))
            .raw("certificates", Array::of(self.certificates.iter().map(certificate)))
            .raw("requests", counts.responses())
            .raw("workers_started", counts.of(Counter::WorkersStarted))
            .raw("workers_failed", counts.of(Counter::WorkersFailed))
            .raw("counters", counters(counts, *age).end())
            .raw("times", times(&counts.times))
    }
}

/// Formats the number of connections in each state and for each protocol.
fn connections(connections: &Connections) -> String {
    let add = |object: Object, (name, number): (&'static str, u64)| object.raw(name, number);
    let object = connections.by_state().into_iter().fold(Object::new(), add);
    connections.by_protocol().into_iter().fold(object, add).end()
}

fn certificate((name, expires): &(String, u64)) -> String {
    Object::new().text("name", name).raw("expires", expires).end()
}

/// Formats the histograms of times of requests: their counts and sums, and the nonempty buckets, each with its bound in
/// seconds. The bound of the bucket above all others is null.
fn times(times: &Times) -> String {
    let bucket = |(bound, count): (Option<Duration>, u64)| match bound {
        Some(bound) => format!("[{},{count}]", bound.as_secs_f64()),
        None => format!("[null,{count}]"),
    };
    let one = |object: Object, part: RequestPhase| {
        let histogram = times.of(part);
        let numbers = Object::new().raw("count", histogram.count()).seconds("seconds", histogram.sum());
        object.raw(part.name(), numbers.raw("buckets", Array::of(histogram.filled().map(bucket))).end())
    };
    RequestPhase::ALL.into_iter().fold(Object::new(), one).end()
}

/// Formats all counters by their names, and the time since they began.
pub(crate) fn counters(counts: &Counts, age: Duration) -> Object {
    let one = |object: Object, &CounterRow { counter, name, .. }: &CounterRow| match counter.unit() {
        Unit::Count => object.raw(name, counts.of(counter)),
        Unit::Time | Unit::Longest => object.seconds(name, Duration::from_micros(counts.of(counter))),
    };
    COUNTER_ROWS.iter().fold(Object::new().seconds("seconds", age), one)
}
