//! Formats the positions of apps as readable text.

use super::tables::{list, number, span, text};
use serde_json::Value;

/// The text for all workers in a response.
pub fn of(answer: &Value) -> String {
    let workers: Vec<String> = list(answer, "workers").iter().map(worker).collect();
    if workers.is_empty() { "no workers\n".to_owned() } else { workers.join("\n") }
}

/// A worker with its requests, and its threads with their frames.
pub fn worker(worker: &Value) -> String {
    let generation = match text(worker, "generation") {
        none if none.is_empty() => none,
        generation => format!(", generation {generation}"),
    };
    let [name, pid, state] = ["number", "pid", "state"].map(|name| text(worker, name));
    let mut lines = format!("worker {name}, pid {pid}{generation}, {state}\n");
    let note = text(worker, "note");
    if !note.is_empty() {
        lines.push_str(&format!("  {}: {note}\n", text(worker, "trace")));
    }
    for request in list(worker, "requests") {
        let [state, method, target, client] = ["state", "method", "target", "client"].map(|name| text(request, name));
        let client = if client.is_empty() { client } else { format!(" of {client}") };
        lines.push_str(&format!("  request {method} {target}{client}, {state}, for {}\n", span(number(request, "age"))));
    }
    list(worker, "threads").iter().for_each(|value| lines.push_str(&thread(value)));
    match number(worker, "more") as u64 {
        0 => {}
        more => lines.push_str(&format!("  and {more} more threads\n")),
    }
    lines
}

fn thread(thread: &Value) -> String {
    let [id, name, state, call, place, request] =
        ["thread", "name", "state", "call", "place", "request"].map(|name| text(thread, name));
    let mut line = format!("  thread {id}");
    for (before, what, after) in [(" (", name, ")"), (", ", state, ""), (" in ", call, ""), (" (", place, ")")] {
        if !what.is_empty() {
            line.push_str(&format!("{before}{what}{after}"));
        }
    }
    if !request.is_empty() {
        line.push_str(&format!(": {request}"));
    }
    line.push('\n');
    for frame in list(thread, "frames") {
        line.push_str(&format!("    {}\n", super::tables::harmless(frame.as_str().unwrap_or_default())));
    }
    match number(thread, "left_out") as u64 {
        0 => {}
        more => line.push_str(&format!("    and {more} more frames\n")),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_told_with_requests_threads_and_frames_and_nothing_that_a_terminal_obeys() {
        let thread = serde_json::json!({ "thread": 5, "name": "perl", "state": "running", "request": "GET /\u{1b}[2J",
            "frames": ["a.psgi:3 in main::x\u{9b}", "a.psgi:9"], "left_out": 2 });
        let request =
            serde_json::json!({ "state": "running", "method": "GET", "target": "/a", "client": "192.0.2.1:9", "age": 2.7 });
        let told = serde_json::json!({ "number": 1, "pid": 5, "generation": 2, "state": "ready", "trace": "told",
            "requests": [request], "threads": [thread], "more": 0 });
        let asleep = serde_json::json!({ "thread": 6, "state": "sleeping", "call": "select", "place": "do_select" });
        let silent = serde_json::json!({ "number": 2, "pid": 6, "state": "ready", "trace": "waits", "note": "not asked",
            "threads": [asleep], "more": 3 });
        let lines = of(&serde_json::json!({ "ok": true, "workers": [told, silent] }));
        assert_eq!(
            lines,
            "worker 1, pid 5, generation 2, ready\n  \
               request GET /a of 192.0.2.1:9, running, for 2.7 s\n  \
               thread 5 (perl), running: GET /\u{fffd}[2J\n    \
                 a.psgi:3 in main::x\u{fffd}\n    \
                 a.psgi:9\n    \
                 and 2 more frames\n\n\
             worker 2, pid 6, ready\n  \
               waits: not asked\n  \
               thread 6, sleeping in select (do_select)\n  \
               and 3 more threads\n"
        );
        assert_eq!(of(&serde_json::json!({ "ok": true })), "no workers\n");
    }
}
