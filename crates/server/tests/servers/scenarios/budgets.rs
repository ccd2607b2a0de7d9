//! Clients that hold as much as they can, in every way in which a client can hold something: the server stays within each of its
//! budgets, whoever came last keeps what it has, and other clients are answered.

use super::frames::{DATA, END_HEADERS, HEADERS, INITIAL_WINDOW, asks, frame, head, offers, opening, window_update};
use super::harness::*;
use super::records::{self, PARAMS, RESPONDER, Reader, STDIN};
use super::response::read_only;
use oribi_host::{Reply, Request};
use oribi_io::Client;
use oribi_server::config::{Protocol, Settings};
use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The size of a response, and of a request's content.
const SIZE: usize = 200_000;
/// The bounds: bytes in memory, for responses and for content; bytes of responses in files; open files with content.
const MEMORY: u64 = 2_500_000;
const SPOOLED: u64 = 1_500_000;
const FILES: u64 = 8;
/// The number of clients that hold something, and of requests of each if its connection carries several.
const CLIENTS: usize = 30;
const REQUESTS: u32 = 8;

/// The content of responses and requests.
fn content() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(SIZE));
    &CONTENT
}

/// Answers with the kind of response that the target names. A streaming app stops where it would have to wait.
fn app(request: &Request<'_>, reply: Reply<'_>) {
    match request.head.path() {
        b"/whole" => _ = reply.send(ok(), &[content()]),
        b"/memory" => {
            let file = rustix::fs::memfd_create("response", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("memory is there");
            let mut file = std::fs::File::from(file);
            file.write_all(content()).expect("memory is there");
            let _ = reply.send_file(ok(), file, 0, SIZE as u64);
        }
        b"/stream" => {
            let (outlet, exchange) = reply.detach();
            outlet.start(exchange, ok()).expect("the client is there");
            for piece in content().chunks(10_000) {
                if !outlet.offer(exchange, piece).is_ok_and(|has_room| has_room) {
                    return;
                }
            }
            let _ = outlet.finish(exchange);
        }
        _ => reply.send(ok(), &[b"small"]).expect("the client is there"),
    }
}

/// Begins to hold as much as one client can. The text is the target of a response that is not read.
type Hold = fn(&mut Server, &str) -> Client;

fn reader(server: &mut Server, target: &str) -> Client {
    let client = server.connect();
    client.set_window(100);
    client.send(&get(target));
    server.run();
    client
}

fn streams_without_room(server: &mut Server, target: &str) -> Client {
    let client = server.connect();
    client.send(&opening(&[(INITIAL_WINDOW, 0)]));
    (0..REQUESTS).for_each(|number| client.send(&asks(2 * number + 1, target)));
    server.run();
    client
}

fn streams_with_room_behind_a_full_socket(server: &mut Server, target: &str) -> Client {
    let client = server.connect();
    client.set_window(100);
    client.send(&[opening(&[(INITIAL_WINDOW, 1 << 24)]), window_update(0, 1 << 24)].concat());
    (0..REQUESTS).for_each(|number| client.send(&asks(2 * number + 1, target)));
    server.run();
    client
}

fn web_server(server: &mut Server, target: &str) -> Client {
    let client = server.connect();
    client.set_window(100);
    (0..REQUESTS as u16).for_each(|number| client.send(&records::request(number + 1, "GET", target, b"")));
    server.run();
    client
}

fn upload(server: &mut Server, _: &str) -> Client {
    let client = server.connect();
    let bytes = post("/", content());
    client.send(&bytes[..bytes.len() - 1]);
    server.run();
    client
}

fn upload_in_chunks(server: &mut Server, _: &str) -> Client {
    let client = server.connect();
    let bytes = post_chunked("/", content(), 1000);
    client.send(&bytes[..bytes.len() - 3]);
    server.run();
    client
}

fn uploads_on_streams(server: &mut Server, _: &str) -> Client {
    let client = server.connect();
    client.send(&opening(&[]));
    for number in 0..REQUESTS {
        client.send(&[offers(2 * number + 1, "/", &[]), frame(DATA, 0, 2 * number + 1, &content()[..16_000])].concat());
        server.run();
    }
    client
}

fn heads_on_streams(server: &mut Server, _: &str) -> Client {
    let client = server.connect();
    client.send(&opening(&[]));
    // A value of 15,000 bytes, whose length has three (RFC 7541, section 5.1).
    let length = 15_000 - 127;
    let value = [&[0, 1, b'x', 0x7f, 0x80 | (length % 128) as u8, (length / 128) as u8][..], &[b'v'; 15_000]].concat();
    for number in 0..REQUESTS {
        client.send(&frame(HEADERS, END_HEADERS, 2 * number + 1, &[head("POST", "/", &[]), value.clone()].concat()));
        server.run();
    }
    client
}

fn uploads_of_a_web_server(server: &mut Server, _: &str) -> Client {
    let client = server.connect();
    let length = SIZE.to_string();
    let variables = [("REQUEST_METHOD", "POST"), ("REQUEST_URI", "/"), ("CONTENT_LENGTH", &length)];
    for id in 1..=REQUESTS as u16 {
        let begun = [records::begin(id, RESPONDER, true), records::stream(PARAMS, id, &records::pairs(&variables), 60_000)];
        client.send(&[&begun.concat()[..], &records::record(STDIN, id, &content()[..20_000])].concat());
        server.run();
    }
    client
}

/// The responses that clients do not read.
const RESPONSES: &[&str] = &["/whole", "/memory", "/stream"];

/// The ways to hold something, with the protocol of the client and the targets of its requests.
const HOLDERS: [(&str, Protocol, Hold, &[&str]); 9] = [
    ("a reader", Protocol::Http, reader, RESPONSES),
    ("streams without room", Protocol::Http, streams_without_room, RESPONSES),
    ("streams behind a full socket", Protocol::Http, streams_with_room_behind_a_full_socket, RESPONSES),
    ("a web server that reads nothing", Protocol::FastCgi, web_server, RESPONSES),
    ("an upload", Protocol::Http, upload, &["/"]),
    ("an upload in chunks", Protocol::Http, upload_in_chunks, &["/"]),
    ("uploads on streams", Protocol::Http, uploads_on_streams, &["/"]),
    ("heads on streams", Protocol::Http, heads_on_streams, &["/"]),
    ("uploads of a web server", Protocol::FastCgi, uploads_of_a_web_server, &["/"]),
];

fn settings(protocol: Protocol, takes: &str) -> Settings {
    let mut settings = Settings { protocol, ..Settings::default() };
    settings.limits.output_bytes = 50_000;
    settings.limits.output_memory_total = Some(MEMORY);
    settings.limits.output_spool_total = SPOOLED;
    settings.limits.content_memory_total = Some(MEMORY);
    settings.limits.content_files_total = Some(FILES);
    match takes {
        "nothing" => settings.limits.output_spool_bytes = 0,
        "errors" => settings.temporary_directory = PathBuf::from("/nonexistent/oribi"),
        _ => {}
    }
    settings
}

/// Expects that another client is answered.
fn expect_answer(server: &mut Server, protocol: Protocol, case: &str) {
    let client = server.connect();
    match protocol {
        Protocol::Http => assert_eq!(read_only(&server.exchange(&client, GET)).text(), "small", "{case}"),
        Protocol::FastCgi => {
            client.send(&records::request(1, "GET", "/", b""));
            server.run();
            assert_eq!(Reader::default().read(&client).take(1).text(), "small", "{case}");
        }
    }
    client.end();
    server.run();
}

#[test]
fn whatever_is_held_stays_within_its_budget() {
    for (holder, protocol, hold, targets) in HOLDERS {
        for target in targets {
            for takes in ["some", "nothing", "errors"] {
                let case = format!("{holder}, {target}, with a disk that takes {takes}");
                let mut server = Server::new(settings(protocol, takes), app);
                let (mut clients, mut most) = (Vec::new(), [0; 4]);
                for _ in 0..CLIENTS {
                    clients.push(hold(&mut server, target));
                    let held = server.lane.source().holdings().words();
                    most = std::array::from_fn(|place| most[place].max(held[place]));
                    server.advance(MOMENT * 100);
                    expect_answer(&mut server, protocol, &case);
                }
                let [content, files, responses, spooled] = most;
                assert!(content <= MEMORY && files <= FILES, "{case}: {content} bytes of content, {files} files");
                assert!(responses <= 2 * MEMORY && spooled <= SPOOLED, "{case}: {responses} bytes, {spooled} in files");
                // Otherwise the bounds would not have been reached.
                let is_much = content > MEMORY / 2 || files >= FILES || responses > MEMORY / 2 || spooled > SPOOLED / 2;
                assert!(is_much, "{case}: {most:?}");
                let last = clients.last().expect("there are some");
                assert!(!last.saw_reset(), "{case}: whoever came last is spared");
                // When all have gone, nothing is held any longer.
                for client in clients {
                    client.reset();
                    server.run();
                }
                assert_eq!(server.lane.source().holdings().words(), [0; 4], "{case}");
            }
        }
    }
}
