//! A collector that gives the answers of a test, and keeps the accepted spans.

use oribi_protobuf::{Fields, Value};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A span as a collector sees it. Ids are in hexadecimal digits.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub kind: u64,
    pub begin: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    pub is_error: bool,
}

/// The content of one request that was accepted.
#[derive(Debug, Default)]
struct CollectorLog {
    answers: VecDeque<String>,
    requests: usize,
    fields: Vec<String>,
    spans: Vec<Span>,
    services: Vec<String>,
    connections: Vec<TcpStream>,
}

pub struct Collector {
    pub address: SocketAddr,
    seen: Arc<Mutex<CollectorLog>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"))
    }

    pub fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let (seen, is_over) = (Arc::new(Mutex::new(CollectorLog::default())), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (seen, is_over) = (Arc::clone(&seen), Arc::clone(&is_over));
            move || {
                while let Ok((stream, _)) = listener.accept() {
                    if is_over.load(SeqCst) {
                        return;
                    }
                    seen.lock().expect("nobody panics").connections.extend(stream.try_clone());
                    let seen = Arc::clone(&seen);
                    std::thread::spawn(move || while attend(&stream, &seen).is_some() {});
                }
            }
        });
        Self { address, seen, is_over, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the collector answer one of the next requests in this way, and discard the spans of that request.
    pub fn refuse_once(&self, status: &str, more: &str, body: &str) {
        let answer = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\n\r\n{body}", body.len());
        self.seen.lock().expect("nobody panics").answers.push_back(answer);
    }

    pub fn requests(&self) -> usize {
        self.seen.lock().expect("nobody panics").requests
    }

    /// Returns the fields of all requests, in lower case.
    pub fn fields(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panics").fields.clone()
    }

    pub fn services(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panics").services.clone()
    }

    /// Returns all spans that the collector has accepted.
    pub fn spans(&self) -> Vec<Span> {
        self.seen.lock().expect("nobody panics").spans.clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
        for connection in &self.seen.lock().expect("nobody panics").connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers one request; `None` if the connection is over.
fn attend(mut stream: &TcpStream, seen: &Mutex<CollectorLog>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut fields, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
        fields.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = {
        let mut seen = seen.lock().expect("nobody panics");
        seen.requests += 1;
        seen.fields.append(&mut fields);
        match seen.answers.pop_front() {
            Some(answer) => answer,
            None => {
                take(&body, &mut seen);
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
        }
    };
    stream.write_all(answer.as_bytes()).ok()
}

fn take(body: &[u8], seen: &mut CollectorLog) {
    for (_, resource_spans) in Fields(body) {
        for (field, part) in Fields(bytes(resource_spans)) {
            match field {
                1 => {
                    let attributes = Fields(bytes(part)).map(|(_, attribute)| attribute_of(bytes(attribute)));
                    seen.services.extend(attributes.filter(|(name, _)| name == "service.name").map(|(_, value)| value));
                }
                2 => seen
                    .spans
                    .extend(Fields(bytes(part)).filter(|(field, _)| *field == 2).map(|(_, span)| span_of(bytes(span)))),
                _ => {}
            }
        }
    }
}

fn span_of(message: &[u8]) -> Span {
    let mut span = Span::default();
    for (field, value) in Fields(message) {
        match (field, value) {
            (1, value) => span.trace = digits(bytes(value)),
            (2, value) => span.id = digits(bytes(value)),
            (4, value) => span.parent = digits(bytes(value)),
            (5, value) => span.name = text(bytes(value)),
            (6, Value::Number(kind)) => span.kind = kind,
            (7, Value::Fixed64(begin)) => span.begin = begin,
            (8, Value::Fixed64(end)) => span.end = end,
            (9, value) => span.attributes.extend([attribute_of(bytes(value))]),
            (15, value) => span.is_error = Fields(bytes(value)).any(|field| field == (3, Value::Number(2))),
            _ => {}
        }
    }
    span
}

fn attribute_of(message: &[u8]) -> (String, String) {
    let (mut name, mut told) = (String::new(), String::new());
    for (field, value) in Fields(message) {
        match field {
            1 => name = text(bytes(value)),
            _ => {
                told = match Fields(bytes(value)).next() {
                    Some((_, Value::Bytes(bytes))) => text(bytes),
                    Some((_, Value::Number(number))) => number.to_string(),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    (name, told)
}

fn bytes(value: Value<'_>) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("a message is expected: {other:?}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
