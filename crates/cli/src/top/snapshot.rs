//! The state of a server at one moment, read from the responses of its control socket.
//!
//! Every text is made harmless here, because parts of them come from clients. Values that are missing or of another type
//! count as empty or zero, because servers of other versions may report more or less.

use super::distribution::Distribution;
use serde_json::Value;

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

/// Counters. Those that are displayed together are added up here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// The time since the counters started, in seconds.
    pub seconds: f64,
    /// Responses by the first digit of the status.
    pub responses: [f64; 5],
    pub received: f64,
    pub sent: f64,
    pub accepted: f64,
    /// Requests that were lost with their workers, or refused because of a full queue or without room for their content.
    pub lost: f64,
    /// Requests that took too long: to arrive, in the queue, or in the app.
    pub timeouts: f64,
    /// Workers and edges that have ended for another reason than a stop, a reload or a new number of workers.
    pub restarts: f64,
    /// Requests that were queued, and their total queue time in seconds.
    pub queued: f64,
    pub waited: f64,
    /// The times of requests, from when they were complete until their responses were sent.
    pub times: Distribution,
}

/// A worker or an edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    pub kind: String,
    pub number: u64,
    pub pid: u32,
    /// The load of the app; empty if the process belongs to none.
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

    /// The length of the queue and the wait of its oldest request. The requests without details are the youngest, so they
    /// wait.
    pub fn queue(&self) -> Option<(u64, f64)> {
        let (requests, more) = self.known()?;
        let waiting = || requests.iter().filter(|request| request.is_queued());
        Some((waiting().count() as u64 + more, waiting().map(|request| request.age).fold(0.0, f64::max)))
    }

    /// The number of threads of workers with a request. An app that answers later may have several requests in one thread.
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
    /// Reads the responses to `status`, `workers` and `requests`.
    pub fn read(status: &Value, workers: &Value, requests: &Value) -> Self {
        Self {
            server: Server::read(status),
            numbers: Numbers {
                times: status.pointer("/times/total").map(Distribution::read).unwrap_or_default(),
                ..Numbers::read(status.get("counters").unwrap_or(&Value::Null))
            },
            processes: list(workers, "processes").iter().map(Process::read).collect(),
            traffic: match requests.get("ok").and_then(Value::as_bool) {
                Some(true) => Traffic::Known {
                    requests: list(requests, "requests").iter().map(Request::read).collect(),
                    more: count(requests, "more"),
                },
                _ => Traffic::Unknown(text(requests, "error")),
            },
        }
    }
}

impl Server {
    fn read(status: &Value) -> Self {
        let generation = |one: &Value| format!("{} {}", text(one, "number"), text(one, "state"));
        Self {
            version: text(status, "version"),
            app: text(status, "app"),
            state: text(status, "state"),
            pid: process(status).unwrap_or_default(),
            uptime: number(status, "uptime"),
            addresses: list(status, "addresses").iter().filter_map(Value::as_str).map(harmless).collect(),
            generations: list(status, "generations").iter().map(generation).collect(),
            edges: count(status, "edges"),
            workers: count(status, "workers"),
            threads: count(status, "threads"),
            longest_wait: status.get("counters").map_or(0.0, |counters| number(counters, "queue_longest_wait_seconds")),
        }
    }
}

impl Numbers {
    fn read(counters: &Value) -> Self {
        let sum = |names: &[&str]| names.iter().map(|name| number(counters, name)).sum::<f64>();
        Self {
            seconds: number(counters, "seconds"),
            responses: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| number(counters, &format!("responses_{class}"))),
            received: number(counters, "bytes_received"),
            sent: number(counters, "bytes_sent"),
            accepted: number(counters, "connections_accepted"),
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
            queued: number(counters, "requests_queued"),
            waited: number(counters, "queue_wait_seconds"),
            times: Distribution::default(),
        }
    }
}

impl Process {
    fn read(value: &Value) -> Self {
        Self {
            kind: text(value, "kind"),
            number: count(value, "number"),
            pid: process(value).unwrap_or_default(),
            generation: text(value, "generation"),
            state: text(value, "state"),
            age: number(value, "age"),
            connections: number(value, "connections"),
            requests: number(value, "requests"),
        }
    }
}

impl Request {
    fn read(value: &Value) -> Self {
        let whole = |name: &str| value.get(name).and_then(Value::as_u64);
        let time = |name: &str| value.get(name).and_then(Value::as_f64);
        Self {
            state: text(value, "state"),
            position: whole("position"),
            age: number(value, "age"),
            quiet: time("quiet"),
            deadline: time("deadline"),
            worker: whole("worker"),
            pid: process(value),
            client: text(value, "client"),
            what: format!("{} {}", text(value, "method"), text(value, "target")),
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

fn count(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn process(value: &Value) -> Option<u32> {
    value.get("pid").and_then(Value::as_u64).and_then(|pid| pid.try_into().ok())
}

/// A value without its quotes; empty without a value.
fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => harmless(text),
        Some(Value::Null) | None => String::new(),
        Some(other) => harmless(&other.to_string()),
    }
}

/// A text without characters that control a terminal: no control characters, and no marks that change the direction of
/// writing or have no width. East Asian letters stay and take two cells each; lines are not wrapped, so these letters only
/// move the rest of their own line.
pub fn harmless(text: &str) -> String {
    let plain = |character: char| character == ' ' || character.is_ascii_graphic();
    let letter = |character: char| !character.is_ascii() && character.is_alphanumeric();
    text.chars().map(|one| if plain(one) || letter(one) { one } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn traffic(requests: &Value) -> Traffic {
        Snapshot::read(&Value::Null, &Value::Null, requests).traffic
    }

    #[test]
    fn what_a_terminal_would_obey_is_in_no_text() {
        let evil = "a\u{1b}[2J\u{9b}1m\u{202e}\u{200b}\n\u{7f}z\u{e9}";
        let tamed = "a\u{fffd}[2J\u{fffd}1m\u{fffd}\u{fffd}\u{fffd}\u{fffd}z\u{e9}";
        let status = json!({ "app": evil, "state": evil, "version": evil, "addresses": [evil],
            "generations": [{ "number": evil, "state": evil }] });
        let workers = json!({ "processes": [{ "kind": evil, "state": evil, "generation": { evil: evil } }] });
        let requests = json!({ "ok": true, "requests": [{ "state": evil, "client": evil, "method": evil, "target": evil }] });
        let snapshot = Snapshot::read(&status, &workers, &requests);
        assert_eq!(snapshot.server.app, tamed);
        let Traffic::Unknown(why) = traffic(&json!({ "ok": false, "error": evil })) else { panic!("it was refused") };
        assert_eq!(why, tamed);
        let all = format!("{snapshot:#?}").replace('\n', "");
        assert_eq!(all.matches(tamed).count(), 4 + 2 + 2 + 4, "{all}");
        // `Debug` would write such characters as escapes.
        assert!(!all.contains("\\u{1b}") && !all.contains("\\u{9b}") && !all.contains("\\u{202e}"), "{all}");
    }

    #[test]
    fn answers_of_other_versions_count_as_nothing_where_they_are_unknown() {
        let odd = json!({ "pid": -1, "uptime": "x", "addresses": 7, "counters": [1], "edges": 1.5, "threads": null });
        let snapshot = Snapshot::read(&odd, &json!([]), &json!(null));
        assert_eq!(snapshot.server, Server::default());
        assert_eq!(snapshot.numbers, Numbers::default());
        assert_eq!(snapshot.traffic, Traffic::Unknown(String::new()));
    }

    #[test]
    fn numbers_that_belong_together_are_added_up() {
        let counters = json!({ "seconds": 2.5, "responses_2xx": 7, "responses_5xx": 1, "queue_refused": 2, "requests_lost": 3,
            "head_timeouts": 1, "queue_timeouts": 4, "workers_ended_memory": 1, "workers_ended_stop": 9, "edges_failed": 1 });
        let numbers = Snapshot::read(&json!({ "counters": counters }), &Value::Null, &Value::Null).numbers;
        assert_eq!((numbers.seconds, numbers.responses), (2.5, [0.0, 7.0, 0.0, 0.0, 1.0]));
        assert_eq!((numbers.lost, numbers.timeouts, numbers.restarts), (5.0, 5.0, 2.0));
    }

    #[test]
    fn queue_and_busy_threads_are_counted_from_the_requests() {
        let on = |pid: u32| json!({ "state": "running", "pid": pid, "age": 9.0 });
        let waits = |age: f64| json!({ "state": "queued", "position": 1, "age": age });
        let requests = json!({ "ok": true, "more": 5, "requests": [on(7), on(7), on(7), on(8), waits(1.5), waits(0.5)] });
        let known = traffic(&requests);
        assert_eq!(known.queue(), Some((7, 1.5)));
        assert_eq!((known.busy(2), known.busy(1)), (Some(3), Some(2)));
        assert_eq!(known.of(7).count(), 3);
        let unknown = traffic(&json!({ "ok": false, "error": "no" }));
        assert_eq!((unknown.queue(), unknown.busy(1), unknown.of(7).count()), (None, None, 0));
    }
}
