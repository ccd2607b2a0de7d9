//! Finds the settings of a server with several apps and of each app, and the programs that run the apps.

use crate::configuration::{Configuration, Said};
use crate::language::{App, Home, Runner};
use crate::options::Mode;
use crate::routes::{self, RealDisk};
use crate::trouble::Trouble;
use crate::{app_checks, needed_paths, place, proxy, setting_checks};
use oribi_config_file::{AppSection, ConfigFile, Findings, Item, Review};
use oribi_server::config::{Config, Contradiction, Origin, Resolved, Scope, Served, Settings, setting_of};
use oribi_server::directory::{Directory, absolute};
use oribi_server::process::{PlannedApp, ServerPlan};
use std::ffi::OsString;
use std::path::Path;
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

/// A file without a mistake: the settings of the server, the apps, and the programs that load these.
pub struct ReadyFile<'f> {
    pub server: Resolved,
    pub apps: Vec<ReadyApp<'f>>,
    pub warnings: Findings,
}

/// A file with its content, the findings so far, and the options of the command line and of the environment.
pub struct Examined<'f> {
    pub file: &'f Path,
    pub content: &'f ConfigFile,
    pub review: Review,
    pub config: &'f Config,
    /// The settings of the running server, if there is one.
    pub served: Option<&'f Settings>,
}

/// The parts of a check that have an effect on the others.
struct Checking<'f> {
    content: &'f ConfigFile,
    config: &'f Config,
    /// The folder of the file, where relative paths begin.
    folder: Option<&'f Path>,
    mode: Mode,
    review: Review,
    /// The reasons that are no mistakes in the file.
    failures: Vec<String>,
}

impl<'f> Examined<'f> {
    /// Checks the settings together, the apps, and all that the file names on this machine.
    ///
    /// # Errors
    /// All mistakes in the file, or the reason for which an app cannot be started.
    pub fn ready(self, mode: Mode) -> Result<ReadyFile<'f>, Trouble> {
        let Self { file, content, review, config, served } = self;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut checking = Checking { content, config, folder, mode, review, failures: Vec::new() };
        needed_paths::check(&content.needed, &mut checking.review);
        let server = checking.server(file, served);
        let apps: Vec<ReadyApp<'f>> = content.apps.iter().filter_map(|section| checking.app(section)).collect();
        let Checking { review, mut failures, .. } = checking;
        failures.dedup();
        let warnings = review.finish().map_err(|findings| {
            let failures = failures.iter().map(|why| format!("{why}\n")).collect::<String>();
            Trouble::in_file(format!("{findings}{failures}").trim_end())
        })?;
        match server {
            Some(server) if failures.is_empty() && apps.len() == content.apps.len() => Ok(ReadyFile { server, apps, warnings }),
            _ => Err(Trouble::failure(failures.join("\n"))),
        }
    }
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

impl<'f> Checking<'f> {
    /// Finds the settings of the server.
    fn server(&mut self, file: &Path, served: Option<&Settings>) -> Option<Resolved> {
        let content = self.content;
        // The defaults of all apps are also those of the server: it runs its edges as their user.
        let mut server = self.of_server();
        let of_workers = content.server.iter().filter(|item| matches!(item.name.as_str(), "user" | "group"));
        of_workers.for_each(|item| self.set(&mut server, item));
        self.default(&mut server, "app-name", &file.display().to_string());
        let (resolved, contradictions) = self.examine(&server)?;
        setting_checks::contradictions(contradictions, content, None, &mut self.review);
        let whole = self.review.whole();
        if self.review.lacks_apps() {
            self.review.mistake(&whole, "there is no app: add a table [app.NAME] with file = \"PATH\"", None);
        }
        if resolved.settings.edges_wanted() == 0 {
            let excludes = |item: &&Item| item.name == "edge";
            let place = content.server.iter().find(excludes).map_or(whole, |item| item.place.clone());
            let why = "apps with routes need an edge, and --edge off excludes it";
            self.review.mistake(&place, why, None);
        }
        setting_checks::accounts(&resolved.settings, content, None, &mut self.review);
        setting_checks::certificates(&resolved.settings, served, content, self.folder, &mut self.review);
        setting_checks::directories(&resolved.settings, content, &mut self.review);
        Some(resolved)
    }

    /// The options of the whole server.
    fn of_server(&mut self) -> Config {
        let (mut config, content) = (self.config.clone(), self.content);
        let addresses = content.listens.iter().map(|listen| &listen.address);
        content.options_of_server().chain(addresses).for_each(|item| self.set(&mut config, item));
        // Only an edge can serve several apps.
        self.default(&mut config, "edge", "on");
        config
    }

    fn set(&mut self, config: &mut Config, item: &Item) {
        for value in &item.values {
            if let Err(error) = config.set(&item.name, value, item.place.origin()) {
                self.review.mistake(&item.place, error.to_string(), None);
            }
        }
    }

    fn default(&mut self, config: &mut Config, name: &str, value: &str) {
        if let Err(error) = config.set(name, value, Origin::Default) {
            self.failures.push(error.to_string());
        }
    }

    /// Examines settings in the folder of the file. `None` if it cannot be entered.
    fn examine(&mut self, config: &Config) -> Option<(Resolved, Vec<Contradiction>)> {
        let before = Directory::current();
        if let Some(folder) = self.folder
            && let Err(error) = std::env::set_current_dir(folder)
        {
            self.failures.push(format!("cannot enter {}: {error}", folder.display()));
            return None;
        }
        let (mut resolved, contradictions) = config.examine();
        resolved.decide_about_edges(Served::App);
        if self.folder.is_some() {
            before.enter();
        }
        Some((resolved, contradictions))
    }

    /// Finds the program that runs an app, and its settings. `None` after a mistake.
    fn app(&mut self, section: &'f AppSection) -> Option<ReadyApp<'f>> {
        let (mut config, content) = (self.of_server(), self.content);
        content.options_of(section).for_each(|item| self.set(&mut config, item));
        self.default(&mut config, "app-name", &section.name);
        let app = app_checks::find(section, &mut self.review);
        let options = app_checks::options(section, app.as_ref(), &mut self.review);
        let is_proxy = !section.proxy.is_empty();
        if is_proxy && let Err(error) = proxy::set_defaults(&mut config) {
            self.failures.push(error.to_string());
        }
        let found = app.zip(options);
        if let Some((app, _)) = found.as_ref().filter(|_| !is_proxy) {
            place::set_restart_file(&mut config, &app.path);
        }
        let (mut notes, mut runner) = (Vec::new(), None);
        if let Some((app, options)) = &found
            && let Home::Mold { find_runner, .. } = &app.language.home
        {
            match find_runner(options) {
                Ok(found) => {
                    notes = self.of_app(section, app, &*found, &mut config);
                    runner = Some(found);
                }
                Err(why) => self.failures.push(format!("app {}: {why}", section.name)),
            }
        }
        let (resolved, contradictions) = self.examine(&config)?;
        setting_checks::contradictions(contradictions, content, Some(section), &mut self.review);
        setting_checks::accounts(&resolved.settings, content, Some(section), &mut self.review);
        let (app, _) = found.filter(|_| section.is_sound)?;
        self.started(section, app, resolved, runner.as_deref(), notes)
    }

    /// Adds the settings of the configuration file in the app's language. Returns notes about it.
    fn of_app(&mut self, section: &AppSection, app: &App, runner: &dyn Runner, config: &mut Config) -> Vec<String> {
        let said = match runner.configuration(app) {
            Ok(None) => return Vec::new(),
            Ok(Some(configuration)) => of_app(configuration).apply(config),
            Err(why) => {
                self.failures.push(why);
                return Vec::new();
            }
        };
        said.unwrap_or_else(|why| {
            let named = section.language_options.iter().find(|item| item.name == "config");
            let place = named.map_or(&section.place, |item| &item.place).clone();
            self.review.mistake(&place, format!("app {}: {why}", section.name), None);
            Vec::new()
        })
    }

    /// The app with the command that starts it.
    fn started(
        &mut self,
        section: &'f AppSection,
        app: App,
        mut resolved: Resolved,
        runner: Option<&dyn Runner>,
        notes: Vec<String>,
    ) -> Option<ReadyApp<'f>> {
        let is_proxy = !section.proxy.is_empty();
        if !is_proxy {
            place::watch(&mut resolved.settings, &app.path);
        }
        let usual = if is_proxy { self.folder } else { app.path.parent() };
        let own = section.directory.as_ref().map(|directory| directory.path.clone());
        let own = own.or_else(|| usual.map(Path::to_owned)).unwrap_or_default();
        let directory = Directory::at(&absolute(&own).unwrap_or(own));
        let checks = matches!(self.mode, Mode::Check(_));
        let arguments = resolved.arguments();
        let (mut mold, program) = match (&app.language.home, runner) {
            (Home::BuiltIn { describe, .. }, _) => match built_in(&app, checks, &arguments, &section.language_options) {
                Ok(mold) => (mold, describe()),
                Err(why) => {
                    self.failures.push(why);
                    return None;
                }
            },
            (Home::Mold { .. }, Some(runner)) => {
                let mut mold = runner.mold(&app, checks);
                mold.args(&arguments);
                (mold, runner.program())
            }
            (Home::Mold { .. }, None) => return None,
        };
        let lanes = if app.language.shares_requests { 1 } else { resolved.settings.threads };
        for variable in &section.environment {
            mold.envs(variable.values.iter().map(|value| (&variable.name, value)));
        }
        Some(ReadyApp { section, app, resolved, mold, program, notes, lanes, directory })
    }
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

/// Returns the command that runs an app of a built-in language in a process of its own: this program again.
fn built_in(app: &App, checks: bool, arguments: &[String], of_language: &[Item]) -> Result<Command, String> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| format!("cannot find this program: {error}"))?;
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
    for item in of_language.iter().filter(|item| item.name != app_checks::ROOT) {
        for value in app_checks::texts(item) {
            let mut argument = OsString::from(format!("--{}=", item.name));
            argument.push(value);
            command.arg(argument);
        }
    }
    command.args(arguments.iter().map(|argument| format!("--{argument}")));
    Ok(command)
}
