//! The physical limit: a loop that answers every readable socket with the same bytes and parses nothing.
//! `bare_loop PORT [direct|backend]`: straight on epoll, or by way of [`Backend`], to show what the trait costs.

use oribi_io::{Accepted, Attempt, Backend, Epoll, Event, Token};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nHello World";

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(5000);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    match std::env::args().nth(2).as_deref() {
        Some("direct") => direct(&listener),
        _ => by_backend(&listener),
    }
}

fn by_backend(listener: &TcpListener) -> io::Result<()> {
    let mut backend = Epoll::new()?;
    backend.listen(0, listener.as_fd())?;
    let mut sockets = Vec::new();
    let mut events = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        events.clear();
        backend.wait(None, &mut events)?;
        for event in &events {
            match *event {
                Event::Connection(number) => {
                    if let Accepted::Connection(mut socket, _) = backend.accept(number, listener.as_fd()) {
                        backend.open(&mut socket, Token(sockets.len() as u64))?;
                        sockets.push(Some(socket));
                    }
                }
                Event::Socket { token, .. } => {
                    let place = &mut sockets[token.0 as usize];
                    let Some(socket) = place else { continue };
                    let received = matches!(backend.receive(socket, &mut buffer), Attempt::Done(_));
                    if !received || !matches!(backend.send(socket, ANSWER), Attempt::Done(_)) {
                        *place = None;
                    }
                }
                Event::Wake => {}
            }
        }
    }
}

fn direct(listener: &TcpListener) -> io::Result<()> {
    let instance = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&instance, listener, EventData::new_u64(u64::MAX), EventFlags::IN)?;
    let mut sockets: Vec<Option<OwnedFd>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = [0; 16 << 10];
    loop {
        events.clear();
        epoll::wait(&instance, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let number = event.data.u64();
            if number == u64::MAX {
                let socket = rustix::net::accept(listener)?;
                epoll::add(&instance, &socket, EventData::new_u64(sockets.len() as u64), EventFlags::IN | EventFlags::ET)?;
                sockets.push(Some(socket));
                continue;
            }
            let place = &mut sockets[number as usize];
            let Some(socket) = place else { continue };
            let received = rustix::net::recv(&*socket, &mut buffer[..], RecvFlags::DONTWAIT);
            let answered = match received {
                Ok((_, 1..)) => rustix::net::send(&*socket, ANSWER, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
                _ => Ok(0),
            };
            if !matches!(answered, Ok(1..)) {
                *place = None;
            }
        }
    }
}
