//! No client keeps the others waiting, even if it sends much and fast.

use super::frames::{asks, opening};
use super::harness::*;
use super::response::*;
use oribi_io::Client;
use oribi_server::config::Settings;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Targets in the order in which the app got them.
type TargetLog = Rc<RefCell<Vec<String>>>;

fn server(settings: Settings) -> (Server, TargetLog) {
    let seen = TargetLog::default();
    let list = seen.clone();
    let server = Server::new(settings, move |request, reply| {
        list.borrow_mut().push(String::from_utf8_lossy(request.head.target()).into_owned());
        echo(request, reply);
    });
    (server, seen)
}

/// Lets `client` send `bytes` whenever the server is about to wait, until the returned flag is cleared.
fn flood(server: &Server, client: &Client, bytes: &'static [u8]) -> Rc<Cell<bool>> {
    let on = Rc::new(Cell::new(true));
    let (flag, wire) = (on.clone(), client.clone());
    server.world.before_waits(move || {
        if flag.get() {
            wire.send(bytes);
        }
    });
    on
}

#[test]
fn ten_thousand_pipelined_requests_are_answered_in_order() {
    let (mut server, seen) = server(Settings::default());
    let client = server.connect();
    let requests: Vec<u8> = (0..10_000).flat_map(|number| get(&format!("/{number}"))).collect();
    let responses = read_all(&server.exchange(&client, &requests));
    assert_eq!(responses.len(), 10_000);
    for (number, response) in responses.iter().enumerate() {
        assert_eq!(response.text(), format!("GET /{number} "));
    }
    assert_eq!(seen.borrow().len(), 10_000);
}

#[test]
fn a_flood_of_pipelined_requests_lets_others_have_their_turn() {
    for most in [1, 2, 16, 40] {
        let mut settings = Settings::default();
        settings.limits.pipelined_per_turn = most;
        let (mut server, seen) = server(settings);
        let (flood, other) = (server.connect(), server.connect());
        flood.send(&get("/flood").repeat(10_000));
        other.send(&get("/other"));
        server.run();
        assert_eq!(seen.borrow().len(), 10_001);
        let turn = seen.borrow().iter().position(|target| target == "/other").expect("it was answered");
        assert!(turn <= most as usize, "{turn} requests came first");
        assert_eq!(read_only(&other.received()).text(), "GET /other ");
    }
}

#[test]
fn a_request_that_comes_in_the_middle_of_a_flood_is_seen() {
    let (mut server, seen) = server(Settings::default());
    let (flood, other) = (server.connect(), server.connect());
    flood.send(&get("/flood").repeat(10_000));
    for _ in 0..100 {
        assert!(server.run_one());
    }
    other.send(&get("/other"));
    let before = seen.borrow().len();
    server.run();
    let turn = seen.borrow().iter().position(|target| target == "/other").expect("it was answered");
    assert!(turn - before <= 2 * 16, "{} requests came first", turn - before);
}

#[test]
fn a_flood_that_never_ends_starves_nobody() {
    // Requests; content that goes to a file; content in chunks; discarded bytes after a refused request.
    let floods: [(&[u8], &'static [u8]); 4] = [
        (b"", b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n"),
        (b"POST /flood HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n", b"x"),
        (b"POST /flood HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"nonsense\r\n\r\n", b"x"),
    ];
    for (start, rest) in floods {
        let (mut server, seen) = server(Settings::default());
        let (client, other) = (server.connect(), server.connect());
        server.run();
        client.send(start);
        // More than the server takes in a turn, repeatedly.
        client.send(&rest.repeat((4 << 20) / rest.len()));
        other.send(&get("/other"));
        let waits = server.world.waits();
        while !seen.borrow().iter().any(|target| target == "/other") {
            server.run_one();
        }
        assert!(server.world.waits() - waits <= 2);
        assert!(seen.borrow().len() <= 17, "{} requests came first", seen.borrow().len());
    }
}

#[test]
fn the_time_of_others_runs_out_during_a_flood() {
    let (mut server, _) = server(Settings::default());
    let (client, idle) = (server.connect(), server.connect());
    server.run();
    let on = flood(&server, &client, GET);
    client.send(GET);
    for _ in 0..100 {
        server.run_one();
    }
    assert!(!idle.closed());
    server.world.advance(31 * SECOND);
    for _ in 0..100 {
        server.run_one();
    }
    assert!(idle.closed());
    on.set(false);
    server.run();
    assert!(!client.closed());
}

#[test]
fn responses_held_back_for_a_pipelining_client_are_bounded() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 100_000;
    let large = Rc::new(pattern(60_000));
    let most = Rc::new(Cell::new(0));
    let (body, sent, highest) = (large.clone(), Rc::new(Cell::new(0)), most.clone());
    let client: Rc<RefCell<Option<Client>>> = Rc::default();
    let wire = client.clone();
    let taken = Cell::new(0);
    let mut server = Server::new(settings, move |_, reply| {
        if let Some(client) = wire.borrow().as_ref() {
            taken.set(taken.get() + client.received().len());
        }
        highest.set(highest.get().max(sent.get() - taken.get().min(sent.get())));
        sent.set(sent.get() + body.len());
        reply.send(ok(), &[&body]).expect("the client is there");
    });
    client.replace(Some(server.connect()));
    if let Some(client) = client.borrow().as_ref() {
        client.send(&GET.repeat(64));
    }
    server.run();
    assert!(most.get() <= 200_000, "{} bytes waited", most.get());
}

#[test]
fn a_flood_whose_sender_has_ended_is_answered_to_the_end() {
    for count in [1, 15, 16, 17, 33, 100, 2000] {
        for whole in [true, false] {
            let (mut server, _) = server(Settings::default());
            let client = server.connect();
            client.send(&GET.repeat(count));
            if !whole {
                for _ in 0..count.min(20) {
                    server.run_one();
                }
            }
            client.end();
            server.run();
            assert_eq!(read_all(&client.received()).len(), count);
            assert!(client.closed() && client.saw_end() && !client.saw_reset());
        }
    }
}

#[test]
fn a_slow_app_answers_others_between_the_many_requests_of_a_connection() {
    let seen = TargetLog::default();
    let mut server = Server::standard(echo);
    let (many, known) = (server.connect(), server.connect());
    let (list, world, other) = (seen.clone(), server.world.clone(), known.clone());
    let mut new = Vec::new();
    server.app(move |request, reply| {
        let target = String::from_utf8_lossy(request.head.target()).into_owned();
        world.advance(20 * MOMENT);
        match &target[..] {
            "/1" => other.send(&get("/known")),
            "/2" => new.extend(["/new", "/newer"].map(|target| {
                let client = world.connect();
                client.send(&get(target));
                client
            })),
            _ => {}
        }
        list.borrow_mut().push(target);
        echo(request, reply);
    });
    let requests: Vec<u8> = (1..=20).flat_map(|number| asks(2 * number - 1, &format!("/{number}"))).collect();
    many.send(&[opening(&[]), requests].concat());
    server.run();
    let place = |target: &str| seen.borrow().iter().position(|one| one == target).expect("it was answered");
    assert_eq!(place("/known"), place("/1") + 1);
    // A new connection is accepted before one more request, and read before the next.
    assert!(place("/new") <= place("/2") + 2 && place("/newer") <= place("/2") + 4, "{:?}", seen.borrow());
    assert_eq!(seen.borrow().len(), 23);
    assert_eq!(read_only(&known.received()).text(), "GET /known ");
}
