//! Incomplete request content: its memory and files are bounded, and a client that holds much does not exclude others.

use super::frames::*;
use super::harness::*;
use super::response::*;
use oribi_host::{Content, Reply, Request};
use oribi_io::Client;
use oribi_server::config::Settings;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// Content of up to this size is in memory.
const IN_MEMORY: usize = 30_000;

fn settings(memory: u64, files: u64) -> Settings {
    let mut settings = Settings::default();
    settings.limits.content_memory_bytes = IN_MEMORY;
    settings.limits.content_memory_total = Some(memory);
    settings.limits.content_files_total = Some(files);
    settings
}

/// Begins a request on a new connection, with content of `size` bytes, of which the first `sent` bytes have been sent.
fn begin(server: &mut Server, size: usize, sent: usize) -> Client {
    let client = server.connect();
    let bytes = post("/", &pattern(size));
    client.send(&bytes[..bytes.len() - size + sent]);
    server.run();
    client
}

/// Sends the rest of the content, and expects the answer.
#[track_caller]
fn finish(server: &mut Server, client: &Client, size: usize, sent: usize) {
    let answer = server.exchange(client, &pattern(size)[sent..]);
    assert_eq!(read_only(&answer).body, [b"POST / ", &pattern(size)[..]].concat());
}

/// The status of an answer, if there is one.
fn status(client: &Client) -> Option<String> {
    let answer = String::from_utf8_lossy(&client.received()).into_owned();
    answer.split(' ').nth(1).map(str::to_owned)
}

#[test]
fn the_oldest_makes_room_for_one_that_comes() {
    // The destination of the content; its size, and the bytes sent; the bounds, which three such requests reach.
    for (place, size, sent, memory, files) in [
        ("a file", 50_000, 100, 100_000, 3),
        ("a file, with all but its end", 50_000, 49_999, 1_000_000, 3),
        ("memory", 25_000, 20_000, 60_000, 0),
        ("the input buffer", 10_000, 5000, 3 * 16_384, 1),
    ] {
        let mut server = Server::new(settings(memory, files), echo);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(begin(&mut server, size, sent));
            server.advance(SECOND * 5);
        }
        assert!(clients.iter().all(|client| status(client).is_none()), "{place}: they fit");
        for next in 0..3 {
            clients.push(begin(&mut server, size, sent));
            assert_eq!(status(&clients[next]).as_deref(), Some("503"), "{place}");
            assert!(clients[next].saw_end(), "{place}: its connection ends");
            server.advance(SECOND * 5);
        }
        for client in &clients[3..] {
            finish(&mut server, client, size, sent);
        }
    }
}

#[test]
fn content_that_comes_stays_before_content_that_does_not() {
    let mut server = Server::new(settings(100_000, 2), echo);
    let first = begin(&mut server, 2_000_000, 1_000_000);
    server.advance(SECOND * 10);
    let idle = begin(&mut server, 50_000, 100);
    server.advance(SECOND * 5);
    let last = begin(&mut server, 50_000, 100);
    assert_eq!((status(&first), status(&idle).as_deref(), status(&last)), (None, Some("503"), None));
    finish(&mut server, &first, 2_000_000, 1_000_000);
    finish(&mut server, &last, 50_000, 100);
}

#[test]
fn larger_content_goes_before_smaller() {
    let mut server = Server::new(settings(40_000, 0), echo);
    let (small, large) = (begin(&mut server, 20_000, 17_000), begin(&mut server, 25_000, 20_000));
    server.advance(SECOND * 60);
    let last = begin(&mut server, 20_000, 17_000);
    assert_eq!((status(&small), status(&large).as_deref(), status(&last)), (None, Some("503"), None));
}

#[test]
fn content_leaves_memory_before_any_is_refused() {
    // There is room for three contents in memory and for two in files: the fourth moves two of them there.
    let mut server = Server::new(settings(60_000, 2), echo);
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(begin(&mut server, 25_000, 20_000));
        server.advance(SECOND);
    }
    assert!(clients.iter().all(|client| status(client).is_none()));
    clients.push(begin(&mut server, 25_000, 20_000));
    let statuses: Vec<_> = clients.iter().map(status).collect();
    let third = Some("503".to_owned());
    assert_eq!(statuses, [None, None, third, None, None, None], "there is no room for a sixth: the oldest in memory makes it");
    // Complete content takes no room, so those in memory are finished first.
    for place in [5, 4, 3, 1, 0] {
        finish(&mut server, &clients[place], 25_000, 20_000);
    }
    // Contents in files block others no more than those in memory.
    for _ in 0..5 {
        let client = begin(&mut server, 25_000, 20_000);
        assert_eq!(status(&client), None);
        finish(&mut server, &client, 25_000, 20_000);
    }
}

#[test]
fn the_largest_content_leaves_memory_first() {
    let mut server = Server::new(settings(55_000, 1), echo);
    // With the large content in the only file there is room for three small ones, but not the other way round.
    let small: Vec<_> = (0..2).map(|_| begin(&mut server, 20_000, 17_000)).collect();
    let large = begin(&mut server, 29_000, 26_000);
    let last = begin(&mut server, 20_000, 17_000);
    let all = [&small[..], &[large, last]].concat();
    assert!(all.iter().all(|client| status(client).is_none()));
    finish(&mut server, &all[2], 29_000, 26_000);
    for client in [&all[0], &all[1], &all[3]] {
        finish(&mut server, client, 20_000, 17_000);
    }
}

#[test]
fn what_is_complete_or_gone_holds_nothing() {
    let mut server = Server::new(settings(20_000, 1), echo);
    for size in [10, 25_000, 50_000] {
        // One content remains all the time, and no other may count beside it.
        for _ in 0..20 {
            let client = begin(&mut server, size, size / 2);
            finish(&mut server, &client, size, size / 2);
            let client = begin(&mut server, size, size / 2);
            client.end();
            server.run();
            let client = server.connect();
            client.send(&[opening(&[]), offers(1, "/", &[]), frame(DATA, 0, 1, &pattern(size / 5))].concat());
            client.send(&frame(RST_STREAM, 0, 1, &[0; 4]));
            server.run();
            client.end();
            server.run();
        }
        let held = begin(&mut server, 50_000, 100);
        assert_eq!(status(&held), None, "it is the only one");
        finish(&mut server, &held, 50_000, 100);
    }
}

#[test]
fn requests_that_come_whole_need_no_room() {
    // There is room for the received part of one, and for nothing more.
    let mut server = Server::new(settings(100, 1), echo);
    let holder = begin(&mut server, 50_000, 100);
    for _ in 0..10 {
        let client = server.connect();
        assert_eq!(read_only(&server.exchange(&client, GET)).body, b"GET / ");
        assert_eq!(read_only(&server.exchange(&client, &post("/", b"few"))).body, b"POST / few");
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&[opening(&[]), asks(1, "/"), offers(3, "/", &[("content-length", "3")])].concat());
        client.send(&frame(DATA, END_STREAM, 3, b"few"));
        server.run();
        assert!(frames.read(&client).content(1).1 && frames.content(3).1);
    }
    assert_eq!(status(&holder), None);
    finish(&mut server, &holder, 50_000, 100);
}

#[test]
fn one_request_always_works() {
    for size in [10_000, 25_000, 50_000, 2_000_000] {
        let mut server = Server::new(settings(0, 1), echo);
        let client = begin(&mut server, size, size / 2);
        finish(&mut server, &client, size, size / 2);
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&[opening(&[]), offers(1, "/", &[])].concat());
        for piece in pattern(size).chunks(10_000) {
            client.send(&frame(DATA, 0, 1, piece));
            server.run();
        }
        client.send(&frame(DATA, END_STREAM, 1, b""));
        server.run();
        client.send(&[window_update(0, 10 << 20), window_update(1, 10 << 20)].concat());
        server.run();
        assert_eq!(frames.read(&client).content(1).0.len(), "POST / ".len() + size, "{size} bytes");
    }
}

/// Sends `size` bytes of content of a stream, in frames.
fn data(server: &mut Server, client: &Client, id: u32, size: usize, ends: bool) {
    for piece in pattern(size).chunks(10_000) {
        client.send(&frame(DATA, 0, id, piece));
    }
    if ends {
        client.send(&frame(DATA, END_STREAM, id, b""));
    }
    server.run();
}

#[test]
fn streams_beyond_the_share_of_their_connection_wait_for_earlier_ones() {
    for announced in [false, true] {
        let places: Rc<RefCell<Vec<bool>>> = Rc::default();
        let list = places.clone();
        let mut server = Server::new(settings(64 << 20, 1000), move |request: &Request<'_>, reply: Reply<'_>| {
            list.borrow_mut().push(matches!(request.content, Content::File { .. }));
            reply.send(ok(), &[content(request).len().to_string().as_bytes()]).expect("the client is there");
        });
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&opening(&[]));
        let ids = (0..20).map(|number| 2 * number + 1);
        let fields: &[(&str, &str)] = if announced { &[("content-length", "400000")] } else { &[] };
        for id in ids.clone() {
            client.send(&offers(id, "/", fields));
            data(&mut server, &client, id, 200_000, false);
        }
        let may_go_on = |frames: &Frames, id| frames.of(WINDOW_UPDATE).iter().any(|frame| frame.id == id);
        frames.read(&client);
        let going: Vec<u32> = ids.clone().filter(|id| may_go_on(&frames, *id)).collect();
        assert_eq!(going, ids.clone().take(16).collect::<Vec<u32>>(), "sixteen have files");
        for id in ids.clone() {
            assert!(may_go_on(frames.read(&client), id), "the turn of {id} has come");
            data(&mut server, &client, id, 200_000, true);
        }
        frames.read(&client);
        assert!(frames.of(RST_STREAM).is_empty());
        assert!(ids.clone().all(|id| frames.content(id) == ("400000".to_owned(), true)));
        assert_eq!(*places.borrow(), [true; 20]);
    }
}

#[test]
fn a_stream_that_is_reset_makes_room_for_one_that_waits() {
    let mut server = Server::new(settings(64 << 20, 1000), echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&opening(&[]));
    for number in 0..17 {
        client.send(&offers(2 * number + 1, "/", &[]));
        data(&mut server, &client, 2 * number + 1, 200_000, false);
    }
    let may_go_on = |frames: &mut Frames| frames.read(&client).of(WINDOW_UPDATE).iter().any(|frame| frame.id == 33);
    assert!(!may_go_on(&mut frames));
    client.send(&frame(RST_STREAM, 0, 5, &[0; 4]));
    server.run();
    assert!(may_go_on(&mut frames));
}

#[test]
fn a_stream_for_which_nothing_is_left_may_be_repeated() {
    // The share of a connection is two files and 75,000 bytes.
    let mut server = Server::new(settings(600_000, 2), echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&opening(&[]));
    for (id, size) in [(1, 40_000), (3, 40_000), (5, 25_000), (7, 20_000), (9, 20_000)] {
        client.send(&offers(id, "/", &[]));
        data(&mut server, &client, id, size, false);
    }
    let resets: Vec<(u32, u32)> = frames.read(&client).of(RST_STREAM).iter().map(|frame| (frame.id, frame.code())).collect();
    assert_eq!(resets, [(9, 7)], "REFUSED_STREAM");
    for id in [1, 3, 5, 7] {
        client.send(&frame(DATA, END_STREAM, id, b""));
    }
    client.send(&window_update(0, 1 << 20));
    server.run();
    frames.read(&client);
    assert!([1, 3, 5, 7].iter().all(|id| frames.content(*id).1), "the others are served");
    client.send(&offers(11, "/", &[]));
    data(&mut server, &client, 11, 25_000, true);
    assert!(frames.read(&client).content(11).1, "and so is what follows");
}

#[test]
fn the_connection_with_the_most_makes_room_for_another_client() {
    let mut server = Server::new(settings(64 << 20, 6), echo);
    let early = begin(&mut server, 50_000, 100);
    server.advance(SECOND * 3);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&opening(&[]));
    for number in 0..5 {
        client.send(&offers(2 * number + 1, "/", &[]));
        data(&mut server, &client, 2 * number + 1, 40_000, false);
        server.advance(SECOND * 3);
    }
    let last = begin(&mut server, 50_000, 100);
    frames.read(&client);
    let resets: Vec<(u32, u32)> = frames.of(RST_STREAM).iter().map(|frame| (frame.id, frame.code())).collect();
    assert_eq!((resets, frames.status(1) == Some(0x88)), (vec![(1, 0)], false), "its oldest stream gets a 503");
    assert_eq!((status(&early), status(&last)), (None, None));
    finish(&mut server, &early, 50_000, 100);
    finish(&mut server, &last, 50_000, 100);
    data(&mut server, &client, 9, 10, true);
    assert!(frames.read(&client).content(9).1, "its other streams go on");
}

#[test]
fn small_content_needs_no_disk() {
    for (size, expected) in [(25_000, "200"), (50_000, "200"), (100_000, "200"), (100_001, "507")] {
        let mut settings = Settings { temporary_directory: PathBuf::from("/nonexistent/oribi"), ..settings(64 << 20, 100) };
        settings.limits.content_small_bytes = 100_000;
        let mut server = Server::new(settings, echo);
        for bytes in [post("/", &pattern(size)), post_chunked("/", &pattern(size), 7000)] {
            let client = server.connect();
            let answer = server.exchange(&client, &bytes);
            assert_eq!(String::from_utf8_lossy(&answer).split(' ').nth(1), Some(expected), "{size} bytes");
            assert!(expected != "200" || read_only(&answer).body == [b"POST / ", &pattern(size)[..]].concat());
        }
        let (client, mut frames) = (server.connect(), Frames::default());
        client.send(&[opening(&[(INITIAL_WINDOW, 1 << 20)]), window_update(0, 1 << 20), offers(1, "/", &[])].concat());
        data(&mut server, &client, 1, size, true);
        assert_eq!(frames.read(&client).status(1) == Some(0x88), expected == "200", "{size} bytes");
    }
}

#[test]
fn clients_that_hold_all_that_they_can_keep_nobody_out() {
    let mut server = Server::new(settings(4 << 20, 64), echo);
    let hold = |server: &mut Server| {
        let client = server.connect();
        client.send(&opening(&[]));
        for number in 0..100 {
            client.send(&offers(2 * number + 1, "/", &[("content-length", "60000")]));
            data(server, &client, 2 * number + 1, 40_000, false);
        }
        client
    };
    let mut holders: Vec<Client> = (0..6).map(|_| hold(&mut server)).collect();
    server.advance(SECOND * 10);
    for _ in 0..3 {
        let slow = begin(&mut server, 50_000, 100);
        holders.push(hold(&mut server));
        server.advance(SECOND);
        finish(&mut server, &slow, 50_000, 100);
        assert_eq!(read_only(&server.exchange(&server.connect(), GET)).body, b"GET / ");
    }
}

#[test]
fn heads_that_wait_for_their_content_count() {
    let mut server = Server::new(settings(100_000, 10), echo);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&opening(&[]));
    // A value of 15,000 bytes, whose length has three (RFC 7541, section 5.1).
    let length = 15_000 - 127;
    let value = [&[0, 1, b'x', 0x7f, 0x80 | (length % 128) as u8, (length / 128) as u8][..], &[b'v'; 15_000]].concat();
    for number in 0..8 {
        client.send(&frame(HEADERS, END_HEADERS, 2 * number + 1, &[head("POST", "/", &[]), value.clone()].concat()));
        server.advance(SECOND);
    }
    let resets: Vec<u32> = frames.read(&client).of(RST_STREAM).iter().map(|frame| frame.id).collect();
    assert_eq!(resets, [1, 3]);
}
