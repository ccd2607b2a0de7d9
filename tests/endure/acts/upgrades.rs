//! Another program in the place of the one that runs.

use super::Act;
use crate::connection::Connection;
use crate::scene::{Scene, soon};
use crate::server::{children, title};
use rustix::process::Signal;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub const PLAIN: Act = Act { name: "upgrade", perform: plain };
pub const BY_ORDER: Act = Act { name: "upgrade by ctl", perform: by_order };
pub const UNDER_PRESSURE: Act = Act { name: "upgrade with a queue", perform: under_pressure };
pub const WITH_RELOAD: Act = Act { name: "upgrade and reload", perform: with_reload };
pub const FAILING: Act = Act { name: "failing upgrade", perform: failing };

/// The number of requests that run or wait at the upgrade.
const WAITING: u64 = 12;

/// Returns the id of the first process of the current server: a child of the guardian, or the first process of all.
fn present(scene: &Scene) -> Option<u32> {
    let first = scene.first()?;
    let leads = |process: u32| ["oribi: master", "oribi: supervisor"].iter().any(|role| title(process).starts_with(role));
    if leads(first) {
        return Some(first);
    }
    match children(first)[..] {
        [only] if leads(only) => Some(only),
        _ => None,
    }
}

/// Calls `begin`, which causes an upgrade, and waits until only the new server is left.
fn upgraded(scene: &Scene, begin: impl FnOnce() -> Result<(), String>) -> Result<usize, String> {
    let (before, mark) = (present(scene), scene.mark());
    begin()?;
    soon("only the new server is left", || present(scene).is_some_and(|present| Some(present) != before))?;
    scene.says(mark, "follows the first process")?;
    soon("the new server obeys", || scene.order("status").is_ok_and(|answer| answer.contains("\"serving\"")))?;
    Ok(1)
}

fn plain(scene: &Scene) -> Result<usize, String> {
    upgraded(scene, || scene.signal(Signal::USR2))
}

fn by_order(scene: &Scene) -> Result<usize, String> {
    upgraded(scene, || scene.obeys("upgrade"))
}

/// Upgrades the server while all workers are answering requests and further requests wait.
fn under_pressure(scene: &Scene) -> Result<usize, String> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let first = NEXT.fetch_add(WAITING, Relaxed);
    let mut connections: Vec<(u64, Connection)> =
        (first..first + WAITING).map(|number| (number, Connection::open(scene.site.address))).collect();
    for (number, connection) in &mut connections {
        connection.ask(&format!("/sleep?{number}&0.2"));
    }
    soon("an app sleeps", || connections.iter().any(|(number, _)| scene.site.inside(*number).is_some()))?;
    let done = upgraded(scene, || scene.signal(Signal::USR2));
    for (number, connection) in &mut connections {
        for expected in [format!("sleep {number}\n"), format!("fast {number}\n")] {
            let response = connection.response(false).map_err(|why| format!("{expected:?} is lost: {why}"))?;
            if response.status != 200 || response.content != expected.as_bytes() || response.ends() {
                return Err(format!("{expected:?} was expected: {response:?}"));
            }
            if expected.starts_with("sleep") {
                connection.ask(&format!("/fast?{number}"));
            }
        }
        scene.site.forget(*number);
    }
    done
}

/// Upgrades the server, and reloads the app while the new server starts.
fn with_reload(scene: &Scene) -> Result<usize, String> {
    upgraded(scene, || {
        scene.signal(Signal::HUP)?;
        std::thread::sleep(Duration::from_millis(20));
        scene.signal(Signal::USR2)?;
        std::thread::sleep(Duration::from_millis(20));
        scene.signal(Signal::HUP)
    })
}

/// Upgrades to a server whose workers cannot answer the boot request.
fn failing(scene: &Scene) -> Result<usize, String> {
    let mark = scene.mark();
    scene.site.set_boot(Some("die"));
    let said = scene.signal(Signal::USR2).and_then(|()| scene.says(mark, "so this one keeps serving"));
    scene.site.set_boot(None);
    said.map(|()| 1)
}
