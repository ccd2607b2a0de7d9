//! The end of requests: a server that disagrees about it with the proxy in front answers another client's request.

use super::client::{Ending, LAST, SMUGGLED, printable};
use super::servers::{Server, echo, on_both};
use oribi_server::config::Settings;

/// Sends `request`, cut in two at several places, and another request after it. The server must refuse the first with `status`,
/// close the connection in an orderly way, and not answer the second.
#[track_caller]
pub fn assert_refused(server: &mut dyn Server, request: &[u8], status: u16) {
    let with_more = [request, SMUGGLED].concat();
    for cut in [0, 1, request.len() / 2, request.len() - 1, request.len()] {
        let answer = server.talk(&[&with_more[..cut], &with_more[cut..]]);
        assert_eq!(answer.statuses(), [status], "{} cut at {cut}", printable(request));
        assert_eq!(answer.ending, Ending::End, "{}", printable(request));
        let response = &answer.responses()[0];
        assert!(response.head.contains("\r\nConnection: close\r\n"), "{}", response.head);
    }
}

/// Sends `request`, cut in two at several places, and another request after it. The server must answer the first with `body`,
/// and also answer the second.
#[track_caller]
pub fn assert_answered(server: &mut dyn Server, request: &[u8], body: &str) {
    let with_more = [request, LAST].concat();
    for cut in [0, 1, request.len() / 2, request.len() - 1, request.len()] {
        let answer = server.talk(&[&with_more[..cut], &with_more[cut..]]);
        let bodies: Vec<_> = answer.responses().into_iter().map(|response| response.body).collect();
        assert_eq!(bodies, [body, "GET /last "], "{} cut at {cut}", printable(request));
        assert_eq!(answer.ending, Ending::End);
    }
}

fn refused(cases: &[(&str, u16)]) {
    on_both(&Settings::default(), echo, |server| {
        for (case, status) in cases {
            assert_refused(server, case.as_bytes(), *status);
        }
    });
}

fn with_fields(fields: &str, rest: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{rest}")
}

#[test]
fn both_framings_or_one_of_them_twice() {
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4\r\nContent-Length: 4",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ] {
        refused(&[(&with_fields(fields, "0\r\n\r\n"), 400)]);
    }
}

#[test]
fn content_lengths_that_are_no_numbers() {
    for value in [
        "+5",
        "-1",
        "0x10",
        "1_0",
        "5,5",
        "5, 5",
        "",
        " ",
        "1Z",
        "1 2",
        "1.0",
        "\u{661}",
        "9223372036854775808999",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        refused(&[(&with_fields(&format!("Content-Length: {value}"), "12345"), 400)]);
    }
    refused(&[(&with_fields("Content-Length: 9223372036854775808", "12345"), 413)]);
}

#[test]
fn leading_zeros_mean_what_they_say() {
    on_both(&Settings::default(), echo, |server| {
        assert_answered(server, with_fields("Content-Length: 010", "0123456789").as_bytes(), "POST / 0123456789");
    });
}

#[test]
fn transfer_encodings_that_do_not_end_in_one_chunked() {
    for (value, status) in [
        ("chunked, identity", 400),
        ("identity", 400),
        ("xchunked", 400),
        ("\u{b}chunked", 400),
        ("chunked\u{a0}", 400),
        ("\"chunked\"", 400),
        ("chunked;x=y", 400),
        ("chunked, chunked", 400),
        ("gzip", 400),
        ("gzip, chunked", 501),
        ("", 400),
    ] {
        refused(&[(&with_fields(&format!("Transfer-Encoding: {value}"), "0\r\n\r\n"), status)]);
    }
    refused(&[
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-\r\nEncoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ]);
}

#[test]
fn chunks_that_others_would_repair() {
    let long_extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(300));
    for chunks in [
        "\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0_5\r\nhello\r\n0\r\n\r\n",
        "5zz\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\rX0\r\n\r\n",
        // The next request is in the place of the end of the chunk.
        "5\r\nhello",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5;a=\rb\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
        &long_extension,
        "5\r\nhello\r\n0\r\nX: \0\r\n\r\n",
        "5\r\nhello\r\n0\r\n folded\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
    ] {
        refused(&[(&with_fields("Transfer-Encoding: chunked", chunks), 400)]);
    }
}

#[test]
fn a_chunk_larger_than_any_content_is_too_large() {
    refused(&[(&with_fields("Transfer-Encoding: chunked", "ffffffffffffffff\r\nhello"), 413)]);
}

#[test]
fn trailers_are_dropped_and_bounded() {
    on_both(&Settings::default(), echo, |server| {
        let trailers = "5\r\nhello\r\n0\r\nContent-Length: 100\r\nHost: b\r\nTransfer-Encoding: x\r\nX-Y: z\r\n\r\n";
        assert_answered(server, with_fields("Transfer-Encoding: chunked", trailers).as_bytes(), "POST / hello");
        for flood in ["X: y\r\n".repeat(200), format!("X: {}\r\n", "y".repeat(100_000))] {
            let request = with_fields("Transfer-Encoding: chunked", &format!("5\r\nhello\r\n0\r\n{flood}\r\n"));
            assert_refused(server, request.as_bytes(), 431);
        }
    });
}

#[test]
fn content_belongs_to_its_request_whatever_the_method() {
    on_both(&Settings::default(), echo, |server| {
        for method in ["GET", "DELETE", "POST", "OPTIONS"] {
            let smuggled = String::from_utf8_lossy(SMUGGLED);
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{smuggled}", SMUGGLED.len());
            assert_answered(server, request.as_bytes(), &format!("{method} / {smuggled}"));
        }
        assert_answered(server, with_fields("Content-Length: 0", "").as_bytes(), "POST / ");
    });
}

#[test]
fn what_stands_behind_a_close_is_ignored() {
    on_both(&Settings::default(), echo, |server| {
        for garbage in [&b"\0\xff garbage"[..], SMUGGLED, &[b'x'; 100_000]] {
            let request = b"GET /only HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let answer = server.talk(&[&[request, garbage].concat()]);
            assert_eq!(answer.responses().iter().map(|response| &response.body[..]).collect::<Vec<_>>(), ["GET /only "]);
            assert_eq!(answer.ending, Ending::End);
        }
    });
}

#[test]
fn an_early_refusal_lets_the_client_finish() {
    let mut settings = Settings::default();
    settings.limits.content_bytes = 1000;
    on_both(&settings, echo, |server| {
        let content = vec![b'x'; 3 << 20];
        let length = with_fields(&format!("Content-Length: {}", content.len()), "");
        let chunk = with_fields("Transfer-Encoding: chunked", &format!("{:x}\r\n", content.len()));
        for head in [length, chunk] {
            let answer = server.talk(&[head.as_bytes(), &content]);
            assert_eq!(answer.statuses(), [413]);
            assert_eq!(answer.ending, Ending::End);
        }
    });
}

#[test]
fn options_of_the_connection_do_not_change_the_framing() {
    on_both(&Settings::default(), echo, |server| {
        let request = with_fields("Connection: close, keep-alive, content-length\r\nContent-Length: 5", "hello");
        let answer = server.talk(&[request.as_bytes(), SMUGGLED]);
        assert_eq!(answer.responses().iter().map(|response| &response.body[..]).collect::<Vec<_>>(), ["POST / hello"]);
    });
}
