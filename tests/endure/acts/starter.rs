//! One server follows another below start_server, whose socket stays open.

use super::Act;
use crate::scene::{Scene, soon};
use crate::server::{children, runs, send, title};
use rustix::process::Signal;

pub const HUP: Act = Act { name: "start_server HUP", perform: hup };
pub const RELOAD_IN_DRAIN: Act = Act { name: "reload in a drain", perform: reload_in_drain };

/// Returns the id of the server that will be replaced, and the id of start_server.
fn before(scene: &Scene) -> Result<(u32, u32), String> {
    let starter = scene.site.server.pid();
    children(starter).into_iter().max().map(|first| (starter, first)).ok_or_else(|| "there is no server".to_owned())
}

/// Waits until the next server has logged its address and accepts orders.
fn next_serves(scene: &Scene, mark: u64) -> Result<usize, String> {
    scene.says(mark, "listening on")?;
    let pid = format!("\"pid\":{},", scene.first().ok_or("there is no server")?);
    soon("the next server gets orders", || scene.order("status").is_ok_and(|answer| answer.contains(&pid)))?;
    Ok(1)
}

fn hup(scene: &Scene) -> Result<usize, String> {
    let ((starter, before), mark) = (before(scene)?, scene.mark());
    send(starter, Signal::HUP);
    soon("the server before ends", || !runs(before))?;
    next_serves(scene, mark)
}

/// Stops a server that delays its end (`--shutdown-delay`), and reloads the app during the delay.
fn reload_in_drain(scene: &Scene) -> Result<usize, String> {
    let ((starter, before), mark) = (before(scene)?, scene.mark());
    send(starter, Signal::HUP);
    soon("the server before drains", || title(before).contains("draining") || !runs(before))?;
    send(before, Signal::HUP);
    soon("the server before ends", || !runs(before))?;
    next_serves(scene, mark)
}
