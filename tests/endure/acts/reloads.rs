//! New code, by a signal or an order.

use super::Act;
use crate::language::Language;
use crate::scene::{Scene, soon};
use rustix::process::Signal;
use std::time::Duration;

pub const BY_SIGNAL: Act = Act { name: "reload", perform: by_signal };
pub const BY_ORDER: Act = Act { name: "reload by ctl", perform: by_order };
pub const TEN: Act = Act { name: "ten reloads in a row", perform: ten };
pub const FAILING: Act = Act { name: "failing reload", perform: failing };

/// Whether the last reload has succeeded, according to the server's log.
pub fn has_ended(log: &str) -> bool {
    let of_master = log.rfind("reloading the app, as generation ").and_then(|at| log[at..].lines().next()?.rsplit(' ').next());
    match of_master {
        Some(number) => log.contains(&format!("generation {number} has taken over")),
        None => log.rfind("replacing the workers").is_some_and(|begun| log[begun..].contains("all workers have been replaced")),
    }
}

fn by_signal(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    scene.signal(Signal::HUP)?;
    soon("the reload", || has_ended(&scene.since(mark)))?;
    Ok(1)
}

fn by_order(scene: &Scene) -> Result<usize, String> {
    scene.obeys("reload")?;
    Ok(1)
}

fn ten(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    for _ in 0..10 {
        scene.signal(Signal::HUP)?;
        std::thread::sleep(Duration::from_millis(30));
    }
    soon("the last of ten reloads", || has_ended(&scene.since(mark)))?;
    Ok(1)
}

/// Reloads an app that cannot answer the boot request of the new workers.
fn failing(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    scene.site.set_boot(Some("die"));
    scene.signal(Signal::HUP)?;
    let what = if scene.language == Language::Lua { "the current workers stay" } else { "could not be reloaded" };
    let said = scene.says(mark, what);
    scene.site.set_boot(None);
    said?;
    // A worker that was to be recycled meanwhile has also failed, and is started again after a pause.
    soon("all workers that there should be", || all_serve(scene).unwrap_or(false))?;
    Ok(1)
}

/// Whether the wanted number of workers serve, and no worker is starting.
fn all_serve(scene: &Scene) -> Result<bool, String> {
    let (status, processes) = (scene.order("status")?, scene.order("workers")?);
    let digits = status.split_once("\"workers\":").map_or("", |(_, behind)| behind);
    let wanted: usize =
        digits.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(1);
    let workers = || processes.split("\"kind\":").filter(|process| process.starts_with("\"worker\""));
    let in_state =
        |state: &'static str| workers().filter(move |process| process.contains(&format!("\"state\":\"{state}\""))).count();
    Ok(in_state("starting") == 0 && in_state("ready") + in_state("retiring") >= wanted)
}
