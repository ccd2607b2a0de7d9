//! Finds the settings of a server with several apps and of each app, and the programs that run the apps.

use crate::configuration::{Configuration, Said};
use crate::language::{App, Home};
use crate::languages;
use crate::options::{Mode, Options};
use crate::routes::{self, RealDisk};
use crate::trouble::Trouble;
use crate::{lua, place, proxy, resolve};
use oribi_config_file::{AppSection, ConfigFile, Item, LANGUAGE_OPTIONS, ValueForm};
use oribi_server::config::{Config, Origin, Resolved, Scope, Served, setting_of};
use oribi_server::directory::{Directory, absolute};
use oribi_server::process::{PlannedApp, ServerPlan};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The name of the file beside which no app is looked for.
pub const FILE: &str = "oribi.toml";

/// An app that is ready to be started.
pub struct ReadyApp<'f> {
    pub section: &'f AppSection,
    pub app: App,
    pub resolved: Resolved,
    pub mold: Command,
    /// The program that runs the app, for users.
    pub program: String,
    /// Notes about the configuration file in the language of the app.
    pub notes: Vec<String>,
    pub lanes: usize,
    pub directory: Directory,
}

/// Finds the settings of the server and of all apps, and the programs that load these.
pub fn resolve_all<'f>(
    content: &'f ConfigFile,
    file: &Path,
    config: &Config,
    mode: Mode,
) -> Result<(Resolved, Vec<ReadyApp<'f>>), Trouble> {
    // The defaults of all apps are also those of the server: it runs its edges as their user.
    let mut server = of_server(content, config.clone())?;
    content
        .server
        .iter()
        .filter(|item| matches!(item.name.as_str(), "user" | "group"))
        .try_for_each(|item| set(&mut server, item))?;
    let name = file.display().to_string();
    server.set("app-name", &name, Origin::Default).map_err(|error| Trouble::usage(error.to_string()))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let server = resolve_at(folder, &server)?;
    if content.apps.is_empty() {
        return Err(Trouble::in_file(format!("{name}: there is no app: add a table [app.NAME] with file = \"PATH\"")));
    }
    if server.settings.edges_wanted() == 0 {
        return Err(Trouble::usage(format!(
            "{name}: apps with routes need an edge, and --edge off (or --accept own) excludes it"
        )));
    }
    let ready = |section: &'f AppSection| ready(section, content, (config, folder), mode);
    let apps = content.apps.iter().map(ready).collect::<Result<Vec<_>, _>>()?;
    Ok((server, apps))
}

/// Returns the part of a file for the whole server, to be compared with that of the same file later.
pub fn server_part(server: &Resolved, content: &ConfigFile) -> Result<ServerPlan, Trouble> {
    let mut arguments = server.arguments();
    // The name is the path of the file, and the server waits for its apps as long as they need.
    // Addresses can change without the other options.
    arguments.retain(|argument| !["app-name=", "graceful-timeout=", "listen="].iter().any(|name| argument.starts_with(name)));
    let place = |name: &str| usize::try_from(routes::fingerprint(name)).unwrap_or(usize::MAX);
    let routes = routes::plan(content, &server.settings, &RealDisk, &place).map_err(Trouble::in_file)?;
    let routes = routes.map_or(0, |routes| routes.fingerprint());
    Ok(ServerPlan { arguments, settings: server.settings.clone(), routes })
}

/// Returns the longest time that an app has for its requests when the server stops.
pub fn longest_graceful(apps: &[ReadyApp<'_>]) -> Option<Duration> {
    apps.iter().map(|app| app.resolved.settings.timeouts.graceful).max()
}

impl ReadyApp<'_> {
    /// Returns the app for the process that starts it.
    pub fn planned(self) -> PlannedApp {
        let Self { section, resolved, mold, lanes, directory, .. } = self;
        let arguments = resolved.arguments();
        PlannedApp { name: section.name.clone(), settings: resolved.settings, mold, lanes, directory, arguments }
    }
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
            .map_err(|error| Trouble::in_file(format!("{}: {error}", item.place)))?;
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
    let at = |why: String| Trouble::in_file(format!("{}: app {}: {why}", section.place, section.name));
    let mut config = of_server(content, config.clone())?;
    content.options_of(section).try_for_each(|item| set(&mut config, item))?;
    config.set("app-name", &section.name, Origin::Default).map_err(|error| at(error.to_string()))?;
    let file = section.file.as_ref().map(|file| file.path.clone()).unwrap_or_default();
    let path = absolute(&file).unwrap_or(file);
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
    let own = section.directory.as_ref().map(|directory| directory.path.clone());
    let own = own.or_else(|| usual.map(Path::to_owned)).unwrap_or_default();
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
    if is_root
        && let Some(file) = &section.file
        && !file.path.is_dir()
    {
        return Err(format!("{} is not a directory; {ROOT} needs one", file.path.display()));
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
