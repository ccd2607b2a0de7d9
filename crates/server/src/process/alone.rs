//! A lane in this process: no supervisor, no worker, no second thread.

use super::privileges::Privileges;
use super::{io_model, raise_descriptor_limit};
use crate::config::Settings;
use crate::lane::{self, ContextSupply, LaneSetup, Renewal};
use crate::listen::{Seat, doors, open};
use crate::scoreboard::WorkerSlot;
use oribi_host::{After, Host, Runtime};
use std::os::fd::AsFd;

/// Opens the listeners, has `announce` tell where they are and by what I/O model they are served, and serves for as long as the
/// process lives: signals do to it what the system has them do. Of the settings, those count that concern one lane.
///
/// # Errors
/// Why it cannot serve, or could not go on.
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
        doors: &doors(&listeners, Seat::ONLY),
        slot: &WorkerSlot::unshared(),
        running: &[],
        wake: wake.as_fd(),
    };
    lane::run(&setup, &mut Only(runtime)).map_err(|error| error.to_string())
}

/// One context for ever.
struct Only<'a>(&'a dyn Runtime);

impl ContextSupply for Only<'_> {
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
