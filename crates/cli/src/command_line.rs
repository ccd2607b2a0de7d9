//! The command line: flags for every row of the table of settings, and a few that concern the app.

use crate::help;
use crate::language::Options;
use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use oribi_server::config::{Config, Origin, Setting, SettingError, table};
use std::ffi::OsString;
use std::path::PathBuf;

/// The heading of the flags that are not settings of the server.
const APP: &str = "The app";

/// A command line that was understood.
pub struct CommandLine {
    pub mode: Mode,
    pub subject: Subject,
    /// The settings, or the first that did not fit.
    pub config: Result<Config, SettingError>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Serve,
    Check,
    Version,
}

/// What to serve.
pub enum Subject {
    /// A fixed text.
    Native(String),
    /// An app, in a file or a directory; `None`: in the current directory.
    App { path: Option<PathBuf>, language: Option<String>, options: Options },
}

/// Reads a command line, the name of the program first.
///
/// # Errors
/// A mistake, or a wish for help: what to print, and where.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let verb = arguments.get(1).and_then(|verb| verb.to_str()).unwrap_or_default();
    let mode = match verb {
        "serve" => Some(Mode::Serve),
        "check" => Some(Mode::Check),
        _ => None,
    };
    if mode.is_some() {
        arguments.remove(1);
    } else if verb == "help" {
        arguments[1] = OsString::from("--help");
    }
    let matches = command().try_get_matches_from(arguments)?;
    let mode = if matches.get_flag("version") { Mode::Version } else { mode.unwrap_or(Mode::Serve) };
    let subject = match matches.get_one::<String>("native") {
        Some(text) => Subject::Native(text.clone()),
        None => Subject::App {
            path: matches.get_one::<OsString>("APP").map(PathBuf::from),
            language: matches.get_one::<String>("language").cloned(),
            options: Options {
                include: all(&matches, "include"),
                modules: all(&matches, "module"),
                requires: all(&matches, "require"),
                environment: matches.get_one::<String>("env").cloned(),
                config: matches.get_one::<OsString>("config").map(PathBuf::from),
                perl: matches.get_one::<OsString>("perl").cloned(),
                ruby: matches.get_one::<OsString>("ruby").cloned(),
            },
        },
    };
    Ok(CommandLine { mode, subject, config: collect(&matches) })
}

fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches.get_many::<T>(name).into_iter().flatten().cloned().collect()
}

fn collect(matches: &ArgMatches) -> Result<Config, SettingError> {
    let mut config = Config::new();
    for name in table().iter().flat_map(forms) {
        for value in all::<String>(matches, name) {
            config.set(name, &value, Origin::CommandLine)?;
        }
    }
    Ok(config)
}

/// The flags of a setting that clap must tell apart: one, and those that mean the opposite.
fn forms(setting: &Setting) -> impl Iterator<Item = &'static str> {
    std::iter::once(setting.name).chain(setting.opposites.iter().copied())
}

/// The grammar of the command line.
pub fn command() -> Command {
    let mut command = Command::new("oribi")
        .disable_version_flag(true)
        .disable_help_flag(true)
        .next_line_help(true)
        .about(help::ABOUT)
        .override_usage(help::USAGE)
        .after_help(help::after())
        .help_template("{about}\n\nUsage: {usage}\n\n{all-args}{after-help}")
        .arg(Arg::new("APP").value_parser(OsStringValueParser::new()).help(
            "The file of the app, or a directory with an app.psgi or a config.ru in it\n[default: the current directory]",
        ));
    for arg in app_flags() {
        command = command.arg(arg.help_heading(APP));
    }
    for setting in table() {
        for form in forms(setting) {
            command = command.arg(flag(setting, form));
        }
    }
    for arg in general_flags() {
        command = command.arg(arg.help_heading("General"));
    }
    command
}

fn app_flags() -> Vec<Arg> {
    vec![
        Arg::new("native")
            .long("native")
            .value_name("TEXT")
            .conflicts_with_all(["APP", "language", "include", "module", "require", "env", "config", "perl", "ruby"])
            .help("Answer every request with this text, without any app"),
        Arg::new("language").long("language").value_name("NAME").help(help::wrap(
            "The language of the app, where the name of its file does not say it (.psgi and .pl are Perl, .ru is Ruby): perl or ruby",
        )),
        Arg::new("env")
            .short('E')
            .long("env")
            .value_name("NAME")
            .help(help::wrap(
                "What the app runs in: PLACK_ENV for Perl [default: deployment], RACK_ENV for Ruby [default: production]",
            )),
        Arg::new("config")
            .short('C')
            .long("config")
            .value_name("FILE")
            .value_parser(OsStringValueParser::new())
            .help(help::wrap(
                "Read this configuration file of a Ruby app; - for none [default: config/oribi.rb, oribi.rb, config/puma.rb or \
                 config/unicorn.rb beside the app]",
            )),
        Arg::new("include")
            .short('I')
            .long("include")
            .value_name("DIR")
            .action(ArgAction::Append)
            .value_parser(OsStringValueParser::new())
            .help("Look for modules of the app in this directory first; may be given several times"),
        Arg::new("module")
            .short('M')
            .value_name("MODULE")
            .action(ArgAction::Append)
            .help("Load a Perl module before the app; may be given several times"),
        Arg::new("require")
            .short('r')
            .long("require")
            .value_name("LIBRARY")
            .action(ArgAction::Append)
            .value_parser(OsStringValueParser::new())
            .help("Load a Ruby library before the app; may be given several times"),
        Arg::new("perl")
            .long("perl")
            .value_name("PATH")
            .value_parser(OsStringValueParser::new())
            .help("The perl to run\n[default: perl, from PATH] [environment: ORIBI_PERL]"),
        Arg::new("ruby")
            .long("ruby")
            .value_name("PATH")
            .value_parser(OsStringValueParser::new())
            .help("The ruby to run\n[default: ruby, from PATH] [environment: ORIBI_RUBY]"),
    ]
}

fn general_flags() -> Vec<Arg> {
    vec![
        Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Print this help"),
        Arg::new("version")
            .short('v')
            .short_alias('V')
            .long("version")
            .action(ArgAction::SetTrue)
            .help("Print the version, and which languages were found"),
    ]
}

/// The flag of a setting by one of its forms, with `-` or `_` between words.
fn flag(setting: &'static Setting, form: &'static str) -> Arg {
    let aliases = if form == setting.name { setting.aliases } else { &[] };
    let underscored = aliases.iter().chain([&form]).filter(|name| name.contains('-')).map(|name| name.replace('-', "_"));
    let mut arg = Arg::new(form)
        .long(form)
        .aliases(aliases)
        .aliases(underscored)
        .action(ArgAction::Append)
        .help_heading(setting.section.title())
        .help(help::of(setting))
        .hide(form != setting.name);
    if let Some(short) = setting.short {
        arg = arg.short(short);
    }
    if setting.is_switch() {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("on").value_name("on|off");
    }
    arg.value_name(setting.placeholder)
}
