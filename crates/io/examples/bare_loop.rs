//! The lower limit of cost with epoll: a loop that answers every request with the bytes of the native host, but parses nothing
//! and has no deadlines. `bare_loop ADDRESS [--body BYTES] [--close] [--pipelined]`, where ADDRESS is `IP:PORT` or `unix:PATH`.

mod bare;

use bare::{Answers, Heads, Options};
use memchr::memmem::Finder;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use std::io;
use std::os::fd::OwnedFd;

const LISTENER: u64 = u64::MAX;
const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

fn main() -> io::Result<()> {
    let options = Options::from_command_line(false);
    let listener = options.listen()?;
    serve(&options, &listener)
}

struct Connection {
    socket: OwnedFd,
    heads: Heads,
    /// Bytes of answers that are still to be sent.
    left: usize,
    /// A request has arrived.
    asked: bool,
    output_watched: bool,
    generation: u32,
}

/// Connections by number; numbers are reused.
#[derive(Default)]
struct Table {
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    generation: u32,
}

impl Table {
    fn add(&mut self, socket: OwnedFd) -> u64 {
        self.generation = (self.generation + 1) & 0x7fff_ffff;
        let index = self.free.pop().unwrap_or(self.connections.len() as u32);
        let connection = Connection {
            socket,
            heads: Heads::default(),
            left: 0,
            asked: false,
            output_watched: false,
            generation: self.generation,
        };
        match self.connections.get_mut(index as usize) {
            Some(place) => *place = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        u64::from(self.generation) << 32 | u64::from(index)
    }

    fn remove(&mut self, name: u64) {
        self.connections[name as u32 as usize] = None;
        self.free.push(name as u32);
    }
}

fn serve(options: &Options, listener: &OwnedFd) -> io::Result<()> {
    let (answers, finder) = (Answers::new(options), Finder::new(b"\r\n\r\n"));
    let instance = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&instance, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut table = Table::default();
    let mut events = Vec::with_capacity(256);
    let mut buffer = [0; 16 << 10];
    loop {
        events.clear();
        match epoll::wait(&instance, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let name = event.data.u64();
            if name == LISTENER {
                // It is not a failure if the connection has gone again; without descriptors the listener stays readable.
                if let Ok(socket) = rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                    let name = table.add(socket);
                    let Some(connection) = &table.connections[name as u32 as usize] else { continue };
                    epoll::add(&instance, &connection.socket, EventData::new_u64(name), WATCHED)?;
                }
                continue;
            }
            let Some(connection) = &mut table.connections[name as u32 as usize] else { continue };
            if connection.generation != (name >> 32) as u32 {
                continue;
            }
            let flags = event.flags;
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let readable = ended || flags.contains(EventFlags::IN);
            let open = (!readable || receive(connection, options, &finder, answers.each, &mut buffer, ended))
                && send(connection, &answers, &instance, name)
                && !(options.close && connection.asked && connection.left == 0);
            if !open {
                table.remove(name);
            }
        }
    }
}

/// Receives all that has arrived; `false` if the connection has ended.
fn receive(
    connection: &mut Connection,
    options: &Options,
    finder: &Finder<'_>,
    answer: usize,
    buffer: &mut [u8],
    ended: bool,
) -> bool {
    loop {
        match rustix::net::recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return false,
            Ok((received, _)) => {
                let requests = connection.heads.count(options, finder, &buffer[..received]);
                connection.left += answer * requests;
                connection.asked |= requests > 0;
                // A short receive has emptied the socket.
                if received < buffer.len() && !ended {
                    return true;
                }
            }
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
}

/// Sends what the socket accepts; `false` if the connection has ended.
fn send(connection: &mut Connection, answers: &Answers, instance: &OwnedFd, name: u64) -> bool {
    while connection.left > 0 {
        match rustix::net::send(&connection.socket, answers.next(connection.left), SendFlags::NOSIGNAL) {
            Ok(sent) => connection.left -= sent,
            Err(Errno::AGAIN) if connection.output_watched => return true,
            Err(Errno::AGAIN) => {
                connection.output_watched = true;
                let data = EventData::new_u64(name);
                return epoll::modify(instance, &connection.socket, data, WATCHED | EventFlags::OUT).is_ok();
            }
            Err(_) => return false,
        }
    }
    true
}
