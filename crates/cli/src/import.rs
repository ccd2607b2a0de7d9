//! `oribi import`: reads the configuration of another server and writes `oribi.toml`.

use crate::host_files;
use crate::trouble::{Trouble, explain};
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use oribi_config_file::matching;
use oribi_import::{Format, Found, Imported, Kind, RECORDER, Unreadable};
use oribi_server::config::masked;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The name of this command, as the first argument.
pub const IMPORT: &str = "import";

const USAGE: &str = "oribi import [--from FORMAT] [-o FILE] SOURCE
       oribi import 'COMMAND LINE'
       oribi import -- COMMAND ARGUMENTS...";

const AFTER: &str = "\
SOURCE is a file with the configuration of another server, `-` for standard input, or a command line that starts one.
A puma.rb or unicorn.rb is a program: Ruby runs it, with your rights, to learn its calls (ORIBI_RUBY names another ruby).

  oribi import /var/lib/unit/conf.json > oribi.toml
  oribi import 'starman --workers 10 --listen :8080 app.psgi'
  oribi import Procfile -o oribi.toml

All that has no counterpart is listed on standard error, with the nearest equivalent, and again in comments at the end of
the output.

Exit status:
  0  written, also if something was not carried over; 1  cannot write; 2  the source cannot be read";

/// The grammar of this command.
pub fn command() -> Command {
    let formats = Format::ALL.iter().map(|(name, _)| PossibleValue::new(*name));
    Command::new("oribi import")
        .bin_name("oribi import")
        .about("Reads the configuration of another server and writes oribi.toml to standard output.")
        .override_usage(USAGE)
        .after_help(AFTER)
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("FORMAT")
                .value_parser(formats.collect::<Vec<_>>())
                .help("The format of the source; by default by its name and its content"),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("Write to this file, which must not exist yet, in place of standard output"),
        )
        .arg(
            Arg::new("SOURCE")
                .required(true)
                .num_args(1..)
                .action(ArgAction::Append)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(OsString))
                .help("A file, `-` for standard input, or a command line"),
        )
}

/// Reads the source and writes the file.
pub fn run(arguments: &[OsString]) -> Result<u8, Trouble> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => with_options_behind(arguments, &matches).unwrap_or(matches),
        Err(said) => return Ok(explain(&said)),
    };
    let words: Vec<OsString> = matches.get_many("SOURCE").into_iter().flatten().cloned().collect();
    let from = matches.get_one::<String>("from").and_then(|name| Format::named(name));
    let output = matches.get_one::<PathBuf>("output");
    let (source, imported) = read(&words, from)?;
    match output {
        None => crate::print(&imported.toml).map(|_| ())?,
        Some(path) if imported.parts.is_empty() => write(path, &imported.toml)?,
        Some(path) => write_parts(path, &imported)?,
    }
    report(&source, &imported);
    Ok(0)
}

/// The arguments in another order, if the first word is a file and all further ones are options of this command. Words that
/// begin with a program and have options of its own stay a command line, as do those behind `--`.
fn with_options_behind(arguments: &[OsString], matches: &ArgMatches) -> Option<ArgMatches> {
    let words: Vec<&OsString> = matches.get_many("SOURCE")?.collect();
    let (before, given) = arguments.split_at_checked(arguments.len().checked_sub(words.len())?)?;
    let (source, options) = given.split_first().filter(|(_, options)| !options.is_empty())?;
    let is_source = source == "-" || Path::new(source).is_file();
    if !is_source || before.last().is_some_and(|word| word == "--") {
        return None;
    }
    let moved = before.iter().chain(options).chain([source]);
    let matches = command().try_get_matches_from(moved).ok()?;
    matches.get_many::<OsString>("SOURCE")?.eq([source]).then_some(matches)
}

/// Reads the source. Returns its name for messages, too.
fn read(words: &[OsString], from: Option<Format>) -> Result<(String, Imported), Trouble> {
    let unreadable = |source: &str, error: &Unreadable| match error.line {
        Some(_) => Trouble::usage(format!("{source}:{error}")),
        None => Trouble::usage(format!("{source}: {error}")),
    };
    let texts: Option<Vec<String>> = words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let path = match words {
        [word] if word == "-" || Path::new(word).exists() => Path::new(word),
        _ => {
            let texts = texts.ok_or_else(|| Trouble::usage("the command line is not UTF-8".to_owned()))?;
            let source = "command line".to_owned();
            let imported = match texts.as_slice() {
                [line] if line.contains(' ') || from == Some(Format::Command) => {
                    oribi_import::import(Format::Command, "", line).and_then(|imported| {
                        with_files(imported, |found| oribi_import::import_with(Format::Command, "", line, found))
                    })
                }
                [word] if word.contains(['/', '.']) => {
                    return Err(Trouble::usage(format!(
                        "there is no file {word}; a command line is one argument, or begins after --"
                    )));
                }
                texts => oribi_import::command(texts)
                    .and_then(|imported| with_files(imported, |found| oribi_import::command_with(texts, found))),
            };
            return match imported {
                Ok(imported) => Ok((source, imported)),
                Err(error) => Err(unreadable(&source, &error)),
            };
        }
    };
    let source = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |error: io::Error| Trouble::usage(format!("cannot read {source}: {error}"));
    let mut bytes = Vec::new();
    if path == Path::new("-") && from.is_some_and(Format::is_ruby) {
        // Ruby reads it.
    } else if path == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
    } else {
        bytes = std::fs::read(path).map_err(failed)?;
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Trouble::usage(format!("{source}:{line}: it is not UTF-8"))
    })?;
    let format = from.or_else(|| oribi_import::detect(&source, &text)).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
        Trouble::usage(format!("{source}: the format is not known; name it with --from: {}", names.join(", ")))
    })?;
    let text = if format.is_ruby() { calls(path, &source)? } else { text };
    let imported = oribi_import::import(format, &source, &text)
        .and_then(|imported| with_files(imported, |found| oribi_import::import_with(format, &source, &text, found)))
        .map_err(|error| unreadable(&source, &error))?;
    Ok((source, imported))
}

/// Imports once more with the files that the source names, if it names some.
fn with_files(
    imported: Imported,
    again: impl FnOnce(&[Found]) -> Result<Imported, Unreadable>,
) -> Result<Imported, Unreadable> {
    if imported.wanted.is_empty() {
        return Ok(imported);
    }
    let mut found = Vec::new();
    for pattern in &imported.wanted {
        // The files of a folder that cannot be read are not there.
        for path in matching(Path::new(""), pattern).unwrap_or_default() {
            let text = std::fs::read(&path).map_err(|error| error.to_string());
            let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
            found.push(Found { pattern: pattern.clone(), path: path.display().to_string(), text });
        }
    }
    again(&found)
}

/// Runs a file of Puma or Unicorn in Ruby. Returns its calls.
fn calls(path: &Path, source: &str) -> Result<String, Trouble> {
    let program = host_files::program(None, "ORIBI_RUBY", "ruby");
    let shown = program.display().to_string();
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let output = std::process::Command::new(&program).args(["-e", RECORDER, "--"]).arg(path).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| Trouble::failure(format!("cannot run {shown}, which reads {source}: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let reason = said.lines().last().unwrap_or("it printed no reason");
        return Err(Trouble::usage(format!("{source}:{reason}")));
    }
    // Output of the file itself.
    let _ = write!(io::stderr(), "{}", masked(&said));
    String::from_utf8(output.stdout).map_err(|_| Trouble::failure(format!("{shown} printed something unexpected")))
}

fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    let file = std::fs::File::options().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Trouble::failure(format!("cannot write {}: {error}", path.display())))
}

/// Writes `oribi.toml` and the files that it includes, none of which may exist yet.
fn write_parts(path: &Path, imported: &Imported) -> Result<(), Trouble> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let whole = |part: &str| if part.is_empty() { path.to_owned() } else { folder.join(part) };
    if let Some(path) = imported.parts.iter().map(|part| whole(&part.name)).find(|path| path.exists()) {
        return Err(Trouble::failure(format!("cannot write {}: the file exists", path.display())));
    }
    // Included files first, so that a server finds all of them.
    imported.parts.iter().rev().try_for_each(|part| write(&whole(&part.name), &part.toml))
}

/// Lists all that was not carried over.
fn report(source: &str, imported: &Imported) {
    let mut err = io::stderr().lock();
    let lost: Vec<_> = imported.notes.iter().filter(|note| note.kind == Kind::Lost).collect();
    for note in &lost {
        let line = note.line.map_or(String::new(), |line| format!("{line}: "));
        // If standard error is closed, the comments in the file remain.
        let text = format!("{source}:{}{}", if line.is_empty() { " " } else { &line }, note.without_line());
        let _ = writeln!(err, "{}", masked(&text));
    }
    let _ = match lost.len() {
        0 => writeln!(err, "oribi: all of it was carried over"),
        1 => writeln!(err, "oribi: 1 thing was not carried over, or only in part"),
        count => writeln!(err, "oribi: {count} things were not carried over, or only in part"),
    };
}
