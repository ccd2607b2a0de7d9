use super::*;
use crate::top::controls::Reach;
use crate::top::keys::Key;
use crate::top::picture::text;
use crate::top::resources::Usage;
use crate::top::snapshot::Snapshot;
use oribi_control_api::{
    Answer, Bucket, CounterValue, Counters, Generation, Histogram, Process, Processes, Request, Requests, Seconds, Status,
    Times,
};
use std::collections::HashMap;
use std::time::Duration;

/// Returns the responses of a server with this number of workers, after `seconds`. The first two workers are busy.
fn answers(seconds: u64, workers: usize, target: &str) -> (Status, Processes, Answer<Requests>) {
    let counts = [
        ("responses_2xx", seconds * 1000),
        ("responses_5xx", seconds),
        ("bytes_sent", seconds * 2_000_000),
        ("requests_queued", seconds * 1000),
    ];
    let times = [("queue_wait_seconds", seconds as f64 * 12.0), ("queue_longest_wait_seconds", 3.25)];
    let counts = counts.map(|(name, count)| (name.into(), CounterValue::Count(count)));
    let times = times.map(|(name, time)| (name.into(), CounterValue::Time(Seconds(time))));
    let counters = Counters { seconds: Seconds(seconds as f64), values: counts.into_iter().chain(times).collect() };
    let bucket = |bound, count| Bucket { bound: Some(bound), count: count * seconds };
    let buckets = vec![bucket(0.0025, 900), bucket(0.03, 80), bucket(1.5, 20)];
    let status = Status {
        version: "0.1.0".into(),
        pid: 100,
        app: "shop.psgi".to_owned(),
        state: "serving".into(),
        uptime: Seconds(seconds as f64),
        addresses: vec!["http://127.0.0.1:5000".to_owned()],
        generations: vec![Generation { number: 2, state: "serving".into(), ..Generation::default() }],
        edges: 1,
        workers,
        threads: 1,
        counters,
        times: Times { total: Histogram { buckets, ..Histogram::default() }, ..Times::default() },
        ..Status::default()
    };
    let edge = Process {
        kind: "edge".into(),
        app: None,
        number: 1,
        pid: 150,
        generation: None,
        state: "ready".into(),
        age: Seconds(seconds as f64),
        connections: 16,
        requests: 7,
    };
    let worker = |number: usize| Process {
        kind: "worker".into(),
        number,
        pid: 200 + number as u32,
        generation: Some(2),
        connections: 0,
        requests: seconds * 10 * number as u64,
        ..edge.clone()
    };
    let processes = std::iter::once(edge.clone()).chain((1..=workers).map(worker)).collect();
    let running = Request {
        state: "running".into(),
        method: "GET".to_owned(),
        target: target.to_owned(),
        client: "192.0.2.1:9".to_owned(),
        age: Seconds(2.5),
        quiet: Some(Seconds(2.5)),
        deadline: Some(Seconds(27.5)),
        pid: Some(201),
        worker: Some(1),
        ..Request::default()
    };
    let interrupted = Request {
        state: "interrupted".into(),
        method: "POST".to_owned(),
        target: "/cart?...".to_owned(),
        age: Seconds(31.0),
        pid: Some(202),
        worker: Some(2),
        ..Request::default()
    };
    let queued = Request {
        state: "queued".into(),
        position: Some(1),
        method: "GET".to_owned(),
        target: "/b".to_owned(),
        client: "192.0.2.2:9".to_owned(),
        age: Seconds(0.5),
        deadline: Some(Seconds(29.5)),
        ..Request::default()
    };
    let requests = Answer::Done(Requests { requests: vec![running, interrupted, queued], more: 4 });
    (status, Processes { processes }, requests)
}

fn model_of(workers: usize, target: &str) -> Model {
    let mut model = Model::default();
    for second in 0..=12 {
        let (status, processes, requests) = answers(100 + second, workers, target);
        let usage = HashMap::from([(201, Usage { cpu: Some(99.5), memory: Some(36 << 20) })]);
        model.take(Snapshot::of(&status, &processes, &requests), usage);
    }
    model
}

fn drawn(model: &Model, controls: &Controls, width: usize, height: Option<usize>) -> String {
    let lines = picture(model, controls, Size { width, height });
    assert!(lines.iter().all(|line| line.width() <= width), "{}", text(&lines));
    assert!(height.is_none_or(|height| lines.len() == height), "{}", text(&lines));
    text(&lines)
}

fn plain() -> Controls {
    Controls::new(Duration::from_secs(1))
}

#[test]
fn a_terminal_of_80_columns_shows_what_matters() {
    let expected = "\
oribi 0.1.0 serving  shop.psgi  pid 100  up 1m52s  http://127.0.0.1:5000
generation 2 serving  1 edge  3 workers x 1 thread  2 of 3 threads busy
queue 5, oldest 500ms, longest ever 3.2s
 LAST REQ/S   2XX   4XX   5XX   P50   P99  WAIT  LOST TIMEOUTS RESTARTS
   1s  1001  1000     0   1.0 2.5ms  1.5s  12ms     0        0        0
  10s  1001  1000     0   1.0 2.5ms  1.5s  12ms     0        0        0
  12s  1001  1000     0   1.0 2.5ms  1.5s  12ms     0        0        0

PROCESS^     PID STATE       AGE REQUESTS REQ/S  CPU%   PSS   FOR RUNS
edge 1       150 ready     1m52s        7     0     -     -
worker 1     201 ready     1m52s     1120    10  99.5 36.0M  2.5s GET /a
worker 2     202 ready     1m52s     2240    20     -     -   31s POST /cart?...
worker 3     203 ready     1m52s     3360    30     -     -

STATE         AGEv  QUIET DEADLINE WORKER CLIENT      REQUEST
interrupted    31s      -        -      2 -           POST /cart?...
running       2.5s   2.5s      28s      1 192.0.2.1:9 GET /a
queued 1     500ms      -      30s      - 192.0.2.2:9 GET /b
and 4 more




q quit  ? help  Tab tables  s sort  r reverse  / filter  p pause  +- every 1 s
";
    assert_eq!(drawn(&model_of(3, "/a"), &plain(), 80, Some(24)), expected);
}

#[test]
fn a_terminal_of_40_columns_and_10_lines_shows_who_does_what() {
    let expected = "\
oribi 0.1.0 serving  shop.psgi  pid 100
up 1m52s  http://127.0.0.1:5000
PROCESS^  STATE      FOR RUNS
edge 1    ready
and 39 more
STATE         AGEv WORKER REQUEST
interrupted    31s      2 POST /cart?...
running       2.5s      1 GET /a
and 5 more
q quit  ? help  Tab tables  s sort  r re
";
    assert_eq!(drawn(&model_of(39, "/a"), &plain(), 40, Some(10)), expected);
}

#[test]
fn a_terminal_of_200_columns_and_60_lines_shows_everything() {
    let text = drawn(&model_of(40, "/a"), &plain(), 200, Some(60));
    for part in [
        " LAST REQ/S   1XX   2XX   3XX   4XX   5XX  IN/S OUT/S CONN/S   P50   P95   P99  WAIT  LOST TIMEOUTS RESTARTS\n",
        "PROCESS^     PID GEN STATE       AGE CONN REQUESTS REQ/S  CPU%   PSS   FOR CLIENT      RUNS\n",
        "worker 1     201   2 ready     1m52s    0     1120    10  99.5 36.0M  2.5s 192.0.2.1:9 GET /a\n",
        "worker 40    240   2 ready     1m52s    0    44800   400     -     -\n",
        "STATE         AGEv  QUIET DEADLINE WORKER CLIENT      REQUEST\n",
        "queued 1     500ms      -      30s      - 192.0.2.2:9 GET /b\nand 4 more\n",
    ] {
        assert!(text.contains(part), "{part}{text}");
    }
}

#[test]
fn every_size_has_its_picture() {
    let model = model_of(40, "/a");
    for width in [1, 2, 10, 40, 79, 80, 120, 200, 500] {
        for height in [1, 2, 3, 5, 10, 12, 18, 24, 60, 100] {
            for tables in [Tables::Both, Tables::Processes, Tables::Requests] {
                for help in [false, true] {
                    drawn(&model, &Controls { tables, help, ..plain() }, width, Some(height));
                    drawn(&Model::default(), &Controls { tables, help, ..plain() }, width, Some(height));
                }
            }
        }
    }
}

#[test]
fn what_a_client_has_written_is_no_order_to_the_terminal() {
    let model = model_of(3, "/\u{1b}]0;title\u{7}\u{9b}2J\r\n\u{202e}");
    let text = drawn(&model, &plain(), 200, Some(60));
    assert!(text.contains("GET /\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}\n"), "{text}");
    assert!(text.chars().all(|one| one == '\n' || !one.is_control()), "{text}");
}

#[test]
fn the_selected_row_stays_in_sight_and_the_filter_holds() {
    let model = model_of(40, "/a");
    let mut controls = plain();
    let pids = pids(&model, &controls);
    let press =
        |controls: &mut Controls, key| controls.press(key, Reach { pids: &pids, requests: 3, page: 5, ..Reach::default() });
    press(&mut controls, Key::End);
    let text = drawn(&model, &controls, 80, Some(24));
    assert!(text.contains("\nworker 40 ") && !text.contains("\nworker 1 "), "{text}");
    let lines = picture(&model, &controls, Size { width: 80, height: Some(24) });
    let selected: Vec<String> =
        lines.iter().filter(|line| line.filled == Some(Style::Selected)).map(StyledLine::text).collect();
    assert!(selected.len() == 1 && selected[0].starts_with("worker 40 "), "{selected:?}");
    for key in ['/', 'c', 'a', 'r', 't'] {
        press(&mut controls, Key::Char(key));
    }
    let text = drawn(&model, &controls, 80, Some(24));
    assert!(text.contains("\nworker 2 ") && !text.contains("\nworker 1 ") && text.contains("\nfilter: cart_\n"), "{text}");
    press(&mut controls, Key::Enter);
    press(&mut controls, Key::Tab);
    press(&mut controls, Key::Tab);
    let text = drawn(&model, &controls, 80, Some(24));
    assert!(text.contains("\ninterrupted ") && !text.contains("running") && !text.contains("PROCESS"), "{text}");
}

#[test]
fn requests_go_up_line_by_line() {
    let model = model_of(3, "/a");
    let controls = Controls { tables: Tables::Requests, above: 1, ..plain() };
    let text = drawn(&model, &controls, 80, Some(24));
    assert!(!text.contains("interrupted") && text.contains("\nrunning "), "{text}");
    let beyond = Controls { above: 99, ..controls };
    assert!(drawn(&model, &beyond, 80, Some(24)).contains("\nqueued 1 "));
}

#[test]
fn trouble_stands_at_the_top_of_the_last_picture() {
    let mut model = model_of(3, "/a");
    model.trouble = Some("x".repeat(100));
    let text = drawn(&model, &plain(), 80, Some(24));
    let expected = format!(
        "No answer: these are the last numbers. Retrying.\n{}\n{}\noribi 0.1.0 serving",
        "x".repeat(80),
        "x".repeat(20)
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("worker 3 "), "{text}");
}

#[test]
fn a_server_that_does_not_tell_of_requests_says_why() {
    let (status, processes, _) = answers(100, 2, "/");
    let refused = Answer::failed("requests are known with --edge on");
    let mut model = Model::default();
    model.take(Snapshot::of(&status, &processes, &refused), HashMap::new());
    let text = drawn(&model, &plain(), 80, None);
    assert!(text.ends_with("requests are known with --edge on\n"), "{text}");
    assert!(!text.contains("busy") && !text.contains("queue ") && !text.contains("LAST   REQ/S\n"), "{text}");
}

#[test]
fn a_backtrace_is_instead_of_the_tables() {
    let mut model = model_of(3, "/a");
    let mut controls = Controls { backtrace: Some(201), selected: Some(201), ..plain() };
    let shown = |model: &Model, controls: &Controls| drawn(model, controls, 40, Some(24));
    let text = shown(&model, &controls);
    assert!(text.contains("\nasking process 201 for its backtrace\n") && !text.contains("PROCESS"), "{text}");
    let frames = (1..=30).map(|frame| format!("    app.psgi:{frame} in main::frame_{frame}"));
    let lines: Vec<String> = ["worker 1, pid 201, ready".to_owned(), "x".repeat(50)].into_iter().chain(frames).collect();
    model.take_backtrace(201, Ok(lines));
    let text = shown(&model, &controls);
    let expected =
        format!("\nworker 1, pid 201, ready\n{}\n{}\n    app.psgi:1 in main::frame_1\n", "x".repeat(40), "x".repeat(10));
    assert!(text.contains(&expected) && !text.contains("frame_30"), "{text}");
    assert!(text.ends_with("\nbacktrace q quit  ? help  Esc back  b as\n"), "{text}");
    assert_eq!(backtrace::lines(&model, &controls, 40).len(), 33);
    controls.lines_above = 32;
    let text = shown(&model, &controls);
    assert!(text.contains("\n    app.psgi:30 in main::frame_30\n") && !text.contains("frame_29"), "{text}");
    controls.lines_above = 0;
    model.take_backtrace(201, Err("there is no worker 201".to_owned()));
    let text = shown(&model, &controls);
    assert!(
        text.contains("\nNo backtrace: there is no worker 201; th\ne last one follows\nworker 1, pid 201, ready\n"),
        "{text}"
    );
    controls.backtrace = Some(202);
    model.take_backtrace(202, Err("the server has not answered within 10s".to_owned()));
    assert!(drawn(&model, &controls, 80, Some(24)).contains("\nNo backtrace: the server has not answered within 10s\n\n"));
    assert_eq!(worker(&model, &Controls { above: 1, ..plain() }), Some(201), "the one that has the request");
    assert_eq!(worker(&model, &Controls { above: 2, ..plain() }), None, "that one waits");
    let text = drawn(&model, &Controls { selected: Some(201), ..plain() }, 80, Some(24));
    assert!(text.contains("\nq quit  ? help  b backtrace  / filter "), "{text}");
}

#[test]
fn help_is_instead_of_the_tables() {
    let text = drawn(&model_of(3, "/a"), &Controls { help: true, ..plain() }, 80, Some(24));
    assert!(text.contains("\np, space   pause") && !text.contains("PROCESS"), "{text}");
}
