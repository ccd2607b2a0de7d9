//! Tests of forwarded fields, in the forms that proxies and their clients may send.

use super::{Contradiction, ForwardedInfo};
use oribi_config::{Proxies, TrustedPeers};
use oribi_message::{HeadLayout, RequestHead};
use oribi_proto::h1;

fn proxies() -> Proxies {
    let network = |first: &str, prefix| TrustedPeers::Network { address: first.parse().expect(first), prefix };
    Proxies { trusted: vec![network("10.0.0.0", 8), network("2001:db8::", 32)], ..Proxies::default() }
}

/// `client|https|host|port` as read from a request with these lines, or `contradiction`.
fn told_by(lines: &[&str], proxies: &Proxies) -> String {
    let bytes = format!("GET / HTTP/1.1\r\nHost: inside\r\n{}\r\n\r\n", lines.join("\r\n")).replace("\r\n\r\n\r\n", "\r\n\r\n");
    let mut layout = HeadLayout::default();
    let step = h1::Machine::new().handle_input(bytes.as_bytes(), &mut layout, &h1::Limits::default());
    assert!(matches!(step.event, h1::Event::Head { .. }), "{bytes}");
    let head = RequestHead::new(bytes.as_bytes(), &layout);
    match ForwardedInfo::of(head, proxies) {
        Err(Contradiction) => "contradiction".to_owned(),
        Ok(ForwardedInfo { client, https, host, port }) => {
            if let Some(host) = host {
                assert!(host.name.of(head.bytes()).eq_ignore_ascii_case(b"host"), "{bytes}");
            }
            let text = |place: oribi_message::Span| String::from_utf8_lossy(place.of(head.bytes())).into_owned();
            let client = client.map_or(String::new(), |client| match client.port {
                Some(port) => format!("{} {port}", client.address),
                None => client.address.to_string(),
            });
            let https = https.map_or(String::new(), |https| if https { "https" } else { "http" }.to_owned());
            [client, https, host.map_or(String::new(), |host| text(host.value)), port.map_or(String::new(), text)].join("|")
        }
    }
}

fn told(lines: &[&str]) -> String {
    told_by(lines, &proxies())
}

#[test]
fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
    for (value, expected) in [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1, 10.0.0.1, 10.9.9.9", "192.0.2.1"),
        ("198.51.100.1, 192.0.2.1, 10.0.0.1", "192.0.2.1"),
        ("10.0.0.2, 10.0.0.1", "10.0.0.2"),
        ("127.0.0.1,192.0.2.1:4711", "192.0.2.1 4711"),
        ("[2001:db9::7]:1 , [2001:db8::1]:4711", "2001:db9::7 1"),
        ("2001:db9::7", "2001:db9::7"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        // An unreadable value ends the list: the proxy that wrote it counts as the client.
        ("", ""),
        ("unknown", ""),
        ("127.0.0.1, unknown", ""),
        ("127.0.0.1, _hidden, 10.0.0.1", "10.0.0.1"),
        ("127.0.0.1, , 10.0.0.1", "10.0.0.1"),
        ("127.0.0.1,", ""),
        ("127.0.0.1 10.0.0.1", ""),
        ("127.0.0.1, fe80::1%eth0", ""),
        ("127.0.0.1, [fe80::1%25eth0]:80", ""),
        ("127.0.0.1, 192.0.2.1:99999", ""),
        ("127.0.0.1, \"192.0.2.1\"", ""),
        ("127.0.0.1, garbage\u{e9}\t\"", ""),
        ("127.0.0.1, 192.0.2.1; DROP TABLE", ""),
    ] {
        assert_eq!(told(&[&format!("X-Forwarded-For: {value}")]), format!("{expected}|||"), "{value}");
    }
    // Several lines form one list.
    let lines = ["X-Forwarded-For: 127.0.0.1", "x-forwarded-for: 192.0.2.1", "X-FORWARDED-FOR: 10.0.0.1"];
    assert_eq!(told(&lines), "192.0.2.1|||");
}

#[test]
fn a_thousand_addresses_are_one_client() {
    let many = |address: &str| vec![address; 1000].join(",");
    let head = |value: &str| told(&[&format!("X-Forwarded-For: {value}")]);
    assert_eq!(head(&format!("127.0.0.1,{}", many("192.0.2.1"))), "192.0.2.1|||");
    assert_eq!(head(&format!("192.0.2.1,{}", many("10.0.0.1"))), "192.0.2.1|||");
    assert_eq!(head(&many("10.0.0.1")), "10.0.0.1|||");
    let elements = vec!["for=10.0.0.1"; 1000].join(",");
    assert_eq!(told(&[&format!("Forwarded: for=192.0.2.1;proto=https,{elements}")]), "192.0.2.1|https||");
}

#[test]
fn scheme_host_and_port_are_those_of_the_proxy_next_to_the_client() {
    for (lines, expected) in [
        (&["X-Forwarded-Proto: https"][..], "|https||"),
        (&["X-Forwarded-Proto: WSS"], "|https||"),
        (&["X-Forwarded-Proto: ws"], "|http||"),
        (&["X-Forwarded-Proto: ftp"], "|||"),
        (&["X-Forwarded-Proto: https, ftp"], "|||"),
        (&["X-Forwarded-Proto: https, http"], "|http||"),
        (&["X-Forwarded-Proto: https", "X-Forwarded-Proto: http"], "|http||"),
        (&["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https, http"], "192.0.2.1|http||"),
        (&["X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Forwarded-Proto: https, http"], "192.0.2.1|https||"),
        (&["X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Forwarded-Proto: http, https, http"], "192.0.2.1|https||"),
        (&["X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Forwarded-Proto: https"], "192.0.2.1|https||"),
        (&["X-Forwarded-Host: a.de"], "||a.de|"),
        (&["x-forwarded-HOST: [::1]:8443"], "||[::1]:8443|"),
        (&["X-Forwarded-Host: evil.de, a.de:8443"], "||a.de:8443|"),
        (&["X-Forwarded-Host: evil.de", "X-Forwarded-Host: a.de"], "||a.de|"),
        (&["X-Forwarded-Host:"], "|||"),
        (&["X-Forwarded-Host: :80"], "|||"),
        (&["X-Forwarded-Host: u@a.de"], "|||"),
        (&["X-Forwarded-Host: a.de/x"], "|||"),
        (&["X-Forwarded-Host: a.de:99999"], "|||"),
        (&["X-Forwarded-Port: 8443"], "|||8443"),
        (&["X-Forwarded-Port: 1, 8443"], "|||8443"),
        (&["X-Forwarded-Port: 0"], "|||"),
        (&["X-Forwarded-Port: 080"], "|||"),
        (&["X-Forwarded-Port: +80"], "|||"),
        (&["X-Forwarded-Port: 65536"], "|||"),
        (&["X-Forwarded-Port: 80x"], "|||"),
    ] {
        assert_eq!(told(lines), expected, "{lines:?}");
    }
}

#[test]
fn forwarded_is_read_element_by_element() {
    for (value, expected) in [
        ("for=192.0.2.1;proto=https;host=a.de", "192.0.2.1|https|a.de|"),
        ("For=\"[2001:db9::7]:4711\";Proto=HTTP;Host=\"a.de:8443\"", "2001:db9::7 4711|http|a.de:8443|"),
        ("for=127.0.0.1;host=evil.de, for=192.0.2.1;proto=https", "192.0.2.1|https||"),
        ("for=192.0.2.1;host=a.de;proto=https, for=10.0.0.1;host=inside;proto=http", "192.0.2.1|https|a.de|"),
        ("for=192.0.2.1, for=10.0.0.1;host=b.de;proto=https", "192.0.2.1|https|b.de|"),
        ("for=_hidden;proto=https", "|https||"),
        ("for=127.0.0.1, for=unknown;proto=https", "|https||"),
        ("for=127.0.0.1, for=_gazonk, for=10.0.0.1", "10.0.0.1|||"),
        ("proto=https", "|https||"),
        ("for=127.0.0.1, proto=https", "|https||"),
        ("for=\", for=192.0.2.1", "192.0.2.1|||"),
        ("for=127.0.0.1, for=\", for=\"[2001:db8::1]\"", "2001:db8::1|||"),
        ("for=127.0.0.1;for=192.0.2.1", "|||"),
        ("for=127.0.0.1, garbage, for=10.0.0.1", "10.0.0.1|||"),
        ("host=\"a.de/x\"", "|||"),
        ("host=\"\"", "|||"),
        ("", "|||"),
    ] {
        assert_eq!(told(&[&format!("Forwarded: {value}")]), expected, "{value}");
    }
    assert_eq!(told(&["Forwarded: for=127.0.0.1, for=\"", "Forwarded: for=192.0.2.1"]), "192.0.2.1|||");
}

#[test]
fn fields_of_both_kinds_must_say_the_same() {
    let each = ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: a.de"];
    for (standard, expected) in [
        ("for=192.0.2.1;proto=https;host=A.de", "192.0.2.1|https|a.de|"),
        ("for=\"192.0.2.1:80\";proto=https;host=a.de", "192.0.2.1|https|a.de|"),
        ("for=192.0.2.2;proto=https;host=a.de", "contradiction"),
        ("for=192.0.2.1;proto=http;host=a.de", "contradiction"),
        ("for=192.0.2.1;proto=https;host=b.de", "contradiction"),
        ("for=192.0.2.1;proto=https", "contradiction"),
        ("garbage", "contradiction"),
        ("", "contradiction"),
    ] {
        assert_eq!(told(&[&each[..], &[&format!("Forwarded: {standard}")]].concat()), expected, "{standard}");
    }
    // A port that only the client can have sent does not become part of the proxy's statement.
    assert_eq!(told(&["X-Forwarded-Port: 666", "Forwarded: for=192.0.2.1"]), "contradiction");
}

#[test]
fn only_fields_that_are_asked_for_are_believed() {
    let all = ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: a.de", "X-Forwarded-Port: 81"];
    let lines = [&all[..], &["Forwarded: for=192.0.2.2"]].concat();
    for (name, expected) in [("client", "192.0.2.1|||"), ("scheme", "|https||"), ("host", "||a.de|"), ("port", "|||81")] {
        let mut proxies = proxies();
        let fields = &mut proxies.fields;
        (fields.client, fields.scheme, fields.host, fields.port, fields.forwarded) =
            (name == "client", name == "scheme", name == "host", name == "port", false);
        assert_eq!(told_by(&lines, &proxies), expected, "{name}");
    }
    let mut proxies = proxies();
    proxies.fields = oribi_config::ForwardedFields { forwarded: true, ..oribi_config::ForwardedFields::NONE };
    assert_eq!(told_by(&lines, &proxies), "192.0.2.2|||");
    proxies.fields.forwarded = false;
    assert_eq!(told_by(&lines, &proxies), "|||");
}
