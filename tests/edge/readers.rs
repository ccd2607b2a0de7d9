//! Clients that take large responses slowly, or not at all, keep no worker: the rest of a response waits in a file.

use crate::connection::{Connection, request};
use crate::http2::{DATA, HEADERS, RESET};
use crate::language::{Language, Site};
use crate::response::letters;
use crate::server::wait_until;
use crate::status::Counters;
use crate::streams::Client;
use crate::turn;
use crate::wire::Wire;
use std::io::{Read, Write};

crate::in_every_language!(
    readers_of_streams_keep_no_worker,
    streams_without_room_on_one_connection_keep_no_worker,
    an_app_that_dies_behind_a_slow_reader_is_seen_by_it,
    where_no_file_can_be_written_the_app_waits,
    whole_responses_leave_memory,
);

/// A number of bytes that is larger than the kernel's buffers at both ends of a connection.
const LENGTH: usize = 8_000_000;

/// Sends a request, and reads only the first byte of the response, which shows that an app has begun to answer.
pub fn slow_reader(site: &Site, target: &str) -> Wire {
    let mut wire = Wire::of_http1(site.address).expect("the server listens");
    rustix::net::sockopt::set_socket_recv_buffer_size(wire.socket(), 16 << 10).expect("it is ours");
    wire.write_all(&request("GET", target, &[])).and_then(|()| wire.flush()).expect("the server keeps the connection");
    wire.read_exact(&mut [0]).expect("the response begins");
    wire
}

/// Returns the rest of a response, and whether the response is complete.
fn rest_of(mut wire: Wire) -> (Vec<u8>, bool) {
    // Now it is quick.
    rustix::net::sockopt::set_socket_recv_buffer_size(wire.socket(), 4 << 20).expect("it is ours");
    let (mut bytes, mut buffer) = (b"H".to_vec(), vec![0; 1 << 20]);
    loop {
        if bytes.len() > LENGTH {
            match crate::response::take(&mut bytes.clone(), false) {
                Ok(Some(response)) => return (response.content, true),
                Ok(None) => {}
                Err(why) => panic!("{why}"),
            }
        }
        match wire.read(&mut buffer) {
            Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
            Ok(0) | Err(_) => return (bytes, false),
        }
    }
}

fn readers_of_streams_keep_no_worker(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let readers = [1, 2].map(|number| (number, slow_reader(&site, &format!("/stream?{number}&{LENGTH}&500"))));
    Connection::open(site.address).get_fast(3);
    for (number, wire) in readers {
        let (content, is_whole) = rest_of(wire);
        assert!(is_whole && content == letters(number, LENGTH), "{number}: {} bytes", content.len());
    }
}

fn streams_without_room_on_one_connection_keep_no_worker(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let streams = [1, 3];
    let requests = streams.map(|id| (id, format!("/stream?{id}&{LENGTH}&500")));
    let mut client = Client::open(site.address, &requests, false);
    client.receive_until(|frames| frames.iter().filter(|frame| frame.kind == HEADERS).count() == streams.len());
    Connection::open(site.address).get_fast(3);
    assert!(client.frames.iter().all(|frame| frame.kind != DATA), "there is no room");
    client.make_room(streams);
    client.receive_whole(streams.len());
    for id in streams {
        assert!(client.content(id) == letters(id.into(), LENGTH), "{id}: {} bytes", client.content(id).len());
    }
    assert!(client.frames.iter().all(|frame| frame.kind != RESET));
}

fn an_app_that_dies_behind_a_slow_reader_is_seen_by_it(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let readers = [1, 2].map(|number| slow_reader(&site, &format!("/broken?{number}&{LENGTH}&500")));
    wait_until("both apps have died", || site.server.log().matches("broken off").count() >= 2);
    for wire in readers {
        assert!(!rest_of(wire).1, "it looks like a whole response");
    }
    Connection::open(site.address).get_fast(3);
}

fn where_no_file_can_be_written_the_app_waits(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--temporary-directory", "/nonexistent/directory"]);
    let readers = [1, 2].map(|number| (number, slow_reader(&site, &format!("/stream?{number}&{LENGTH}&500"))));
    wait_until("the log says why", || {
        site.server.log().contains("cannot write a response to a temporary file in /nonexistent")
    });
    for (number, wire) in readers {
        let (content, is_whole) = rest_of(wire);
        assert!(is_whole && content == letters(number, LENGTH), "{number}: {} bytes", content.len());
    }
    assert_eq!(site.server.log().matches("cannot write a response").count(), 1, "it is said once");
}

fn whole_responses_leave_memory(language: Language) {
    let _turn = turn::beside_others();
    let folder = crate::server::Folder::new();
    let control = folder.file("control");
    let path = control.to_str().expect("a plain path");
    let site = language.start(&["--workers", "2", "--output-memory-total", "1m", "--control", path]);
    let readers: Vec<(u64, Wire)> =
        (1..=4).map(|number| (number, slow_reader(&site, &format!("/big?{number}&{LENGTH}")))).collect();
    // The first may stay in memory until there is too much.
    wait_until("most of it is in files", || Counters::of(&control).get("spooled_bytes") > 3.0 * 1_000_000.0);
    assert!(Counters::of(&control).get("spooled_responses") >= 3.0);
    for (number, wire) in readers {
        let (content, is_whole) = rest_of(wire);
        assert!(is_whole && content == letters(number, LENGTH), "{number}: {} bytes", content.len());
    }
}
