//! The `oribi` command.
//!
//! It parses the command line, finds the language of the app and the program that runs it, and becomes the master or, for a
//! built-in language, the supervisor. The exit status is 0 after a stop by request, 1 after a failure, and 2 if the command
//! line is invalid.
#![forbid(unsafe_code)]

mod advice;
mod ahttpd;
mod app_checks;
mod apps;
mod behind_master;
mod command_line;
mod completions;
mod configuration;
mod control;
mod file_plan;
mod files;
mod grammar;
mod help;
mod host_files;
mod import;
mod language;
mod languages;
mod lua;
mod manual;
mod needed_paths;
mod options;
mod perl;
mod place;
mod plan;
mod planned_setting;
mod print_config;
mod proxy;
mod ready_app;
mod routes;
mod ruby;
mod schema;
mod setting_checks;
mod shipped;
mod top;
mod trouble;
mod verb;

use command_line::{Content, Subject};
use language::{App, Home, Runner};
use options::Mode;
use oribi_host::Native;
use oribi_server::config::{Config, Origin, Plan, Resolved, Served, Settings, masked};
use oribi_server::process::Directory;
use oribi_server::{log, process};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use trouble::{Trouble, explain};
use verb::arguments_after;

fn main() -> ExitCode {
    // If the kernel refuses, the settings of the parent remain.
    let _ = process::reset_signals();
    let _ = process::survive_failing_writes_while_loading();
    // Process 1 would ignore these signals. If the kernel refuses, they have an effect only after the start of the server.
    let _ = process::end_when_told_while_loading();
    let _ = process::survive_own_signals();
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(Trouble { message, status, hint }) => {
            // The master of several apps has started this program for an app of a built-in language.
            process::report_load_failure(&masked(&message));
            let hint = if hint.is_empty() { String::new() } else { format!("\n{hint}\n") };
            // If standard error is closed, only the exit status remains.
            let _ = write!(io::stderr(), "oribi: {}\n{hint}", masked(&message));
            // By now, standard error is the log, if the log is a file.
            process::report_failed_start();
            ExitCode::from(status)
        }
    }
}

fn run() -> Result<u8, Trouble> {
    if let Some(arguments) = ahttpd::arguments(std::env::args_os()) {
        return ahttpd::run(arguments);
    }
    if let Some(arguments) = arguments_after(control::CTL, std::env::args_os()) {
        return control::run(arguments);
    }
    if let Some(arguments) = arguments_after(top::TOP, std::env::args_os()) {
        return top::run(arguments);
    }
    if let Some(arguments) = arguments_after(completions::COMPLETIONS, std::env::args_os()) {
        return completions::run(arguments);
    }
    if let Some(arguments) = arguments_after(manual::MANUAL, std::env::args_os()) {
        return manual::run(arguments);
    }
    if let Some(arguments) = arguments_after(import::IMPORT, std::env::args_os()) {
        return import::run(&arguments);
    }
    if let Some(arguments) = arguments_after(schema::SCHEMA, std::env::args_os()) {
        return schema::run(arguments);
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let command_line = match command_line::parse(arguments.iter().cloned()) {
        Ok(command_line) => command_line,
        Err(said) => match advice::command_like(&arguments).filter(|_| said.use_stderr()) {
            Some(advice) => return Err(Trouble::usage(advice)),
            None => return Ok(explain(&said)),
        },
    };
    if let Some(version) = &command_line.lua {
        lua::change_over(version)?;
    }
    process::claim_environment();
    process::claim_inheritance();
    if command_line.mode == Mode::Version {
        return print(&help::version());
    }
    let mut config = command_line.config.map_err(|error| Trouble::usage(error.to_string()))?;
    // Only this command opens a control socket by default. Another program that runs the server, such as plackup, must request
    // the socket by an option.
    config.set("control", "auto", Origin::Default).map_err(|error| Trouble::usage(error.to_string()))?;
    match command_line.subject {
        Subject::Native(content) => native(command_line.mode, content, &resolve(&config, Served::Content)?),
        Subject::Files(directory) => files::serve(command_line.mode, &directory, &resolve(&config, Served::Content)?),
        Subject::Apps(file) => apps::run(command_line.mode, &file, &config),
        Subject::App { path, language, options } => {
            // Reports invalid flags before anything else.
            resolve(&config, Served::App)?;
            if options.lua.document_root.is_some() {
                return lua::document_root(command_line.mode, path.as_deref(), &options, config);
            }
            let app = languages::find(path.as_deref(), language.as_deref())
                .map_err(|why| Trouble::usage(advice::command_like(&arguments).unwrap_or(why)))?;
            name_app(&mut config, &app.path)?;
            place::set_restart_file(&mut config, &app.path);
            match &app.language.home {
                Home::Mold { find_runner, .. } => {
                    let runner = find_runner(&options).map_err(Trouble::failure)?;
                    molded(command_line.mode, &app, &*runner, config)
                }
                Home::BuiltIn { serve, .. } => serve(command_line.mode, &app, &options, config),
            }
        }
        Subject::Luafcgid { file, options } => {
            resolve(&config, Served::InPlaceOfLuafcgid)?;
            lua::luafcgid(command_line.mode, file.as_deref(), &options, config)
        }
    }
}

/// Sets the app's name in process lists, unless the user has set one. A path with control characters is not used.
fn name_app(config: &mut Config, path: &Path) -> Result<(), Trouble> {
    match path.to_str().filter(|name| !name.chars().any(char::is_control)) {
        Some(name) => config.set("app-name", name, Origin::Default).map_err(|error| Trouble::usage(error.to_string())),
        None => Ok(()),
    }
}

/// Resolves the settings for the kind of content that is served.
fn resolve(config: &Config, served: Served) -> Result<Resolved, Trouble> {
    let mut resolved = config.resolve().map_err(|error| Trouble::usage(error.to_string()))?;
    resolved.decide_about_edges(served);
    resolved.check_workers().map_err(Trouble::usage)?;
    Ok(resolved)
}

/// Prints to standard output.
fn print(text: &dyn fmt::Display) -> Result<u8, Trouble> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(0),
        // `oribi check app.psgi | head -3`: the reader needs no more lines.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(Trouble::failure(format!("cannot write to standard output: {error}"))),
    }
}

/// Answers every request with a fixed content.
fn native(mode: Mode, content: Content, resolved: &Resolved) -> Result<u8, Trouble> {
    let (app, bytes) = match content {
        Content::Text(text) => (format!("the text {text:?}"), text.into_bytes()),
        Content::File(path) => {
            let bytes = std::fs::read(&path);
            let bytes = bytes.map_err(|error| Trouble::failure(format!("cannot read {}: {error}", path.display())))?;
            (format!("the {} bytes of {}", bytes.len(), path.display()), bytes)
        }
    };
    if let Mode::Check(form) = mode {
        resolved.settings.look_at_certificates().map_err(Trouble::failure)?;
        let plan = Plan::new(app, "none (native)".to_owned(), resolved);
        return print(&form.text(&plan, &[]));
    }
    let mut settings = resolved.settings.clone();
    begin(mode, &mut settings)?;
    Ok(exit_status(process::supervise_program(&settings, &Native::new(bytes))))
}

/// Serves an app in a process of its language, or checks it.
fn molded(mode: Mode, app: &App, runner: &dyn Runner, mut config: Config) -> Result<u8, Trouble> {
    let configuration = runner.configuration(app).map_err(Trouble::failure)?;
    let notes = match &configuration {
        Some(configuration) => configuration.apply(&mut config).map_err(Trouble::usage)?,
        None => Vec::new(),
    };
    let mut resolved = resolve(&config, Served::App)?;
    place::watch(&mut resolved.settings, &app.path);
    let mut mold = runner.mold(app, matches!(mode, Mode::Check(_)));
    mold.args(resolved.arguments());
    if let Mode::Check(form) = mode {
        process::start_as_worker(&resolved.settings, &mut mold).map_err(Trouble::failure)?;
        let status = mold.status().map_err(|error| Trouble::failure(format!("cannot run {}: {error}", runner.program())))?;
        for note in &notes {
            // If standard error is closed, the message is lost.
            let _ = writeln!(io::stderr(), "oribi: {note}");
        }
        if !status.success() {
            return Err(Trouble::failure(format!("{} could not be loaded", app.path.display())));
        }
        resolved.settings.look_at_certificates().map_err(Trouble::failure)?;
        let language = format!("{}, run by {}", app.language.title, runner.program());
        let plan = Plan::new(app.path.display().to_string(), language, &resolved);
        return print(&form.text(&plan, &[]));
    }
    begin(mode, &mut resolved.settings)?;
    if let Some(configuration) = &configuration {
        ::log::info!("configuration read from {}", configuration.file.display());
    }
    for note in &notes {
        ::log::warn!("{note}");
    }
    let lanes = if app.language.shares_requests { 1 } else { resolved.settings.threads };
    Ok(exit_status(process::master::run(&resolved.settings, mold, lanes)))
}

/// Goes to the background if requested, opens the logs, and logs the name of the app.
fn begin(mode: Mode, settings: &mut Settings) -> Result<(), Trouble> {
    // The process that stays in the foreground keeps the user's standard error, which the logs would replace.
    if mode == Mode::Daemonize && !process::has_master() {
        go_to_background(settings, Directory::Same)?;
    }
    let kept = process::keep_standard_error(settings);
    kept.map_err(|error| Trouble::failure(format!("cannot keep standard error: {error}")))?;
    log::prepare(settings).map_err(Trouble::failure)?;
    if !settings.app_name.is_empty() {
        ::log::info!("starting {} (Oribi {})", settings.app_name, env!("CARGO_PKG_VERSION"));
    }
    Ok(())
}

fn go_to_background(settings: &mut Settings, directory: Directory) -> Result<(), Trouble> {
    process::detach(settings, directory).map_err(|error| Trouble::failure(format!("cannot go to the background: {error}")))
}

/// Returns the exit status of this process. The server returns only 0 and 1, so any other value is also a failure.
fn exit_status(status: i32) -> u8 {
    if status != 0 {
        process::report_failed_start();
    }
    u8::try_from(status).unwrap_or(Trouble::FAILED)
}
