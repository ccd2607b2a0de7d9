//! The texts of `--help`, `-h` and `--version`.

mod summary;

pub use summary::summary;

use crate::languages::LANGUAGES;
use oribi_server::config::Setting;

pub const ABOUT: &str =
    "Oribi serves web apps written in Perl (PSGI), Ruby (Rack) and Lua over HTTP/1.1, HTTP/2, TLS and FastCGI.";

pub const USAGE: &str = "oribi [serve] [APP|DIR] [options]
       oribi [serve] -c FILE [options]     serve the apps of FILE, an oribi.toml, by its routes
       oribi [serve] DIR --document-root   run Lua scripts below DIR, chosen by the path of the request
       oribi [serve] URL [options]         pass requests on to another server: http://HOST:PORT or http+unix:/PATH
       oribi serve DIR [options]           serve the files of DIR (`oribi DIR` runs the app in DIR)
       oribi luafcgid [FILE] [options]     serve Lua scripts over FastCGI with a configuration file of luafcgid
       oribi ahttpd PORT [--io NAME]       answer as ahttpd does: see `oribi ahttpd --help`
       oribi check ...                     load the app, print the plan, serve nothing
       oribi ctl ORDER                     show and control a running server: see `oribi ctl --help`
       oribi top                           show live what a running server does: see `oribi top --help`
       oribi import SOURCE                 make an oribi.toml of the configuration of another server
       oribi completions SHELL             print a completion script for bash, zsh or fish
       oribi manual [PAGE]                 print the manual page oribi, oribi-ctl or oribi-top
       oribi schema                        print the JSON schema of oribi.toml, for editors
       oribi --native TEXT [options]       answer with a fixed text, or with the bytes of --native-file FILE";

/// Columns of a line of help, without its indent.
const COLUMNS: usize = 78;

/// The text below the flags.
pub fn after() -> String {
    "\
Values:
  TIME     30, 30s, 500ms, 5m, 1h, 1d; a plain number counts seconds
  SIZE     bytes, or 64k, 1m, 2g; units count by 1024
  The command line overrides the environment, that overrides a configuration file, and that overrides the default.
  `oribi check` shows the source of each value. In the name of a flag, `_` and `-` are the same.

Signals:
  TERM, INT, QUIT   finish running requests, then stop; a second TERM or INT stops at once
  TTIN, TTOU        one worker more, one fewer

Exit status:
  0  stopped by a signal; 1  failed; 2  invalid command line

Examples:
  oribi                                            serve ./app.psgi, ./config.ru or ./app.lua on http://127.0.0.1:5000
  oribi app.psgi --listen :8080 --workers 4        on all interfaces
  oribi app.psgi --listen /run/app.sock?mode=660   behind a proxy on the same machine
  oribi check /srv/shop --max-requests 10000       show all settings and their sources, start nothing
  oribi app.psgi --access-log - --access-log-format json
  oribi serve public --listen :8080 --max-age 1h   the files of a directory
  oribi app.lua --listen fcgi://127.0.0.1:9000     behind a web server that speaks FastCGI
  oribi check -c oribi.toml                        several apps, in several languages: see docs/apps.md
"
    .to_owned()
}

/// The help of a setting: its description and, on the next line, its default and its other names.
pub fn of(setting: &Setting) -> String {
    let mut notes = Vec::new();
    if let Some(default) = setting.default_text() {
        notes.push(format!("[default: {}]", if default.is_empty() { "none" } else { &default }));
    }
    if let Some(variable) = setting.environment {
        notes.push(format!("[environment: {variable}]"));
    }
    if !setting.aliases.is_empty() {
        let names: Vec<String> = setting.aliases.iter().map(|alias| format!("--{alias}")).collect();
        notes.push(format!("[also: {}]", names.join(", ")));
    }
    let help = wrap(setting.help);
    if notes.is_empty() { help } else { format!("{help}\n{}", wrap(&notes.join(" "))) }
}

/// Wraps a text between words.
pub fn wrap(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len() + 8);
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            wrapped.push('\n');
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

/// The text of `--version`.
pub fn version() -> String {
    let languages: String = LANGUAGES.iter().map(|language| format!("{}: {}\n", language.name, language.describe())).collect();
    format!("oribi {}\n{languages}", env!("CARGO_PKG_VERSION"))
}
