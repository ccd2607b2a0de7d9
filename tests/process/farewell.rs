//! Tests of `--shutdown-delay`: when a server gets the order to stop, it first reports its end everywhere and continues to
//! serve, before it closes anything.

use crate::client::{Load, Manner, Target, get_from};
use crate::native;
use crate::server::{Server, wait_until};
use crate::wire::Wire;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const SHAPES: [&str; 2] = ["on", "off"];

fn delayed(edge: &str, delay: &str) -> Server {
    native(&["--edge", edge, "--workers", "2", "--probe", "/healthz", "--shutdown-delay", delay])
}

/// A connection that stays open.
struct Kept(Wire);

impl Kept {
    fn open(address: SocketAddr) -> Self {
        Self(Wire::of_http1(address).expect("it listens"))
    }

    /// Sends a request, and returns the answer in lower case.
    fn get(&mut self, path: &str) -> String {
        write!(self.0, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").expect("it is open");
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let text = String::from_utf8_lossy(&answer).to_lowercase();
            if let Some((head, content)) = text.split_once("\r\n\r\n")
                && let Some(length) = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next())
                && length.parse::<usize>().is_ok_and(|length| content.len() >= length)
            {
                return text;
            }
            let count = self.0.read(&mut buffer).expect("an answer");
            assert!(count > 0, "the end after {text:?}");
            answer.extend_from_slice(&buffer[..count]);
        }
    }
}

fn told_to_stop(server: &mut Server, signal: Signal) -> SocketAddr {
    let address = server.address();
    wait_until("the probe", || {
        get_from(&Target::Tcp(address), "/healthz").is_ok_and(|answer| answer.text.contains("\"state\":\"ready\""))
    });
    server.signal(signal);
    server.wait_for_log("serving until then (--shutdown-delay)");
    address
}

#[test]
fn the_probe_says_draining_while_everything_is_served_as_before() {
    for (edge, signal) in SHAPES.into_iter().zip([Signal::TERM, Signal::QUIT]) {
        let mut server = delayed(edge, "10m");
        let mut kept = Kept::open(server.address());
        assert!(kept.get("/").contains("200 ok"));
        let address = told_to_stop(&mut server, signal);
        let probe = kept.get("/healthz");
        assert!(probe.starts_with("http/1.1 503") && probe.contains("\"state\":\"draining\""), "edge {edge}: {probe}");
        for answer in [kept.get("/"), Kept::open(address).get("/"), kept.get("/")] {
            assert!(answer.contains("200 ok") && !answer.contains("connection: close"), "edge {edge}: {answer}");
        }
        if edge == "off" {
            // The signal of a service manager to all processes.
            server.workers().into_iter().for_each(|worker| crate::server::send(worker, Signal::TERM));
            assert!(Kept::open(address).get("/").contains("200 ok"));
        }
        // A first request to stop must not count as an echo.
        std::thread::sleep(Duration::from_millis(300));
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "a second signal skips the delay: {}", server.log());
    }
}

#[test]
fn ctrl_c_does_not_wait() {
    let mut server = delayed("off", "10m");
    server.address();
    server.signal(Signal::INT);
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(!server.log().contains("--shutdown-delay"), "{}", server.log());
}

#[test]
fn clients_are_told_to_leave_before_anything_closes_and_none_is_lost() {
    for edge in SHAPES {
        let mut server = delayed(edge, "600ms");
        let mut idle = Kept::open(server.address());
        idle.get("/");
        let address = server.address();
        let (kept, new) = (
            Load::start(&Target::Tcp(address), 4, Manner::KeepAlive),
            Load::start(&Target::Tcp(address), 4, Manner::ConnectionPerRequest),
        );
        kept.wait_for_more(100);
        told_to_stop(&mut server, Signal::TERM);
        wait_until("the parting", || Kept::open(address).get("/").contains("connection: close"));
        server.wait_for_log("stopping: ");
        // The second that idle clients have counts from here.
        let last = idle.get("/");
        assert!(last.contains("200 ok") && last.contains("connection: close"), "edge {edge}: {last}");
        assert_eq!([kept.wait(), new.wait()].concat(), Vec::<String>::new(), "edge {edge}: {}", server.log());
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}
