//! Tests requests and responses on their way through the pool.

use super::*;
use oribi_pool::DescriptorRequest;

#[test]
fn a_worker_answers_and_the_connection_stays() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.world.connect();
    for number in 0..3 {
        assert_eq!(site.exchange(&client, &post(&format!("/{number}"), b"content")), "");
        app.echo();
        assert_response(&site.received(&client), "200", &format!("POST /{number} content"));
    }
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(&[get("/1"), get("/2"), get("/3")].concat());
    for number in 1..=3 {
        app.echo();
        assert_response(&site.received(&client), "200", &format!("GET /{number} "));
    }
}

#[test]
fn requests_are_taken_in_the_order_in_which_they_came_and_by_whoever_is_free() {
    let mut site = Site::standard();
    let (mut one, mut other) = (site.worker(), site.worker());
    let clients: Vec<Client> = (0..4).map(|number| site.asking(&get(&format!("/{number}")))).collect();
    let stuck = one.take();
    assert_eq!(one.seen(), "GET /0 ");
    for (number, client) in clients.iter().enumerate().skip(1) {
        other.echo();
        assert_response(&site.received(client), "200", &format!("GET /{number} "));
    }
    one.answer(stuck, "late");
    assert_response(&site.received(&clients[0]), "200", "late");
}

#[test]
fn content_that_is_larger_than_a_slot_comes_in_a_file() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let content: Vec<u8> = (0..900_000_u32).map(|number| number as u8).collect();
    for chunked in [false, true] {
        let request = if chunked {
            let mut bytes = b"POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in content.chunks(50_000) {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            bytes
        } else {
            post("/f", &content)
        };
        let client = site.asking(&request);
        let mut taken = app.take();
        assert!(app.stored.has_content_file());
        app.worker.request_descriptor(&mut taken, DescriptorRequest::Content).expect("it has room");
        site.run();
        let file = app.worker.take_descriptor(&taken).expect("the line works").expect("the file has come");
        assert!(read(file, content.len()) == content);
        app.answer(taken, "read");
        assert_response(&site.received(&client), "200", "read");
    }
}

#[test]
fn small_content_needs_no_disk() {
    let settings = Settings { temporary_directory: "/nonexistent/oribi".into(), ..Settings::default() };
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    for size in [10, 20_000, 40_000, 1 << 20] {
        let content = vec![b'x'; size];
        let client = site.asking(&post("/", &content));
        let mut taken = app.take();
        if app.stored.has_content_file() {
            app.worker.request_descriptor(&mut taken, DescriptorRequest::Content).expect("it has room");
            site.run();
            let file = app.worker.take_descriptor(&taken).expect("the line works").expect("the file has come");
            assert!(read(file, size) == content);
        }
        app.answer(taken, "read");
        assert_response(&site.received(&client), "200", "read");
    }
    let client = site.world.connect();
    let received = site.exchange(&client, &post("/", &vec![b'x'; (1 << 20) + 1]));
    assert!(received.starts_with("HTTP/1.1 507 "), "{received}");
}

#[test]
fn content_in_a_file_counts_until_its_request_is_answered() {
    let mut site = Site::standard();
    site.edge.lane.source().count_alone();
    let mut app = site.worker();
    let clients = [(); 3].map(|()| site.asking(&post("/", &[b'x'; 50_000])));
    let files = site.edge.lane.source().content_files();
    assert_eq!(files.bytes(), 3);
    for client in clients {
        let taken = app.take();
        app.answer(taken, "done");
        assert_response(&site.received(&client), "200", "done");
    }
    assert_eq!(files.bytes(), 0);
}

#[test]
fn trailers_reach_a_worker_with_content_in_the_slot_and_in_a_file() {
    let mut site = Site::standard();
    let mut app = site.worker();
    for (length, is_in_file) in [(5, false), (20_000, false), (100_000, true)] {
        let mut request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n").into_bytes();
        request.resize(request.len() + length, b'x');
        request.extend_from_slice(b"\r\n0\r\nX-Sum: 1\r\nHost: b\r\n");
        // The longest field permitted.
        request.extend_from_slice(&[b"Y: ", &b"z".repeat(8150)[..], b"\r\n\r\n"].concat());
        let client = site.asking(&request);
        let taken = app.take();
        assert_eq!(app.stored.has_content_file(), is_in_file);
        let file = std::fs::File::open("/dev/null").expect("a file");
        let request = app.stored.request(Some(file.as_fd()), None).expect("all of it");
        let trailers: Vec<_> = request.trailers.expect("some").fields().collect();
        assert_eq!(trailers, [(&b"x-sum"[..], &b"1"[..]), (b"y", &b"z".repeat(8150))]);
        app.answer(taken, "read");
        assert_response(&site.received(&client), "200", "read");
        // The slot is reused.
        site.exchange(&client, &post("/", b"content"));
        let taken = app.take();
        assert_eq!(app.stored.request(None, None).expect("all of it").trailers, None);
        app.answer(taken, "read");
        site.received(&client);
    }
}

#[test]
fn pieces_are_sent_as_they_come_and_a_head_alone_as_well() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let mut taken = app.take();
    app.worker.interim(&mut taken, &head(103, &[(b"Link", b"</a>")], Content::Interim)).expect("it has room");
    app.worker.flush(&taken);
    assert_eq!(site.received(&client), "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    app.worker.head(&mut taken, &head(200, &[(b"X-A", b"b")], Content::Started)).expect("it has room");
    app.worker.flush(&taken);
    let begun = site.received(&client);
    assert!(begun.starts_with("HTTP/1.1 200 ") && begun.contains("X-A: b\r\n") && begun.ends_with("\r\n\r\n"), "{begun}");
    assert_eq!(app.worker.content(&mut taken, b"piece"), 5);
    app.worker.flush(&taken);
    assert_eq!(site.received(&client), "5\r\npiece\r\n");
    app.worker.finish(taken);
    assert_eq!(site.received(&client), "0\r\n\r\n");
    assert_eq!(site.exchange(&client, GET), "", "the connection stays");
    app.echo();
    assert_response(&site.received(&client), "200", "GET / ");
}

#[test]
fn a_size_that_is_known_is_sent_and_kept_to() {
    for (sent, complete) in [(5, true), (3, false)] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(GET);
        let mut taken = app.take();
        app.worker.head(&mut taken, &head(200, &[], Content::Whole { size: 5 })).expect("it has room");
        assert_eq!(app.worker.content(&mut taken, &b"piece"[..sent]), sent);
        app.worker.finish(taken);
        let received = site.received(&client);
        assert!(received.contains("Content-Length: 5\r\n") && received.ends_with(&"\r\n\r\npiece"[..4 + sent]), "{received}");
        assert_eq!(client.saw_end() || client.closed(), !complete, "what is too short must not look complete");
    }
}

#[test]
fn a_client_with_all_of_its_response_does_not_wait_for_the_end_of_the_app() {
    for closes in [false, true] {
        let mut site = Site::standard();
        let (mut app, mut other) = (site.worker(), site.worker());
        let client = site.asking(GET);
        let mut taken = app.take();
        let fields: &[FieldPair<'_>] = if closes { &[(b"Connection", b"close")] } else { &[] };
        app.worker.head(&mut taken, &head(200, fields, Content::Whole { size: 5 })).expect("it has room");
        assert_eq!(app.worker.content(&mut taken, b"piece"), 5);
        app.worker.flush(&taken);
        let received = site.received(&client);
        assert!(received.ends_with("\r\n\r\npiece"), "{received}");
        assert_eq!(client.saw_end(), closes);
        if !closes {
            assert_eq!(site.exchange(&client, &get("/next")), "");
            other.echo();
            assert_response(&site.received(&client), "200", "GET /next ");
        }
        // The worker is informed that no more output is wanted.
        assert!(!app.worker.orders(&taken).gone);
        assert_eq!(app.worker.content(&mut taken, b"more"), 4);
        app.worker.flush(&taken);
        assert_eq!(site.received(&client), "");
        assert!(app.worker.orders(&taken).gone);
        app.worker.finish(taken);
        site.run();
        assert_eq!(site.edge.apps[0].table.used(), 0);
    }
}

#[test]
fn files_are_sent_from_their_place() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, b"0123456789").expect("room");
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Whole { size: 6 })).expect("it has room");
    assert_eq!(app.worker.content(&mut taken, b"<"), 1);
    app.worker.file(&mut taken, file.as_fd(), 3, 4).expect("it has room");
    assert_eq!(app.worker.content(&mut taken, b">"), 1);
    app.worker.finish(taken);
    assert_response(&site.received(&client), "200", "<3456>");
    assert!(!client.closed());
}

#[test]
fn parts_of_files_that_cannot_be_are_not_sent() {
    for (offset, size) in [(u64::MAX, 2), (i64::MAX as u64, 1), (0, 100)] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(GET);
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, b"0123456789").expect("room");
        let mut taken = app.take();
        app.worker.head(&mut taken, &head(200, &[], Content::Whole { size })).expect("it has room");
        app.worker.file(&mut taken, file.as_fd(), offset, size).expect("it has room");
        app.worker.finish(taken);
        site.run();
        assert!(client.saw_reset() || client.closed(), "{offset} {size}");
    }
}

#[test]
fn only_regular_files_are_read() {
    for path in ["/dev/zero", "/dev/urandom", "/"] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(GET);
        let file = std::fs::File::open(path).expect("the system has it");
        let mut taken = app.take();
        app.worker.head(&mut taken, &head(200, &[], Content::Whole { size: 4 })).expect("it has room");
        app.worker.file(&mut taken, file.as_fd(), 0, 4).expect("it has room");
        app.worker.finish(taken);
        site.run();
        assert!(client.saw_reset() || client.closed(), "{path}");
    }
}

#[test]
fn an_app_that_abandons_gets_its_client_an_error() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let taken = app.take();
    app.worker.abandon(taken);
    assert_response(&site.received(&client), "500", "Internal Server Error\n");
    site.exchange(&client, GET);
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
    assert_eq!(app.worker.content(&mut taken, b"half"), 4);
    app.worker.abandon(taken);
    site.run();
    assert!(client.saw_reset(), "half of a response must not look like one");
}

#[test]
fn responses_that_break_the_rules_of_http_become_errors() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let taken = app.take();
    app.answer_with(taken, 200, &[(b"X-Bad", b"a\r\nb: c")], "content");
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 500 ") && !received.contains("b: c"), "{received}");
}

#[test]
fn heads_that_make_no_sense_get_a_502_and_the_worker_is_reported() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let mut taken = app.take();
    app.worker.head(&mut taken, b"no head").expect("it has room");
    app.worker.flush(&taken);
    assert_response(&site.received(&client), "502", "Bad Gateway\n");
    let request = site.edge_link.next().expect("the keeper is asked");
    assert_eq!((request.process, request.reason), (std::process::id(), parent_link::Reason::Broken));
    app.worker.finish(taken);
    site.run();
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn files_in_front_of_the_app_need_no_worker() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("a.txt"), "a file").expect("room");
    let mut settings = Settings::default();
    settings.files.mounts.push(oribi_files::Mount { prefix: "/files".to_owned(), directory: directory.path().to_owned() });
    let mut site = Site::new(&settings);
    let client = site.world.connect();
    for _ in 0..2 {
        assert_response(&site.exchange(&client, &get("/files/a.txt")), "200", "a file");
    }
    assert_eq!(site.exchange(&client, &get("/files/none")), "");
    let mut app = site.worker();
    app.echo();
    assert_response(&site.received(&client), "200", "GET /files/none ");
}

#[test]
fn an_app_whose_wish_cannot_be_granted_is_told_so() {
    // The simulation has no socket to pass on, and the request has no content in a file.
    for request in [DescriptorRequest::Socket, DescriptorRequest::Content, DescriptorRequest::Data] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(GET);
        let mut taken = app.take();
        app.worker.request_descriptor(&mut taken, request).expect("it has room");
        assert_response(&site.received(&client), "500", "Internal Server Error\n");
        assert!(app.worker.orders(&taken).gone);
        app.answer(taken, "");
        site.exchange(&client, GET);
        app.echo();
        assert_response(&site.received(&client), "200", "GET / ");
    }
}

#[test]
fn trailers_end_a_response_and_the_connection_stays() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    for more in [false, true] {
        let mut taken = app.take();
        app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
        assert_eq!(app.worker.content(&mut taken, b"piece"), 5);
        app.worker.trailers(&mut taken, &head(0, &[(b"X-Sum", b"1")], Content::Trailers)).expect("it has room");
        if more {
            // A correct worker never does this; content after the trailers is ignored.
            app.worker.flush(&taken);
            site.run();
            app.worker.trailers(&mut taken, &head(0, &[(b"X-Sum", b"2")], Content::Trailers)).expect("it has room");
            assert_eq!(app.worker.content(&mut taken, b"more"), 4);
        }
        app.worker.finish(taken);
        let received = site.received(&client);
        assert!(received.ends_with("\r\n\r\n5\r\npiece\r\n0\r\nX-Sum: 1\r\n\r\n"), "{received}");
        assert_eq!(site.exchange(&client, GET), "", "the connection stays");
    }
    app.echo();
    assert_response(&site.received(&client), "200", "GET / ");
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn an_edge_believes_no_trailers() {
    // Forbidden, malformed, before the head, and not a head at all.
    let cases: [(bool, Vec<u8>); 5] = [
        (true, head(0, &[(b"Content-Length", b"5")], Content::Trailers)),
        (true, head(0, &[(b"X", b"a\r\nb")], Content::Trailers)),
        (false, head(0, &[(b"X-Sum", b"1")], Content::Trailers)),
        (true, head(200, &[(b"X-Sum", b"1")], Content::Started)),
        (true, b"no trailers".to_vec()),
    ];
    for (begun, bytes) in cases {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(GET);
        let mut taken = app.take();
        if begun {
            app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
            assert_eq!(app.worker.content(&mut taken, b"piece"), 5);
        }
        app.worker.trailers(&mut taken, &bytes).expect("it has room");
        app.worker.finish(taken);
        let received = site.received(&client);
        if begun {
            assert!(received.ends_with("5\r\npiece\r\n") && client.saw_reset(), "{}: {received}", bytes.escape_ascii());
        } else {
            assert!(received.starts_with("HTTP/1.1 502 "), "{received}");
        }
        assert_eq!(site.edge.apps[0].table.used(), 0);
    }
}
