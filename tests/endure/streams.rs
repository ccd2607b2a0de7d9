//! Clients of HTTP/2 that have several requests open at once on each of their connections.

use crate::http2_streams::{Done, Outcome, Streams};
use crate::load::{Load, Manner, Question, Report, Shared};
use crate::server::wait_until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const CONNECTIONS: usize = 2;

/// The number of requests that a connection sends at once, and the pause after their answers.
const AT_ONCE: usize = 6;
const REST: Duration = Duration::from_millis(100);

/// If an answer has not arrived for so long, it is considered missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of the next request. No two requests have the same number; other loads use smaller ones.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Connects the clients, and returns when some requests have been answered. Each connection is a load of its own.
pub fn start(address: SocketAddr, manner: Manner, question: fn(u64) -> Question) -> Vec<Load> {
    let begin = |_| {
        Load::doing(move |shared| {
            Client { address, manner, question, shared, connection: None, report: Report::default() }.work()
        })
    };
    let loads: Vec<Load> = (0..CONNECTIONS).map(begin).collect();
    wait_until("the first answers to streams", || loads.iter().all(|load| load.answered() + load.faults() > 0));
    loads
}

/// A client that has one connection after the other.
struct Client<'a> {
    address: SocketAddr,
    manner: Manner,
    question: fn(u64) -> Question,
    shared: &'a Shared,
    connection: Option<Streams>,
    report: Report,
}

impl Client<'_> {
    fn work(mut self) -> Report {
        while !self.shared.stop.load(Relaxed) {
            let mut questions: Vec<Question> =
                (0..AT_ONCE as u64).map(|_| (self.question)(NEXT.fetch_add(1, Relaxed))).collect();
            // A server that leaves may not take some of them.
            while !(questions.is_empty() || self.shared.stop.load(Relaxed) && self.connection.is_none()) {
                questions = self.burst(questions);
            }
            std::thread::sleep(REST);
        }
        self.report
    }

    fn fault(&mut self, what: String) {
        self.report.faults.push(what);
        self.shared.faults.fetch_add(1, Relaxed);
    }

    /// Counts a connection that the server has ended without announcing it.
    fn closed(&mut self, what: String) {
        self.report.closed += 1;
        self.connection = None;
        self.fault(what);
    }

    /// Counts a connection whose end the server has announced, and on which it has answered all requests that it had taken.
    fn parted(&mut self) {
        self.connection = None;
        if self.manner == Manner::Kept {
            self.report.closed += 1;
            self.fault("the server wants to end a connection of streams".to_owned());
        } else {
            self.report.parted += 1;
        }
    }

    /// Sends all of these requests at once, and receives the answers. Returns the requests that the server has not taken
    /// because it was ending the connection.
    fn burst(&mut self, questions: Vec<Question>) -> Vec<Question> {
        let Some(mut streams) = self.connected() else { return questions };
        let mut open = BTreeMap::new();
        for question in questions {
            let method = if question.sent.is_empty() { "GET" } else { "POST" };
            match streams.ask(method, &question.target, &question.sent) {
                Ok(number) => _ = open.insert(number, question),
                Err(error) => {
                    self.closed(format!("{}: sending on a stream: {error}", question.target));
                    return Vec::new();
                }
            }
        }
        let mut not_taken = Vec::new();
        while streams.open() > 0 || !open.is_empty() {
            match streams.take() {
                Ok(Some(done)) => {
                    let question = open.remove(&done.number).expect("only open requests are done");
                    match done.outcome {
                        Outcome::NotTaken if streams.is_leaving() => not_taken.push(question),
                        _ => self.judge(&question, done),
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let targets: Vec<_> = open.values().map(|question| &question.target).collect();
                    self.closed(format!("{error} while streams wait: {targets:?}"));
                    return not_taken;
                }
            }
        }
        if streams.is_leaving() {
            self.parted();
        } else {
            self.connection = Some(streams);
        }
        not_taken
    }

    fn judge(&mut self, question: &Question, done: Done) {
        match done.outcome {
            Outcome::Answered { status, fields, content } => {
                self.report.times.push(done.asked.elapsed());
                *self.report.statuses.entry(status).or_default() += 1;
                let worker = fields.iter().find(|(name, _)| name == "x-worker").and_then(|(_, worker)| worker.parse().ok());
                self.shared.workers.lock().expect("nobody panicked").extend::<Option<u32>>(worker);
                if status == 200 && content != question.content {
                    let start = String::from_utf8_lossy(&content[..content.len().min(60)]).into_owned();
                    self.fault(format!("{}: the answer is not its own: {} bytes, {start:?}", question.target, content.len()));
                }
                self.shared.answered.fetch_add(1, Relaxed);
            }
            outcome => self.fault(format!("{}: {outcome:?}", question.target)),
        }
    }

    /// Returns the connection if the server still keeps it, or else a new one; `None` if no connection is possible at present.
    fn connected(&mut self) -> Option<Streams> {
        if let Some(mut streams) = self.connection.take() {
            match is_told_nothing(&mut streams) {
                Ok(true) => return Some(streams),
                Ok(false) => self.parted(),
                Err(error) => self.closed(format!("the end of a connection without open streams: {error}")),
            }
        }
        let connected = Streams::connect(self.address).and_then(|streams| {
            streams.socket().set_read_timeout(Some(PATIENCE))?;
            Ok(streams)
        });
        match connected {
            Ok(streams) => Some(streams),
            Err(error) => {
                self.fault(format!("a new connection for streams: {error}"));
                std::thread::sleep(REST);
                None
            }
        }
    }
}

/// Whether the server has not announced the end of the connection meanwhile.
fn is_told_nothing(streams: &mut Streams) -> io::Result<bool> {
    let has_more = |streams: &Streams| {
        let mut polled = [PollFd::new(streams.socket(), PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
    };
    while has_more(streams) && !streams.is_leaving() {
        streams.receive()?;
        if streams.has_ended() && !streams.is_leaving() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(!streams.is_leaving())
}
