//! One connection with many requests leaves workers to others that wait.

use crate::connection::Connection;
use crate::language::{Language, Site};
use crate::server::wait_until;
use crate::streams::Client;
use crate::turn;
use std::fs::File;
use std::time::{Duration, Instant};

crate::with_all_kinds_of_workers!(
    a_request_of_another_client_waits_for_one_slow_request_at_most,
    without_an_edge_it_waits_for_one_slow_request_at_most,
);

const MANY: u32 = 50;

/// Connects a client that sends many requests at once. Each request keeps a worker until it is released.
fn crowd(site: &Site) -> Client {
    let requests: Vec<(u32, String)> = (1..=MANY).map(|number| (2 * number - 1, format!("/read?{number}"))).collect();
    Client::open(site.address, &requests, true)
}

/// Returns the number of these requests that apps have begun to answer.
fn begun(site: &Site) -> usize {
    (1..=MANY).filter(|number| site.inside((*number).into()).is_some()).count()
}

/// Opens the named pipe from which apps read. While it is open, bytes in the pipe are not lost, even if no app reads them yet.
fn held_open(site: &Site) -> File {
    File::options().read(true).write(true).open(site.file("inside").join(".fifo")).expect("it is there")
}

/// Receives the answers to all requests, and releases each request but the first when the one before is answered.
fn expect_all(site: &Site, mut client: Client) {
    let _held = held_open(site);
    for count in 1..=MANY as usize {
        if count > 1 {
            site.release();
        }
        client.receive_whole(count);
    }
    for number in 1..=MANY {
        assert_eq!(client.content(2 * number - 1), format!("read {number}\n").as_bytes());
    }
}

fn a_request_of_another_client_waits_for_one_slow_request_at_most(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let (mut probing, mut other) = (Connection::open(site.address), Connection::open(site.address));
    let client = crowd(&site);
    [1, 2].into_iter().for_each(|number| _ = site.wait_inside(number));
    other.ask("/fast?99");
    let waiting = format!("\"queue\":{},", MANY - 2 + 1);
    wait_until("all of them wait", || String::from_utf8_lossy(&probing.get("/healthz").content).contains(&waiting));
    site.release();
    let response = other.answer().0;
    assert_eq!((response.status, &*response.content), (200, &b"fast 99\n"[..]));
    assert!(begun(&site) <= 3, "{} came first", begun(&site));
    expect_all(&site, client);
}

/// Without an edge, and with one worker, both clients have the same worker.
fn without_an_edge_it_waits_for_one_slow_request_at_most(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "1", "--edge", "off"]);
    let mut other = Connection::open(site.address);
    other.get_fast(98);
    let client = crowd(&site);
    site.wait_inside(1);
    other.ask("/fast?99");
    // This part is slow.
    let asked = Instant::now();
    wait_until("the app has taken its time", || asked.elapsed() > Duration::from_millis(20));
    site.release();
    let response = other.answer().0;
    assert_eq!((response.status, &*response.content), (200, &b"fast 99\n"[..]));
    assert!(begun(&site) <= 2, "{} came first", begun(&site));
    expect_all(&site, client);
}
