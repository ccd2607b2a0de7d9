//! `oribi ctl health`, as a health check runs it: a server that loads, serves, is stuck, drains, hangs or has ended.

#[allow(dead_code, reason = "another test uses the rest")]
mod lua_directory;

use lua_directory::{PATIENCE, Server, TestDirectory};
use oribi_test_support::outcome::Outcome;
use oribi_test_support::waits_for;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// An app whose first load, in the first process, ends at once. Later loads, in workers, end when the file `go` is there or
/// another process has written to the FIFO `gate`. Its `/wait` waits for `gate`, too.
const APP: &str = "if io.open('once') and not io.open('go') then io.open('gate'):read('a') end\n\
                   io.open('once', 'w'):close()\n\
                   return function(request)\n\
                   if request.path == '/wait' then io.open('gate'):read('a') end\n\
                   return 200, {}, 'hello'\n\
                   end";

/// A directory with the app and its FIFO.
fn place() -> TestDirectory {
    let place = TestDirectory::new();
    place.file("app.lua", APP);
    let made = Command::new("mkfifo").arg(place.0.join("gate")).status().expect("it runs");
    assert!(made.success());
    place
}

/// Waits until the app waits for its FIFO, and lets it and all later loads go on.
fn open_gate(place: &TestDirectory) {
    let mut gate = OpenOptions::new().write(true).open(place.0.join("gate")).expect("the app reads");
    place.file("go", "");
    gate.write_all(b"go").expect("the app reads");
}

fn health(place: &TestDirectory, more: &[&str]) -> Outcome {
    place.run(&[&["ctl", "health", "--control", "control.sock"], more].concat())
}

/// Waits until the health check says `text` on standard output, and returns its exit status.
#[track_caller]
fn wait_for(place: &TestDirectory, text: &str) -> Option<i32> {
    until(|| {
        let outcome = health(place, &[]);
        if outcome.out == text { Ok(outcome.status) } else { Err(outcome.out + &outcome.err) }
    })
}

/// Tries again until there is a result.
#[track_caller]
fn until<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(last) => assert!(start.elapsed() < PATIENCE, "it takes too long: {last}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A server that is ready.
fn ready(place: &TestDirectory, arguments: &[&str]) -> Server {
    place.file("go", "");
    let server = place.serve(&[&["app.lua", "--control", "control.sock"], arguments].concat());
    assert_eq!(wait_for(place, "ready\n"), Some(0));
    server
}

fn signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(process.try_into().expect("a process id")).expect("a process id");
    kill_process(process, signal).expect("it runs");
}

/// The process of the server's only edge.
fn edge(place: &TestDirectory) -> u32 {
    let workers = place.run(&["ctl", "workers", "--control", "control.sock"]).out;
    let line = workers.lines().find(|line| line.starts_with("edge 1")).expect("it has an edge");
    line.split_whitespace().nth(2).and_then(|pid| pid.parse().ok()).expect("a process id")
}

#[test]
fn a_server_is_ready_from_the_load_of_its_app_until_it_drains() {
    for shape in ["--edge=on", "--edge=off"] {
        let place = place();
        health(&place, &[]).fails(1, &["cannot reach the server"]);
        let mut server = place.serve(&["app.lua", "--control", "control.sock", "--shutdown-delay", "1h", shape]);
        assert_eq!(wait_for(&place, "not ready (loading): the app is being loaded\n"), Some(1));
        let json = health(&place, &["--json"]);
        assert_eq!(json.status, Some(1));
        assert_eq!(json.out, "{\"ok\":true,\"ready\":false,\"state\":\"loading\",\"note\":\"the app is being loaded\"}\n");
        open_gate(&place);
        assert_eq!(wait_for(&place, "ready\n"), Some(0));
        let json = health(&place, &["--json"]);
        assert_eq!((json.status, &json.out[..]), (Some(0), "{\"ok\":true,\"ready\":true,\"state\":\"ready\"}\n"));
        server.terminate();
        assert_eq!(wait_for(&place, "not ready (draining): the server is about to stop\n"), Some(1));
        // Two signals at almost the same time count as one.
        let status = until(|| {
            server.terminate();
            server.0.try_wait().expect("a child").ok_or_else(|| "it runs".to_owned())
        });
        assert!(status.success());
        health(&place, &[]).fails(1, &["cannot reach the server"]);
    }
}

#[test]
fn a_server_whose_workers_are_all_stuck_is_not_ready_as_its_probe_says() {
    let place = place();
    let _server = ready(&place, &["--edge", "on", "--probe", "/healthz"]);
    let stuck = place.ask("/wait");
    assert_eq!(wait_for(&place, "not ready (alive): workers take no requests\n"), Some(1));
    assert!(place.get("/healthz").contains("\"state\":\"alive\""));
    open_gate(&place);
    assert_eq!(wait_for(&place, "ready\n"), Some(0));
    assert!(place.get("/healthz").contains("\"state\":\"ready\""));
    drop(stuck);
}

#[test]
fn an_edge_that_hangs_is_named() {
    let place = place();
    let _server = ready(&place, &["--edge", "on"]);
    let edge = edge(&place);
    signal(edge, Signal::STOP);
    let hung = health(&place, &[]);
    let line = format!("not ready (hung): edge (pid {edge}) has not answered within 1s\n");
    assert_eq!((hung.status, hung.out), (Some(1), line));
    signal(edge, Signal::CONT);
    assert_eq!(wait_for(&place, "ready\n"), Some(0));
}

#[test]
fn a_check_of_a_server_that_hangs_ends_in_time_even_if_others_hang_before_it() {
    let place = place();
    let server = ready(&place, &[]);
    let _deadline = waits_for("a health check of a server that hangs");
    signal(server.0.id(), Signal::STOP);
    health(&place, &["--timeout", "300ms"]).fails(1, &["has not answered within 300ms"]);
    // Fills the queue of the socket: the next client cannot even connect.
    let path = place.0.join("control.sock");
    let (sender, connected) = mpsc::channel();
    // A connection stays in the queue when its client leaves.
    thread::spawn(move || while UnixStream::connect(&path).is_ok() && sender.send(()).is_ok() {});
    while connected.recv_timeout(Duration::from_secs(1)).is_ok() {}
    drop(connected);
    health(&place, &["--timeout", "300ms"]).fails(1, &["has not answered within 300ms"]);
    signal(server.0.id(), Signal::CONT);
    assert_eq!(wait_for(&place, "ready\n"), Some(0));
}

#[test]
fn a_server_without_this_order_gets_a_clear_message() {
    let place = TestDirectory::new();
    let listener = UnixListener::bind(place.0.join("control.sock")).expect("the directory is ours");
    let old = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).expect("an order");
        client.write_all(b"{\"ok\":false,\"error\":\"unknown order; the orders are: status, workers\"}\n").expect("it reads");
        line
    });
    health(&place, &[]).fails(1, &["the server is older than `oribi ctl health`", "`oribi ctl status`"]);
    assert_eq!(old.join().expect("it has answered"), "health\n");
    fs::remove_file(place.0.join("control.sock")).expect("it is there");
}

#[test]
fn the_time_for_a_check_is_above_zero() {
    let place = TestDirectory::new();
    for (time, part) in [("0", "expected a time above zero"), ("x", "expected a time such as")] {
        health(&place, &["--timeout", time]).fails(2, &[part]);
    }
}
