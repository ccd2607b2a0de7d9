//! WebSockets outlive the program: an upgrade hands them to the next server.

use crate::server::{Folder, Server, children, is_first, send, wait_for, wait_until};
use crate::turn;
use oribi_websocket::{Inflater, Kind, Limits, Message, Reader, client_frame};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A client with a WebSocket, which keeps what it has received.
struct Client {
    stream: TcpStream,
    reader: Reader,
    inflater: Inflater,
    received: Vec<String>,
}

impl Client {
    fn open(address: SocketAddr, deflates: bool) -> Self {
        Self::open_at(address, "/room", deflates)
    }

    fn open_at(address: SocketAddr, path: &str, deflates: bool) -> Self {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is ours");
        let offer = if deflates { "Sec-WebSocket-Extensions: permessage-deflate\r\n" } else { "" };
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{offer}\r\n"
        )
        .expect("the server reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8_lossy(&head);
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("permessage-deflate") == deflates, "{head}");
        Self { stream, reader: Reader::new(deflates), inflater: Inflater::new(), received: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server keeps the connection");
    }

    fn say(&mut self, text: &str) {
        self.write(&masked(text));
    }

    /// Receives until there are `count` messages more, and returns these.
    fn take(&mut self, count: usize) -> Vec<String> {
        while self.received.len() < count {
            let mut bytes = [0; 65_536];
            let size = self.stream.read(&mut bytes).expect("a message");
            assert!(size > 0, "the server has ended the connection after {:?}", self.received);
            self.read(&bytes[..size]);
        }
        self.received.drain(..count).collect()
    }

    /// Receives until the server closes the WebSocket, keeps the messages before, and returns its code.
    fn closed(&mut self) -> u16 {
        let mut bytes = Vec::new();
        loop {
            let mut more = [0; 4096];
            let size = self.stream.read(&mut more).expect("a close frame");
            assert!(size > 0, "the connection has ended without a close frame");
            bytes.extend_from_slice(&more[..size]);
            // Messages are short here.
            while let Some((&[first, size], rest)) = bytes.split_first_chunk()
                && rest.len() >= usize::from(size)
            {
                if first == 0x88 {
                    return u16::from_be_bytes([rest[0], rest[1]]);
                }
                let message = bytes.drain(..2 + usize::from(size)).skip(2).collect();
                self.received.push(String::from_utf8(message).expect("text"));
            }
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        // Frames of servers are not masked, and those of clients are: the reader gets each with a mask of zeros.
        let mut rest = bytes.to_vec();
        let Self { reader, inflater, received, .. } = self;
        let mut masked = Vec::new();
        while !rest.is_empty() {
            let (head, size) = match rest[1] & 127 {
                127 => (10, u32::from_be_bytes([rest[6], rest[7], rest[8], rest[9]]) as usize),
                126 => (4, usize::from(u16::from_be_bytes([rest[2], rest[3]]))),
                size => (2, usize::from(size)),
            };
            let size = head + size;
            while rest.len() < size {
                let mut more = [0; 4096];
                let count = self.stream.read(&mut more).expect("the rest of a message");
                assert!(count > 0, "the rest of a message");
                rest.extend_from_slice(&more[..count]);
            }
            rest[1] |= 128;
            masked.extend_from_slice(&rest[..head]);
            masked.extend_from_slice(&[0; 4]);
            masked.extend_from_slice(&rest[head..size]);
            rest.drain(..size);
        }
        let _ = reader.read(&mut masked, &Limits::default(), inflater, &mut |message| {
            match message {
                Message::Text(text) => received.push(text.to_owned()),
                Message::Close { code, .. } => panic!("the server has closed the WebSocket with {code}"),
                other => received.push(format!("{other:?}")),
            }
            true
        });
    }
}

/// The answer to a close frame.
fn closing() -> Vec<u8> {
    let mut bytes = Vec::new();
    client_frame(Kind::Close, &1001_u16.to_be_bytes(), [1, 2, 3, 4], &mut bytes);
    bytes
}

fn masked(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    client_frame(Kind::Text, text.as_bytes(), [1, 2, 3, 4], &mut bytes);
    bytes
}

fn start(arguments: &[&str]) -> (Server, SocketAddr) {
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/edge/apps/live.lua");
    let mut command = Command::new(crate::language::program());
    command.arg(app).args(["--listen", "127.0.0.1:0", "--workers", "2"]).args(arguments);
    let mut server = Server::run(&mut command);
    let address = server.address();
    (server, address)
}

/// Upgrades, and waits until only the new server is left, whose first process is not `before`.
fn upgrade(server: &Server, before: Option<u32>) -> u32 {
    server.signal(Signal::USR2);
    wait_for("only the new server is left", || match children(server.pid())[..] {
        [only] if Some(only) != before && is_first(only) => Some(only),
        _ => None,
    })
}

#[test]
fn silent_websockets_and_one_in_the_middle_of_a_frame_outlive_three_upgrades() {
    let _turn = turn::beside_others();
    let (mut server, address) = start(&["--edges", "2"]);
    let mut silent: Vec<Client> = (0..8).map(|number| Client::open(address, number % 2 == 0)).collect();
    let mut partial = Client::open(address, false);
    partial.say("name");
    let name = partial.take(1)[0].split(' ').nth(1).expect("its name").to_owned();
    let frame = masked("all of it");
    let mut before = None;
    for (number, part) in frame.chunks(4).take(3).enumerate() {
        partial.write(part);
        before = Some(upgrade(&server, before));
        let who = number + 1;
        silent[who].say("here");
        assert!(silent[who].take(1)[0].starts_with("1 "), "the app has kept its data");
    }
    partial.write(&frame[12..]);
    for client in silent.iter_mut().chain([&mut partial]) {
        assert_eq!(client.take(1), ["all of it"]);
    }
    partial.say("again");
    assert_eq!(partial.take(1), [format!("3 {name} again")], "the connection has kept its name");
    assert!(!server.log().contains("lost"), "{}", server.log());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn each_message_reaches_each_websocket_once_over_three_upgrades() {
    let _turn = turn::beside_others();
    let (mut server, address) = start(&["--edges", "2"]);
    let listeners: Vec<Client> = (0..30).map(|number| Client::open(address, number % 3 == 0)).collect();
    let is_over = AtomicBool::new(false);
    let (speakers, posted) = std::thread::scope(|scope| {
        let speakers: Vec<_> = (0..3)
            .map(|speaker| {
                let mut client = Client::open(address, speaker == 0);
                let is_over = &is_over;
                scope.spawn(move || {
                    for number in 1.. {
                        let text = format!("all {speaker}:{number}");
                        client.say(&text);
                        // It hears itself, so that there is one message at a time.
                        while client.take(1) != [text.as_str()] {}
                        if is_over.load(Relaxed) {
                            return number;
                        }
                    }
                    unreachable!("it ends when all upgrades are over")
                })
            })
            .collect();
        let poster = scope.spawn(|| {
            for number in 1.. {
                post(address, &format!("all post:{number}"));
                if is_over.load(Relaxed) {
                    return number;
                }
            }
            unreachable!("it ends when all upgrades are over")
        });
        let mut before = None;
        for _ in 0..3 {
            before = Some(upgrade(&server, before));
        }
        is_over.store(true, Relaxed);
        (speakers.into_iter().map(|speaker| speaker.join().expect("it was heard")).collect::<Vec<u32>>(), poster.join())
    });
    let posted: u32 = posted.expect("each was answered");
    let total = speakers.iter().sum::<u32>() + posted;
    for mut listener in listeners {
        let heard = listener.take(total as usize);
        for (speaker, count) in speakers.iter().enumerate() {
            let begin = format!("all {speaker}:");
            let numbers: Vec<u32> = heard.iter().filter_map(|text| text.strip_prefix(&begin)?.parse().ok()).collect();
            assert_eq!(numbers, (1..=*count).collect::<Vec<_>>(), "speaker {speaker}, in order");
        }
        // Two posts at two edges may overtake each other.
        let posts: BTreeSet<&String> = heard.iter().filter(|text| text.starts_with("all post:")).collect();
        assert_eq!(posts.len(), posted as usize);
        listener.say("still here");
        assert_eq!(listener.take(1).len(), 1, "nothing came twice");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn websockets_of_an_app_that_is_gone_are_closed_and_hold_nothing_up() {
    let _turn = turn::beside_others();
    let folder = Folder::new();
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/edge/apps/live.lua");
    let file = |name: &str| {
        let text = format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n[app.{name}]\nfile = \"{app}\"\nworkers = 1\n[[route]]\napp = \"{name}\"\n"
        );
        std::fs::write(folder.file("oribi.toml"), text).expect("the folder is ours");
    };
    file("chat");
    let mut command = Command::new(crate::language::program());
    let mut server = Server::run(command.arg("-c").arg(folder.file("oribi.toml")));
    let mut client = Client::open(server.address(), false);
    client.say("first");
    assert_eq!(client.take(1).len(), 1);
    // The first of them keeps the app busy, so that the others wait when the connection moves.
    for text in ["slow", "waits", "waits, too"] {
        client.say(text);
    }
    file("talk");
    upgrade(&server, None);
    assert_eq!(client.closed(), 1001);
    client.write(&closing());
    assert_eq!(client.stream.read(&mut [0; 1]).expect("the end"), 0);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn a_websocket_takes_its_events_along_and_a_stream_has_the_last_one() {
    let _turn = turn::beside_others();
    let (mut server, address) = start(&[]);
    let mut client = Client::open_at(address, "/parts", false);
    assert_eq!(client.take(1), ["welcome"]);
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is ours");
    let request = b"GET /parts HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("the server reads");
    let mut events = Vec::new();
    while !events.ends_with(b"data: welcome\n\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an event");
        events.extend_from_slice(&byte);
    }
    upgrade(&server, None);
    let mut last = String::new();
    stream.read_to_string(&mut last).expect("the end");
    assert!(last.contains("data: bye\n\n"), "{last}");
    client.say("go");
    assert_eq!(client.take(2), ["first", "second"], "it has not ended");
    server.signal(Signal::TERM);
    assert_eq!(client.closed(), 1001);
    assert_eq!(client.received, ["bye"]);
    client.write(&closing());
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn requests_of_the_old_server_reach_websockets_that_have_moved() {
    let _turn = turn::beside_others();
    let folder = Folder::new();
    let (mut server, address) = start(&[]);
    let mut client = Client::open(address, false);
    client.say("name");
    let name = client.take(1)[0].split(' ').nth(1).expect("its name").to_owned();
    let file = folder.file("goes_on");
    std::thread::scope(|scope| {
        let order = format!("{} {name}", file.display());
        scope.spawn(move || post_to(address, "/tell", &order));
        wait_until("the request has begun", || file.with_extension("begun").exists());
        server.signal(Signal::USR2);
        server.wait_for_log("handing connections over");
        client.say("moved");
        assert!(client.take(1)[0].ends_with(" moved"));
        std::fs::write(&file, "").expect("the folder is ours");
    });
    assert_eq!(client.take(2), ["told".to_owned(), "large".repeat(40_000)]);
    wait_for("only the new server is left", || match children(server.pid())[..] {
        [only] if is_first(only) => Some(only),
        _ => None,
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// A client that sends more than its app has handled, and then nothing more.
#[test]
fn messages_of_a_client_that_has_ended_are_handled_by_the_old_server() {
    let _turn = turn::beside_others();
    let (mut server, address) = start(&["--workers", "1", "--graceful-timeout", "1h"]);
    let mut client = Client::open(address, false);
    let mut listener = Client::open(address, false);
    client.say("slow");
    (0..40).for_each(|number| client.say(&format!("all {number}")));
    client.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    upgrade(&server, None);
    let wanted: Vec<String> = (0..40).map(|number| format!("all {number}")).collect();
    assert_eq!(listener.take(40), wanted);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn an_old_edge_that_hangs_keeps_no_client_from_the_new_server() {
    let _turn = turn::beside_others();
    let (mut server, address) = start(&["--graceful-timeout", "1h"]);
    let [edge] = server.edges()[..] else { panic!("{}", server.log()) };
    let mut client = Client::open(address, false);
    send(edge, Signal::STOP);
    server.signal(Signal::USR2);
    server.wait_for_log("accepting connections beside it");
    post(address, "the new server answers");
    let mut late = Client::open(address, false);
    assert_eq!(late.closed(), 1013, "it would miss messages");
    // The clients of the old edge move when it goes on, and have missed none.
    send(edge, Signal::CONT);
    assert_eq!(client.take(1), ["the new server answers"]);
    client.say("again");
    assert!(client.take(1)[0].ends_with(" again"), "the message came once");
    wait_for("only the new server is left", || match children(server.pid())[..] {
        [only] if is_first(only) => Some(only),
        _ => None,
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// Publishes a message by a request of its own.
fn post(address: SocketAddr, text: &str) {
    post_to(address, "/say", text);
}

fn post_to(address: SocketAddr, path: &str, text: &str) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is ours");
    let length = text.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{text}")
        .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
}
