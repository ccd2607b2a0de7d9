//! Requests to upstreams, as the machine of the client's side writes them.

use oribi_message::FieldPair;
use oribi_proto::h1::Framing;
use oribi_proto::h1::client::{Machine, RequestLine};

fn line(method: &'static str, content: Framing) -> RequestLine<'static> {
    RequestLine { method: method.as_bytes(), target: b"/a?b", content, upgrades: false, trailers: false }
}

fn written(line: &RequestLine<'_>, fields: &[FieldPair<'_>]) -> Result<String, &'static str> {
    let mut out = b"before".to_vec();
    let mut machine = Machine::new();
    let result = machine.write_head(line, fields.iter().copied(), &mut out);
    if result.is_err() {
        assert_eq!(out, b"before", "a refused request leaves nothing behind");
        assert!(machine.is_ready());
    }
    result.map_err(|invalid| invalid.0)?;
    Ok(String::from_utf8(out.split_off(6)).expect("text"))
}

#[test]
fn heads() {
    let fields: &[FieldPair<'_>] = &[(b"Host", b"a"), (b"X", b"b\xff")];
    let bytes = |line: &RequestLine<'_>| {
        let mut out = Vec::new();
        Machine::new().write_head(line, fields.iter().copied(), &mut out).expect("valid");
        out
    };
    assert_eq!(bytes(&line("GET", Framing::None)), b"GET /a?b HTTP/1.1\r\nHost: a\r\nX: b\xff\r\n\r\n");
    for (content, expected) in [
        (Framing::Empty, "POST /a?b HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
        (Framing::Length(12), "POST /a?b HTTP/1.1\r\nContent-Length: 12\r\n\r\n"),
        (Framing::Chunked, "POST /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ] {
        assert_eq!(written(&line("POST", content), &[]).as_deref(), Ok(expected));
    }
    let both = RequestLine { upgrades: true, trailers: true, ..line("GET", Framing::None) };
    let expected = "GET /a?b HTTP/1.1\r\nUpgrade: x\r\nTE: trailers\r\nConnection: upgrade, TE\r\n\r\n";
    assert_eq!(written(&both, &[(b"Upgrade", b"x")]).as_deref(), Ok(expected));
}

#[test]
fn invalid_heads_are_refused() {
    for method in ["", "G T", "GET\r", "CONNECT"] {
        assert!(written(&line(method, Framing::None), &[]).is_err(), "{method:?}");
    }
    for target in ["", "/a b", "/\r\nX: y", "/\0", "/#a"] {
        let line = RequestLine { target: target.as_bytes(), ..line("GET", Framing::None) };
        assert!(written(&line, &[]).is_err(), "{target:?}");
    }
    for (name, value) in [
        ("", "a"),
        ("a b", "a"),
        ("a:", "a"),
        ("a\r\nb", "a"),
        ("a", "b\r\nc: d"),
        ("a", "\n"),
        ("a", "\0"),
        ("Content-Length", "1"),
        ("transfer-encoding", "chunked"),
        ("Connection", "close"),
        ("TE", "gzip"),
    ] {
        let fields: [FieldPair<'_>; 1] = [(name.as_bytes(), value.as_bytes())];
        assert!(written(&line("GET", Framing::None), &fields).is_err(), "{name:?}: {value:?}");
    }
}

#[test]
fn content_is_framed_and_never_longer_or_shorter_than_announced() {
    let (mut machine, mut out) = (Machine::new(), Vec::new());
    machine.write_head(&line("PUT", Framing::Length(5)), [].into_iter(), &mut out).expect("valid");
    out.clear();
    assert!(machine.write_content(b"abcdef", &mut out).is_err() && out.is_empty());
    machine.write_content(b"ab", &mut out).expect("room");
    assert!(machine.finish_request(&[], &mut out).is_err() && !machine.request_complete());
    machine.write_content(b"", &mut out).expect("nothing");
    machine.write_content(b"cde", &mut out).expect("room");
    assert!(machine.request_complete() && machine.write_content(b"f", &mut out).is_err());
    machine.finish_request(&[], &mut out).expect("complete");
    assert_eq!(out, b"abcde");

    let (mut machine, mut out) = (Machine::new(), Vec::new());
    machine.write_head(&line("PUT", Framing::Chunked), [].into_iter(), &mut out).expect("valid");
    out.clear();
    machine.write_content(&[b'x'; 18], &mut out).expect("room");
    machine.write_content(b"", &mut out).expect("no end");
    assert!(machine.finish_request(&[(b"Host", b"a")], &mut out).is_err() && !machine.request_complete());
    machine.finish_request(&[(b"A", b"b")], &mut out).expect("valid");
    assert_eq!(out, b"12\r\nxxxxxxxxxxxxxxxxxx\r\n0\r\nA: b\r\n\r\n");
    assert!(machine.request_complete() && machine.write_content(b"f", &mut out).is_err());
    assert!(machine.write_head(&line("GET", Framing::None), [].into_iter(), &mut out).is_err(), "a response is missing");
}
