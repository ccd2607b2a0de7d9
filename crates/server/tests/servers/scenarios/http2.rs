//! Clients that speak HTTP/2: requests side by side on one connection, each within the windows that the client gives.

use super::frames::*;
use super::harness::*;
use oribi_host::{ExchangeId, Outlet, Reply, Request};
use oribi_message::ResponseHead;
use oribi_server::config::Settings;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const OK: ResponseHead<'_> = ResponseHead { status: 200, fields: &[] };

/// Answers with as many bytes as the target names: `/1000`.
fn sized(request: &Request<'_>, reply: Reply<'_>) {
    let size = String::from_utf8_lossy(&request.head.target()[1..]).parse().expect("a number");
    let _ = reply.send(OK, &[&vec![b'x'; size]]);
}

#[test]
fn requests_are_answered_wherever_the_bytes_are_cut() {
    let bytes = [
        opening(&[]),
        asks(1, "/one?q=1"),
        offers(3, "/two", &[("content-length", "10")]),
        frame(DATA, 0, 3, b"con"),
        frame(DATA, END_STREAM, 3, b"tent 10"),
        frame(SETTINGS, ACK, 0, b""),
        asks(5, "/three"),
    ]
    .concat();
    for cut in 0..=bytes.len() {
        let mut server = Server::standard(echo);
        let (client, mut frames) = (server.connect(), Frames::default());
        for part in [&bytes[..cut], &bytes[cut..]] {
            client.send(part);
            server.run();
        }
        frames.read(&client);
        for (id, text) in [(1, "GET /one?q=1 "), (3, "POST /two content 10"), (5, "GET /three ")] {
            assert_eq!((frames.status(id), frames.content(id)), (Some(0x88), (text.to_owned(), true)), "cut at {cut}");
        }
        assert!(!client.closed());
    }
}

#[test]
fn what_only_looks_like_it_is_http_1() {
    for (bytes, http2) in [(&b"PRI / HTTP/1.1\r\nHost: a\r\n\r\n"[..], true), (PREFACE, false)] {
        let mut server = Server::new(Settings { http2, ..Settings::default() }, echo);
        let client = server.connect();
        let answer = String::from_utf8_lossy(&server.exchange(&client, bytes)).into_owned();
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    }
    // Only a new connection may begin with these bytes.
    let mut server = Server::standard(echo);
    let client = server.connect();
    let answer = server.exchange(&client, &[b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PREFACE].concat());
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("GET / ") && answer.contains("HTTP/1.1 505"), "{answer}");
}

#[test]
fn content_waits_for_windows_and_keeps_no_other_stream() {
    let mut server = Server::standard(sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[(INITIAL_WINDOW, 10)]), asks(1, "/25"), asks(3, "/5")].concat());
    server.run();
    frames.read(&client);
    assert_eq!((frames.content(1).0.len(), frames.content(1).1), (10, false));
    assert_eq!((frames.content(3).0.len(), frames.content(3).1), (5, true));
    for (more, seen, ended) in [(4, 14, false), (11, 25, true)] {
        client.send(&window_update(1, more));
        server.run();
        assert_eq!((frames.read(&client).content(1).0.len(), frames.content(1).1), (seen, ended));
    }
    client.send(&asks(5, "/10"));
    server.run();
    assert!(frames.read(&client).content(5).1, "the connection goes on");
}

#[test]
fn large_responses_share_the_connection() {
    let mut server = Server::standard(sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    // All sent bytes fit into the windows, and the socket takes little at a time.
    client.set_window(1000);
    client.send(&[opening(&[(INITIAL_WINDOW, 10 << 20)]), window_update(0, 10 << 20)].concat());
    client.send(&[asks(1, "/1000000"), asks(3, "/1000000"), asks(5, "/10")].concat());
    server.run();
    let mut first_ended = None;
    for round in 0..100_000 {
        client.set_window(20_000);
        server.run();
        frames.read(&client);
        for id in [1, 3, 5] {
            if frames.content(id).1 && first_ended.is_none() {
                first_ended = Some(id);
            }
        }
        if [1, 3].iter().all(|&id| frames.content(id).1) {
            break;
        }
        assert!(round < 99_999, "it goes on");
    }
    assert_eq!(first_ended, Some(5), "a small response passes the large ones");
    let order: Vec<u32> = frames.of(DATA).iter().map(|frame| frame.id).filter(|&id| id != 5).collect();
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 50, "they take turns: {changes} changes in {} frames", order.len());
    assert!([1, 3].iter().all(|&id| frames.content(id).0.len() == 1_000_000));
}

#[test]
fn a_client_that_gives_no_window_loses_its_stream_and_nothing_else() {
    let settings = Settings::default();
    let patience = settings.timeouts.write;
    let mut server = Server::new(settings, sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[(INITIAL_WINDOW, 10)]), asks(1, "/11")].concat());
    server.run();
    server.advance(patience - MOMENT);
    assert!(frames.read(&client).of(RST_STREAM).is_empty());
    server.advance(MOMENT * 2);
    let reset = frames.read(&client).of(RST_STREAM);
    assert_eq!((reset.len(), reset[0].id, reset[0].code()), (1, 1, 8), "CANCEL");
    client.send(&asks(3, "/10"));
    server.run();
    assert!(frames.read(&client).content(3).1);
}

#[test]
fn further_requests_give_a_client_that_reads_nothing_no_time() {
    let settings = Settings::default();
    let patience = settings.timeouts.write;
    let mut server = Server::new(settings, sized);
    let client = server.connect();
    client.set_window(1000);
    client.send(&[opening(&[(INITIAL_WINDOW, 10 << 20)]), window_update(0, 10 << 20), asks(1, "/200000")].concat());
    server.run();
    for id in [3, 5] {
        server.advance(patience / 4);
        client.send(&asks(id, "/10"));
        server.run();
    }
    server.advance(patience / 2 - MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT * 2);
    assert!(client.closed());
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_window_that_opens_by_bytes_is_no_progress() {
    let settings = Settings::default();
    let patience = settings.timeouts.write;
    let mut server = Server::new(settings, sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[(INITIAL_WINDOW, 10)]), asks(1, "/1000000")].concat());
    server.run();
    for _ in 0..9 {
        server.advance(patience / 10);
        client.send(&window_update(1, 1));
        server.run();
    }
    assert!(frames.read(&client).of(RST_STREAM).is_empty());
    assert_eq!(frames.content(1).0.len(), 19);
    server.advance(patience / 10 + MOMENT);
    assert_eq!(frames.read(&client).of(RST_STREAM).len(), 1);
    // 64 KiB at a time are sent.
    client.send(&asks(3, "/1000000"));
    for _ in 0..40 {
        server.run();
        server.advance(patience / 5);
        client.send(&window_update(3, 20_000));
        client.send(&window_update(0, 20_000));
    }
    server.run();
    assert_eq!(frames.read(&client).of(RST_STREAM).len(), 1);
    assert_eq!(frames.content(3).0.len(), 10 + 40 * 20_000);
}

#[test]
fn a_response_may_wait_for_its_turn_as_long_as_the_client_takes_others() {
    let settings = Settings::default();
    let patience = settings.timeouts.write;
    let mut server = Server::new(settings, sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[(INITIAL_WINDOW, 10 << 20)]), window_update(0, 10 << 20)].concat());
    client.set_window(1000);
    let first = head("GET", "/1000000", &[("priority", "u=0")]);
    let last = head("GET", "/100000", &[("priority", "u=7")]);
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &first));
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &last));
    server.run();
    for _ in 0..12 {
        assert!(!frames.read(&client).content(3).1, "its turn has not come");
        client.set_window(70_000);
        server.run();
        server.advance(patience - MOMENT);
    }
    client.set_window(usize::MAX);
    server.run();
    frames.read(&client);
    assert!(frames.of(RST_STREAM).is_empty());
    assert_eq!([1, 3].map(|id| (frames.content(id).0.len(), frames.content(id).1)), [(1_000_000, true), (100_000, true)]);
}

#[test]
fn a_response_whose_turn_comes_late_has_its_whole_time() {
    let settings = Settings::default();
    let patience = settings.timeouts.write;
    let mut server = Server::new(settings, sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.set_window(1000);
    client.send(&[opening(&[]), window_update(0, 10 << 20)].concat());
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("GET", "/200000", &[("priority", "u=0")])));
    client.send(&window_update(1, 1 << 20));
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &head("GET", "/100000", &[("priority", "u=7")])));
    server.run();
    for _ in 0..2 {
        server.advance(patience / 4);
        client.set_window(70_000);
        server.run();
        assert!(frames.read(&client).content(3).0.len() < 1000, "its turn has not come");
    }
    server.advance(patience / 4);
    client.set_window(usize::MAX);
    server.run();
    // Its window is full, and the client needs a moment to open it.
    assert_eq!(frames.read(&client).content(3).0.len(), 65_535);
    server.advance(patience / 4 + MOMENT);
    assert!(frames.read(&client).of(RST_STREAM).is_empty());
    client.send(&window_update(3, 1 << 20));
    server.run();
    assert_eq!((frames.read(&client).content(3).0.len(), frames.content(3).1), (100_000, true));
    // A client that opens no window is not waited for.
    client.send(&asks(5, "/100000"));
    server.advance(patience + MOMENT);
    server.advance(patience + MOMENT);
    assert_eq!(frames.read(&client).of(RST_STREAM).len(), 1);
}

#[test]
fn a_client_that_reads_slowly_may_ask_whether_the_server_is_there() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 4096;
    let mut server = Server::new(settings, sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.set_window(1000);
    client.send(&[opening(&[(INITIAL_WINDOW, 1 << 20)]), window_update(0, 1 << 20), asks(1, "/200000")].concat());
    server.run();
    client.send(&frame(PING, 0, 0, b"are you?"));
    server.run();
    client.set_window(usize::MAX);
    server.run();
    frames.read(&client);
    assert_eq!(frames.of(PING)[0].content, b"are you?");
    assert_eq!((frames.content(1).0.len(), frames.content(1).1), (200_000, true));
    // A client that only sends and reads nothing cannot make the server answer PINGs for ever: the server drops the connection
    // before much output waits.
    client.set_window(0);
    for _ in 0..2500 {
        client.send(&[frame(PING, 0, 0, b"are you?"), frame(PING, 0, 0, b"are you?")].concat());
        server.run();
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_connection_has_as_many_requests_as_it_may() {
    let mut settings = Settings::default();
    settings.limits.http2_streams = 2;
    settings.limits.requests_per_connection = Some(3);
    let mut server = Server::new(settings, echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), asks(1, "/"), asks(3, "/")].concat());
    server.run();
    assert!(frames.read(&client).of(GOAWAY).is_empty());
    client.send(&asks(5, "/"));
    server.run();
    assert_eq!(frames.read(&client).of(GOAWAY)[0].content[..4], [0x7f, 0xff, 0xff, 0xff], "the first of two steps");
    // Two requests may have been in flight; a client that ignores the announcement even then gets no further answers.
    client.send(&[asks(7, "/"), asks(9, "/"), asks(11, "/")].concat());
    server.run();
    frames.read(&client);
    let last = frames.of(GOAWAY).last().expect("the second").content.clone();
    assert_eq!((frames.of(GOAWAY).len(), &last[..4]), (2, &[0, 0, 0, 9][..]));
    assert_eq!([1, 3, 5, 7, 9, 11].map(|id| frames.content(id).1), [true, true, true, true, true, false]);
    // The client may repeat the request elsewhere, because the announcement permits it; no single stream is refused.
    assert!(frames.of(RST_STREAM).is_empty());
    assert!(client.saw_end() && !client.saw_reset());
}

#[test]
fn a_connection_that_begins_while_the_server_parts_is_told_so() {
    for cut in [0, 10, 24, 30, 40] {
        let mut server = Server::standard(echo);
        let (client, mut frames) = (server.connect(), Frames::default());
        let bytes = [opening(&[]), asks(1, "/")].concat();
        client.send(&bytes[..cut]);
        server.run();
        server.part();
        server.run();
        client.send(&bytes[cut..]);
        server.run();
        frames.read(&client);
        assert_eq!(frames.all[0].kind, SETTINGS, "it comes before everything else: {:?}", frames.all);
        assert_eq!((frames.of(GOAWAY).len(), frames.content(1).1), (1, true), "cut at {cut}");
    }
}

#[test]
fn an_app_learns_that_its_stream_was_reset() {
    let held: Rc<Cell<Option<ExchangeId>>> = Rc::default();
    let keep = held.clone();
    let mut server = Server::standard(move |_, reply| {
        let (_, id) = reply.detach();
        keep.set(Some(id));
    });
    let client = server.connect();
    client.send(&[opening(&[]), asks(1, "/")].concat());
    server.run();
    let id = held.get().expect("it was asked");
    assert!(!server.lane.has_gone(id));
    client.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    server.run();
    assert!(server.lane.has_gone(id));
}

#[test]
fn content_that_does_not_come_is_waited_for_as_long_as_it_may_take() {
    let settings = Settings::default();
    let patience = settings.timeouts.content;
    let mut server = Server::new(settings, echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), offers(1, "/", &[]), frame(DATA, 0, 1, b"some")].concat());
    server.run();
    server.advance(patience + MOMENT);
    frames.read(&client);
    assert!(frames.status(1).is_some_and(|status| status != 0x88), "{:?}", frames.all);
    let reset = frames.of(RST_STREAM);
    assert_eq!((reset.len(), reset[0].code()), (1, 0), "the client is told to stop sending");
    assert!(!client.closed());
}

#[test]
fn a_head_that_stops_ends_its_connection_with_goaway() {
    let patience = Settings::default().timeouts.head;
    let half = frame(HEADERS, 0, 3, &[0x82]);
    // Within the header of a frame, within a frame, and between two frames of one head.
    for part in [&half[..4], &half[..9], &half] {
        let mut server = Server::standard(echo);
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&[&opening(&[]), &asks(1, "/"), part].concat());
        server.run();
        server.advance(patience - MOMENT);
        assert!(frames.read(&client).of(GOAWAY).is_empty() && !client.closed(), "{part:?}");
        server.advance(MOMENT + MOMENT);
        let goaway = frames.read(&client).of(GOAWAY);
        assert_eq!((goaway.len(), goaway[0].code(), &goaway[0].content[..4]), (1, 0, &[0, 0, 0, 1][..]), "{part:?}");
        assert!(client.saw_end() && !client.saw_reset(), "{part:?}");
    }
}

#[test]
fn an_idle_connection_ends_with_goaway() {
    let settings = Settings::default();
    let patience = settings.timeouts.keepalive;
    let mut server = Server::new(settings, echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), asks(1, "/")].concat());
    server.run();
    server.advance(patience + MOMENT);
    let goaway = frames.read(&client).of(GOAWAY);
    assert_eq!((goaway.len(), goaway[0].code(), &goaway[0].content[..4]), (1, 0, &[0, 0, 0, 1][..]));
    assert!(client.saw_end() && !client.saw_reset());
}

#[test]
fn a_server_that_stops_answers_what_has_begun() {
    let held: Rc<RefCell<Vec<ExchangeId>>> = Rc::default();
    let keep = held.clone();
    let mut server = Server::standard(move |_, reply| keep.borrow_mut().push(reply.detach().1));
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), asks(1, "/")].concat());
    server.run();
    server.stop(false);
    server.run();
    assert_eq!(frames.read(&client).of(GOAWAY)[0].content[..4], [0x7f, 0xff, 0xff, 0xff], "the first of two steps");
    // A request in flight is still answered, until the client has received the announcement.
    client.send(&asks(3, "/"));
    server.run();
    let ping = frames.read(&client).of(PING)[0].content.clone();
    client.send(&frame(PING, ACK, 0, &ping));
    server.run();
    assert_eq!(frames.read(&client).of(GOAWAY).last().expect("the second").content[..4], [0, 0, 0, 3]);
    assert_eq!(held.borrow().len(), 2);
    for id in held.borrow_mut().drain(..) {
        server.lane.respond(id, OK, &[b"late"]).expect("its client waits");
    }
    server.run();
    frames.read(&client);
    assert_eq!((frames.content(1), frames.content(3)), (("late".to_owned(), true), ("late".to_owned(), true)));
    // While the client reads, it sends window updates, which would cause a reset on a closed socket.
    client.send(&window_update(0, 8));
    server.run();
    assert!(client.saw_end() && !server.finished(), "the server reads on behind its end");
    client.end();
    server.run();
    assert!(client.saw_end() && !client.saw_reset() && server.finished());
}

#[test]
fn a_client_that_has_read_everything_is_not_waited_for() {
    let mut server = Server::standard(echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), asks(1, "/")].concat());
    server.run();
    server.stop(false);
    server.run();
    let ping = frames.read(&client).of(PING)[0].content.clone();
    client.send(&frame(PING, ACK, 0, &ping));
    server.run();
    assert_eq!(frames.read(&client).of(GOAWAY).last().expect("the second").content[..4], [0, 0, 0, 1]);
    assert!(client.saw_end() && !client.saw_reset() && server.finished());
}

#[test]
fn a_client_that_breaks_a_rule_is_told_which() {
    let mut server = Server::standard(echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    // A stream id of the server.
    client.send(&[opening(&[]), asks(2, "/")].concat());
    server.run();
    let goaway = frames.read(&client).of(GOAWAY);
    assert_eq!((goaway.len(), goaway[0].code()), (1, 1), "PROTOCOL_ERROR");
    assert!(client.saw_end());
    client.end();
    server.run();
    assert_eq!(server.connections(), 0);
}
