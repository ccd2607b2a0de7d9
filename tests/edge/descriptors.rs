//! No process keeps a descriptor that it does not need. If a worker had the other end of a pipe, a listener, or the channel
//! between another worker and the edge, it could listen, answer or send messages in the place of another process. So could
//! every program that its app starts.

use crate::connection::Connection;
use crate::held::{foreign, held, holding};
use crate::language::{Language, Launcher, Site};
use crate::server::{Folder, children, title};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

crate::in_every_language![
    each_process_holds_what_it_needs_with_an_edge,
    each_process_holds_what_it_needs_without_an_edge,
    a_program_that_an_app_starts_gets_the_standard_streams_alone,
];

const WORKERS: usize = 2;

/// The number of places for workers in the memory of an edge: see `scaling::places`.
const PLACES: usize = 2 * 64 + WORKERS;

/// Descriptors of a parent process and of an edge: the memory, the notes of the edge, and both ends of a channel for each
/// place. Descriptors of events are not included.
const MEMORY: [(&str, usize); 2] = [("shared memory", 2), ("unix", 2 * PLACES)];

/// The descriptor of the totals, to which only the first process adds.
const TOTALS: [(&str, usize); 1] = [("shared memory", 1)];

/// The descriptor of the scoreboard of a generation, which the master reads.
const BOARD: [(&str, usize); 1] = [("shared memory", 1)];

/// Descriptors that a mold has for its workers.
const MEMORY_OF_WORKERS: [(&str, usize); 3] = [("shared memory", 1), ("unix", PLACES), ("eventfd", 1 + PLACES)];

/// The box of the edge for messages of other processes: both ends, and the end to write to.
const POST_BOX: [(&str, usize); 1] = [("unix", 2)];
const OUTBOX: [(&str, usize); 1] = [("unix", 1)];

/// The socket of `oribi ctl`, which only the first process has.
const CONTROL: [(&str, usize); 1] = [("unix", 1)];

/// The server, and the folder of its control socket.
fn start(language: Language, edge: &str) -> (Site, Folder) {
    let folder = Folder::new();
    let control = folder.file("control");
    let control = control.to_str().expect("its name is text");
    let workers = WORKERS.to_string();
    (Site::start(Launcher::Oribi, language, &["--workers", &workers, "--edge", edge, "--control", control]), folder)
}

/// The first process and everything below it, by role.
fn processes(site: &Site) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut next = vec![site.server.pid()];
    while let Some(process) = next.pop() {
        let title = title(process);
        let role = title.strip_prefix("oribi: ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        found.insert(role.to_owned(), process);
        next.extend(children(process));
    }
    found
}

/// Returns the descriptors of a supervisor: both ends of the pipes for signals, messages and the reasons of failures (the next
/// worker inherits the other ends), and a pipe and a pidfd for each worker.
fn supervisor(more: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let own = [("pipe to read", 3), ("pipe to write", 3 + WORKERS), ("pidfd", WORKERS)];
    sum(&own, more)
}

fn sum(some: &[(&str, usize)], more: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let mut all = holding(&[]);
    for (kind, count) in some.iter().chain(more) {
        *all.entry((*kind).to_owned()).or_insert(0) += count;
    }
    all
}

/// Returns the descriptors that Ruby additionally opens in each of its processes.
fn of_runtime(language: Language) -> Vec<(&'static str, usize)> {
    match language {
        Language::Perl | Language::Lua => Vec::new(),
        Language::Ruby => vec![("eventfd", 2)],
    }
}

fn compare(site: &Site, expected: &[(&str, BTreeMap<String, usize>)]) {
    for (role, descriptors) in expected {
        let seen = || processes(site).get(*role).map(|process| held(*process)).unwrap_or_default();
        // A new process closes unneeded descriptors at once.
        let end = Instant::now() + Duration::from_secs(10);
        let mut last = seen();
        while last != *descriptors && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            last = seen();
        }
        assert_eq!(last, *descriptors, "{role}");
    }
}

fn each_process_holds_what_it_needs_with_an_edge(language: Language) {
    let (site, _folder) = start(language, "on");
    let worker = [
        ("pipe to read", 1),
        ("pipe to write", 3),
        ("eventpoll", 1),
        ("eventfd", 3),
        // That of the edge.
        ("pidfd", 1),
        ("unix", 1),
        ("folder", 1),
    ];
    let edge = [
        ("listener", 1),
        ("pipe to read", 1),
        ("pipe to write", 1),
        ("eventpoll", 3),
        ("eventfd", 2 + PLACES),
        ("pidfd", WORKERS),
        ("unix", 1),
        ("folder", 1),
    ];
    let runtime = of_runtime(language);
    let mut expected = vec![
        ("worker", sum(&worker, &[&runtime[..], &OUTBOX].concat())),
        ("edge", sum(&edge, &[&MEMORY[..], &POST_BOX].concat())),
    ];
    // The parent's end of a socket, its end of the pipe to the edge, and the descriptor that reports the edge's end.
    let parent = [("unix", 1), ("pipe to write", 1), ("pidfd", 1), ("listener", 1)];
    let pools = [&MEMORY[..], &[("eventfd", 1 + PLACES)]].concat();
    if language == Language::Lua {
        expected.push(("supervisor", supervisor(&[&parent[..], &pools, &CONTROL, &TOTALS, &POST_BOX].concat())));
    } else {
        let signals = [("pipe to read", 1), ("pipe to write", 1), ("unix", 1)];
        expected.push(("master", sum(&[&signals[..], &parent, &CONTROL, &BOARD, &TOTALS, &POST_BOX].concat(), &pools)));
        expected.push(("mold", supervisor(&[&MEMORY_OF_WORKERS[..], &[("unix", 1)], &runtime, &OUTBOX].concat())));
    }
    compare(&site, &expected);
}

fn each_process_holds_what_it_needs_without_an_edge(language: Language) {
    let (site, _folder) = start(language, "off");
    let runtime = of_runtime(language);
    let worker = [("listener", 1), ("pipe to read", 1), ("pipe to write", 3), ("eventpoll", 2), ("eventfd", 2), ("folder", 2)];
    // The thread that waits for events does so at an instance of its own.
    let crew = if language == Language::Ruby { vec![("eventpoll", 1)] } else { Vec::new() };
    let mut expected = vec![("worker", sum(&worker, &[&runtime[..], &crew].concat()))];
    let shared = [("listener", 1), ("eventfd", 1)];
    if language == Language::Lua {
        expected.push(("supervisor", supervisor(&[&shared[..], &CONTROL, &TOTALS].concat())));
    } else {
        let own = [("listener", 1), ("pipe to read", 1), ("pipe to write", 1), ("unix", 1)];
        expected.push(("master", sum(&own, &[CONTROL, BOARD, TOTALS].concat())));
        expected.push(("mold", supervisor(&[&shared[..], &[("unix", 1)], &runtime].concat())));
    }
    compare(&site, &expected);
}

fn a_program_that_an_app_starts_gets_the_standard_streams_alone(language: Language) {
    for edge in ["on", "off"] {
        let (site, _folder) = start(language, edge);
        let answer = Connection::open(site.address).get("/ls?0");
        let numbers = String::from_utf8_lossy(&answer.content).into_owned();
        let foreign = foreign();
        let numbers = numbers.lines().map(|number| number.parse::<u32>().expect("a number"));
        let own: Vec<u32> = numbers.filter(|number| *number <= 3 || !foreign.contains_key(number)).collect();
        // The last one is the folder that ls reads.
        assert_eq!(own, [0, 1, 2, 3], "edge {edge}");
    }
}
