//! Each request has exactly one id, whatever fields the client sends and whatever protocol it speaks. The app and the response
//! get the same id.

use super::frames::*;
use super::harness::*;
use super::proxies::settings;
use super::records;
use super::response::*;
use oribi_host::{Reply, Request};
use oribi_message::ResponseHead;
use oribi_server::config::{Protocol, Settings};

const HEX: usize = 32;

/// Answers with the method, the target, the values of all fields X-Request-Id and the number of fields X-Other. Some targets
/// name another way to answer.
fn tell(request: &Request<'_>, reply: Reply<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ids = request.head.fields().filter(|(_, name, _)| name.eq_ignore_ascii_case(b"x-request-id"));
    let ids: Vec<String> = ids.map(|(_, _, value)| text(value)).collect();
    let others = request.head.fields().filter(|(_, name, _)| name.eq_ignore_ascii_case(b"x-other")).count();
    let told = format!("{} {} {} {others}", text(request.head.method()), text(request.head.target()), ids.join("|"));
    let answered = match request.head.target() {
        b"/own" => reply.send(ResponseHead { status: 200, fields: &[(b"x-request-ID", b"own")] }, &[told.as_bytes()]),
        b"/invalid" => reply.send(ResponseHead { status: 200, fields: &[(b"a b", b"")] }, &[]),
        b"/dropped" => return drop(reply),
        b"/pieces" => {
            let mut reply = reply.start(ResponseHead { status: 200, fields: &[] }).expect("the client is there");
            let _ = reply.write(told.as_bytes());
            return reply.finish().expect("the client is there");
        }
        _ => reply.send(ok(), &[told.as_bytes()]),
    };
    assert!(answered.is_ok() || request.head.target() == b"/invalid", "{answered:?}");
}

fn server(command_line: &[&str]) -> Server {
    Server::new(settings(command_line), tell)
}

/// Returns the id in a response, which must have exactly one.
#[track_caller]
fn said(response: &Response) -> String {
    let lines = response.head.split("\r\n").filter(|line| line.to_ascii_lowercase().starts_with("x-request-id: "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{}", response.head);
    lines[0]["x-request-id: ".len()..].to_owned()
}

fn is_new(id: &str) -> bool {
    id.len() == HEX && id.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
}

#[test]
fn without_the_setting_nothing_is_touched() {
    let mut server = server(&[]);
    let client = server.connect();
    let response = read_only(&server.exchange(&client, b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: a b\r\n\r\n"));
    assert_eq!((response.text(), response.field("X-Request-Id")), ("GET / a b 0", None));
}

#[test]
fn a_request_keeps_its_id_or_gets_one() {
    for command_line in [&["request-id=on"][..], &["request-id=X-REQUEST-ID", "trusted-proxies=127.0.0.1"]] {
        let mut server = server(command_line);
        // On one connection: the id of one request must not remain for the next.
        let client = server.connect();
        let mut seen = Vec::new();
        for (lines, kept) in [
            ("", None),
            ("X-Request-Id: abc-1\r\n", Some("abc-1")),
            ("", None),
            ("X-Request-Id: a b\r\nX-Other: 1\r\n", None),
            ("X-Request-Id: a\r\nX-Request-Id: a\r\n", None),
            ("x-request-id:\r\n", None),
            ("x-request-id: def\r\n", Some("def")),
        ] {
            for target in ["/", "/pieces"] {
                let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
                let response = read_only(&server.exchange(&client, request.as_bytes()));
                let id = said(&response);
                let others = usize::from(lines.contains("X-Other"));
                assert_eq!(response.text(), format!("GET {target} {id} {others}"), "{lines:?}");
                match kept {
                    Some(kept) => assert_eq!(id, kept),
                    None => {
                        assert!(is_new(&id) && !seen.contains(&id), "{id}");
                        seen.push(id);
                    }
                }
            }
        }
    }
}

#[test]
fn who_is_not_trusted_gives_no_ids() {
    for command_line in [["request-id=on", "trusted-proxies=192.0.2.1"], ["request-id=on", "strip-forwarded=on"]] {
        let mut server = server(&command_line);
        let client = server.connect();
        let response = read_only(&server.exchange(&client, b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: abc\r\n\r\n"));
        let id = said(&response);
        assert!(is_new(&id), "{id}");
        assert_eq!(response.text(), format!("GET / {id} 0"));
    }
}

#[test]
fn requests_that_arrive_together_and_those_with_content_have_their_own() {
    let mut server = server(&["request-id=on"]);
    let client = server.connect();
    let get = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let chunks = b"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let bytes = [&get[..], post, chunks, get].concat();
    let responses = read_all(&server.exchange(&client, &bytes));
    let mut ids: Vec<String> = responses.iter().map(said).collect();
    for (response, (id, start)) in responses.iter().zip(ids.iter().zip(["GET /1", "POST /2", "POST /3", "GET /1"])) {
        assert_eq!(response.text(), format!("{start} {id} 0"));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    // At every position at which the bytes can be cut.
    for cut in 0..bytes.len() {
        let client = server.connect();
        for part in [&bytes[..cut], &bytes[cut..]] {
            client.send(part);
            server.run();
        }
        let responses = read_all(&client.received());
        assert!(responses.len() == 4 && responses.iter().all(|response| response.text().contains(&said(response))), "{cut}");
    }
}

#[test]
fn what_the_app_says_itself_stands() {
    let mut server = server(&["request-id=on"]);
    let client = server.connect();
    let response = read_only(&server.exchange(&client, b"GET /own HTTP/1.1\r\nHost: a\r\nX-Request-Id: abc\r\n\r\n"));
    assert_eq!((&*said(&response), response.text()), ("own", "GET /own abc 0"));
}

#[test]
fn errors_of_the_server_have_the_id() {
    let mut server = server(&["request-id=on"]);
    for target in ["/invalid", "/dropped"] {
        let client = server.connect();
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Request-Id: abc\r\n\r\n");
        let response = read_only(&server.exchange(&client, request.as_bytes()));
        assert_eq!((response.status, &*said(&response)), (500, "abc"), "{target}");
    }
    // A request that is refused because of the bytes after its head.
    let client = server.connect();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-Request-Id: abc\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    server.run();
    let response = read_only(&client.received());
    assert_eq!((response.status, &*said(&response)), (400, "abc"));
    // A head that cannot be read has no id.
    let client = server.connect();
    let response = read_only(&server.exchange(&client, b"GET / HTTP/1.1\r\nX-Request-Id: abc\r\nHost : a\r\n\r\n"));
    assert_eq!((response.status, response.field("X-Request-Id")), (400, None));
}

/// Returns the values of all fields `x-request-id` in a block of literals.
fn in_block(block: &[u8]) -> Vec<String> {
    const NAME: &[u8] = b"x-request-id";
    let places = (0..block.len()).filter(|&place| block[place..].starts_with(NAME));
    let value = |place: usize| {
        let start = place + NAME.len();
        let length = usize::from(block[start]);
        String::from_utf8_lossy(&block[start + 1..start + 1 + length]).into_owned()
    };
    places.map(value).collect()
}

#[test]
fn streams_of_http_2_have_their_own() {
    let mut server = server(&["request-id=on"]);
    let (client, mut frames) = (server.connect(), Frames::default());
    let with = |id: u32, path: &str, values: &[&str]| {
        let fields: Vec<(&str, &str)> = values.iter().map(|value| ("x-request-id", *value)).collect();
        frame(HEADERS, END_HEADERS | END_STREAM, id, &head("GET", path, &fields))
    };
    let requests = [
        with(1, "/1", &[]),
        with(3, "/3", &["abc"]),
        with(5, "/5", &["a b"]),
        with(7, "/7", &["a", "b"]),
        with(9, "/own", &["abc"]),
        with(11, "/pieces", &[]),
        offers(13, "/13", &[("x-request-id", "def")]),
        frame(DATA, END_STREAM, 13, b"abc"),
    ];
    client.send(&[opening(&[]), requests.concat()].concat());
    server.run();
    frames.read(&client);
    for id in [1, 3, 5, 7, 9, 11, 13] {
        let head = frames.all.iter().find(|frame| frame.id == id && frame.kind == HEADERS).expect("a response");
        let said = in_block(&head.content);
        assert_eq!(said.len(), 1, "{id}");
        let told = frames.content(id).0;
        let seen = told.split(' ').nth(2).expect("the id").to_owned();
        match id {
            3 => assert_eq!((&*said[0], &*seen), ("abc", "abc")),
            9 => assert_eq!((&*said[0], &*seen), ("own", "abc")),
            13 => assert_eq!((&*said[0], &*told), ("def", "POST /13 def 0")),
            _ => assert!(is_new(&seen) && seen == said[0], "{id}: {seen} {said:?}"),
        }
    }
}

#[test]
fn requests_of_web_servers_have_their_own() {
    let settings = Settings { protocol: Protocol::FastCgi, ..settings(&["request-id=on"]) };
    let mut server = Server::new(settings, tell);
    let (client, mut reader) = (server.connect(), records::Reader::default());
    for (sent, kept) in [(&[][..], None), (&["abc"], Some("abc")), (&["a b"], None), (&["a", "b"], None), (&[], None)] {
        let mut variables = vec![("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/x"), ("HTTP_X_OTHER", "1")];
        variables.extend(sent.iter().map(|value| ("HTTP_X_REQUEST_ID", *value)));
        client.send(&records::request_with(1, &variables, b""));
        server.run();
        let answer = reader.read(&client).take(1);
        let head = answer.parts().0;
        let said: Vec<&String> = head.iter().filter(|line| line.starts_with("X-Request-Id: ")).collect();
        assert_eq!(said.len(), 1, "{head:?}");
        let id = &said[0]["X-Request-Id: ".len()..];
        assert_eq!(answer.text(), format!("GET /x {id} 1"), "{sent:?}");
        assert!(kept.map_or_else(|| is_new(id), |kept| kept == id), "{id}");
    }
}
