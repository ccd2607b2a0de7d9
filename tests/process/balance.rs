//! Black-box tests of which worker gets which client, with apps that take some time: requests are spread over idle workers, and
//! new clients do not wait for the clients that are already connected. Each test runs with Puma, and with Oribi over every I/O
//! model. `roles` explains why these tests have no test harness.
//!
//! No test measures durations: an app reports when it began and ended, so a test sees which request waited for which.

use oribi_host::{After, Host, Reply, Request, Runtime};
use oribi_io::Model;
use oribi_message::ResponseHead;
use oribi_server::config::{IoModel, ListenAddress, Settings};
use oribi_test_support::{roles, server};
use rustix::process::Signal;
use server::{Folder, Server, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier};
use std::time::Duration;

fn main() {
    if roles::role().is_some() {
        std::process::exit(oribi_server::process::supervise(&settings(), &Sleepy));
    }
    roles::run(&[
        ("kept_connections_are_spread_evenly", kept_connections_are_spread_evenly),
        ("two_requests_are_two_workers_affair", two_requests_are_two_workers_affair),
        ("who_comes_just_before_a_slow_request_is_served_beside_it", who_comes_just_before_a_slow_request_is_served_beside_it),
        ("who_comes_is_not_starved_by_who_is_connected", who_comes_is_not_starved_by_who_is_connected),
    ]);
}

fn settings() -> Settings {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let settings = Settings {
        listen: vec![ListenAddress::tcp("127.0.0.1", 0)],
        workers: variable("ORIBI_TEST_WORKERS").parse().unwrap_or(2_usize).into(),
        io: IoModel::Chosen(Model::named(&variable("ORIBI_TEST_IO")).unwrap_or(Model::Epoll)),
        ..Settings::default()
    };
    oribi_server::log::prepare(&settings).expect("standard error is there");
    settings
}

/// An app that takes as many milliseconds as the path says. It answers with the id of its process, and the times at which it
/// began and ended.
struct Sleepy;

impl Runtime for Sleepy {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(Self))
    }
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

impl Host for Sleepy {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let target = str::from_utf8(request.head.target()).expect("tests are plain");
        let begun = now();
        std::thread::sleep(Duration::from_millis(target[1..].parse().unwrap_or_default()));
        let text = format!("{} {begun} {}", std::process::id(), now());
        let length = text.len().to_string();
        let fields = [("Content-Length", length.as_str())];
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        reply.send(ResponseHead { status: 200, fields: &fields }, &[text.as_bytes()]).expect("the client waits");
        After::default()
    }
}

/// The same app for Puma, which has one thread in each worker, as Oribi has.
const RACKUP: &str = "
run lambda { |env|
  clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond) }
  begun = clock.call
  sleep env['PATH_INFO'][1..].to_i / 1000.0
  text = \"#{Process.pid} #{begun} #{clock.call}\"
  [200, { 'Content-Length' => text.bytesize.to_s }, [text]]
}";

fn oribi(model: &str, workers: usize) -> Server {
    let server = roles::start("server", &[("ORIBI_TEST_WORKERS", &workers.to_string()), ("ORIBI_TEST_IO", model)]);
    server.wait_for_workers(workers);
    server
}

/// Returns the result of `question` for Puma.
fn of_puma<T>(workers: usize, question: impl Fn(SocketAddr) -> T) -> T {
    let folder = Folder::new();
    std::fs::write(folder.file("config.ru"), RACKUP).expect("the folder is writable");
    // No other process binds it before Puma does: the kernel goes through all others first.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback is there");
    let mut command = Command::new("puma");
    let (workers_text, bind) = (workers.to_string(), format!("tcp://{port}"));
    command.args(["--quiet", "--workers", &workers_text, "--threads", "1:1", "--bind", &bind]);
    let puma = Server::run(command.arg(folder.file("config.ru")).current_dir(&folder.0));
    wait_until("Puma", || TcpStream::connect(port).is_ok());
    puma.wait_for_workers(workers);
    ask(port, 0);
    let found = question(port);
    puma.signal(Signal::TERM);
    found
}

/// Returns the result of `question` for Oribi over each I/O model.
fn of_oribi<T>(workers: usize, question: impl Fn(SocketAddr) -> T) -> Vec<(&'static str, T)> {
    let of_model = |model: &'static str| {
        let mut server = oribi(model, workers);
        let address = server.address();
        ask(address, 0);
        (model, question(address))
    };
    Model::built_in().map(Model::name).map(of_model).collect()
}

/// The time at which a request was sent, and the answer of the app: the id of its process, and the times at which it began and
/// ended.
#[derive(Clone, Copy, Debug)]
struct Answer {
    sent: u64,
    process: u32,
    begun: u64,
    ended: u64,
    /// The server keeps the connection.
    keeps: bool,
}

impl Answer {
    /// Whether this request was sent before the other request had ended, and had to wait for the end of the other.
    fn waited_for(self, other: Self) -> bool {
        self.process == other.process && self.sent < other.ended && self.begun >= other.ended
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("it is ours");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
    stream
}

fn send(mut stream: &TcpStream, milliseconds: u32) {
    stream.write_all(format!("GET /{milliseconds} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).expect("it is connected");
}

fn receive(mut stream: &TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, content)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if length == Some(content.len()) {
                let numbers: Vec<u64> = content.split(' ').map(|number| number.parse().expect("a number")).collect();
                let keeps = !head.to_ascii_lowercase().contains("connection: close");
                return Answer { sent: 0, process: numbers[0] as u32, begun: numbers[1], ended: numbers[2], keeps };
            }
        }
        let count = stream.read(&mut buffer).expect("it is answered");
        assert!(count > 0, "it is answered: {bytes:?}");
        bytes.extend_from_slice(&buffer[..count]);
    }
}

fn ask(address: SocketAddr, milliseconds: u32) -> Answer {
    let stream = connect(address);
    send(&stream, milliseconds);
    let sent = now();
    Answer { sent, ..receive(&stream) }
}

/// Opens twice as many kept connections as there are workers. Returns the number of connections of each worker, the largest
/// first.
fn spread(address: SocketAddr, workers: usize) -> Vec<usize> {
    // All of them listen when all have answered, and have nothing to do when these connections have gone.
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    wait_until("every worker answers", || {
        let clients: Vec<_> = (0..2 * workers).map(|_| connect(address)).collect();
        clients.iter().for_each(|client| send(client, 20));
        counts.extend(clients.iter().map(|client| (receive(client).process, 0)));
        counts.len() == workers
    });
    wait_until("the connections have gone", || connections_at(address) == 0);
    let kept = (0..2 * workers).map(|_| {
        let stream = connect(address);
        send(&stream, 1);
        *counts.entry(receive(&stream).process).or_default() += 1;
        stream
    });
    let _kept: Vec<_> = kept.collect();
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

fn kept_connections_are_spread_evenly() {
    for workers in [2, 4, 2, 4] {
        let question = |address| spread(address, workers);
        let (puma, oribi) = (of_puma(workers, question), of_oribi(workers, question));
        println!("Kept connections of each worker: {oribi:?}; Puma {puma:?}.");
        // A worker that is closing its last connection may be passed over once.
        let is_even = |counts: &[usize]| counts.iter().all(|count| (1..=3).contains(count));
        assert!(oribi.iter().all(|(_, counts)| is_even(counts)), "{oribi:?}");
    }
}

/// Returns the number of connections that the server has not closed on its side.
fn connections_at(address: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("it is always there");
    // The second field is the local address in hexadecimal digits, the fourth the state: 01 is ESTABLISHED, 08 CLOSE_WAIT.
    let port = format!(":{:04X}", address.port());
    let is_open = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1].ends_with(&port) && ["01", "08"].contains(&fields[3])
    };
    table.lines().skip(1).filter(is_open).count()
}

/// Returns the number of rounds in which two simultaneous requests on new connections were answered one after the other.
fn queued(address: SocketAddr) -> usize {
    const ROUNDS: usize = 20;
    let together = Arc::new(Barrier::new(2));
    let client = || {
        let together = together.clone();
        std::thread::spawn(move || {
            let answer = |_| {
                together.wait();
                ask(address, 100)
            };
            (0..ROUNDS).map(answer).collect::<Vec<_>>()
        })
    };
    let [first, second] = [client(), client()].map(|client| client.join().expect("it is answered"));
    first.iter().zip(&second).filter(|(first, second)| first.waited_for(**second) || second.waited_for(**first)).count()
}

fn two_requests_are_two_workers_affair() {
    let (puma, oribi) = (of_puma(2, queued), of_oribi(2, queued));
    println!("Rounds of 20 in which two requests at once were answered one after the other: {oribi:?}; Puma {puma}.");
    // A client on a connection that is still counted elsewhere may meet another one once, as with Puma.
    assert!(oribi.iter().all(|(_, rounds)| *rounds <= puma + 2), "{oribi:?} against {puma}");
}

/// Returns the number of rounds in which a request on a new connection had to wait for a slow request on a kept connection,
/// although that was sent later.
fn behind(address: SocketAddr) -> usize {
    // The first connections show that both workers listen.
    let mut seen = BTreeSet::new();
    wait_until("both answer", || {
        let clients = [connect(address), connect(address)];
        clients.iter().for_each(|client| send(client, 20));
        seen.extend(clients.iter().map(|client| receive(client).process));
        seen.len() == 2
    });
    let waits = |_: &usize| {
        wait_until("the connections have gone", || connections_at(address) == 0);
        let kept = connect(address);
        send(&kept, 0);
        receive(&kept);
        let comes = connect(address);
        send(&kept, 200);
        send(&comes, 0);
        let [slow, quick] = [&kept, &comes].map(receive);
        quick.ended >= slow.ended
    };
    (0..12).filter(waits).count()
}

fn who_comes_just_before_a_slow_request_is_served_beside_it() {
    let (puma, oribi) = (of_puma(2, behind), of_oribi(2, behind));
    println!("Rounds of 12 in which a newcomer waited for a slow request of another: {oribi:?}; Puma {puma}.");
    assert!(oribi.iter().all(|(_, rounds)| *rounds == 0), "{oribi:?}");
}

/// Returns the most answers that other clients got while a new client waited, with 20 kept clients that keep both workers busy.
fn longest_wait(address: SocketAddr) -> usize {
    let answered = Arc::new(AtomicUsize::new(0));
    let enough = Arc::new(AtomicBool::new(false));
    let kept: Vec<_> = (0..20)
        .map(|_| {
            let (answered, enough) = (answered.clone(), enough.clone());
            std::thread::spawn(move || {
                let mut stream = connect(address);
                while !enough.load(Relaxed) {
                    send(&stream, 20);
                    // Puma ends kept connections while others wait.
                    if !receive(&stream).keeps {
                        stream = connect(address);
                    }
                    answered.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    wait_until("all are busy", || answered.load(Relaxed) > 100);
    let newcomer = || {
        let answered = answered.clone();
        std::thread::spawn(move || {
            let before = answered.load(Relaxed);
            ask(address, 20);
            answered.load(Relaxed) - before
        })
    };
    let round = |_| {
        let newcomers: Vec<_> = (0..12).map(|_| newcomer()).collect();
        newcomers.into_iter().map(|client| client.join().expect("it is answered")).max().unwrap_or_default()
    };
    let longest = (0..3).map(round).max().unwrap_or_default();
    enough.store(true, Relaxed);
    kept.into_iter().for_each(|client| client.join().expect("it is answered"));
    longest
}

fn who_comes_is_not_starved_by_who_is_connected() {
    let (puma, oribi) = (of_puma(2, longest_wait), of_oribi(2, longest_wait));
    println!("Answers to others that a newcomer waited for: {oribi:?}; Puma {puma}.");
    // Two workers give a hundred answers of 20 ms in a second.
    assert!(oribi.iter().all(|(_, answers)| *answers <= 100), "{oribi:?}");
}
