//! The master: a small first process without a language. It opens the listeners and starts a mold, which loads the app and
//! forks the workers. It starts another mold if the mold dies, and for each reload.

use super::app::{App, Plans, ServerPlan};
use super::apps::Apps;
use super::failed_to;
use super::first_process::FirstProcess;
use super::mold_command::prepare_mold;
use super::server::{Role, Server};
use oribi_config::Settings;
use oribi_config::directory::Directory;
use oribi_edge::plan::PlanReader;
use oribi_edge::routes::Routes;
use std::process::Command;
use std::time::Instant;

/// Runs the command `mold` as the process that loads the app, and serves until a signal or an order stops the server. The mold
/// finds the listeners in its environment, and calls [`supervise`](super::supervise), which takes them over. Each worker of the
/// mold has `lanes` threads that take requests by themselves. The process must have only one thread; it may be process 1.
///
/// Returns the exit status for the process: 0, or 1 if the app could not be loaded at the start, the listeners could not be
/// opened, or requests had to be cut off.
///
/// Signals have the same meaning as for [`supervise`](super::supervise), with two exceptions. HUP loads the app again, in
/// another mold; when that mold's workers accept connections, the old workers retire. USR1 always reopens the logs.
///
/// If there are edges, this process forks them. When it stops, it stops the edges first, and the workers only when no request
/// is left.
pub fn run(settings: &Settings, mold: Command, lanes: usize) -> i32 {
    let app = App { name: None, settings, mold, lanes, directory: Directory::current(), arguments: Vec::new() };
    run_with(start(settings, vec![app], None, None))
}

/// As [`run`], for the apps of a file, which have names and need edges. `settings` are those of the server; `routes` choose the app
/// for each request. An order reloads, stops or starts one app, or applies the file again, which `plans` reads; `plan` is its part
/// for the whole server. The server serves as long as one app does.
pub fn run_apps<'a>(
    settings: &'a Settings,
    apps: Vec<App<'a>>,
    routes: Option<Routes>,
    (plans, plan): (&'a dyn Plans, ServerPlan),
) -> i32 {
    run_with(start(settings, apps, routes, Some((plans, plan))))
}

fn run_with(started: Result<FirstProcess<'_>, String>) -> i32 {
    match started {
        Ok(master) => master.serve(),
        Err(message) => {
            log::error!("{message}");
            1
        }
    }
}

fn start<'a>(
    settings: &'a Settings,
    mut apps: Vec<App<'a>>,
    routes: Option<Routes>,
    file: Option<(&'a dyn Plans, ServerPlan)>,
) -> Result<FirstProcess<'a>, String> {
    // Workers whose mold has died become children of this process, so that it can wait for them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failed_to("become the parent of orphans", &error.into()))?;
    let shapes: Vec<_> = apps.iter().map(|app| (app.name, app.settings, app.lanes)).collect();
    let mut server = Server::open(settings, None, Role::Master, true, &shapes)?;
    if let Some(edges) = &mut server.edges {
        let reader = file.as_ref().map(|(plans, _)| *plans as &'a dyn PlanReader);
        edges.use_routes(routes, reader).map_err(|error| failed_to("make memory for the limits of routes", &error))?;
        server.users = edges.watch_users(Instant::now());
    }
    for App { settings, mold, .. } in &mut apps {
        prepare_mold(settings, mold)?;
    }
    server.set_title("loading");
    let mut apps = Apps::new(apps, file);
    apps.note_availability(&server);
    Ok(FirstProcess::new(server, Box::new(apps)))
}
