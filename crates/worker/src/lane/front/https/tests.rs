//! Tests redirects for the bytes of requests.

use super::redirect;
use oribi_host::{Content, Endpoint, Gateway, Request};
use oribi_message::{HeadLayout, RequestHead, Role};
use oribi_proto::h1::{Event, Limits, Machine};

/// Returns the answer to a request with these lines: status and location.
fn answer(lines: &str, change: impl FnOnce(&mut Request<'_>), port: u16) -> Option<(u16, String)> {
    let (bytes, mut layout) = (format!("{}\r\n\r\n", lines.replace('\n', "\r\n")), HeadLayout::default());
    let step = Machine::new().handle_input(bytes.as_bytes(), &mut layout, &Limits::default());
    assert!(matches!(step.event, Event::Head { .. }), "{lines:?} {step:?}");
    let mut request = Request {
        head: RequestHead::new(bytes.as_bytes(), &layout),
        content: Content::None,
        trailers: None,
        remote: Endpoint { address: b"192.0.2.1", port: b"4711" },
        server: Endpoint { address: b"localhost", port: b"80" },
        forwarded_port: false,
        chosen_name: false,
        https: false,
        underscores: false,
        gateway: None,
    };
    change(&mut request);
    let redirect = redirect(&request, port)?;
    Some((
        redirect.status,
        redirect.location.map(|location| String::from_utf8(location).expect("it is ASCII")).unwrap_or_default(),
    ))
}

#[test]
fn clients_are_sent_to_the_same_url() {
    for (lines, port, status, location) in [
        ("GET /a?b=c HTTP/1.1\nHost: a.example", 443, 301, "https://a.example/a?b=c"),
        ("HEAD / HTTP/1.0\nHost: A_b-1.example.:80", 443, 301, "https://A_b-1.example./"),
        ("POST /a HTTP/1.1\nHost: a.example:8080", 8443, 308, "https://a.example:8443/a"),
        ("DELETE /%20/?a[]=%zz&b='! HTTP/1.1\nHost: 127.0.0.1:", 443, 308, "https://127.0.0.1/%20/?a[]=%zz&b='!"),
        ("GET / HTTP/1.1\nHost: [::1]", 443, 301, "https://[::1]/"),
        ("GET / HTTP/1.1\nHost: [2001:db8::7]:80", 8443, 301, "https://[2001:db8::7]:8443/"),
        ("GET http://b.example:81/x?y HTTP/1.1\nHost: b.example:81", 443, 301, "https://b.example/x?y"),
        ("GET http://b.example?y HTTP/1.1\nHost: b.example", 443, 301, "https://b.example?y"),
        ("OPTIONS * HTTP/1.1\nHost: a.example", 443, 308, "https://a.example"),
        // Characters that browsers might interpret are escaped.
        ("GET //evil.example/\\x HTTP/1.1\nHost: a.example", 443, 301, "https://a.example//evil.example/%5Cx"),
        ("GET /\u{e4}?<\"|`{}^> HTTP/1.1\nHost: a.example", 443, 301, "https://a.example/%C3%A4?%3C%22%7C%60%7B%7D%5E%3E"),
        ("GET /@evil.example HTTP/1.1\nHost: a.example", 443, 301, "https://a.example/@evil.example"),
        ("GET /.well-known/acme-challenge/../x HTTP/1.1\nHost: a", 443, 301, "https://a/.well-known/acme-challenge/../x"),
        ("POST /.well-known/acme-challenge/x HTTP/1.1\nHost: a", 443, 308, "https://a/.well-known/acme-challenge/x"),
    ] {
        assert_eq!(answer(lines, |_| (), port), Some((status, location.to_owned())), "{lines:?}");
    }
}

#[test]
fn a_host_that_leads_nowhere_is_refused() {
    for host in ["", ":80", "a!b", "a%0d%0ab", "a%2eb", "a;b", "a=b", "a(b)", "~a", "[v1.x]", "[1:2]", &"a".repeat(256)] {
        let lines = format!("GET / HTTP/1.1\nHost: {host}");
        assert_eq!(answer(&lines, |_| (), 443), Some((400, String::new())), "{host:?}");
    }
    assert_eq!(answer("GET / HTTP/1.0", |_| (), 443), Some((400, String::new())));
}

#[test]
fn no_byte_of_a_host_or_of_a_target_ends_the_field() {
    for byte in 0..=u8::MAX {
        let mut text = b"GET /x HTTP/1.1\r\nHost: ab\r\n\r\n".to_vec();
        let layout = {
            let mut layout = HeadLayout::default();
            let step = Machine::new().handle_input(&text, &mut layout, &Limits::default());
            assert!(matches!(step.event, Event::Head { .. }));
            layout
        };
        // As if the machine had accepted it.
        for place in [5, 24] {
            text[place] = byte;
        }
        let request = Request {
            head: RequestHead::new(&text, &layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"", port: b"" },
            server: Endpoint { address: b"", port: b"" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        };
        let location = redirect(&request, 443).and_then(|redirect| redirect.location).unwrap_or_default();
        assert!(location.iter().all(u8::is_ascii_graphic), "{byte}: {location:?}");
        assert!(location.is_empty() || location.starts_with(b"https://a"), "{byte}: {location:?}");
    }
}

#[test]
fn others_are_answered_as_always() {
    let lines = "GET /x HTTP/1.1\nHost: a";
    assert_eq!(answer(lines, |request| request.https = true, 443), None);
    assert_eq!(answer("GET /.well-known/acme-challenge/Abc-_9 HTTP/1.1\nHost: a", |_| (), 443), None);
    let by = |role: Role| move |request: &mut Request<'_>| request.gateway = Some(Gateway::new(role, b"", &[], Content::None));
    assert_eq!(answer(lines, by(Role::Responder), 443), Some((301, "https://a/x".to_owned())));
    assert_eq!(answer(lines, by(Role::Authorizer), 443), None);
}
