//! Formats responses as readable text.

use oribi_control_api::{
    AppState, Certificate, Changed, Connections, Counters, Generation, Health, Process, Processes, Purged, Request, Requests,
    Scaled, Seconds, Status, Stopped,
};
use oribi_server::config::counted;
use oribi_server::log::is_plain;
use oribi_server::{COUNTER_ROWS, CounterRow};
use std::time::SystemTime;

/// The text for the state of a server.
pub fn status(answer: &Status) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push_str(&format!("{name:<12}{value}\n"));
        }
    };
    line("server", &format!("{}, pid {}, oribi {}", harmless(&answer.state), answer.pid, harmless(&answer.version)));
    line("app", &harmless(&answer.app));
    line("since", &span(answer.uptime));
    for address in &answer.addresses {
        line("listening", &harmless(address));
    }
    for AppState { name, state, workers, requests } in &answer.apps {
        let workers = counted(*workers, "worker");
        line("app", &format!("{}: {}, {workers} with {}", harmless(name), harmless(state), plural(*requests, "request")));
    }
    for Generation { app, number, pid, state, age } in &answer.generations {
        let of = app.as_ref().map_or_else(String::new, |app| format!("{} ", harmless(app)));
        line("generation", &format!("{of}{number}: {}, pid {pid}, for {}", harmless(state), span(*age)));
    }
    if answer.edges > 0 {
        line("edges", &answer.edges.to_string());
    }
    line("workers", &format!("{} x {} threads", answer.workers, answer.threads));
    line("requests", &answer.requests.to_string());
    let started = plural(answer.workers_started, "worker");
    line("started", &format!("{started}, of which {} failed", answer.workers_failed));
    line("open", &open(&answer.connections));
    for Certificate { name, expires } in &answer.certificates {
        line("certificate", &format!("{}, {}", harmless(name), left(*expires as f64)));
    }
    for rows in COUNTER_ROWS.chunk_by(|one, next| one.title.map(|(line, _)| line) == next.title.map(|(line, _)| line)) {
        if let Some((title, _)) = rows[0].title {
            line(title, &words(&answer.counters, rows));
        }
    }
    lines
}

/// The text for the readiness of a server.
pub fn health(answer: &Health) -> String {
    let Health { ready, state, note } = answer;
    match (ready, note.is_empty()) {
        (true, _) => "ready\n".to_owned(),
        (false, true) => format!("not ready ({})\n", harmless(state)),
        (false, false) => format!("not ready ({}): {}\n", harmless(state), harmless(note)),
    }
}

/// The open connections by state; empty without connections.
fn open(connections: &Connections) -> String {
    let Connections { reading, answering, sending, idle, lingering, http2, fastcgi, .. } = connections;
    let states =
        [(reading, "reading"), (answering, "answering"), (sending, "sending"), (idle, "idle"), (lingering, "lingering")];
    let one = |(number, state): &(&u64, &str)| (**number > 0).then(|| format!("{number} {state}"));
    let states = states.iter().filter_map(one).collect::<Vec<_>>().join(", ");
    let one = |(number, words): &(&u64, &str)| (**number > 0).then(|| format!("{number} with {words}"));
    let others = [(http2, "HTTP/2"), (fastcgi, "FastCGI")].iter().filter_map(one).collect::<Vec<_>>().join(", ");
    if others.is_empty() { states } else { format!("{states} ({others})") }
}

/// Formats the time until a certificate expires; `expires` is in seconds since 1970.
fn left(expires: f64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if expires > now { format!("valid for {}", span(Seconds(expires - now))) } else { "expired".to_owned() }
}

/// The counters of these rows that are not zero, each after its word.
fn words(counters: &Counters, rows: &[CounterRow]) -> String {
    let one = |row: &CounterRow| {
        let value = counters.get(row.name).filter(|value| value.number() > 0.0)?;
        let shown = if row.name.ends_with("_seconds") { span(Seconds(value.number())) } else { value.to_string() };
        row.title.map(|(_, word)| format!("{word} {shown}"))
    };
    rows.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

/// The text for the workers and edges of a server.
pub fn processes(answer: &Processes) -> String {
    let heads = ["PROCESS", "PID", "GENERATION", "STATE", "AGE", "CONNECTIONS", "REQUESTS"].map(str::to_owned);
    let row = |process: &Process| {
        let Process { kind, app, number, pid, generation, state, age, connections, requests } = process;
        let of = app.as_ref().map_or_else(String::new, |app| format!(" of {}", harmless(app)));
        let name = format!("{} {number}{of}", harmless(kind));
        let generation = or_none(generation.map(|generation| generation.to_string()));
        [name, pid.to_string(), generation, harmless(state), span(*age), connections.to_string(), requests.to_string()]
    };
    let rows: Vec<_> = std::iter::once(heads).chain(answer.processes.iter().map(row)).collect();
    table(&rows)
}

/// The text for the requests in a server.
pub fn requests(answer: &Requests) -> String {
    let heads = ["STATE", "AGE", "QUIET", "DEADLINE", "WORKER", "PID", "CLIENT", "REQUEST"].map(str::to_owned);
    let row = |request: &Request| {
        let state = harmless(&request.state);
        let state = request.position.map_or_else(|| state.clone(), |position| format!("{state} {position}"));
        let [age, quiet, deadline] = [Some(request.age), request.quiet, request.deadline].map(|time| or_none(time.map(span)));
        let of = request.app.as_ref().map_or_else(String::new, |app| format!(" of {}", harmless(app)));
        let worker = or_none(request.worker.map(|worker| worker.to_string())) + &of;
        let pid = or_none(request.pid.map(|pid| pid.to_string()));
        let client = or_none(Some(harmless(&request.client)).filter(|client| !client.is_empty()));
        let about = format!("{} {}", harmless(&request.method), harmless(&request.target));
        [state, age, quiet, deadline, worker, pid, client, about]
    };
    if answer.requests.is_empty() {
        return "no requests\n".to_owned();
    }
    let rows: Vec<_> = std::iter::once(heads).chain(answer.requests.iter().map(row)).collect();
    let more = match answer.more {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    table(&rows) + &more
}

/// The text for a reload or an upgrade.
pub fn changed(answer: &Changed) -> String {
    format!("{}\n", harmless(&answer.message))
}

/// The text for the number of responses that were removed.
pub fn purged(answer: Purged) -> String {
    format!("removed {}\n", counted(usize::try_from(answer.responses).unwrap_or(usize::MAX), "response"))
}

/// The text for a new number of workers.
pub fn scaled(answer: Scaled) -> String {
    format!("workers: {} (before: {})\n", answer.workers, answer.before)
}

/// The text for the end of a server.
pub fn stopped(answer: Stopped) -> String {
    let text = if answer.status == 0 { "stopped\n" } else { "stopped; requests had to be cut off\n" };
    text.to_owned()
}

/// A cell of a table; a dash without a value.
fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Aligns the columns of rows.
fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Returns the text with U+FFFD in place of control characters and of characters that change the direction of text. Texts of
/// requests need this, because they come from clients.
pub fn harmless(text: &str) -> String {
    text.chars().map(|character| if is_plain(character) { character } else { '\u{fffd}' }).collect()
}

/// Like [`harmless`], for each line of a text: the reason of a failure may have several.
pub fn harmless_lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

fn plural(number: u64, noun: &str) -> String {
    counted(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// A time in a suitable unit.
pub fn span(Seconds(seconds): Seconds) -> String {
    let whole = seconds as u64;
    match whole {
        0 => format!("{:.0} ms", seconds * 1000.0),
        1..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_control_api::CounterValue;

    #[test]
    fn spans_are_told_in_their_unit() {
        let told = [0.0123, 1.25, 61.0, 3661.0, 90_000.0].map(|seconds| span(Seconds(seconds)));
        assert_eq!(told, ["12 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(harmless("a\u{1b}[2Jb\u{9b}c\n\u{202e}"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}");
        let addresses = vec!["http://127.0.0.1:5000".to_owned(), "\u{1b}".to_owned()];
        let version = "0.1.0\u{202e}".into();
        let lines = status(&Status { state: "serving\u{7}".into(), addresses, pid: 7, version, ..Status::default() });
        assert!(lines.starts_with("server      serving\u{fffd}, pid 7, oribi 0.1.0\u{fffd}\n"), "{lines}");
        assert!(lines.contains("listening   http://127.0.0.1:5000\nlistening   \u{fffd}\n"), "{lines}");
    }

    #[test]
    fn each_line_of_a_reason_is_harmless_and_stays_a_line() {
        assert_eq!(harmless_lines("a\u{1b}[2J\n  ^\r\n\u{202e}b"), "a\u{fffd}[2J\n  ^\u{fffd}\n\u{fffd}b");
        assert_eq!(harmless_lines("one line"), "one line");
    }

    #[test]
    fn one_of_a_kind_is_no_plural() {
        let app = |workers, requests| AppState { name: "a".into(), state: "serving".into(), workers, requests };
        let of = |workers_started, apps| status(&Status { workers_started, apps, ..Status::default() });
        let lines = of(1, vec![app(1, 1)]);
        assert!(lines.contains("a: serving, 1 worker with 1 request\n"), "{lines}");
        assert!(lines.contains("started     1 worker, of which 0 failed\n"), "{lines}");
        let lines = of(2, vec![app(2, 0)]);
        assert!(lines.contains("a: serving, 2 workers with 0 requests\n"), "{lines}");
        assert!(lines.contains("started     2 workers, of which 0 failed\n"), "{lines}");
    }

    #[test]
    fn a_server_that_is_not_ready_is_described_by_its_state_and_the_reason() {
        assert_eq!(health(&Health::READY), "ready\n");
        assert_eq!(health(&Health::not_ready("alive\u{7}", "a\nb")), "not ready (alive\u{fffd}): a\u{fffd}b\n");
        assert_eq!(health(&Health::not_ready("hung", "")), "not ready (hung)\n");
    }

    #[test]
    fn only_what_has_happened_is_told() {
        let values = vec![
            ("responses_2xx".into(), CounterValue::Count(7)),
            ("responses_4xx".into(), CounterValue::Count(0)),
            ("requests_queued".into(), CounterValue::Count(7)),
            ("queue_wait_seconds".into(), CounterValue::Time(Seconds(1.25))),
        ];
        let lines = status(&Status { counters: Counters { values, ..Counters::default() }, ..Status::default() });
        assert!(lines.contains("responses   2xx 7\nqueue       queued 7, waited 1.2 s\n"), "{lines}");
        assert!(!lines.contains("upgrades") && !lines.contains("open") && !lines.contains("certificate"), "{lines}");
    }

    #[test]
    fn open_connections_and_certificates_are_told_if_there_are_any() {
        let connections = Connections { reading: 3, idle: 5000, http1: 5001, http2: 2, ..Connections::default() };
        let certificate = |name: &str, expires| Certificate { name: name.to_owned(), expires };
        let certificates = vec![certificate("a.example", 7), certificate("b", 9_000_000_000_000)];
        let lines = status(&Status { connections, certificates, ..Status::default() });
        assert!(lines.contains("\nopen        3 reading, 5000 idle (2 with HTTP/2)\n"), "{lines}");
        assert!(lines.contains("\ncertificate a.example, expired\ncertificate b, valid for 10"), "{lines}");
    }

    #[test]
    fn a_cell_without_a_value_is_a_dash() {
        let running = Request {
            state: "running".into(),
            method: "GET".to_owned(),
            target: "/a".to_owned(),
            client: "192.0.2.1:9\u{1b}".to_owned(),
            age: Seconds(2.7),
            quiet: Some(Seconds(2.6)),
            pid: Some(77),
            worker: Some(1),
            ..Request::default()
        };
        let queued = Request { state: "queued".into(), position: Some(1), age: Seconds(0.5), ..Request::default() };
        assert_eq!(
            requests(&Requests { requests: vec![running, queued], more: 2 }),
            "STATE     AGE     QUIET  DEADLINE  WORKER  PID  CLIENT        REQUEST\n\
             running   2.7 s   2.6 s  -         1       77   192.0.2.1:9\u{fffd}  GET /a\n\
             queued 1  500 ms  -      -         -       -    -\n\
             and 2 more\n"
        );
        assert_eq!(requests(&Requests::default()), "no requests\n");
        let worker = Process { kind: "worker".into(), number: 2, pid: 77, state: "ready".into(), ..Process::default() };
        assert_eq!(
            processes(&Processes { processes: vec![worker] }),
            "PROCESS   PID  GENERATION  STATE  AGE   CONNECTIONS  REQUESTS\n\
             worker 2  77   -           ready  0 ms  0            0\n"
        );
    }

    #[test]
    fn changes_are_told_in_a_line() {
        assert_eq!(changed(&Changed { message: "generation 2\n".to_owned() }), "generation 2\u{fffd}\n");
        assert_eq!(scaled(Scaled { workers: 3, before: 2 }), "workers: 3 (before: 2)\n");
        let ends = [0, 1].map(|status| stopped(Stopped { status }));
        assert_eq!(ends, ["stopped\n", "stopped; requests had to be cut off\n"]);
    }
}
