//! The clients of the metrics address.
//!
//! A client sends one request and gets one response. It has a few seconds to send its request, and again to take its
//! response; meanwhile the process does other work. Any client that reaches the address may connect. So a new client with
//! access always finds room: it displaces a client without access, or else the oldest client. A client that sends its request
//! at once is answered even if many others stall.

use super::allowed::Allowed;
use super::dashboard::Guard;
use super::exchange::{Asked, Exchange, HEAD_BYTES};
use super::text::Format;
use crate::attended::{self, Attended, Entrance, Next};
use crate::outgoing::Outgoing;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The most clients at a time, because each needs a descriptor. A further client displaces the oldest.
const CLIENTS: usize = 32;
/// The number of clients accepted in one turn, before the process continues with its own work.
const ACCEPTED_AT_ONCE: usize = 16;
/// The time that a client may take to send its request, and again to take its response.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for which a client that has its response may keep sending. If the connection were closed earlier, unread data
/// would make the kernel reset it, perhaps before the client has read the response (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// The number of bytes read in one turn from a client that has its response.
const READ_AT_ONCE: usize = 16 << 10;

/// The identity of a client while it is connected. An identity is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scraper(u64);

#[derive(Debug)]
struct Client {
    scraper: Scraper,
    socket: OwnedFd,
    exchange: Exchange,
    /// Whether the client has access. Other clients are refused.
    is_known: bool,
    stage: ScraperState,
}

#[derive(Debug)]
enum ScraperState {
    /// The request has not arrived completely.
    Asking { until: Instant },
    /// The response is created before this process waits again.
    Asked,
    /// The response has not been sent completely.
    Answered(Outgoing),
    /// The client has its response, and the server has closed its sending side. The client has until this time to close the
    /// connection.
    Leaving { until: Instant },
}

/// All clients, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Clients {
    connected: Vec<Client>,
    count: u64,
    entrance: Entrance,
    /// The access rules of the dashboard, if it is on.
    guard: Option<Rc<Guard>>,
    allowed: Allowed,
}

/// The request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScrapeRequest {
    /// Metrics in this format, for which [`Clients::answer`] is called.
    Metrics(Format),
    /// Events of the dashboard, for which [`Clients::release`] is called.
    Events,
}

impl Clients {
    /// Creates an empty list of clients. `guard` contains the access rules of the dashboard, if it is on; `allowed` those of
    /// the address.
    pub(super) fn new(guard: Option<Guard>, allowed: Allowed) -> Self {
        Self { guard: guard.map(Rc::new), allowed, ..Self::default() }
    }

    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.connected.iter().map(Attended::polled)
    }

    /// Whether new clients are accepted.
    pub(super) fn are_welcome(&self) -> bool {
        self.entrance.is_open()
    }

    /// Whether no client is connected.
    pub(super) fn are_gone(&self) -> bool {
        self.connected.is_empty()
    }

    /// Returns the earliest deadline of a client, or the end of a pause of accepting if that is earlier.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.connected.iter().filter_map(|client| client.stage.until()).chain(self.entrance.opens_at()).min()
    }

    /// Accepts the clients that wait at `listener`.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>, now: Instant) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let consequence = "the addresses for metrics accept no clients for a moment";
            let Some(socket) = self.entrance.accept(listener, now, consequence) else { return };
            self.admit(socket, now);
        }
    }

    fn admit(&mut self, socket: OwnedFd, now: Instant) {
        let is_known = self.allowed.admit(&socket, now);
        if self.connected.len() >= CLIENTS {
            // Clients without access make room first, and never displace clients with access.
            match self.connected.iter().position(|client| !client.is_known) {
                Some(stranger) => _ = self.connected.remove(stranger),
                None if is_known => _ = self.connected.remove(0),
                None => return,
            }
        }
        self.count += 1;
        let (scraper, stage) = (Scraper(self.count), ScraperState::Asking { until: now + PATIENCE });
        let exchange = Exchange::new(self.guard.clone(), is_known);
        self.connected.push(Client { scraper, socket, exchange, is_known, stage });
    }

    /// Serves all clients; returns the requests that this process must answer, with their clients.
    pub(super) fn attend(&mut self, now: Instant) -> Vec<(Scraper, ScrapeRequest)> {
        self.entrance.open_if_due(now);
        attended::attend(&mut self.connected, now)
    }

    /// Sends a client `text`, the metrics in this format.
    pub(super) fn answer(&mut self, scraper: Scraper, format: Format, text: &[u8], now: Instant) {
        let Some(client) = self.connected.iter_mut().find(|client| client.scraper == scraper) else { return };
        let response = client.exchange.metrics(format, text);
        client.respond(response, now);
    }

    /// Removes a client that has requested events. Returns its socket, and the head of the response to it.
    pub(super) fn release(&mut self, scraper: Scraper) -> Option<(OwnedFd, Vec<u8>)> {
        let place = self.connected.iter().position(|client| client.scraper == scraper)?;
        let mut client = self.connected.remove(place);
        Some((client.socket, client.exchange.events()))
    }
}

impl ScraperState {
    fn awaited(&self) -> PollFlags {
        match self {
            Self::Asking { .. } | Self::Leaving { .. } => PollFlags::IN,
            Self::Answered(_) => PollFlags::OUT,
            Self::Asked => PollFlags::empty(),
        }
    }

    fn until(&self) -> Option<Instant> {
        match self {
            Self::Asking { until } | Self::Leaving { until } | Self::Answered(Outgoing { until, .. }) => Some(*until),
            Self::Asked => None,
        }
    }
}

impl Attended for Client {
    type Request = (Scraper, ScrapeRequest);

    fn polled(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.socket.as_fd(), self.stage.awaited())
    }

    fn go_on(&mut self, seen: PollFlags, now: Instant) -> Next<Self::Request> {
        let seen = !seen.is_empty();
        if self.stage.until().is_some_and(|until| now >= until) {
            return Next::Leave;
        }
        match self.stage {
            ScraperState::Asking { .. } if seen => self.receive(now),
            ScraperState::Answered(_) if seen => {
                self.send(now);
                Next::Stay
            }
            ScraperState::Leaving { .. } if seen => self.disregard(),
            ScraperState::Asking { .. } | ScraperState::Asked | ScraperState::Answered(_) | ScraperState::Leaving { .. } => {
                Next::Stay
            }
        }
    }
}

impl Client {
    fn receive(&mut self, now: Instant) -> Next<(Scraper, ScrapeRequest)> {
        // One read has room for the longest head accepted.
        let mut bytes = [0; HEAD_BYTES];
        let received = match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Next::Leave,
            Ok((received, _)) => received,
            Err(Errno::INTR | Errno::AGAIN) => return Next::Stay,
            Err(_) => return Next::Leave,
        };
        match self.exchange.receive(&bytes[..received]) {
            Asked::Nothing => Next::Stay,
            Asked::Metrics(format) => self.wish(ScrapeRequest::Metrics(format)),
            Asked::Events => self.wish(ScrapeRequest::Events),
            Asked::Other(response) => {
                self.respond(response, now);
                Next::Stay
            }
        }
    }

    fn wish(&mut self, wish: ScrapeRequest) -> Next<(Scraper, ScrapeRequest)> {
        self.stage = ScraperState::Asked;
        Next::Asked((self.scraper, wish))
    }

    fn respond(&mut self, response: Vec<u8>, now: Instant) {
        self.stage = ScraperState::Answered(Outgoing::new(response, now + PATIENCE));
        self.send(now);
    }

    /// Sends as much of the response as the socket takes.
    fn send(&mut self, now: Instant) {
        if let ScraperState::Answered(response) = &mut self.stage
            && response.send(&self.socket)
        {
            // If the client has disconnected, the next read notices it.
            let _ = shutdown(&self.socket, Shutdown::Write);
            self.stage = ScraperState::Leaving { until: now + LINGER };
        }
    }

    /// Reads and discards data of a client that has its response.
    fn disregard(&mut self) -> Next<(Scraper, ScrapeRequest)> {
        let mut bytes = [0; READ_AT_ONCE];
        match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((1.., _)) | Err(Errno::INTR | Errno::AGAIN) => Next::Stay,
            Ok((0, _)) | Err(_) => Next::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::TrustedPeers;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

    struct Site {
        listener: TcpListener,
        clients: Clients,
        now: Instant,
    }

    impl Site {
        fn new() -> Self {
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback is there");
            listener.set_nonblocking(true).expect("it is ours");
            Self { listener, clients: Clients::default(), now: Instant::now() }
        }

        /// Gives access to this address only.
        fn only_for(address: [u8; 4]) -> Self {
            let network = TrustedPeers::Network { address: address.into(), prefix: 32 };
            Self { clients: Clients::new(None, Allowed::new(&[network])), ..Self::new() }
        }

        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect(self.listener.local_addr().expect("it has one")).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
            stream
        }

        fn turn(&mut self) {
            self.clients.accept(self.listener.as_fd(), self.now);
            for (scraper, wish) in self.clients.attend(self.now) {
                let ScrapeRequest::Metrics(format) = wish else { panic!("{wish:?}") };
                self.clients.answer(scraper, format, b"a 1\n", self.now);
            }
        }

        /// Serves until the client has its answer.
        fn answer(&mut self, mut stream: TcpStream) -> String {
            stream.set_nonblocking(true).expect("it is ours");
            let (mut answer, mut bytes) = (Vec::new(), [0; 4096]);
            let patience = Instant::now() + Duration::from_secs(30);
            while Instant::now() < patience {
                self.turn();
                match stream.read(&mut bytes) {
                    Ok(0) => return String::from_utf8(answer).expect("it is text"),
                    Ok(size) => answer.extend_from_slice(&bytes[..size]),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
                    Err(error) => panic!("{error} behind {:?}", String::from_utf8_lossy(&answer)),
                }
            }
            panic!("it is not answered: {:?}", String::from_utf8_lossy(&answer));
        }

        /// Serves until no client is connected.
        fn wait_for_end(&mut self) {
            let patience = Instant::now() + Duration::from_secs(30);
            while !self.clients.connected.is_empty() {
                assert!(Instant::now() < patience, "{:?}", self.clients.connected);
                self.turn();
            }
        }
    }

    #[test]
    fn a_client_is_answered_and_gone() {
        let mut site = Site::new();
        for _ in 0..3 {
            let mut stream = site.connect();
            stream.write_all(GET).expect("it is open");
            let answer = site.answer(stream);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\na 1\n"), "{answer}");
            site.wait_for_end();
        }
    }

    #[test]
    fn who_is_not_let_in_is_told_so() {
        for (address, status) in [([127, 0, 0, 1], "200 OK"), ([127, 0, 0, 2], "403 Forbidden")] {
            let mut site = Site::only_for(address);
            let mut stream = site.connect();
            stream.write_all(GET).expect("it is open");
            let answer = site.answer(stream);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
            site.wait_for_end();
        }
    }

    #[test]
    fn those_who_are_not_let_in_take_no_room_from_others() {
        let mut site = Site::only_for([127, 0, 0, 1]);
        let connect = |site: &mut Site| {
            let stream = site.connect();
            site.turn();
            stream
        };
        let known: Vec<TcpStream> = (0..CLIENTS - 1).map(|_| connect(&mut site)).collect();
        site.clients.allowed = Allowed::new(&[TrustedPeers::Network { address: [127, 0, 0, 2].into(), prefix: 32 }]);
        let strangers: Vec<TcpStream> = (0..3).map(|_| connect(&mut site)).collect();
        let of_known = |site: &Site| site.clients.connected.iter().filter(|client| client.is_known).count();
        assert_eq!((site.clients.connected.len(), of_known(&site)), (CLIENTS, CLIENTS - 1), "the newest stranger is there");
        site.clients.allowed = Allowed::default();
        let last = connect(&mut site);
        assert_eq!((site.clients.connected.len(), of_known(&site)), (CLIENTS, CLIENTS), "and makes room");
        let first = site.clients.connected[0].scraper;
        site.clients.allowed = Allowed::new(&[TrustedPeers::Network { address: [127, 0, 0, 2].into(), prefix: 32 }]);
        let turned_away = connect(&mut site);
        assert_eq!((of_known(&site), site.clients.connected[0].scraper), (CLIENTS, first), "nobody goes for a stranger");
        drop((known, strangers, last, turned_away));
    }

    #[test]
    fn who_floods_gets_an_answer_and_is_not_read_for_long() {
        let mut site = Site::new();
        let mut stream = site.connect();
        // More than the server's socket buffer holds, after a head that is too long.
        let mut writer = stream.try_clone().expect("a descriptor");
        let flood = std::thread::spawn(move || {
            writer.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n").expect("it is open");
            while writer.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let mut answer = [0; 12];
        stream.set_nonblocking(true).expect("it is ours");
        let patience = Instant::now() + Duration::from_secs(30);
        while stream.read_exact(&mut answer).is_err() {
            assert!(Instant::now() < patience, "it is not answered");
            site.turn();
        }
        assert_eq!(&answer, b"HTTP/1.1 431");
        assert_eq!(site.clients.next_deadline(), Some(site.now + LINGER));
        site.now += LINGER;
        site.turn();
        assert!(site.clients.connected.is_empty());
        drop(stream);
        flood.join().expect("it was cut off");
    }

    #[test]
    fn who_stalls_keeps_nobody() {
        let mut site = Site::new();
        let silent = site.connect();
        let mut slow = site.connect();
        slow.write_all(&GET[..20]).expect("it is open");
        while site.clients.connected.len() < 2 {
            site.turn();
        }
        assert_eq!(site.clients.next_deadline(), Some(site.now + PATIENCE));
        let mut quick = site.connect();
        quick.write_all(GET).expect("it is open");
        assert!(site.answer(quick).starts_with("HTTP/1.1 200 OK\r\n"));
        site.now += PATIENCE;
        site.turn();
        assert!(site.clients.connected.is_empty() && site.clients.next_deadline().is_none());
        drop((silent, slow));
    }

    #[test]
    fn who_comes_last_finds_room_however_many_stall() {
        let mut site = Site::new();
        let crowd: Vec<TcpStream> = (0..3 * CLIENTS)
            .map(|_| {
                let stream = site.connect();
                site.turn();
                stream
            })
            .collect();
        let mut last = site.connect();
        last.write_all(GET).expect("it is open");
        assert!(site.answer(last).starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(site.clients.connected.len() <= CLIENTS, "{}", site.clients.connected.len());
        drop(crowd);
        site.wait_for_end();
    }

    #[test]
    fn who_does_not_take_the_answer_keeps_nobody() {
        let mut site = Site::new();
        let mut slow = site.connect();
        slow.write_all(GET).expect("it is open");
        let mut asked = Vec::new();
        while asked.is_empty() {
            site.clients.accept(site.listener.as_fd(), site.now);
            asked = site.clients.attend(site.now);
        }
        site.clients.answer(asked[0].0, Format::Plain, &vec![b'x'; 64 << 20], site.now);
        assert!(matches!(site.clients.connected[0].stage, ScraperState::Answered(_)), "no socket takes so much");
        site.now += PATIENCE;
        site.turn();
        assert!(site.clients.connected.is_empty());
        drop(slow);
    }

    #[test]
    fn who_goes_is_forgotten_wherever_the_request_was_cut() {
        let mut site = Site::new();
        for end in 0..GET.len() {
            let mut stream = site.connect();
            stream.write_all(&GET[..end]).expect("it is open");
            drop(stream);
            while site.clients.count <= end as u64 {
                site.turn();
            }
            site.wait_for_end();
        }
    }
}
