//! More and fewer workers, and others in their places.

use super::Act;
use crate::scene::{Scene, WORKERS, soon};
use crate::server::{runs, send, title};
use rustix::process::Signal;
use std::collections::BTreeSet;

pub const RECYCLE: Act = Act { name: "recycled worker", perform: recycle };
pub const GROW: Act = Act { name: "TTIN", perform: grow };
pub const SHRINK: Act = Act { name: "TTOU", perform: shrink };
pub const SCALE: Act = Act { name: "scale 3-7-1-3", perform: scale };
pub const RETIRE: Act = Act { name: "worker told to end", perform: retire };
pub const REOPEN: Act = Act { name: "logs opened again", perform: reopen };

/// How many workers one act waits for.
const RECYCLED: usize = 10;

/// Nothing is done, so that workers reach their limits. Those that have answered are counted.
fn recycle(scene: &Scene) -> Result<usize, String> {
    scene.clients.workers();
    let mut seen = BTreeSet::new();
    soon("workers are recycled", || {
        seen.append(&mut scene.clients.workers());
        seen.len() >= WORKERS + RECYCLED
    })?;
    Ok(seen.len() - WORKERS)
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
    scene.obeys("scale 7")?;
    soon("seven workers", || workers() >= 7)?;
    scene.obeys("scale 1")?;
    soon("one worker", || workers() <= 1)?;
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
