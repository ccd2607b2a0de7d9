//! The messages about sampled requests to the process that exports spans, in virtual time.

use super::frames::*;
use super::harness::*;
use super::proxies::settings;
use super::records;
use oribi_host::{Reply, Request};
use oribi_otlp::{LARGEST_MESSAGE, Message, Record, Version};
use oribi_server::config::{Protocol, Settings};
use oribi_server::spans::SpanSender;
use rustix::net::{RecvFlags, recv};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PARENT: [u8; 8] = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();
/// The start of time in the simulated world, in nanoseconds since 1970.
const ORIGIN: u64 = 1_795_219_200_000_000_000;

/// Each process has one socket for spans. While this lock is held, a test opens the socket and creates the server that sends to
/// it, so that no other test replaces the socket in between.
static OPENING: Mutex<()> = Mutex::new(());

/// A server, and the socket at which its spans arrive.
struct Site {
    server: Server,
    receiver: OwnedFd,
}

impl Site {
    fn new(command_line: &[&str], app: impl FnMut(&Request<'_>, Reply<'_>) + 'static) -> Self {
        Self::with(settings(&[&["traces=on", "trace-export=http://127.0.0.1:1"], command_line].concat()), app)
    }

    fn with(settings: Settings, app: impl FnMut(&Request<'_>, Reply<'_>) + 'static) -> Self {
        let _alone = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = SpanSender::open().expect("a socket is to be had");
        Self { server: Server::new(settings, app), receiver }
    }

    /// The next message, if there is one.
    fn message(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; LARGEST_MESSAGE + 1];
        let (size, _) = recv(&self.receiver, bytes.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
        bytes.truncate(size);
        Some(bytes)
    }

    /// Passes all records of the next message to `look`.
    #[track_caller]
    fn records(&self, look: impl FnOnce(&[Record<'_>])) {
        let bytes = self.message().expect("a message has come");
        let message = Message::read(&bytes);
        assert!(!message.is_broken && message.lost == 0);
        let records: Vec<_> = message.records.iter().map(|record| Record::read(record).expect("it is one")).collect();
        look(&records);
        assert_eq!(self.message(), None, "all of a turn is one message");
    }

    #[track_caller]
    fn only(&self, look: impl FnOnce(&Record<'_>)) {
        self.records(|records| {
            assert_eq!(records.len(), 1);
            look(&records[0]);
        });
    }
}

fn hello(_request: &Request<'_>, reply: Reply<'_>) {
    // The client may have disconnected.
    let _ = reply.send(ok(), &[b"hello"]);
}

#[test]
fn times_are_those_of_the_request_and_nothing_is_lost_of_what_it_was() {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let mut site = Site::new(&["metrics=0", "metrics-route=shop=/a/*"], keep(&kept));
    site.server.advance(SECOND);
    let client = site.server.connect();
    client.send(format!("PUT /a/b?c HTTP/1.1\r\nHost: a.org\r\nTraceParent: {CALLER}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    site.server.advance(MOMENT * 7);
    assert_eq!(site.message(), None, "it has not come to its end");
    let exchange = kept.borrow_mut().pop().expect("it has come");
    answer(&site.server, exchange, "hello");
    site.server.run();
    site.only(|record| {
        assert_eq!((record.begin, record.queue), (ORIGIN + 1_000_000_000, 0));
        assert_eq!((record.first, record.app, record.send), (7_000_000, 7_000_000, 0));
        assert_eq!(
            (record.method, record.path, record.route, record.host),
            (&b"PUT"[..], &b"/a/b"[..], &b"shop"[..], &b"a.org"[..])
        );
        assert_eq!((record.parent, record.status, record.sent, record.version), (PARENT, 200, 5, Version::Http11));
        assert_eq!((record.client, record.worker), (&b"127.0.0.1"[..], std::process::id()));
        assert!(!record.https && !record.gone && record.peer.is_empty());
    });
}

#[test]
fn all_of_a_turn_is_one_message_and_what_is_not_sampled_is_in_none() {
    for (ratio, expected) in [("1", 3), ("0", 1)] {
        let mut site = Site::new(&[&format!("trace-sample={ratio}")], hello);
        let client = site.server.connect();
        let plain = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
        let traced = format!("GET /2 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\ntraceparent: {CALLER}\r\n\r\n");
        let unsampled = format!("GET /3 HTTP/1.1\r\nHost: a\r\ntraceparent: {}00\r\n\r\n", &CALLER[..53]);
        client.send(format!("{plain}{unsampled}{traced}{plain}").as_bytes());
        site.server.run();
        site.records(|records| {
            assert_eq!(records.len(), expected);
            let traced = records.iter().find(|record| record.path == b"/2").expect("it is sampled");
            assert_eq!((traced.parent, traced.version), (PARENT, Version::Http10));
            assert!(records.iter().all(|record| record.path != b"/3"));
            assert!(records.iter().filter(|record| record.path == b"/1").all(|record| record.parent == [0; 8]));
        });
    }
}

#[test]
fn streams_of_http_2_are_told_of() {
    let mut site = Site::new(&[], hello);
    let (client, mut frames) = (site.server.connect(), Frames::default());
    let with = |id: u32, fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | END_STREAM, id, &head("GET", "/x", fields));
    client.send(&[opening(&[]), with(1, &[("traceparent", CALLER)]), with(3, &[])].concat());
    site.server.run();
    frames.read(&client);
    assert_eq!(frames.content(1).0, "hello");
    site.records(|records| {
        let parents: Vec<_> = records.iter().map(|record| record.parent).collect();
        assert_eq!(parents, [PARENT, [0; 8]]);
        assert!(records.iter().all(|record| record.version == Version::Http2 && record.path == b"/x" && record.status == 200));
    });
}

#[test]
fn requests_of_web_servers_are_told_of() {
    let settings = settings(&["traces=on", "trace-export=http://127.0.0.1:1"]);
    let mut site = Site::with(Settings { protocol: Protocol::FastCgi, ..settings }, hello);
    let client = site.server.connect();
    let variables = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/x?y"),
        ("HTTP_TRACEPARENT", CALLER),
        ("HTTP_HOST", "b.org"),
        ("REMOTE_ADDR", "192.0.2.7"),
        ("HTTPS", "on"),
    ];
    client.send(&records::request_with(1, &variables, b""));
    site.server.run();
    site.only(|record| {
        assert_eq!(
            (record.parent, record.path, record.host, record.client),
            (PARENT, &b"/x"[..], &b"b.org"[..], &b"192.0.2.7"[..])
        );
        assert!(record.https && record.status == 200);
    });
}

#[test]
fn a_client_that_has_left_got_no_status() {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let mut site = Site::new(&[], keep(&kept));
    let client = site.server.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: {CALLER}\r\n\r\n").as_bytes());
    site.server.advance(MOMENT * 3);
    client.reset();
    site.server.run();
    site.only(|record| {
        assert_eq!((record.status, record.gone, record.app, record.send), (0, true, 3_000_000, 0));
    });
}

#[test]
fn a_client_that_takes_its_time_is_seen_to() {
    let mut site = Site::new(&[], |_, reply| {
        let _ = reply.send(ok(), &[&pattern(100_000)]);
    });
    let client = site.server.connect();
    client.set_window(1000);
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    site.server.advance(MOMENT * 5);
    assert_eq!(site.message(), None, "it has not been sent");
    client.set_window(1 << 20);
    site.server.run();
    site.only(|record| assert_eq!((record.app, record.send, record.sent, record.gone), (0, 5_000_000, 100_000, false)));
}

#[test]
fn what_finds_no_room_is_lost_and_counted_and_nobody_waits() {
    let mut site = Site::new(&[], hello);
    let client = site.server.connect();
    let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(2000));
    let (mut sent, mut read, mut lost) = (0_u64, 0, 0);
    for _ in 0..2000 {
        assert!(site.server.exchange(&client, request.as_bytes()).starts_with(b"HTTP/1.1 200"));
        sent += 1;
    }
    let mut count = |site: &Site| {
        while let Some(bytes) = site.message() {
            let message = Message::read(&bytes);
            (read, lost) = (read + message.records.len() as u64, lost + u64::from(message.lost));
        }
    };
    count(&site);
    site.server.exchange(&client, request.as_bytes());
    sent += 1;
    count(&site);
    assert!(lost > 0 && read + lost == sent, "{sent} requests, {read} read, {lost} lost");
}

#[test]
fn without_a_collector_nothing_is_told_or_added() {
    let mut site = Site::with(settings(&["traces=on"]), hello);
    let client = site.server.connect();
    site.server.exchange(&client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(site.message(), None);
}
