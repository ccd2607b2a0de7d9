//! The responses of a connection are sent in the order of its requests, complete, and with as few calls as possible.

use super::harness::*;
use super::response::*;
use oribi_host::{Piece, Reply, Request};
use oribi_io::Client;
use oribi_message::PreparedFields;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

/// The ways in which a host may answer.
const WAYS: [&str; 7] = ["small", "large", "parts", "file", "prepared", "stream", "later"];

fn content(way: &str) -> Vec<u8> {
    match way {
        "small" | "later" => way.into(),
        "prepared" => pattern(3000),
        _ => [way.as_bytes(), &pattern(300_000)].concat(),
    }
}

/// Answers in the way that the target names. A postponed answer is sent before that to the next request of any client.
fn answer_in_its_way() -> impl FnMut(&Request<'_>, Reply<'_>) {
    let mut postponed = Vec::new();
    move |request, reply| {
        let way = String::from_utf8_lossy(&request.head.target()[1..]).into_owned();
        let content = content(&way);
        let (outlet, exchange) = reply.detach();
        for exchange in postponed.drain(..) {
            outlet.respond(exchange, ok(), &[b"later"]).expect("the client is there");
        }
        let half = content.len() / 2;
        let outcome = match way.as_str() {
            "small" | "large" => outlet.respond(exchange, ok(), &[&content]),
            "parts" => outlet.respond(exchange, ok(), &content.chunks(10_000).collect::<Vec<_>>()),
            "file" => {
                let mut file = tempfile::tempfile().expect("there is a temporary directory");
                file.write_all(&content).expect("there is room");
                let pieces: [Piece<'_>; 2] = [
                    Piece::Bytes(&content[..half]),
                    Piece::File { file: &Arc::<File>::new(file), offset: half as u64, size: (content.len() - half) as u64 },
                ];
                outlet.respond_pieces(exchange, ok(), &pieces)
            }
            "prepared" => {
                let fields = PreparedFields::new(&[(b"Content-Type", b"text/plain")]).expect("they are valid");
                outlet.respond_prepared(exchange, &fields, Piece::Bytes(&content))
            }
            "stream" => outlet
                .start(exchange, ok())
                .and_then(|()| content.chunks(30_000).try_for_each(|piece| outlet.write(exchange, piece)))
                .and_then(|()| outlet.finish(exchange)),
            _ => {
                postponed.push(exchange);
                Ok(())
            }
        };
        outcome.expect("the client is there");
    }
}

/// Returns all bytes for a client whose socket takes `window` bytes at a time.
fn read_slowly(server: &mut Server, client: &Client, window: usize) -> Vec<u8> {
    let mut received = client.received();
    loop {
        client.set_window(window);
        server.run();
        let piece = client.received();
        if piece.is_empty() {
            return received;
        }
        received.extend_from_slice(&piece);
    }
}

/// Sends requests for `ways` while the client's socket takes nothing, and checks the responses. With `together`, all requests
/// are in one packet; otherwise each is sent when the server has handled the one before. Another client sends a request with
/// each packet, so that there are batches.
fn ask(ways: &[&str], together: bool) {
    let mut server = Server::standard(answer_in_its_way());
    // An app that streams is held until its client reads.
    let (client, other) = (server.connect(), server.connect());
    let reader = client.clone();
    let taken = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let (sink, world) = (taken.clone(), server.world.clone());
    server.meanwhile(move || {
        // For times without any work.
        world.wake();
        reader.set_window(50_000);
        sink.borrow_mut().extend(reader.received());
    });
    let requests: Vec<Vec<u8>> = ways.iter().map(|way| get(&format!("/{way}"))).collect();
    client.set_window(0);
    let packets = if together { vec![requests.concat()] } else { requests };
    // After the last packet, requests of the other client end what is postponed.
    let nothing = vec![Vec::new(); ways.len()];
    for packet in packets.iter().chain(&nothing) {
        other.send(&get("/small"));
        if !packet.is_empty() {
            client.send(packet);
        }
        // Whenever there is no work, the socket gets some room: after this many times, it has had enough for all bytes.
        let mut idle = 0;
        while idle < 40 {
            idle += usize::from(!server.run_one());
        }
    }
    server.no_meanwhile();
    server.run();
    let mut received = taken.take();
    received.extend(read_slowly(&mut server, &client, 7000));
    let responses = read_all(&received);
    let seen: Vec<&[u8]> = responses.iter().map(|response| response.body.as_slice()).collect();
    let expected: Vec<Vec<u8>> = ways.iter().map(|way| content(way)).collect();
    assert!(seen == expected, "{ways:?}, together: {together}");
}

#[test]
fn any_response_leaves_behind_any_other() {
    for first in WAYS {
        for second in WAYS {
            for together in [true, false] {
                ask(&[first, second], together);
                ask(&[first, "small", second, "prepared"], together);
            }
        }
    }
}

#[test]
fn a_large_chunk_leaves_with_its_framing() {
    let mut server = Server::standard(|_, reply| {
        let mut body = reply.start(ok()).expect("the client is there");
        for _ in 0..10 {
            body.write(&pattern(20_000)).expect("the client is there");
        }
        body.finish().expect("the client is there");
    });
    let client = server.connect();
    let received = server.exchange(&client, GET);
    assert_eq!(read_only(&received).body.len(), 200_000);
    // One call for each chunk, and one for the end.
    assert_eq!(server.world.sends(), 11);
}

#[test]
fn large_responses_leave_with_one_call_each() {
    let mut server = Server::standard(|_, reply| reply.send(ok(), &[&pattern(300_000)]).expect("the client is there"));
    let client = server.connect();
    let received = server.exchange(&client, &[GET, GET, GET].concat());
    assert_eq!(read_all(&received).len(), 3);
    assert_eq!(server.world.sends(), 3);
}

#[test]
fn a_full_socket_is_not_tried_again_before_there_is_room() {
    let mut server = Server::standard(|_, reply| {
        let mut body = reply.start(ok()).expect("the client is there");
        for _ in 0..100 {
            body.write(b"a piece").expect("the client is there");
        }
        body.finish().expect("the client is there");
    });
    let client = server.connect();
    client.set_window(0);
    client.send(GET);
    server.run();
    assert_eq!(server.world.sends(), 1);
    client.set_window(usize::MAX);
    server.run();
    assert_eq!(read_only(&client.received()).body.len(), 700);
    assert_eq!(server.world.sends(), 2);
}

#[test]
fn what_comes_behind_the_content_of_a_last_request_does_not_cost_its_answer() {
    for content in ["", "content"] {
        let mut server = Server::standard(echo);
        let client = server.connect();
        let size = content.len();
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n{content}");
        let received = server.exchange(&client, request.as_bytes());
        // Old clients end the content of a POST with an empty line. It arrives when the server has already answered.
        client.send(b"\r\n");
        server.run();
        assert_eq!(read_only(&received).status, 200);
        assert!(client.saw_end() && !client.saw_reset());
        client.end();
        server.run();
        assert_eq!(server.connections(), 0);
    }
}
