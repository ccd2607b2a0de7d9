//! Runs Lua scripts in this process and its workers, because Lua is built into the command.

mod plan;
mod version;

pub use version::change_over;

use crate::configuration::{Configuration, Said};
use crate::language::{App, Home, Language};
use crate::options::{Mode, Options};
use crate::trouble::Trouble;
use crate::{begin, behind_master, exit_status, go_to_background, place, print, resolve};
use oribi_lua::hooks::Hooks;
use oribi_lua::script_path::ScriptSource;
use oribi_lua::seed_configuration::{DEFAULT_FILE, SeedConfiguration};
use oribi_lua::{LuaRuntime, LuaSettings, Style, table};
use oribi_server::config::{Config, LoopChoice, Origin, Resolved, Served, Settings};
use oribi_server::process;
use oribi_server::process::Directory;
use plan::LuaPlan;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The description of the language.
pub static LANGUAGE: Language = Language {
    name: "lua",
    title: "Lua",
    endings: &["lua", "ws"],
    programs: &["lua", "luajit"],
    files: &["app.lua"],
    shares_requests: false,
    home: Home::BuiltIn { describe: version::describe, serve: one_script },
};

/// Serves one script that answers all requests, or checks it.
pub fn one_script(mode: Mode, app: &App, options: &Options, config: Config) -> Result<u8, Trouble> {
    let settings = LuaSettings::new(ScriptSource::One(absolute(&app.path)));
    Service { app: app.path.clone(), settings, config, configuration: None, seed: None, hooks: Hooks::default() }
        .run(mode, options)
}

/// Serves the scripts below a directory.
pub fn document_root(mode: Mode, path: Option<&Path>, options: &Options, config: Config) -> Result<u8, Trouble> {
    let root = match (path, options.lua.document_root.as_ref().and_then(Option::as_deref)) {
        (Some(path), Some(root)) => {
            let (path, root) = (path.display(), root.display());
            return Err(Trouble::usage(format!("there are two directories of scripts: {path} and {root}")));
        }
        (Some(path), None) | (None, Some(path)) => path,
        (None, None) => Path::new("."),
    };
    let metadata = root.metadata().map_err(|error| Trouble::usage(format!("cannot find {}: {error}", root.display())))?;
    if !metadata.is_dir() {
        return Err(Trouble::usage(format!("{} is not a directory; --document-root needs one", root.display())));
    }
    let settings = LuaSettings::new(ScriptSource::document_root(absolute(root)));
    Service { app: root.to_owned(), settings, config, configuration: None, seed: None, hooks: Hooks::default() }
        .run(mode, options)
}

/// Serves according to a configuration file of luafcgid.
pub fn luafcgid(mode: Mode, file: Option<&Path>, options: &Options, config: Config) -> Result<u8, Trouble> {
    let mut seed = SeedConfiguration::read(file.unwrap_or(Path::new(DEFAULT_FILE)));
    let hooks = std::mem::replace(&mut seed.hooks, Ok(Hooks::default())).map_err(Trouble::failure)?;
    let place = seed.file.display().to_string();
    let settings = seed.server.iter().map(|(name, value)| Said::Setting {
        name: (*name).to_owned(),
        value: value.clone(),
        place: place.clone(),
    });
    let said = settings.chain(seed.notes.iter().cloned().map(Said::Note)).collect();
    let configuration = Some(Configuration { file: seed.file.clone(), said });
    let mut settings = seed.lua.clone();
    if let Some(root) = &options.lua.document_root {
        let root = root.as_deref().ok_or_else(|| Trouble::usage("--document-root needs a directory here"))?;
        settings.source = ScriptSource::Gateway { root: Some(absolute(root)) };
    }
    Service { app: seed.file.clone(), settings, config, configuration, seed: Some(seed), hooks }.run(mode, options)
}

/// The settings and hooks of a Lua service.
struct Service {
    /// The path of the app, which is also its name for users.
    app: PathBuf,
    settings: LuaSettings,
    config: Config,
    /// The server settings of a configuration file.
    configuration: Option<Configuration>,
    /// The configuration file of luafcgid, if this serves one: `settings` and `configuration` are made from it.
    seed: Option<SeedConfiguration>,
    hooks: Hooks,
}

impl Service {
    fn run(mut self, mode: Mode, options: &Options) -> Result<u8, Trouble> {
        refuse_other_languages(options)?;
        let before = self.settings.clone();
        if let Some(name) = &options.environment {
            self.settings.set_environment(name);
        }
        let in_environment = self.settings.clone();
        apply(options, &mut self.settings).map_err(Trouble::usage)?;
        let before_threads = self.settings.clone();
        if let Some(file) = &options.lua.hooks {
            self.hooks = Hooks::from_file(file).map_err(Trouble::failure)?;
            self.settings.hooks = self.hooks.scripts.clone();
        }
        let mut notes = match &self.configuration {
            Some(configuration) => configuration.apply(&mut self.config).map_err(Trouble::usage)?,
            None => Vec::new(),
        };
        let served = if self.seed.is_some() { Served::InPlaceOfLuafcgid } else { Served::App };
        let mut resolved = resolve(&self.config, served)?;
        place::watch(&mut resolved.settings, &self.app);
        resolved.settings.life.shows_load_errors = resolved.settings.life.watch && self.settings.environment == "development";
        let in_file = |name: &str| self.seed.as_ref().is_some_and(|seed| seed.given.iter().any(|given| given == name));
        let said = |name: &str| in_file(name) || options.lua.given.iter().any(|(given, _)| *given == name);
        self.settings.waits = lets_scripts_wait(&resolved);
        if self.settings.waits && !resolved.settings.can_loop() {
            let why = "handlers that wait (--concurrency) need --threads 1 and, without edges, --io epoll";
            return Err(Trouble::usage(why.to_owned()));
        }
        notes.extend(self.settings.settle(resolved.settings.threads, said));
        let Mode::Check(form) = mode else { return self.serve(mode, &mut resolved.settings, &notes) };
        resolved.settings.look_at_certificates().map_err(Trouble::failure)?;
        for note in notes {
            // If standard error is closed, the message is lost.
            let _ = writeln!(io::stderr(), "oribi: {note}");
        }
        let runtime = self.runtime()?;
        let plan = LuaPlan {
            app: &self.app,
            style: self.load(&runtime)?,
            settings: &self.settings,
            before: &before,
            in_environment: &in_environment,
            before_threads: &before_threads,
            options: &options.lua,
            file: self.seed.as_ref().map(|seed| seed.file.as_path()),
            resolved: &resolved,
        };
        print(&form.text(&plan.of_server(), &plan.settings()))
    }

    /// Creates the runtime. The runtime takes the hooks, and closes their Lua state when the process ends.
    fn runtime(&mut self) -> Result<LuaRuntime, Trouble> {
        let hooks = std::mem::take(&mut self.hooks.process);
        let failed = |error| Trouble::failure(format!("cannot serve {}: {error}", self.app.display()));
        LuaRuntime::with_hooks(self.settings.clone(), hooks).map_err(failed)
    }

    /// Loads the script if one script answers all requests, so that its errors are reported before the server listens.
    fn load(&self, runtime: &LuaRuntime) -> Result<Option<Style>, Trouble> {
        runtime.check().map_err(|failure| {
            let (app, title) = (self.app.display(), failure.fault.title());
            Trouble::failure(format!("{app} could not be loaded: {title}: {}", failure.message))
        })
    }

    fn serve(mut self, mode: Mode, settings: &mut Settings, notes: &[String]) -> Result<u8, Trouble> {
        begin(mode, settings)?;
        if let Some(configuration) = &self.configuration {
            ::log::info!("configuration read from {}", configuration.file.display());
        }
        for note in notes {
            ::log::warn!("{note}");
        }
        if let Some(served) = behind_master::serve(settings, settings.threads) {
            return served;
        }
        let runtime = self.runtime()?;
        match self.load(&runtime) {
            // Each worker tries again, and reports the reason to clients.
            Err(trouble) if settings.life.shows_load_errors => ::log::error!("{}", trouble.message),
            loaded => _ = loaded?,
        }
        if self.seed.as_ref().is_some_and(|seed| seed.daemonize) {
            go_to_background(settings, Directory::Root)?;
        }
        Ok(exit_status(process::supervise_program(settings, &runtime)))
    }
}

/// Checks the value of an option of Lua apps in `oribi.toml`.
///
/// # Errors
/// The values that are valid.
pub fn check_option(name: &str, text: &str) -> Result<(), String> {
    if name == "lua" {
        return version::names_of(text).map(drop);
    }
    let mut settings = LuaSettings::new(ScriptSource::Gateway { root: None });
    table().iter().find(|setting| setting.name == name).map_or(Ok(()), |setting| setting.set(&mut settings, text))
}

/// Whether handlers wait without holding their worker. Requests then share the globals of their script even while one of them
/// waits, so this is so only if the number of those requests was set.
fn lets_scripts_wait(resolved: &Resolved) -> bool {
    let was_set = |name| resolved.explain().any(|(setting, it)| setting.name == name && *it.origin != Origin::Default);
    let settings = &resolved.settings.event_loop;
    was_set("concurrency") && settings.concurrency > 1 && settings.choice == LoopChoice::Auto
}

/// Puts the values of the command line into the settings.
fn apply(options: &Options, settings: &mut LuaSettings) -> Result<(), String> {
    settings.include = options.include.iter().map(|directory| absolute(Path::new(directory))).collect();
    for (name, text) in &options.lua.given {
        if let Some(setting) = table().iter().find(|setting| setting.name == *name) {
            setting.set(settings, text)?;
        }
    }
    Ok(())
}

fn refuse_other_languages(options: &Options) -> Result<(), Trouble> {
    let others = [
        ("--config", options.config.is_some()),
        ("-r", !options.requires.is_empty()),
        ("-M", !options.modules.is_empty()),
        ("--perl", options.perl.is_some()),
        ("--ruby", options.ruby.is_some()),
    ];
    match others.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(Trouble::usage(format!("{flag} is not for Lua apps: their options are under \"Lua\" in --help")))
        }
        None => Ok(()),
    }
}

/// An absolute path, because the process may change its directory.
fn absolute(path: &Path) -> PathBuf {
    oribi_server::directory::absolute(path).unwrap_or_else(|_| path.to_owned())
}
