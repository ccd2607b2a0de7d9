//! The words of `--help` and `--version`.

use crate::languages::LANGUAGES;
use oribi_server::config::Setting;

pub const ABOUT: &str = "Oribi serves web apps written in Perl (PSGI), Ruby (Rack) and Lua over HTTP/1.1 and FastCGI.";

pub const USAGE: &str = "oribi [serve] [APP|DIR] [options]
       oribi [serve] DIR --document-root   run the Lua scripts below DIR that the paths of requests lead to
       oribi serve DIR [options]           serve the files of DIR; an app in a directory is run by `oribi DIR`
       oribi luafcgid [FILE] [options]     serve Lua scripts over FastCGI as a configuration file of luafcgid says
       oribi ahttpd PORT [--io NAME]       answer as ahttpd does: see `oribi ahttpd --help`
       oribi check ...                     load the app, print the plan, serve nothing
       oribi --native TEXT [options]       answer with a fixed text, or with the bytes of --native-file FILE";

/// Columns of a line of help, without its indent.
const COLUMNS: usize = 78;

/// What stands below the flags.
pub fn after() -> String {
    "\
Values:
  TIME     30, 30s, 500ms, 5m, 1h, 1d; a plain number counts seconds
  SIZE     bytes, or 64k, 1m, 2g; units count by 1024
  The command line wins over the environment, that over a configuration file, and that over the default. `oribi check` tells
  which it was.
  In the name of a flag, `_` is as good as `-`.

Signals:
  TERM, INT, QUIT   finish what is running, then stop; TERM or INT once more stops at once
  TTIN, TTOU        one worker more, one less

Exit status:
  0  stopped as told; 1  failed; 2  the command line was not understood

Examples:
  oribi                                            serve ./app.psgi, ./config.ru or ./app.lua on http://127.0.0.1:5000
  oribi app.psgi --listen :8080 --workers 4        on all interfaces
  oribi app.psgi --listen /run/app.sock?mode=660   behind a proxy on the same machine
  oribi check /srv/shop --max-requests 10000       see what would be done, and why
  oribi app.psgi --access-log - --access-log-format json
  oribi serve public --listen :8080 --max-age 1h   the files of a directory
  oribi app.lua --listen fcgi://127.0.0.1:9000     behind a web server that speaks FastCGI
"
    .to_owned()
}

/// The help of a setting: what it does, and in the next line its default and its other names.
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

/// Breaks a text into lines, between words.
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

/// What `--version` prints.
pub fn version() -> String {
    let languages: String = LANGUAGES.iter().map(|language| format!("{}: {}\n", language.name, language.describe())).collect();
    format!("oribi {}\n{languages}", env!("CARGO_PKG_VERSION"))
}
