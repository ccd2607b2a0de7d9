//! Black-box tests of the C interface, with a language whose threads share one lock. This program takes the roles of several
//! processes, so it has no harness: see `roles`.
#![allow(missing_docs)]

mod language;

use client::{Target, get_from};
use oribi_test_support::{client, roles, server};
use rustix::process::Signal;
use server::{Folder, Server, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

fn main() {
    if roles::role().is_some() {
        language::serve();
    }
    roles::run(&[
        ("apps_that_wait_keep_nobody_else_from_being_answered", apps_that_wait_keep_nobody_else_from_being_answered),
        ("there_are_no_more_threads_than_allowed", there_are_no_more_threads_than_allowed),
        (
            "a_thread_that_is_held_up_by_its_client_sees_to_the_others",
            a_thread_that_is_held_up_by_its_client_sees_to_the_others,
        ),
        ("interrupts_lose_nothing", interrupts_lose_nothing),
        ("the_end_of_the_main_thread_waits_for_those_in_the_lane", the_end_of_the_main_thread_waits_for_those_in_the_lane),
        ("a_stop_ends_threads_that_wait_and_that_rest", a_stop_ends_threads_that_wait_and_that_rest),
        ("one_thread_is_the_main_thread", one_thread_is_the_main_thread),
        (
            "an_app_that_takes_too_long_is_interrupted_on_its_own_thread",
            an_app_that_takes_too_long_is_interrupted_on_its_own_thread,
        ),
    ]);
}

struct Site {
    server: Server,
    folder: Folder,
    address: SocketAddr,
}

impl Site {
    fn new(threads: usize) -> Self {
        Self::with_timeout(threads, "off")
    }

    fn with_timeout(threads: usize, timeout: &str) -> Self {
        let folder = Folder::new();
        let path = folder.0.to_str().expect("the folder's name is text").to_owned();
        let mut server = roles::start(
            "serve",
            &[(language::FOLDER, &path), (language::THREADS, &threads.to_string()), (language::TIMEOUT, timeout)],
        );
        let address = server.address();
        Self { server, folder, address }
    }

    fn get(&self, path: &str) -> String {
        let text = get_from(&Target::Tcp(self.address), path).expect("it answers").text;
        text.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
    }

    /// Requests, in a thread of its own, an app that waits until the file `name` exists; returns when the app waits.
    fn wait(&self, name: &str) -> JoinHandle<String> {
        let (target, path) = (Target::Tcp(self.address), format!("/wait/{name}"));
        let client = std::thread::spawn(move || get_from(&target, &path).expect("it answers").text);
        wait_until("the app to be called", || self.folder.file(&format!("{name}.waits")).exists());
        client
    }

    fn let_go_on(&self, name: &str) {
        std::fs::write(self.folder.file(name), "").expect("the folder is the test's");
    }

    /// Connects a client that requests more than its socket buffers, and does not read.
    fn flood(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is a socket");
        stream.write_all(b"GET /flood HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("it is connected");
        let mut first = [0; 1];
        stream.read_exact(&mut first).expect("it answers");
        stream
    }

    fn stop(mut self) {
        self.server.signal(Signal::TERM);
        assert_eq!(self.server.wait(), 0, "{}", self.server.log());
        let log = self.server.log();
        assert!(log.contains("the lane goes with 0 threads in it"), "{log}");
        assert_eq!(log.matches("the lane goes with").count(), log.matches("the lane goes with 0 threads").count(), "{log}");
        assert!(!log.contains("without its lock") && !log.contains("panic"), "{log}");
    }
}

fn read_flood(mut stream: TcpStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it answers");
    let content = all.iter().filter(|byte| **byte == b'x').count();
    assert_eq!(content, language::FLOOD, "{}", String::from_utf8_lossy(&all[..200.min(all.len())]));
    assert!(all.ends_with(b"\r\n0\r\n\r\n"));
}

fn apps_that_wait_keep_nobody_else_from_being_answered() {
    let site = Site::new(4);
    for round in 0..3 {
        let name = |number: usize| format!("gate-{round}-{number}");
        let clients: Vec<_> = (0..3).map(|number| site.wait(&name(number))).collect();
        for _ in 0..20 {
            assert_eq!(site.get("/"), "quick");
        }
        (0..3).for_each(|number| site.let_go_on(&name(number)));
        for client in clients {
            assert!(client.join().expect("it is answered").ends_with("waited"));
        }
    }
    site.stop();
}

fn there_are_no_more_threads_than_allowed() {
    let site = Site::new(2);
    let clients = ["first", "second"].map(|name| site.wait(name));
    let target = Target::Tcp(site.address);
    let third = std::thread::spawn(move || get_from(&target, "/threads").expect("it answers").text);
    site.let_go_on("second");
    assert!(third.join().expect("it is answered").ends_with("\r\n\r\n2"));
    site.let_go_on("first");
    for client in clients {
        assert!(client.join().expect("it is answered").ends_with("waited"));
    }
    site.stop();
}

fn a_thread_that_is_held_up_by_its_client_sees_to_the_others() {
    for threads in [2, 4] {
        let site = Site::new(threads);
        let slow: Vec<_> = (1..threads).map(|_| site.flood()).collect();
        for _ in 0..20 {
            assert_eq!(site.get("/"), "quick");
        }
        slow.into_iter().for_each(read_flood);
        // When all threads are held up, those that wait for their clients also notice other clients.
        let slow: Vec<_> = (0..threads).map(|_| site.flood()).collect();
        slow.into_iter().rev().for_each(read_flood);
        site.stop();
    }
}

fn interrupts_lose_nothing() {
    let site = Site::new(3);
    let slow = [site.flood(), site.flood()];
    for _ in 0..20 {
        assert_eq!(site.get("/interrupt"), "interrupted");
    }
    slow.into_iter().for_each(read_flood);
    assert_eq!(site.get("/"), "quick");
    site.stop();
}

fn the_end_of_the_main_thread_waits_for_those_in_the_lane() {
    for threads in [1, 3] {
        let site = Site::new(threads);
        let before = site.get("/pid");
        let waiting = (threads > 1).then(|| site.wait("gate"));
        assert_eq!(site.get("/end-main"), "ended");
        // The worker that takes its place serves others, while an app of the first one still waits.
        wait_until("another worker", || site.get("/pid") != before);
        assert!(!site.server.log().contains("the lane goes") || waiting.is_none(), "{}", site.server.log());
        site.let_go_on("gate");
        if let Some(client) = waiting {
            assert!(client.join().expect("it is answered").ends_with("waited"));
        }
        wait_until("the end of the first worker", || !server::runs(before.parse().expect("it is a number")));
        site.stop();
    }
}

fn a_stop_ends_threads_that_wait_and_that_rest() {
    let site = Site::new(4);
    let clients = ["a", "b", "c"].map(|name| site.wait(name));
    assert_eq!(site.get("/"), "quick");
    ["a", "b", "c"].iter().for_each(|name| site.let_go_on(name));
    for client in clients {
        assert!(client.join().expect("it is answered").ends_with("waited"));
    }
    site.stop();
}

fn one_thread_is_the_main_thread() {
    let site = Site::new(1);
    for _ in 0..20 {
        assert_eq!(site.get("/threads"), "1");
    }
    read_flood(site.flood());
    site.stop();
}

fn an_app_that_takes_too_long_is_interrupted_on_its_own_thread() {
    for threads in [1, 4] {
        let site = Site::with_timeout(threads, "1s");
        assert_eq!(site.get("/has-deadlines"), "1");
        let ask = |path: &'static str| {
            let target = Target::Tcp(site.address);
            std::thread::spawn(move || get_from(&target, path).expect("it answers").text)
        };
        let (first, second) = (ask("/nap"), ask("/nap"));
        let unlimited = (threads > 1).then(|| ask("/unlimited/gate"));
        for nap in [first, second, ask("/short-nap")] {
            let text = nap.join().expect("it is answered");
            assert!(text.starts_with("HTTP/1.1 504 ") && text.ends_with("Gateway Timeout\n"), "{text}");
        }
        site.let_go_on("gate");
        if let Some(unlimited) = unlimited {
            assert!(unlimited.join().expect("it is answered").ends_with("waited"));
        }
        assert_eq!(site.get("/astray"), "0", "every order came where it belongs");
        let log = site.server.log();
        assert_eq!((log.matches("after 1000 ms").count(), log.matches("after 300 ms").count()), (2, 1), "{log}");
        assert!(!log.contains("is stopped"), "{log}");
        site.stop();
    }
    let site = Site::new(1);
    assert_eq!(site.get("/has-deadlines"), "0");
    site.stop();
}
