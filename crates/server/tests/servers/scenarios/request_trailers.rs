//! Fields after the content of requests reach the app in any protocol, apart from those of the head.

use super::frames::*;
use super::harness::*;
use super::records::{self, Reader};
use super::response::read_only;
use oribi_host::{Reply, Request};
use oribi_server::config::{Protocol, Settings};

/// Answers with the data that the app gets: the names of the fields in the head, the content, and the trailers.
fn tell(request: &Request<'_>, reply: Reply<'_>) {
    let mut said = String::new();
    for (_, name, _) in request.head.fields() {
        said += &format!("{} ", String::from_utf8_lossy(name).to_ascii_lowercase());
    }
    let content = content(request);
    let text = if content.len() < 100 { String::from_utf8_lossy(&content).into_owned() } else { content.len().to_string() };
    said += &format!("| {text} |");
    if let Some(trailers) = request.trailers {
        assert!(trailers.fields().len() > 0, "none are no empty list");
        for (name, value) in trailers.fields() {
            said += &format!(" {}: {};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        }
    }
    reply.send(ok(), &[said.as_bytes()]).expect("its client waits");
}

const HEAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const SAID: &str = "host transfer-encoding |";

fn chunked(behind: &str) -> Vec<u8> {
    format!("{HEAD}5\r\nhello\r\n0\r\n{behind}\r\n").into_bytes()
}

#[test]
fn trailers_of_chunked_content_arrive_however_they_are_cut() {
    let mut server = Server::standard(tell);
    let request = chunked("X-Sum: 1\r\nHost: b\r\nY:\t z \r\nx-sum: 2\r\n");
    let said = format!("{SAID} hello | x-sum: 1; y: z; x-sum: 2;");
    let client = server.connect();
    for place in 0..=request.len() {
        let (front, back) = request.split_at(place);
        client.send(front);
        server.run();
        assert_eq!(read_only(&server.exchange(&client, back)).text(), said, "cut at {place}");
    }
    for byte in request.chunks(1) {
        client.send(byte);
        server.run();
    }
    assert_eq!(read_only(&client.received()).text(), said);
}

#[test]
fn the_next_request_has_none_of_them() {
    let mut server = Server::standard(tell);
    let client = server.connect();
    // Two without trailers, because the next request but one reuses the memory.
    let sent = ["A: 1\r\n", "", "", "Date: x\r\n", "B: 2\r\n"].map(chunked).concat();
    let all = [sent, get("/"), get("/")].concat();
    let answers = String::from_utf8(server.exchange(&client, &all)).expect("text");
    let texts: Vec<&str> =
        answers.split("\r\n\r\n").skip(1).map(|text| text.split("HTTP/1.1").next().expect("a text")).collect();
    let said = |behind: &str| format!("{SAID} hello |{behind}");
    let chunks = [" a: 1;", "", "", "", " b: 2;"].map(said);
    assert_eq!((&texts[..5], &texts[5..]), (&chunks.each_ref().map(|text| &text[..])[..], &["host |  |"; 2][..]));
    // Nor has the request of another client, which gets the memory of one that disconnected in the middle of its trailers.
    let left = server.connect();
    left.send(&chunked("C: 3\r\nD: 4\r\n")[..HEAD.len() + 25]);
    server.run();
    left.reset();
    server.run();
    let client = server.connect();
    for _ in 0..3 {
        assert_eq!(read_only(&server.exchange(&client, &chunked(""))).text(), said(""));
    }
}

#[test]
fn trailers_stand_behind_content_in_a_file() {
    let mut settings = Settings::default();
    settings.limits.content_memory_bytes = 1000;
    let mut server = Server::new(settings, tell);
    let client = server.connect();
    let mut request = post_chunked("/", &pattern(50_000), 7_000);
    request.truncate(request.len() - 2);
    request.extend_from_slice(b"X-Sum: 1\r\n\r\n");
    assert_eq!(read_only(&server.exchange(&client, &request)).text(), format!("{SAID} 50000 | x-sum: 1;"));
}

#[test]
fn too_many_trailers_and_too_long_ones_are_refused() {
    let mut settings = Settings::default();
    settings.limits.fields = 10;
    let cases =
        [("A: b\r\n".repeat(10), "200"), ("A: b\r\n".repeat(11), "431"), (format!("A: {}\r\n", "b".repeat(8 << 10)), "431")];
    for (behind, status) in cases {
        let mut server = Server::new(settings.clone(), tell);
        let client = server.connect();
        let answer = String::from_utf8(server.exchange(&client, &chunked(&behind))).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

/// A request of a stream with trailers.
fn offers_with_trailers(id: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, id, &block(fields));
    [offers(id, "/", &[]), frame(DATA, 0, id, b"hello"), trailers].concat()
}

#[test]
fn trailers_of_streams_arrive_however_they_are_cut() {
    let request = offers_with_trailers(1, &[("x-sum", "1"), ("host", "b"), ("y", "z"), ("x-sum", "2")]);
    for place in 0..=request.len() {
        let mut server = Server::standard(tell);
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&[&opening(&[]), &request[..place]].concat());
        server.run();
        client.send(&request[place..]);
        server.run();
        let said = "host | hello | x-sum: 1; y: z; x-sum: 2;".to_owned();
        assert_eq!(frames.read(&client).content(1), (said, true), "cut at {place}");
    }
}

#[test]
fn each_stream_has_its_own_trailers() {
    let mut server = Server::standard(tell);
    let (client, mut frames) = (server.connect(), Frames::default());
    let trailers = |id, fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | END_STREAM, id, &block(fields));
    client.send(&[opening(&[]), offers(1, "/", &[]), offers(3, "/", &[]), offers(5, "/", &[])].concat());
    client
        .send(&[trailers(3, &[("b", "2")]), asks(7, "/"), trailers(1, &[("a", "1")]), trailers(5, &[("date", "x")])].concat());
    server.run();
    client.send(&offers_with_trailers(9, &[]));
    server.run();
    frames.read(&client);
    for (id, said) in
        [(1, "host |  | a: 1;"), (3, "host |  | b: 2;"), (5, "host |  |"), (7, "host |  |"), (9, "host | hello |")]
    {
        assert_eq!(frames.content(id), (said.to_owned(), true), "{id}");
    }
    // HTTP/1 on another connection uses the same memory.
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &chunked(""))).text(), format!("{SAID} hello |"));
}

#[test]
fn a_web_server_sends_no_trailers() {
    let settings = Settings { protocol: Protocol::FastCgi, ..Settings::default() };
    let mut server = Server::new(settings, tell);
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&records::request(1, "POST", "/", b"hello"));
    server.run();
    assert!(reader.read(&client).take(1).text().ends_with("| hello |"));
}
