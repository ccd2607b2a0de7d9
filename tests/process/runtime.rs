//! Black-box tests of a supervisor and its workers, with a language runtime that makes requests to the server and has faults.
//! `roles` explains why these tests have no test harness.

use client::{Load, Manner, Target, get, get_from};
use oribi_host::{After, Host, Reply, Request, Runtime};
use oribi_io::process::{Fork, exit_now, fork};
use oribi_message::ResponseHead;
use oribi_server::config::{ListenAddress, Settings};
use oribi_test_support::{client, roles, server};
use rustix::process::{Signal, WaitOptions};
use server::{Server, runs, send, wait_for, wait_until};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn main() {
    if roles::role().is_some() {
        let settings = settings();
        let file = |name| variable(name).map(PathBuf::from);
        let (fails_while, hangs_while) = (file("ORIBI_TEST_FAILS_WHILE"), file("ORIBI_TEST_HANGS_WHILE"));
        let (lingers_while, refused_while) = (file("ORIBI_TEST_LINGERS_WHILE"), file("ORIBI_TEST_REFUSED_WHILE"));
        let (opened, worker) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let probe = Probe { opened, worker, fails_while, hangs_while, lingers_while, refused_while };
        std::process::exit(oribi_server::process::supervise(&settings, &probe));
    }
    roles::run(&[
        ("a_context_that_retires_takes_its_process_along", a_context_that_retires_takes_its_process_along),
        ("with_threads_only_the_context_retires", with_threads_only_the_context_retires),
        ("a_panic_ends_one_worker_and_is_logged", a_panic_ends_one_worker_and_is_logged),
        ("a_panic_in_one_lane_lets_the_others_finish", a_panic_in_one_lane_lets_the_others_finish),
        ("workers_that_cannot_start_end_the_first_start", workers_that_cannot_start_end_the_first_start),
        ("workers_that_cannot_start_are_tried_again_ever_later", workers_that_cannot_start_are_tried_again_ever_later),
        ("workers_stay_if_others_cannot_start", workers_stay_if_others_cannot_start),
        ("workers_stay_if_there_may_be_no_more_processes", workers_stay_if_there_may_be_no_more_processes),
        (
            "a_replacement_is_not_given_up_for_workers_of_the_one_before",
            a_replacement_is_not_given_up_for_workers_of_the_one_before,
        ),
        ("workers_that_have_served_wait_for_no_pause", workers_that_have_served_wait_for_no_pause),
        (
            "workers_that_are_killed_before_they_can_serve_are_replaced",
            workers_that_are_killed_before_they_can_serve_are_replaced,
        ),
        ("hooks_run_where_they_should", hooks_run_where_they_should),
        ("an_app_with_threads_is_refused", an_app_with_threads_is_refused),
        ("signals_to_a_child_of_an_app_are_its_own", signals_to_a_child_of_an_app_are_its_own),
        ("a_child_of_an_app_keeps_no_address", a_child_of_an_app_keeps_no_address),
        ("a_child_of_an_app_keeps_no_connection", a_child_of_an_app_keeps_no_connection),
        ("a_socket_that_was_taken_is_not_ended_because_of_a_child", a_socket_that_was_taken_is_not_ended_because_of_a_child),
    ]);
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn settings() -> Settings {
    let number = |name| variable(name).and_then(|value| value.parse().ok()).unwrap_or(1);
    let settings = Settings {
        listen: vec![ListenAddress::tcp("127.0.0.1", 0)],
        workers: number("ORIBI_TEST_WORKERS").into(),
        threads: number("ORIBI_TEST_THREADS"),
        respawn_interval: variable("ORIBI_TEST_PAUSE").map_or(Duration::from_millis(10), |_| Duration::from_secs(600)),
        ..Settings::default()
    };
    oribi_server::log::prepare(&settings).expect("standard error is there");
    if variable("ORIBI_TEST_STRAY_THREAD").is_some() {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(600)));
    }
    settings
}

/// A runtime that logs how it is called. The target of a request selects what its contexts do.
struct Probe {
    opened: AtomicUsize,
    /// The number of this worker.
    worker: AtomicUsize,
    /// While this file exists, no context can be made.
    fails_while: Option<PathBuf>,
    /// While this file exists, the creation of a context does not return.
    hangs_while: Option<PathBuf>,
    /// While this file exists, workers with even numbers that have failed do not end.
    lingers_while: Option<PathBuf>,
    /// While this file exists, the system refuses to create processes.
    refused_while: Option<PathBuf>,
}

fn is_there(file: Option<&PathBuf>) -> bool {
    file.is_some_and(|file| file.exists())
}

fn say(what: &str) {
    // In one piece: other processes also write there.
    let line = format!("{what} in {}\n", std::process::id());
    io::stderr().write_all(line.as_bytes()).expect("it is open");
}

impl Runtime for Probe {
    fn open(&self, own: bool) -> Result<Box<dyn Host>, String> {
        if is_there(self.fails_while.as_ref()) {
            if self.opened.fetch_add(1, Relaxed) > 0 {
                // Its process lives on for a while after its first lane has failed.
                std::thread::sleep(Duration::from_millis(200));
            }
            return Err("no interpreter today".to_owned());
        }
        while is_there(self.hangs_while.as_ref()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let number = self.opened.fetch_add(1, Relaxed);
        say("context");
        Ok(Box::new(Context { number, own, taken: None }))
    }

    fn fork(&self) -> Option<io::Result<u32>> {
        is_there(self.refused_while.as_ref()).then(|| Err(rustix::io::Errno::AGAIN.into()))
    }

    fn before_fork(&self, worker: usize) {
        say(&format!("before_fork {worker}"));
    }

    fn worker_started(&self, worker: usize) {
        self.worker.store(worker, Relaxed);
        say(&format!("worker_started {worker}"));
    }

    fn worker_stopping(&self, worker: usize) {
        say(&format!("worker_stopping {worker}"));
    }

    fn end(&self, status: i32) {
        say(&format!("end {status}"));
        while status != 0 && self.worker.load(Relaxed).is_multiple_of(2) && is_there(self.lingers_while.as_ref()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn server_ready(&self) {
        say("server_ready");
    }
}

struct Context {
    number: usize,
    own: bool,
    /// A socket that an app has taken, and to which it writes at the next request.
    taken: Option<File>,
}

impl Host for Context {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        assert_ne!(request.head.target(), b"/panic", "as wanted");
        if request.head.target() == b"/take" {
            return take_socket(self, reply);
        }
        let text = match request.head.target() {
            b"/fork" => fork_child().to_string(),
            b"/speak" => {
                let mut socket = self.taken.take().expect("it was taken before");
                format!("{:?}", socket.write_all(b"by the app").map_err(|error| error.kind()))
            }
            b"/wait" => format!(
                "{:?}",
                rustix::process::wait(WaitOptions::empty()).expect("there is one").map(|(_, end)| end.terminating_signal())
            ),
            _ => format!("{} {} {}", std::process::id(), self.number, self.own),
        };
        let head = ResponseHead { status: 200, fields: &[(b"Content-Type", b"text/plain")] };
        reply.send(head, &[text.as_bytes()]).expect("the client waits");
        After { retire: request.head.target() == b"/retire", ..After::default() }
    }
}

/// Answers the client on its socket, and keeps the socket, as an app may do.
fn take_socket(context: &mut Context, reply: Reply<'_>) -> After {
    let (outlet, exchange) = reply.detach();
    context.taken = Some(File::from(outlet.take_socket(exchange).expect("it can be taken")));
    outlet.abandon(exchange);
    After::default()
}

/// Forks a child that executes no program, as an app may do. Returns the id of the child.
fn fork_child() -> u32 {
    match fork().expect("this process has one thread") {
        Fork::Parent(pid) => pid.as_raw_nonzero().get().unsigned_abs(),
        Fork::Child => {
            std::thread::sleep(Duration::from_secs(600));
            exit_now(0)
        }
    }
}

fn start(workers: &str, threads: &str, more: &[(&str, &str)]) -> Server {
    let mut variables = vec![("ORIBI_TEST_WORKERS", workers), ("ORIBI_TEST_THREADS", threads)];
    variables.extend_from_slice(more);
    roles::start("server", &variables)
}

/// Returns the id of the process that answered, the number of its context, and whether this context was made for its lane.
fn who(target: &Target, path: &str) -> (u32, usize, bool) {
    let response = get_from(target, path).expect("it is answered").text;
    let (_, content) = response.split_once("\r\n\r\n").expect("it is whole");
    let mut words = content.split(' ');
    let mut next = || words.next().expect("there are three");
    (next().parse().expect("a process"), next().parse().expect("a number"), next() == "true")
}

fn a_context_that_retires_takes_its_process_along() {
    let mut server = start("1", "1", &[]);
    let target = Target::Tcp(server.address());
    let mut processes = BTreeSet::new();
    for _ in 0..5 {
        let (process, _, own) = who(&target, "/retire");
        assert!(!own, "a single lane uses what was loaded");
        processes.insert(process);
        wait_until("its end", || !runs(process));
    }
    assert_eq!(processes.len(), 5);
    let load = Load::start(&target, 4, Manner::ConnectionPerRequest);
    for _ in 0..3 {
        who(&target, "/retire");
        load.wait_for_more(50);
    }
    assert_eq!(load.stop(), Vec::<String>::new(), "others are answered all the time");
    assert!(!server.log().contains("[error]"), "{}", server.log());
}

fn with_threads_only_the_context_retires() {
    let mut server = start("1", "2", &[]);
    let target = Target::Tcp(server.address());
    let worker = server.wait_for_workers(1)[0];
    let contexts = (0..20).map(|_| {
        let (process, context, own) = who(&target, "/retire");
        assert_eq!((process, own), (worker, true));
        context
    });
    assert_eq!(contexts.collect::<BTreeSet<_>>().len(), 20, "no context answers twice");
    assert_eq!(server.workers(), [worker]);
}

fn provoke_panic(target: &Target) {
    let response = get_from(target, "/panic").expect("the request is given up in an orderly way");
    assert!(response.text.starts_with("HTTP/1.1 500 "), "{}", response.text);
}

fn a_panic_ends_one_worker_and_is_logged() {
    let mut server = start("2", "1", &[]);
    let target = Target::Tcp(server.address());
    let before = server.wait_for_workers(2);
    provoke_panic(&target);
    server.wait_for_log("panic: assertion");
    let after = wait_for("a new worker", || Some(server.workers()).filter(|now| now.len() == 2 && *now != before));
    assert!(before.iter().any(|worker| after.contains(worker)), "the other one stays");
    assert!(server.log().contains("ended with exit status 1"), "{}", server.log());
    get(&target).expect("it serves on");
}

fn a_panic_in_one_lane_lets_the_others_finish() {
    let mut server = start("1", "3", &[]);
    let target = Target::Tcp(server.address());
    let worker = server.wait_for_workers(1)[0];
    // Clients of the lane that breaks lose their requests: the one that breaks it is the only one.
    provoke_panic(&target);
    wait_until("another worker", || server.workers().first().is_some_and(|now| *now != worker));
    let load = Load::start(&target, 4, Manner::KeepAlive);
    load.wait_for_more(100);
    assert_eq!(load.stop(), Vec::<String>::new());
}

/// Waits until all `workers` workers with `threads` threads have their contexts, and returns the ids of the workers. Until
/// then, a worker may not have checked yet whether it must fail.
fn wait_for_contexts(server: &Server, workers: usize, threads: usize) -> Vec<u32> {
    wait_until("contexts", || server.log().matches("context in ").count() == workers * threads);
    server.wait_for_workers(workers)
}

/// Starts a server that cannot make contexts while `file` exists.
fn start_failing_while(file: &Path, workers: &str, threads: &str) -> Server {
    start(workers, threads, &[("ORIBI_TEST_FAILS_WHILE", file.to_str().expect("a plain name"))])
}

fn workers_that_cannot_start_end_the_first_start() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    for (workers, threads) in [("1", "1"), ("3", "1"), ("1", "2")] {
        let mut server = start_failing_while(file.path(), workers, threads);
        assert_eq!(server.wait(), 1, "{}", server.log());
        let log = server.log();
        assert!(log.contains("no interpreter today"), "{log}");
        assert!(log.contains("ended with exit status 1 before it could serve"), "{log}");
        assert!(log.contains("no worker could start: fix the errors above, then try again"), "{log}");
        // Those that fail before the last one does may be replaced.
        let attempts = log.matches("before_fork").count();
        assert!(attempts < 2 * workers.parse::<usize>().expect("a number"), "{log}");
    }
}

fn workers_that_cannot_start_are_tried_again_ever_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("broken");
    let mut server = start_failing_while(&file, "2", "1");
    let target = Target::Tcp(server.address());
    let before = server.wait_for_workers(2);
    std::fs::write(&file, "").expect("written");
    provoke_panic(&target);
    let pauses = wait_for("several attempts", || {
        let log = server.log();
        let pauses = log.split(" starts in ").skip(1).filter_map(|rest| rest.split_once(' '));
        let pauses: Vec<f64> = pauses.filter_map(|(number, _)| number.parse().ok()).collect();
        Some(pauses).filter(|pauses| pauses.len() >= 4)
    });
    assert!(pauses.is_sorted() && pauses[3] >= 0.2, "{pauses:?}");
    get(&target).expect("the other one serves on");
    std::fs::remove_file(&file).expect("removed");
    wait_until("a new worker", || server.workers().iter().filter(|worker| !before.contains(worker)).count() == 1);
}

fn workers_that_are_killed_before_they_can_serve_are_replaced() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let hangs_while = file.path().to_str().expect("a plain name");
    let mut server = start("2", "1", &[("ORIBI_TEST_HANGS_WHILE", hangs_while)]);
    for worker in server.wait_for_workers(2) {
        send(worker, Signal::KILL);
    }
    wait_until("both ends are noticed", || server.log().matches("before it could serve").count() == 2);
    drop(file);
    server.wait_for_workers(2);
    get(&Target::Tcp(server.address())).expect("their replacements serve");
}

fn workers_stay_if_others_cannot_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("broken");
    let mut server = start_failing_while(&file, "2", "1");
    let target = Target::Tcp(server.address());
    let before = wait_for_contexts(&server, 2, 1);
    std::fs::write(&file, "").expect("written");
    server.signal(Signal::HUP);
    server.wait_for_log("the current workers stay: fix the errors above, then send HUP again");
    get(&target).expect("they serve on");
    std::fs::remove_file(&file).expect("removed");
    wait_until("only they are left", || same(&server.workers(), &before));
    // Both replacements start together.
    assert!(server.log().matches("before it could serve").count() <= 2, "nothing is tried again by itself: {}", server.log());
    server.signal(Signal::HUP);
    server.wait_for_log("all workers have been replaced");
    wait_until("only others are left", || !before.iter().any(|worker| runs(*worker)));
    assert_eq!(server.wait_for_workers(2).len(), 2);
}

fn same(one: &[u32], other: &[u32]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect()
}

fn workers_stay_if_there_may_be_no_more_processes() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("refused");
    let mut server = start("2", "1", &[("ORIBI_TEST_REFUSED_WHILE", file.to_str().expect("a plain name"))]);
    let target = Target::Tcp(server.address());
    let before = server.wait_for_workers(2);
    std::fs::write(&file, "").expect("written");
    server.signal(Signal::HUP);
    server.wait_for_log("the current workers stay: fix the errors above, then send HUP again");
    let log = server.log();
    assert!(log.contains("cannot start a worker: Resource temporarily unavailable") && log.contains("ulimit -u"), "{log}");
    get(&target).expect("they serve on");
    assert!(same(&server.workers(), &before), "{}", server.log());
    std::fs::remove_file(&file).expect("removed");
    server.signal(Signal::HUP);
    server.wait_for_log("all workers have been replaced");
    wait_until("only others are left", || !before.iter().any(|worker| runs(*worker)));
}

/// One of the failed new workers ends only after another reload was requested, while the workers of that reload are starting.
fn a_replacement_is_not_given_up_for_workers_of_the_one_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let [fails, hangs, lingers] = ["fails", "hangs", "lingers"].map(|name| directory.path().join(name));
    let variables = [("FAILS", &fails), ("HANGS", &hangs), ("LINGERS", &lingers)];
    let variables = variables.map(|(name, file)| (format!("ORIBI_TEST_{name}_WHILE"), file.to_str().expect("a plain name")));
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, file)| (name.as_str(), *file)).collect();
    // Of several lanes, the first that fails makes the worker end.
    let mut server = start("2", "2", &variables);
    server.address();
    let before = wait_for_contexts(&server, 2, 2);
    let count = |server: &Server, text: &str| server.log().matches(text).count();
    for file in [&fails, &lingers] {
        std::fs::write(file, "").expect("written");
    }
    server.signal(Signal::HUP);
    wait_until("both have failed", || count(&server, "end 1") == 2);
    wait_until("the first one has ended", || count(&server, "the current workers stay") == 1);
    std::fs::write(&hangs, "").expect("written");
    std::fs::remove_file(&fails).expect("removed");
    server.signal(Signal::HUP);
    wait_until("others start", || count(&server, "worker_started") > 4);
    std::fs::remove_file(&lingers).expect("removed");
    wait_until("the second one has ended", || count(&server, "before it could serve") == 2);
    std::fs::remove_file(&hangs).expect("removed");
    server.wait_for_log("all workers have been replaced");
    wait_until("only others are left", || !before.iter().any(|worker| runs(*worker)));
    assert_eq!(count(&server, "the current workers stay"), 1, "{}", server.log());
}

/// A pause begins because a worker could not start. Workers that replace ready ones do not wait for the end of that pause.
fn workers_that_have_served_wait_for_no_pause() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let hangs_while = file.path().to_str().expect("a plain name");
    let mut server = start("2", "1", &[("ORIBI_TEST_HANGS_WHILE", hangs_while), ("ORIBI_TEST_PAUSE", "long")]);
    let starting = server.wait_for_workers(2);
    wait_until("it can be told from others", || server.log().contains("worker_started 1"));
    send(starting[0], Signal::KILL);
    server.wait_for_log(" starts in 600.0 s");
    drop(file);
    let target = Target::Tcp(server.address());
    for _ in 0..10 {
        let [worker] = server.wait_for_workers(1)[..] else { panic!("it is one") };
        get(&target).expect("it serves");
        send(worker, Signal::KILL);
        wait_until("its end", || !runs(worker));
    }
    get(&target).expect("another one serves");
    assert_eq!(server.log().matches("starts in").count(), 1, "{}", server.log());
}

fn hooks_run_where_they_should() {
    let mut server = start("2", "1", &[]);
    let supervisor = server.pid();
    server.address();
    let workers = server.wait_for_workers(2);
    for number in [1, 2] {
        server.wait_for_log(&format!("worker_started {number}"));
        assert!(server.log().contains(&format!("before_fork {number} in {supervisor}\n")), "{}", server.log());
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    let log = server.log();
    for worker in workers {
        for hook in ["worker_started", "worker_stopping", "end 0"] {
            assert_eq!(log.lines().filter(|line| line.starts_with(hook) && line.ends_with(&format!(" {worker}"))).count(), 1);
        }
    }
    assert_eq!(log.matches("end 0").count(), 2, "the supervisor's process goes on: {log}");
    assert_eq!(log.matches(&format!("server_ready in {supervisor}\n")).count(), 1);
    assert_eq!(log.matches("server_ready").count(), 1);
}

fn signals_to_a_child_of_an_app_are_its_own() {
    let mut server = start("1", "1", &[]);
    let target = Target::Tcp(server.address());
    let worker = server.wait_for_workers(1);
    let content = |path| {
        let response = get_from(&target, path).expect("it is answered").text;
        response.split_once("\r\n\r\n").expect("it is whole").1.to_owned()
    };
    // INT and HUP mean nothing to a worker, TERM and QUIT mean much.
    for signal in [Signal::TERM, Signal::QUIT, Signal::INT, Signal::HUP, Signal::USR1] {
        let child = content("/fork").parse().expect("a process");
        send(child, signal);
        assert_eq!(content("/wait"), format!("{:?}", Some(Some(signal.as_raw()))));
    }
    // A broken pipe ends no worker.
    send(worker[0], Signal::PIPE);
    assert!(content("/").starts_with(&format!("{} ", worker[0])));
    assert_eq!(server.workers(), worker, "{}", server.log());
}

/// Returns the id of a child that the app has forked for this client.
fn ask_for_child(client: &mut TcpStream) -> u32 {
    client.set_read_timeout(Some(Duration::from_secs(30))).expect("it is a time");
    client.write_all(b"GET /fork HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
    let mut answer = String::new();
    while answer.split_once("\r\n\r\n").is_none_or(|(_, content)| content.is_empty()) {
        let mut buffer = [0; 4096];
        let count = client.read(&mut buffer).expect("the app answers");
        assert_ne!(count, 0, "the connection is kept: {answer}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    answer.rsplit_once('\n').expect("it has lines").1.parse().expect("a process")
}

fn a_child_of_an_app_keeps_no_address() {
    let mut server = start("2", "1", &[]);
    let address = server.address();
    let mut client = TcpStream::connect(address).expect("it listens");
    let child = ask_for_child(&mut client);
    // No process is left to wait for: the stop is over before listeners are closed in the midst of a long one.
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    assert!(runs(child), "it would prove nothing");
    let next = TcpListener::bind(address);
    send(child, Signal::KILL);
    next.expect("the next server can listen there");
}

fn a_child_of_an_app_keeps_no_connection() {
    let mut server = start("1", "1", &[]);
    let mut client = TcpStream::connect(server.address()).expect("it listens");
    let child = ask_for_child(&mut client);
    server.signal(Signal::TERM);
    let end = client.read(&mut [0]);
    assert!(runs(child), "it would prove nothing");
    send(child, Signal::KILL);
    assert_eq!(end.expect("the server ends it"), 0);
    assert_eq!(server.wait(), 0);
}

fn a_socket_that_was_taken_is_not_ended_because_of_a_child() {
    let mut server = start("1", "1", &[]);
    let address = server.address();
    let child = ask_for_child(&mut TcpStream::connect(address).expect("it listens"));
    let mut client = TcpStream::connect(address).expect("it listens");
    client.write_all(b"GET /take HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
    // When the next request is answered, the server has let go of the socket.
    let spoken = get_from(&Target::Tcp(address), "/speak").expect("it is answered").text;
    send(child, Signal::KILL);
    assert!(spoken.ends_with("\r\n\r\nOk(())"), "{spoken}");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("the app ends it in an orderly way");
    assert_eq!(text, "by the app");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
}

fn an_app_with_threads_is_refused() {
    let mut server = start("1", "1", &[("ORIBI_TEST_STRAY_THREAD", "1")]);
    assert_eq!(server.wait(), 1);
    let log = server.log();
    assert!(log.contains("cannot start a worker: this process has 2 threads; one that forks must have a single one"), "{log}");
}
