//! Tests clients that speak HTTP/2, whose requests spread over the workers.

use super::*;

/// The client's preface and empty settings.
pub(super) const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

pub(super) fn frame(kind: u8, flags: u8, id: u8, content: &[u8]) -> Vec<u8> {
    [&[0, 0, content.len() as u8, kind, flags, 0, 0, 0, id][..], content].concat()
}

/// Returns a GET on the stream with this id.
pub(super) fn get_on(id: u8, target: &str) -> Vec<u8> {
    // :method GET, :scheme http, and :path and :authority as literals.
    let block = [b"\x82\x86\x04", &[target.len() as u8][..], target.as_bytes(), b"\x01\x01a"].concat();
    frame(1, 5, id, &block)
}

#[test]
fn what_workers_have_answered_on_one_connection_leaves_together() {
    let mut site = Site::standard();
    let mut apps = [site.worker(), site.worker()];
    let client = site.world.connect();
    client.send(OPENING);
    site.run();
    let _ = client.received();
    client.send(&[1, 3, 5, 7].map(|id| get_on(id, "/")).concat());
    site.run();
    let taken: Vec<Taken> = (0..4).map(|number| apps[number % 2].take()).collect();
    let sends = site.world.sends();
    for (number, taken) in taken.into_iter().enumerate() {
        apps[number % 2].answer(taken, &format!("answer {number}"));
    }
    let received = site.received(&client);
    for number in 0..4 {
        assert!(received.contains(&format!("answer {number}")), "{received:?}");
    }
    assert_eq!(site.world.sends() - sends, 1, "one call for all that was at hand");
    // A single answer does not wait for another.
    client.send(&get_on(9, "/"));
    site.run();
    apps[0].echo();
    assert!(site.received(&client).contains("GET / "));
}
