//! More and fewer workers, and others in their places.

use super::Act;
use crate::scene::{Scene, WORKERS, soon};
use crate::server::{runs, send, title};
use rustix::process::Signal;
use std::collections::BTreeSet;

pub const RECYCLE: Act = Act { name: "wait for recycling", perform: recycle };
pub const GROW: Act = Act { name: "TTIN", perform: grow };
pub const SHRINK: Act = Act { name: "TTOU", perform: shrink };
pub const SCALE: Act = Act { name: "scale 3-7-1-3", perform: scale };
pub const RETIRE: Act = Act { name: "worker told to end", perform: retire };
pub const REOPEN: Act = Act { name: "logs opened again", perform: reopen };

/// The number of workers that one act waits for.
const RECYCLED: usize = 3;

/// The server's counters of workers that were replaced because they had reached their limit of requests or of lifetime.
const COUNTERS: [&str; 2] = ["workers_ended_requests", "workers_ended_lifetime"];

/// The number of workers that the server has recycled, by its own counters, which outlive upgrades.
pub fn recycled(scene: &Scene) -> Result<usize, String> {
    let status = scene.order("status")?;
    let count = |name: &str| {
        let digits = status.split_once(&format!("\"{name}\":"))?.1;
        digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    COUNTERS.iter().map(|name| count(name).ok_or_else(|| format!("no {name} in {status}"))).sum()
}

/// Waits until some workers have reached their limits.
fn recycle(scene: &Scene) -> Result<usize, String> {
    scene.clients.workers();
    let mut seen = BTreeSet::new();
    soon("workers are recycled", || {
        seen.append(&mut scene.clients.workers());
        seen.len() >= WORKERS + RECYCLED
    })?;
    Ok(1)
}

fn grow(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    scene.signal(Signal::TTIN)?;
    scene.says(mark, "workers: ").map(|()| 1)
}

fn shrink(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    scene.signal(Signal::TTOU)?;
    scene.says(mark, "workers: ").map(|()| 1)
}

fn scale(scene: &Scene) -> Result<usize, String> {
    let workers = || scene.called("worker").len();
    // A worker that is replaced has another beside it for as long as its clients need.
    let serving = || scene.called("worker").into_iter().filter(|worker| !title(*worker).contains("retiring")).count();
    scene.obeys("scale 7")?;
    soon("seven workers", || workers() >= 7)?;
    scene.obeys("scale 1")?;
    soon("one worker", || serving() <= 1)?;
    scene.obeys(&format!("scale {WORKERS}"))?;
    soon("three workers", || workers() >= WORKERS)?;
    Ok(1)
}

fn retire(scene: &Scene) -> Result<usize, String> {
    let serving = scene.called("worker").into_iter().find(|worker| !title(*worker).contains("retiring"));
    let Some(worker) = serving else { return Ok(0) };
    send(worker, Signal::TERM);
    soon("the worker's end", || !runs(worker)).map(|()| 1)
}

fn reopen(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    scene.signal(Signal::USR1)?;
    scene.says(mark, "the log files are opened again").map(|()| 1)
}
