//! A killed edge takes its connections with it, and no others; no client gets a byte of another one's answer.

use crate::budget::Until;
use crate::connection::Connection;
use crate::language::{Language, Site};
use crate::report::Outcome;
use crate::response::letters;
use crate::scene::soon;
use crate::server::{runs, send};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

pub const NAME: &str = "killed edge";

/// The least number of connections of each edge, and the largest number of all connections.
const EACH: usize = 6;
const MOST: u64 = 200;

/// The size of each answer.
const LENGTH: usize = 50_000;

pub fn run(language: Language, until: &Until) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::new(language, NAME);
    let site = language.start(&["--edge", "on", "--edges", "2", "--workers", "2"]);
    let mut lost = 0;
    while !until.is_over(outcome.rounds) {
        match round(&site, outcome.rounds) {
            Ok(closed) => lost += closed,
            Err(why) => {
                outcome.faults.push(why);
                break;
            }
        }
        outcome.count(NAME, 1);
        outcome.rounds += 1;
    }
    outcome.remark = Some(format!("{lost} connections of killed edges closed, and no others"));
    outcome.keep_log_if_needed(&site.server.log());
    outcome.took = begun.elapsed();
    outcome
}

/// Kills one of two edges while each connection has an open request. Returns the number of connections that the edge had.
fn round(site: &Site, round: usize) -> Result<usize, String> {
    let edges = site.edges();
    let mut connections: Vec<(u64, Connection)> = Vec::new();
    while edges.iter().any(|edge| ports_of(*edge).len() < EACH) {
        let number = connections.len() as u64;
        if number >= MOST {
            return Err(format!("of {MOST} connections, an edge has fewer than {EACH}"));
        }
        let mut connection = Connection::open(site.address);
        connection.get_fast(number);
        connections.push((number, connection));
    }
    let edge = *edges.get(round % edges.len().max(1)).ok_or("there is no edge")?;
    let of_edge = ports_of(edge);
    for (number, connection) in &mut connections {
        let target = if *number % 2 == 0 { format!("/nap?{number}&0.05") } else { format!("/stream?{number}&{LENGTH}&5") };
        connection.ask(&target);
    }
    send(edge, Signal::KILL);
    let mut closed = 0;
    for (number, connection) in &mut connections {
        let expected = if *number % 2 == 0 { format!("nap {number}\n").into_bytes() } else { letters(*number, LENGTH) };
        let belongs = of_edge.contains(&connection.own_address().port());
        match connection.response(false) {
            Ok(response) if response.status == 200 && response.content == expected => {}
            Ok(response) => return Err(format!("request {number}: a wrong answer: {response:?}")),
            Err(_) if belongs => {}
            Err(why) => return Err(format!("request {number} to the edge that lives: {why}")),
        }
        if belongs {
            closed += 1;
        } else {
            connection.get_fast(*number);
        }
    }
    soon("another edge", || !runs(edge) && site.edges().len() == 2)?;
    Ok(closed)
}

/// The clients' ports of the connections that a process has.
fn ports_of(process: u32) -> BTreeSet<u16> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inodes: BTreeSet<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())).collect();
    // local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode (proc(5)).
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = rows.filter(|row| row.get(9).is_some_and(|inode| inodes.contains(*inode)));
    let ports = own.filter_map(|row| u16::from_str_radix(row.get(2)?.rsplit_once(':')?.1, 16).ok());
    // A listener has no client.
    ports.filter(|port| *port != 0).collect()
}
