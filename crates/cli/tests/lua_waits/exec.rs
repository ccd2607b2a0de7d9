//! Processes that scripts run.

use super::{answer, body, content, ends, wait_for};
use crate::lua_directory::{PATIENCE, Server, TestDirectory};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const APP: &str = include_str!("exec.lua");

fn serve(place: &TestDirectory, arguments: &[&str]) -> Server {
    place.file("app.lua", APP);
    place.serve(&[&["app.lua"], arguments].concat())
}

/// The numbers that processes have written, once they have.
fn pids(place: &TestDirectory) -> Vec<String> {
    let start = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(place.0.join("pids")) {
            fs::remove_file(place.0.join("pids")).expect("it is there");
            return text.split_whitespace().map(str::to_owned).collect();
        }
        assert!(start.elapsed() < PATIENCE, "no process has started: {}", place.log());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs: neither has it ended, nor does it only wait for its parent.
fn runs(process: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[track_caller]
fn wait_for_ends(place: &TestDirectory, processes: &[String]) {
    let start = Instant::now();
    while processes.iter().any(|process| runs(process)) {
        assert!(start.elapsed() < PATIENCE, "processes go on: {processes:?}: {}", place.log());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn processes_run_with_and_without_waiting() {
    for concurrency in ["100", "1"] {
        let place = TestDirectory::new();
        let mut server = serve(&place, &["--concurrency", concurrency]);
        let expected = "ok|3|nil|out\n|err\n\nok|nil|15||\nok|0|nil|a b,$HOME;`c`,|\nok|0|nil|word|\nok|0|nil||\nok|0|nil||\n\
                        ok|0|nil|/\n|\nok|0|nil|ONLY=this\n|\ncannot run no-such-program: no such file or directory|nil|nil||\n\
                        cannot run true: no such file or directory|nil|nil||\ntimeout|nil|9|begun\n|\n\
                        too much output|nil|9|xxxxxxxxx\nxxxxxxxxx\n|\ntimeout|nil|9||";
        assert_eq!(body(&place, "/basics"), expected, "{}", place.log());
        assert_eq!(body(&place, "/large"), "true");
        let misused = "false a list of a program and its arguments expected\n\
                       false a list of a program and its arguments expected\nfalse no option std\n\
                       false stdin must be a string\nfalse max_output must be a number of bytes";
        assert_eq!(body(&place, "/misused"), misused);
        assert_eq!(body(&place, "/signals"), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
        assert_eq!(body(&place, "/left"), "0", "descriptors");
        // Processes that a program leaves in its group end with it.
        assert_eq!(body(&place, "/leaves"), "ok|0|nil||");
        wait_for_ends(&place, &pids(&place));
        server.terminate();
        ends(&place, &mut server);
    }
}

#[test]
fn processes_have_no_descriptors_of_the_worker() {
    // One that libraries have left open for all programs.
    let left = fs::File::open("/dev/null").expect("it is there");
    for edge in ["on", "off"] {
        let place = TestDirectory::new();
        fcntl_setfd(&left, FdFlags::empty()).expect("it is open");
        let _server = serve(&place, &["--concurrency", "100", "--edge", edge, "--listen", "127.0.0.1:0"]);
        fcntl_setfd(&left, FdFlags::CLOEXEC).expect("it is open");
        assert_eq!(body(&place, "/descriptors"), "0\n1\n2\n");
    }
}

#[test]
fn processes_run_beside_each_other() {
    let place = TestDirectory::new();
    let _server = serve(&place, &["--concurrency", "100"]);
    let connection = place.ask("/beside");
    assert_eq!(body(&place, "/gone"), "0", "the worker is free");
    place.file("go", "");
    assert_eq!(content(&answer(connection)), "1 2 3 4 5 6 7 8 9 10");
}

#[test]
fn processes_end_with_their_clients() {
    for edge in ["on", "off"] {
        let place = TestDirectory::new();
        let _server = serve(&place, &["--concurrency", "100", "--edge", edge]);
        let client = place.ask("/hold");
        let processes = pids(&place);
        assert!(processes.iter().all(|process| runs(process)), "{processes:?}");
        client.shutdown(std::net::Shutdown::Both).expect("open");
        drop(client);
        wait_for_ends(&place, &processes);
        wait_for(&place, "/gone", "1");
    }
}

#[test]
fn processes_end_with_the_time_of_their_requests() {
    for (concurrency, edge) in [("100", "on"), ("1", "on"), ("1", "off")] {
        let place = TestDirectory::new();
        let arguments = ["--concurrency", concurrency, "--edge", edge, "--request-timeout", "500ms"];
        let _server = serve(&place, &arguments);
        let status = place.get("/hold");
        assert!(status.starts_with("HTTP/1.1 504 "), "{concurrency} {edge}: {status}");
        wait_for_ends(&place, &pids(&place));
    }
}

#[test]
fn processes_end_with_their_worker() {
    let place = TestDirectory::new();
    let mut server = serve(&place, &["--concurrency", "100"]);
    let _client = place.ask("/hold");
    let processes = pids(&place);
    let text = fs::read_to_string(format!("/proc/{}/stat", processes[0])).expect("it runs");
    let parent = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)).expect("a parent");
    let parent = parent.parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(parent, Signal::KILL).expect("it runs");
    wait_for_ends(&place, &processes[..1]);
    let other = processes[1].parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(other, Signal::KILL).expect("nobody else ends it");
    assert_eq!(body(&place, "/background"), "spawned");
    let processes = pids(&place);
    server.terminate();
    wait_for_ends(&place, &processes);
    ends(&place, &mut server);
}
