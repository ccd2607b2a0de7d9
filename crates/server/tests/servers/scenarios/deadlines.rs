//! Every deadline, on time and not earlier.

use super::harness::*;
use super::response::*;
use oribi_io::Client;
use oribi_server::config::Settings;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.timeouts.head = 10 * SECOND;
    settings.timeouts.content = 20 * SECOND;
    settings.timeouts.keepalive = 30 * SECOND;
    settings.timeouts.write = 40 * SECOND;
    settings.timeouts.linger = 5 * SECOND;
    settings
}

/// Checks that a client that has not finished its request gets a response with `status`. The server ends its side and waits
/// until the client ends its own; then it closes the connection.
#[track_caller]
fn assert_refused(server: &mut Server, client: &Client, status: u16) {
    let response = read_only(&client.received());
    assert_eq!(response.status, status);
    assert!(response.closes());
    assert!(client.saw_end() && !client.saw_reset());
    assert!(!client.closed(), "it lingers");
    client.end();
    server.run();
    assert!(client.closed() && !client.saw_reset());
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_connection_that_says_nothing_is_closed_without_a_word() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    server.advance(10 * SECOND - MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT);
    assert!(client.closed() && client.saw_end());
    assert_eq!(client.received(), b"");
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_first_head_has_its_time_from_the_accept_and_a_trickle_does_not_move_it() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    server.run();
    for byte in &GET[..9] {
        server.advance(SECOND);
        client.send(&[*byte]);
    }
    server.advance(SECOND - MOMENT);
    assert_eq!(client.received(), b"");
    server.advance(MOMENT);
    assert_refused(&mut server, &client, 408);
}

#[test]
fn a_head_that_is_complete_at_the_last_moment_is_answered() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    client.send(&GET[..9]);
    server.run();
    // The server sleeps until its deadline, and then also finds the rest of the request.
    server.world.advance(10 * SECOND);
    client.send(&GET[9..]);
    server.run();
    assert_eq!(read_only(&client.received()).status, 200);
}

#[test]
fn the_next_head_has_its_time_from_its_first_byte() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
    server.advance(29 * SECOND);
    for byte in &GET[..10] {
        client.send(&[*byte]);
        server.advance(SECOND - MOMENT);
        assert_eq!(client.received(), b"");
    }
    server.advance(10 * MOMENT);
    assert_refused(&mut server, &client, 408);
}

#[test]
fn a_head_behind_another_request_has_its_time_too() {
    for answered_later in [false, true] {
        let kept = Rc::default();
        let mut app = keep(&kept);
        let mut server = Server::new(
            settings(),
            move |request, reply| {
                if answered_later { app(request, reply) } else { echo(request, reply) }
            },
        );
        let client = server.connect();
        client.send(&[GET, b"GET /next"].concat());
        server.advance(SECOND);
        if answered_later {
            server.advance(100 * SECOND);
            let exchange = kept.borrow_mut().remove(0);
            answer(&server, exchange, "late");
            server.advance(SECOND);
        }
        assert_eq!(read_only(&client.received()).status, 200);
        server.advance(9 * SECOND - MOMENT);
        assert_eq!(client.received(), b"");
        server.advance(MOMENT);
        assert_refused(&mut server, &client, 408);
    }
}

#[test]
fn content_has_its_time_from_the_end_of_the_head() {
    let large = settings().limits.content_memory_bytes + 1;
    let heads = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".to_owned(),
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {large}\r\n\r\n"),
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n".to_owned(),
    ];
    for head in heads {
        let mut server = Server::new(settings(), echo);
        let client = server.connect();
        server.advance(9 * SECOND);
        client.send(head.as_bytes());
        server.run();
        for _ in 0..19 {
            server.advance(SECOND);
            client.send(b"x");
        }
        server.advance(SECOND - MOMENT);
        assert_eq!(client.received(), b"", "{head}");
        server.advance(MOMENT);
        assert_refused(&mut server, &client, 408);
    }
}

#[test]
fn content_behind_another_request_has_its_time_too() {
    for (head, sent) in
        [("Content-Length: 100", "half"), ("Content-Length: 100", ""), ("Transfer-Encoding: chunked", "5\r\nhal")]
    {
        let mut server = Server::new(settings(), echo);
        let client = server.connect();
        let second = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n{sent}");
        client.send(&[GET, second.as_bytes()].concat());
        server.advance(20 * SECOND - MOMENT);
        assert_eq!(read_only(&client.received()).status, 200, "{second}");
        server.advance(MOMENT);
        assert_refused(&mut server, &client, 408);
    }
}

#[test]
fn content_behind_a_response_that_the_client_is_slow_to_take_has_its_time_too() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    client.set_window(10);
    client.send(&[GET, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"].concat());
    server.advance(SECOND);
    client.set_window(usize::MAX);
    server.advance(20 * SECOND - MOMENT);
    assert_eq!(read_only(&client.received()).status, 200);
    assert!(!client.closed() && !client.saw_end());
    server.advance(MOMENT);
    assert_refused(&mut server, &client, 408);
}

#[test]
fn an_idle_connection_is_closed() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    for _ in 0..3 {
        assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
        server.advance(30 * SECOND - MOMENT);
        assert!(!client.closed());
    }
    server.advance(MOMENT);
    assert!(client.closed() && client.saw_end());
    assert_eq!(client.received(), b"");
}

#[test]
fn a_request_that_comes_while_its_connection_is_being_closed_is_answered() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
    server.world.advance(30 * SECOND);
    client.send(GET);
    server.run();
    assert_eq!(read_only(&client.received()).status, 200);
    server.advance(30 * SECOND - MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT);
    assert!(client.closed());
}

#[test]
fn empty_lines_do_not_keep_an_idle_connection_open() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
    for _ in 0..3 {
        server.advance(9 * SECOND);
        client.send(b"\r\n");
    }
    server.advance(3 * SECOND);
    assert!(client.closed() && !client.saw_reset());
    assert_eq!(client.received(), b"");
}

#[test]
fn a_connection_is_idle_after_any_number_of_requests_and_empty_lines() {
    for count in 1..40 {
        for behind in ["", "\r\n"] {
            let mut server = Server::new(settings(), echo);
            let client = server.connect();
            let received = server.exchange(&client, &[&GET.repeat(count), behind.as_bytes()].concat());
            assert_eq!(read_all(&received).len(), count);
            server.advance(30 * SECOND - MOMENT);
            assert!(!client.closed(), "{count}");
            server.advance(MOMENT);
            assert!(client.closed() && client.saw_end(), "{count}");
        }
    }
}

#[test]
fn without_keep_alive_every_response_ends_its_connection() {
    let mut settings = settings();
    settings.timeouts.keepalive = Duration::ZERO;
    let mut server = Server::new(settings, echo);
    let client = server.connect();
    let response = read_only(&server.exchange(&client, GET));
    assert!(response.closes());
    client.end();
    server.run();
    assert!(client.closed() && !client.saw_reset());
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off() {
    let mut server = Server::new(settings(), |_, reply| reply.send(ok(), &[&pattern(300_000)]).expect("the client is there"));
    let client = server.connect();
    client.set_window(100);
    client.send(GET);
    server.advance(40 * SECOND - MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT);
    assert!(client.closed() && client.saw_reset());
    assert_eq!(client.received().len(), 100);
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off_behind_a_slow_upload() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    client.set_window(10);
    let upload = post("/", b"slow content");
    let (front, back) = upload.split_at(upload.len() - 6);
    // The first response waits for the next request, and finds the socket full while that is received.
    client.send(&[GET, front].concat());
    server.advance(10 * SECOND);
    client.send(back);
    server.advance(40 * SECOND - MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT);
    assert!(client.closed() && client.saw_reset());
}

#[test]
fn a_trickle_does_not_keep_a_slow_reader_alive_but_64_kib_do() {
    for (window, survives) in [(1 << 10, false), (65 << 10, true)] {
        let mut server =
            Server::new(settings(), |_, reply| reply.send(ok(), &[&pattern(1 << 20)]).expect("the client is there"));
        let client = server.connect();
        client.set_window(100);
        client.send(GET);
        server.run();
        for _ in 0..3 {
            server.advance(15 * SECOND);
            client.set_window(window);
        }
        server.run();
        assert_eq!(!client.closed(), survives, "{window}");
        if survives {
            client.set_window(usize::MAX);
            server.run();
            assert_eq!(read_only(&client.received()).body, pattern(1 << 20));
        } else {
            assert!(client.saw_reset());
        }
    }
}

#[test]
fn the_deadline_for_writing_ends_with_the_response() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    client.set_window(10);
    client.send(GET);
    server.advance(39 * SECOND);
    client.set_window(usize::MAX);
    server.advance(29 * SECOND);
    assert_eq!(read_only(&client.received()).status, 200);
    assert!(!client.closed());
    assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
}

#[test]
fn an_ending_connection_lingers_for_its_time_and_no_longer() {
    let mut server = Server::new(settings(), echo);
    let client = server.connect();
    client.send(b"nonsense\r\n\r\n");
    server.run();
    assert_eq!(read_only(&client.received()).status, 400);
    for _ in 0..4 {
        server.advance(SECOND);
        assert!(!client.closed());
        client.send(&pattern(100_000));
    }
    server.advance(SECOND - MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT);
    assert!(client.closed() && !client.saw_reset());
}

#[test]
fn lingering_can_be_switched_off() {
    let mut settings = settings();
    settings.timeouts.linger = Duration::ZERO;
    let mut server = Server::new(settings, echo);
    let client = server.connect();
    client.send(b"nonsense\r\n\r\n");
    server.run();
    assert_eq!(read_only(&client.received()).status, 400);
    assert!(client.closed());
}

#[test]
fn an_app_may_take_its_time() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = Server::new(settings(), keep(&kept));
    let client = server.connect();
    client.send(GET);
    server.advance(3600 * SECOND);
    assert!(!client.closed());
    answer(&server, kept.borrow_mut().remove(0), "at last");
    server.run();
    assert_eq!(read_only(&client.received()).text(), "at last");
    assert_eq!(server.advance(29 * SECOND), 0, "nothing to wake up for");
}

#[test]
fn time_that_the_app_took_is_not_taken_from_its_client() {
    let mut server = Server::new(settings(), echo);
    let world = server.world.clone();
    server.app(move |request, reply| {
        world.advance(1000 * SECOND);
        echo(request, reply);
    });
    let reads_on = server.connect();
    reads_on.set_window(10);
    reads_on.send(GET);
    server.run();
    server.advance(40 * SECOND - MOMENT);
    assert!(!reads_on.closed());
    server.advance(MOMENT);
    assert!(reads_on.closed());

    let asks_on = server.connect();
    assert!(!read_only(&server.exchange(&asks_on, GET)).closes());
    server.advance(30 * SECOND - MOMENT);
    assert!(!asks_on.closed());
    server.advance(MOMENT);
    assert!(asks_on.closed());
}
