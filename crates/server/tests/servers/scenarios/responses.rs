//! Responses: whole, in parts, from files; to clients that read fast, slowly or not at all.

use super::frames::{END_HEADERS, END_STREAM, Frames, HEADERS, frame, head, opening};
use super::harness::*;
use super::records::{self, Reader};
use super::response::*;
use oribi_host::{Piece, Reply, ReplyError, Request};
use oribi_message::{FieldPair, ResponseHead};
use oribi_server::config::{Protocol, Settings};
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

/// Takes `window` bytes at a time until the server has sent everything.
#[track_caller]
fn read_slowly(server: &mut Server, client: &oribi_io::Client, window: usize) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        client.set_window(window);
        server.run();
        let piece = client.received();
        if piece.is_empty() {
            client.set_window(usize::MAX);
            return received;
        }
        assert!(piece.len() <= window);
        received.extend_from_slice(&piece);
    }
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("there is a temporary directory");
    file.write_all(content).expect("there is room");
    file
}

#[test]
fn any_number_of_parts_is_sent_whole() {
    for count in [0, 1, 2, 16, 17, 32, 33, 1024, 1025, 5000] {
        for size in [0, 1, 4095, 4096, 4097, 70_000, 200_000] {
            for window in [usize::MAX, 5000] {
                let body = pattern(if count == 0 { 0 } else { size });
                let expected = body.clone();
                let mut server = Server::standard(move |_, reply| {
                    // Uneven parts, some of them empty.
                    let mut parts: Vec<&[u8]> = Vec::new();
                    let mut rest = &body[..];
                    for part in 0..count {
                        let share = if part + 1 == count { rest.len() } else { rest.len() * (part % 3) / (count - part) };
                        let (piece, behind) = rest.split_at(share.min(rest.len()));
                        parts.push(piece);
                        rest = behind;
                    }
                    reply.send(ok(), &parts).expect("the client is there");
                });
                let client = server.connect();
                client.set_window(window);
                client.send(GET);
                let received = read_slowly(&mut server, &client, window);
                assert!(read_only(&received).body == expected, "{count} parts, {size} bytes, window {window}");
                assert_eq!(server.exchange(&client, GET).len(), received.len(), "and the connection goes on");
            }
        }
    }
}

#[test]
fn every_window_gets_the_same_bytes() {
    let app = |request: &Request<'_>, reply: Reply<'_>| {
        let body = pattern(5000);
        match request.head.target() {
            b"/array" => reply.send(ok(), &[&body[..2000], &body[2000..]]).expect("the client is there"),
            b"/file" => reply.send_file(ok(), file(&body), 100, 4000).expect("the client is there"),
            _ => {
                let mut writer = reply.start(ok()).expect("the client is there");
                body.chunks(1500).for_each(|piece| writer.write(piece).expect("the client is there"));
                writer.finish().expect("the client is there");
            }
        }
    };
    let requests = [get("/array"), get("/file"), get("/stream"), get("/array"), get("/stream")].concat();
    let mut server = Server::standard(app);
    let client = server.connect();
    let whole = server.exchange(&client, &requests);
    assert_eq!(read_all(&whole).len(), 5);
    for window in (1..300).chain((300..6000).step_by(97)) {
        let client = server.connect();
        client.set_window(0);
        client.send(&requests);
        let received = read_slowly(&mut server, &client, window);
        assert!(received == whole, "window {window}");
    }
}

#[test]
fn a_file_is_sent_from_its_offset() {
    let content = pattern(3 << 20);
    let mut server = Server::standard({
        let content = content.clone();
        move |request, reply| match request.head.target() {
            b"/all" => reply.send_file(ok(), file(&content), 0, content.len() as u64).expect("the client is there"),
            b"/part" => reply.send_file(ok(), file(&content), 1000, 70_000).expect("the client is there"),
            _ => reply.send_file(ok(), file(b""), 0, 0).expect("the client is there"),
        }
    });
    let client = server.connect();
    let received = server.exchange(&client, &[get("/all"), get("/none"), get("/part"), get("/all")].concat());
    let responses = read_all(&received);
    assert_eq!(responses.len(), 4);
    assert!(responses[0].body == content);
    assert_eq!(responses[1].body, b"");
    assert!(responses[2].body == content[1000..71_000]);
    assert!(responses[3].body == content);
}

#[test]
fn bytes_and_parts_of_a_file_follow_one_another() {
    let content = pattern(100_000);
    let shared = Arc::new(file(&content));
    let (from_file, from_memory) = (shared.clone(), content.clone());
    let app = move |_: &Request<'_>, reply: Reply<'_>| {
        let part = |offset, size| Piece::File { file: &from_file, offset, size };
        let bytes = |range: std::ops::Range<usize>| Piece::Bytes(&from_memory[range]);
        let pieces = [bytes(0..10), part(10, 70_000), part(0, 0), bytes(0..0), bytes(70_010..99_000), part(99_000, 1000)];
        let (outlet, exchange) = reply.detach();
        outlet.respond_pieces(exchange, ok(), &pieces).expect("the client is there");
    };
    for window in [usize::MAX, 7000] {
        let mut server = Server::standard(app.clone());
        let client = server.connect();
        client.set_window(window);
        client.send(&[GET, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", GET].concat());
        let received = read_slowly(&mut server, &client, window);
        let first = read_one(&received, false).expect("it is whole");
        assert!(first.0.body == content, "window {window}");
        let head = read_one(&received[first.1..], true).expect("it is whole");
        assert_eq!(head.0.field("content-length"), Some("100000"));
        assert!(read_only(&received[first.1 + head.1..]).body == content);
    }
    assert_eq!(Arc::strong_count(&shared), 2, "the server keeps no file open that it does not need");
}

#[test]
fn a_file_that_is_shorter_than_promised_never_looks_whole() {
    for (size, window) in [(0, usize::MAX), (10, usize::MAX), (5000, usize::MAX), (5000, 1000)] {
        let mut server = Server::standard(move |_, reply| {
            reply.send_file(ok(), file(&pattern(size)), 0, 6000).expect("the client is there");
        });
        let client = server.connect();
        client.set_window(window);
        client.send(&[GET, GET].concat());
        let received = read_slowly(&mut server, &client, window);
        assert!(read_one(&received, false).is_none(), "it looks whole");
        assert!(client.closed() && client.saw_reset());
        assert_eq!(server.connections(), 0);
    }
}

/// Returns a file of 100,000 bytes, its server, a client that has read the first 50,000 bytes of the response, and these.
fn half_sent() -> (Rc<File>, Server, oribi_io::Client, Vec<u8>) {
    let shared = Rc::new(file(&pattern(100_000)));
    let mut server = Server::standard({
        let shared = shared.clone();
        move |_, reply| {
            let file = shared.try_clone().expect("a descriptor");
            reply.send_file(ok(), file, 0, 100_000).expect("the client is there");
        }
    });
    let client = server.connect();
    client.set_window(50_000);
    let first = server.exchange(&client, GET);
    assert_eq!(first.len(), 50_000);
    (shared, server, client, first)
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_never_looks_whole() {
    let (shared, mut server, client, first) = half_sent();
    shared.set_len(60_000).expect("it is ours");
    let rest = read_slowly(&mut server, &client, usize::MAX);
    assert!(read_one(&[first, rest].concat(), false).is_none());
    assert!(client.saw_reset());
}

#[test]
fn a_file_that_grows_while_it_is_sent_is_sent_as_far_as_announced() {
    let (shared, mut server, client, first) = half_sent();
    shared.set_len(150_000).expect("it is ours");
    client.send(GET);
    let rest = read_slowly(&mut server, &client, usize::MAX);
    let received = [first, rest].concat();
    let (first, end) = read_one(&received, false).expect("it is whole");
    assert_eq!(first.field("content-length"), Some("100000"));
    assert!(first.body == pattern(100_000) && read_only(&received[end..]).body == pattern(100_000));
}

#[test]
fn a_stream_waits_for_its_client_and_the_app_is_held() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 10_000;
    settings.limits.output_spool_bytes = 0;
    let most_waiting = Rc::new(RefCell::new(0));
    let written = Rc::new(RefCell::new(0));
    let count = written.clone();
    let mut server = Server::new(settings, move |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        for piece in pattern(200_000).chunks(3000) {
            writer.write(piece).expect("the client is there");
            *count.borrow_mut() += piece.len();
        }
        writer.finish().expect("the client is there");
    });
    let client = server.connect();
    let other = server.connect();
    client.set_window(1000);
    client.send(GET);
    let received = Rc::new(RefCell::new(Vec::new()));
    let (taken, most, count, wire) = (received.clone(), most_waiting.clone(), written.clone(), client.clone());
    server.meanwhile(move || {
        taken.borrow_mut().extend(wire.received());
        let waiting = *count.borrow() - taken.borrow().len().min(*count.borrow());
        let highest = waiting.max(*most.borrow());
        *most.borrow_mut() = highest;
        wire.set_window(2000);
    });
    assert!(server.run_one());
    server.no_meanwhile();
    client.set_window(usize::MAX);
    server.run();
    received.borrow_mut().extend(client.received());
    assert!(read_only(&received.borrow()).body == pattern(200_000));
    assert!(*most_waiting.borrow() <= 13_000, "{most_waiting:?}");
    assert_eq!(read_only(&server.exchange(&other, GET)).body.len(), 200_000);
}

#[test]
fn a_client_that_stops_reading_releases_the_app() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 10_000;
    settings.limits.output_spool_bytes = 0;
    settings.timeouts.write = 10 * SECOND;
    let outcome = Rc::new(RefCell::new(Ok(())));
    let seen = outcome.clone();
    let mut server = Server::new(settings, move |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        *seen.borrow_mut() = pattern(100_000).chunks(3000).try_for_each(|piece| writer.write(piece));
    });
    let client = server.connect();
    client.set_window(1000);
    client.send(GET);
    let world = server.world.clone();
    server.meanwhile(move || world.advance(SECOND));
    assert!(server.run_one());
    assert_eq!(*outcome.borrow(), Err(ReplyError::Gone));
    assert!(client.saw_reset());
    assert_eq!(server.connections(), 0);
}

#[test]
fn requests_that_come_while_an_app_is_held_are_not_mixed_up() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 1000;
    settings.limits.output_spool_bytes = 0;
    let mut server = Server::new(settings, |request, reply| {
        if request.head.target() != b"/stream" {
            return echo(request, reply);
        }
        let mut writer = reply.start(ok()).expect("the client is there");
        pattern(20_000).chunks(1000).for_each(|piece| writer.write(piece).expect("the client is there"));
        writer.finish().expect("the client is there");
    });
    let (slow, whole, partial) = (server.connect(), server.connect(), server.connect());
    slow.set_window(100);
    slow.send(&get("/stream"));
    let (window, complete, begun) = (slow.clone(), whole.clone(), partial.clone());
    let mut step = 0;
    server.meanwhile(move || {
        step += 1;
        match step {
            1 => {
                complete.send(&post("/a-target-of-some-length", b"content"));
                begun.send(b"PUT /b HTTP/1.1\r\nX-Field: 1\r\nHo");
            }
            2.. => window.set_window(5000),
            _ => {}
        }
    });
    assert!(server.run_one());
    server.no_meanwhile();
    slow.set_window(usize::MAX);
    server.run();
    assert_eq!(read_only(&slow.received()).body, pattern(20_000));
    assert_eq!(read_only(&whole.received()).text(), "POST /a-target-of-some-length content");
    assert_eq!(read_only(&server.exchange(&partial, b"st: b\r\n\r\n")).text(), "PUT /b ");
}

#[test]
fn responses_without_content_have_none() {
    let mut server = Server::standard(|request, reply| {
        let status = match request.head.target() {
            b"/204" => 204,
            b"/304" => 304,
            _ => 200,
        };
        reply.send(ResponseHead { status, fields: &[] }, &[b"content"]).expect("the client is there");
    });
    let client = server.connect();
    let received = server.exchange(&client, &[get("/204"), get("/304"), get("/200")].concat());
    let responses = read_all(&received);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [204, 304, 200]);
    assert_eq!(responses[2].text(), "content");
    assert_eq!(responses[0].field("Content-Length"), None);
    let head = read_head(&server.exchange(&client, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(head.field("Content-Length"), Some("7"));
    assert_eq!(read_only(&server.exchange(&client, GET)).text(), "content");
}

#[test]
fn a_stream_without_end_is_stopped_where_no_content_can_be_sent() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 205), ("GET", 304), ("GET", 200)] {
        let mut server = Server::standard(move |request, reply| {
            let fields: &[FieldPair<'_>] = &[(b"Content-Length", b"10")];
            let fields = if request.head.target() == b"/sized" { fields } else { &[] };
            let mut writer = reply.start(ResponseHead { status, fields }).expect("the client is there");
            let pieces = (0..4).find_map(|number| writer.write(b"a piece").err().map(|stopped| (number, stopped)));
            assert_eq!(pieces, Some((usize::from((method, status) == ("GET", 200)), ReplyError::Gone)));
            assert_eq!(writer.finish(), Err(ReplyError::Gone));
        });
        let client = server.connect();
        let request = format!("{method} /sized HTTP/1.1\r\nHost: a\r\n\r\n");
        let received = server.exchange(&client, request.as_bytes());
        if (method, status) == ("GET", 200) {
            assert_eq!(read_only(&received).text(), "a piecea p");
            assert!(client.saw_end() || client.saw_reset());
        } else {
            assert_eq!(read_head(&received).status, status);
            assert!(!client.closed());
            let received = server.exchange(&client, request.replace("/sized", "/").as_bytes());
            assert_eq!(read_head(&received).status, status);
        }
    }
}

/// Writes pieces until the server refuses one, and notes their number.
fn count_pieces(written: &Rc<RefCell<Vec<usize>>>) -> impl FnMut(&Request<'_>, Reply<'_>) + 'static {
    let written = written.clone();
    move |request, reply| {
        let status = if request.head.path() == b"/" { 200 } else { 304 };
        let mut writer = reply.start(ResponseHead { status, fields: &[] }).expect("the client is there");
        let pieces = (0..1000).take_while(|_| writer.write(b"a piece").is_ok()).count();
        written.borrow_mut().push(pieces);
        let _ = writer.finish();
    }
}

#[test]
fn a_stream_without_end_is_stopped_for_clients_of_every_protocol() {
    let written = Rc::default();
    let mut server = Server::standard(count_pieces(&written));
    let (client, mut frames) = (server.connect(), Frames::default());
    let asks = |id, method, path| frame(HEADERS, END_HEADERS | END_STREAM, id, &head(method, path, &[]));
    client.send(&[opening(&[]), asks(1, "HEAD", "/"), asks(3, "GET", "/304")].concat());
    server.run();
    frames.read(&client);
    assert_eq!([1, 3].map(|id| frames.content(id)), [(); 2].map(|()| (String::new(), true)), "HTTP/2");

    let settings = Settings { protocol: Protocol::FastCgi, ..Settings::default() };
    let mut server = Server::new(settings, count_pieces(&written));
    let (client, mut reader) = (server.connect(), Reader::default());
    for (id, method, path) in [(1, "HEAD", "/"), (2, "GET", "/304")] {
        client.send(&records::request(id, method, path, b""));
        server.run();
        let answer = reader.read(&client).take(id);
        assert!(answer.is_whole() && answer.text().is_empty(), "FastCGI: {answer:?}");
    }
    assert_eq!(*written.borrow(), [0; 4]);
}

#[test]
fn streams_to_each_kind_of_client() {
    let mut server = Server::standard(|_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        for piece in [b"one ".as_slice(), b"", b"two ", b"three"] {
            if let Err(stopped) = writer.write(piece) {
                assert_eq!(stopped, ReplyError::Gone);
                break;
            }
        }
        let _ = writer.finish();
    });
    let client = server.connect();
    let modern = read_only(&server.exchange(&client, GET));
    assert_eq!((modern.text(), modern.framed), ("one two three", true));
    read_head(&server.exchange(&client, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(!client.closed());
    let old = server.connect();
    let response = read_only(&server.exchange(&old, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    assert_eq!((response.text(), response.framed, response.closes()), ("one two three", false, true));
    old.end();
    server.run();
    assert!(old.closed() && old.saw_end() && !old.saw_reset());
}

#[test]
fn an_old_client_keeps_its_connection_if_it_asks() {
    let mut server = Server::standard(echo);
    let client = server.connect();
    for _ in 0..3 {
        let response = read_only(&server.exchange(&client, b"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        assert_eq!((response.text(), response.field("Connection")), ("GET /x ", Some("keep-alive")));
    }
    let response = read_only(&server.exchange(&client, b"GET /x HTTP/1.0\r\n\r\n"));
    assert_eq!((response.text(), response.framed), ("GET /x ", true));
    assert!(client.closed() && client.saw_end() && !client.saw_reset());
}

#[test]
fn a_wrong_content_length_never_looks_right() {
    for (length, streamed) in [("10", false), ("10", true), ("3", false), ("3", true)] {
        let mut server = Server::standard(move |_, reply| {
            let fields = [(b"Content-Length".as_slice(), length.as_bytes())];
            let head = ResponseHead { status: 200, fields: &fields };
            if streamed {
                let mut writer = reply.start(head).expect("the client is there");
                writer.write(b"six").expect("the client is there");
                let outcome = if length == "3" { Err(ReplyError::Gone) } else { Ok(()) };
                assert_eq!(writer.write(b"six"), outcome);
                assert_eq!(writer.finish(), outcome);
            } else {
                reply.send(head, &[b"six", b"six"]).expect("the client is there");
            }
        });
        let client = server.connect();
        let received = server.exchange(&client, GET);
        if length == "10" {
            assert!(read_one(&received, false).is_none());
        } else {
            assert_eq!(read_only(&received).text(), "six");
        }
        assert!(client.saw_end() || client.saw_reset());
        client.end();
        server.run();
        assert!(client.closed());
        assert_eq!(server.connections(), 0);
    }
}

#[test]
fn an_invalid_head_is_a_500_and_the_connection_goes_on() {
    let bad: [(u16, FieldPair<'_>); 9] = [
        (200, (b"X-A", b"a\r\nb")),
        (200, (b"X-A", b"a\nSet-Cookie: b")),
        (200, (b"X-A", b"\0")),
        (200, (b"X\r\nA", b"a")),
        (200, (b"", b"a")),
        (200, (b"X A", b"a")),
        (200, (b"Transfer-Encoding", b"gzip")),
        (200, (b"Content-Length", b"+5")),
        (99, (b"X-A", b"a")),
    ];
    for streamed in [false, true] {
        let mut server = Server::standard(move |request, reply| {
            let Some(&digit) = request.head.target().get(1) else { return echo(request, reply) };
            let (status, field) = bad[usize::from(digit - b'0')];
            let fields = [field];
            let head = ResponseHead { status, fields: &fields };
            if streamed {
                let Err(error) = reply.start(head) else { panic!("an invalid head was accepted") };
                assert!(matches!(error, ReplyError::Invalid(_)));
            } else {
                let error = reply.send(head, &[b"content"]).expect_err("an invalid head was accepted");
                assert!(matches!(error, ReplyError::Invalid(_)));
            }
        });
        let client = server.connect();
        for number in 0..bad.len() {
            let response = read_only(&server.exchange(&client, &get(&format!("/{number}"))));
            assert_eq!((response.status, response.text()), (500, "Internal Server Error\n"), "{number}");
            assert!(!response.head.contains("X-A") && !response.head.contains("Cookie"));
        }
        assert_eq!(read_only(&server.exchange(&client, GET)).text(), "GET / ");
    }
}

#[test]
fn interim_responses_come_first_and_bad_ones_not_at_all() {
    let mut server = Server::standard(|request, mut reply| {
        reply.inform(103, &[(b"Link", b"</a.css>")]).expect("the client is there");
        let bad = reply.inform(103, &[(b"Link", b"</a>\r\nX: y")]);
        assert!(matches!(bad, Err(ReplyError::Invalid(_))));
        echo(request, reply);
    });
    let client = server.connect();
    let received = server.exchange(&client, &[get("/1"), get("/2")].concat());
    let responses = read_all(&received);
    let seen: Vec<_> = responses.iter().map(|response| (response.status, response.text())).collect();
    assert_eq!(seen, [(103, ""), (200, "GET /1 "), (103, ""), (200, "GET /2 ")]);
    let old = server.connect();
    assert_eq!(read_only(&server.exchange(&old, b"GET / HTTP/1.0\r\n\r\n")).status, 200);
}
