//! The trust of a server in the proxies in front of it.

use super::harness::*;
use super::response::*;
use oribi_host::{Reply, Request};
use oribi_server::config::{Config, Origin, Settings};

/// Returns the settings of a command line of `name=value` texts. The peers of the servers in these tests are 127.0.0.1.
pub fn settings(command_line: &[&str]) -> Settings {
    let mut config = Config::with(|_| None, 1);
    for pair in command_line {
        let (name, value) = pair.split_once('=').expect("name=value");
        config.set(name, value, Origin::CommandLine).expect(pair);
    }
    config.finish().expect("they fit")
}

/// Answers with the data that a host gets: client, scheme, Host and port, and the names of all fields.
pub fn tell(request: &Request<'_>, reply: Reply<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields: Vec<String> = request.head.fields().map(|(_, name, _)| text(name)).collect();
    let host = request.head.field(oribi_message::KnownField::Host).unwrap_or_default();
    let port = if request.remote.port == b"0" { " without port" } else { "" };
    let told = format!(
        "{}{port} {} {} {} ({})",
        text(request.remote_address()),
        if request.https { "https" } else { "http" },
        text(host),
        text(request.server_port()),
        fields.join(" "),
    );
    reply.send(ok(), &[told.as_bytes()]).expect("the client is there");
}

/// Returns what a host receives for a request with these field lines after Host.
#[track_caller]
fn told(server: &mut Server, lines: &str) -> String {
    let client = server.connect();
    let response = read_only(&server.exchange(&client, format!("GET / HTTP/1.1\r\nHost: inside\r\n{lines}\r\n").as_bytes()));
    if response.status == 200 { response.text().to_owned() } else { response.status.to_string() }
}

const LINES: &str = "X-Forwarded-For: 192.0.2.7\r\nx-forwarded-proto: https\r\nX-Forwarded-Host: shop.example\r\n\
                     X-Forwarded-Ssl: on\r\nX-Real-IP: 6.6.6.6\r\nX-Other: 1\r\n";

#[test]
fn nobody_is_believed_unless_somebody_is_trusted() {
    let all = "Host X-Forwarded-For x-forwarded-proto X-Forwarded-Host X-Forwarded-Ssl X-Real-IP X-Other";
    for (command_line, expected) in [
        (&[][..], format!("127.0.0.1 http inside 80 ({all})")),
        (&["strip-forwarded=on"], "127.0.0.1 http inside 80 (Host X-Other)".to_owned()),
        (&["trusted-proxies=127.0.0.2,unix"], "127.0.0.1 http inside 80 (Host X-Other)".to_owned()),
        (&["trusted-proxies=127.0.0.2", "strip-forwarded=off"], format!("127.0.0.1 http inside 80 ({all})")),
        (&["trusted-proxies=127.0.0.0/8"], format!("192.0.2.7 without port https shop.example 443 ({all})")),
    ] {
        let mut server = Server::new(settings(command_line), tell);
        assert_eq!(told(&mut server, LINES), expected, "{command_line:?}");
    }
}

#[test]
fn each_request_is_believed_for_itself() {
    let mut server = Server::new(settings(&["trusted-proxies=127.0.0.1"]), tell);
    let client = server.connect();
    let request = |lines: &str| format!("GET / HTTP/1.1\r\nHost: inside\r\n{lines}\r\n").into_bytes();
    let mut ask = |bytes: &[u8]| read_only(&server.exchange(&client, bytes)).text().to_owned();
    let first = ask(&request("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\n"));
    assert!(first.starts_with("192.0.2.1 without port https inside 8443 "), "{first}");
    let second = ask(&request("X-Forwarded-For: 192.0.2.2:4711\r\n"));
    assert!(second.starts_with("192.0.2.2 http inside 80 "), "{second}");
    assert_eq!(ask(&request("")), "127.0.0.1 http inside 80 (Host)");
    // Requests that arrive together, and one whose content arrives later.
    client.send(&[request("X-Forwarded-For: 192.0.2.3\r\n"), request("")].concat());
    server.run();
    let both = String::from_utf8_lossy(&client.received()).into_owned();
    let (three, own) = (both.find("192.0.2.3").expect("the first"), both.find("127.0.0.1").expect("the second"));
    assert!(three < own, "{both}");
    client.send(b"POST / HTTP/1.1\r\nHost: inside\r\nX-Forwarded-For: 192.0.2.4\r\nContent-Length: 3\r\n\r\na");
    server.run();
    client.send(b"bc");
    server.run();
    assert!(read_only(&client.received()).text().starts_with("192.0.2.4 "));
}

#[test]
fn a_host_is_believed_wherever_it_stands() {
    let mut server = Server::new(settings(&["trusted-proxies=127.0.0.1"]), tell);
    let mut ask = |bytes: &str| {
        let client = server.connect();
        read_only(&server.exchange(&client, bytes.as_bytes())).text().to_owned()
    };
    let fields = "X-Forwarded-Host: a.de:81\r\n\r\n";
    assert!(ask(&format!("GET / HTTP/1.0\r\n{fields}")).contains(" a.de:81 81 "));
    assert!(ask(&format!("GET http://inside/ HTTP/1.1\r\nHost: inside\r\n{fields}")).contains(" a.de:81 81 "));
    assert!(ask("GET / HTTP/1.0\r\nForwarded: HOST=\"a.de\"\r\n\r\n").ends_with(" http a.de 80 (Forwarded HOST)"));
    // The port of a host has precedence over X-Forwarded-Port.
    assert!(ask("GET / HTTP/1.1\r\nHost: inside:82\r\nX-Forwarded-Port: 81\r\n\r\n").contains(" inside:82 82 "));
    assert!(ask("GET / HTTP/1.0\r\nX-Forwarded-Port: 81\r\n\r\n").contains(" http  81 "));
}

#[test]
fn a_contradiction_is_refused() {
    let lines = "X-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.8\r\n";
    let mut server = Server::new(settings(&["trusted-proxies=127.0.0.1"]), tell);
    let client = server.connect();
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: 100000\r\n\r\n");
    let response = read_only(&server.exchange(&client, request.as_bytes()));
    assert_eq!((response.status, response.closes()), (400, true), "{}", response.text());
    for (fields, expected) in [("forwarded", "192.0.2.8 "), ("x-forwarded-for", "192.0.2.7 "), ("off", "127.0.0.1 ")] {
        let fields = format!("forwarded-fields={fields}");
        let mut server = Server::new(settings(&["trusted-proxies=127.0.0.1", &fields]), tell);
        assert!(told(&mut server, lines).starts_with(expected), "{fields}");
    }
    let mut server = Server::new(settings(&[]), tell);
    assert!(told(&mut server, lines).starts_with("127.0.0.1 "), "who is not believed may contradict himself");
}

const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";

/// The same addresses in version 2 of the PROXY protocol, and a value after the addresses.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x11\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x01\xbb\x01\x00\x02h2";

#[test]
fn a_proxy_header_is_read_once_and_nothing_behind_it_is_lost() {
    let request = post("/a", b"content");
    for (choice, header) in [("v1", LINE), ("on", LINE), ("v2", BINARY), ("on", BINARY)] {
        let bytes = [header, &request].concat();
        for cut in 0..=bytes.len() {
            let mut server = Server::new(settings(&[&format!("proxy-protocol={choice}")]), tell);
            let client = server.connect();
            for part in [&bytes[..cut], &bytes[cut..]] {
                client.send(part);
                server.run();
            }
            let response = read_only(&client.received());
            assert!(response.text().starts_with("192.0.2.7 http a 80 "), "cut at {cut}: {}", response.text());
        }
        let mut server = Server::new(settings(&[&format!("proxy-protocol={choice}")]), tell);
        let client = server.connect();
        for byte in &bytes {
            client.send(&[*byte]);
            server.run();
        }
        assert!(read_only(&client.received()).text().starts_with("192.0.2.7 "));
        // The client is the same for the next request, and can neither send another header nor replace it.
        let next = server.exchange(&client, GET);
        assert!(read_only(&next).text().starts_with("192.0.2.7 "));
        assert_eq!(read_only(&server.exchange(&client, &bytes)).status, 400);
    }
}

#[test]
fn a_connection_without_its_header_is_closed_unanswered() {
    for (choice, bytes) in [("on", GET), ("v1", BINARY), ("v2", LINE), ("v1", b"PROXY TCP4 a b 1 2\r\n"), ("on", b"\r\nGET")] {
        let mut server = Server::new(settings(&[&format!("proxy-protocol={choice}")]), tell);
        let client = server.connect();
        assert_eq!(server.exchange(&client, &[bytes, GET].concat()), b"", "{choice}");
        assert!(client.closed() && server.connections() == 0, "{choice}");
    }
    // Where no PROXY header is expected, it is an invalid request.
    let mut server = Server::new(settings(&[]), tell);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &[LINE, GET].concat())).status, 400);
}

#[test]
fn a_header_that_does_not_come_is_not_waited_for() {
    for sent in [&b""[..], &LINE[..20], LINE] {
        let mut server = Server::new(settings(&["proxy-protocol=on", "header-timeout=10"]), tell);
        let client = server.connect();
        client.send(sent);
        server.advance(9 * SECOND);
        assert!(!client.closed(), "{sent:?}");
        server.advance(SECOND + MOMENT);
        assert!(client.closed() && server.connections() == 0, "{sent:?}");
    }
    // Half of a request after the header gets the rest of the same time.
    let mut server = Server::new(settings(&["proxy-protocol=on", "header-timeout=10"]), tell);
    let client = server.connect();
    client.send(&LINE[..20]);
    server.advance(5 * SECOND);
    client.send(&[&LINE[20..], b"GET / HT"].concat());
    server.advance(4 * SECOND);
    assert_eq!(client.received(), b"");
    server.advance(SECOND + MOMENT);
    assert_eq!(read_only(&client.received()).status, 408);
}

#[test]
fn only_trusted_peers_may_send_a_header_and_their_clients_are_not_believed_for_it() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
    for (trusted, header, expected) in [
        ("10.0.0.1", LINE, ""),
        ("127.0.0.1", LINE, "192.0.2.7 http a 80 (Host)"),
        ("127.0.0.1,192.0.2.0/24", LINE, "6.6.6.6 without port http a 80 (Host X-Forwarded-For)"),
        // The sender of these fields is unknown.
        ("127.0.0.1", b"PROXY UNKNOWN\r\n", "127.0.0.1 http a 80 (Host)"),
        // The proxy itself sent these fields.
        ("127.0.0.1", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "6.6.6.6 without port http a 80 (Host X-Forwarded-For)"),
    ] {
        let mut server = Server::new(settings(&["proxy-protocol=on", &format!("trusted-proxies={trusted}")]), tell);
        let client = server.connect();
        let answer = server.exchange(&client, &[header, &request[..]].concat());
        if expected.is_empty() {
            assert!(answer.is_empty() && client.closed());
        } else {
            assert_eq!(read_only(&answer).text(), expected, "{trusted}");
        }
    }
}
