//! For every way of cutting requests into packets and frames, each request gets its own answer.

use crate::connection::{Connection, request};
use crate::language::Language;
use crate::turn;

crate::with_all_kinds_of_workers!(
    requests_may_be_cut_at_every_byte,
    pipelined_requests_are_answered_in_order,
    content_may_wait_for_a_go_ahead,
    heads_and_what_has_not_changed_have_no_content,
    errors_are_told_as_long_as_they_can_be,
);

fn requests_may_be_cut_at_every_byte(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let bytes = request("POST", "/upload?1", b"content that is compared");
    let mut connection = Connection::open(site.address);
    for cut in 1..bytes.len() {
        connection.send(&bytes[..cut]);
        // Something else is answered meanwhile, so that the halves do not arrive together.
        Connection::open(site.address).get("/healthz");
        connection.send(&bytes[cut..]);
        let response = connection.answer().0;
        assert_eq!((response.status, &*response.content), (200, &b"content that is compared"[..]), "cut at {cut}");
    }
    let chunked = b"POST /upload?2 HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n5;x=y\r\n here\r\n0\r\n\r\n";
    for byte in chunked {
        connection.send(&[*byte]);
    }
    let response = connection.answer().0;
    assert_eq!((response.status, &*response.content), (200, &b"content here"[..]), "byte by byte");
}

fn pipelined_requests_are_answered_in_order(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "3"]);
    let mut connection = Connection::open(site.address);
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for number in 1..=120 {
        // Slow ones are not overtaken, although other workers are free.
        let (target, content) = match number % 6 {
            0 => (format!("/nap?{number}&0.01"), format!("nap {number}\n")),
            1 => (format!("/stream?{number}&26&3"), String::from_utf8(crate::response::letters(number, 26)).expect("letters")),
            2 => (format!("/missing?{number}"), String::new()),
            _ => (format!("/fast?{number}"), format!("fast {number}\n")),
        };
        bytes.extend(request("GET", &target, &[]));
        if number % 10 == 0 {
            bytes.extend(request("POST", &format!("/upload?{number}"), format!("upload {number}").as_bytes()));
        }
        expected.push((target, content));
        if number % 10 == 0 {
            expected.push((format!("/upload?{number}"), format!("upload {number}")));
        }
    }
    connection.send(&bytes);
    for (target, content) in expected {
        let response = connection.answer().0;
        assert_eq!(response.status, if target.starts_with("/missing") { 404 } else { 200 }, "{target}");
        assert_eq!(String::from_utf8_lossy(&response.content), content, "{target}");
    }
    assert!(connection.is_quiet());
}

fn content_may_wait_for_a_go_ahead(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    for length in [10, 100_000, 3_000_000] {
        connection.send(
            format!("POST /upload?1 HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n")
                .as_bytes(),
        );
        assert_eq!(connection.answer().0.status, 100);
        let content = crate::response::letters(7, length);
        connection.send(&content);
        let response = connection.answer().0;
        assert_eq!(response.status, 200);
        assert!(response.content == content, "{length} bytes are not what was sent");
    }
}

fn heads_and_what_has_not_changed_have_no_content(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    for (target, length) in [("/fast?1", 7), ("/big?2&100000", 100_000), ("/files/large", 2 << 20)] {
        connection.send(&request("HEAD", target, &[]));
        let response = connection.response(true).expect("an answer");
        assert_eq!((response.status, response.field("Content-Length")), (200, Some(&*length.to_string())), "{target}");
    }
    connection.send(&request("HEAD", "/stream?3&1000&4", &[]));
    assert_eq!(connection.response(true).expect("an answer").status, 200);
    let unmodified = connection.get("/unmodified?4");
    assert_eq!((unmodified.status, unmodified.field("ETag")), (304, Some("\"4\"")));
    let file = connection.get("/files/small");
    let tag = file.field("ETag").expect("files have one").to_owned();
    connection.send(format!("GET /files/small HTTP/1.1\r\nHost: test\r\nIf-None-Match: {tag}\r\n\r\n").as_bytes());
    assert_eq!(connection.answer().0.status, 304);
    connection.get_fast(5);
}

fn errors_are_told_as_long_as_they_can_be(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    for number in 0..10 {
        let response = connection.get(&format!("/die?{number}"));
        assert_eq!(response.status, 500, "{response:?}");
        connection.get_fast(number);
        // An answer that has begun cannot be taken back: the connection is cut, so that a part does not look like the whole.
        for pieces in [3, 100] {
            let mut cut = Connection::open(site.address);
            cut.ask(&format!("/broken?{number}&300000&{pieces}"));
            cut.response(false).expect_err("a part must not look like the whole");
        }
    }
    connection.send(b"GET /fast?1 HTTP/1.1\r\nHost: test\r\nContent-Length: what\r\n\r\n");
    let response = connection.answer().0;
    assert_eq!((response.status, response.ends()), (400, true), "{response:?}");
}
