//! The master: a small first process without a language. It opens the listeners and starts a mold, which loads the app and
//! forks the workers. It starts another mold if the mold dies, and for each reload.

use super::app::App;
use super::apps::Apps;
use super::first_process::FirstProcess;
use super::privileges::Privileges;
use super::server::{Role, Server};
use super::watched_files::WatchedFiles;
use super::{failed_to, inheritance, notify};
use oribi_config::Settings;
use oribi_config::directory::Directory;
use oribi_edge::routes::Routes;
use std::path::Path;
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
    run_apps(settings, vec![App { name: None, settings, mold, lanes, directory: Directory::current() }], None)
}

/// As [`run`], for several apps, which have names and need edges. `settings` are those of the server; `routes` choose the app for each request.
/// An order reloads, stops or starts one app. The server serves as long as one app does.
pub fn run_apps<'a>(settings: &'a Settings, apps: Vec<App<'a>>, routes: Option<&'a Routes>) -> i32 {
    match start(settings, apps, routes) {
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
    routes: Option<&'a Routes>,
) -> Result<FirstProcess<'a, Apps<'a>>, String> {
    // Workers whose mold has died become children of this process, so that it can wait for them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failed_to("become the parent of orphans", &error.into()))?;
    let shapes: Vec<_> = apps.iter().map(|app| (app.name, app.settings, app.lanes)).collect();
    let mut server = Server::open(settings, None, Role::Master, true, &shapes)?;
    server.edges.iter_mut().for_each(|edges| edges.use_routes(routes));
    let users = routes.into_iter().flat_map(Routes::user_files).map(Path::to_owned).collect();
    server.users = WatchedFiles::of(users, Instant::now());
    for App { settings, mold, .. } in &mut apps {
        Privileges::of_workers(settings)?.drop_in(mold);
        inheritance::OWN.iter().chain(&notify::VARIABLES).for_each(|variable| _ = mold.env_remove(variable));
    }
    server.set_title("loading");
    let mut apps = Apps::new(apps);
    apps.note_availability(&server);
    Ok(FirstProcess::new(server, apps))
}
