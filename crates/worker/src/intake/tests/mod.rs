//! Tests a worker's intake with a real pool and its edge, in one process. The tests act as the edge and the app.

mod answers;
mod postponed;
mod requests;
mod resting;

use super::Intake;
use crate::event_sources::EventSources;
use oribi_config::Settings;
use oribi_host::{Content, Endpoint, ExchangeId, Request};
use oribi_ipc::slot::{Content as Announced, Heads, encode_request};
use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, ResponseHead, Span};
use oribi_pool::{DescriptorRequest, Edge, Event, Memory, Shape, Ticket, Worker};
use oribi_source::{LentRequest, Next, Source};
use oribi_test_support::{Deadline, waits_for};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

const SHAPE: Shape = Shape { slots: 16, request_bytes: 2048, workers: 2, areas: 3, area_bytes: 2048 };

const OK: ResponseHead<'_> = ResponseHead { status: 200, fields: &[(b"X", b"y")] };

/// An event of an exchange in the edge.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// A whole response: its status, its content, and the size according to its head.
    Whole(u16, Vec<u8>, u64),
    /// A head: its status, and the size of the content; `None` if unknown.
    Head(u16, Option<u64>),
    Interim(u16),
    Content(Vec<u8>),
    /// The first of the trailers, as a line.
    Trailers(String),
    /// The content of the part of a file.
    File(Vec<u8>),
    Message(Vec<u8>),
    DescriptorRequest(DescriptorRequest),
    Deadline(Option<Duration>),
    Finished,
    Abandoned,
}

/// A pool with an edge and a worker.
struct Site {
    edge: Edge,
    intake: Intake<'static>,
    event_sources: EventSources,
    /// The pipe that wakes the worker.
    command: PipeWriter,
    _pipe: PipeReader,
    heads: Heads,
    bytes: Vec<u8>,
    _deadline: Deadline,
}

impl Site {
    fn new() -> Self {
        Self::of(SHAPE)
    }

    fn of(shape: Shape) -> Self {
        let deadline = waits_for("the other side of its pool");
        let settings: &'static Settings = Box::leak(Box::default());
        let memory = Memory::new(shape).expect("memory is to be had");
        let edge = Edge::new(&memory).expect("memory is to be had");
        let worker = Worker::attach_free(&memory).expect("a place is free");
        let (pipe, command) = std::io::pipe().expect("a pipe is to be had");
        let event_sources = EventSources::new(pipe.as_fd()).expect("epoll works");
        let intake = Intake::new(settings, vec![worker], &event_sources).expect("epoll works");
        Self {
            edge,
            intake,
            event_sources,
            command,
            _pipe: pipe,
            heads: Heads::default(),
            bytes: Vec::new(),
            _deadline: deadline,
        }
    }

    /// Puts a request for `target` into the queue.
    fn ask(&mut self, target: &str) -> Ticket {
        self.ask_with(target, Content::None)
    }

    fn ask_with(&mut self, target: &str, content: Content<'_>) -> Ticket {
        submit(&mut self.edge, target, content)
    }

    /// Takes the next request.
    fn lend(&mut self) -> super::Lent {
        match self.intake.next_exchange_now().expect("epoll works") {
            Next::Exchange(lent) => lent,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the next request, as a lane whose host has returned and will answer later.
    fn take(&mut self) -> ExchangeId {
        let lent = self.lend();
        let id = lent.id();
        self.intake.give_back(lent);
        id
    }

    /// Whether the worker is idle.
    fn rests(&mut self) -> bool {
        matches!(self.intake.next_exchange_now().expect("epoll works"), Next::Nothing(None))
    }

    /// Returns all events that the edge can read.
    fn receive(&mut self) -> Vec<(Ticket, Said)> {
        let mut all = Vec::new();
        self.edge.gather();
        while let Some(event) = self.edge.next(&mut self.bytes) {
            all.push(self.understand(event));
        }
        self.edge.wake_workers();
        all
    }

    /// Returns the events of a single exchange.
    #[track_caller]
    fn hear_of(&mut self, ticket: Ticket) -> Vec<Said> {
        let all = self.receive();
        assert!(all.iter().all(|(of, _)| *of == ticket), "{all:?}");
        all.into_iter().map(|(_, said)| said).collect()
    }

    fn understand(&mut self, event: Event) -> (Ticket, Said) {
        let Self { heads, bytes, .. } = self;
        let mut status = |bytes: &[u8]| heads.read(bytes, |head| (head.head.status, head.content)).expect("a head");
        match event {
            Event::Whole(ticket, size) => match status(&bytes[..size]) {
                (status, Announced::Whole { size: told }) => (ticket, Said::Whole(status, bytes[size..].to_vec(), told)),
                other => panic!("{other:?}"),
            },
            Event::Head(ticket) => match status(bytes) {
                (status, Announced::Whole { size }) => (ticket, Said::Head(status, Some(size))),
                (status, Announced::Started) => (ticket, Said::Head(status, None)),
                other => panic!("{other:?}"),
            },
            Event::Interim(ticket) => (ticket, Said::Interim(status(bytes).0)),
            Event::Content(ticket) => (ticket, Said::Content(bytes.clone())),
            Event::Trailers(ticket) => {
                let line = |(name, value): (&[u8], &[u8])| format!("{}: {}", name.escape_ascii(), value.escape_ascii());
                let read = heads
                    .read(bytes, |head| (head.content, head.head.fields.first().map_or_else(String::new, |&pair| line(pair))));
                match read.expect("trailers") {
                    (Announced::Trailers, line) => (ticket, Said::Trailers(line)),
                    other => panic!("{other:?}"),
                }
            }
            Event::File(ticket, file, part) => {
                let mut content = vec![0; part.size as usize];
                let file = file.expect("its descriptor has come");
                file.read_exact_at(&mut content, part.offset).expect("it has that many bytes");
                (ticket, Said::File(content))
            }
            Event::Message(ticket) => (ticket, Said::Message(bytes.clone())),
            Event::DescriptorRequest(ticket, request) => (ticket, Said::DescriptorRequest(request)),
            Event::Deadline(ticket, time) => (ticket, Said::Deadline(time)),
            Event::Finished(ticket) => (ticket, Said::Finished),
            Event::Abandoned(ticket) => (ticket, Said::Abandoned),
            other => panic!("{other:?}"),
        }
    }
}

fn submit(edge: &mut Edge, target: &str, content: Content<'_>) -> Ticket {
    let text = format!("GET{target}Hosta");
    let (path, host) = (3 + target.len(), 3 + target.len() + 4);
    let fields =
        vec![FieldLayout { name: Span::new(path, host), value: Span::new(host, host + 1), known: Some(KnownField::Host) }];
    let (target, method) = (Span::new(3, path), Span::new(0, 3));
    let layout = HeadLayout { method, target, path: target, fields, ..HeadLayout::default() };
    let request = Request {
        head: RequestHead::new(text.as_bytes(), &layout),
        content,
        trailers: None,
        remote: Endpoint { address: b"192.0.2.1", port: b"4711" },
        server: Endpoint { address: b"example.org", port: b"80" },
        forwarded_port: false,
        chosen_name: false,
        https: false,
        underscores: false,
        gateway: None,
    };
    submit_request(edge, &request)
}

fn submit_request(edge: &mut Edge, request: &Request<'_>) -> Ticket {
    let mut reserved = edge.reserve().expect("a slot is free");
    let length = encode_request(request, &[], edge.room(&mut reserved)).expect("it fits");
    let ticket = edge.submit(reserved, length);
    edge.wake_workers();
    ticket
}

/// Acts as an edge until a worker asks for a descriptor, and sends it.
fn send_descriptor(edge: &mut Edge, request: DescriptorRequest, descriptor: BorrowedFd<'_>) {
    let mut bytes = Vec::new();
    loop {
        edge.gather();
        match edge.next(&mut bytes) {
            Some(Event::DescriptorRequest(ticket, requested)) => {
                assert_eq!(requested, request);
                return edge.send_descriptor(ticket, descriptor).expect("the line has room");
            }
            Some(other) => panic!("{other:?}"),
            None => std::thread::yield_now(),
        }
    }
}
