//! Clients that take more than their share of time, memory, descriptors or disk.

use super::client::{Answer, Ending, LAST};
use super::framing::assert_refused;
use super::servers::{Real, Server, Simulated, echo, on_both};
use oribi_server::config::Settings;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn heads_beyond_every_limit() {
    on_both(&Settings::default(), echo, |server| {
        let wide = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("X: {}\r\n", "v".repeat(8 << 10)).repeat(100));
        assert_refused(server, wide.as_bytes(), 431);
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(10_000));
        assert_refused(server, many.as_bytes(), 431);
        let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1 << 20));
        assert_refused(server, long.as_bytes(), 414);
    });
}

#[test]
fn ten_gigabytes_are_not_waited_for() {
    on_both(&Settings::default(), echo, |server| {
        assert_refused(server, b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10737418240\r\n\r\n", 413);
    });
}

#[test]
fn a_full_disk_is_a_507_without_a_call_of_the_app() {
    let mut settings = Settings { temporary_directory: PathBuf::from("/nonexistent/oribi"), ..Settings::default() };
    settings.limits.content_memory_bytes = 100_000;
    let app = |_: &oribi_host::Request<'_>, _: oribi_host::Reply<'_>| panic!("the app is called with half of the content");
    on_both(&settings, app, |server| {
        let content = vec![b'x'; 300_000];
        let length = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len());
        let chunk = format!("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", content.len());
        for head in [length, chunk] {
            let answer = server.talk(&[head.as_bytes(), &content]);
            assert_eq!(answer.statuses(), [507]);
            assert_eq!(answer.ending, Ending::End);
        }
    });
}

#[test]
fn names_that_collide_in_somebodys_hash_are_names() {
    on_both(&Settings::default(), echo, |server| {
        // Equal in length and in all bytes but the last two.
        let fields: String = (0..98).map(|number| format!("X-Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{number:02}: v\r\n")).collect();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let answer = server.talk(&[request.repeat(50).as_bytes(), LAST]);
        assert_eq!(answer.statuses(), [200; 51]);
    });
}

#[test]
fn ten_thousand_requests_in_one_packet_are_all_answered() {
    on_both(&Settings::default(), echo, |server| {
        let requests: String = (0..10_000).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        // If a client only sends, its responses reach the limit for waiting output. This client sends the rest only when its
        // first half has been sent, and the kernel takes the responses meanwhile.
        let (first, rest) = requests.split_at(requests.len() / 2);
        let answer = server.talk(&[first.as_bytes(), rest.as_bytes(), LAST]);
        let responses = answer.responses();
        assert_eq!(responses.len(), 10_001);
        for (number, response) in responses[..10_000].iter().enumerate() {
            assert_eq!(response.body, format!("GET /{number} "));
        }
    });
}

#[test]
fn a_head_at_a_byte_a_time_has_one_deadline() {
    let mut server = Simulated::new(&Settings::default(), echo);
    let client = server.world.connect();
    for byte in b"GET / HTTP/1.1\r\n".iter().chain(b"X: y\r\n".iter().cycle()) {
        server.send(&client, &[*byte]);
        if client.saw_end() {
            break;
        }
        server.world.advance(10 * SECOND);
    }
    let received = client.received();
    assert!(received.starts_with(b"HTTP/1.1 408 "));
    // As many bytes as the attacker had time for: the default is 30 seconds.
    assert!(server.lane.source().connections() <= 1);
    client.end();
    server.run();
    assert_eq!(server.lane.source().connections(), 0);
}

#[test]
fn content_at_a_byte_a_time_has_one_deadline() {
    let mut server = Simulated::new(&Settings::default(), echo);
    let client = server.world.connect();
    server.send(&client, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let mut sent = 0;
    while !client.saw_end() {
        server.world.advance(10 * SECOND);
        server.send(&client, b"x");
        sent += 1;
        assert!(sent <= 31, "five minutes are the default");
    }
    assert!(client.received().starts_with(b"HTTP/1.1 408 "));
}

#[test]
fn sixty_thousand_idle_connections_make_room_for_one_more() {
    let mut settings = Settings::default();
    settings.limits.connections = 60_000;
    let mut server = Simulated::new(&settings, echo);
    let clients: Vec<_> = (0..60_000).map(|_| server.world.connect()).collect();
    clients.iter().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    server.run();
    assert_eq!(server.lane.source().connections(), 60_000);
    let newcomer = server.world.connect();
    server.send(&newcomer, LAST);
    assert!(newcomer.received().starts_with(b"HTTP/1.1 200 "));
    assert_eq!(clients.iter().filter(|client| client.closed()).count(), 1);
}

#[test]
fn a_flood_on_one_real_connection_leaves_others_alone() {
    let settings = Settings::default();
    let mut server = Real::new(&settings, echo);
    let mut flood = server.connect();
    let mut reader = flood.try_clone().expect("a descriptor");
    let requests = b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20_000);
    let sender = std::thread::spawn(move || {
        flood.write_all(&requests).expect("the server reads on");
        flood.write_all(LAST).expect("the server reads on");
    });
    let mut first = [0; 1];
    reader.read_exact(&mut first).expect("it is answered");
    for _ in 0..100 {
        assert_eq!(server.talk(&[LAST]).statuses(), [200]);
    }
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).expect("an orderly end");
    sender.join().expect("no panic");
    let answered = rest.windows(9).filter(|window| window == b"TTP/1.1 2").count();
    assert_eq!(answered, 20_001);
    server.stop();
}

#[test]
fn a_slow_real_reader_leaves_others_alone() {
    let app = |request: &oribi_host::Request<'_>, reply: oribi_host::Reply<'_>| {
        if request.head.target() == b"/last" {
            return echo(request, reply);
        }
        let large = vec![b'x'; 32 << 20];
        // The client may disconnect.
        let _ = reply.send(oribi_message::ResponseHead { status: 200, fields: &[] }, &[&large]);
    };
    let mut server = Real::new(&Settings::default(), app);
    let mut slow: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("the server is there");
    }
    for _ in 0..20 {
        assert_eq!(server.talk(&[LAST]).statuses(), [200]);
    }
    for mut stream in slow {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an orderly end");
        assert!(all.ends_with(&[b'x'; 100]) && all.len() > 32 << 20);
    }
    server.stop();
}

#[test]
fn nothing_is_lost_between_small_buffers() {
    let mut settings = Settings::default();
    settings.limits.content_memory_bytes = 50_000;
    let server = Real::new(&settings, echo);
    let clients: Vec<_> = (0..8_usize)
        .map(|client| {
            let stream = server.connect();
            // Smaller than the sent data, so that both sides constantly wait for each other.
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).expect("it is ours");
            rustix::net::sockopt::set_socket_send_buffer_size(&stream, 64 << 10).expect("it is ours");
            std::thread::spawn(move || {
                let mut requests = Vec::new();
                let mut expected = Vec::new();
                for number in 0..60 {
                    let size = [0, 10, 5000, 16_300, 70_000, 300_000][(client + number) % 6];
                    let content = vec![b'a' + (number % 26) as u8; size];
                    requests.push(
                        [format!("PUT /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n").as_bytes(), &content]
                            .concat(),
                    );
                    expected.push([format!("PUT /{number} ").as_bytes(), &content].concat());
                }
                requests.push(LAST.to_vec());
                let mut reader = stream.try_clone().expect("a descriptor");
                let mut writer = stream;
                let sender = std::thread::spawn(move || {
                    for piece in requests.concat().chunks(1000 + client * 777) {
                        writer.write_all(piece).expect("the server reads on");
                    }
                });
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).expect("an orderly end");
                sender.join().expect("no panic");
                let responses = Answer { bytes, ending: Ending::End }.responses();
                assert_eq!(responses.len(), 61);
                for (response, expected) in responses.iter().zip(expected) {
                    assert!(response.body.as_bytes() == expected, "{}", response.head);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("no panic");
    }
    server.stop();
}
