//! Limits that refuse requests and close connections: each is counted by the name of its setting, exactly as often as it was hit.

use crate::counters::{Client, SHAPES, Site};
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Folder, wait_until};
use std::io::{Read, Write};

impl Client {
    /// Waits until the server has closed the connection.
    fn expect_end(&mut self) {
        let mut rest = Vec::new();
        // A connection that is cut also ends.
        let _ = self.stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn what_is_too_large_or_too_much_is_counted() {
    for edge in SHAPES {
        let limits = ["--max-header-size", "1k", "--max-headers", "5", "--max-uri-size", "100", "--max-body-size", "10"];
        let others = ["--edge", edge, "--workers", "1", "--max-keepalive-requests", "3", "--metrics", "0"];
        let mut site = Site::start(&[&others[..], &limits].concat());
        let before = site.counters();
        let long = "x".repeat(2000);
        let many = "A: b\r\n".repeat(5);
        for (request, status, count) in [
            (format!("GET / HTTP/1.1\r\nHost: a\r\nA: {long}\r\n\r\n"), "431", 3),
            (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), "431", 2),
            (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", &long[..100]), "414", 4),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(), "413", 1),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(), "400", 1),
        ] {
            for _ in 0..count {
                let mut client = site.client();
                client.send(request.as_bytes());
                client.expect(status, "\n");
            }
        }
        let mut client = site.client();
        (0..3).for_each(|_| client.get());
        client.expect_end();
        let mut client = site.client();
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        client.expect("200", "hello");
        let expected = [
            ("limit_max_header_size", 3),
            ("limit_max_headers", 2),
            ("limit_max_uri_size", 4),
            ("limit_max_body_size", 1),
            ("limit_max_keepalive_requests", 1),
            ("limit_keepalive_timeout", 0),
            ("responses_4xx", 11),
            // No head was read of the refused requests.
            ("protocol_http10", 1),
            ("protocol_http11", 3),
        ];
        site.expect(&before, expected);
        let scrape = Scrape::of(&MetricsAddress::said_in(&site.server.log()));
        for (limit, count) in
            [("max-header-size", 3.0), ("max-uri-size", 4.0), ("max-keepalive-requests", 1.0), ("queue-limit", 0.0)]
        {
            assert_eq!(scrape.get(&format!("oribi_limits_hit_total{{limit=\"{limit}\"}}")), count, "{limit}");
        }
        assert_eq!(scrape.get("oribi_requests_total{protocol=\"http11\"}"), 3.0);
    }
}

#[test]
fn who_takes_too_long_is_counted_by_what_was_waited_for() {
    for edge in SHAPES {
        let folder = Folder::new();
        std::fs::File::create(folder.file("large")).and_then(|file| file.set_len(64 << 20)).expect("the folder is ours");
        let files = format!("/f={}", folder.0.display());
        let times = ["--header-timeout", "2s", "--keepalive-timeout", "300ms", "--write-timeout", "300ms"];
        let mut site = Site::start(&[&["--edge", edge, "--workers", "1", "--static", &files][..], &times].concat());
        let before = site.counters();
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut idle = site.client();
            idle.get();
            clients.push(idle);
        }
        let mut slow = site.client();
        slow.send(b"GET /f/large HTTP/1.1\r\nHost: a\r\n\r\n");
        clients.push(site.client());
        // One reads nothing, and the last one says nothing.
        let expected = [
            ("limit_keepalive_timeout", 2),
            ("limit_write_timeout", 1),
            ("connections_silent", 1),
            ("connections_closed", 4),
            ("head_timeouts", 0),
        ];
        site.expect(&before, expected);
        clients.iter_mut().for_each(Client::expect_end);
    }
}

#[test]
fn content_without_a_place_is_counted() {
    for edge in SHAPES {
        let folder = Folder::new();
        let place = folder.file("content");
        std::fs::create_dir(&place).expect("the folder is ours");
        let room = ["--temporary-directory", place.to_str().expect("a plain path"), "--body-buffer-size", "1k"];
        let mut site = Site::start(&[&["--edge", edge, "--workers", "1"][..], &room].concat());
        let before = site.counters();
        std::fs::remove_dir(&place).expect("it is empty");
        let mut client = site.client();
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        client.expect("507", "\n");
        site.expect(&before, [("limit_temporary_directory", 1), ("limit_descriptors", 0), ("responses_5xx", 1)]);
    }
}

#[test]
fn requests_of_web_servers_are_counted_and_those_that_are_too_many() {
    /// FCGI_BEGIN_REQUEST of a responder that keeps the connection.
    const fn begin(id: u8) -> [u8; 16] {
        [1, 1, 0, id, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    }
    for edge in SHAPES {
        let more = ["--listen", "fcgi://127.0.0.1:0", "--max-fastcgi-requests", "2", "--metrics", "0"];
        let mut site = Site::start(&[&["--edge", edge, "--workers", "1"][..], &more].concat());
        let before = site.counters();
        let addresses = site.server.addresses();
        let address = addresses.iter().find_map(|address| address.strip_prefix("fcgi://")).expect("one for web servers");
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        (1..=5).for_each(|id| stream.write_all(&begin(id)).expect("it is open"));
        let expected = [("protocol_fastcgi", 2), ("limit_max_fastcgi_requests", 3), ("protocol_http11", 0)];
        site.expect(&before, expected);
        let place = MetricsAddress::said_in(&site.server.log());
        let open = "oribi_connections_by_protocol{protocol=\"fastcgi\"}";
        wait_until("the connection is told of", || Scrape::of(&place).get(open) == 1.0);
        drop(stream);
        wait_until("it has gone", || Scrape::of(&place).get(open) == 0.0);
    }
}
