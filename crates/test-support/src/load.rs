//! Many connections at once, in one thread: each has one request at a time, and every byte of every answer is checked.

use crate::connection::request;
use crate::http2::NOT_TAKEN;
use crate::response::{self, Response, letters};
use crate::server::wait_until;
use crate::wire::{Wire, over_http2};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// If an answer has not arrived for so long, it is considered missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time for which a stopping server waits for the next request of an idle client, minus a time for answers that are still
/// on their way.
const IDLE: Duration = Duration::from_millis(900);

/// The expected content of answers that differ from time to time: only the length is checked.
pub const ANYTHING: &[u8] = b"anything";

/// A request and its expected answer.
pub struct Question {
    pub target: String,
    /// The content of a POST; if it is empty, the request is a GET.
    pub sent: Vec<u8>,
    pub content: Vec<u8>,
}

impl Question {
    pub fn new(target: String, content: impl Into<Vec<u8>>) -> Self {
        Self { target, sent: Vec::new(), content: content.into() }
    }

    pub fn fast(number: u64) -> Self {
        Self::new(format!("/fast?{number}"), format!("fast {number}\n"))
    }

    /// A request that makes the app keep another mebibyte of memory.
    pub fn leak(number: u64) -> Self {
        Self::new(format!("/leak?{number}"), format!("leak {number}\n"))
    }

    pub fn nap(number: u64, seconds: f64) -> Self {
        Self::new(format!("/nap?{number}&{seconds}"), format!("nap {number}\n"))
    }

    /// A request for an answer of `length` bytes, sent as a whole.
    pub fn big(number: u64, length: usize) -> Self {
        Self::new(format!("/big?{number}&{length}"), letters(number, length))
    }

    /// A request for an answer of `length` bytes, which the app sends in five pieces.
    pub fn stream(number: u64, length: usize) -> Self {
        Self::new(format!("/stream?{number}&{length}&5"), letters(number, length))
    }

    /// A request with `length` bytes of content, which the app sends back.
    pub fn upload(number: u64, length: usize) -> Self {
        let sent = letters(number, length);
        Self { sent: sent.clone(), ..Self::new(format!("/upload?{number}"), sent) }
    }
}

/// The state of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It stays open: it is a fault if the server ends it.
    Kept,
    /// It stays open until the server has announced its end (`Connection: close`). An end without that announcement is a fault,
    /// with one exception: a stopping server waits for a second for the next request of an idle client, and the request arrives
    /// after that. A reset is always a fault.
    Parting,
    /// The client closes it: each request has its own connection.
    Short,
}

/// The work of a load.
pub struct Plan {
    pub connections: usize,
    /// The time between two requests, over all connections. `None` lets each connection send its next request as soon as it has
    /// an answer.
    pub pace: Option<Duration>,
    /// The number of requests; `None` for no limit.
    pub requests: Option<u64>,
    pub question: fn(u64) -> Question,
}

/// The results of a load.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of answers by status.
    pub statuses: BTreeMap<u16, usize>,
    /// The times of the answers, shortest first.
    pub times: Vec<Duration>,
    /// The ids of the processes whose apps have answered, without those that [`Load::workers`] has already returned.
    workers: BTreeSet<u32>,
    /// Connections that the server has closed or reset, whether they were waiting for an answer or not.
    pub closed: usize,
    /// Connections whose end the server has announced, where [`Manner`] permits that.
    pub parted: usize,
    /// Other faults: wrong answers, and missing ones.
    pub faults: Vec<String>,
}

impl Report {
    /// The number of answers.
    pub fn answers(&self) -> usize {
        self.times.len()
    }

    pub fn mean(&self) -> Duration {
        self.times.iter().sum::<Duration>() / self.times.len().max(1) as u32
    }

    pub fn longest(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }

    /// Returns the longest time of the fastest `percent` percent of the answers.
    pub fn percentile(&self, percent: usize) -> Duration {
        self.times.get((self.times.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
    }

    fn first_faults(&self) -> &[String] {
        &self.faults[..self.faults.len().min(5)]
    }

    /// Checks that all answers have status 200, and that no connection was closed.
    pub fn must_be_perfect(&self, what: &str) {
        self.must_be_without_faults(what);
        assert_eq!(self.statuses.keys().collect::<Vec<_>>(), [&200], "{what}: statuses and how often: {:?}", self.statuses);
    }

    /// Checks that each request has an answer of any status, and that no connection was closed.
    pub fn must_be_without_faults(&self, what: &str) {
        assert!(
            self.faults.is_empty(),
            "{what}: {} faults, {} closed: {:#?}",
            self.faults.len(),
            self.closed,
            self.first_faults()
        );
        assert_eq!(self.closed, 0, "{what}: connections that the server has closed");
        assert!(self.answers() > 0, "{what}: nothing was asked");
    }
}

/// A load at work.
pub struct Load {
    thread: JoinHandle<Report>,
    shared: Arc<Shared>,
}

/// The state of a load while it is at work, and whether it is to stop.
#[derive(Default)]
pub struct Shared {
    pub stop: AtomicBool,
    pub answered: AtomicUsize,
    /// Faults and connections that the server has closed.
    pub faults: AtomicUsize,
    pub workers: Mutex<BTreeSet<u32>>,
}

impl Load {
    /// Opens the connections and starts the load. When this returns, the first request of each connection has been answered.
    pub fn start(address: SocketAddr, plan: Plan) -> Self {
        let opened = Opened::new(address, plan.connections);
        opened.begin(plan)
    }

    /// Starts a load that does this work.
    pub fn doing(work: impl FnOnce(&Shared) -> Report + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        Self { thread: std::thread::spawn(move || work(&of_thread)), shared }
    }

    /// The number of requests answered so far.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(Relaxed)
    }

    /// The number of faults and closed connections so far.
    pub fn faults(&self) -> usize {
        self.shared.faults.load(Relaxed)
    }

    /// Waits until `count` more requests have been answered.
    pub fn wait_for_more(&self, count: usize) {
        let goal = self.answered() + count;
        wait_until("more answers", || self.answered() >= goal || self.thread.is_finished());
        assert!(self.answered() >= goal, "the load has ended");
    }

    /// Returns the ids of the processes whose apps have answered since the last call.
    pub fn workers(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.shared.workers.lock().expect("nobody panicked"))
    }

    /// Stops the load, waits for the answers to open requests, and returns the results.
    pub fn stop(self) -> Report {
        self.shared.stop.store(true, Relaxed);
        self.wait()
    }

    /// Waits until a load with a limited number of requests has ended, and returns the results.
    pub fn wait(self) -> Report {
        let mut report = self.thread.join().expect("a load does not panic");
        report.times.sort_unstable();
        report
    }
}

/// Connections that wait for the requests of a load.
pub struct Opened {
    address: SocketAddr,
    lines: Vec<LoadConnection>,
    manner: Manner,
}

impl Opened {
    /// Opens connections without sending a request on them.
    pub fn idle(address: SocketAddr, connections: usize) -> Self {
        Self { address, lines: (0..connections).map(|_| LoadConnection::open(address)).collect(), manner: Manner::Kept }
    }

    /// Opens connections, and waits for the answer to one request on each.
    pub fn new(address: SocketAddr, connections: usize) -> Self {
        let mut opened = Self::idle(address, connections);
        let mut report = Report::default();
        for line in &mut opened.lines {
            line.send(Question::fast(u64::MAX), u64::MAX, &mut report);
            let mut is_answered = || line.receive(address, Manner::Kept, &mut report) || report.closed > 0;
            wait_until("the first answer of a connection", &mut is_answered);
        }
        report.must_be_perfect("the first answers");
        opened
    }

    /// Sets the way in which the connections are used from now on.
    pub fn behave(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    pub fn begin(self, plan: Plan) -> Load {
        Load::doing(move |shared| work(self, &plan, shared))
    }
}

/// The number of the next request: no two requests of all loads have the same number.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000);

/// One connection.
struct LoadConnection {
    stream: Wire,
    bytes: Vec<u8>,
    waiting: Option<Waiting>,
    /// The time at which the connection was opened, or got its last answer.
    idle_since: Instant,
}

struct Waiting {
    number: u64,
    question: Question,
    sent: Instant,
    /// Whether the request was sent after the server's end of the connection had arrived, so that the server could not answer
    /// it.
    too_late: bool,
}

impl LoadConnection {
    fn open(address: SocketAddr) -> Self {
        Self::try_to_open(address).expect("the server listens")
    }

    fn try_to_open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = Wire::connect(address)?;
        stream.socket().set_nonblocking(true)?;
        Ok(Self { stream, bytes: Vec::new(), waiting: None, idle_since: Instant::now() })
    }

    /// Replaces this connection by a new one. It is a fault if the server does not accept the new connection at the first try.
    fn renew(&mut self, address: SocketAddr, report: &mut Report) {
        let begun = Instant::now();
        loop {
            match Self::try_to_open(address) {
                Ok(line) => return *self = line,
                Err(error) => report.faults.push(format!("{}: a new connection: {error}", clock())),
            }
            assert!(begun.elapsed() < PATIENCE, "the server takes no connections: {:?}", report.first_faults());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the time, and the local port, which identifies this connection in lists of sockets.
    fn here_and_now(&self) -> String {
        let port = self.stream.socket().local_addr().map_or(0, |own| own.port());
        format!("{} port {port}", clock())
    }

    fn send(&mut self, question: Question, number: u64, report: &mut Report) {
        let sent = Instant::now();
        let method = if question.sent.is_empty() { "GET" } else { "POST" };
        // It is shorter than the room of any socket that waits for nothing.
        if let Err(error) = self.stream.write_all(&request(method, &question.target, &question.sent)) {
            report.faults.push(format!("{}: {}: sending: {error}", self.here_and_now(), question.target));
        }
        self.waiting = Some(Waiting { number, question, sent, too_late: self.has_been_ended() });
    }

    /// Whether the server's end of the connection has arrived. Over the loopback interface, sent data arrives before the call
    /// that sends it returns, in both directions.
    fn has_been_ended(&self) -> bool {
        let mut polled = [PollFd::new(self.stream.socket(), PollFlags::RDHUP)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
    }

    /// Takes the received bytes. Returns `true` if they are a whole answer, or if the connection has ended.
    fn receive(&mut self, address: SocketAddr, manner: Manner, report: &mut Report) -> bool {
        let mut buffer = [0; 65_536];
        match self.stream.read(&mut buffer) {
            Ok(count) if count > 0 => self.bytes.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return false,
            Err(error) if error.kind() == NOT_TAKEN && manner != Manner::Kept => {
                report.parted += 1;
                let waiting = self.waiting.take();
                self.renew(address, report);
                if let Some(Waiting { number, question, .. }) = waiting {
                    self.send(question, number, report);
                }
                return false;
            }
            // HTTP/2 has a frame for the end (GOAWAY), which also reaches clients that have just been answered.
            Ok(_) if over_http2() && self.waiting.is_none() && manner != Manner::Kept => {
                report.parted += 1;
                self.renew(address, report);
                return true;
            }
            ended => {
                let (asked, unread) =
                    self.waiting.as_ref().map_or_else(|| (Instant::now(), true), |waiting| (waiting.sent, waiting.too_late));
                let parts = manner == Manner::Parting && ended.is_ok() && self.bytes.is_empty();
                if parts && unread && asked.duration_since(self.idle_since) >= IDLE {
                    report.parted += 1;
                    self.renew(address, report);
                    return true;
                }
                report.closed += 1;
                let what = match &self.waiting {
                    Some(Waiting { question, sent, .. }) => {
                        let (after, got) = (sent.elapsed(), self.bytes.len());
                        format!("{}: {ended:?} behind {got} bytes of an answer, after {after:?}", question.target)
                    }
                    None => format!("{ended:?} while nothing was asked"),
                };
                report.faults.push(format!("{}: {what}", self.here_and_now()));
                self.renew(address, report);
                return true;
            }
        }
        match response::take(&mut self.bytes, false) {
            Ok(None) => false,
            Ok(Some(response)) => {
                if self.check(&response, manner, report) {
                    self.renew(address, report);
                }
                true
            }
            Err(why) => {
                report.faults.push(format!("{}: {why}", self.here_and_now()));
                self.renew(address, report);
                true
            }
        }
    }

    /// Compares a response with the expected one. Returns whether this client closes the connection.
    fn check(&mut self, response: &Response, manner: Manner, report: &mut Report) -> bool {
        let here = self.here_and_now();
        let Some(waiting) = self.waiting.take() else {
            report.faults.push(format!("{here}: an answer that nobody has asked for: {response:?}"));
            return false;
        };
        self.idle_since = Instant::now();
        report.times.push(waiting.sent.elapsed());
        *report.statuses.entry(response.status).or_default() += 1;
        report.workers.extend(response.field("X-Worker").and_then(|worker| worker.parse::<u32>().ok()));
        let target = &waiting.question.target;
        let expected = &waiting.question.content;
        if response.status == 200 && response.content != *expected && expected != ANYTHING {
            let number = waiting.number;
            report.faults.push(format!("{here}: {target} (request {number}): the answer is not its own: {response:?}"));
        }
        if !self.bytes.is_empty() {
            report.faults.push(format!("{here}: {target}: {} bytes behind the answer", self.bytes.len()));
        }
        match manner {
            Manner::Kept if response.ends() => {
                report.closed += 1;
                report.faults.push(format!("{here}: {target}: the server wants to end the connection"));
                false
            }
            Manner::Kept => false,
            Manner::Parting => {
                report.parted += usize::from(response.ends());
                response.ends()
            }
            Manner::Short => true,
        }
    }
}

/// The time of the day in UTC, as the server's log has it.
fn clock() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, now.subsec_millis())
}

fn work(opened: Opened, plan: &Plan, shared: &Shared) -> Report {
    let Opened { address, mut lines, manner } = opened;
    let mut report = Report::default();
    let (mut sent, mut turn) = (0, 0);
    let mut due = Instant::now();
    loop {
        let ends = shared.stop.load(Relaxed) || plan.requests.is_some_and(|requests| sent >= requests);
        let under_way = lines.iter().filter(|line| line.waiting.is_some()).count();
        if ends && under_way == 0 {
            return report;
        }
        let now = Instant::now();
        while !ends && plan.requests.is_none_or(|requests| sent < requests) && plan.pace.is_none_or(|_| due <= now) {
            // In turn, so that every connection has its share.
            let count = lines.len();
            let Some(free) = (turn..turn + count).map(|at| at % count).find(|at| lines[*at].waiting.is_none()) else { break };
            turn = free + 1;
            let number = NEXT.fetch_add(1, Relaxed);
            lines[free].send((plan.question)(number), number, &mut report);
            sent += 1;
            due += plan.pace.unwrap_or_default();
        }
        let pause = plan.pace.map_or(Duration::from_millis(20), |_| due.saturating_duration_since(Instant::now()));
        let pause = Timespec::try_from(pause.min(Duration::from_millis(20))).expect("it is short");
        let mut waits: Vec<PollFd<'_>> = lines.iter().map(|line| PollFd::new(line.stream.socket(), PollFlags::IN)).collect();
        if poll(&mut waits, Some(&pause)).is_err() {
            continue;
        }
        let ready: Vec<usize> = (0..waits.len()).filter(|at| !waits[*at].revents().is_empty()).collect();
        drop(waits);
        for at in ready {
            let before = report.answers();
            lines[at].receive(address, manner, &mut report);
            shared.answered.fetch_add(report.answers() - before, Relaxed);
        }
        shared.faults.store(report.faults.len() + report.closed, Relaxed);
        if !report.workers.is_empty() {
            shared.workers.lock().expect("nobody panicked").append(&mut report.workers);
        }
        let late = lines.iter().filter_map(|line| line.waiting.as_ref()).find(|waiting| waiting.sent.elapsed() > PATIENCE);
        if let Some(late) = late {
            report.faults.push(format!("{}: {}: no answer for {PATIENCE:?}", clock(), late.question.target));
            return report;
        }
    }
}
