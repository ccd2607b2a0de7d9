//! Processes that are killed. The requests of a killed worker are repeated (`--retry-lost`).

use super::Act;
use crate::scene::{Scene, WORKERS, soon};
use crate::server::{runs, send, title};
use rustix::process::Signal;

pub const WORKER: Act = Act { name: "killed worker", perform: worker };
pub const MOLD: Act = Act { name: "killed mold", perform: mold };

fn worker(scene: &Scene) -> Result<usize, String> {
    let serving = scene.called("worker").into_iter().find(|worker| !title(*worker).contains("retiring"));
    let Some(worker) = serving else { return Ok(0) };
    send(worker, Signal::KILL);
    soon("another worker", || !runs(worker) && scene.called("worker").len() >= WORKERS).map(|()| 1)
}

fn mold(scene: &Scene) -> Result<usize, String> {
    let molds = scene.called("mold");
    let Some(&mold) = molds.last() else { return Ok(0) };
    send(mold, Signal::KILL);
    soon("another mold and its workers", || {
        let (molds, workers) = (scene.called("mold"), scene.called("worker"));
        !runs(mold) && !molds.is_empty() && workers.len() >= WORKERS
    })
    .map(|()| 1)
}
