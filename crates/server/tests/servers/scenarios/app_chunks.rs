//! Apps that frame their content in chunks themselves: the server replaces their framing by its own.

use super::harness::{GET, MOMENT, Server, ok};
use super::records::{Reader, request};
use super::response::{read_head, read_only};
use oribi_host::{Piece, Reply, ReplyError, Request};
use oribi_message::{FieldPair, ResponseHead};
use oribi_server::config::{Protocol, Settings};
use std::cell::RefCell;
use std::rc::Rc;

const FRAMED: &[u8] = b"4;x=y\r\none \r\n8\r\ntwo 0\r\n\r\r\n0\r\nA: b\r\n\r\n";
const CONTENT: &str = "one two 0\r\n\r";
const FIELDS: &[FieldPair<'_>] = &[(b"Transfer-Encoding", b" Chunked"), (b"content-length", b"999"), (b"X-A", b"b")];

fn head() -> ResponseHead<'static> {
    ResponseHead { status: 200, fields: FIELDS }
}

/// Sends the same bytes in a way that the path of the request chooses: whole, byte by byte, in pieces, or in two parts that are
/// cut at a place.
fn send(request: &Request<'_>, reply: Reply<'_>) -> Result<(), ReplyError> {
    let framed = FRAMED;
    match request.head.path() {
        b"/whole" => reply.send(head(), &[framed]),
        b"/bytes" => reply.send(head(), &framed.chunks(1).collect::<Vec<_>>()),
        b"/pieces" => {
            let (outlet, exchange) = reply.detach();
            outlet.respond_pieces(exchange, head(), &framed.chunks(3).map(Piece::Bytes).collect::<Vec<_>>())
        }
        path => {
            let place: usize = std::str::from_utf8(&path[1..]).expect("text").parse().expect("a number");
            let mut writer = reply.start(head())?;
            for piece in [&framed[..place], b"", &framed[place..]] {
                writer.write(piece)?;
            }
            writer.finish()
        }
    }
}

fn ways() -> Vec<String> {
    let splits = (0..=FRAMED.len()).map(|place| place.to_string());
    ["whole", "bytes", "pieces"].map(str::to_owned).into_iter().chain(splits).collect()
}

#[test]
fn the_client_gets_the_content_framed_once() {
    let mut server = Server::standard(|request, reply| match send(request, reply) {
        // Without content, a stream ends at once.
        Err(ReplyError::Gone) if request.head.method() == b"HEAD" => {}
        sent => sent.expect("the chunks are right"),
    });
    let client = server.connect();
    for way in ways() {
        let asked = format!("GET /{way} HTTP/1.1\r\nHost: a\r\n\r\n");
        let modern = read_only(&server.exchange(&client, asked.as_bytes()));
        assert_eq!((modern.text(), modern.closes()), (CONTENT, false), "{way}");
        assert_eq!(modern.field("X-A"), Some("b"), "{way}");
        let old = server.connect();
        let asked = format!("GET /{way} HTTP/1.0\r\n\r\n");
        let old = read_only(&server.exchange(&old, asked.as_bytes()));
        assert_eq!(old.text(), CONTENT, "{way}");
        assert_eq!(old.field("Transfer-Encoding"), None, "{way}");
        let asked = format!("HEAD /{way} HTTP/1.1\r\nHost: a\r\n\r\n");
        read_head(&server.exchange(&client, asked.as_bytes()));
    }
    assert!(!client.closed());
}

#[test]
fn a_web_server_gets_the_content_without_a_frame() {
    let settings = Settings { protocol: Protocol::FastCgi, ..Settings::default() };
    let mut server = Server::new(settings, |request, reply| send(request, reply).expect("the chunks are right"));
    let (client, mut reader) = (server.connect(), Reader::default());
    for way in ways() {
        client.send(&request(1, "GET", &format!("/{way}"), b""));
        server.run();
        let answer = reader.read(&client).take(1);
        assert!(answer.is_whole(), "{way}");
        assert_eq!(answer.text(), CONTENT, "{way}");
        assert!(answer.parts().0.iter().all(|line| !line.starts_with("Transfer-Encoding")), "{way}");
    }
}

#[test]
fn content_that_is_left_out_needs_no_frame() {
    let mut server = Server::standard(|_, reply| reply.send(head(), &[]).expect("nothing is wrong with it"));
    let client = server.connect();
    read_head(&server.exchange(&client, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(!client.closed());
}

#[test]
fn broken_frames_are_the_apps_failure() {
    for broken in [
        &b"hello"[..],
        b"5\r\nhel",
        b"5\r\nhello",
        b"5\r\nhello\r\n",
        b"1\r\na\r\n0\r\n\r\n0\r\n\r\n",
        b"2\r\na\r\n\r\n0\r\n\r\n",
    ] {
        let told = Rc::new(RefCell::new(Vec::new()));
        let seen = told.clone();
        let mut server = Server::standard(move |request, reply| {
            let outcome = match request.head.path() {
                b"/whole" => reply.send(head(), &[broken]),
                _ => reply.start(head()).and_then(|mut writer| {
                    writer.write(broken)?;
                    writer.finish()
                }),
            };
            seen.borrow_mut().push(outcome);
        });
        let client = server.connect();
        let answer = server.exchange(&client, b"GET /whole HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 500 "), "{}", answer.escape_ascii());
        let client = server.connect();
        let answer = server.exchange(&client, b"GET /streamed HTTP/1.1\r\nHost: a\r\n\r\n");
        // The others are wrong at their end, which is sent later.
        let begun = broken.starts_with(b"5");
        let expected = if begun {
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 200 ")
        } else {
            answer.starts_with(b"HTTP/1.1 500 ")
        };
        assert!(expected, "{}: {}", broken.escape_ascii(), answer.escape_ascii());
        assert!(!answer.ends_with(b"0\r\n\r\n"), "what is cut must not look whole: {}", answer.escape_ascii());
        assert!(client.closed() || !begun);
        assert_eq!(told.borrow().len(), 2);
        assert!(told.borrow().iter().all(|outcome| matches!(outcome, Err(ReplyError::Invalid(_)))), "{:?}", told.borrow());
    }
}

#[test]
fn another_coding_stays_the_servers_to_set() {
    let mut server = Server::standard(|_, reply| {
        let fields: &[FieldPair<'_>] = &[(b"Transfer-Encoding", b"gzip, chunked")];
        assert!(reply.send(ResponseHead { fields, ..ok() }, &[b"x"]).is_err());
    });
    let client = server.connect();
    assert!(server.exchange(&client, GET).starts_with(b"HTTP/1.1 500 "));
    server.advance(MOMENT);
}
