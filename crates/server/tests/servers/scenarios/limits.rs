//! Every limit, at its value and one beyond.

use super::harness::*;
use super::response::*;
use oribi_io::Client;
use oribi_server::config::Settings;
use std::cell::RefCell;
use std::rc::Rc;

/// Checks that a request was refused with `status`, and that the connection then ends in an orderly way, although the client
/// still sends.
#[track_caller]
fn assert_refused(server: &mut Server, client: &Client, status: u16) {
    let response = read_only(&client.received());
    assert_eq!(response.status, status, "{}", response.text());
    assert!(response.closes() && client.saw_end() && !client.closed());
    client.send(&pattern(100_000));
    client.end();
    server.run();
    assert_eq!(client.received(), b"");
    assert!(client.closed() && !client.saw_reset());
}

fn head_with_fields(count: usize) -> Vec<u8> {
    let fields: String = (1..count).map(|number| format!("X-{number}: v\r\n")).collect();
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

fn head_of_size(size: usize) -> Vec<u8> {
    let rest = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
    format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "v".repeat(size - rest)).into_bytes()
}

#[test]
fn heads() {
    let mut settings = Settings::default();
    settings.limits.fields = 10_000;
    for most in [100, 4096, 16 << 10, (16 << 10) + 1, 32 << 10, 100_000] {
        settings.limits.head_bytes = most;
        for piece in [usize::MAX, 1000, 16 << 10] {
            let mut server = Server::new(settings.clone(), echo);
            let client = server.connect();
            for part in head_of_size(most).chunks(piece) {
                client.send(part);
                server.run();
            }
            assert_eq!(read_only(&client.received()).status, 200, "{most} in pieces of {piece}");
            for part in head_of_size(most + 1).chunks(piece) {
                client.send(part);
                server.run();
            }
            assert_refused(&mut server, &client, 431);
        }
    }
}

#[test]
fn field_counts() {
    let mut server = Server::standard(echo);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &head_with_fields(100))).status, 200);
    client.send(&head_with_fields(101));
    server.run();
    assert_refused(&mut server, &client, 431);
    let client = server.connect();
    client.send(&head_with_fields(10_000));
    server.run();
    assert_refused(&mut server, &client, 431);
}

#[test]
fn targets() {
    let mut server = Server::standard(echo);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &get(&"/".repeat(8 << 10)))).status, 200);
    client.send(&get(&"/".repeat((8 << 10) + 1)));
    server.run();
    assert_refused(&mut server, &client, 414);
    let client = server.connect();
    client.send(&get(&"/".repeat(1 << 20)));
    server.run();
    assert_refused(&mut server, &client, 414);
}

#[test]
fn content() {
    let mut settings = Settings::default();
    settings.limits.content_bytes = 50_000;
    let mut server = Server::new(settings, echo);
    for chunked in [false, true] {
        let client = server.connect();
        let request = |size: usize| if chunked { post_chunked("/", &pattern(size), 999) } else { post("/", &pattern(size)) };
        assert_eq!(read_only(&server.exchange(&client, &request(50_000))).body[7..], pattern(50_000));
        client.send(&request(50_001));
        server.run();
        assert_refused(&mut server, &client, 413);
    }
}

#[test]
fn ten_gigabytes_are_refused_before_they_are_sent() {
    let mut server = Server::standard(|_, _| panic!("no app is called"));
    let client = server.connect();
    client.send(b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10737418240\r\n\r\n");
    server.run();
    assert_refused(&mut server, &client, 413);
}

#[test]
fn requests_on_a_connection() {
    for pipelined in [false, true] {
        let mut settings = Settings::default();
        settings.limits.requests_per_connection = Some(3);
        let mut server = Server::new(settings, echo);
        let client = server.connect();
        let mut received = Vec::new();
        if pipelined {
            received = server.exchange(&client, &GET.repeat(5));
        } else {
            (0..3).for_each(|_| received.extend(server.exchange(&client, GET)));
        }
        let closes: Vec<_> = read_all(&received).iter().map(Response::closes).collect();
        assert_eq!(closes, [false, false, true]);
        assert!(client.saw_end() && !client.saw_reset());
    }
}

#[test]
fn a_request_that_crosses_the_last_response_does_not_destroy_it() {
    let mut settings = Settings::default();
    settings.limits.requests_per_connection = Some(1);
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = Server::new(settings, keep(&kept));
    let client = server.connect();
    client.send(GET);
    server.run();
    // Sent before the client could notice, and not received by the server yet.
    client.send(GET);
    answer(&server, kept.borrow_mut().remove(0), "last");
    server.run();
    assert!(read_only(&client.received()).closes());
    assert!(client.saw_end() && !client.saw_reset());
    client.end();
    server.run();
    assert!(client.closed() && !client.saw_reset());
}

#[test]
fn the_oldest_idle_connection_makes_room() {
    let mut settings = Settings::default();
    settings.limits.connections = 3;
    let mut server = Server::new(settings, echo);
    let clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in [&clients[1], &clients[0], &clients[2], &clients[1]] {
        assert_eq!(read_only(&server.exchange(client, GET)).status, 200);
        server.advance(SECOND);
    }
    let newcomer = server.connect();
    assert_eq!(read_only(&server.exchange(&newcomer, GET)).status, 200);
    let closed: Vec<_> = clients.iter().map(|client| client.closed() && client.saw_end()).collect();
    assert_eq!(closed, [true, false, false]);
    assert_eq!(server.connections(), 3);
}

#[test]
fn an_idle_connection_with_a_request_on_its_way_does_not_make_room() {
    let mut settings = Settings::default();
    settings.limits.connections = 2;
    let mut server = Server::new(settings, echo);
    let (busy, idle) = (server.connect(), server.connect());
    for client in [&busy, &idle] {
        assert_eq!(read_only(&server.exchange(client, GET)).status, 200);
    }
    let newcomer = server.connect();
    busy.send(&get("/again"));
    newcomer.send(GET);
    server.run();
    assert_eq!(read_only(&busy.received()).text(), "GET /again ");
    assert_eq!(read_only(&newcomer.received()).status, 200);
    assert!(idle.closed() && !busy.closed());
    assert_eq!(server.connections(), 2);
}

#[test]
fn with_nobody_idle_accepting_pauses_and_resumes() {
    let mut settings = Settings::default();
    settings.limits.connections = 2;
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = Server::new(settings, keep(&kept));
    let clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    clients.iter().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    server.run();
    assert_eq!((server.connections(), server.world.waiting(), server.world.listening()), (2, 1, false));
    let wake_ups = server.advance(60 * SECOND);
    assert!(wake_ups <= 700, "{wake_ups} wake-ups in a minute");
    answer(&server, kept.borrow_mut().remove(0), "done");
    clients[0].end();
    server.advance(SECOND);
    assert_eq!((server.connections(), server.world.waiting(), server.world.listening()), (2, 0, true));
    while let Some(exchange) = kept.borrow_mut().pop() {
        answer(&server, exchange, "done");
    }
    server.run();
    for client in clients {
        assert_eq!(read_only(&client.received()).text(), "done");
        assert!(!client.saw_reset());
    }
}

#[test]
fn without_descriptors_accepting_pauses_without_spinning() {
    let mut server = Server::standard(echo);
    let early = server.connect();
    early.send(&GET[..5]);
    server.run();
    server.world.set_exhausted(true);
    let late = server.connect();
    late.send(GET);
    server.run();
    assert!(!server.world.listening());
    let waits = server.world.waits();
    server.advance(20 * SECOND);
    let waits = server.world.waits() - waits;
    assert!(waits <= 1000, "{waits} waits in 20 seconds");
    assert_eq!(read_only(&server.exchange(&early, &GET[5..])).status, 200);
    server.world.set_exhausted(false);
    server.advance(SECOND);
    assert!(server.world.listening());
    assert_eq!(read_only(&late.received()).status, 200);
}

#[test]
fn without_descriptors_an_idle_connection_makes_room() {
    let mut server = Server::standard(echo);
    let idle = server.connect();
    assert_eq!(read_only(&server.exchange(&idle, GET)).status, 200);
    server.world.set_exhausted(true);
    let late = server.connect();
    server.run();
    assert!(idle.closed() && idle.saw_end());
    server.world.set_exhausted(false);
    server.advance(SECOND);
    assert_eq!(read_only(&server.exchange(&late, GET)).status, 200);
}
