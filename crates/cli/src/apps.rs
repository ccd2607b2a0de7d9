//! Serves several apps by a configuration file, `oribi.toml`, or checks it.

use crate::configuration::{Configuration, Said};
use crate::language::{App, Home};
use crate::languages;
use crate::options::{Mode, Options};
use crate::plan::PlanForm;
use crate::trouble::Trouble;
use crate::{begin, exit_status, lua, place, print, proxy, resolve, routes};
use oribi_config_file::{AppSection, ConfigFile, Item, LANGUAGE_OPTIONS, Reading, ValueForm};
use oribi_server::config::{Config, Origin, Plan, Resolved, Scope, Served, join_label, setting_of};
use oribi_server::directory::{Directory, absolute};
use oribi_server::process;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The name of the file beside which no app is looked for.
pub const FILE: &str = "oribi.toml";

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

/// An app that is ready to be started.
struct ReadyApp<'f> {
    section: &'f AppSection,
    app: App,
    resolved: Resolved,
    mold: Command,
    /// The program that runs the app, for users.
    program: String,
    /// Notes about the configuration file in the language of the app.
    notes: Vec<String>,
    lanes: usize,
    directory: Directory,
}

/// Serves the apps of the file, or checks them.
pub fn run(mode: Mode, file: &Path, config: &Config) -> Result<u8, Trouble> {
    if file.extension().is_some_and(|ending| ending == "rb") {
        return Err(Trouble::usage("-c is for an oribi.toml; -C FILE reads the configuration file of a Ruby app"));
    }
    let Reading { config: content, warnings } =
        oribi_config_file::read(file).map_err(|findings| Trouble::usage(format!("{findings}").trim_end().to_owned()))?;
    // The defaults of all apps are also those of the server: it runs its edges as their user.
    let mut server = of_server(&content, config.clone())?;
    content
        .server
        .iter()
        .filter(|item| matches!(item.name.as_str(), "user" | "group"))
        .try_for_each(|item| set(&mut server, item))?;
    let name = file.display().to_string();
    server.set("app-name", &name, Origin::Default).map_err(|error| Trouble::usage(error.to_string()))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut server = resolve_at(folder, &server)?;
    if content.apps.is_empty() {
        return Err(Trouble::usage(format!("{name}: there is no app: add a table [app.NAME] with file = \"PATH\"")));
    }
    if server.settings.edges_wanted() == 0 {
        return Err(Trouble::usage(format!(
            "{name}: apps with routes need an edge, and --edge off (or --accept own) excludes it"
        )));
    }
    let apps =
        content.apps.iter().map(|section| ready(section, &content, (config, folder), mode)).collect::<Result<Vec<_>, _>>()?;
    // Each app is reloaded by itself, and the edges wait for the requests of all apps.
    (server.settings.restart_file, server.settings.life.watch) = (None, false);
    let graceful = apps.iter().map(|app| app.resolved.settings.timeouts.graceful).max();
    server.settings.timeouts.graceful = graceful.unwrap_or(server.settings.timeouts.graceful);
    if server.settings.serves_metrics() || server.settings.trace_export.endpoint.is_some() {
        for name in routes::names(&content) {
            join_label(name, &mut server.settings.route_labels);
        }
    }
    let routes = routes::compile(&content, &server.settings).map_err(Trouble::usage)?;
    if let Mode::Check(form) = mode {
        return check(&name, form, &server, apps, &warnings.to_string());
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
    let (settings, started): (Vec<_>, Vec<_>) =
        apps.into_iter().map(|app| (app.resolved.settings, (&app.section.name, app.mold, app.lanes, app.directory))).unzip();
    let apps = settings.iter().zip(started);
    let apps = apps.map(|(settings, (name, mold, lanes, directory))| process::App {
        name: Some(name.as_str()),
        settings,
        mold,
        lanes,
        directory,
    });
    Ok(exit_status(process::master::run_apps(&server.settings, apps.collect(), routes.as_ref())))
}

/// Resolves settings in the folder of the file, where relative paths begin.
fn resolve_at(folder: Option<&Path>, config: &Config) -> Result<Resolved, Trouble> {
    let Some(folder) = folder else { return resolve(config, Served::App) };
    let failed = |error: io::Error| Trouble::failure(format!("cannot enter {}: {error}", folder.display()));
    let before = Directory::current();
    std::env::set_current_dir(folder).map_err(failed)?;
    let resolved = resolve(config, Served::App);
    before.enter();
    resolved
}

/// Loads each app and prints the plan.
fn check(name: &str, form: PlanForm, server: &Resolved, apps: Vec<ReadyApp<'_>>, warnings: &str) -> Result<u8, Trouble> {
    // If standard error is closed, the messages are lost.
    let _ = io::stderr().write_all(warnings.as_bytes());
    server.settings.look_at_certificates().map_err(Trouble::failure)?;
    let plan = Plan { app: name.to_owned(), language: format!("{} apps", apps.len()), resolved: server };
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
        let plan = Plan { app: app.path.display().to_string(), language, resolved: &resolved };
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

/// Adds the options of the whole server.
fn of_server(content: &ConfigFile, mut config: Config) -> Result<Config, Trouble> {
    let addresses = content.listens.iter().map(|listen| &listen.address);
    content.options_of_server().chain(addresses).try_for_each(|item| set(&mut config, item))?;
    // Only an edge can serve several apps.
    config.set("edge", "on", Origin::Default).map_err(|error| Trouble::usage(error.to_string()))?;
    Ok(config)
}

/// Replaces what the configuration file of an app says about the whole server by notes: one of several apps does not decide it.
fn of_app(mut configuration: Configuration) -> Configuration {
    for said in &mut configuration.said {
        if let Said::Setting { name, place, .. } = said
            && setting_of(name).is_some_and(|(setting, _)| setting.scope != Scope::App)
        {
            *said = Said::Note(format!("{place}: {name} is for the whole server, so it has no effect here: set it in {FILE}"));
        }
    }
    configuration
}

fn set(config: &mut Config, item: &Item) -> Result<(), Trouble> {
    for value in &item.values {
        config
            .set(&item.name, value, item.place.origin())
            .map_err(|error| Trouble::usage(format!("{}: {error}", item.place)))?;
    }
    Ok(())
}

/// Finds the program that runs an app, and its settings.
fn ready<'f>(
    section: &'f AppSection,
    content: &ConfigFile,
    (config, folder): (&Config, Option<&Path>),
    mode: Mode,
) -> Result<ReadyApp<'f>, Trouble> {
    let at = |why: String| Trouble::usage(format!("{}: app {}: {why}", section.place, section.name));
    let mut config = of_server(content, config.clone())?;
    content.options_of(section).try_for_each(|item| set(&mut config, item))?;
    config.set("app-name", &section.name, Origin::Default).map_err(|error| at(error.to_string()))?;
    let path = absolute(&section.file).unwrap_or_else(|_| section.file.clone());
    let language = section.language.as_ref().map(|language| language.value.as_str());
    let is_proxy = !section.proxy.is_empty();
    let path = if is_proxy { PathBuf::from(section.proxy.join(",")) } else { path };
    let (options, is_root) = options_of(section).map_err(at)?;
    let app = if is_root {
        App { path: path.clone(), language: &lua::LANGUAGE }
    } else {
        languages::find(Some(&path), language).map_err(at)?
    };
    fits(section, &app).map_err(at)?;
    if !is_proxy {
        place::set_restart_file(&mut config, &app.path);
    }
    let usual = if is_proxy { folder } else { app.path.parent() };
    let own = section.directory.clone().or_else(|| usual.map(Path::to_owned)).unwrap_or_default();
    let directory = Directory::at(&absolute(&own).unwrap_or(own));
    let checks = matches!(mode, Mode::Check(_));
    let (mut notes, mut mold, program) = (
        Vec::new(),
        None,
        match &app.language.home {
            Home::Mold { .. } => String::new(),
            Home::BuiltIn { describe, .. } => describe(),
        },
    );
    if is_proxy {
        proxy::set_defaults(&mut config).map_err(|error| at(error.to_string()))?;
    }
    let mut runner = None;
    if let Home::Mold { find_runner, .. } = &app.language.home {
        let found = find_runner(&options).map_err(|why| Trouble::failure(format!("app {}: {why}", section.name)))?;
        if let Some(configuration) = found.configuration(&app).map_err(Trouble::failure)? {
            notes = of_app(configuration).apply(&mut config).map_err(Trouble::usage)?;
        }
        mold = Some(found.mold(&app, checks));
        runner = Some(found);
    }
    let mut resolved = resolve_at(folder, &config).map_err(|trouble| at(trouble.message))?;
    if !is_proxy {
        place::watch(&mut resolved.settings, &app.path);
    }
    let arguments = resolved.arguments();
    let mold = match mold {
        Some(mut mold) => {
            mold.args(&arguments);
            mold
        }
        None => built_in(&app, checks, &arguments, &section.language_options)?,
    };
    let program = runner.map_or(program, |runner| runner.program());
    let lanes = if app.language.shares_requests { 1 } else { resolved.settings.threads };
    let mut ready = ReadyApp { section, app, resolved, mold, program, notes, lanes, directory };
    for variable in &section.environment {
        ready.mold.envs(variable.values.iter().map(|value| (&variable.name, value)));
    }
    Ok(ready)
}

/// The option by which a Lua app is a directory of scripts.
const ROOT: &str = "document-root";

/// The options of the language of an app, and whether the app is a directory of scripts. Those of Lua alone go to the command of
/// the app.
fn options_of(section: &AppSection) -> Result<(Options, bool), String> {
    let mut options = Options::default();
    let mut is_root = false;
    for item @ Item { name, values, place, .. } in &section.language_options {
        let last = values.last().map(String::as_str).unwrap_or_default();
        let text = || texts(item).pop().unwrap_or_default();
        match name.as_str() {
            "include" => options.include = texts(item),
            "module" => options.modules.clone_from(values),
            "require" => options.requires = texts(item),
            "env" => options.environment = Some(last.to_owned()),
            "config" => options.config = Some(text().into()),
            "perl" => options.perl = Some(text()),
            "ruby" => options.ruby = Some(text()),
            ROOT => is_root = last == "on",
            name => lua::check_option(name, last).map_err(|why| format!("{place}: {why}"))?,
        }
    }
    if is_root && !section.file.is_dir() {
        return Err(format!("{} is not a directory; {ROOT} needs one", section.file.display()));
    }
    Ok((options, is_root))
}

/// The values of an option. Paths are absolute, because an app has a directory of its own.
fn texts(item: &Item) -> Vec<OsString> {
    let form = LANGUAGE_OPTIONS.iter().find(|option| option.name == item.name).map(|option| option.form);
    let is_path = |value: &str| match form {
        Some(ValueForm::Path | ValueForm::Paths) => value != "-",
        Some(ValueForm::Program) => value.contains('/'),
        _ => false,
    };
    let text = |value: &String| {
        let path = Path::new(value);
        if is_path(value) { absolute(path).unwrap_or_else(|_| path.to_owned()).into_os_string() } else { value.into() }
    };
    item.values.iter().map(text).collect()
}

/// Refuses options of another language.
fn fits(section: &AppSection, app: &App) -> Result<(), String> {
    let language = |item: &Item| LANGUAGE_OPTIONS.iter().find(|option| option.name == item.name).map(|option| option.language);
    let other = |item: &&Item| language(item).is_some_and(|name| !name.is_empty() && name != app.language.name);
    match section.language_options.iter().find(other) {
        Some(item) => Err(format!("{}: `{}` is not for an app in {}", item.place, item.name, app.language.title)),
        None => Ok(()),
    }
}

/// Returns the command that runs an app of a built-in language in a process of its own: this program again.
fn built_in(app: &App, checks: bool, arguments: &[String], of_language: &[Item]) -> Result<Command, Trouble> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Trouble::failure(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(program);
    if checks {
        command.arg("check").stdout(std::process::Stdio::null());
    }
    command.arg(&app.path);
    if app.path.is_dir() {
        command.arg("--document-root");
    } else {
        command.args(["--language", app.language.name]);
    }
    for item in of_language.iter().filter(|item| item.name != ROOT) {
        for value in texts(item) {
            let mut argument = OsString::from(format!("--{}=", item.name));
            argument.push(value);
            command.arg(argument);
        }
    }
    command.args(arguments.iter().map(|argument| format!("--{argument}")));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_of_lua_has_its_place_in_the_file() {
        let of_lua = |name: &str| LANGUAGE_OPTIONS.iter().any(|option| option.name == name && option.language == "lua");
        for setting in oribi_lua::table() {
            assert!(of_lua(setting.name), "{}", setting.name);
        }
        for option in LANGUAGE_OPTIONS {
            assert!(setting_of(option.name).is_none(), "{} is an option of the server, too", option.name);
        }
        assert!(lua::check_option("state-memory", "16m").is_ok());
        assert!(lua::check_option("states", "many").is_err_and(|why| why.contains("bad value `many` for states")));
    }
}
