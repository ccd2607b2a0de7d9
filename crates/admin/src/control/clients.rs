//! The clients of the control socket.
//!
//! A client sends one line and gets one line back. It has a few seconds to send its line, and again to take its answer;
//! meanwhile the process does other work. The answer may be ready much later: the client waits for this process, but the
//! process never waits for a client.

use crate::attended::{self, Attended, Entrance, Next};
use crate::outgoing::Outgoing;
use oribi_control_api::{Answer, Done, Order};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The longest line of a client in bytes: orders are short words.
const LINE: usize = 256;
/// The most clients at a time. Further clients are refused, because each client needs a descriptor.
const CLIENTS: usize = 32;
/// The number of clients accepted in one turn, before the process continues with its own work.
const ACCEPTED_AT_ONCE: usize = 64;
/// The time that a client may take to send its line, and again to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval at which the log reports unauthorized clients, because such clients could fill the log otherwise.
const STRANGERS_TOLD: Duration = Duration::from_secs(10);

/// The identity of a client while it is connected. An identity is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller(u64);

#[derive(Debug)]
struct Client {
    caller: Caller,
    socket: OwnedFd,
    stage: CallerState,
}

#[derive(Debug)]
enum CallerState {
    /// The line of the client has not arrived completely.
    Asking { line: Vec<u8>, until: Instant },
    /// The order of the client is being carried out.
    Waiting,
    /// The answer has not been sent completely.
    Answered(Outgoing),
    /// The client has its answer, and the connection stays open until this process ends.
    Done,
}

/// The connected clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    connected: Vec<Client>,
    count: u64,
    entrance: Entrance,
    /// The last log line about an unauthorized client, and the number of such clients since.
    strangers: Option<(Instant, u32)>,
}

impl Clients {
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.connected.iter().map(Attended::polled)
    }

    /// Whether new clients are accepted.
    pub(super) fn are_welcome(&self) -> bool {
        self.entrance.is_open()
    }

    /// Returns the earliest deadline of a client, or the end of a pause of accepting if that is earlier.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.connected.iter().filter_map(|client| client.stage.until()).chain(self.entrance.opens_at()).min()
    }

    /// Whether this client is still connected.
    pub(super) fn knows(&self, caller: Caller) -> bool {
        self.connected.iter().any(|client| client.caller == caller)
    }

    /// Accepts the clients that wait at `listener`.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>, now: Instant) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let consequence = "the control socket accepts no clients for a moment";
            let Some(socket) = self.entrance.accept(listener, now, consequence) else { return };
            if let Err(why) = self.admit(&socket, now) {
                let mut line = Answer::<Done>::failed(why).to_json();
                line.push('\n');
                // The line is short, so it fits; otherwise the client only gets the end of the connection.
                let _ = send(&socket, line.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
                continue;
            }
            self.count += 1;
            let stage = CallerState::Asking { line: Vec::new(), until: now + PATIENCE };
            self.connected.push(Client { caller: Caller(self.count), socket, stage });
        }
    }

    /// Checks whether a client may send an order: it must be authorized, and there must not be too many clients. The error is
    /// the answer to the client.
    fn admit(&mut self, socket: &OwnedFd, now: Instant) -> Result<(), String> {
        let refused = "only the user of the server and root may use its control socket";
        let Ok(peer) = socket_peercred(socket) else { return Err(refused.to_owned()) };
        if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
            self.tell_of_stranger(peer.uid.as_raw(), peer.pid.as_raw_nonzero().get(), now);
            return Err(refused.to_owned());
        }
        if self.connected.len() >= CLIENTS {
            return Err(format!("{CLIENTS} clients are connected to the control socket already"));
        }
        Ok(())
    }

    fn tell_of_stranger(&mut self, user: u32, process: i32, now: Instant) {
        let more = match &mut self.strangers {
            Some((told, more)) if now - *told < STRANGERS_TOLD => {
                *more = more.saturating_add(1);
                return;
            }
            Some((_, more)) => *more,
            None => 0,
        };
        let others = if more > 0 { format!(", and {more} more since the last such line") } else { String::new() };
        log::warn!("the control socket has refused user {user} (pid {process}){others}");
        self.strangers = Some((now, 0));
    }

    /// Serves all clients; returns the orders that have arrived.
    pub(super) fn attend(&mut self, now: Instant) -> Vec<(Caller, Order)> {
        self.entrance.open_if_due(now);
        attended::attend(&mut self.connected, now)
    }

    /// Sends a client its answer, one line of JSON, after which its connection ends.
    pub(super) fn answer(&mut self, caller: Caller, answer: String) {
        self.answer_finally(caller, answer);
        self.connected.retain(|client| client.caller != caller || !matches!(client.stage, CallerState::Done));
    }

    /// Sends a client its answer, one line of JSON. The connection stays open until this process ends.
    pub(super) fn answer_finally(&mut self, caller: Caller, mut answer: String) {
        answer.push('\n');
        let Some(client) = self.connected.iter_mut().find(|client| client.caller == caller) else { return };
        client.stage = CallerState::Answered(Outgoing::new(answer.into_bytes(), Instant::now() + PATIENCE));
        client.send();
    }

    /// Leaves the current connections open until this process ends.
    pub(super) fn leave_open(&mut self) {
        std::mem::forget(std::mem::take(&mut self.connected));
    }
}

impl CallerState {
    fn awaited(&self) -> PollFlags {
        match self {
            Self::Asking { .. } => PollFlags::IN,
            Self::Answered(_) => PollFlags::OUT,
            // The kernel reports a hang-up even if no event is requested.
            Self::Waiting | Self::Done => PollFlags::empty(),
        }
    }

    fn until(&self) -> Option<Instant> {
        match self {
            Self::Asking { until, .. } | Self::Answered(Outgoing { until, .. }) => Some(*until),
            Self::Waiting | Self::Done => None,
        }
    }
}

impl Attended for Client {
    type Request = (Caller, Order);

    fn polled(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.socket.as_fd(), self.stage.awaited())
    }

    fn go_on(&mut self, seen: PollFlags, now: Instant) -> Next<Self::Request> {
        if self.stage.until().is_some_and(|until| now >= until) {
            return Next::Leave;
        }
        match &mut self.stage {
            CallerState::Asking { .. } if seen.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) => self.receive(now),
            CallerState::Answered(_) if !seen.is_empty() => {
                self.send();
                if matches!(self.stage, CallerState::Done) { Next::Leave } else { Next::Stay }
            }
            CallerState::Done => Next::Leave,
            CallerState::Waiting if seen.intersects(PollFlags::HUP | PollFlags::ERR) => Next::Leave,
            CallerState::Asking { .. } | CallerState::Waiting | CallerState::Answered(_) => Next::Stay,
        }
    }
}

impl Client {
    fn receive(&mut self, now: Instant) -> Next<(Caller, Order)> {
        let CallerState::Asking { line, .. } = &mut self.stage else { return Next::Stay };
        let mut bytes = [0; LINE];
        let received = match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Next::Leave,
            Ok((received, _)) => received,
            Err(Errno::INTR | Errno::AGAIN) => return Next::Stay,
            Err(_) => return Next::Leave,
        };
        line.extend_from_slice(&bytes[..received]);
        let order = match line.iter().position(|byte| *byte == b'\n') {
            Some(end) if end <= LINE => Order::parse(&line[..end]),
            None if line.len() <= LINE => return Next::Stay,
            _ => Err(format!("the request is longer than {LINE} bytes")),
        };
        match order {
            Ok(order) => {
                self.stage = CallerState::Waiting;
                Next::Asked((self.caller, order))
            }
            Err(why) => {
                let answer = format!("{}\n", Answer::<Done>::failed(why).to_json()).into_bytes();
                self.stage = CallerState::Answered(Outgoing::new(answer, now + PATIENCE));
                self.send();
                if matches!(self.stage, CallerState::Done) { Next::Leave } else { Next::Stay }
            }
        }
    }

    /// Sends as much of the answer as the socket takes.
    fn send(&mut self) {
        if let CallerState::Answered(answer) = &mut self.stage
            && answer.send(&self.socket)
        {
            self.stage = CallerState::Done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// Opens a listening socket with a name chosen by the kernel.
    fn listener() -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket");
        // Binding to an unnamed address requests a name (unix(7), autobind).
        bind(&socket, &rustix::net::SocketAddrUnix::new_unnamed()).expect("a name");
        listen(&socket, 64).expect("it listens");
        socket
    }

    fn client(listener: &OwnedFd) -> UnixStream {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        connect(&socket, &getsockname(listener).expect("it has a name")).expect("it listens");
        UnixStream::from(socket)
    }

    fn answer_of(mut client: UnixStream) -> String {
        client.set_nonblocking(true).expect("it is a socket");
        let mut text = String::new();
        let _ = client.read_to_string(&mut text);
        text
    }

    #[test]
    fn an_order_in_pieces_is_understood_and_its_answer_comes_when_there_is_one() {
        let (listener, now) = (listener(), Instant::now());
        let mut clients = Clients::default();
        let mut one = client(&listener);
        clients.accept(listener.as_fd(), now);
        assert!(clients.attend(now).is_empty());
        one.write_all(b"sta").expect("it is open");
        assert!(clients.attend(now).is_empty());
        one.write_all(b"tus\nand more").expect("it is open");
        let orders = clients.attend(now);
        let [(caller, Order::Status)] = orders[..] else { panic!("{orders:?}") };
        assert!(clients.next_deadline().is_none(), "it waits for this process");
        assert!(clients.attend(now + PATIENCE * 9).is_empty() && clients.knows(caller));
        clients.answer(caller, "{}".to_owned());
        assert!(!clients.knows(caller));
        assert_eq!(answer_of(one), "{}\n");
    }

    #[test]
    fn who_stalls_floods_or_sends_rubbish_is_turned_away() {
        let (listener, now) = (listener(), Instant::now());
        let mut clients = Clients::default();
        let silent = client(&listener);
        let mut endless = client(&listener);
        let mut senseless = client(&listener);
        clients.accept(listener.as_fd(), now);
        endless.write_all(&[b'x'; 2 * LINE]).expect("it is open");
        senseless.write_all(b"\xff\0\n").expect("it is open");
        for _ in 0..4 {
            assert!(clients.attend(now).is_empty());
        }
        assert!(answer_of(endless).contains("longer than"));
        assert!(answer_of(senseless).contains("not text"));
        assert_eq!(clients.next_deadline(), Some(now + PATIENCE));
        clients.attend(now + PATIENCE);
        assert!(clients.connected.is_empty(), "the silent one has had its time");
        drop(silent);
        let crowd: Vec<UnixStream> = (0..CLIENTS + 3).map(|_| client(&listener)).collect();
        clients.accept(listener.as_fd(), now);
        assert_eq!(clients.connected.len(), CLIENTS);
        let refused = crowd.into_iter().map(answer_of).filter(|answer| answer.contains("connected to the control socket"));
        assert_eq!(refused.count(), 3);
        clients.attend(now);
        assert!(clients.connected.is_empty(), "they have gone");
    }

    #[test]
    fn a_client_that_does_not_take_its_answer_keeps_nobody() {
        let (listener, now) = (listener(), Instant::now());
        let mut clients = Clients::default();
        let mut slow = client(&listener);
        slow.write_all(b"status\n").expect("it is open");
        clients.accept(listener.as_fd(), now);
        let orders = clients.attend(now);
        clients.answer(orders[0].0, "x".repeat(4 << 20));
        assert!(clients.knows(orders[0].0), "no socket takes four megabytes");
        clients.attend(Instant::now() + PATIENCE);
        assert!(!clients.knows(orders[0].0));
    }

    #[test]
    fn a_caller_that_goes_is_forgotten() {
        let (listener, now) = (listener(), Instant::now());
        let mut clients = Clients::default();
        let mut one = client(&listener);
        one.write_all(b"stop\n").expect("it is open");
        clients.accept(listener.as_fd(), now);
        let orders = clients.attend(now);
        drop(one);
        clients.attend(now);
        assert!(!clients.knows(orders[0].0));
    }
}
