//! The networks on which backends are tested, each with a far end to communicate with.

use crate::sharing::Several;
#[cfg(feature = "libevent")]
use oribi_io::Libevent;
use oribi_io::{AnyBackend, Backend, Client, Event, KernelBackend, Model, Restricted, Sim, Token, World};
use rustix::net::sockopt;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// A way to open a backend.
pub trait Kernel {
    type Backend: Backend;

    /// Fails if the kernel refuses it: these tests are never skipped.
    fn make() -> Self::Backend;
}

impl<B: KernelBackend> Kernel for B {
    type Backend = B;

    fn make() -> B {
        B::create(Restricted::No).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A backend that is chosen when the program runs: the model with this number.
pub struct Chosen<const MODEL: usize>;

impl<const MODEL: usize> Kernel for Chosen<MODEL> {
    type Backend = AnyBackend;

    fn make() -> AnyBackend {
        Model::ALL[MODEL].open(Restricted::No).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// libevent with a method that knows only states, as on systems without epoll.
#[cfg(feature = "libevent")]
pub struct LibeventByPoll;

#[cfg(feature = "libevent")]
impl Kernel for LibeventByPoll {
    type Backend = Libevent;

    fn make() -> Libevent {
        let backend = Libevent::avoiding(&[c"epoll"]).expect("an event base");
        assert_eq!((backend.method(), backend.is_edge_triggered()), ("poll", false));
        backend
    }
}

fn make<B: Kernel>(ahead: usize) -> B::Backend {
    let mut backend = B::make();
    backend.accept_ahead(0, ahead);
    backend
}

/// Longer than any step takes here; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The result of a receive at the far end.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceiveResult {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// The far end of a connection.
pub trait Far {
    fn send(&mut self, bytes: &[u8]);
    /// Ends its sending side.
    fn end(&mut self);
    /// Goes away at once.
    fn reset(self);
    /// From now on accepts only a bounded number of bytes, until they are received.
    fn hold(&mut self);
    /// Waits for the next bytes, or the end, and returns them.
    fn receive(&mut self) -> ReceiveResult;
}

/// A backend and everything around it.
pub trait Network: Sized {
    type Backend: Backend;
    type Far: Far;
    /// Whether a far end can distinguish a broken connection from one that has ended.
    const RESETS: bool;

    fn new() -> (Self, Self::Backend, OwnedFd);
    fn connect(&self) -> Self::Far;
    /// Writes to the watched pipe.
    fn wake(&mut self);
    /// The end of the pipe to be watched.
    fn watched(&self) -> &PipeReader;
}

/// A backend that listens, and its reported events.
pub struct Rig<N: Network> {
    pub backend: N::Backend,
    pub listener: OwnedFd,
    pub network: N,
}

pub type Socket<N> = <<N as Network>::Backend as Backend>::Socket;

impl<N: Network> Rig<N> {
    pub fn new() -> Self {
        let (network, mut backend, listener) = N::new();
        backend.listen(0, listener.as_fd()).expect("it can be listened on");
        Self { backend, listener, network }
    }

    /// An open connection.
    pub fn connection(&mut self, token: u64) -> (Socket<N>, N::Far) {
        let far = self.network.connect();
        self.until(|event| event == Event::Connection(0));
        let mut socket = self.accept();
        self.backend.open(&mut socket, Token(token)).expect("it can be opened");
        (socket, far)
    }

    pub fn accept(&mut self) -> Socket<N> {
        match self.backend.accept(0, self.listener.as_fd()) {
            oribi_io::Accepted::Connection(socket, _) => socket,
            oribi_io::Accepted::None => panic!("nobody waits"),
            oribi_io::Accepted::Exhausted(error) => panic!("{error}"),
        }
    }

    /// Waits for such an event and returns it.
    #[track_caller]
    pub fn until(&mut self, wanted: impl Fn(Event) -> bool) -> Event {
        let mut events = Vec::new();
        let mut known = usize::MAX;
        // A wait may return without events; a second one in a row must have timed out.
        while events.len() != known {
            known = events.len();
            self.backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
            if let Some(event) = events.iter().copied().find(|&event| wanted(event)) {
                return event;
            }
        }
        panic!("it does not come; these did: {events:?}")
    }

    #[track_caller]
    pub fn until_readable(&mut self, token: u64) -> Event {
        self.until(|event| matches!(event, Event::Socket { token: found, readable: true, .. } if found.0 == token))
    }

    #[track_caller]
    pub fn until_writable(&mut self, token: u64) -> Event {
        self.until(|event| matches!(event, Event::Socket { token: found, writable: true, .. } if found.0 == token))
    }

    /// The events reported within a moment: none, if the test expects silence.
    pub fn news(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.backend.wait(Some(Duration::from_millis(20)), &mut events).expect("waiting works");
        events
    }
}

/// A backend over TCP that may accept this many connections in advance.
pub struct Tcp<B, const AHEAD: usize = 0> {
    listener: TcpListener,
    pipe: (PipeReader, PipeWriter),
    backend: PhantomData<B>,
}

impl<B: Kernel, const AHEAD: usize> Network for Tcp<B, AHEAD> {
    type Backend = B::Backend;
    type Far = TcpStream;
    const RESETS: bool = true;

    fn new() -> (Self, B::Backend, OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        listener.set_nonblocking(true).expect("it is ours");
        let copy = listener.try_clone().expect("a descriptor");
        let network = Self { listener: copy, pipe: std::io::pipe().expect("a pipe"), backend: PhantomData };
        (network, make::<B>(AHEAD), listener.into())
    }

    fn connect(&self) -> TcpStream {
        let address = self.listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(address).expect("the queue has room");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is ours");
        stream
    }

    fn wake(&mut self) {
        self.pipe.1.write_all(b"x").expect("the pipe has room");
    }

    fn watched(&self) -> &PipeReader {
        &self.pipe.0
    }
}

impl<B: Kernel, const AHEAD: usize> Several for Tcp<B, AHEAD> {
    fn another() -> B::Backend {
        make::<B>(AHEAD)
    }
}

impl Far for TcpStream {
    fn send(&mut self, bytes: &[u8]) {
        self.write_all(bytes).expect("the server is there");
    }

    fn end(&mut self) {
        self.shutdown(std::net::Shutdown::Write).expect("the server is there");
    }

    fn reset(self) {
        sockopt::set_socket_linger(&self, Some(Duration::ZERO)).expect("it is ours");
    }

    fn hold(&mut self) {}

    fn receive(&mut self) -> ReceiveResult {
        receive(self)
    }
}

/// A backend over a Unix socket that may accept this many connections in advance.
pub struct Unix<B, const AHEAD: usize = 0> {
    // Removed with its content when the network is dropped.
    directory: tempfile::TempDir,
    pipe: (PipeReader, PipeWriter),
    backend: PhantomData<B>,
}

impl<B: Kernel, const AHEAD: usize> Network for Unix<B, AHEAD> {
    type Backend = B::Backend;
    type Far = UnixStream;
    const RESETS: bool = false;

    fn new() -> (Self, B::Backend, OwnedFd) {
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        let listener = UnixListener::bind(directory.path().join("socket")).expect("the name is free");
        listener.set_nonblocking(true).expect("it is ours");
        let network = Self { directory, pipe: std::io::pipe().expect("a pipe"), backend: PhantomData };
        (network, make::<B>(AHEAD), listener.into())
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.directory.path().join("socket")).expect("the queue has room");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is ours");
        stream
    }

    fn wake(&mut self) {
        self.pipe.1.write_all(b"x").expect("the pipe has room");
    }

    fn watched(&self) -> &PipeReader {
        &self.pipe.0
    }
}

impl<B: Kernel, const AHEAD: usize> Several for Unix<B, AHEAD> {
    fn another() -> B::Backend {
        make::<B>(AHEAD)
    }
}

impl Far for UnixStream {
    fn send(&mut self, bytes: &[u8]) {
        self.write_all(bytes).expect("the server is there");
    }

    fn end(&mut self) {
        self.shutdown(std::net::Shutdown::Write).expect("the server is there");
    }

    fn reset(self) {}

    fn hold(&mut self) {}

    fn receive(&mut self) -> ReceiveResult {
        receive(self)
    }
}

fn receive(stream: &mut impl Read) -> ReceiveResult {
    let mut bytes = vec![0; 1 << 16];
    match stream.read(&mut bytes) {
        Ok(0) => ReceiveResult::End,
        Ok(count) => ReceiveResult::Bytes(bytes[..count].to_vec()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => ReceiveResult::Reset,
        Err(error) => panic!("nothing comes: {error}"),
    }
}

/// The simulated backend.
pub struct Simulated {
    world: World,
    pipe: (PipeReader, PipeWriter),
}

/// Bytes that a simulated far end still accepts after [`Far::hold`].
const WINDOW: usize = 100_000;

pub struct SimulatedFar {
    client: Client,
    holds: bool,
}

impl Network for Simulated {
    type Backend = Sim;
    type Far = SimulatedFar;
    const RESETS: bool = true;

    fn new() -> (Self, Sim, OwnedFd) {
        let world = World::new();
        let backend = Sim::new(&world);
        let pipe = std::io::pipe().expect("a pipe");
        // Any descriptor will do: the simulation never looks at it.
        let listener = pipe.0.try_clone().expect("a descriptor").into();
        (Self { world, pipe }, backend, listener)
    }

    fn connect(&self) -> SimulatedFar {
        SimulatedFar { client: self.world.connect(), holds: false }
    }

    fn wake(&mut self) {
        self.world.wake();
    }

    fn watched(&self) -> &PipeReader {
        &self.pipe.0
    }
}

impl Far for SimulatedFar {
    fn send(&mut self, bytes: &[u8]) {
        self.client.send(bytes);
    }

    fn end(&mut self) {
        self.client.end();
    }

    fn reset(self) {
        self.client.reset();
    }

    fn hold(&mut self) {
        self.holds = true;
        self.client.set_window(WINDOW);
    }

    fn receive(&mut self) -> ReceiveResult {
        let bytes = self.client.received();
        if self.holds {
            self.client.set_window(WINDOW);
        }
        if !bytes.is_empty() {
            ReceiveResult::Bytes(bytes)
        } else if self.client.saw_reset() {
            ReceiveResult::Reset
        } else if self.client.saw_end() {
            ReceiveResult::End
        } else {
            panic!("nothing comes")
        }
    }
}
