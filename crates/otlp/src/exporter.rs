//! Queues records and delivers them to the collector on a thread of its own, so that callers never wait for the collector.

use crate::account::Account;
use crate::collector::{Collector, Outcome, TIME};
use crate::message::Message;
use crate::patience::pause;
use crate::queue::Queue;
use crate::request::{SPANS_OF_RECORD, request};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The time after which a message is no longer sent again.
const GIVE_UP: Duration = Duration::from_secs(300);

/// The least time for a request, even if the time of the last delivery is over: it is enough for a collector that responds.
const SHORTEST: Duration = Duration::from_millis(100);

/// Delivers records to a collector.
#[derive(Debug)]
pub struct Exporter {
    shared: Arc<SharedQueue>,
    courier: JoinHandle<()>,
}

/// The state that the exporter and the thread `courier` share.
#[derive(Debug, Default)]
struct SharedQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    account: Account,
    /// The time at which the last delivery must end. If it is set, no more records arrive.
    end_by: Option<Instant>,
    /// Whether the courier has ended.
    done: bool,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Option<Duration>) -> MutexGuard<'a, State> {
        match time {
            Some(time) => self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Exporter {
    /// Starts the thread that sends to `collector`. `resource` has the attributes of the server as a whole.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(collector: Collector, resource: Vec<(&'static str, String)>) -> Result<Self, String> {
        let shared = Arc::new(SharedQueue::default());
        let courier = Courier { shared: Arc::clone(&shared), collector, resource };
        let courier = Builder::new().name("courier".to_owned()).spawn(move || courier.work());
        let courier = courier.map_err(|error: io::Error| format!("cannot start a thread: {error}"))?;
        Ok(Self { shared, courier })
    }

    /// Reads a message of a process of this server, and queues its records.
    ///
    /// # Errors
    /// The thread that sends has died, so nothing more is delivered.
    pub fn take(&self, message: &[u8]) -> Result<(), String> {
        let Message { lost, records, is_broken } = Message::read(message);
        let now = Instant::now();
        let mut state = self.shared.lock();
        let crowded = records.iter().filter(|record| !state.queue.add(record, now)).count();
        state.account.crowded(u64::from(lost) + crowded as u64);
        if is_broken {
            state.account.broken();
        }
        drop(state);
        self.shared.changed.notify_all();
        if self.courier.is_finished() { Err("the thread that delivers spans has died".to_owned()) } else { Ok(()) }
    }

    /// Delivers the queued records, as many as possible until `end_by`, and logs the number of all others.
    pub fn finish(self, end_by: Instant) {
        let mut state = self.shared.lock();
        state.end_by = Some(end_by);
        self.shared.changed.notify_all();
        while !state.done && !self.courier.is_finished() {
            let left = (end_by + SHORTEST).saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The courier is still waiting for a response.
                let waiting = state.queue.clear();
                state.account.undelivered(waiting);
                break;
            }
            state = self.shared.wait(state, Some(left.min(Duration::from_millis(250))));
        }
        if let Some(message) = state.account.message(Instant::now(), true) {
            log::warn!("{message}");
        }
    }
}

/// The thread that sends to the collector.
struct Courier {
    shared: Arc<SharedQueue>,
    collector: Collector,
    resource: Vec<(&'static str, String)>,
}

impl Courier {
    fn work(self) {
        while let Some(records) = self.next() {
            self.deliver(&records);
        }
        self.shared.lock().done = true;
        self.shared.changed.notify_all();
    }

    /// Waits for the next records to deliver and returns them; `None` if no more will come.
    fn next(&self) -> Option<Vec<Box<[u8]>>> {
        let mut state = self.shared.lock();
        loop {
            let now = Instant::now();
            if let Some(message) = state.account.message(now, false) {
                log::warn!("{message}");
            }
            match (state.queue.wait(now), state.end_by) {
                (None, Some(_)) => return None,
                (Some(wait), None) if !wait.is_zero() => state = self.shared.wait(state, Some(wait)),
                (Some(_), _) => return Some(state.queue.take(now)),
                (None, None) => {
                    let wait = state.account.wait(now);
                    state = self.shared.wait(state, wait);
                }
            }
        }
    }

    fn deliver(&self, records: &[Box<[u8]>]) {
        let resource: Vec<(&str, &str)> = self.resource.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let message = request(&resource, records.iter().map(AsRef::as_ref));
        let (begun, mut tries) = (Instant::now(), 0);
        loop {
            let ends = self.shared.lock().end_by;
            let time = ends.map(|end_by| end_by.saturating_duration_since(Instant::now()).clamp(SHORTEST, TIME));
            let outcome = self.collector.send(&message, time);
            let mut state = self.shared.lock();
            let (asked, why) = match outcome {
                Outcome::Taken(partial) => {
                    if partial.spans > 0 || !partial.why.is_empty() {
                        state.account.refused(partial.spans, format!("the collector's message: {}", partial.why));
                    }
                    return;
                }
                Outcome::Refused(why) => return state.account.refused((records.len() * SPANS_OF_RECORD) as u64, why),
                Outcome::Later { asked, why } => (asked, why),
            };
            state.account.trouble(why);
            // At the end, nothing is tried twice: the collector has just failed.
            if ends.is_some() {
                let waiting = state.queue.clear();
                return state.account.undelivered(records.len() + waiting);
            }
            if begun.elapsed() >= GIVE_UP {
                return state.account.undelivered(records.len());
            }
            let until = Instant::now() + pause(tries, asked);
            tries += 1;
            while state.end_by.is_none() {
                let now = Instant::now();
                if let Some(message) = state.account.message(now, false) {
                    log::warn!("{message}; retrying with the spans that wait");
                }
                let left = until.saturating_duration_since(now);
                if left.is_zero() {
                    break;
                }
                let wait = state.account.wait(now).map_or(left, |wait| wait.min(left));
                state = self.shared.wait(state, Some(wait));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Outbox;
    use crate::record::tests::example;
    use crate::request::tests::read;
    use crate::settings::Settings;
    use std::io::{BufRead, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// Reads a request from a connection and returns its content.
    fn receive(stream: &TcpStream) -> Option<Vec<u8>> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content).ok()?;
        Some(content)
    }

    /// Starts a collector that gives these responses in turn. Its thread returns the contents of the requests.
    fn collector(answers: Vec<&'static str>) -> (String, JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1/traces", listener.local_addr().expect("bound"));
        let thread = std::thread::spawn(move || {
            let mut got = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                got.push(receive(&stream).expect("a request"));
                stream.write_all(answer.as_bytes()).expect("it reads");
            }
            got
        });
        (url, thread)
    }

    fn exporter(url: &str) -> Exporter {
        let settings = Settings { endpoint: Some(url.to_owned()), ..Settings::default() };
        let collector = Collector::new(&settings, |_| None).expect("it needs no file");
        Exporter::start(collector, vec![("service.name", "shop".to_owned())]).expect("it starts")
    }

    fn give(exporter: &Exporter, records: usize) {
        let mut outbox = Outbox::default();
        let take = |bytes: &[u8]| exporter.take(bytes).is_ok();
        (0..records).for_each(|_| outbox.add(&example(), take));
        outbox.flush(take);
    }

    const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn undelivered(exporter: &Exporter) -> Account {
        std::mem::take(&mut exporter.shared.lock().account)
    }

    #[test]
    fn a_message_is_sent_again_when_the_collector_wants_that() {
        let later = "HTTP/1.1 429 Slow\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let (url, thread) = collector(vec![later, later, TAKEN]);
        let exporter = exporter(&url);
        give(&exporter, 3);
        let got = thread.join().expect("it has answered");
        assert!(got[0] == got[1] && got[1] == got[2]);
        let (resource, spans) = read(&got[2]);
        assert_eq!((resource[0].1.as_str(), spans.len()), ("shop", 12));
        exporter.finish(far());
    }

    #[test]
    fn no_more_than_a_batch_is_sent_at_once_and_the_rest_at_the_end() {
        let (url, thread) = collector(vec![TAKEN; 3]);
        let exporter = exporter(&url);
        give(&exporter, 300);
        exporter.finish(far());
        let counts: Vec<usize> = thread.join().expect("it has answered").iter().map(|body| read(body).1.len()).collect();
        assert!(counts.iter().sum::<usize>() == 1200 && counts.iter().all(|count| *count <= 512), "{counts:?}");
    }

    #[test]
    fn what_is_refused_is_not_sent_again() {
        let (url, thread) = collector(vec!["HTTP/1.1 400 Bad\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad", TAKEN]);
        let exporter = exporter(&url);
        exporter.shared.lock().account = {
            let mut account = Account::default();
            // The log has just got a message, so the account holds back the next one.
            account.broken();
            let _ = account.message(Instant::now(), true);
            account
        };
        give(&exporter, 1);
        while exporter.shared.lock().account.wait(Instant::now()).is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let message = undelivered(&exporter).message(Instant::now(), true).expect("something has happened");
        assert!(
            message.starts_with("spans: 4 were refused; http://") && message.ends_with("has answered 400 (bad)"),
            "{message}"
        );
        give(&exporter, 2);
        exporter.finish(far());
        let got = thread.join().expect("it has answered");
        assert_eq!(read(&got[1]).1.len(), 8);
    }

    #[test]
    fn the_end_waits_for_nobody_who_is_not_there() {
        let url = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            format!("http://{}/", listener.local_addr().expect("bound"))
        };
        let exporter = exporter(&url);
        give(&exporter, 3000);
        let shared = Arc::clone(&exporter.shared);
        exporter.finish(far());
        assert!(shared.lock().done, "it has not waited");
        // A collector that accepts connections and never responds.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let exporter = self::exporter(&format!("http://{}/", listener.local_addr().expect("bound")));
        give(&exporter, 1);
        exporter.finish(Instant::now() + Duration::from_millis(50));
    }
}
