//! The same server in two forms: in a simulated world, and as a lane on epoll in a thread.

use super::client::{Answer, Ending};
use oribi_host::{After, Content, Host, Reply, Request};
use oribi_io::{Client, Sim, World};
use oribi_message::ResponseHead;
use oribi_server::config::{ListenAddress, Settings};
use oribi_server::engine::Engine;
use oribi_server::lane::{self, ContextSupply, Lane, LaneSetup, Renewal};
use oribi_server::listen::{Listener, Shard, listen_sockets, open};
use oribi_server::scoreboard::{WorkerCommand, WorkerSlot};
use std::cell::Cell;
use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

pub type App = fn(&Request<'_>, Reply<'_>);

/// A server under attack.
pub trait Server {
    /// Sends the pieces one after the other on a new connection, and reads until the server ends the connection.
    fn talk(&mut self, pieces: &[&[u8]]) -> Answer;
}

/// Runs a test on both servers.
pub fn on_both(settings: &Settings, app: App, test: impl Fn(&mut dyn Server)) {
    test(&mut Simulated::new(settings, app));
    let mut real = Real::new(settings, app);
    test(&mut real);
    real.stop();
}

/// Answers with the method, the target and the content of the request.
pub fn echo(request: &Request<'_>, reply: Reply<'_>) {
    let mut content = Vec::new();
    match request.content {
        Content::None => {}
        Content::Memory(bytes) => content.extend_from_slice(bytes),
        Content::File { file, size } => {
            content.resize(size as usize, 0);
            let file = std::fs::File::from(file.try_clone_to_owned().expect("a descriptor"));
            file.read_exact_at(&mut content, 0).expect("the file has its size");
        }
    }
    let parts = [request.head.method(), b" ", request.head.target(), b" ", &content];
    // An attacker need not wait for the answer.
    let _ = reply.send(ResponseHead { status: 200, fields: &[] }, &parts);
}

fn listeners() -> Vec<Listener> {
    let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
    open(&Settings { listen, ..Settings::default() }).expect("the loopback has a free port")
}

pub struct Simulated {
    pub world: World,
    pub lane: Lane<'static, Engine<'static, Sim>>,
    listeners: &'static [Listener],
    app: App,
    asleep: Rc<Cell<bool>>,
}

impl Simulated {
    pub fn new(settings: &Settings, app: App) -> Self {
        let world = World::new();
        // The engine borrows all of these; a test process may leak them, because it is short.
        let settings: &'static Settings = Box::leak(Box::new(settings.clone()));
        let listeners: &'static [Listener] = Box::leak(listeners().into_boxed_slice());
        let slot: &'static WorkerSlot = Box::leak(Box::new(WorkerSlot::unshared()));
        let wake = std::io::pipe().expect("a pipe").0;
        let engine = Engine::new(Sim::new(&world), settings, listeners, wake.as_fd(), None).expect("nothing can refuse");
        let asleep = Rc::new(Cell::new(false));
        let (flag, wake) = (asleep.clone(), world.clone());
        world.when_idle(move |_| {
            flag.set(true);
            wake.wake();
        });
        Self { world, lane: Lane::new(engine, slot), listeners, app, asleep }
    }

    /// Serves until there is nothing to do.
    pub fn run(&mut self) {
        self.asleep.set(false);
        while !self.asleep.get() {
            let next = self.lane.source().next_exchange().expect("this backend cannot fail");
            if let Some(exchange) = next {
                (self.app)(&exchange.request(self.listeners), Reply::new(&self.lane, exchange.id()));
                self.lane.source().give_back(exchange);
            } else {
                self.lane.source().take_wake();
            }
        }
    }

    pub fn send(&mut self, client: &Client, bytes: &[u8]) {
        client.send(bytes);
        self.run();
    }
}

impl Server for Simulated {
    #[track_caller]
    fn talk(&mut self, pieces: &[&[u8]]) -> Answer {
        let client = self.world.connect();
        for piece in pieces {
            self.send(&client, piece);
        }
        let ending = if client.saw_end() {
            Ending::End
        } else if client.saw_reset() {
            Ending::Reset
        } else {
            panic!("the connection is still open after {}", super::client::printable(&client.received()))
        };
        let bytes = client.received();
        client.end();
        self.run();
        assert_eq!(self.lane.source().connections(), 0, "it is closed when its client has gone");
        assert!(ending == Ending::Reset || !client.saw_reset(), "nothing was lost");
        Answer { bytes, ending }
    }
}

struct Answering(App);

impl Host for Answering {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        (self.0)(request, reply);
        After::default()
    }
}

impl ContextSupply for Answering {
    fn first(&mut self) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(Self(self.0)))
    }

    fn due(&self) -> u64 {
        u64::MAX
    }

    fn renew(&mut self, present: Box<dyn Host>, _: u64, _: After) -> Renewal {
        Renewal::Serve(present, u64::MAX)
    }
}

/// A lane in a separate thread.
pub struct Real {
    address: std::net::SocketAddr,
    slot: WorkerSlot,
    wake: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl Real {
    pub fn new(settings: &Settings, app: App) -> Self {
        let (settings, listeners) = (settings.clone(), listeners());
        let port = listeners[0].server_port.parse().expect("a port");
        let slot = WorkerSlot::unshared();
        let (woken, wake) = std::io::pipe().expect("a pipe");
        let thread = std::thread::spawn(move || {
            let listen_sockets = listen_sockets(&listeners, Shard::ONLY);
            let (slot, wake) = (&slot, woken.as_fd());
            let setup = LaneSetup {
                settings: &settings,
                listeners: &listeners,
                listen_sockets: &listen_sockets,
                slot,
                running: &[],
                wake,
                must_log: true,
            };
            lane::run(&setup, &mut Answering(app)).expect("epoll works");
        });
        Self { address: ([127, 0, 0, 1], port).into(), slot, wake, thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        // Longer than any step here takes; a test that waits this long has failed.
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it is ours");
        stream.set_write_timeout(Some(Duration::from_secs(20))).expect("it is ours");
        stream.set_nodelay(true).expect("it is ours");
        stream
    }

    /// Returns the number of the lane's connections.
    pub fn connections(&self) -> u32 {
        self.slot.connections.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Lets the server answer all accepted requests, and stops it.
    pub fn stop(mut self) {
        self.slot.set_command(WorkerCommand::Drain);
        self.wake.write_all(b"x").expect("the lane is there");
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the lane does not panic");
        }
    }
}

impl Server for Real {
    #[track_caller]
    fn talk(&mut self, pieces: &[&[u8]]) -> Answer {
        let mut stream = self.connect();
        for piece in pieces {
            stream.write_all(piece).expect("the server takes whatever is sent");
        }
        let mut bytes = Vec::new();
        let ending = match stream.read_to_end(&mut bytes) {
            Ok(_) => Ending::End,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ending::Reset,
            Err(error) => panic!("{error} after {}", super::client::printable(&bytes)),
        };
        Answer { bytes, ending }
    }
}
