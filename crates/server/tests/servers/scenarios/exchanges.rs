//! Exchanges that are abandoned, or answered late, or whose connection has ended.

use super::harness::*;
use super::response::*;
use oribi_host::{ExchangeId, Outlet, ReplyError};
use oribi_message::ResponseHead;
use std::cell::RefCell;
use std::rc::Rc;

type Kept = Rc<RefCell<Vec<ExchangeId>>>;

fn keeping() -> (Server, Kept) {
    let kept = Kept::default();
    (Server::standard(keep(&kept)), kept)
}

#[test]
fn an_exchange_given_up_before_its_answer_is_a_500_and_the_connection_goes_on() {
    let mut server = Server::standard(|request, reply| {
        if request.head.target() == b"/drop" {
            drop(reply);
        } else {
            echo(request, reply);
        }
    });
    let client = server.connect();
    let received = server.exchange(&client, &[get("/drop"), get("/1"), post("/drop", b"x"), get("/drop"), get("/2")].concat());
    let seen: Vec<_> = read_all(&received).into_iter().map(|response| response.status).collect();
    assert_eq!(seen, [500, 200, 500, 500, 200]);
    let head = read_head(&server.exchange(&client, b"HEAD /drop HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(head.status, 500);
    assert!(!client.closed());
}

#[test]
fn a_stream_given_up_never_looks_whole() {
    for version in ["1.1", "1.0"] {
        for written in [0, 10, 100_000] {
            let mut server = Server::standard(move |_, reply| {
                let mut writer = reply.start(ok()).expect("the client is there");
                if written > 0 {
                    writer.write(&pattern(written)).expect("the client is there");
                }
            });
            let client = server.connect();
            let request = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
            let received = server.exchange(&client, request.repeat(2).as_bytes());
            assert!(client.closed() && client.saw_reset(), "HTTP/{version}, {written} bytes");
            if version == "1.1" {
                assert!(read_one(&received, false).is_none());
            }
            assert_eq!(server.connections(), 0);
        }
    }
}

#[test]
fn an_answer_may_come_later_and_out_of_order() {
    let (mut server, kept) = keeping();
    let clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &clients {
        client.send(&[GET, GET].concat());
        server.run();
    }
    let ids: Vec<_> = kept.borrow_mut().drain(..).collect();
    assert_eq!(ids.len(), 3, "a connection has one exchange at a time");
    for turn in [2, 0, 1] {
        answer(&server, ids[turn], &format!("answer {turn}"));
        server.run();
        assert_eq!(read_only(&clients[turn].received()).text(), format!("answer {turn}"));
    }
    let ids: Vec<_> = kept.borrow_mut().drain(..).collect();
    for (turn, id) in [2, 0, 1].into_iter().zip(ids) {
        answer(&server, id, &format!("again {turn}"));
        server.run();
        assert_eq!(read_only(&clients[turn].received()).text(), format!("again {turn}"));
    }
}

#[test]
fn an_id_that_is_out_of_date_answers_nobody() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(&[GET, GET].concat());
    server.run();
    let first = kept.borrow_mut().remove(0);
    answer(&server, first, "first");
    server.run();
    let second = kept.borrow_mut().remove(0);
    assert_ne!(first, second);
    let gone = Err(ReplyError::Gone);
    assert_eq!(server.lane.respond(first, ok(), &[b"wrong"]), gone);
    assert_eq!(server.lane.start(first, ok()), gone);
    assert_eq!(server.lane.write(first, b"wrong"), gone);
    assert_eq!(server.lane.finish(first), gone);
    assert_eq!(server.lane.inform(first, 103, &[]), gone);
    assert!(server.lane.take_socket(first).is_err());
    server.lane.abandon(first);
    assert_eq!(server.lane.respond(ExchangeId(0), ok(), &[b"wrong"]), gone);
    assert_eq!(server.lane.respond(ExchangeId(u64::MAX), ok(), &[b"wrong"]), gone);
    answer(&server, second, "second");
    server.run();
    let received = client.received();
    let texts: Vec<_> = read_all(&received).into_iter().map(|response| response.text().to_owned()).collect();
    assert_eq!(texts, ["first", "second"]);
}

#[test]
fn a_client_that_goes_takes_its_exchange_along() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(GET);
    server.run();
    let old = kept.borrow_mut().remove(0);
    client.reset();
    server.run();
    assert_eq!(server.connections(), 0);
    assert_eq!(server.lane.source().answering(), 0);
    // Another client at the same index.
    let next = server.connect();
    next.send(GET);
    server.run();
    assert_eq!(server.lane.respond(old, ok(), &[b"wrong"]), Err(ReplyError::Gone));
    server.lane.abandon(old);
    answer(&server, kept.borrow_mut().remove(0), "right");
    server.run();
    assert_eq!(read_only(&next.received()).text(), "right");
}

#[test]
fn a_client_that_only_ends_its_side_is_answered() {
    let (mut server, kept) = keeping();
    for later in [false, true] {
        let client = server.connect();
        client.send(GET);
        if later {
            server.run();
        }
        client.end();
        server.run();
        answer(&server, kept.borrow_mut().remove(0), "answer");
        server.run();
        assert_eq!(read_only(&client.received()).text(), "answer");
        assert!(client.closed() && client.saw_end() && !client.saw_reset());
    }
}

#[test]
fn a_client_that_goes_while_its_request_is_out_leaves_the_next_alone() {
    let world: Rc<RefCell<Option<oribi_io::Client>>> = Rc::default();
    let gone = world.clone();
    let mut settings = oribi_server::config::Settings::default();
    settings.limits.output_bytes = 1000;
    settings.limits.output_spool_bytes = 0;
    let mut server = Server::new(settings, move |request, reply| {
        if request.head.target() != b"/stream" {
            return echo(request, reply);
        }
        let mut writer = reply.start(ok()).expect("the client is there");
        let before = request.head.target().to_vec();
        while writer.write(&pattern(500)).is_ok() {}
        assert_eq!(request.head.target(), before, "the request outlives its connection");
        gone.borrow_mut().take();
    });
    let client = server.connect();
    client.set_window(10);
    client.send(&[get("/stream"), get("/never")].concat());
    // The client disconnects while the app is held, and another one connects at the same index and sends a request at once.
    let (leaving, place, comes) = (client.clone(), world.clone(), server.world.clone());
    let mut step = 0;
    server.meanwhile(move || {
        step += 1;
        if step == 2 {
            leaving.reset();
            let next = comes.connect();
            next.send(&get("/next"));
            place.borrow_mut().replace(next);
        }
    });
    let next = {
        assert!(server.run_one());
        server.no_meanwhile();
        server.run();
        server.connect()
    };
    assert_eq!(read_only(&server.exchange(&next, &get("/after"))).text(), "GET /after ");
    assert_eq!(server.connections(), 2);
    assert_eq!(server.lane.source().answering(), 0);
}

#[test]
fn a_second_answer_is_refused_and_the_first_stands() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(GET);
    server.run();
    let id = kept.borrow_mut().remove(0);
    answer(&server, id, "first");
    assert_eq!(server.lane.respond(id, ok(), &[b"second"]), Err(ReplyError::Gone));
    server.run();
    assert_eq!(read_only(&client.received()).text(), "first");
    assert_eq!(server.lane.finish(id), Err(ReplyError::Gone));
}

#[test]
fn a_second_head_cuts_the_response_off() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(GET);
    server.run();
    let id = kept.borrow_mut().remove(0);
    server.lane.start(id, ok()).expect("the client is there");
    server.lane.write(id, b"content").expect("the client is there");
    assert!(matches!(server.lane.start(id, ok()), Err(ReplyError::Invalid(_))));
    server.run();
    assert!(read_one(&client.received(), false).is_none());
    assert!(client.saw_reset());
}

#[test]
fn content_without_a_head_is_refused() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(GET);
    server.run();
    let id = kept.borrow_mut().remove(0);
    assert!(matches!(server.lane.finish(id), Err(ReplyError::Invalid(_))));
    answer(&server, id, "still");
    server.run();
    assert_eq!(read_only(&client.received()).text(), "still");
}

#[test]
fn a_late_stream_leaves_piece_by_piece_even_with_another_request_behind() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(&[GET, GET].concat());
    server.run();
    let id = kept.borrow_mut().remove(0);
    server.lane.start(id, ok()).expect("the client is there");
    server.lane.write(id, b"").expect("the client is there");
    assert!(client.received().ends_with(b"\r\n\r\n"), "a piece of no bytes sends the head");
    server.lane.write(id, b"one").expect("the client is there");
    assert_eq!(client.received(), b"3\r\none\r\n");
    server.lane.finish(id).expect("the client is there");
    server.run();
    assert_eq!(client.received(), b"0\r\n\r\n");
    answer(&server, kept.borrow_mut().remove(0), "next");
    server.run();
    assert_eq!(read_only(&client.received()).text(), "next");
}

#[test]
fn giving_everything_up_answers_or_cuts_each_connection() {
    let (mut server, kept) = keeping();
    let (unanswered, begun, idle) = (server.connect(), server.connect(), server.connect());
    for client in [&unanswered, &begun, &idle] {
        client.send(GET);
        server.run();
    }
    let ids = kept.borrow().clone();
    server.lane.start(ids[1], ResponseHead { status: 200, fields: &[] }).expect("the client is there");
    answer(&server, ids[2], "done");
    server.lane.source().abandon_all();
    server.run();
    assert_eq!(read_only(&unanswered.received()).status, 500);
    assert!(begun.saw_reset() && !idle.closed());
    assert_eq!(server.lane.source().answering(), 0);
}

#[test]
fn a_host_fails_with_a_status_of_its_own() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(&[GET, GET].concat());
    server.run();
    let id = kept.borrow_mut().remove(0);
    server.lane.fail(id, 503);
    server.run();
    let started = kept.borrow_mut().remove(0);
    server.lane.start(started, ok()).expect("the client is there");
    server.lane.write(started, b"content").expect("the client is there");
    server.lane.fail(started, 503);
    server.run();
    let received = client.received();
    let text = String::from_utf8_lossy(&received);
    assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{text}");
    assert!(text.contains("\r\n\r\nService Unavailable\nHTTP/1.1 200 OK\r\n"), "{text}");
    assert!(client.saw_reset(), "what has begun is cut");
}

#[test]
fn a_host_is_told_whether_its_client_has_gone() {
    let (mut server, kept) = keeping();
    let client = server.connect();
    client.send(GET);
    server.run();
    let id = kept.borrow_mut().remove(0);
    assert!(!server.lane.has_gone(id));
    client.reset();
    assert!(server.lane.has_gone(id), "without waiting for the loop");
    assert!(server.lane.has_gone(ExchangeId(0)));
}
