//! Pages that end their workers, whatever the way, keep nobody waiting: others are there at once.

use crate::connection::Connection;
use crate::language::Language;
use crate::turn;

crate::in_every_language!(pages_that_end_their_workers_keep_nobody_waiting);

/// A pause between starts would be longer than a test waits.
const PAUSE: [&str; 2] = ["--respawn-interval", "1h"];

fn pages_that_end_their_workers_keep_nobody_waiting(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = language.start(&[&PAUSE[..], &["--edge", edge, "--workers", "2"]].concat());
        for number in 0..16 {
            let way = ["kill", "segv", "vanish", "exit"][number % 4];
            let mut client = Connection::open(site.address);
            client.ask(&format!("/{way}?{number}"));
            match client.response(false) {
                Ok(response) => assert!([500, 502].contains(&response.status), "{edge}, {way}: {response:?}"),
                // Nobody else has the connection of such a worker.
                Err(why) => assert!(edge == "off" && way != "exit", "{edge}, {way}: {why}"),
            }
            // A worker that is about to leave may close it behind its answer.
            let mut other = Connection::open(site.address);
            other.ask(&format!("/fast?{number}"));
            assert_eq!(other.answer().0.status, 200, "{edge}, behind {way}");
        }
        let log = site.server.log();
        assert!(!log.contains("starts in") && !log.contains("replacements wait"), "{log}");
    }
}
