//! The state of a server at one moment, read from the responses of its control socket.
//!
//! Every text is made harmless here, because parts of some texts come from clients.

use super::distribution::Distribution;
use oribi_control_api as api;
use oribi_control_api::{Answer, Counters, Generation, Processes, Requests, Seconds, Status};

/// The responses to all queries of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub server: Server,
    pub numbers: Numbers,
    pub processes: Vec<Process>,
    pub traffic: Traffic,
}

/// The facts about the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Server {
    pub version: String,
    pub app: String,
    pub state: String,
    pub pid: u32,
    /// Seconds since its first process started.
    pub uptime: f64,
    pub addresses: Vec<String>,
    /// A text for each load of the app.
    pub generations: Vec<String>,
    pub edges: u64,
    pub workers: u64,
    /// Threads of each worker.
    pub threads: u64,
    /// The longest time that a request has waited, in seconds.
    pub longest_wait: f64,
}

/// Counters. Counters of the server that are displayed together are already added up here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// The time since the counters started, in seconds.
    pub seconds: f64,
    /// Responses by the first digit of the status.
    pub responses: [f64; 5],
    pub received: f64,
    pub sent: f64,
    pub accepted: f64,
    /// Requests that were lost with their workers, or refused because the queue was full or there was no room for their
    /// content.
    pub lost: f64,
    /// Requests that took too long: to arrive, in the queue, or in the app.
    pub timeouts: f64,
    /// Workers and edges that have ended for another reason than a stop, a reload or a new number of workers.
    pub restarts: f64,
    /// Requests that were queued, and their total queue time in seconds.
    pub queued: f64,
    pub waited: f64,
    /// The times of requests, from their last byte until their responses were sent.
    pub times: Distribution,
}

/// A worker or an edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    pub kind: String,
    pub number: u64,
    /// The name of its app; empty without one.
    pub app: String,
    pub pid: u32,
    /// The generation of the app; empty if the process belongs to none.
    pub generation: String,
    pub state: String,
    pub age: f64,
    pub connections: f64,
    pub requests: f64,
}

/// The requests in the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// The server does not report them, for this reason.
    Unknown(String),
    /// The requests, the oldest first.
    Known { requests: Vec<Request>, more: u64 },
}

impl Default for Traffic {
    fn default() -> Self {
        Self::Known { requests: Vec::new(), more: 0 }
    }
}

/// A request in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub state: String,
    /// Its position in the queue.
    pub position: Option<u64>,
    pub age: f64,
    pub quiet: Option<f64>,
    pub deadline: Option<f64>,
    /// The number and the process of its worker.
    pub worker: Option<u64>,
    pub pid: Option<u32>,
    pub client: String,
    /// The method and the target.
    pub what: String,
}

impl Traffic {
    fn known(&self) -> Option<(&[Request], u64)> {
        match self {
            Self::Unknown(_) => None,
            Self::Known { requests, more } => Some((requests, *more)),
        }
    }

    /// Returns the number of queued requests, and the age of the oldest of them in seconds. The server reports the oldest
    /// requests with details; the requests without details are younger, so they are all counted as queued.
    pub fn queue(&self) -> Option<(u64, f64)> {
        let (requests, more) = self.known()?;
        let waiting = || requests.iter().filter(|request| request.is_queued());
        Some((waiting().count() as u64 + more, waiting().map(|request| request.age).fold(0.0, f64::max)))
    }

    /// Returns the number of workers' threads that are busy with a request. A thread is counted once, even if its app, which
    /// may answer later, has several requests.
    pub fn busy(&self, threads: u64) -> Option<u64> {
        let (requests, _) = self.known()?;
        let mut pids: Vec<u32> = requests.iter().filter(|request| !request.is_queued()).filter_map(|one| one.pid).collect();
        pids.sort_unstable();
        Some(pids.chunk_by(u32::eq).map(|same| (same.len() as u64).min(threads.max(1))).sum())
    }

    /// The requests of a process, the oldest first.
    pub fn of(&self, pid: u32) -> impl Iterator<Item = &Request> {
        let (requests, _) = self.known().unwrap_or_default();
        requests.iter().filter(move |request| request.pid == Some(pid) && !request.is_queued())
    }
}

impl Request {
    pub fn is_queued(&self) -> bool {
        self.state == "queued"
    }
}

impl Snapshot {
    /// Takes the responses to `status`, `workers` and `requests`.
    pub fn of(status: &Status, processes: &Processes, requests: &Answer<Requests>) -> Self {
        Self {
            server: Server::of(status),
            numbers: Numbers { times: Distribution::of(&status.times.total), ..Numbers::of(&status.counters) },
            processes: processes.processes.iter().map(Process::of).collect(),
            traffic: match requests {
                Answer::Done(Requests { requests, more }) => {
                    Traffic::Known { requests: requests.iter().map(Request::of).collect(), more: *more as u64 }
                }
                Answer::Failed(failure) => Traffic::Unknown(harmless(failure.error.as_deref().unwrap_or_default())),
            },
        }
    }
}

impl Server {
    fn of(status: &Status) -> Self {
        let generation = |one: &Generation| {
            let of = one.app.as_deref().map_or_else(String::new, |app| format!("{} ", harmless(app)));
            format!("{of}{} {}", one.number, harmless(&one.state))
        };
        Self {
            version: harmless(&status.version),
            app: harmless(&status.app),
            state: harmless(&status.state),
            pid: status.pid,
            uptime: status.uptime.0,
            addresses: status.addresses.iter().map(|address| harmless(address)).collect(),
            generations: status.generations.iter().map(generation).collect(),
            edges: status.edges as u64,
            workers: status.workers as u64,
            threads: status.threads as u64,
            longest_wait: status.counters.number("queue_longest_wait_seconds"),
        }
    }
}

impl Numbers {
    fn of(counters: &Counters) -> Self {
        let number = |name: &str| counters.number(name);
        let sum = |names: &[&str]| names.iter().map(|name| number(name)).sum::<f64>();
        Self {
            seconds: counters.seconds.0,
            responses: ["responses_1xx", "responses_2xx", "responses_3xx", "responses_4xx", "responses_5xx"].map(number),
            received: number("bytes_received"),
            sent: number("bytes_sent"),
            accepted: number("connections_accepted"),
            lost: sum(&["requests_lost", "queue_refused"]),
            timeouts: sum(&["queue_timeouts", "request_timeouts", "head_timeouts", "content_timeouts"]),
            restarts: sum(&[
                "workers_ended_requests",
                "workers_ended_lifetime",
                "workers_ended_memory",
                "workers_ended_failure",
                "workers_ended_stuck",
                "edges_failed",
            ]),
            queued: number("requests_queued"),
            waited: number("queue_wait_seconds"),
            times: Distribution::default(),
        }
    }
}

impl Process {
    fn of(process: &api::Process) -> Self {
        Self {
            kind: harmless(&process.kind),
            number: process.number as u64,
            app: process.app.as_deref().map_or_else(String::new, harmless),
            pid: process.pid,
            generation: process.generation.map_or_else(String::new, |generation| generation.to_string()),
            state: harmless(&process.state),
            age: process.age.0,
            connections: f64::from(process.connections),
            requests: process.requests as f64,
        }
    }

    /// The name of the process, as users know it.
    pub fn name(&self) -> String {
        let Self { kind, number, app, .. } = self;
        if app.is_empty() { format!("{kind} {number}") } else { format!("{kind} {number} of {app}") }
    }
}

impl Request {
    fn of(request: &api::Request) -> Self {
        let time = |time: Option<Seconds>| time.map(|Seconds(time)| time);
        Self {
            state: harmless(&request.state),
            position: request.position.map(|position| position as u64),
            age: request.age.0,
            quiet: time(request.quiet),
            deadline: time(request.deadline),
            worker: request.worker.map(|worker| worker as u64),
            pid: request.pid,
            client: harmless(&request.client),
            what: format!("{} {}", harmless(&request.method), harmless(&request.target)),
        }
    }
}

/// Returns the text with U+FFFD in place of all characters but printable ASCII characters, letters and digits. This excludes
/// control characters, marks that change the direction of text, and characters without width. East Asian letters are kept and
/// take two columns each. Lines are not wrapped, so such a letter only moves the rest of its own line.
pub fn harmless(text: &str) -> String {
    let plain = |character: char| character == ' ' || character.is_ascii_graphic();
    let letter = |character: char| !character.is_ascii() && character.is_alphanumeric();
    text.chars().map(|one| if plain(one) || letter(one) { one } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_control_api::CounterValue;

    fn traffic(requests: &Answer<Requests>) -> Traffic {
        Snapshot::of(&Status::default(), &Processes::default(), requests).traffic
    }

    #[test]
    fn what_a_terminal_would_obey_is_in_no_text() {
        let evil = "a\u{1b}[2J\u{9b}1m\u{202e}\u{200b}\n\u{7f}z\u{e9}";
        let tamed = "a\u{fffd}[2J\u{fffd}1m\u{fffd}\u{fffd}\u{fffd}\u{fffd}z\u{e9}";
        let status = Status {
            app: evil.to_owned(),
            state: evil.into(),
            version: evil.into(),
            addresses: vec![evil.to_owned()],
            generations: vec![Generation { state: evil.into(), ..Generation::default() }],
            ..Status::default()
        };
        let process = api::Process { kind: evil.into(), state: evil.into(), ..api::Process::default() };
        let [method, target, client] = [evil; 3].map(str::to_owned);
        let request = api::Request { state: evil.into(), client, method, target, ..api::Request::default() };
        let requests = Answer::Done(Requests { requests: vec![request], more: 0 });
        let snapshot = Snapshot::of(&status, &Processes { processes: vec![process] }, &requests);
        assert_eq!(snapshot.server.app, tamed);
        let Traffic::Unknown(why) = traffic(&Answer::failed(evil)) else { panic!("it was refused") };
        assert_eq!(why, tamed);
        let all = format!("{snapshot:#?}").replace('\n', "");
        assert_eq!(all.matches(tamed).count(), 4 + 1 + 2 + 4, "{all}");
        // `Debug` would write such characters as escapes.
        assert!(!all.contains("\\u{1b}") && !all.contains("\\u{9b}") && !all.contains("\\u{202e}"), "{all}");
    }

    #[test]
    fn numbers_that_belong_together_are_added_up() {
        let counts = [
            ("responses_2xx", 7),
            ("responses_5xx", 1),
            ("queue_refused", 2),
            ("requests_lost", 3),
            ("head_timeouts", 1),
            ("queue_timeouts", 4),
            ("workers_ended_memory", 1),
            ("workers_ended_stop", 9),
            ("edges_failed", 1),
        ];
        let values = counts.map(|(name, count)| (name.into(), CounterValue::Count(count))).to_vec();
        let numbers = Numbers::of(&Counters { seconds: Seconds(2.5), values });
        assert_eq!((numbers.seconds, numbers.responses), (2.5, [0.0, 7.0, 0.0, 0.0, 1.0]));
        assert_eq!((numbers.lost, numbers.timeouts, numbers.restarts), (5.0, 5.0, 2.0));
    }

    #[test]
    fn queue_and_busy_threads_are_counted_from_the_requests() {
        let request = api::Request::default;
        let on = |pid: u32| api::Request { state: "running".into(), pid: Some(pid), age: Seconds(9.0), ..request() };
        let waits = |age: f64| api::Request { state: "queued".into(), position: Some(1), age: Seconds(age), ..request() };
        let requests = vec![on(7), on(7), on(7), on(8), waits(1.5), waits(0.5)];
        let known = traffic(&Answer::Done(Requests { requests, more: 5 }));
        assert_eq!(known.queue(), Some((7, 1.5)));
        assert_eq!((known.busy(2), known.busy(1)), (Some(3), Some(2)));
        assert_eq!(known.of(7).count(), 3);
        let unknown = traffic(&Answer::failed("no"));
        assert_eq!((unknown.queue(), unknown.busy(1), unknown.of(7).count()), (None, None, 0));
    }
}
