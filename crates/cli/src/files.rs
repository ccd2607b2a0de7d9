//! Serves the files of a directory, without an app.

use crate::languages::app_in;
use crate::options::Mode;
use crate::trouble::Trouble;
use crate::{begin, exit_status, print};
use oribi_files::FileRuntime;
use oribi_server::config::{Plan, Resolved};
use oribi_server::process;
use std::path::Path;

/// Serves the files below `directory`, or prints the plan for that.
pub fn serve(mode: Mode, directory: &Path, resolved: &Resolved) -> Result<u8, Trouble> {
    let shown = directory.display();
    if let Some(app) = app_in(directory) {
        // A user who meant to run an app must not publish its source.
        let message = format!("{shown} has an {app}: `oribi {shown}` runs it; `oribi serve` serves directories without an app");
        return Err(Trouble::usage(message));
    }
    // Absolute, because the process may change its directory later.
    let absolute = oribi_server::directory::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let runtime = FileRuntime::new(absolute, resolved.settings.files.options.clone())
        .map_err(|error| Trouble::failure(error.to_string()))?;
    if let Mode::Check(form) = mode {
        resolved.settings.look_at_certificates().map_err(Trouble::failure)?;
        let app = format!("the files below {shown}");
        let plan = Plan::new(app, "none (files)".to_owned(), resolved);
        return print(&form.text(&plan, &[]));
    }
    let mut settings = resolved.settings.clone();
    begin(mode, &mut settings)?;
    Ok(exit_status(process::supervise_program(&settings, &runtime)))
}
