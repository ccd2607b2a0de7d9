//! Each request has its place in a trace, for any fields of its client and in any protocol: the app gets one `traceparent`.

use super::frames::*;
use super::harness::*;
use super::proxies::settings;
use super::records;
use super::response::*;
use oribi_host::{Reply, Request};
use oribi_server::config::{Protocol, Settings};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Answers with all fields of the request whose names matter here, in their order.
fn tell(request: &Request<'_>, reply: Reply<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let fields = request.head.fields().map(|(_, name, value)| (text(name), text(value)));
    let fields = fields.filter(|(name, _)| name.starts_with("trace") || name == "x-request-id" || name == "x-other");
    let told: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
    reply.send(ok(), &[told.join(" ").as_bytes()]).expect("the client is there");
}

fn server(command_line: &[&str]) -> Server {
    Server::new(settings(command_line), tell)
}

/// The values of a field in the app's answer.
fn values<'a>(told: &'a str, name: &str) -> Vec<&'a str> {
    told.split(' ').filter_map(|part| part.strip_prefix(name)?.strip_prefix('=')).collect()
}

/// The trace, the span and the flags of the only `traceparent`.
#[track_caller]
fn place(told: &str) -> (String, String, String) {
    let parents = values(told, "traceparent");
    assert_eq!(parents.len(), 1, "{told}");
    let parts: Vec<&str> = parents[0].split('-').collect();
    assert!(parts.len() == 4 && parts[0] == "00", "{told}");
    for (part, length) in parts.iter().zip([2, 32, 16, 2]) {
        assert!(part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit()), "{told}");
    }
    (parts[1].to_owned(), parts[2].to_owned(), parts[3].to_owned())
}

#[test]
fn without_the_setting_nothing_is_touched() {
    let mut server = server(&["trace-sample=0"]);
    let client = server.connect();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: x\r\ntraceparent: {CALLER}\r\ntracestate: a\r\n\r\n");
    let response = read_only(&server.exchange(&client, request.as_bytes()));
    assert_eq!(response.text(), format!("traceparent=x traceparent={CALLER} tracestate=a"));
}

#[test]
fn a_request_continues_its_trace_or_begins_one_beside_its_id() {
    for more in [&[][..], &["request-id=on"], &["request-id=on", "trusted-proxies=127.0.0.1"]] {
        let mut server = server(&[&["traces=on", "trace-sample=0"], more].concat());
        // On one connection: the trace of one request must not remain for the next.
        let client = server.connect();
        let mut seen = Vec::new();
        for (lines, kept) in [
            (String::new(), false),
            (format!("TraceParent: {CALLER}\r\ntracestate: a=1\r\n"), true),
            (format!("X-Request-Id: abc\r\ntraceparent: {CALLER}\r\ntracestate: a=1\r\n"), true),
            ("tracestate: a=1\r\nX-Other: 1\r\n".to_owned(), false),
            (format!("X-Request-Id: abc\r\ntraceparent: {CALLER}\r\ntraceparent: {CALLER}\r\ntracestate: a=1\r\n"), false),
            (format!("traceparent: {CALLER}x\r\n"), false),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: 2\r\n\r\nab");
            let response = read_only(&server.exchange(&client, request.as_bytes()));
            let told = response.text();
            let (trace, span, flags) = place(told);
            assert_eq!((trace == TRACE, &*flags == "01"), (kept, kept), "{lines:?}: {told}");
            assert!(!seen.contains(&span) && span != "b7ad6b7169203331", "{told}");
            seen.push(span);
            assert_eq!(values(told, "tracestate"), if kept { vec!["a=1"] } else { vec![] }, "{told}");
            assert_eq!(values(told, "x-other").len(), usize::from(lines.contains("X-Other")), "{told}");
            let ids = values(told, "x-request-id");
            match (more.is_empty(), lines.contains("abc")) {
                (_, true) => assert_eq!(ids, ["abc"]),
                (true, false) => assert!(ids.is_empty(), "{told}"),
                (false, false) => assert!(ids.len() == 1 && ids[0].len() == 32, "{told}"),
            }
        }
    }
}

#[test]
fn who_is_not_trusted_continues_no_trace() {
    let mut server = server(&["traces=on", "trusted-proxies=192.0.2.1"]);
    let client = server.connect();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: {CALLER}\r\ntracestate: a=1\r\n\r\n");
    let response = read_only(&server.exchange(&client, request.as_bytes()));
    assert!(place(response.text()).0 != TRACE && values(response.text(), "tracestate").is_empty(), "{}", response.text());
}

#[test]
fn requests_that_arrive_together_have_their_own_wherever_they_are_cut() {
    let mut server = server(&["traces=on"]);
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: {CALLER}\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for cut in 0..request.len() {
        let client = server.connect();
        for part in [&request.as_bytes()[..cut], &request.as_bytes()[cut..]] {
            client.send(part);
            server.run();
        }
        let responses = read_all(&client.received());
        let places: Vec<_> = responses.iter().map(|response| place(response.text())).collect();
        assert!(places.len() == 2 && places[0].0 == TRACE && places[1].0 != TRACE, "{cut}: {places:?}");
    }
}

#[test]
fn streams_of_http_2_have_their_own() {
    let mut server = server(&["traces=on", "request-id=on"]);
    let (client, mut frames) = (server.connect(), Frames::default());
    let with = |id: u32, fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | END_STREAM, id, &head("GET", "/", fields));
    let requests = [
        with(1, &[]),
        with(3, &[("traceparent", CALLER), ("tracestate", "a=1")]),
        with(5, &[("traceparent", "x"), ("tracestate", "a=1")]),
        with(7, &[("traceparent", CALLER), ("traceparent", CALLER)]),
    ];
    client.send(&[opening(&[]), requests.concat()].concat());
    server.run();
    frames.read(&client);
    for id in [1, 3, 5, 7] {
        let told = frames.content(id).0;
        assert_eq!((place(&told).0 == TRACE, values(&told, "tracestate").len()), (id == 3, usize::from(id == 3)), "{told}");
        assert_eq!(values(&told, "x-request-id").len(), 1, "{told}");
    }
}

#[test]
fn requests_of_web_servers_have_their_own() {
    let settings = Settings { protocol: Protocol::FastCgi, ..settings(&["traces=on", "request-id=on"]) };
    let mut server = Server::new(settings, tell);
    let (client, mut reader) = (server.connect(), records::Reader::default());
    for (sent, kept) in [(&[][..], false), (&[CALLER], true), (&["x"], false), (&[CALLER, CALLER], false)] {
        let mut variables = vec![("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/x"), ("HTTP_TRACESTATE", "a=1")];
        variables.extend(sent.iter().map(|value| ("HTTP_TRACEPARENT", *value)));
        client.send(&records::request_with(1, &variables, b""));
        server.run();
        let told = reader.read(&client).take(1).text().to_owned();
        assert_eq!((place(&told).0 == TRACE, values(&told, "tracestate").len()), (kept, usize::from(kept)), "{told}");
        assert_eq!(values(&told, "x-request-id").len(), 1, "{told}");
    }
}
