//! An experiment: two ways for several loops to share a port, compared by balance and by lost connections when a loop leaves.
//! `accept_policy` prints the figures of docs/decisions/07-shared-listeners.md.
//!
//! * *shared*: one listening socket, watched by every loop with EPOLLEXCLUSIVE;
//! * *own*: a socket for each loop, bound to the same port with SO_REUSEPORT; the kernel spreads connections by a hash.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, sockopt};
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const LOOPS: usize = 4;
const CONNECTIONS: usize = 4000;
/// The time for which a loop is busy with a connection. The clients are faster, so queues form.
const WORK: Duration = Duration::from_micros(200);

fn main() -> io::Result<()> {
    for own in [false, true] {
        let port = if own { 23902 } else { 23901 };
        let shared = Arc::new(listener(port, own)?);
        let taken: Vec<AtomicUsize> = (0..LOOPS).map(|_| AtomicUsize::new(0)).collect();
        let (leave, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let lost = thread::scope(|scope| -> io::Result<usize> {
            for (number, taken) in taken.iter().enumerate() {
                let socket = if own && number > 0 { Arc::new(listener(port, own)?) } else { Arc::clone(&shared) };
                let (leave, stop) = (&leave, &stop);
                scope.spawn(move || {
                    serve(socket, taken, || stop.load(Ordering::Relaxed) || number == 1 && leave.load(Ordering::Relaxed))
                });
            }
            thread::sleep(Duration::from_millis(100));
            let lost = clients(port, &leave);
            stop.store(true, Ordering::Relaxed);
            Ok(lost)
        })?;
        let taken: Vec<usize> = taken.into_iter().map(AtomicUsize::into_inner).collect();
        let name = if own { "own sockets, SO_REUSEPORT" } else { "shared socket, EPOLLEXCLUSIVE" };
        println!("{name}: {CONNECTIONS} connections, taken by each loop {taken:?} (the second left half-way), lost {lost}");
    }
    Ok(())
}

fn listener(port: u16, own: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if own {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::listen(&socket, 1024)?;
    Ok(socket)
}

/// Takes connections until `done`, then drops its reference to the socket, as a worker does when it ends.
fn serve(socket: Arc<OwnedFd>, taken: &AtomicUsize, done: impl Fn() -> bool) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &*socket, EventData::new_u64(0), EventFlags::IN | EventFlags::EXCLUSIVE)?;
    let mut events = Vec::with_capacity(16);
    let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    while !done() {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait))?;
        if let Ok(connection) = rustix::net::accept(&*socket) {
            thread::sleep(WORK);
            rustix::io::write(&connection, b".")?;
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }
    drop(socket);
    Ok(())
}

/// Connects from eight threads and counts the connections that got no answer. Half-way, makes one loop leave.
fn clients(port: u16, leave: &AtomicBool) -> usize {
    let (begun, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while begun.fetch_add(1, Ordering::Relaxed) < CONNECTIONS {
                    if begun.load(Ordering::Relaxed) > CONNECTIONS / 2 {
                        leave.store(true, Ordering::Relaxed);
                    }
                    let answer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| stream.read(&mut [0]));
                    if !matches!(answer, Ok(1)) {
                        lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    lost.into_inner()
}
