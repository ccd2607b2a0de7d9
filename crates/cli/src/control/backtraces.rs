//! Formats the positions of apps as readable text.

use super::tables::{harmless, span};
use oribi_control_api::{Backtraces, Request, ThreadBacktrace, WorkerBacktrace};

/// The text for all workers in a response.
pub fn of(answer: &Backtraces) -> String {
    let workers: Vec<String> = answer.workers.iter().map(worker).collect();
    if workers.is_empty() { "no workers\n".to_owned() } else { workers.join("\n") }
}

/// Formats a worker with its requests, then each of its threads with the frames of the thread.
fn worker(worker: &WorkerBacktrace) -> String {
    let generation = worker.generation.map_or_else(String::new, |generation| format!(", generation {generation}"));
    let app = worker.app.as_ref().map_or_else(String::new, |app| format!(" of {}", harmless(app)));
    let mut lines = format!("worker {}{app}, pid {}{generation}, {}\n", worker.number, worker.pid, harmless(&worker.state));
    if !worker.note.is_empty() {
        lines.push_str(&format!("  {}: {}\n", harmless(&worker.trace), harmless(&worker.note)));
    }
    for Request { state, method, target, client, age, .. } in worker.requests.iter().flatten() {
        let client = if client.is_empty() { String::new() } else { format!(" of {}", harmless(client)) };
        let (about, state) = (format!("{} {}", harmless(method), harmless(target)), harmless(state));
        lines.push_str(&format!("  request {about}{client}, {state}, for {}\n", span(*age)));
    }
    worker.threads.iter().for_each(|one| lines.push_str(&thread(one)));
    match worker.more {
        0 => {}
        more => lines.push_str(&format!("  and {more} more threads\n")),
    }
    lines
}

fn thread(thread: &ThreadBacktrace) -> String {
    let mut line = format!("  thread {}", thread.thread);
    let ThreadBacktrace { name, state, call, place, .. } = thread;
    for (before, text, after) in [(" (", name, ")"), (", ", state, ""), (" in ", call, ""), (" (", place, ")")] {
        if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
            line.push_str(&format!("{before}{}{after}", harmless(text)));
        }
    }
    if !thread.request.is_empty() {
        line.push_str(&format!(": {}", harmless(&thread.request)));
    }
    line.push('\n');
    for frame in thread.frames.iter().flatten() {
        line.push_str(&format!("    {}\n", harmless(frame)));
    }
    match thread.left_out.unwrap_or_default() {
        0 => {}
        more => line.push_str(&format!("    and {more} more frames\n")),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_control_api::Seconds;

    #[test]
    fn workers_are_told_with_requests_threads_and_frames_and_nothing_that_a_terminal_obeys() {
        let thread = ThreadBacktrace {
            thread: 5,
            name: Some("perl".to_owned()),
            state: Some("running".to_owned()),
            request: "GET /\u{1b}[2J".to_owned(),
            frames: Some(vec!["a.psgi:3 in main::x\u{9b}".to_owned(), "a.psgi:9".to_owned()]),
            left_out: Some(2),
            ..ThreadBacktrace::default()
        };
        let request = Request {
            state: "running".into(),
            method: "GET".to_owned(),
            target: "/a".to_owned(),
            client: "192.0.2.1:9".to_owned(),
            age: Seconds(2.7),
            ..Request::default()
        };
        let told = WorkerBacktrace {
            number: 1,
            pid: 5,
            generation: Some(2),
            state: "ready".into(),
            trace: "told".into(),
            requests: Some(vec![request]),
            threads: vec![thread],
            ..WorkerBacktrace::default()
        };
        let asleep = ThreadBacktrace {
            thread: 6,
            state: Some("sleeping".to_owned()),
            call: Some("select".to_owned()),
            place: Some("do_select".to_owned()),
            ..ThreadBacktrace::default()
        };
        let silent = WorkerBacktrace {
            number: 2,
            pid: 6,
            state: "ready".into(),
            trace: "waits".into(),
            note: "not asked".to_owned(),
            threads: vec![asleep],
            more: 3,
            ..WorkerBacktrace::default()
        };
        let lines = of(&Backtraces { workers: vec![told, silent] });
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
        assert_eq!(of(&Backtraces::default()), "no workers\n");
    }
}
