//! System calls per request, counted by strace at 64 keep-alive connections.

use crate::cell;
use crate::group::Group;
use crate::interrupt;
use crate::load::Load;
use crate::server::{Installation, START, Server};
use crate::setup::Setup;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The time for which the server is loaded, in seconds. It is so long that accepting the connections is only a percent of all
/// calls.
const SECONDS: u64 = 2;
/// The time that strace may take to attach or to detach.
const PATIENCE: Duration = Duration::from_secs(10);
/// Calls rarer than this per request are not named.
const RARE: f64 = 0.005;

/// The counts of strace.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// Per request, all together.
    pub total: f64,
    /// Per request by name, the most frequent first.
    pub by_name: Vec<(String, f64)>,
}

/// Counts the system calls for each request of one server.
///
/// # Errors
/// The server does not start, or strace is not allowed to attach to it.
pub fn count(installation: &Installation, setup: &Setup) -> Result<Calls, String> {
    let hello = cell::ALL.iter().find(|cell| cell.name == "keep-alive-64").ok_or("no keep-alive cell")?;
    let server = Server::start(installation, setup, hello, &[], START)?;
    let members = server.members();
    let summary = installation.scratch.join(format!("strace-{}", setup.name));
    let mut words: Vec<String> = ["strace", "-f", "-c", "-U", "calls,name", "-o"].map(str::to_owned).to_vec();
    words.push(summary.display().to_string());
    for member in &members {
        words.extend(["-p".to_owned(), member.pid.to_string()]);
    }
    let output = installation.scratch.join(format!("strace-{}-output", setup.name));
    let mut strace = Group::start(&words, &[installation.load_cpu], &output)?;
    wait_until_attached(&mut strace, members.len())?;
    let outcome = Load::start(installation, &server, hello, SECONDS)?.finish()?;
    strace.signal_leader(Signal::INT);
    let end = Instant::now() + PATIENCE;
    while strace.ended().is_none() {
        if Instant::now() > end {
            return Err("strace did not end".to_owned());
        }
        interrupt::sleep(interrupt::STEP)?;
    }
    if outcome.requests == 0 {
        return Err("not one response under strace".to_owned());
    }
    let text = std::fs::read_to_string(&summary).map_err(|e| format!("{}: {e}", summary.display()))?;
    parse(&text, outcome.requests).ok_or_else(|| format!("strace counted nothing: {}", strace.last_words(0)))
}

fn wait_until_attached(strace: &mut Group, processes: usize) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while strace.output().matches(" attached").count() < processes {
        if strace.ended().is_some() || Instant::now() > end {
            return Err(format!("strace cannot attach (see kernel.yama.ptrace_scope): {}", strace.last_words(0)));
        }
        interrupt::sleep(interrupt::STEP)?;
    }
    Ok(())
}

/// Reads the two columns, calls and name, between strace's rulers.
fn parse(summary: &str, requests: u64) -> Option<Calls> {
    let rows = summary.lines().filter_map(|line| {
        let (count, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), count.parse::<u64>().ok()? as f64 / requests as f64))
    });
    let (sums, mut by_name): (Vec<_>, Vec<_>) = rows.partition(|(name, _)| name == "total");
    let total = sums.first()?.1;
    by_name.sort_by(|a, b| b.1.total_cmp(&a.1));
    by_name.retain(|(_, count)| *count >= RARE);
    Some(Calls { total, by_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_divided_by_the_requests() {
        let summary = "    calls syscall\n--------- ----------------\n     1000 recvfrom\n     2000 writev\n        1 accept4\n\
            --------- ----------------\n     3001 total\n";
        let calls = parse(summary, 1000).expect("a whole summary");
        assert_eq!(calls.total, 3.001);
        assert_eq!(calls.by_name, [("writev".to_owned(), 2.0), ("recvfrom".to_owned(), 1.0)]);
        assert_eq!(parse("", 1000), None);
    }
}
