//! Clients that put a bounded load on a server and note every request that was not answered.

use crate::http2::NOT_TAKEN;
use crate::wire::Wire;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// If a server has not answered for so long, the request is considered lost.
const PATIENCE: Duration = Duration::from_secs(30);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";

/// The address of the server.
#[derive(Clone, Debug)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Target {
    /// Opens a connection; `None` if the server no longer accepts connections.
    fn connect(&self) -> Option<Box<dyn Stream>> {
        match self {
            Self::Tcp(address) => {
                let stream = Wire::connect(*address).ok()?;
                stream.socket().set_read_timeout(Some(PATIENCE)).ok()?;
                Some(Box::new(stream))
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).ok()?;
                stream.set_read_timeout(Some(PATIENCE)).ok()?;
                Some(Box::new(stream))
            }
        }
    }
}

/// A whole response.
pub struct Response {
    pub text: String,
    /// Whether the server keeps this connection open.
    pub keep_alive: bool,
}

/// Sends a request on a new connection and gives the response.
pub fn get(target: &Target) -> io::Result<Response> {
    get_from(target, "/")
}

/// Sends a request for `path` on a new connection and gives the response.
pub fn get_from(target: &Target, path: &str) -> io::Result<Response> {
    let mut stream = target.connect().ok_or(ErrorKind::ConnectionRefused)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())?;
    read_response(&mut stream)
}

fn read_response(stream: &mut dyn Stream) -> io::Result<Response> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(response) = parse(&bytes) {
            return Ok(response);
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::Error::new(ErrorKind::UnexpectedEof, format!("the end after {} bytes", bytes.len()))),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The response in `bytes`, if it is whole.
fn parse(bytes: &[u8]) -> Option<Response> {
    let text = std::str::from_utf8(bytes).expect("the server sends nothing but ASCII");
    let (head, content) = text.split_once("\r\n\r\n")?;
    let head = head.to_lowercase();
    let length = head.split("content-length: ").nth(1)?.lines().next()?.parse().expect("it is a number");
    assert!(content.len() <= length, "more than one answer to one request: {text:?}");
    (content.len() == length).then(|| Response { text: text.to_owned(), keep_alive: !head.contains("connection: close") })
}

/// The pause of a client after each answer, without which clients leave no processor to the processes that a test is about.
const PAUSE: Duration = Duration::from_millis(1);

/// The way in which clients use connections.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// Sends one request after the other on each connection, as long as the server keeps the connection.
    KeepAlive,
    /// Opens a new connection for each request.
    ConnectionPerRequest,
}

/// The clients' results, which are also available after their end.
pub struct Done(Arc<Shared>);

impl Done {
    pub fn answered(&self) -> usize {
        self.0.answered.load(Relaxed)
    }

    pub fn connections(&self) -> usize {
        self.0.connections.load(Relaxed)
    }
}

/// Clients at work. A server that stops may refuse new connections, but it must answer the clients that it has accepted.
pub struct Load {
    clients: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
    connections: AtomicUsize,
    lost: Mutex<Vec<String>>,
}

impl Load {
    /// Starts `clients` that continue until they are stopped or until the server no longer accepts connections.
    pub fn start(target: &Target, clients: usize, manner: Manner) -> Self {
        let shared = Arc::new(Shared::default());
        let clients = (0..clients).map(|_| {
            let (target, shared) = (target.clone(), Arc::clone(&shared));
            std::thread::spawn(move || work(&target, &shared, manner))
        });
        Self { clients: clients.collect(), shared }
    }

    /// The number of requests answered so far.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(Relaxed)
    }

    /// Returns the results of these clients so far; they also stay available after [`Load::stop`].
    pub fn counts(&self) -> Done {
        Done(Arc::clone(&self.shared))
    }

    /// The number of connections that the clients have made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Relaxed)
    }

    /// Waits until `count` more requests have been answered.
    pub fn wait_for_more(&self, count: usize) {
        let goal = self.answered() + count;
        crate::server::wait_until("answers", || self.answered() >= goal || self.clients.iter().all(JoinHandle::is_finished));
        assert!(self.answered() >= goal, "all clients have ended: {:?}", self.shared.lost.lock().expect("nobody panicked"));
    }

    /// Stops the clients. Returns a text about each request that was not answered.
    pub fn stop(self) -> Vec<String> {
        self.shared.stop.store(true, Relaxed);
        self.wait()
    }

    /// Waits until each client finds that the server no longer accepts connections. Returns a text about each request that was
    /// not answered.
    pub fn wait(self) -> Vec<String> {
        for client in self.clients {
            client.join().expect("the response was well-formed");
        }
        std::mem::take(&mut *self.shared.lost.lock().expect("nobody panicked"))
    }
}

fn work(target: &Target, shared: &Shared, manner: Manner) {
    while !shared.stop.load(Relaxed) {
        let Some(mut stream) = target.connect() else { return };
        shared.connections.fetch_add(1, Relaxed);
        loop {
            let outcome = stream.write_all(REQUEST).and_then(|()| read_response(&mut stream));
            match outcome {
                Ok(response) => {
                    shared.answered.fetch_add(1, Relaxed);
                    if !response.text.starts_with("HTTP/1.1 200") {
                        let status = response.text.lines().next().unwrap_or_default();
                        shared.lost.lock().expect("nobody panicked").push(status.to_owned());
                    }
                    std::thread::sleep(PAUSE);
                    if !response.keep_alive || shared.stop.load(Relaxed) || matches!(manner, Manner::ConnectionPerRequest) {
                        break;
                    }
                }
                Err(error) if error.kind() == NOT_TAKEN => break,
                Err(error) => {
                    shared.lost.lock().expect("nobody panicked").push(error.to_string());
                    break;
                }
            }
        }
    }
}
