//! Exchanges with upstreams over real sockets, for clients that the test plays.

use super::ProxyHost;
use crate::address::Upstream;
use crate::connection::Connection;
use oribi_host::{Content, Endpoint, ExchangeId, Host, Outlet, Piece, Reply, ReplyError, Request};
use oribi_message::{FieldPair, HeadLayout, RequestHead, ResponseHead};
use oribi_proto::h1::{Limits, Machine};
use rustix::net::sockopt;
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client, with the text of the response so far.
#[derive(Debug, Default)]
struct Client {
    text: RefCell<String>,
    room: Cell<bool>,
    gone: Cell<bool>,
    /// The socket that it gives away.
    socket: RefCell<Option<OwnedFd>>,
}

impl Client {
    fn willing() -> Self {
        Self { room: Cell::new(true), ..Self::default() }
    }

    fn note(&self, text: &str) {
        self.text.borrow_mut().push_str(text);
    }

    fn text(&self) -> String {
        self.text.borrow().clone()
    }
}

impl Outlet for Client {
    fn respond(&self, _: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.note(&format!("{}: {}.", head.status, String::from_utf8_lossy(&parts.concat())));
        Ok(())
    }

    fn respond_pieces(&self, _: ExchangeId, _: ResponseHead<'_>, _: &[Piece<'_>]) -> Result<(), ReplyError> {
        unreachable!("no files here")
    }

    fn start(&self, _: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.note(&format!("{}: ", head.status));
        Ok(())
    }

    fn write(&self, _: ExchangeId, _: &[u8]) -> Result<(), ReplyError> {
        unreachable!("it would wait")
    }

    fn offer(&self, _: ExchangeId, piece: &[u8]) -> Result<bool, ReplyError> {
        self.note(&String::from_utf8_lossy(piece));
        Ok(self.room.get())
    }

    fn has_room(&self, _: ExchangeId) -> Result<bool, ReplyError> {
        if self.gone.get() { Err(ReplyError::Gone) } else { Ok(self.room.get()) }
    }

    fn finish(&self, _: ExchangeId) -> Result<(), ReplyError> {
        self.note(".");
        Ok(())
    }

    fn abandon(&self, _: ExchangeId) {
        self.note("!");
    }

    fn inform(&self, _: ExchangeId, status: u16, _: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.note(&format!("({status}) "));
        Ok(())
    }

    fn waiting(&self) -> usize {
        0
    }

    fn watch(&self, _: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn wake_after(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn take_socket(&self, _: ExchangeId) -> io::Result<OwnedFd> {
        self.socket.take().ok_or(io::ErrorKind::Unsupported.into())
    }
}

/// A context with some upstreams, which are listeners of the test.
fn host(upstreams: &[&TcpListener], timeout: Option<Duration>) -> ProxyHost {
    let target = |listener: &&TcpListener| {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Upstream::parse(&url).expect("valid").resolve().expect("an address")
    };
    ProxyHost::new(upstreams.iter().map(target).collect(), timeout).expect("epoll")
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("loopback")
}

/// Gives the context a request.
fn ask(host: &mut ProxyHost, client: &Client, head: &str) {
    ask_with(host, client, head, Content::None);
}

/// Gives the context a request with content.
fn ask_with(host: &mut ProxyHost, client: &Client, head: &str, content: Content<'_>) {
    let mut layout = HeadLayout::default();
    Machine::new().handle_input(head.as_bytes(), &mut layout, &Limits::default());
    let request = Request {
        head: RequestHead::new(head.as_bytes(), &layout),
        content,
        trailers: None,
        remote: Endpoint { address: b"192.0.2.1", port: b"1" },
        server: Endpoint { address: b"localhost", port: b"80" },
        forwarded_port: false,
        chosen_name: false,
        https: false,
        underscores: false,
        gateway: None,
    };
    host.answer(&request, Reply::new(client, ExchangeId(1)));
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\n\r\n";
const UPGRADE: &str = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Lets the context work until the condition is met.
#[track_caller]
fn until(host: &mut ProxyHost, client: &Client, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "the client has got: {}", client.text());
        host.attend(client);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The head that arrives on a connection; the context works meanwhile.
#[track_caller]
fn head_on(host: &mut ProxyHost, client: &Client, mut connection: &TcpStream) -> String {
    connection.set_nonblocking(true).expect("a socket");
    let mut head = Vec::new();
    until(host, client, || {
        let mut buffer = [0; 1024];
        if let Ok(count) = connection.read(&mut buffer) {
            head.extend_from_slice(&buffer[..count]);
        }
        head.ends_with(b"\r\n\r\n")
    });
    String::from_utf8(head).expect("text")
}

/// The connection on which a request with more content than sockets have room for has come. The upstream has read a part.
#[track_caller]
fn half_sent(host: &mut ProxyHost, client: &Client, listener: &TcpListener) -> TcpStream {
    ask_with(host, client, POST, Content::Memory(&vec![b'x'; 16 << 20]));
    let (mut connection, _) = listener.accept().expect("a connection");
    connection.set_nonblocking(true).expect("a socket");
    let mut head = [0; 4096];
    until(host, client, || connection.read(&mut head).is_ok_and(|count| count > 0));
    assert!(head.starts_with(b"POST /a "));
    let sent = |connection: &Connection| connection.exchange.as_ref().is_some_and(|exchange| exchange.is_sent());
    assert!(host.connections.tokens().all(|(_, connection)| !sent(connection)), "the sockets have too much room");
    connection
}

/// Whether the context has closed its end.
fn is_closed(mut connection: &TcpStream) -> bool {
    !matches!(connection.read(&mut [0; 64]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn a_response_in_pieces_is_passed_on_as_it_comes_and_its_connection_is_used_again() {
    let (listener, client) = (listener(), Client::willing());
    let mut host = host(&[&listener], None);
    ask(&mut host, &client, GET);
    let (mut connection, _) = listener.accept().expect("a connection");
    assert!(head_on(&mut host, &client, &connection).starts_with("GET /a HTTP/1.1\r\nHost: a\r\n"));
    for (piece, seen) in [
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Enc", "(103) "),
        ("oding: chunked\r\n\r\n", "(103) 200: "),
        ("5\r\nhello\r\n", "(103) 200: hello"),
        ("0\r\n\r\n", "(103) 200: hello."),
    ] {
        connection.write_all(piece.as_bytes()).expect("room");
        until(&mut host, &client, || client.text() == seen);
    }
    ask(&mut host, &client, GET);
    head_on(&mut host, &client, &connection);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain").expect("room");
    until(&mut host, &client, || client.text().ends_with("200: again."));
}

#[test]
fn an_upstream_waits_for_a_client_without_room_and_the_end_is_not_forgotten() {
    let (listener, client) = (listener(), Client::default());
    let mut host = host(&[&listener], None);
    ask(&mut host, &client, GET);
    let (mut connection, _) = listener.accept().expect("a connection");
    head_on(&mut host, &client, &connection);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").expect("room");
    until(&mut host, &client, || client.text() == "200: hello");
    connection.write_all(b"world").expect("room");
    for _ in 0..20 {
        host.attend(&client);
    }
    assert_eq!(client.text(), "200: hello");
    client.room.set(true);
    until(&mut host, &client, || client.text() == "200: helloworld.");

    // The piece that fills the room is the last one, and large enough to be passed on at once.
    let (client, content) = (Client::default(), "x".repeat(10_000));
    ask(&mut host, &client, GET);
    head_on(&mut host, &client, &connection);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n").expect("room");
    until(&mut host, &client, || client.text() == "200: ");
    client.room.set(true);
    connection.write_all(content.as_bytes()).expect("room");
    until(&mut host, &client, || client.text() == format!("200: {content}"));
    client.room.set(false);
    connection.write_all(content.as_bytes()).expect("room");
    until(&mut host, &client, || client.text().len() >= "200: ".len() + 2 * content.len());
    client.room.set(true);
    until(&mut host, &client, || client.text() == format!("200: {content}{content}."));
}

#[test]
fn the_connection_of_a_client_that_has_gone_is_closed() {
    let (listener, client) = (listener(), Client::willing());
    let mut host = host(&[&listener], None);
    ask(&mut host, &client, GET);
    let (connection, _) = listener.accept().expect("a connection");
    head_on(&mut host, &client, &connection);
    client.gone.set(true);
    until(&mut host, &client, || is_closed(&connection));
    assert_eq!(client.text(), "");
}

#[test]
fn an_upstream_answers_again_once_the_head_of_a_response_has_come() {
    for (request, response, seen) in [
        (GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "200: hello"),
        // This client gives its socket to nobody.
        (UPGRADE, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "502: Bad Gateway\n."),
    ] {
        let (listener, client) = (listener(), Client::willing());
        let mut host = host(&[&listener], None);
        host.balance.note_failure(0, Some(0), Instant::now());
        ask(&mut host, &client, request);
        let (mut connection, _) = listener.accept().expect("a connection");
        head_on(&mut host, &client, &connection);
        assert_eq!(host.balance.failures(0), 1);
        connection.write_all(response.as_bytes()).expect("room");
        until(&mut host, &client, || client.text() == seen);
        client.gone.set(true);
        until(&mut host, &client, || is_closed(&connection));
        assert_eq!(host.balance.failures(0), 0, "{seen}");
    }
}

#[test]
fn an_upstream_that_vanishes_behind_a_silent_tunnel_is_noticed() {
    let (listener, client) = (listener(), Client::willing());
    let (mut far, near) = UnixStream::pair().expect("sockets");
    client.socket.replace(Some(near.into()));
    let mut host = host(&[&listener], None);
    ask(&mut host, &client, UPGRADE);
    let (mut connection, _) = listener.accept().expect("a connection");
    head_on(&mut host, &client, &connection);
    connection.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n").expect("room");
    far.set_nonblocking(true).expect("a socket");
    until(&mut host, &client, || far.read(&mut [0; 1024]).is_ok_and(|count| count > 0));
    let probed = host.connections.tokens().next().map(|(_, connection)| sockopt::socket_keepalive(connection));
    assert_eq!(probed, Some(Ok(true)));
}

/// A context with a kept connection, on which a request has been answered.
fn kept(listener: &TcpListener) -> (ProxyHost, TcpStream) {
    let client = Client::willing();
    let mut host = host(&[listener], None);
    ask(&mut host, &client, GET);
    let (mut connection, _) = listener.accept().expect("a connection");
    head_on(&mut host, &client, &connection);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("room");
    until(&mut host, &client, || client.text() == "200: .");
    (host, connection)
}

#[test]
fn a_request_is_sent_again_once_if_it_may_be() {
    let listener = listener();
    let (mut host, connection) = kept(&listener);
    let client = Client::willing();
    ask(&mut host, &client, GET);
    head_on(&mut host, &client, &connection);
    drop(connection);
    listener.set_nonblocking(true).expect("a socket");
    let mut second = None;
    until(&mut host, &client, || {
        second = listener.accept().ok();
        second.is_some()
    });
    let (second, _) = second.expect("a connection");
    head_on(&mut host, &client, &second);
    drop(second);
    until(&mut host, &client, || client.text() == "502: Bad Gateway\n.");
    assert!(listener.accept().is_err(), "no third attempt");
}

#[test]
fn a_request_on_a_kept_connection_is_sent_again_to_the_upstream_that_answers() {
    let (alive, dead, client) = (listener(), listener(), Client::willing());
    let mut host = host(&[&alive, &dead], None);
    drop(dead);
    host.balance.note_failure(1, Some(0), Instant::now() + PATIENCE);
    ask(&mut host, &client, GET);
    let (mut first, _) = alive.accept().expect("a connection");
    head_on(&mut host, &client, &first);
    first.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("room");
    until(&mut host, &client, || client.text() == "200: .");

    let client = Client::willing();
    ask(&mut host, &client, GET);
    head_on(&mut host, &client, &first);
    drop(first);
    alive.set_nonblocking(true).expect("a socket");
    let mut second = None;
    until(&mut host, &client, || {
        second = alive.accept().ok();
        second.is_some() || !client.text().is_empty()
    });
    assert_eq!(client.text(), "");
    let (mut second, _) = second.expect("a connection");
    head_on(&mut host, &client, &second);
    second.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").expect("room");
    until(&mut host, &client, || client.text() == "200: good.");
}

#[test]
fn a_request_that_must_not_arrive_twice_is_not_sent_again() {
    let listener = listener();
    let (mut host, connection) = kept(&listener);
    let client = Client::willing();
    ask(&mut host, &client, POST);
    head_on(&mut host, &client, &connection);
    drop(connection);
    until(&mut host, &client, || client.text() == "502: Bad Gateway\n.");
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "no second attempt");
}

#[test]
fn a_request_is_not_sent_again_after_a_byte_of_a_response() {
    let listener = listener();
    let (mut host, mut connection) = kept(&listener);
    let client = Client::willing();
    ask(&mut host, &client, GET);
    head_on(&mut host, &client, &connection);
    connection.write_all(b"H").expect("room");
    drop(connection);
    until(&mut host, &client, || client.text() == "502: Bad Gateway\n.");
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "no second attempt");
}

#[test]
fn a_kept_connection_with_bytes_of_its_own_is_not_used_again() {
    let listener = listener();
    let (mut host, mut connection) = kept(&listener);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil").expect("room");
    let client = Client::willing();
    until(&mut host, &client, || is_closed(&connection));
    ask(&mut host, &client, GET);
    let (mut second, _) = listener.accept().expect("another connection");
    head_on(&mut host, &client, &second);
    second.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").expect("room");
    until(&mut host, &client, || client.text() == "200: good.");
}

#[test]
fn a_connection_with_half_a_request_is_not_used_again() {
    let (listener, client) = (listener(), Client::willing());
    let mut host = host(&[&listener], None);
    let mut first = half_sent(&mut host, &client, &listener);
    first.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("room");
    until(&mut host, &client, || client.text() == "200: .");
    assert_eq!(host.connections.tokens().count(), 0, "it is closed");
    ask(&mut host, &client, GET);
    let (mut second, _) = listener.accept().expect("another connection");
    assert!(head_on(&mut host, &client, &second).starts_with("GET /a "));
    second.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").expect("room");
    until(&mut host, &client, || client.text() == "200: .200: good.");
}

#[test]
fn half_a_response_never_looks_whole() {
    for (bytes, seen) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"[..], "200: half!"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "200: half!"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "502: Bad Gateway\n."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "502: Bad Gateway\n."),
        (b"HTTP/1.1 200 OK\r\n\r\nhalf", "200: half."),
    ] {
        let (listener, client) = (listener(), Client::willing());
        let mut host = host(&[&listener], None);
        ask(&mut host, &client, GET);
        let (mut connection, _) = listener.accept().expect("a connection");
        head_on(&mut host, &client, &connection);
        connection.write_all(bytes).expect("room");
        drop(connection);
        until(&mut host, &client, || client.text() == seen);
    }
}

#[test]
fn a_response_that_a_reset_ends_during_the_upload_never_looks_whole() {
    let (listener, client) = (listener(), Client::willing());
    let mut host = host(&[&listener], None);
    let mut connection = half_sent(&mut host, &client, &listener);
    connection.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").expect("room");
    until(&mut host, &client, || client.text() == "200: half");
    // Bytes that nobody has read make it a reset. The context sends before it receives.
    drop(connection);
    until(&mut host, &client, || client.text() != "200: half");
    assert_eq!(client.text(), "200: half!");
}

#[test]
fn a_request_goes_to_another_upstream_if_one_does_not_listen() {
    let (dead, alive, client) = (listener(), listener(), Client::willing());
    let mut host = host(&[&dead, &alive], None);
    drop(dead);
    ask(&mut host, &client, POST);
    let (connection, _) = {
        alive.set_nonblocking(true).expect("a socket");
        let mut found = None;
        until(&mut host, &client, || {
            found = alive.accept().ok();
            found.is_some()
        });
        found.expect("a connection")
    };
    assert!(head_on(&mut host, &client, &connection).starts_with("POST /a "));
}

#[test]
fn an_upstream_that_takes_too_long_is_given_up() {
    let (listener, client) = (listener(), Client::willing());
    let mut host = host(&[&listener], Some(Duration::from_millis(20)));
    ask(&mut host, &client, GET);
    let (connection, _) = listener.accept().expect("a connection");
    until(&mut host, &client, || client.text() == "504: Gateway Timeout\n.");
    connection.set_nonblocking(true).expect("a socket");
    until(&mut host, &client, || is_closed(&connection));
}

#[test]
fn nobody_gets_bytes_that_had_come_before_the_request() {
    let listener = listener();
    let (mut host, mut connection) = kept(&listener);
    // The context has not been told of them.
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL").expect("it is open");
    let end = Instant::now() + PATIENCE;
    while rustix::io::ioctl_fionread(&host.connections.tokens().next().expect("it is kept").1.socket)
        .is_ok_and(|count| count == 0)
    {
        assert!(Instant::now() < end, "the bytes do not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    let client = Client::willing();
    ask(&mut host, &client, POST);
    let (mut next, _) = listener.accept().expect("another connection");
    head_on(&mut host, &client, &next);
    next.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").expect("it is open");
    until(&mut host, &client, || !client.text().is_empty());
    assert_eq!(client.text(), "200: good.");
}

#[test]
fn a_full_queue_of_a_unix_socket_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let address = rustix::net::SocketAddrUnix::new(&path).expect("a path");
    let open = || {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
            .expect("a socket")
    };
    let listening = open();
    rustix::net::bind(&listening, &address).expect("the path is free");
    rustix::net::listen(&listening, 0).expect("it is bound");
    let mut waiting = Vec::new();
    loop {
        let socket = open();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let upstream = Upstream::parse(&format!("http+unix:{}", path.display())).expect("valid").resolve().expect("a path");
    let mut host = ProxyHost::new(vec![upstream], None).expect("epoll");
    let client = Client::willing();
    ask(&mut host, &client, GET);
    std::thread::sleep(Duration::from_millis(30));
    host.attend(&client);
    assert_eq!(client.text(), "", "it waits");
    let mut accepted = Vec::new();
    let answered = |accepted: &mut Vec<UnixStream>| {
        while let Ok(socket) = rustix::net::accept(&listening) {
            let mut stream = UnixStream::from(socket);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            accepted.push(stream);
        }
    };
    until(&mut host, &client, || {
        answered(&mut accepted);
        !client.text().is_empty()
    });
    assert_eq!(client.text(), "200: ok.");
}
