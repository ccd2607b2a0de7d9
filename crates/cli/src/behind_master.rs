//! Serves an app of a built-in language behind a master, if its number of workers follows the load: then a mold loads the app,
//! and may end while the app sleeps.

use crate::exit_status;
use crate::trouble::Trouble;
use oribi_server::config::Settings;
use oribi_server::process;
use std::process::Command;

/// Serves behind a master, whose mold is this command again. `None` in that mold, and if one process may load the app and fork
/// its workers.
pub fn serve(settings: &Settings, lanes: usize) -> Option<Result<u8, Trouble>> {
    if !settings.workers.follows_load() || process::has_master() {
        return None;
    }
    let program = std::env::current_exe().map_err(|error| Trouble::failure(format!("cannot find this program: {error}")));
    let mold = program.map(|program| {
        let mut mold = Command::new(program);
        mold.args(std::env::args_os().skip(1));
        mold
    });
    Some(mold.map(|mold| exit_status(process::master::run(settings, mold, lanes))))
}
