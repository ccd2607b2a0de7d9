//! Request content: the app gets the same bytes, wherever they are kept and in whichever pieces they arrive.

use super::harness::*;
use super::response::*;
use oribi_host::{Content, Reply, Request};
use oribi_server::config::Settings;
use oribi_test_support::{run_with_few_descriptors, take_all_descriptors};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// The kind of storage in which the app found the content of each request.
type Places = Rc<RefCell<Vec<&'static str>>>;

fn server(settings: Settings) -> (Server, Places) {
    let places = Places::default();
    let list = places.clone();
    let server = Server::new(settings, move |request: &Request<'_>, reply: Reply<'_>| {
        list.borrow_mut().push(match request.content {
            Content::None => "none",
            Content::Memory(_) => "memory",
            Content::File { .. } => "file",
        });
        echo(request, reply);
    });
    (server, places)
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.limits.content_memory_bytes = 40_000;
    settings
}

#[test]
fn sizes_around_every_boundary_whole_and_in_pieces() {
    let (mut server, places) = server(settings());
    let client = server.connect();
    let buffer = 16 << 10;
    let head = post("/", &[b'x'; 12_345]).len() - 12_345;
    let inline = buffer - head;
    let sizes = [1, 2, inline - 1, inline, inline + 1, buffer - 1, buffer, buffer + 1, 39_999, 40_000, 40_001, 65_536, 200_000];
    for size in sizes {
        for chunk in [0, 1 << 20, 5000, 777] {
            let content = pattern(size);
            let request = if chunk == 0 { post("/", &content) } else { post_chunked("/", &content, chunk) };
            let cuts =
                [0, 1, head - 1, head, head + 1, buffer - 1, buffer, buffer + 1, 39_999, 40_000 + head, request.len() - 1];
            for cut in cuts.into_iter().filter(|&cut| cut < request.len()) {
                client.send(&request[..cut]);
                server.run();
                assert_eq!(client.received(), b"");
                let response = read_only(&server.exchange(&client, &request[cut..]));
                assert!(response.body[7..] == content, "{size} bytes, chunks of {chunk}, cut at {cut}");
                let place = places.borrow_mut().pop();
                assert_eq!(place, Some(if size > 40_000 { "file" } else { "memory" }), "{size} bytes, chunks of {chunk}");
            }
            // The same in many pieces, and immediately followed by another request.
            for piece in [1000, buffer, 50_000] {
                request.chunks(piece).for_each(|part| {
                    client.send(part);
                    server.run();
                });
                let responses = read_all(&server.exchange(&client, &[&request[..], GET].concat()));
                assert_eq!(responses.len(), 3);
                assert!(responses[0].body[7..] == content && responses[1].body[7..] == content);
                assert_eq!(responses[2].text(), "GET / ");
            }
            places.borrow_mut().clear();
        }
    }
}

#[test]
fn small_requests_at_every_split() {
    let (mut server, _) = server(settings());
    let requests = [
        post("/length", b"0123456789"),
        post_chunked("/chunks", b"0123456789", 4),
        post("/empty", b""),
        post_chunked("/no-chunks", b"", 1),
        get("/none"),
        post("/last", b"\r\n\r\nGET / HTTP/1.1\r\n"),
    ]
    .concat();
    let client = server.connect();
    let whole = server.exchange(&client, &requests);
    assert_eq!(read_all(&whole).len(), 6);
    for first in 1..requests.len() {
        let client = server.connect();
        client.send(&requests[..first]);
        server.run();
        client.send(&requests[first..]);
        server.run();
        assert!(client.received() == whole, "split at {first}");
    }
    let client = server.connect();
    let mut received = Vec::new();
    for byte in &requests {
        received.extend(server.exchange(&client, &[*byte]));
    }
    assert!(received == whole, "byte by byte");
}

#[test]
fn no_content_and_empty_content_are_told_apart() {
    let (mut server, places) = server(settings());
    let client = server.connect();
    server.exchange(&client, &[get("/"), post("/", b""), post_chunked("/", b"", 1), post("/", b"x")].concat());
    assert_eq!(*places.borrow(), ["none", "memory", "memory", "memory"]);
}

#[test]
fn content_of_get_and_delete_is_content() {
    let (mut server, _) = server(settings());
    let client = server.connect();
    for method in ["GET", "DELETE", "OPTIONS", "PATCH"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n");
        let responses = read_all(&server.exchange(&client, &[request.as_bytes(), GET].concat()));
        assert_eq!(responses.len(), 2);
        assert_eq!(responses[0].text(), format!("{method} / GET /smuggled HTTP/1.1\r\n\r\n"));
    }
}

const EXPECTING: &[u8] = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[test]
fn a_client_that_waits_for_a_100_gets_one() {
    let (mut server, _) = server(settings());
    let client = server.connect();
    assert_eq!(server.exchange(&client, EXPECTING), CONTINUE);
    assert_eq!(server.exchange(&client, b"bo"), b"");
    assert_eq!(read_only(&server.exchange(&client, b"dy")).text(), "PUT / body");
    let chunked = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(server.exchange(&client, chunked), CONTINUE);
    assert_eq!(read_only(&server.exchange(&client, b"4\r\nbody\r\n0\r\n\r\n")).text(), "PUT / body");
}

#[test]
fn a_client_that_does_not_wait_gets_none() {
    let (mut server, _) = server(settings());
    let client = server.connect();
    for behind in [b"body".as_slice(), b"b"] {
        client.send(&[EXPECTING, behind].concat());
        server.run();
        client.send(&b"body"[behind.len()..]);
        server.run();
        assert_eq!(read_only(&client.received()).text(), "PUT / body");
    }
    let old = b"PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    assert_eq!(server.exchange(&client, old), b"");
    assert_eq!(read_only(&server.exchange(&client, b"body")).text(), "PUT / body");
}

#[test]
fn a_100_comes_behind_the_responses_before_it() {
    let (mut server, _) = server(settings());
    let client = server.connect();
    let received = server.exchange(&client, &[GET, GET, EXPECTING].concat());
    let statuses: Vec<_> = read_all(&received).iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 100]);
    let responses = read_all(&server.exchange(&client, &[b"body", GET].concat()));
    let texts: Vec<_> = responses.iter().map(Response::text).collect();
    assert_eq!(texts, ["PUT / body", "GET / "]);
}

#[test]
fn a_slow_reader_of_a_100_still_gets_its_answer() {
    let (mut server, _) = server(settings());
    let client = server.connect();
    client.set_window(3);
    client.send(&[GET, EXPECTING].concat());
    server.run();
    client.send(b"body");
    server.run();
    client.set_window(usize::MAX);
    server.run();
    let statuses: Vec<_> = read_all(&client.received()).iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 100, 200]);
}

#[test]
fn other_expectations_fail() {
    let (mut server, _) = server(settings());
    let client = server.connect();
    let response = read_only(&server.exchange(&client, b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 4\r\n\r\n"));
    assert_eq!((response.status, response.closes()), (417, true));
}

#[test]
fn without_a_place_for_large_content_it_is_a_507() {
    let missing = Settings { temporary_directory: PathBuf::from("/nonexistent/oribi"), ..settings() };
    let (mut server, places) = server(missing);
    for request in [post("/", &pattern(40_001)), post_chunked("/", &pattern(80_000), 1000)] {
        for cut in [0, 100, 39_000] {
            let client = server.connect();
            client.send(&request[..cut]);
            server.run();
            let mut received = client.received();
            received.extend(server.exchange(&client, &request[cut..]));
            let response = read_only(&received);
            assert_eq!((response.status, response.closes()), (507, true));
            assert!(client.saw_end() && !client.saw_reset() && !client.closed());
            client.end();
            server.run();
            assert!(client.closed() && !client.saw_reset());
        }
    }
    assert!(places.borrow().is_empty(), "no app is called");
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &post("/", &pattern(40_000)))).status, 200);
}

/// Returns the full name of the test `test`. Two programs have the tests of this file, under different names.
fn named(test: &str) -> String {
    let (_, module) = module_path!().split_once("::").expect("a module of a crate");
    format!("{module}::{test}")
}

/// The environment variable that is set in the process whose files may not grow.
const SMALL_FILES: &str = "ORIBI_TEST_SMALL_FILES";

#[test]
fn a_disk_that_fills_up_is_a_507() {
    if std::env::var_os(SMALL_FILES).is_none() {
        // Files beyond 100 KiB fail as they would on a full disk; the limit is for a separate process.
        let script = format!("trap '' XFSZ; ulimit -f 200; exec \"$0\" --exact {}", named("a_disk_that_fills_up_is_a_507"));
        let test = std::env::current_exe().expect("it runs");
        let outcome = std::process::Command::new("sh").arg("-c").arg(script).arg(test).env(SMALL_FILES, "1").output();
        let outcome = outcome.expect("there is a shell");
        let output = String::from_utf8_lossy(&outcome.stdout);
        return assert!(outcome.status.success() && output.contains(" 1 passed"), "{output}");
    }
    let (mut server, places) = server(settings());
    for request in [post("/", &pattern(300_000)), post_chunked("/", &pattern(300_000), 1000)] {
        for piece in [usize::MAX, 70_000, 1000] {
            let client = server.connect();
            for part in request.chunks(piece) {
                client.send(part);
                server.run();
            }
            let response = read_only(&client.received());
            assert_eq!((response.status, response.closes()), (507, true));
            client.end();
            server.run();
            assert!(client.closed() && !client.saw_reset());
        }
    }
    assert!(places.borrow().is_empty(), "no app is called");
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &post("/", &pattern(90_000)))).status, 200);
    assert_eq!(*places.borrow(), ["file"]);
}

#[test]
fn without_a_descriptor_for_large_content_it_is_a_503_and_the_client_may_come_back() {
    let name = "without_a_descriptor_for_large_content_it_is_a_503_and_the_client_may_come_back";
    if run_with_few_descriptors(&named(name)) {
        return;
    }
    let (mut server, places) = server(settings());
    let all = take_all_descriptors();
    for request in [post("/", &pattern(300_000)), post_chunked("/", &pattern(300_000), 1000)] {
        let client = server.connect();
        let received = server.exchange(&client, &request);
        let response = read_only(&received);
        assert_eq!((response.status, response.closes()), (503, true));
        assert_eq!(response.field("Retry-After"), Some("1"));
        client.end();
        server.run();
        assert!(client.closed() && !client.saw_reset());
    }
    assert!(places.borrow().is_empty(), "no app is called");
    drop(all);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &post("/", &pattern(300_000)))).status, 200);
    assert_eq!(*places.borrow(), ["file"]);
}

#[test]
fn content_that_is_cut_off_is_nobodys_to_answer() {
    let (mut server, places) = server(settings());
    let requests = [
        post("/", &pattern(100)),
        post("/", &pattern(30_000)),
        post("/", &pattern(90_000)),
        post_chunked("/", &pattern(100), 10),
    ];
    for request in requests {
        for reset in [false, true] {
            let client = server.connect();
            client.send(&request[..request.len() - 1]);
            server.run();
            if reset {
                client.reset();
            } else {
                client.end();
            }
            server.run();
            assert!(client.closed());
            assert_eq!(client.received(), b"");
        }
    }
    assert!(places.borrow().is_empty(), "no app is called");
    assert_eq!(server.connections(), 0);
}

#[test]
fn what_comes_behind_content_does_not_cost_the_client_its_answer() {
    let mut server = Server::standard(echo);
    let client = server.connect();
    let late = client.clone();
    // Some clients send a line end after content; here it is in flight while the app runs.
    server.app(move |request, reply| {
        late.send(b"\r\n");
        echo(request, reply);
    });
    client.send(b"POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody");
    server.run();
    assert_eq!(read_only(&client.received()).status, 200);
    assert!(client.saw_end() && !client.saw_reset());
    client.end();
    server.run();
    assert!(client.closed() && !client.saw_reset());
}
