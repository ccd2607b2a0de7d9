//! The script for fish.

use crate::grammar::{Flag, FlagValue, flags, shared, summary, takes_files, verbs, words};

/// The script.
pub fn script() -> String {
    let verbs = verbs();
    let own: Vec<&str> = verbs.iter().filter(|verb| verb.own.is_some()).map(|verb| verb.name).collect();
    let mut text = "# Completion of oribi for fish.\n\n".to_owned();
    for verb in &verbs {
        text.push_str(&format!("complete -c oribi -n __fish_is_first_arg -a {} -d {}\n", verb.name, quoted(verb.about)));
    }
    let condition = format!("not __fish_seen_subcommand_from {}", own.join(" "));
    text.push_str(&lines(&condition, &flags(&shared())));
    for verb in &verbs {
        let Some(command) = &verb.own else { continue };
        let condition = format!("__fish_seen_subcommand_from {}", verb.name);
        if !takes_files(command) {
            text.push_str(&format!("complete -c oribi -n {} -f\n", quoted(&condition)));
        }
        for (word, about) in words(command) {
            text.push_str(&format!("complete -c oribi -n {} -a {word} -d {}\n", quoted(&condition), quoted(&summary(&about))));
        }
        let own: Vec<Flag> = flags(command).into_iter().chain(command.get_subcommands().flat_map(flags)).collect();
        text.push_str(&lines(&condition, &own));
    }
    text
}

/// A line for each flag; a flag of several orders has one line.
fn lines(condition: &str, flags: &[Flag]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for flag in flags {
        let short = flag.short.map_or_else(String::new, |short| format!(" -s {short}"));
        let long = flag.long.as_ref().map_or_else(String::new, |long| format!(" -l {long}"));
        let value = match &flag.value {
            FlagValue::None => String::new(),
            FlagValue::Files => " -r -F".to_owned(),
            FlagValue::Directories => " -x -a '(__fish_complete_directories)'".to_owned(),
            FlagValue::OneOf(values) => format!(" -x -a {}", quoted(&values.join(" "))),
            FlagValue::Text => " -x".to_owned(),
        };
        let line = format!("complete -c oribi -n {}{short}{long}{value} -d {}\n", quoted(condition), quoted(&flag.summary()));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
