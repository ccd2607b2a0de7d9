//! Parses the command line: flags for every row of the table of settings, and some that concern the app.

use crate::advice;
use crate::apps;
use crate::help;
use crate::options::{LuaOptions, Mode, Options};
use crate::plan::PlanForm;
use clap::builder::OsStringValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use oribi_lua::LuaSetting;
use oribi_server::config::{Config, Origin, Setting, SettingError, table};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The heading of the flags that are not settings of the server.
const APP: &str = "The app";
/// The heading of the flags of `oribi check`.
const CHECK: &str = "Output of `oribi check`";
/// The name of the command that replaces luafcgid, as the first argument or as the program's name.
const LUAFCGID: &str = "luafcgid";

/// A valid command line.
pub struct CommandLine {
    pub mode: Mode,
    pub subject: Subject,
    /// The Lua to use, if it was given.
    pub lua: Option<String>,
    /// The settings, or the error for the first invalid one.
    pub config: Result<Config, SettingError>,
}

/// The content to serve.
pub enum Subject {
    /// A fixed content, without an app.
    Native(Content),
    /// An app, in a file or a directory; `None` for the current directory.
    App { path: Option<PathBuf>, language: Option<String>, options: Options },
    /// The apps of a configuration file, `oribi.toml`.
    Apps(PathBuf),
    /// The files of a directory.
    Files(PathBuf),
    /// The content of a configuration file of luafcgid; `None` for the file in the current directory.
    Luafcgid { file: Option<PathBuf>, options: Options },
}

/// The source of the fixed answer's content.
pub enum Content {
    /// Text on the command line.
    Text(String),
    /// A file, which is read once.
    File(PathBuf),
}

/// Parses a command line, whose first element is the program's name.
///
/// # Errors
/// The text for a mistake or for a request for help. The error also says whether the text belongs on standard output or on
/// standard error.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let verb = arguments.get(1).and_then(|verb| verb.to_str()).unwrap_or_default();
    let checks = verb == "check";
    // `oribi check serve DIR` takes the same arguments as `oribi serve DIR`.
    let mut serve = verb == "serve";
    if checks || serve {
        arguments.remove(1);
        if checks && arguments.get(1).is_some_and(|word| word == "serve") {
            serve = true;
            arguments.remove(1);
        }
    } else if verb == "help" {
        arguments[1] = OsString::from("--help");
    }
    // A link with this name does the same as the command.
    let named = arguments.first().is_some_and(|program| Path::new(program).file_name() == Some(OsStr::new(LUAFCGID)));
    let worded = !named && arguments.get(1).is_some_and(|word| word == LUAFCGID);
    if worded {
        arguments.remove(1);
    }
    let mut grammar = command();
    if arguments.iter().take_while(|word| *word != "--").any(|word| word == "-h") {
        // Otherwise clap would print the same text for -h and --help.
        let summary = help::summary(&grammar);
        grammar = grammar.override_help(summary);
    }
    let matches = grammar.try_get_matches_from(arguments).map_err(|mut error| {
        advice::improve(&mut error, &command());
        error
    })?;
    let form = PlanForm {
        changed: matches.get_flag("changed"),
        json: matches.get_flag("json"),
        config: matches.get_flag("print-config"),
    };
    if form != PlanForm::default() && !checks {
        let name = if form.config {
            "print-config"
        } else if form.json {
            "json"
        } else {
            "changed"
        };
        let why = format!("--{name} is an option of `oribi check`, which prints the settings");
        return Err(command().error(ErrorKind::ArgumentConflict, why));
    }
    let mode = match checks {
        _ if matches.get_flag("version") => Mode::Version,
        true => Mode::Check(form),
        false if matches.get_flag("daemonize") => Mode::Daemonize,
        false => Mode::Serve,
    };
    let path = matches.get_one::<OsString>("APP").map(PathBuf::from);
    let language = matches.get_one::<String>("language").cloned();
    let given = matches.get_one::<OsString>("config-file").map(PathBuf::from);
    let subject = match content(&matches) {
        Some(content) => Subject::Native(content),
        None if given.is_some() => Subject::Apps(given.unwrap_or_default()),
        None if named || worded => Subject::Luafcgid { file: path, options: options(&matches) },
        None if serve
            && language.is_none()
            && !matches.contains_id("document-root")
            && path.as_ref().is_some_and(|path| path.is_dir()) =>
        {
            Subject::Files(path.unwrap_or_default())
        }
        None => {
            let options = options(&matches);
            let file = apps::file_at(path.as_deref()).filter(|_| language.is_none() && options == Options::default());
            file.map_or_else(|| Subject::App { path, language, options }, Subject::Apps)
        }
    };
    Ok(CommandLine { mode, subject, lua: matches.get_one::<String>("lua").cloned(), config: collect(&matches) })
}

fn content(matches: &ArgMatches) -> Option<Content> {
    let text = matches.get_one::<String>("native").map(|text| Content::Text(text.clone()));
    text.or_else(|| matches.get_one::<OsString>("native-file").map(|file| Content::File(file.into())))
}

fn options(matches: &ArgMatches) -> Options {
    Options {
        include: all(matches, "include"),
        modules: all(matches, "module"),
        requires: all(matches, "require"),
        environment: matches.get_one::<String>("env").cloned(),
        config: matches.get_one::<OsString>("config").map(PathBuf::from),
        perl: matches.get_one::<OsString>("perl").cloned(),
        ruby: matches.get_one::<OsString>("ruby").cloned(),
        lua: LuaOptions {
            given: oribi_lua::table().iter().flat_map(|setting| given(matches, setting.name)).collect(),
            version: matches.get_one::<String>("lua").cloned(),
            hooks: matches.get_one::<OsString>("hooks").map(PathBuf::from),
            document_root: matches
                .contains_id("document-root")
                .then(|| matches.get_one::<OsString>("document-root").map(PathBuf::from)),
        },
    }
}

/// The values that were given for a flag, each with the flag's name.
fn given<'a>(matches: &ArgMatches, name: &'a str) -> impl Iterator<Item = (&'a str, String)> {
    all::<String>(matches, name).into_iter().map(move |value| (name, value))
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

/// The flags of a setting that clap must distinguish: its own, and those with the opposite meaning.
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
            "The file of the app, or a directory with an app.psgi, a config.ru or an app.lua; or the URLs of other servers, with commas \
             between them\n[default: the current directory]",
        ));
    for arg in app_flags() {
        command = command.arg(arg.help_heading(APP));
    }
    for arg in lua_flags() {
        command = command.arg(arg.help_heading("Lua"));
    }
    for setting in table() {
        for form in forms(setting) {
            command = command.arg(flag(setting, form));
        }
    }
    for arg in check_flags() {
        command = command.arg(arg.help_heading(CHECK));
    }
    for arg in general_flags() {
        command = command.arg(arg.help_heading("General"));
    }
    command
}

fn app_flags() -> Vec<Arg> {
    let native = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .conflicts_with_all(["APP", "language", "include", "module", "require", "env", "config", "perl", "ruby"])
            .conflicts_with_all(["document-root", "lua", "hooks"])
            .conflicts_with_all(oribi_lua::table().iter().map(|setting| setting.name))
    };
    vec![
        native("native").value_name("TEXT").help("Answer every request with this text, without any app"),
        native("native-file")
            .value_name("FILE")
            .value_parser(OsStringValueParser::new())
            .conflicts_with("native")
            .help("Answer every request with the bytes of this file, which is read once, without any app"),
        Arg::new("config-file")
            .short('c')
            .long("config-file")
            .value_name("FILE")
            .value_parser(OsStringValueParser::new())
            .conflicts_with_all(["APP", "language", "document-root"])
            .help(help::wrap(
                "Serve the apps of this file by its routes [default: oribi.toml in the current directory or in DIR, if it is there]",
            )),
        Arg::new("language").long("language").value_name("NAME").help(help::wrap(
            "The language of the app: perl, ruby or lua; by default from the name of its file (.psgi, .pagi and .pl are Perl, .ru is \
             Ruby, .lua is Lua)",
        )),
        Arg::new("env").short('E').long("env").value_name("NAME").help(help::wrap(
            "The environment's name: PLACK_ENV for Perl [default: deployment], RACK_ENV for Ruby [default: production], \
                 require(\"oribi\").environment for Lua [default: production]",
        )),
        Arg::new("config").short('C').long("config").value_name("FILE").value_parser(OsStringValueParser::new()).help(
            help::wrap(
                "Read this configuration file of a Ruby app; - for none [default: config/oribi.rb, oribi.rb, config/puma.rb or \
                 config/unicorn.rb beside the app]",
            ),
        ),
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

fn lua_flags() -> Vec<Arg> {
    let mut flags = vec![
        Arg::new("document-root")
            .long("document-root")
            .alias("document_root")
            .value_name("DIR")
            .num_args(0..=1)
            .value_parser(OsStringValueParser::new())
            .help(help::wrap(
                "Run scripts below DIR, chosen by the path of the request: /shop/cart.lua/7 is shop/cart.lua with the PATH_INFO /7, \
                 /shop/ is shop/index.lua. Over FastCGI, SCRIPT_FILENAME chooses the script, which must be below DIR",
            ))
            .help_heading("Lua"),
        Arg::new("lua").long("lua").value_name("VERSION").help(help::wrap(
            "Which Lua: jit (LuaJIT 2.1, which runs Lua 5.1), or 5.4, which is a separate program\n[default: jit]",
        )),
    ];
    flags.push(Arg::new("hooks").long("hooks").value_name("FILE").value_parser(OsStringValueParser::new()).help(help::wrap(
        "Call the hook functions in the table that this Lua file returns: startup, load, \
                 request, response, flush, housekeeping, shutdown",
    )));
    flags.extend(oribi_lua::table().iter().map(lua_flag));
    flags
}

fn lua_flag(setting: &'static LuaSetting) -> Arg {
    let mut arg = Arg::new(setting.name).long(setting.name).action(ArgAction::Append).help(format!(
        "{}\n{}",
        help::wrap(setting.help),
        help::wrap(&format!("[default: {}]", setting.default_text()))
    ));
    if setting.name.contains('-') {
        arg = arg.alias(setting.name.replace('-', "_"));
    }
    valued(arg, setting.placeholder)
}

fn check_flags() -> Vec<Arg> {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    vec![
        flag("changed").help("Print only settings whose value is not the default"),
        flag("json").help("Print the plan for programs, as one line of JSON"),
        flag("print-config")
            .conflicts_with_all(["changed", "json", "config-file"])
            .help("Print the oribi.toml that says the same as the options"),
    ]
}

fn general_flags() -> Vec<Arg> {
    vec![
        Arg::new("daemonize").short('D').long("daemonize").alias("daemon").action(ArgAction::SetTrue).help(help::wrap(
            "Serve in the background. The command returns when the server serves, with status 0, or when it has failed, with status 1",
        )),
        Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Print this help; -h prints the most important options only"),
        Arg::new("version")
            .short('v')
            .short_alias('V')
            .long("version")
            .action(ArgAction::SetTrue)
            .help("Print the version, and the languages that were found"),
    ]
}

/// The flag for one form of a setting, with `-` or `_` between words.
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
    valued(arg, setting.placeholder)
}

/// Adds a value called `placeholder`; an empty placeholder makes a switch.
fn valued(arg: Arg, placeholder: &'static str) -> Arg {
    if placeholder.is_empty() {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("on").value_name("on|off");
    }
    // A negative number is a bad value, not an unknown flag.
    arg.value_name(placeholder).allow_negative_numbers(true)
}
