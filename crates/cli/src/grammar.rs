//! All commands of `oribi` with their flags, from which completions and manual pages are made. The command line itself is
//! parsed by the same clap commands, one for each group of verbs.

use crate::languages::LANGUAGES;
use crate::{ahttpd, command_line, control, import, shipped, top};
use clap::{Arg, Command, ValueHint};
use oribi_server::config::IoModel;

/// A command: the first argument of `oribi`.
pub struct Verb {
    pub name: &'static str,
    pub about: &'static str,
    /// Its own grammar; `None` for the grammar of `oribi` without a command.
    pub own: Option<Command>,
}

/// A visible flag.
pub struct Flag {
    pub short: Option<char>,
    pub long: Option<String>,
    pub value: FlagValue,
    /// The placeholder of the value; empty without a value.
    pub placeholder: String,
    /// The help in one line, with defaults and other names in brackets.
    pub help: String,
}

/// The value that follows a flag, as shells can complete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagValue {
    /// There is none, or it is optional and follows `=`.
    None,
    Files,
    Directories,
    OneOf(Vec<String>),
    /// Any text.
    Text,
}

/// All commands, in the order of the help.
pub fn verbs() -> Vec<Verb> {
    let shared = |name, about| Verb { name, about, own: None };
    let own = |name, about, command: Command| Verb { name, about, own: Some(built(command)) };
    vec![
        shared("serve", "serve an app or the files of a directory"),
        shared("check", "print the settings and their sources, serve nothing"),
        own("ctl", "show or control a running server", control::command()),
        own("top", "show live what a running server does", top::command()),
        shared("luafcgid", "serve Lua scripts with a configuration file of luafcgid"),
        own("ahttpd", "answer as ahttpd does", ahttpd::command()),
        own("import", "make an oribi.toml of the configuration of another server", import::command()),
        own("completions", "print a completion script for a shell", shipped::completions()),
        own("manual", "print a manual page", shipped::manual()),
        own("schema", "print the JSON schema of oribi.toml", shipped::schema()),
    ]
}

/// The grammar of `oribi` without a command, which `serve`, `check` and `luafcgid` share.
pub fn shared() -> Command {
    built(command_line::command())
}

/// Adds the flags that clap makes by itself.
fn built(mut command: Command) -> Command {
    command.build();
    command
}

/// The visible flags of a command, in the order of its help.
pub fn flags(command: &Command) -> Vec<Flag> {
    options(command).map(flag).collect()
}

/// The visible flags of a command, as clap has them.
pub fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

/// The orders of a command, or its words for the first argument: each with a description, which may be empty.
pub fn words(command: &Command) -> Vec<(String, String)> {
    let orders = command.get_subcommands().map(|order| (order.get_name().to_owned(), text(order.get_about())));
    let positional = command.get_positionals().flat_map(Arg::get_possible_values);
    orders.chain(positional.map(|value| (value.get_name().to_owned(), text(value.get_help())))).collect()
}

/// Whether the first argument of a command is a file.
pub fn takes_files(command: &Command) -> bool {
    command.get_positionals().any(|arg| arg.get_value_hint() == ValueHint::FilePath)
}

/// The flag that an argument stands for.
pub fn flag(arg: &Arg) -> Flag {
    let takes_value = arg.get_action().takes_values();
    let placeholder = arg.get_value_names().filter(|_| takes_value).and_then(<[_]>::first);
    let value = match placeholder.map(clap::builder::Str::as_str) {
        None => FlagValue::None,
        _ if arg.get_num_args().is_some_and(|number| number.min_values() == 0) => FlagValue::None,
        _ if arg.get_value_hint() == ValueHint::DirPath => FlagValue::Directories,
        _ if arg.get_id() == "io" => {
            FlagValue::OneOf(IoModel::names().replace(" or ", ", ").split(", ").map(str::to_owned).collect())
        }
        _ if arg.get_id() == "language" => {
            FlagValue::OneOf(LANGUAGES.iter().map(|language| language.name.to_owned()).collect())
        }
        Some("DIR") => FlagValue::Directories,
        Some("PATH" | "FILE") => FlagValue::Files,
        Some(_) => FlagValue::Text,
    };
    Flag {
        short: arg.get_short(),
        long: arg.get_long().map(str::to_owned),
        value,
        placeholder: placeholder.map_or_else(String::new, ToString::to_string),
        help: text(arg.get_help()),
    }
}

/// A text in one line.
fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map_or_else(String::new, |styled| styled.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Flag {
    /// The names of the flag as they are typed.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let long = self.long.as_ref().map(|long| format!("--{long}"));
        self.short.map(|short| format!("-{short}")).into_iter().chain(long)
    }

    /// A short description, for a line beside the name of the flag.
    pub fn summary(&self) -> String {
        summary(&self.help)
    }
}

/// The first words of a description: without its notes in brackets, and without all that follows the first sentence.
pub fn summary(help: &str) -> String {
    const MOST: usize = 70;
    let sentence = [" [", ". ", "; ", ": "].iter().fold(help, |text, end| text.split(end).next().unwrap_or_default());
    let mut short = String::new();
    for word in sentence.split(' ') {
        if !short.is_empty() && short.len() + 1 + word.len() > MOST {
            return short + " ...";
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::COMMANDS;

    #[test]
    fn all_commands_are_in_the_list() {
        let names: Vec<&str> = verbs().iter().map(|verb| verb.name).collect();
        for name in COMMANDS.iter().filter(|name| **name != "help") {
            assert!(names.contains(name), "{name} is missing");
        }
        assert_eq!(names.len() + 1, COMMANDS.len());
    }

    #[test]
    fn a_summary_is_the_beginning_of_the_help() {
        for (help, expected) in [
            ("Listen on a Unix socket: --listen PATH", "Listen on a Unix socket"),
            ("Load the app. Then serve; stop [default: off]", "Load the app"),
            ("The port [default: 1]", "The port"),
            (&"abcd ".repeat(20), &format!("{} ...", "abcd ".repeat(14).trim_end())),
        ] {
            assert_eq!(summary(help), expected);
        }
    }
}
