//! Lua handlers that wait without holding their worker.

#[path = "lua_waits/exec.rs"]
mod exec;
#[allow(dead_code, reason = "another test uses the rest")]
mod lua_directory;
#[path = "lua_waits/tls.rs"]
mod tls;

use lua_directory::{PATIENCE, Server, TestDirectory, request};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const APP: &str = include_str!("lua_waits/app.lua");
const REDIS: &str = include_str!("lua_waits/redis.lua");

/// A server of `app.lua` with one worker.
fn serve(script: &str, arguments: &[&str]) -> (TestDirectory, Server) {
    let place = TestDirectory::new();
    place.file("app.lua", script);
    let server = place.serve(&[&["app.lua", "--concurrency", "1100"], arguments].concat());
    (place, server)
}

fn body(place: &TestDirectory, target: &str) -> String {
    content(&place.get(target))
}

/// The content of an answer; chunks are joined.
fn content(answer: &str) -> String {
    let (head, content) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    if !head.contains("chunked") {
        return content.to_owned();
    }
    let mut lines = content.split("\r\n");
    let mut joined = String::new();
    while let (Some(size), Some(chunk)) = (lines.next(), lines.next()) {
        assert_eq!(usize::from_str_radix(size, 16), Ok(chunk.len()), "{answer}");
        joined.push_str(chunk);
    }
    joined
}

fn answer(mut connection: UnixStream) -> String {
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("an answer");
    text
}

#[track_caller]
fn wait_for(place: &TestDirectory, target: &str, expected: &str) {
    let start = Instant::now();
    while body(place, target) != expected {
        assert!(start.elapsed() < PATIENCE, "{target} is {}, not {expected}: {}", body(place, target), place.log());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Lets this process, and its servers, have many descriptors.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
}

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_child(&server.0), signal).expect("it runs");
}

#[track_caller]
fn ends(place: &TestDirectory, server: &mut Server) {
    let start = Instant::now();
    loop {
        match server.0.try_wait().expect("a child") {
            Some(status) => return assert!(status.success(), "{status}: {}", place.log()),
            None => assert!(start.elapsed() < PATIENCE, "it does not end: {}", place.log()),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_thousand_requests_wait_in_one_worker() {
    allow_descriptors();
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge]);
        let waiting: Vec<UnixStream> = (0..999).map(|_| place.ask("/together?1000")).collect();
        assert_eq!(body(&place, "/compute"), "computed");
        wait_for(&place, "/open", "999");
        assert_eq!(body(&place, "/together?1000"), "together");
        assert!(waiting.into_iter().all(|connection| answer(connection).ends_with("\r\n\r\ntogether")));
        server.terminate();
        ends(&place, &mut server);
    }
}

#[test]
fn a_worker_that_computes_leaves_requests_to_another() {
    let place = TestDirectory::new();
    place.file("app.lua", APP);
    let arguments = ["app.lua", "--concurrency", "100", "--workers", "2", "--listen", "x.sock", "--error-log", "log"];
    let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
    let _server = Server(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
    let busy = place.ask("/busy?go");
    for _ in 0..20 {
        assert_eq!(body(&place, "/pieces"), "piece 1;piece 2;piece 3;");
    }
    place.file("go", "");
    assert_eq!(content(&answer(busy)), "was busy");
}

#[test]
fn scripts_wait_in_tasks_and_coroutines_of_their_own_and_fail_alone() {
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge]);
        let held = place.ask("/hold?go");
        wait_for(&place, "/open", "1");
        assert_eq!(body(&place, "/pieces"), "piece 1;piece 2;piece 3;");
        assert_eq!(body(&place, "/tasks"), "fast2slow/tasks");
        place.wait_for_log("a task has failed: ");
        assert_eq!(body(&place, "/inner"), "123falsethrown");
        assert_eq!(body(&place, "/abandoned"), "the task was ended;the task was ended");
        for (target, words) in [
            ("/fails", "in function 'page'\\n"),
            ("/yields", "coroutine.yield outside of a coroutine of its own"),
            ("/exits", "the script has called os.exit before it had answered"),
        ] {
            assert!(place.get(target).starts_with("HTTP/1.1 500 "), "{target}");
            // Lua 5.4 names the function in another way.
            place.wait_for_log(if target == "/fails" { "app.lua:166: attempt to index" } else { words });
        }
        let mut post = place.connect();
        let text = "POST /reads HTTP/1.1\r\nHost: x\r\nX-Word: word\r\nConnection: close\r\nContent-Length: 2000000\r\n\r\n";
        post.write_all(text.as_bytes()).expect("sent");
        post.write_all(&vec![b'x'; 2_000_000]).expect("sent");
        assert_eq!(content(&answer(post)), "2000000POSTword");
        place.file("go", "");
        assert_eq!(content(&answer(held)), "held for /hold", "the state has lived on for it");
        server.terminate();
        ends(&place, &mut server);
    }
}

#[test]
fn clients_that_have_gone_end_their_coroutines() {
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge, "--listen", "127.0.0.1:0"]);
        place.wait_for_log("listening on");
        let log = place.log();
        let address =
            log.split("http://").nth(1).and_then(|rest| rest.split([' ', ',']).next()).expect("an address").to_owned();
        for target in ["/hold?never", "/stubborn"] {
            let mut connections: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(&address).expect("it listens")).collect();
            connections.iter_mut().for_each(|it| it.write_all(request(target, "close").as_bytes()).expect("sent"));
            wait_for(&place, "/open", "3");
            // A connection that is closed while it has unread data is reset.
            let linger = Some(Duration::ZERO);
            connections.into_iter().for_each(|it| {
                rustix::net::sockopt::set_socket_linger(&it, linger).expect("a socket");
            });
            if target == "/hold?never" {
                wait_for(&place, "/gone", "3");
                place.wait_for_log("ended: the client has gone");
            }
        }
        server.terminate();
        // Closed coroutines do not delay the end.
        ends(&place, &mut server);
    }
}

#[test]
fn connections_with_an_open_answer_are_not_kept() {
    let (place, _server) = serve(APP, &["--edge", "on", "--state-memory", "16MiB"]);
    let path = place.0.join("peer.sock");
    let peer = std::os::unix::net::UnixListener::bind(&path).expect("a new path");
    let target = format!("/kept?{}", path.display());
    let mut client = place.connect();
    client.write_all(request(&target, "close").as_bytes()).expect("sent");
    let (mut first, _) = peer.accept().expect("the script connects");
    first.read_exact(&mut [0; 6]).expect("a question");
    client.shutdown(Shutdown::Both).expect("it is open");
    drop(client);
    wait_for(&place, "/gone", "1");
    assert_eq!(first.read(&mut [0]).expect("the end"), 0, "the connection is closed");
    let second = place.ask(&target);
    let (mut peer, _) = peer.accept().expect("another connection");
    peer.read_exact(&mut [0; 6]).expect("a question");
    peer.write_all(b"an answer\n").expect("sent");
    assert_eq!(content(&answer(second)), "kept");
    let third = place.ask(&target);
    peer.read_exact(&mut [0; 6]).expect("the connection is used again");
    let endless = peer.write_all(&vec![b'x'; 64 << 20]);
    assert!(endless.is_err(), "a script may not have more bytes than its state");
    assert_eq!(content(&answer(third)), "closed");
}

#[test]
fn a_part_of_an_answer_is_not_taken_for_the_whole() {
    let (place, _server) = serve(APP, &[]);
    let path = place.0.join("peer.sock");
    let peer = std::os::unix::net::UnixListener::bind(&path).expect("a new path");
    let asked = place.ask(&format!("/all?{}", path.display()));
    let (mut connection, _) = peer.accept().expect("the script connects");
    connection.read_exact(&mut [0; 8]).expect("a question");
    connection.write_all(b"whole").expect("sent");
    drop(connection);
    assert_eq!(content(&answer(asked)), "whole nil nil");
    let asked = place.ask(&format!("/all?{}", path.display()));
    let (mut connection, _) = peer.accept().expect("the script connects");
    connection.read_exact(&mut [0; 1]).expect("a question");
    connection.write_all(b"part").expect("sent");
    // The rest of the question is unread, so this breaks the connection.
    drop(connection);
    assert_eq!(content(&answer(asked)), "nil closed part");
    let asked = place.ask(&format!("/replaced?{}", path.display()));
    let (mut first, _) = peer.accept().expect("the script connects");
    first.write_all(b"begun\npart").expect("sent");
    let (mut second, _) = peer.accept().expect("the script connects again");
    second.write_all(b"line\n").expect("sent");
    assert_eq!(content(&answer(asked)), "nil closed part, line");
}

#[test]
fn a_peer_that_sends_without_end_leaves_the_worker_to_others() {
    let (place, _server) = serve(APP, &["--time-limit", "5s"]);
    let path = place.0.join("peer.sock");
    let peer = std::os::unix::net::UnixListener::bind(&path).expect("a new path");
    let asked = place.ask(&format!("/lines?{}", path.display()));
    let (mut connection, _) = peer.accept().expect("the script connects");
    connection.read_exact(&mut [0; 8]).expect("a question");
    // The thread may begin when the questions below are answered.
    connection.write_all(b"line\n").expect("the script reads");
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let sender = thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            connection.write_all(&b"line\n".repeat(20_000)).expect("the script reads");
        }
    });
    let answers: Vec<String> = (0..10).map(|_| body(&place, "/open")).collect();
    over.store(true, Ordering::Relaxed);
    sender.join().expect("it has ended");
    assert_eq!(answers, ["0"; 10]);
    assert_eq!(content(&answer(asked)), "true");
}

#[test]
fn sockets_that_no_script_can_use_make_room_for_others() {
    let place = TestDirectory::new();
    place.file("app.lua", APP);
    let mut command = place.command("sh");
    command.args(["-c", "ulimit -n 200; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_oribi")]);
    let _server = place.serve_as(command, &["app.lua", "--concurrency", "10"]);
    let peer = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = peer.local_addr().expect("bound").port();
    thread::spawn(move || peer.incoming().for_each(drop));
    assert_eq!(body(&place, &format!("/forgotten?{port}")), "300", "{}", place.log());
}

#[test]
fn a_request_that_waits_too_long_gets_a_504_and_its_coroutine_ends() {
    let (place, mut server) = serve(APP, &["--edge", "on", "--request-timeout", "500ms"]);
    assert!(place.get("/hold?never").starts_with("HTTP/1.1 504 "));
    wait_for(&place, "/gone", "1");
    assert_eq!(body(&place, "/open"), "0");
    assert!(place.get("/stubborn").starts_with("HTTP/1.1 504 "));
    server.terminate();
    ends(&place, &mut server);
}

#[test]
fn a_slice_of_a_script_has_the_time_limit() {
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge, "--time-limit", "300ms"]);
        let held = place.ask("/hold?go");
        wait_for(&place, "/open", "1");
        assert!(place.get("/loop").starts_with("HTTP/1.1 504 "), "edge {edge}");
        assert_eq!(body(&place, "/long"), "long", "it has another limit");
        assert_eq!(body(&place, "/pieces"), "piece 1;piece 2;piece 3;");
        place.file("go", "");
        assert_eq!(content(&answer(held)), "held for /hold", "it has waited for longer, but not run");
        server.terminate();
        ends(&place, &mut server);
    }
}

#[test]
fn tasks_without_memory_are_counted_in_the_log() {
    let (place, mut server) = serve(APP, &["--edge", "on", "--state-memory", "1MiB"]);
    place.get("/crowd");
    server.terminate();
    ends(&place, &mut server);
    let log = place.log();
    let lines = log.matches("not enough memory").count();
    let count = |line: &str| line.split_once(" more tasks had not enough memory")?.0.rsplit(' ').next()?.parse::<usize>().ok();
    let counted: usize = log.lines().filter_map(count).sum();
    assert!(counted > lines, "{counted} tasks in {lines} lines: {log}");
}

#[test]
fn a_slow_client_pauses_its_own_script() {
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge]);
        // Nothing of it is read until the other streams have ended.
        let slow = place.ask("/stream?800");
        for _ in 0..3 {
            assert!(place.get("/stream?50").len() > 50 * 65536, "edge {edge}");
        }
        assert!(answer(slow).len() > 800 * 65536);
        server.terminate();
        ends(&place, &mut server);
    }
}

#[test]
fn reload_and_stop_finish_open_answers_and_end_tasks() {
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge]);
        assert_eq!(body(&place, "/background"), "spawned");
        let held: Vec<UnixStream> = (0..20).map(|_| place.ask("/hold?go")).collect();
        wait_for(&place, "/open", "20");
        signal(&server, Signal::HUP);
        // Another worker answers.
        wait_for(&place, "/open", "0");
        place.file("go", "");
        held.into_iter().for_each(|connection| assert_eq!(content(&answer(connection)), "held for /hold", "{}", place.log()));
        place.wait_for_log("sleeper: the worker ends");
        place.wait_for_log("loop: true");
        fs::remove_file(place.0.join("go")).expect("removed");
        let held: Vec<UnixStream> = (0..20).map(|_| place.ask("/hold?go")).collect();
        wait_for(&place, "/open", "20");
        server.terminate();
        place.wait_for_log("stopping");
        place.file("go", "");
        held.into_iter().for_each(|connection| assert_eq!(content(&answer(connection)), "held for /hold", "{}", place.log()));
        ends(&place, &mut server);
    }
}

#[test]
fn the_boot_request_may_wait_and_leave_tasks() {
    for edge in ["on", "off"] {
        let (place, mut server) = serve(APP, &["--edge", edge, "--boot-request", "/background?boot"]);
        place.wait_for_log("beside /background");
        let waiting: Vec<UnixStream> = (0..29).map(|_| place.ask("/together?30")).collect();
        assert_eq!(body(&place, "/together?30"), "together");
        assert!(waiting.into_iter().all(|connection| answer(connection).ends_with("\r\n\r\ntogether")));
        server.terminate();
        ends(&place, &mut server);
        assert!(place.log().contains("sleeper: the worker ends"), "{}", place.log());
    }
}

#[test]
fn a_changed_script_is_loaded_while_the_old_one_waits() {
    let (place, mut server) = serve(APP, &["--sweep", "10ms"]);
    let held = place.ask("/hold?go");
    wait_for(&place, "/open", "1");
    place.file("app.lua", "return function() require('oribi').sleep(0.001) return 'changed' end");
    wait_for(&place, "/", "changed");
    place.file("go", "");
    assert_eq!(content(&answer(held)), "held for /hold");
    server.terminate();
    ends(&place, &mut server);
}

#[test]
fn each_style_waits_also_with_hooks() {
    const WSAPI: &str = "local sleep = require('oribi').sleep
        return function(env)
            sleep(0.001)
            local sent = 0
            return '201 Made', { ['X-Path'] = env.PATH_INFO }, function()
                sleep(0.001)
                sent = sent + 1
                if sent <= 3 then return env.REQUEST_METHOD .. sent end
            end
        end";
    const MAIN: &str = "local sleep = require('oribi').sleep
        function main(env, con)
            sleep(0.001)
            con:header('X-Path', env.PATH_INFO)
            for number = 1, 3 do
                con:puts(env.REQUEST_METHOD .. number)
                sleep(0.001)
                con:flush()
            end
        end";
    const FIRST: &str = "function handler() require('oribi').sleep(0.001) return 'GET1GET2GET3' end";
    // Hooks have no local variables of their file.
    const HOOKS: &str = "return {
        request = function() require('oribi').sleep(0.001) end,
        response = function() require('oribi').sleep(0.001) end,
        flush = function() require('oribi').sleep(0.001) end,
    }";
    for (name, script) in [("app.ws", WSAPI), ("app.lua", MAIN), ("app.lua", FIRST)] {
        for hooks in [&[][..], &["--hooks", "hooks.lua"]] {
            let place = TestDirectory::new();
            place.file(name, script);
            place.file("hooks.lua", HOOKS);
            let mut server = place.serve(&[&[name, "--concurrency", "100"], hooks].concat());
            let waiting: Vec<UnixStream> = (0..50).map(|_| place.ask("/path")).collect();
            for connection in waiting {
                let text = answer(connection).replace("\r\n4\r\n", "").replace("\r\n", "\n");
                assert!(["GET1", "GET2", "GET3"].iter().all(|part| text.contains(part)), "{script}: {text}");
            }
            server.terminate();
            ends(&place, &mut server);
        }
    }
}

#[test]
fn datagrams_are_sent_and_received() {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("bound").port();
    let echo = thread::spawn(move || {
        let mut room = [0; 100];
        for concurrency in ["2", "1"] {
            let (size, client) = server.recv_from(&mut room).expect("a question");
            let text = String::from_utf8_lossy(&room[..size]).into_owned();
            server.send_to(format!("{text} with {concurrency}").as_bytes(), client).expect("sent");
            let (size, _) = server.recv_from(&mut room).expect("another one");
            assert_eq!(&room[..size], b"another");
        }
    });
    for concurrency in ["2", "1"] {
        let place = TestDirectory::new();
        place.file("app.lua", APP);
        let _server = place.serve(&["app.lua", "--concurrency", concurrency]);
        let expected = format!("nil closed, a question with {concurrency}, nil timeout");
        assert_eq!(body(&place, &format!("/datagrams?{port}")), expected, "{}", place.log());
    }
    echo.join().expect("both asked");
}

/// A Redis server, killed when the value is dropped.
struct Redis(Child);

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command of a Redis server that keeps nothing.
fn redis_command(place: &TestDirectory) -> Command {
    // The same program has several names; the package of its tools starts no service.
    let mut command = Command::new("redis-check-rdb");
    command.arg0("redis-server").args(["--save", ""]).current_dir(&place.0).stdout(Stdio::null());
    command
}

/// Starts Redis, and returns the two places at which it listens.
fn redis(place: &TestDirectory) -> (Redis, [String; 2]) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let path = place.0.join("redis.sock");
    let mut command = redis_command(place);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--unixsocket"]).arg(&path);
    let redis = Redis(command.spawn().expect("redis-tools is installed"));
    let start = Instant::now();
    while UnixStream::connect(&path).is_err() {
        assert!(start.elapsed() < PATIENCE, "Redis does not start");
        thread::sleep(Duration::from_millis(10));
    }
    (redis, [format!("localhost:{port}"), format!("unix:{}", path.display())])
}

#[test]
fn a_driver_of_redis_keeps_its_connections() {
    let place = TestDirectory::new();
    let (_redis, places) = redis(&place);
    for (where_it_is, concurrency) in places.iter().flat_map(|it| [(it, "100"), (it, "1")]) {
        place.file("app.lua", REDIS);
        let _ = fs::remove_file(place.0.join("log"));
        let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
        command.env("REDIS", where_it_is);
        let mut server = place.serve_as(command, &["app.lua", "--concurrency", concurrency]);
        for times in 0..3 {
            assert_eq!(body(&place, &format!("/set?{times}")), format!("reused {times}"), "{where_it_is} {concurrency}");
        }
        if concurrency == "100" {
            let waiting: Vec<UnixStream> = (0..50).map(|_| place.ask("/pop")).collect();
            wait_for(&place, "/blocked", "50");
            assert_eq!(body(&place, "/push?50"), "pushed");
            let mut values: Vec<String> = waiting.into_iter().map(|it| content(&answer(it))).collect();
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), 50, "each request has another value");
            assert_eq!(body(&place, "/shared"), "nil socket busy nil closed PONG");
        }
        assert_eq!(body(&place, "/late"), "nil timeout nilconnection in dubious state");
        assert_eq!(body(&place, "/closed"), "nil closed [] closed");
        assert_eq!(body(&place, "/refused"), "nil connection refused nil host not found");
        assert_eq!(body(&place, "/pieces"), "one,two,three abc,d,nil");
        assert_eq!(body(&place, "/all"), "+PONG;+OK;");
        if concurrency == "100" {
            assert_eq!(body(&place, "/gathers"), "gathering");
        }
        server.terminate();
        ends(&place, &mut server);
        assert_eq!(place.log().contains("sent: OK"), concurrency == "100");
        assert!(!place.log().contains("never"));
        let _ = fs::remove_file(place.0.join("x.sock"));
    }
}

#[test]
fn without_concurrency_waits_block_and_tasks_are_refused() {
    let place = TestDirectory::new();
    place.file(
        "app.lua",
        "local oribi = require 'oribi'
        oribi.sleep(0.001)
        return function(request)
            oribi.sleep(0.001)
            local ok, why = pcall(oribi.spawn, print)
            return tostring(ok) .. ' ' .. tostring(why)
        end",
    );
    let _server = place.serve(&["app.lua"]);
    let text = body(&place, "/");
    assert!(text.starts_with("false ") && text.contains("tasks need --concurrency"), "{text}");
    let mut connection = place.ask("/");
    connection.shutdown(Shutdown::Write).expect("open");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("tasks need --concurrency"));
}
