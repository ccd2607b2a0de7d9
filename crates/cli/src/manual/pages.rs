//! The manual pages.

use super::roff::{Page, bold, escaped, italic};
use crate::grammar::{Flag, FlagValue, flag, flags, options, shared, verbs};
use clap::{Arg, Command};
use oribi_server::config::table;

/// Environment variables that are not settings of the server.
const VARIABLES: &[(&str, &str)] = &[
    ("PLACK_ENV, RACK_ENV", "The environment's name, in Perl and in Ruby, if --env is not given."),
    ("ORIBI_PERL, ORIBI_RUBY", "The perl and the ruby to run, if --perl or --ruby is not given."),
    ("ORIBI_PERL_LIB, ORIBI_RUBY_LIB", "The directories of the hosts for Perl and Ruby, if they are not beside the program."),
];

const FILES: &[(&str, &str)] = &[
    ("app.psgi, config.ru, app.lua", "The app, in the current directory or in the directory that is given."),
    ("oribi.toml", "The apps and routes of a server with several apps, in the current directory or in the one that is given."),
    ("config/oribi.rb, oribi.rb, config/puma.rb, config/unicorn.rb", "The configuration file of a Ruby app, beside it."),
    ("/var/lib/oribi/acme, $XDG_STATE_HOME/oribi/acme", "Keys and certificates of --acme, for root and for other users."),
    (
        "$RUNTIME_DIRECTORY/oribi, $XDG_RUNTIME_DIR/oribi, /run/oribi, /tmp/oribi-UID",
        "The control socket, in the first of these directories that can be used.",
    ),
];

/// The page oribi(1).
pub fn oribi() -> String {
    let mut command = shared();
    let mut page = Page::new("oribi", env!("CARGO_PKG_VERSION"));
    page.name("oribi", "application server for Perl (PSGI), Ruby (Rack) and Lua");
    let usage = usage(&mut command);
    page.section("SYNOPSIS");
    page.literal(usage.iter().map(|(line, _)| line.as_str()));
    page.section("DESCRIPTION");
    page.paragraph(&about(&command));
    page.paragraph(&positional(&command));
    for (line, words) in usage.iter().filter(|(_, words)| !words.is_empty()) {
        page.term(line, words);
    }
    page.section("OPTIONS");
    page.paragraph("In the name of an option, `_` and `-` are the same.");
    let mut heading = None;
    for arg in options(&command) {
        if heading.replace(arg.get_help_heading()) != Some(arg.get_help_heading()) {
            page.subsection(arg.get_help_heading().unwrap_or("General"));
        }
        option(&mut page, arg);
    }
    after(&mut page, &command, &["Examples"]);
    page.section("ENVIRONMENT");
    for setting in table() {
        if let Some(variable) = setting.environment {
            page.term(variable, &format!("Sets --{}, unless that is given.", setting.name));
        }
    }
    terms(&mut page, VARIABLES);
    page.section("FILES");
    terms(&mut page, FILES);
    section_after(&mut page, &command, "Examples");
    see_also(&mut page, &["oribi-ctl", "oribi-top"], "plackup(1), rackup(1)");
    page.into_text()
}

/// The page oribi-ctl(1).
pub fn ctl() -> String {
    let (mut page, command) = begin("ctl", "oribi-ctl", "show and control a running Oribi server");
    page.section("ORDERS");
    let shared = flags(&command);
    for order in command.get_subcommands() {
        let words: Vec<String> = order.get_positionals().map(placeholder).collect();
        let term = [vec![bold(order.get_name())], words].concat().join(" ");
        let about = about(order);
        let own = options(order).filter(|arg| !shared.iter().any(|flag| flag.long.as_deref() == arg.get_long()));
        let own: Vec<String> = own.map(|arg| format!("`{}`: {}.", spelled(&flag(arg)), flag(arg).help)).collect();
        let arguments: Vec<String> =
            order.get_positionals().filter(|arg| arg.get_help().is_some()).map(|arg| format!("{}.", flag(arg).help)).collect();
        let parts: Vec<&str> = std::iter::once(&about).chain(&arguments).chain(&own).map(String::as_str).collect();
        page.marked_term(&term, &parts);
    }
    end(page, &command, &[("ORIBI_CONTROL", "The control socket, if neither --control nor --pid is given.")], "oribi-top")
}

/// The page oribi-top(1).
pub fn top() -> String {
    let (page, command) = begin("top", "oribi-top", "show live what an Oribi server does");
    let variables = [
        ("ORIBI_CONTROL", "The control socket, if neither --control nor --pid is given."),
        ("NO_COLOR", "Without colours, if it is not empty."),
    ];
    end(page, &command, &variables, "oribi-ctl")
}

/// Begins the page of a command with its own grammar.
fn begin(verb: &str, name: &str, words: &str) -> (Page, Command) {
    let mut command = verbs().into_iter().find(|one| one.name == verb).and_then(|one| one.own).unwrap_or_default();
    let mut page = Page::new(name, env!("CARGO_PKG_VERSION"));
    page.name(name, words);
    page.section("SYNOPSIS");
    page.literal(usage(&mut command).iter().map(|(line, _)| line.as_str()));
    page.section("DESCRIPTION");
    page.paragraph(&about(&command));
    for block in blocks(&command).iter().filter(|block| block.heading.is_none()) {
        page.paragraph(&block.lines.join(" "));
    }
    (page, command)
}

/// Adds the options and all that follows them.
fn end(mut page: Page, command: &Command, variables: &[(&str, &str)], other: &str) -> String {
    page.section("OPTIONS");
    options(command).for_each(|arg| option(&mut page, arg));
    after(&mut page, command, &[]);
    page.section("ENVIRONMENT");
    terms(&mut page, variables);
    page.section("FILES");
    terms(&mut page, &FILES[4..]);
    see_also(&mut page, &["oribi", other], "");
    page.into_text()
}

fn terms(page: &mut Page, terms: &[(&str, &str)]) {
    for (term, description) in terms {
        page.term(term, description);
    }
}

fn see_also(page: &mut Page, own: &[&str], others: &str) {
    page.section("SEE ALSO");
    let own = own.iter().map(|name| format!("`{name}`(1)"));
    page.paragraph(&own.chain(Some(others.to_owned()).filter(|others| !others.is_empty())).collect::<Vec<_>>().join(", "));
}

/// The lines of the usage: each with its description, which may be empty.
fn usage(command: &mut Command) -> Vec<(String, String)> {
    let usage = command.render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    lines.map(|line| columns(line).map_or((line.to_owned(), String::new()), |(left, right)| (left, sentence(&right)))).collect()
}

/// The two columns of a line: its first words, and the others after a gap.
fn columns(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once("  ")?;
    Some((left.to_owned(), right.trim().to_owned()))
}

/// A description as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

fn about(command: &Command) -> String {
    sentence(&command.get_about().map(ToString::to_string).unwrap_or_default())
}

fn positional(command: &Command) -> String {
    let texts = command.get_positionals().map(|arg| format!("`{}`: {}.", arg.get_id(), flag(arg).help));
    texts.collect::<Vec<_>>().join(" ")
}

fn placeholder(arg: &Arg) -> String {
    let name = italic(arg.get_id().as_str());
    if arg.is_required_set() { name } else { format!("[{name}]") }
}

/// Adds an option: its names and its value, its description, and its default and other names.
fn option(page: &mut Page, arg: &Arg) {
    let flag = flag(arg);
    let names = flag.names().map(|name| bold(&name)).collect::<Vec<_>>().join(", ");
    let value = match (&flag.value, flag.placeholder.as_str()) {
        (_, "") => String::new(),
        (FlagValue::None, placeholder) if arg.is_require_equals_set() => format!("[={}]", escaped(placeholder)),
        (FlagValue::None, placeholder) => format!(" [{}]", italic(placeholder)),
        (_, placeholder) => format!(" {}", italic(placeholder)),
    };
    let (words, notes) = notes(&flag.help);
    page.marked_term(&format!("{names}{value}"), &[&format!("{words}."), notes]);
}

/// A description and the notes in brackets at its end: the default, the environment variable, other names.
fn notes(help: &str) -> (&str, &str) {
    let is_notes = |notes: &str| notes.ends_with(']') && notes.matches('[').count() == notes.split("] [").count();
    let starts = help.match_indices(" [").map(|(at, _)| help.split_at(at));
    let found = starts
        .map(|(words, notes)| (words, notes.trim_start()))
        .find(|(words, notes)| is_notes(notes) && !words.contains("[default: "));
    found.unwrap_or((help, ""))
}

fn spelled(flag: &Flag) -> String {
    let names = flag.names().collect::<Vec<_>>().join(", ");
    if flag.placeholder.is_empty() { names } else { format!("{names} {}", flag.placeholder) }
}

/// A part of the text below the options in `--help`.
struct Block {
    /// The heading without its colon; `None` for a paragraph.
    heading: Option<String>,
    lines: Vec<String>,
}

/// The parts of the text below the options in `--help`, which are separated by empty lines.
fn blocks(command: &Command) -> Vec<Block> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let block = |part: &str| {
        let mut lines: Vec<String> = part.lines().map(str::to_owned).collect();
        let has_heading = lines.len() > 1 && lines[0].ends_with(':') && lines[1].starts_with(' ');
        let heading = has_heading.then(|| lines.remove(0).trim_end_matches(':').to_owned());
        Block { heading, lines }
    };
    text.split("\n\n").filter(|part| !part.trim().is_empty()).map(block).collect()
}

/// Adds the parts of the text below the options in `--help` that have a heading, except `others`.
fn after(page: &mut Page, command: &Command, others: &[&str]) {
    for block in blocks(command) {
        if let Some(heading) = block.heading.filter(|heading| !others.contains(&heading.as_str())) {
            section_after(page, command, &heading);
        }
    }
}

/// Adds one part of the text below the options in `--help`.
fn section_after(page: &mut Page, command: &Command, heading: &str) {
    let Some(block) = blocks(command).into_iter().find(|block| block.heading.as_deref() == Some(heading)) else { return };
    page.section(heading);
    if heading == "Exit status" {
        // Several entries are in one line.
        let lines: Vec<&str> = block.lines.iter().map(|line| line.trim()).collect();
        for (status, meaning) in lines.join(" ").split("; ").filter_map(columns) {
            page.term(&status, &sentence(&meaning));
        }
        return;
    }
    for line in &block.lines {
        match columns(line.trim()) {
            Some((term, words)) => page.term(&term, &sentence(&words)),
            None if heading == "Examples" => page.term(line.trim(), ""),
            None => page.paragraph(line.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_stand_at_the_end_of_a_description() {
        for (help, expected) in [
            ("A port [default: 1] [also: --a]", ("A port", "[default: 1] [also: --a]")),
            ("For Perl [default: a], for Ruby [default: b]", ("For Perl [default: a], for Ruby [default: b]", "")),
            ("A port", ("A port", "")),
            ("An address [IPV6]:PORT", ("An address [IPV6]:PORT", "")),
        ] {
            assert_eq!(notes(help), expected);
        }
    }
}
