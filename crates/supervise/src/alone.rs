//! Serves with a single lane in this process, without a supervisor, workers or other threads.

use super::privileges::Privileges;
use super::{io_model, raise_descriptor_limit};
use oribi_config::Settings;
use oribi_host::{After, Host, Runtime};
use oribi_listen::{Shard, listen_sockets, open};
use oribi_stats::scoreboard::WorkerSlot;
use oribi_worker::lane::{self, ContextSupply, LaneSetup, Renewal};
use std::os::fd::AsFd;

/// Opens the listeners, calls `announce` with their addresses and the name of the I/O model, and serves as long as the process
/// lives: signals have their default actions. Settings that do not concern a lane have no effect. Returns only with an error.
///
/// # Errors
/// The lane cannot serve, or cannot continue; the message says why.
pub fn serve_alone(settings: &Settings, runtime: &dyn Runtime, announce: impl FnOnce(&[&str], &str)) -> Result<(), String> {
    let io = io_model::explain(settings, runtime)?;
    raise_descriptor_limit();
    let privileges = Privileges::of(settings)?;
    let listeners = open(settings)?;
    privileges.hand_over(settings, &listeners)?;
    privileges.drop_here()?;
    let (wake, _writer) = std::io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
    announce(&listeners.iter().map(|listener| listener.display.as_str()).collect::<Vec<_>>(), &io);
    let setup = LaneSetup {
        settings,
        listeners: &listeners,
        listen_sockets: &listen_sockets(&listeners, Shard::ONLY),
        slot: &WorkerSlot::unshared(),
        running: &[],
        wake: wake.as_fd(),
        must_log: true,
    };
    lane::run(&setup, &mut UnreplacedContext(runtime)).map_err(|error| error.to_string())
}

/// Supplies one context, which is never replaced.
struct UnreplacedContext<'a>(&'a dyn Runtime);

impl ContextSupply for UnreplacedContext<'_> {
    fn first(&mut self) -> Result<Box<dyn Host>, String> {
        self.0.open(false)
    }

    fn due(&self) -> u64 {
        u64::MAX
    }

    fn renew(&mut self, present: Box<dyn Host>, _answered: u64, _after: After) -> Renewal {
        Renewal::Serve(present, u64::MAX)
    }
}
