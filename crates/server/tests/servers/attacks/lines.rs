//! Lines, names, versions and targets that different servers understand differently.

use super::framing::{assert_answered, assert_refused};
use super::servers::{echo, on_both};
use oribi_server::config::Settings;

fn refused(cases: &[(&[u8], u16)]) {
    on_both(&Settings::default(), echo, |server| {
        for (case, status) in cases {
            assert_refused(server, case, *status);
        }
    });
}

#[test]
fn line_ends() {
    refused(&[
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\rX", 400),
        (b"GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\r: b\r\n\r\n", 400),
        (b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ]);
}

#[test]
fn names_and_values() {
    refused(&[
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n", 400),
        (b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\tX: y\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX(: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX,Y: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX/Y: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\"Y: y\r\n\r\n", 400),
    ]);
}

#[test]
fn versions_and_methods() {
    let long = [&[b'A'; 2000][..], b" / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    refused(&[
        (b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/01.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/4294967297.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / \r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
        (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        (b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"G\"T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (&long, 501),
    ]);
    on_both(&Settings::default(), echo, |server| {
        assert_answered(server, b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "GET / ");
    });
}

#[test]
fn targets() {
    refused(&[
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://\xc3\xa9/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ]);
    on_both(&Settings::default(), echo, |server| {
        for target in ["//", "/..%2f", "/%00", "/%", "/%zz", "http://b/x", "/a?b=c?d", "/\u{e9}?\u{20ac}"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_answered(server, request.as_bytes(), &format!("GET {target} "));
        }
        assert_answered(server, b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * ");
    });
}

#[test]
fn hosts() {
    refused(&[
        (b"GET / HTTP/1.1\r\nX: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nhost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ]);
    on_both(&Settings::default(), echo, |server| {
        assert_answered(server, b"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / ");
    });
}

#[test]
fn expectations() {
    refused(&[(b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 4\r\n\r\nbody", 417)]);
    refused(&[(b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\nContent-Length: 4\r\n\r\nbody", 417)]);
}

#[test]
fn empty_lines_in_front_are_few() {
    on_both(&Settings::default(), echo, |server| {
        assert_answered(server, b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ");
        assert_refused(server, &b"\r\n".repeat(1000), 400);
    });
}
