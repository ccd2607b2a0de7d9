//! Advice for unknown words of the command line: misspelled commands and options, and options of other servers.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use oribi_server::config::{closest, instead_of};
use std::ffi::OsString;

/// The commands, which come first on a command line.
pub const COMMANDS: &[&str] =
    &["serve", "check", "help", "ctl", "top", "luafcgid", "ahttpd", "completions", "manual", "schema", "import"];

/// Options of other servers without a counterpart of a similar name, and the advice for each.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &["--preload-app", "--preload", "--lazy", "--lazy-apps", "--prune-bundler", "--loader"],
        "the app is always loaded before the workers are forked",
    ),
    (&["--ini", "--xml", "--yaml", "--yml", "--emperor"], "`oribi import FILE` makes an oribi.toml of a file of uWSGI"),
    (&["--http-socket", "--http", "--fastcgi-socket", "--uwsgi-socket"], "use --listen ADDRESS"),
    (&["--psgi", "--rack", "--app", "--wsgi-file", "--rackup"], "the app is an argument: oribi app.psgi"),
    (&["--pagi"], "use --interface pagi; a file whose name ends in .pagi needs no option"),
    (&["--master", "--vacuum", "--die-on-term", "--single-interpreter", "--need-app"], "Oribi always does this"),
    (&["--server"], "Oribi is the server"),
    (&["-w"], "--workers NUMBER sets the number of processes"),
    (&["-t"], "--threads NUMBER sets the number of threads of a worker"),
    (&["-b"], "use --bind ADDRESS"),
];

/// Replaces the tips of an error about an unknown argument by our own advice. The tips of clap name the option that has the
/// most letters in common, even if there are few of these.
pub fn improve(error: &mut clap::Error, known: &clap::Command) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return };
    let argument = argument.clone();
    if !argument.starts_with('-') {
        return;
    }
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Suggested);
    if let Some(advice) = advice_for(&argument, known) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(advice)]));
    }
}

fn advice_for(argument: &str, known: &clap::Command) -> Option<String> {
    let name = argument.split('=').next().unwrap_or_default().replace('_', "-");
    if let Some(instead) = instead_of(name.trim_start_matches('-')) {
        return Some(instead.to_owned());
    }
    if let Some((_, instead)) = FOREIGN.iter().find(|(names, _)| names.contains(&&*name)) {
        return Some((*instead).to_owned());
    }
    let names = known.get_arguments().flat_map(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long().into_iter().chain(aliases)
    });
    closest(name.strip_prefix("--")?, names.filter(|name| !name.contains('_')))
        .map(|close| format!("did you mean `--{close}`?"))
}

/// Returns the message for a first argument that is probably a misspelled command. `None` if the argument may be an app: an
/// existing file, a path, or a name with an extension.
pub fn command_like(arguments: &[OsString]) -> Option<String> {
    let word = arguments.get(1)?.to_str()?;
    if word.starts_with('-') || word.contains(['/', '.']) || std::path::Path::new(word).exists() {
        return None;
    }
    let command = closest(word, COMMANDS.iter().copied())?;
    (command != word).then(|| format!("there is no command `{word}`, and no such file; did you mean `oribi {command}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;

    #[test]
    fn advice_is_about_the_option_that_was_meant() {
        for (argument, part) in [
            ("--wrokers", "did you mean `--workers`?"),
            ("--wokers=3", "did you mean `--workers`?"),
            ("--daemonise", "did you mean `--daemonize`?"),
            ("--max_request", "did you mean `--max-requests`?"),
            ("--chroot", "RootDirectory="),
            ("--preload-app", "always loaded before the workers are forked"),
            ("--preload_app", "always loaded before the workers are forked"),
            ("--ini", "oribi import FILE"),
            ("-w", "--workers NUMBER"),
        ] {
            let advice = advice_for(argument, &command()).unwrap_or_default();
            assert!(advice.contains(part), "{argument}: {advice}");
        }
        for argument in ["--password", "--token", "--zzz", "-q", "--q"] {
            assert_eq!(advice_for(argument, &command()), None, "{argument}");
        }
    }

    #[test]
    fn foreign_options_are_unknown_ones() {
        let known = command();
        for name in FOREIGN.iter().flat_map(|(names, _)| *names) {
            let arguments = [OsString::from("oribi"), OsString::from(name)];
            let error = known.clone().try_get_matches_from(arguments).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{name}");
        }
    }

    #[test]
    fn a_misspelled_command_is_recognized() {
        let command_of = |word: &str| command_like(&["oribi".into(), word.into(), "app.psgi".into()]);
        for (word, command) in [("chekc", "check"), ("sevre", "serve"), ("tpo", "top"), ("ctrl", "ctl")] {
            let expected = format!("did you mean `oribi {command}`?");
            assert!(command_of(word).is_some_and(|advice| advice.ends_with(&expected)), "{word}: {:?}", command_of(word));
        }
        for word in ["check", "shop", "app.psgi", "./chekc", "-v", "src"] {
            assert_eq!(command_of(word), None, "{word}");
        }
    }
}
