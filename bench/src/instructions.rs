//! User-space instructions per request, counted by valgrind.
//!
//! The same server runs twice, with few and with many requests. Loading the app costs the same in both runs, so the difference
//! between the two counts is the cost of the additional requests. The result is the same to about a percent when it is
//! repeated, also on a busy machine.

use crate::cell::{self, Cell};
use crate::client::Connection;
use crate::interrupt;
use crate::server::{Installation, Server};
use crate::setup::{Serves, Setup};
use std::path::Path;
use std::time::Duration;

/// The number of connections. They work in lockstep: each sends one request, and the next turn begins when all are answered.
const CONNECTIONS: usize = 16;
/// The number of turns in the first and in the second run.
const TURNS: (usize, usize) = (20, 120);
/// Perl takes some ten seconds to load an app under valgrind.
const START: Duration = Duration::from_secs(120);
/// The time that a response may take under valgrind.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time that a server may take to end and write its count.
const END: Duration = Duration::from_secs(60);
/// A request as browsers send it: 230 bytes, six fields.
const REQUEST: &[u8] = b"GET /?name=world&lang=en HTTP/1.1\r\n\
    Host: 127.0.0.1:5000\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
    Accept: text/html,application/xhtml+xml\r\n\
    Accept-Language: en\r\n\
    Accept-Encoding: gzip\r\n\
    Cookie: a=1; b=two-halves; session=4217\r\n\r\n";

/// Counts the instructions for each request of one server.
///
/// # Errors
/// The server does not start, answer correctly or end under valgrind.
pub fn count(installation: &Installation, setup: &Setup) -> Result<f64, String> {
    let few = run(installation, setup, TURNS.0)?;
    let many = run(installation, setup, TURNS.1)?;
    let requests = (TURNS.1 - TURNS.0) * CONNECTIONS;
    match many.checked_sub(few) {
        Some(difference) => Ok(difference as f64 / requests as f64),
        None => Err(format!("fewer instructions for more requests: {few}, then {many}")),
    }
}

fn run(installation: &Installation, setup: &Setup, turns: usize) -> Result<u64, String> {
    let hello = cell::ALL.iter().find(|cell| cell.name == "keep-alive-16").ok_or("no keep-alive cell")?;
    let logs = installation.directory(&format!("callgrind-{}-{turns}", setup.name))?;
    let prefix = [
        "valgrind".to_owned(),
        "--tool=callgrind".to_owned(),
        "--trace-children=yes".to_owned(),
        format!("--callgrind-out-file={}/profile.%p", logs.display()),
        format!("--log-file={}/log.%p", logs.display()),
    ];
    let server = Server::start(installation, setup, hello, &prefix, START)?;
    // A server that serves one connection at a time would never answer the second of a lockstep.
    let connections = if setup.serves == Serves::Many && !setup.alone { CONNECTIONS } else { 1 };
    let keep = setup.serves != Serves::OneRequest;
    lockstep(server.port, hello, connections, turns * CONNECTIONS / connections, keep)?;
    settle(&server)?;
    if !server.end(END) {
        return Err("did not end under valgrind, so there is no count".to_owned());
    }
    collected(&logs)
}

fn lockstep(port: u16, cell: &Cell, connections: usize, turns: usize, keep: bool) -> Result<(), String> {
    let body = cell.body();
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(port, PATIENCE)?);
    }
    for _ in 0..turns {
        for connection in &mut open {
            connection.send(REQUEST)?;
        }
        for connection in &mut open {
            let response = connection.receive()?;
            if !keep {
                *connection = Connection::open(port, PATIENCE)?;
            }
            if response.status != 200 || response.body != body {
                return Err(format!("wrong answer under valgrind: status {}", response.status));
            }
        }
        interrupt::check()?;
    }
    Ok(())
}

/// Waits until the server has handled the end of the connections: until it uses no CPU time for a while.
fn settle(server: &Server) -> Result<(), String> {
    for _ in 0..20 {
        let before = server.cpu();
        interrupt::sleep(Duration::from_millis(200))?;
        if server.cpu().since(before).total().is_zero() {
            break;
        }
    }
    Ok(())
}

/// Returns the sum of the instructions that callgrind has counted, over all processes.
fn collected(logs: &Path) -> Result<u64, String> {
    let told = |e: std::io::Error| format!("{}: {e}", logs.display());
    let (mut sum, mut found) = (0, false);
    for entry in std::fs::read_dir(logs).map_err(told)? {
        let entry = entry.map_err(told)?;
        if entry.file_name().to_string_lossy().starts_with("log.") {
            let log = std::fs::read_to_string(entry.path()).map_err(told)?;
            if let Some(count) = parse(&log) {
                sum += count;
                found = true;
            }
        }
    }
    if found { Ok(sum) } else { Err("valgrind wrote no count".to_owned()) }
}

fn parse(log: &str) -> Option<u64> {
    log.lines().filter_map(|line| line.split_once("Collected : ")).find_map(|(_, count)| count.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_what_the_documentation_says() {
        assert_eq!(REQUEST.len(), 230);
        assert_eq!(REQUEST.windows(2).filter(|pair| pair == b": ").count(), 6);
    }

    #[test]
    fn a_log_gives_its_count() {
        assert_eq!(parse("==7== Events    : Ir\n==7== Collected : 123456\n==7==\n"), Some(123_456));
        assert_eq!(parse("==7== Process terminating\n"), None);
    }
}
