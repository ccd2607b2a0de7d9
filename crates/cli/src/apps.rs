//! Serves several apps by a configuration file, `oribi.toml`, or checks it.

use crate::file_plan::FilePlans;
use crate::options::Mode;
use crate::plan::PlanForm;
use crate::ready_app::{Examined, ReadyApp, ReadyFile, longest_graceful, server_part};
use crate::routes::RealDisk;
use crate::trouble::Trouble;
use crate::{begin, exit_status, print, proxy, routes};
use oribi_server::config::{Config, Plan, PlanPart, Resolved, counted, join_label};
use oribi_server::process::{self, PlannedApp};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub use crate::ready_app::FILE;

/// The interval at which the end of a process that loads an app is noticed.
const LOOK: Duration = Duration::from_millis(5);

/// Returns the configuration file that `path`, the file or directory on the command line, stands for. Without a path, it is
/// looked for in the current directory.
pub fn file_at(path: Option<&Path>) -> Option<PathBuf> {
    let path = path.unwrap_or(Path::new(""));
    if path.extension().is_some_and(|ending| ending == "toml") {
        return Some(path.to_owned());
    }
    Some(path.join(FILE)).filter(|file| file.is_file())
}

/// Serves the apps of the file, or checks them.
pub fn run(mode: Mode, file: &Path, config: &Config) -> Result<u8, Trouble> {
    if file.extension().is_some_and(|ending| ending == "rb") {
        return Err(Trouble::usage("-c is for an oribi.toml; -C FILE reads the configuration file of a Ruby app"));
    }
    let applied = if matches!(mode, Mode::Check(_)) { None } else { process::applied_file() };
    let file = applied.as_deref().unwrap_or(file);
    let environment = |name: &str| std::env::var(name).ok();
    let (content, review) = oribi_config_file::examine(file, &environment, &mut |_, _| {});
    let examined = Examined { file, content: &content, review, config, served: None };
    let ReadyFile { mut server, apps, warnings } = examined.ready(mode)?;
    let part = server_part(&server, &content)?;
    let graceful = longest_graceful(&apps);
    server.settings.timeouts.graceful = graceful.unwrap_or(server.settings.timeouts.graceful);
    // Each app is reloaded by itself, and the edges wait for the requests of all apps.
    (server.settings.restart_file, server.settings.life.watch) = (None, false);
    if server.settings.serves_metrics() || server.settings.trace_export.endpoint.is_some() {
        for name in routes::names(&content) {
            join_label(name, &mut server.settings.route_labels);
        }
    }
    let place = |name: &str| content.apps.iter().position(|app| app.name == name).unwrap_or_default();
    let routes = routes::plan(&content, &server.settings, &RealDisk, &place).map_err(Trouble::in_file)?;
    let routes = routes.map(|routes| routes.compile(&content)).transpose().map_err(Trouble::in_file)?;
    if let Mode::Check(form) = mode {
        return check(&file.display().to_string(), form, &server, apps, &warnings.to_string());
    }
    begin(mode, &mut server.settings)?;
    let has_user = |app: &ReadyApp<'_>| app.resolved.settings.user.is_some();
    if server.settings.user.is_none() && server.settings.edge_user.is_none() && apps.iter().any(has_user) {
        ::log::warn!("edges keep the rights of this process, although apps have users: set user or edge-user in [server]");
    }
    for line in warnings.to_string().lines() {
        ::log::warn!("{line}");
    }
    for note in apps.iter().flat_map(|app| &app.notes) {
        ::log::warn!("{note}");
    }
    let planned: Vec<PlannedApp> = apps.into_iter().map(ReadyApp::planned).collect();
    let (owned, started): (Vec<_>, Vec<_>) =
        planned.into_iter().map(|app| ((app.name, app.settings), (app.mold, app.lanes, app.directory, app.arguments))).unzip();
    let apps = owned.iter().zip(started).map(|((name, settings), (mold, lanes, directory, arguments))| process::App {
        name: Some(name.as_str()),
        settings,
        mold,
        lanes,
        directory,
        arguments,
    });
    let plans = FilePlans::new(file, config, &server.settings);
    Ok(exit_status(process::master::run_apps(&server.settings, apps.collect(), routes, (&plans, part))))
}

/// Loads each app and prints the plan.
fn check(name: &str, form: PlanForm, server: &Resolved, apps: Vec<ReadyApp<'_>>, warnings: &str) -> Result<u8, Trouble> {
    // If standard error is closed, the messages are lost.
    let _ = io::stderr().write_all(warnings.as_bytes());
    server.settings.look_at_certificates().map_err(Trouble::failure)?;
    let lines = apps
        .iter()
        .map(|app| format!("{}: {}, {}", app.section.name, app.app.language.title, app.resolved.settings.processes_in_words()));
    let part = PlanPart::Server(lines.collect());
    let plan = Plan { part, ..Plan::new(name.to_owned(), counted(apps.len(), "app"), server) };
    let mut text = form.text(&plan, &[]);
    let mut failed = Vec::new();
    for ReadyApp { section, app, resolved, mut mold, program, notes, directory, .. } in apps {
        for note in notes {
            let _ = writeln!(io::stderr(), "oribi: {note}");
        }
        directory.path().into_iter().for_each(|path| _ = mold.current_dir(path));
        let at = |why: String| Trouble::failure(format!("{}: app {}: {why}", section.place, section.name));
        process::start_as_worker(&resolved.settings, &mut mold).map_err(at)?;
        let loaded = loads(&mut mold, resolved.settings.life.load_timeout);
        if !loaded.map_err(|error| at(format!("cannot run {program}: {error}")))? {
            failed.push(section.name.as_str());
        }
        let language = format!("{}, run by {program}", app.language.title);
        let plan = Plan { part: PlanPart::App, ..Plan::new(app.path.display().to_string(), language, &resolved) };
        let form = PlanForm { changed: true, ..form };
        if !form.json {
            text.push_str(&format!("\nApp {}:\n", section.name));
        }
        let upstreams = proxy::planned(&section.proxy, &section.place.origin().to_string());
        text.push_str(&form.text(&plan, &upstreams));
    }
    let status = print(&text)?;
    if failed.is_empty() {
        Ok(status)
    } else {
        Err(Trouble::failure(format!("{name}: could not be loaded: {}", failed.join(", "))))
    }
}

/// Runs a command that loads an app and ends. Returns whether the app could be loaded in that time.
fn loads(command: &mut Command, most: Duration) -> io::Result<bool> {
    let mut child = command.spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begun.elapsed() >= most {
            let _ = writeln!(io::stderr(), "oribi: killed after {} s (--load-timeout)", most.as_secs_f64());
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}
