//! Fields after the content: in the last chunk over HTTP/1.1, in a separate frame over HTTP/2, and nowhere else.

use super::frames::*;
use super::harness::*;
use super::records::{self, Reader};
use super::response::read_only;
use oribi_host::{ExchangeId, Outlet, Reply, ReplyError, Request};
use oribi_message::{FieldPair, ResponseHead};
use oribi_server::config::{Protocol, Settings};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const TRAILERS: &[FieldPair<'_>] = &[(b"Grpc-Status", b"0"), (b"X-Sum", b"a b")];

/// The block of the trailers over HTTP/2.
fn block_of_trailers() -> Vec<u8> {
    block(&[("grpc-status", "0"), ("x-sum", "a b")])
}

/// Sends as many bytes as the target names, and trailers after them; `/5?5` announces the size.
fn sized(request: &Request<'_>, reply: Reply<'_>) {
    let target = String::from_utf8_lossy(&request.head.target()[1..]).into_owned();
    let (size, announced) = target.split_once('?').unwrap_or((&target, ""));
    let fields: [FieldPair<'_>; 1] = [(b"Content-Length", announced.as_bytes())];
    let fields = if announced.is_empty() { &[][..] } else { &fields };
    let mut writer = reply.start(ResponseHead { status: 200, fields }).expect("its client waits");
    let written = writer.write(&vec![b'x'; size.parse().expect("a number")]);
    if request.head.method() == b"HEAD" {
        // There is no content, so nothing can follow it.
        return assert_eq!(written, Err(ReplyError::Gone));
    }
    written.expect("its client waits");
    writer.finish_with_trailers(TRAILERS).expect("they are valid");
}

#[test]
fn chunks_have_trailers_behind_them_and_the_connection_stays() {
    let mut server = Server::standard(sized);
    let client = server.connect();
    for (size, content) in [(5, "5\r\nxxxxx\r\n"), (0, "")] {
        let asked = format!("GET /{size} HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = String::from_utf8(server.exchange(&client, asked.as_bytes())).expect("text");
        let end = format!("\r\n\r\n{content}0\r\nGrpc-Status: 0\r\nX-Sum: a b\r\n\r\n");
        assert!(answer.contains("Transfer-Encoding: chunked\r\n") && answer.ends_with(&end), "{answer}");
    }
    assert!(!client.closed());
}

#[test]
fn where_there_is_no_place_for_trailers_they_are_dropped() {
    let mut server = Server::standard(sized);
    let client = server.connect();
    let known = read_only(&server.exchange(&client, b"GET /5?5 HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!((known.text(), known.field("Content-Length")), ("xxxxx", Some("5")));
    let bodiless = String::from_utf8(server.exchange(&client, b"HEAD /5 HTTP/1.1\r\nHost: a\r\n\r\n")).expect("text");
    assert!(bodiless.ends_with("\r\n\r\n") && !bodiless.contains("Grpc"), "{bodiless}");
    assert!(!client.closed());
    let old = server.connect();
    let until_close = server.exchange(&old, b"GET /5 HTTP/1.0\r\n\r\n");
    assert!(until_close.ends_with(b"\r\n\r\nxxxxx"), "{}", until_close.escape_ascii());
    assert!(old.saw_end());
}

#[test]
fn a_web_server_gets_no_trailers() {
    let settings = Settings { protocol: Protocol::FastCgi, ..Settings::default() };
    let mut server = Server::new(settings, sized);
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&records::request(1, "GET", "/5", b""));
    server.run();
    let answer = reader.read(&client).take(1);
    assert!(answer.is_whole());
    assert_eq!(answer.text(), "xxxxx");
}

#[test]
fn a_stream_ends_with_its_trailers_and_others_go_on() {
    let mut server = Server::standard(sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), asks(1, "/5"), asks(3, "/0"), asks(5, "/5?5")].concat());
    server.run();
    frames.read(&client);
    for (id, content, has_trailers) in [(1, "xxxxx", true), (3, "", true), (5, "xxxxx", false)] {
        assert_eq!(frames.content(id), (content.to_owned(), true));
        let last = frames.all.iter().rfind(|frame| frame.id == id).expect("its last frame");
        assert_eq!((last.kind, last.flags & END_STREAM), (if has_trailers { HEADERS } else { DATA }, END_STREAM), "{id}");
        assert_eq!(last.content == block_of_trailers(), has_trailers, "{id}: {last:?}");
    }
    assert!(frames.of(RST_STREAM).is_empty());
}

#[test]
fn trailers_wait_until_all_content_in_front_of_them_has_room() {
    for window in 0..=6 {
        let mut server = Server::standard(sized);
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&[opening(&[(INITIAL_WINDOW, window)]), asks(1, "/5"), asks(3, "/0")].concat());
        server.run();
        frames.read(&client);
        let whole = window >= 5;
        assert_eq!((frames.content(1).0.len(), frames.content(1).1), (window.min(5) as usize, whole), "{window}");
        // Windows apply to content only.
        assert!(frames.content(3).1);
        client.send(&window_update(1, 1000));
        server.run();
        assert_eq!(frames.read(&client).content(1), ("xxxxx".to_owned(), true), "{window}");
        let last = frames.all.iter().rfind(|frame| frame.id == 1).expect("its last frame");
        assert_eq!((last.kind, &last.content), (HEADERS, &block_of_trailers()), "{window}");
        assert!(frames.of(RST_STREAM).is_empty());
    }
}

#[test]
fn trailers_of_a_large_response_come_last() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 2 << 20;
    let mut server = Server::new(settings, sized);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.set_window(1000);
    client.send(&[opening(&[(INITIAL_WINDOW, 10 << 20)]), window_update(0, 10 << 20), asks(1, "/1000000")].concat());
    server.run();
    client.set_window(usize::MAX);
    server.run();
    assert_eq!((frames.read(&client).content(1).0.len(), frames.content(1).1), (1_000_000, true));
    assert_eq!(frames.all.last().expect("frames").content, block_of_trailers());
}

#[test]
fn an_app_is_told_what_no_trailer_may_be_and_its_client_sees_that_the_response_is_incomplete() {
    let said: Rc<RefCell<Vec<ReplyError>>> = Rc::default();
    let heard = said.clone();
    let mut server = Server::standard(move |_, reply| {
        let mut writer = reply.start(ResponseHead { status: 200, fields: &[] }).expect("its client waits");
        writer.write(b"some").expect("its client waits");
        let invalid = writer.finish_with_trailers(&[(b"X-Sum", b"1"), (b"set-cookie", b"a=b")]);
        heard.borrow_mut().extend(invalid.err());
    });
    let client = server.connect();
    let answer = server.exchange(&client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with(b"\r\n\r\n4\r\nsome\r\n") && client.saw_reset(), "{}", answer.escape_ascii());
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), asks(1, "/")].concat());
    server.run();
    assert_eq!(frames.read(&client).content(1), ("some".to_owned(), false));
    assert_eq!(frames.of(RST_STREAM).len(), 1);
    let said = said.borrow();
    assert_eq!(said.len(), 2);
    for error in said.iter() {
        assert!(matches!(error, ReplyError::Invalid(why) if why.starts_with("Set-Cookie cannot be a trailer")), "{error:?}");
    }
}

#[test]
fn trailers_that_come_late_or_twice() {
    let held: Rc<Cell<Option<ExchangeId>>> = Rc::default();
    let keep = held.clone();
    let mut server = Server::standard(move |_, reply| keep.set(Some(reply.detach().1)));
    let client = server.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.run();
    let id = held.take().expect("it was asked");
    // There is no content yet for them to follow.
    assert!(matches!(server.lane.finish_with_trailers(id, TRAILERS), Err(ReplyError::Invalid(_))));
    server.lane.start(id, ResponseHead { status: 200, fields: &[] }).expect("its client waits");
    server.lane.finish_with_trailers(id, TRAILERS).expect("its client waits");
    assert_eq!(server.lane.finish_with_trailers(id, TRAILERS), Err(ReplyError::Gone));
    server.run();
    assert!(client.received().ends_with(b"\r\n\r\n0\r\nGrpc-Status: 0\r\nX-Sum: a b\r\n\r\n"));
}
