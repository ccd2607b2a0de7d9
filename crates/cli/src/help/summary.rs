//! The text of `-h`: the options that most people need, on one screen of 24 lines and 80 columns.

use clap::Command;

/// The options in the text, by their long names, and their short descriptions.
const OPTIONS: &[(&str, &str)] = &[
    ("listen", "HOST:PORT, :PORT or the path of a Unix socket"),
    ("workers", "worker processes; by default one for each CPU"),
    ("threads", "threads of each worker"),
    ("env", "the environment's name, such as development"),
    ("reload", "load the app again when its files change"),
    ("ssl-cert", "the certificate for https"),
    ("ssl-key", "the key of the certificate"),
    ("static", "serve the files of a directory below a path"),
    ("max-requests", "replace a worker after this many requests"),
    ("request-timeout", "the time for the app to answer a request"),
    ("access-log", "one line for each request; - is standard output"),
    ("error-log", "a file for the log, instead of standard error"),
    ("daemonize", "serve in the background"),
    ("version", "print the version, and the languages found"),
];

/// Columns from the start of an option to that of its description.
const COLUMN: usize = 28;

/// The text, with the letters and placeholders of `command`. An option that `command` lacks is left out.
pub fn summary(command: &Command) -> String {
    let mut text = "\
Oribi serves web apps in Perl, Ruby and Lua over HTTP/1.1, HTTP/2 and FastCGI.

Usage: oribi [serve] [APP|DIR] [options]
       oribi check [APP|DIR] [options]      print the settings, serve nothing
       oribi ctl ORDER                      show or control a running server
       oribi top                            show live what a server does

"
    .to_owned();
    for (name, words) in OPTIONS {
        let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(name)) else { continue };
        let short = arg.get_short().map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        let takes_value = arg.get_action().takes_values() && arg.get_num_args().is_none_or(|number| number.min_values() > 0);
        let value = arg.get_value_names().filter(|_| takes_value).and_then(<[_]>::first);
        let value = value.map_or_else(String::new, |value| format!(" {value}"));
        text.push_str(&format!("  {:<COLUMN$}{words}\n", format!("{short}--{name}{value}")));
    }
    text.push_str("\nAll options: `oribi --help` or oribi(1). All values: `oribi check`.\n");
    text
}
