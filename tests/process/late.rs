//! Black-box tests of deadlines of apps in a language that can be interrupted: a warning, an error in the app, deadlines that
//! an app sets for itself, and the end of a worker whose app ignores the interruption. `roles` explains why these tests have no
//! test harness.

use client::{Target, get_from};
use oribi_host::{After, ExchangeId, Host, Interruption, Order, Outlet, Reply, Request, Runtime};
use oribi_message::ResponseHead;
use oribi_server::config::{ListenAddress, Settings, Timeouts};
use oribi_test_support::{client, roles, server};
use rustix::fs::Timespec;
use rustix::process::Signal;
use rustix::thread::{NanosleepRelativeResult, nanosleep};
use server::{Server, runs, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

const WARNING: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_millis(1200);
const KILL: Duration = Duration::from_millis(4000);

fn main() {
    if roles::role().is_some() {
        std::process::exit(oribi_server::process::supervise(&settings(), &Obedient));
    }
    roles::run(&[
        (
            "an_app_is_warned_and_then_interrupted_and_its_worker_goes_on",
            an_app_is_warned_and_then_interrupted_and_its_worker_goes_on,
        ),
        ("a_response_that_has_begun_is_cut", a_response_that_has_begun_is_cut),
        ("each_app_gets_its_own_orders", each_app_gets_its_own_orders),
        ("an_app_may_extend_its_deadline_or_lift_it", an_app_may_extend_its_deadline_or_lift_it),
        ("the_worker_of_an_app_that_does_not_obey_is_ended", the_worker_of_an_app_that_does_not_obey_is_ended),
        ("an_order_never_reaches_another_request", an_order_never_reaches_another_request),
    ]);
}

fn settings() -> Settings {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(1);
    let settings = Settings {
        listen: vec![ListenAddress::tcp("127.0.0.1", 0)],
        workers: 1.into(),
        threads: number("ORIBI_TEST_THREADS"),
        request_warning: WARNING,
        request_kill: Some(KILL),
        timeouts: Timeouts { request: TIMEOUT, ..Settings::default().timeouts },
        ..Settings::default()
    };
    oribi_server::log::prepare(&settings).expect("standard error is there");
    settings
}

/// A language that checks for orders of the server whenever a system call is interrupted.
struct Obedient;

impl Runtime for Obedient {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(Context(Arc::default())))
    }
}

/// The orders that have arrived, and the exchange for which they are meant.
#[derive(Default)]
struct Orders {
    warnings: AtomicU32,
    interruptions: AtomicU32,
    exchange: AtomicU64,
    milliseconds: AtomicU64,
}

impl Interruption for Orders {
    fn interrupt(&self, exchange: ExchangeId, order: Order, limit: Duration) {
        self.exchange.store(exchange.0, SeqCst);
        self.milliseconds.store(limit.as_millis() as u64, SeqCst);
        match order {
            Order::Warn => self.warnings.fetch_add(1, SeqCst),
            Order::Interrupt => self.interruptions.fetch_add(1, SeqCst),
        };
    }
}

struct Context(Arc<Orders>);

impl Context {
    fn forget_orders(&self) {
        self.0.warnings.store(0, SeqCst);
        self.0.interruptions.store(0, SeqCst);
    }

    /// Sleeps as an app does. Returns `false` if the sleep was interrupted.
    fn sleep(&self, exchange: ExchangeId, time: Duration) -> bool {
        let mut left = Timespec::try_from(time).expect("it is not long");
        while let NanosleepRelativeResult::Interrupted(rest) = nanosleep(&left) {
            if self.0.exchange.load(SeqCst) != exchange.0 {
                eprintln!("an order has come for another request");
            }
            if self.0.warnings.swap(0, SeqCst) > 0 {
                eprintln!("a backtrace after {} ms", self.0.milliseconds.load(SeqCst));
            }
            if self.0.interruptions.swap(0, SeqCst) > 0 {
                eprintln!("an error after {} ms", self.0.milliseconds.load(SeqCst));
                return false;
            }
            left = rest;
        }
        true
    }

    fn app(&self, target: &str, outlet: &dyn Outlet, exchange: ExchangeId) -> Option<()> {
        let head = ResponseHead { status: 200, fields: &[] };
        let sleep = |time| self.sleep(exchange, time).then_some(());
        match target {
            "/sleep" => sleep(KILL * 10)?,
            "/begun" => {
                outlet.start(exchange, head).ok()?;
                outlet.write(exchange, b"begun").ok()?;
                sleep(KILL * 10)?;
            }
            "/catching" => while !self.sleep(exchange, KILL * 10) {},
            "/extended" => {
                outlet.extend_deadline(exchange, Some(TIMEOUT * 2));
                sleep(TIMEOUT * 3 / 2)?;
                outlet.extend_deadline(exchange, Some(TIMEOUT / 2));
                sleep(KILL * 10)?;
            }
            "/lifted" => {
                outlet.extend_deadline(exchange, None);
                sleep(KILL * 5 / 4)?;
            }
            // About as long as the deadline, so that the order comes before, at and after the end.
            "/about" => drop(self.sleep(exchange, TIMEOUT)),
            _ => {}
        }
        outlet.respond(exchange, head, &[b"hello"]).ok()
    }
}

impl Host for Context {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let target = str::from_utf8(request.head.target()).expect("tests are plain").to_owned();
        let (outlet, exchange) = reply.detach();
        // An order may have arrived when the app before had returned to this host.
        self.forget_orders();
        if self.app(&target, outlet, exchange).is_none() {
            outlet.abandon(exchange);
        }
        After::default()
    }

    fn interruption(&self) -> Option<Arc<dyn Interruption>> {
        Some(Arc::clone(&self.0) as Arc<dyn Interruption>)
    }
}

fn start(threads: &str) -> Server {
    roles::start("server", &[("ORIBI_TEST_THREADS", threads)])
}

fn status(target: &Target, path: &str) -> String {
    let text = get_from(target, path).expect("it is answered").text;
    text.split(' ').nth(1).expect("there is a status").to_owned()
}

fn an_app_is_warned_and_then_interrupted_and_its_worker_goes_on() {
    for threads in ["1", "2"] {
        let mut server = start(threads);
        let target = Target::Tcp(server.address());
        let worker = server.wait_for_workers(1)[0];
        for _ in 0..2 {
            assert_eq!(status(&target, "/sleep"), "504");
            assert_eq!(status(&target, "/"), "200");
        }
        let log = server.log();
        let count = |text: &str| log.matches(text).count();
        assert_eq!(
            count(&format!("(pid {worker}): its app takes long; it has done nothing for 0.3 s: GET /sleep")),
            2,
            "{log}"
        );
        assert_eq!(
            count(&format!("(pid {worker}): its app is interrupted; it has done nothing for 1.2 s: GET /sleep")),
            2,
            "{log}"
        );
        assert_eq!((count("a backtrace after 300 ms"), count("an error after 1200 ms")), (2, 2), "{log}");
        assert!(runs(worker) && !log.contains("is stopped"), "{log}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

fn a_response_that_has_begun_is_cut() {
    let mut server = start("1");
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.write_all(b"GET /begun HTTP/1.1\r\nHost: test\r\n\r\n").expect("it is connected");
    let mut answer = Vec::new();
    // The end may be a reset.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("begun") && !answer.contains("\r\n0\r\n"), "{answer}");
    assert_eq!(status(&Target::Tcp(server.address()), "/"), "200");
    assert!(!server.log().contains("is stopped"), "{}", server.log());
}

fn each_app_gets_its_own_orders() {
    let mut server = start("4");
    let target = Target::Tcp(server.address());
    let clients = ["/sleep", "/lifted", "/sleep", "/lifted"].map(|path| {
        let target = target.clone();
        std::thread::spawn(move || status(&target, path))
    });
    let statuses = clients.map(|client| client.join().expect("it is answered"));
    assert_eq!(statuses, ["504", "200", "504", "200"], "{}", server.log());
}

fn an_app_may_extend_its_deadline_or_lift_it() {
    let mut server = start("1");
    let target = Target::Tcp(server.address());
    assert_eq!(status(&target, "/extended"), "504");
    assert!(server.log().contains("an error after 600 ms"), "{}", server.log());
    assert_eq!(status(&target, "/lifted"), "200");
    assert!(!server.log().contains("takes long") && !server.log().contains("is stopped"), "{}", server.log());
    assert_eq!(status(&target, "/sleep"), "504", "it was the deadline of one exchange");
    assert!(server.log().contains("an error after 1200 ms"), "{}", server.log());
}

fn the_worker_of_an_app_that_does_not_obey_is_ended() {
    let mut server = start("1");
    let target = Target::Tcp(server.address());
    let worker = server.wait_for_workers(1)[0];
    get_from(&target, "/catching").err().expect("it is never answered");
    server.wait_for_log(&format!("(pid {worker}) is stopped: its app has done nothing for 4 s: GET /catching"));
    assert_eq!(server.log().matches("an error after").count(), 1, "an order comes once: {}", server.log());
    wait_until("its end", || !runs(worker));
    assert_eq!(status(&target, "/"), "200");
}

fn an_order_never_reaches_another_request() {
    let mut server = start("2");
    let target = Target::Tcp(server.address());
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let target = target.clone();
            std::thread::spawn(move || {
                for _ in 0..6 {
                    // The app answers, interrupted or not.
                    assert_eq!(status(&target, "/about"), "200");
                    assert_eq!(status(&target, "/"), "200");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("it is answered"));
    assert!(!server.log().contains("for another request"), "{}", server.log());
}
