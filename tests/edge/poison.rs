//! Pages that end their workers in any way delay no other request: other workers are there at once.

use crate::connection::Connection;
use crate::language::{Language, Site};
use crate::turn;

crate::in_every_language!(
    pages_that_end_their_workers_keep_nobody_waiting,
    workers_that_are_ended_because_they_are_stuck_keep_nobody_waiting
);

/// A pause between the starts of workers that is longer than a test waits.
const PAUSE: [&str; 2] = ["--respawn-interval", "1h"];

/// Sends a request that ends its worker.
fn ask_for_death(site: &Site, edge: &str, way: &str, number: usize) {
    let mut client = Connection::open(site.address);
    client.ask(&format!("/{way}?{number}"));
    match client.response(false) {
        Ok(response) => assert!([500, 502, 504].contains(&response.status), "{edge}, {way}: {response:?}"),
        // No other process has the connection of such a worker.
        Err(why) => assert!(edge == "off" && way != "exit", "{edge}, {way}: {why}"),
    }
}

/// Checks that another client is answered.
fn get_another(site: &Site, edge: &str, way: &str, number: usize) {
    // A worker that is about to leave may close it after its answer.
    let mut other = Connection::open(site.address);
    other.ask(&format!("/fast?{number}"));
    assert_eq!(other.answer().0.status, 200, "{edge}, behind {way}");
}

fn nothing_waited(site: &Site) {
    let log = site.server.log();
    assert!(!log.contains("starts in") && !log.contains("replacements wait"), "{log}");
}

fn pages_that_end_their_workers_keep_nobody_waiting(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = language.start(&[&PAUSE[..], &["--edge", edge, "--workers", "2"]].concat());
        for number in 0..20 {
            let way = ["kill", "segv", "vanish", "exit", "overflow"][number % 5];
            ask_for_death(&site, edge, way, number);
            get_another(&site, edge, way, number);
        }
        nothing_waited(&site);
    }
}

fn workers_that_are_ended_because_they_are_stuck_keep_nobody_waiting(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let deadlines = ["--request-kill", "200ms"];
        let site = language.start(&[&PAUSE[..], &deadlines, &["--edge", edge, "--workers", "2"]].concat());
        for number in 0..6 {
            ask_for_death(&site, edge, "c", number);
            get_another(&site, edge, "c", number);
        }
        let log = site.server.log();
        assert_eq!(log.matches(") is stopped: its app ").count(), 6, "{log}");
        nothing_waited(&site);
    }
}
