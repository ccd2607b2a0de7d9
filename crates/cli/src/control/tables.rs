//! Formats responses as readable text.

use oribi_server::log::is_plain;
use oribi_server::{COUNTER_ROWS, CounterRow};
use serde_json::Value;
use std::time::SystemTime;

/// The text for the response to an order.
pub fn of(order: &str, answer: &Value) -> String {
    match order {
        "status" => status(answer),
        "workers" => workers(answer),
        "requests" => requests(answer),
        "scale" => format!("workers: {} (before: {})\n", text(answer, "workers"), text(answer, "before")),
        "reload" | "upgrade" => format!("{}\n", text(answer, "message")),
        "stop" => match text(answer, "status").as_str() {
            "0" => "stopped\n".to_owned(),
            _ => "stopped; requests had to be cut off\n".to_owned(),
        },
        _ => "done\n".to_owned(),
    }
}

fn status(answer: &Value) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push_str(&format!("{name:<12}{value}\n"));
        }
    };
    let app = text(answer, "app");
    line("server", &format!("{}, pid {}, oribi {}", text(answer, "state"), text(answer, "pid"), text(answer, "version")));
    line("app", &app);
    line("since", &span(number(answer, "uptime")));
    for address in list(answer, "addresses") {
        line("listening", &harmless(address.as_str().unwrap_or_default()));
    }
    for generation in list(answer, "generations") {
        let (name, state) = (text(generation, "number"), text(generation, "state"));
        let (pid, age) = (text(generation, "pid"), span(number(generation, "age")));
        line("generation", &format!("{name}: {state}, pid {pid}, for {age}"));
    }
    if number(answer, "edges") > 0.0 {
        line("edges", &text(answer, "edges"));
    }
    line("workers", &format!("{} x {} threads", text(answer, "workers"), text(answer, "threads")));
    line("requests", &text(answer, "requests"));
    line(
        "started",
        &format!("{} workers, of which {} failed", text(answer, "workers_started"), text(answer, "workers_failed")),
    );
    line("open", &open(answer));
    for certificate in list(answer, "certificates") {
        line("certificate", &format!("{}, {}", text(certificate, "name"), left(number(certificate, "expires"))));
    }
    let counters = answer.get("counters").unwrap_or(&Value::Null);
    for rows in COUNTER_ROWS.chunk_by(|one, next| one.title.map(|(line, _)| line) == next.title.map(|(line, _)| line)) {
        if let Some((title, _)) = rows[0].title {
            line(title, &words(counters, rows));
        }
    }
    lines
}

/// The open connections by state; empty without connections.
fn open(answer: &Value) -> String {
    const STATES: [&str; 5] = ["reading", "answering", "sending", "idle", "lingering"];
    let connections = answer.get("connections").unwrap_or(&Value::Null);
    let one = |state: &&str| (number(connections, state) > 0.0).then(|| format!("{} {state}", text(connections, state)));
    let states = STATES.iter().filter_map(one).collect::<Vec<_>>().join(", ");
    let others = [("http2", "HTTP/2"), ("fastcgi", "FastCGI")];
    let one = |(name, words): &(&str, &str)| {
        (number(connections, name) > 0.0).then(|| format!("{} with {words}", text(connections, name)))
    };
    let others = others.iter().filter_map(one).collect::<Vec<_>>().join(", ");
    if others.is_empty() { states } else { format!("{states} ({others})") }
}

/// The time until a certificate expires, at `expires` seconds since 1970.
fn left(expires: f64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if expires > now { format!("valid for {}", span(expires - now)) } else { "expired".to_owned() }
}

/// The counters of these rows that are not zero, each after its word.
fn words(counters: &Value, rows: &[CounterRow]) -> String {
    let one = |row: &CounterRow| {
        let value = number(counters, row.name);
        let shown = if row.name.ends_with("_seconds") { span(value) } else { text(counters, row.name) };
        row.title.filter(|_| value > 0.0).map(|(_, word)| format!("{word} {shown}"))
    };
    rows.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn workers(answer: &Value) -> String {
    let heads = ["PROCESS", "PID", "GENERATION", "STATE", "AGE", "CONNECTIONS", "REQUESTS"].map(str::to_owned);
    let row = |process: &Value| {
        let name = format!("{} {}", text(process, "kind"), text(process, "number"));
        let (generation, age) = (text(process, "generation"), span(number(process, "age")));
        let generation = if generation.is_empty() { "-".to_owned() } else { generation };
        let [pid, state, connections, requests] = ["pid", "state", "connections", "requests"].map(|name| text(process, name));
        [name, pid, generation, state, age, connections, requests]
    };
    let rows: Vec<_> = std::iter::once(heads).chain(list(answer, "processes").iter().map(row)).collect();
    table(&rows)
}

fn requests(answer: &Value) -> String {
    let heads = ["STATE", "AGE", "QUIET", "DEADLINE", "WORKER", "PID", "CLIENT", "REQUEST"].map(str::to_owned);
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let time = |value: Option<&Value>| value.and_then(Value::as_f64).map_or_else(String::new, span);
    let row = |request: &Value| {
        let (state, position) = (text(request, "state"), text(request, "position"));
        let state = if position.is_empty() { state } else { format!("{state} {position}") };
        let [age, quiet, deadline] = ["age", "quiet", "deadline"].map(|name| or_none(time(request.get(name))));
        let [worker, pid, client] = ["worker", "pid", "client"].map(|name| or_none(text(request, name)));
        let about = format!("{} {}", text(request, "method"), text(request, "target"));
        [state, age, quiet, deadline, worker, pid, client, about]
    };
    let rows: Vec<_> = std::iter::once(heads).chain(list(answer, "requests").iter().map(row)).collect();
    let more = match number(answer, "more") as u64 {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    if rows.len() == 1 { "no requests\n".to_owned() } else { table(&rows) + &more }
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

pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

/// A value without its quotes; empty without a value.
pub fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => harmless(text),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// A text without control characters and characters that change the direction of text, because parts of it come from
/// clients.
pub fn harmless(text: &str) -> String {
    text.chars().map(|character| if is_plain(character) { character } else { '\u{fffd}' }).collect()
}

/// A time in a suitable unit.
pub fn span(seconds: f64) -> String {
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

    #[test]
    fn spans_are_told_in_their_unit() {
        let told = [0.0123, 1.25, 61.0, 3661.0, 90_000.0].map(span);
        assert_eq!(told, ["12 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(harmless("a\u{1b}[2Jb\u{9b}c\n\u{202e}"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}");
        let answer = serde_json::json!({ "ok": true, "state": "serving\u{7}", "addresses": ["http://127.0.0.1:5000"] });
        let lines = status(&answer);
        assert!(lines.starts_with("server      serving\u{fffd}, pid , "), "{lines}");
        assert!(lines.contains("listening   http://127.0.0.1:5000\n"), "{lines}");
    }

    #[test]
    fn only_what_has_happened_is_told() {
        let counters =
            serde_json::json!({ "responses_2xx": 7, "responses_4xx": 0, "requests_queued": 7, "queue_wait_seconds": 1.25 });
        let lines = status(&serde_json::json!({ "ok": true, "counters": counters }));
        assert!(lines.contains("responses   2xx 7\nqueue       queued 7, waited 1.2 s\n"), "{lines}");
        assert!(!lines.contains("upgrades") && !lines.contains("open") && !lines.contains("certificate"), "{lines}");
    }

    #[test]
    fn open_connections_and_certificates_are_told_if_there_are_any() {
        let connections = serde_json::json!({ "reading": 3, "answering": 0, "idle": 5000, "http1": 5001, "http2": 2 });
        let certificates = serde_json::json!([{ "name": "a.example", "expires": 7 }, { "name": "b", "expires": 9e12 }]);
        let lines = status(&serde_json::json!({ "ok": true, "connections": connections, "certificates": certificates }));
        assert!(lines.contains("\nopen        3 reading, 5000 idle (2 with HTTP/2)\n"), "{lines}");
        assert!(lines.contains("\ncertificate a.example, expired\ncertificate b, valid for 10"), "{lines}");
    }
}
