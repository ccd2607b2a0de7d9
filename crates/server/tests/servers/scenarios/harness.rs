//! A server in a simulated world: an engine, a lane and a closure as the app.

use oribi_host::{Content, ExchangeId, Outlet, Reply, Request};
use oribi_io::{Client, Sim, World};
use oribi_message::ResponseHead;
use oribi_server::config::{ListenAddress, Protocol, ProxyProtocol, Settings};
use oribi_server::engine::Engine;
use oribi_server::lane::Lane;
use oribi_server::listen::{Listener, open};
use oribi_server::scoreboard::WorkerSlot;
use std::cell::{Cell, RefCell};
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);
pub const MOMENT: Duration = Duration::from_millis(1);

/// More exchanges and wake-ups than any scenario needs until its server has nothing to do.
const MANY: usize = 2_000_000;

type Act = Rc<RefCell<Option<Box<dyn FnMut()>>>>;
type App = Box<dyn FnMut(&Request<'_>, Reply<'_>)>;

pub struct Server {
    pub world: World,
    pub lane: Lane<'static, Engine<'static, Sim>>,
    /// The slot with the commands for the worker of the lane.
    pub slot: &'static WorkerSlot,
    listeners: &'static [Listener],
    app: App,
    asleep: Rc<Cell<bool>>,
    timeout: Rc<Cell<Option<Duration>>>,
    /// The action of the simulated world. It is called each time that the server would sleep.
    meanwhile: Act,
}

impl Server {
    /// Creates a server for clients of `settings.protocol`, HTTP by default.
    pub fn new(settings: Settings, app: impl FnMut(&Request<'_>, Reply<'_>) + 'static) -> Self {
        let listeners = match settings.protocol {
            Protocol::Http if settings.proxy_protocol == ProxyProtocol::Off => listeners(),
            Protocol::Http => greeted_listeners(settings.proxy_protocol),
            Protocol::FastCgi => fastcgi_listeners(),
        };
        let world = World::new();
        // The engine borrows its settings; a test process may leak them, because it is short.
        let settings: &'static Settings = Box::leak(Box::new(settings));
        let mut engine = Engine::new(Sim::new(&world), settings, listeners, wake().as_fd(), None).expect("nothing can refuse");
        engine.count_alone();
        // The scenarios exist twice: see `prompt`.
        if module_path!().contains("::prompt::") {
            engine.expect_prompt_answers(true);
            engine.answer_in_batches();
        }
        let asleep = Rc::new(Cell::new(false));
        let timeout = Rc::new(Cell::new(None));
        let meanwhile: Act = Rc::default();
        // Otherwise the world would own itself through its own action.
        let inner = Rc::new(world.clone());
        let (flag, time, act) = (asleep.clone(), timeout.clone(), meanwhile.clone());
        world.when_idle(move |timeout| {
            time.set(timeout);
            if let Some(act) = act.borrow_mut().as_mut() {
                return act();
            }
            flag.set(true);
            inner.wake();
        });
        let slot: &'static WorkerSlot = Box::leak(Box::new(WorkerSlot::unshared()));
        Self { world, lane: Lane::new(engine, slot), slot, listeners, app: Box::new(app), asleep, timeout, meanwhile }
    }

    /// A server with the default settings.
    pub fn standard(app: impl FnMut(&Request<'_>, Reply<'_>) + 'static) -> Self {
        Self::new(Settings::default(), app)
    }

    /// Changes the app from now on.
    pub fn app(&mut self, app: impl FnMut(&Request<'_>, Reply<'_>) + 'static) {
        self.app = Box::new(app);
    }

    pub fn connect(&self) -> Client {
        self.world.connect()
    }

    /// Serves until there is nothing to do at this moment.
    #[track_caller]
    pub fn run(&mut self) {
        self.asleep.set(false);
        for _ in 0..MANY {
            if !self.run_one() && (self.asleep.get() || self.lane.source().finished()) {
                return;
            }
        }
        panic!("the server never rests");
    }

    /// Answers the next request. Returns `false` if there was none, because the server was woken or has nothing to do.
    pub fn run_one(&mut self) -> bool {
        let next = self.lane.source().next_exchange().expect("this backend cannot fail");
        let Some(exchange) = next else {
            self.lane.source().take_wake();
            return false;
        };
        (self.app)(&exchange.request(self.listeners), Reply::new(&self.lane, exchange.id()));
        self.lane.source().give_back(exchange);
        true
    }

    /// Sets an action of the simulated world. It is called each time that the server would sleep, for example while an app
    /// waits for a slow client.
    pub fn meanwhile(&mut self, act: impl FnMut() + 'static) {
        self.meanwhile.replace(Some(Box::new(act)));
    }

    pub fn no_meanwhile(&mut self) {
        self.meanwhile.replace(None);
    }

    /// Advances the time as a kernel does: the server wakes up at each of its timeouts. Returns the number of these wake-ups.
    #[track_caller]
    pub fn advance(&mut self, mut time: Duration) -> usize {
        self.run();
        for wake_ups in 0..MANY {
            match self.timeout.get() {
                Some(timeout) if timeout <= time && !self.lane.source().finished() => {
                    self.world.advance(timeout);
                    time -= timeout;
                    self.run();
                }
                _ => {
                    self.world.advance(time);
                    self.run();
                    return wake_ups;
                }
            }
        }
        panic!("the server spins");
    }

    /// Sends bytes on a connection and returns the immediate response.
    #[track_caller]
    pub fn exchange(&mut self, client: &Client, bytes: &[u8]) -> Vec<u8> {
        client.send(bytes);
        self.run();
        client.received()
    }

    pub fn stop(&mut self, empty_queue: bool) {
        self.lane.source().stop(empty_queue);
    }

    pub fn part(&mut self) {
        self.lane.source().part();
    }

    pub fn finished(&self) -> bool {
        self.lane.source().finished()
    }

    pub fn connections(&self) -> usize {
        self.lane.source().connections()
    }
}

/// One bound listener for all tests: the engine needs descriptors, but the simulation ignores them.
pub fn listeners() -> &'static [Listener] {
    static LISTENERS: OnceLock<Vec<Listener>> = OnceLock::new();
    LISTENERS.get_or_init(|| {
        let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
        open(&Settings { listen, ..Settings::default() }).expect("the loopback has a free port")
    })
}

/// Listeners whose connections begin with a PROXY header.
fn greeted_listeners(proxy_protocol: ProxyProtocol) -> &'static [Listener] {
    let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
    let settings = Settings { listen, proxy_protocol, ..Settings::default() };
    Vec::leak(open(&settings).expect("the loopback has a free port"))
}

fn fastcgi_listeners() -> &'static [Listener] {
    static LISTENERS: OnceLock<Vec<Listener>> = OnceLock::new();
    LISTENERS.get_or_init(|| {
        let listen = vec![ListenAddress::tcp("127.0.0.1", 0).speaking(Protocol::FastCgi)];
        open(&Settings { listen, ..Settings::default() }).expect("the loopback has a free port")
    })
}

fn wake() -> &'static PipeReader {
    static WAKE: OnceLock<PipeReader> = OnceLock::new();
    WAKE.get_or_init(|| std::io::pipe().expect("a pipe").0)
}

/// The content of a request, from memory or a file.
pub fn content(request: &Request<'_>) -> Vec<u8> {
    match request.content {
        Content::None => Vec::new(),
        Content::Memory(bytes) => bytes.to_vec(),
        Content::File { file, size } => {
            let mut bytes = vec![0; size as usize];
            let file = std::fs::File::from(file.try_clone_to_owned().expect("a descriptor"));
            file.read_exact_at(&mut bytes, 0).expect("the file has its size");
            bytes
        }
    }
}

/// Answers with the method, the target and the content of the request.
pub fn echo(request: &Request<'_>, reply: Reply<'_>) {
    let content = content(request);
    let parts = [request.head.method(), b" ", request.head.target(), b" ", &content];
    reply.send(ok(), &parts).expect("the client is there");
}

/// Does not answer: notes the exchange, which the test answers later.
pub fn keep(kept: &Rc<RefCell<Vec<ExchangeId>>>) -> impl FnMut(&Request<'_>, Reply<'_>) + 'static {
    let kept = kept.clone();
    move |_, reply| kept.borrow_mut().push(reply.detach().1)
}

pub fn ok() -> ResponseHead<'static> {
    ResponseHead { status: 200, fields: &[(b"Content-Type", b"text/plain")] }
}

/// Answers a kept exchange.
pub fn answer(server: &Server, exchange: ExchangeId, text: &str) {
    server.lane.respond(exchange, ok(), &[text.as_bytes()]).expect("the client is there");
}

pub const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A request for a target.
pub fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// A request with content of a known size.
pub fn post(target: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).into_bytes();
    bytes.extend_from_slice(content);
    bytes
}

/// Bytes that differ from place to place.
pub fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|place| b'a' + (place * 7 / 5 + place / 251) as u8 % 26).collect()
}

/// A request with content in chunks of a size.
pub fn post_chunked(target: &str, content: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in content.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
