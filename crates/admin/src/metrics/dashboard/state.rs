//! The current state for the dashboard, as JSON. It contains no paths, names and addresses, except for those of requests if
//! the settings permit them.

use super::super::families::{Sample, WorkerMemory};
use super::history::{Completed, LEVELS, Levels, UNKNOWN, milliseconds};
use super::json::{Array, Object};
use crate::control::{ProcessReport, counters};
use oribi_config::DashboardShows;
use oribi_control_api::{Generation, Request, Requests, to_json};
use std::time::{Duration, SystemTime};

/// The most processes listed.
const PROCESSES: usize = 200;
/// The most requests listed.
const REQUESTS: usize = 50;

/// Returns the levels of a sample, for the history.
pub(super) fn levels(sample: &Sample) -> Levels {
    let Sample { report, processes, traffic, memory, .. } = sample;
    let is_worker = |process: &&ProcessReport| process.kind == "worker";
    let owner = if report.edges > 0 { "edge" } else { "worker" };
    let owners = processes.iter().filter(|process| process.kind == owner);
    let connections = owners.map(|process| u64::from(process.row.connections)).sum();
    let ready = processes.iter().filter(is_worker).filter(|worker| worker.row.state == "ready").count();
    let known = |number: usize| number as u64;
    let (queue, oldest) = traffic.queue.map_or((UNKNOWN, UNKNOWN), |(length, oldest)| (known(length), whole(oldest)));
    let running = traffic.running.map_or(UNKNOWN, known);
    let bytes = if memory.is_empty() { UNKNOWN } else { memory.iter().map(|worker| worker.bytes).sum() };
    let threads = ready.saturating_mul(report.threads);
    [connections, queue, oldest, running, known(threads), known(ready), known(report.workers), bytes]
}

fn whole(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}

/// Returns the data of an event as JSON: the current state, and the points of the history that the sample has completed.
pub(super) fn object(
    sample: &Sample,
    requests: &Result<Requests, String>,
    shows: DashboardShows,
    completed: &Completed,
    wall: SystemTime,
) -> String {
    let Sample { report, processes, .. } = sample;
    let serving = report.generations.iter().filter(|generation| generation.state == "serving");
    let mut object = Object::new().raw("at", milliseconds(wall)).text("version", env!("CARGO_PKG_VERSION"));
    object = object.text("state", report.state).seconds("uptime", report.uptime);
    if let Some(Generation { number, .. }) = serving.max_by_key(|generation| generation.number) {
        object = object.raw("generation", number);
    }
    object = object.raw("edges", report.edges).raw("threads", report.threads);
    let told = LEVELS.iter().zip(levels(sample)).filter(|(_, level)| *level != UNKNOWN);
    object = object.raw("levels", told.fold(Object::new(), |levels, (name, level)| levels.raw(name, level)).end());
    object = object.raw("counters", to_json(&counters(&report.counted.0, report.counted.1)));
    object = object.raw("processes", Array::of(processes.iter().take(PROCESSES).map(|process| one(process, sample))));
    object = object.raw("more_processes", processes.len().saturating_sub(PROCESSES));
    object = match requests {
        Ok(Requests { requests, more }) => {
            let told = requests.iter().take(REQUESTS).map(|request| request_object(request, shows));
            object.raw("requests", Array::of(told)).raw("more_requests", more + requests.len().saturating_sub(REQUESTS))
        }
        Err(_) => object.raw("requests", "null"),
    };
    for (name, point) in [("fine", &completed.fine), ("coarse", &completed.coarse)] {
        if let Some(point) = point {
            object = object.raw(name, point);
        }
    }
    object.end()
}

fn one(process: &ProcessReport, sample: &Sample) -> String {
    let ProcessReport { kind, app, generation, row } = process;
    let mut object = Object::new().text("kind", kind).raw("number", row.number).raw("pid", row.pid);
    if let Some(app) = app {
        object = object.text("app", app);
    }
    if let Some(generation) = generation {
        object = object.raw("generation", generation);
    }
    object = object.text("state", row.state).seconds("age", row.age);
    object = object.raw("connections", row.connections).raw("requests", row.requests);
    let is_same = |one: &&WorkerMemory| one.app == *app && one.generation == *generation && one.number == row.number;
    match sample.memory.iter().find(is_same).filter(|_| *kind == "worker") {
        Some(WorkerMemory { bytes, .. }) => object.raw("memory", bytes).end(),
        None => object.end(),
    }
}

fn request_object(request: &Request, shows: DashboardShows) -> String {
    let mut object = Object::new().text("state", &request.state).raw("age", request.age);
    if let Some(worker) = request.worker {
        object = object.raw("worker", worker);
    }
    if shows == DashboardShows::Requests {
        for (name, text) in [("method", &request.method), ("target", &request.target), ("client", &request.client)] {
            object = object.text(name, text);
        }
    }
    object.end()
}
