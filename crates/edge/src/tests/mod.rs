//! Tests of an edge in a simulated network, with real workers of a real pool. The tests act as the workers' apps.

mod applying;
mod apps;
mod asking;
mod cache;
mod clients;
mod filters;
mod limits;
mod live;
mod passing;
mod passwords;
mod queue;
mod routes;
mod shares;
mod streams;
mod times;
mod tunnels;

use super::routes::Routes;
use super::{EdgeLoop, setup};
use crate::parent_link::{self, EdgeLink, ParentLink};
use oribi_config::{ListenAddress, Protocol, Settings};
use oribi_engine::Engine;
use oribi_io::{Client, Sim, World};
use oribi_ipc::posts::PostBoxes;
use oribi_ipc::slot::{Content, Stored, encode_head, encode_interim, encode_trailers};
use oribi_listen::{ListenSocket, Listener, Shard, listen_sockets, open};
use oribi_message::{FieldPair, ResponseHead};
use oribi_pool::{Memory, Taken, Worker};
use oribi_stats::scoreboard::WorkerSlot;
use oribi_tls::Tls;
use oribi_worker::lane::{Lane, LaneSetup};
use std::cell::{Cell, RefCell};
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(1);

/// More iterations than any test needs at a time.
const MANY: usize = 100_000;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// An edge, its clients and its workers.
struct Site {
    world: World,
    edge: EdgeLoop<'static, 'static, Tls<Sim>>,
    /// The memory of each app.
    memory: Vec<Memory>,
    slot: &'static WorkerSlot,
    edge_link: EdgeLink,
    posts: &'static PostBoxes,
    asleep: Rc<Cell<bool>>,
    timeout: Rc<Cell<Option<Duration>>>,
    ended: RefCell<bool>,
}

impl Site {
    /// Creates an edge with the settings of a user, and the pool for these settings.
    fn new(settings: &Settings) -> Self {
        Self::with_apps(settings, 1, None)
    }

    /// Creates an edge with several apps, which have the same settings.
    fn with_apps(settings: &Settings, apps: usize, routes: Option<&Arc<Routes>>) -> Self {
        let world = World::new();
        let memory = |_| Memory::new(setup::shape(settings, 4)).expect("memory is to be had");
        let memory: Vec<Memory> = (0..apps).map(memory).collect();
        let pool = |memory| oribi_pool::Edge::new(memory).expect("memory is to be had");
        let pools: Vec<oribi_pool::Edge> = memory.iter().map(pool).collect();
        let settings: &'static Settings = Box::leak(Box::new(setup::settings_of_edge(settings, &pools)));
        let listeners = listeners(settings.protocol);
        let listen_sockets: &'static [ListenSocket<'static>] = Vec::leak(listen_sockets(listeners, Shard::ONLY));
        let slot: &'static WorkerSlot = Box::leak(Box::new(WorkerSlot::unshared()));
        let lane_setup =
            LaneSetup { settings, listeners, listen_sockets, slot, running: &[], wake: wake().as_fd(), must_log: true };
        let (engine, event_sources) = lane_setup.engine(Sim::new(&world), 1).expect("nothing can refuse");
        let lane = Lane::new(engine, slot).woken_by(event_sources).with_settings(settings).expect("its directories exist");
        let (edge_link, parent_link) = parent_link::socket().expect("a socket");
        let parent_link: &'static ParentLink = Box::leak(Box::new(parent_link));
        let lane: &'static Lane<'static, Engine<'static, Tls<Sim>>> = Box::leak(Box::new(lane));
        let apps = pools.into_iter().map(|pool| (settings, pool));
        let posts: &'static PostBoxes = Box::leak(Box::new(PostBoxes::new(1, false).expect("a socket")));
        let edge = EdgeLoop::new(lane, &lane_setup, apps, (0, Some(posts))).expect("nothing can refuse");
        let mut edge = edge.with_parent(parent_link);
        edge.route_by(routes, 0);
        let (asleep, timeout) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(None)));
        let (flag, time) = (asleep.clone(), timeout.clone());
        world.when_idle(move |timeout| {
            time.set(timeout);
            flag.set(true);
        });
        let ended = RefCell::new(false);
        Self { world, edge, memory, slot, edge_link, posts, asleep, timeout, ended }
    }

    fn standard() -> Self {
        Self::new(&Settings::default())
    }

    /// Attaches a worker to the pool of the first app.
    fn worker(&self) -> App {
        self.worker_of(0)
    }

    /// Attaches a worker to the pool of an app.
    fn worker_of(&self, app: usize) -> App {
        // This process is the worker, and an edge may signal it because its app takes too long.
        oribi_io::process::orders::receive_orders().expect("handlers may be set");
        let worker = Worker::attach_free(&self.memory[app]).expect("a place is free");
        App { worker, stored: Stored::default() }
    }

    /// Serves until there is nothing to do at this moment; `false` if the edge has ended.
    #[track_caller]
    fn run(&mut self) -> bool {
        // The edge updates its clock when it waits, so only its second attempt to sleep counts.
        let mut rests = 0;
        for _ in 0..MANY {
            self.asleep.set(false);
            if *self.ended.borrow() || !self.edge.turn().expect("this backend cannot fail") {
                self.ended.replace(true);
                return false;
            }
            rests = if self.asleep.get() { rests + 1 } else { 0 };
            if rests == 2 {
                return true;
            }
        }
        panic!("the edge never rests");
    }

    /// Advances the clock as the kernel would.
    #[track_caller]
    fn advance(&mut self, mut time: Duration) {
        self.run();
        for _ in 0..MANY {
            match self.timeout.get() {
                Some(timeout) if timeout <= time && !*self.ended.borrow() => {
                    self.world.advance(timeout);
                    time -= timeout;
                    self.run();
                }
                _ => {
                    self.world.advance(time);
                    self.run();
                    return;
                }
            }
        }
        panic!("the edge spins");
    }

    /// Sends bytes on a connection, and returns the immediate response.
    #[track_caller]
    fn exchange(&mut self, client: &Client, bytes: &[u8]) -> String {
        client.send(bytes);
        self.run();
        text(&client.received())
    }

    /// Serves, and returns the bytes that a client receives.
    #[track_caller]
    fn received(&mut self, client: &Client) -> String {
        self.run();
        text(&client.received())
    }

    /// Connects a client, and sends `bytes`, a request.
    #[track_caller]
    fn asking(&mut self, bytes: &[u8]) -> Client {
        let client = self.world.connect();
        client.send(bytes);
        self.run();
        client
    }
}

/// A worker whose app is the test.
struct App {
    worker: Worker,
    stored: Stored,
}

impl App {
    /// Takes the next request.
    #[track_caller]
    fn take(&mut self) -> Taken {
        let taken = self.worker.take().expect("a request waits");
        self.stored.read(self.worker.request(&taken)).expect("a sensible request");
        taken
    }

    /// Returns method, target and content of the request taken last; the content must be in the slot.
    fn seen(&self) -> String {
        let request = self.stored.request(None, None).expect("all of it is in the slot");
        let content = match request.content {
            oribi_host::Content::Memory(bytes) => bytes,
            _ => b"",
        };
        let parts = [request.head.method(), b" ", request.head.target(), b" ", content];
        text(&parts.concat())
    }

    /// Answers with a whole response.
    #[track_caller]
    fn answer(&mut self, taken: Taken, content: &str) {
        self.answer_with(taken, 200, &[], content);
    }

    #[track_caller]
    fn answer_with(&mut self, taken: Taken, status: u16, fields: &[FieldPair<'_>], content: &str) {
        let size = content.len() as u64;
        let head = head(status, fields, Content::Whole { size });
        assert!(self.worker.respond(taken, &head, &[content.as_bytes()]).is_ok(), "it has room");
    }

    /// Takes the next request and answers with its method, target and content.
    #[track_caller]
    fn echo(&mut self) {
        let taken = self.take();
        let seen = self.seen();
        self.answer(taken, &seen);
    }
}

fn head(status: u16, fields: &[FieldPair<'_>], content: Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    match content {
        Content::Interim => encode_interim(status, fields, &mut bytes),
        Content::Trailers => encode_trailers(fields, &mut bytes),
        _ => encode_head(&ResponseHead { status, fields }, content, &mut bytes),
    }
    bytes
}

fn listeners(protocol: Protocol) -> &'static [Listener] {
    static OF_HTTP: OnceLock<Vec<Listener>> = OnceLock::new();
    static OF_FASTCGI: OnceLock<Vec<Listener>> = OnceLock::new();
    let kept = if protocol == Protocol::Http { &OF_HTTP } else { &OF_FASTCGI };
    kept.get_or_init(|| {
        let listen = vec![ListenAddress::tcp("127.0.0.1", 0).speaking(protocol)];
        open(&Settings { listen, ..Settings::default() }).expect("the loopback has a free port")
    })
}

fn wake() -> &'static PipeReader {
    static WAKE: OnceLock<PipeReader> = OnceLock::new();
    WAKE.get_or_init(|| std::io::pipe().expect("a pipe").0)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

fn post(target: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).into_bytes();
    bytes.extend_from_slice(content);
    bytes
}

/// Asserts that `received` is one response with this status and content, on a connection that persists.
#[track_caller]
fn assert_response(received: &str, status: &str, content: &str) {
    let is_so = received.starts_with(&format!("HTTP/1.1 {status} ")) && received.ends_with(&format!("\r\n\r\n{content}"));
    let lasts = !received.to_ascii_lowercase().contains("connection: close");
    assert!(is_so && lasts && received.matches("HTTP/1.1 ").count() == 1, "not {status} with {content:?}: {received}");
}

/// Returns the content of a file, from its start.
fn read(file: std::os::fd::OwnedFd, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    std::fs::File::from(file).read_exact_at(&mut bytes, 0).expect("it has that many bytes");
    bytes
}
