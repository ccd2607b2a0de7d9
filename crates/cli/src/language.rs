//! Which language an app is written in, and what runs it.

use crate::configuration::Configuration;
use crate::host_files::HostFiles;
use crate::{lua, perl, ruby};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A language that apps can be written in.
pub struct Language {
    /// Its name for `--language`.
    pub name: &'static str,
    /// Its name for people, with the interface between app and server.
    pub title: &'static str,
    /// Endings of the files of its apps.
    pub endings: &'static [&'static str],
    /// What runs its scripts, by a first line that starts with `#!`; versions may follow the names.
    pub programs: &'static [&'static str],
    /// Files that are looked for in a directory.
    pub files: &'static [&'static str],
    /// Where its apps run.
    pub home: Home,
}

/// Where the apps of a language run.
pub enum Home {
    /// In a process of the language's own, which is started and loads the app: the mold.
    Mold {
        /// Where the language's host is.
        files: &'static HostFiles,
        /// Finds what runs the apps, or says what is missing.
        find_runner: fn(&Options) -> Result<Box<dyn Runner>, String>,
    },
    /// In this process and its workers: the language is built into the command.
    BuiltIn,
}

/// What the system itself reads of a first line (execve(2)).
const FIRST_LINE_BYTES: u64 = 256;

/// All languages. A new one is a row here and a file beside this one.
pub static LANGUAGES: &[Language] = &[
    Language {
        name: "perl",
        title: "Perl (PSGI)",
        endings: &["psgi", "pl"],
        programs: &["perl", "plackup"],
        files: &["app.psgi"],
        home: Home::Mold { files: &perl::FILES, find_runner: perl::find_runner },
    },
    Language {
        name: "ruby",
        title: "Ruby (Rack)",
        endings: &["ru"],
        programs: &["ruby", "rackup"],
        files: &["config.ru"],
        home: Home::Mold { files: &ruby::FILES, find_runner: ruby::find_runner },
    },
    Language {
        name: "lua",
        title: "Lua",
        endings: &["lua", "ws"],
        programs: &["lua", "luajit"],
        files: &["app.lua"],
        home: Home::BuiltIn,
    },
];

/// What the command line says of how to run the app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directories to look for modules in.
    pub include: Vec<OsString>,
    /// Perl modules to load before the app.
    pub modules: Vec<String>,
    /// Ruby libraries to load before the app.
    pub requires: Vec<OsString>,
    /// What the app is told it runs in: `deployment`, `production`.
    pub environment: Option<String>,
    /// The configuration file to read, instead of the one that would be found; `-` for none.
    pub config: Option<PathBuf>,
    /// The perl to run.
    pub perl: Option<OsString>,
    /// The ruby to run.
    pub ruby: Option<OsString>,
    /// What concerns Lua apps only.
    pub lua: lua::Options,
}

impl Language {
    /// For `--version`: what there is of it.
    pub fn describe(&self) -> String {
        match &self.home {
            Home::Mold { files, .. } => files.describe(),
            Home::BuiltIn => lua::describe(),
        }
    }
}

/// What runs the apps of a language.
pub trait Runner {
    /// The program, for people.
    fn program(&self) -> String;

    /// What the app's configuration file says, if there is one.
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    fn configuration(&self, _app: &App) -> Result<Option<Configuration>, String> {
        Ok(None)
    }

    /// The process that loads the app and forks the workers (or, to check it, only loads it). It takes settings as further
    /// arguments, each `name=value`.
    fn mold(&self, app: &App, check: bool) -> Command;
}

/// An app that was found.
pub struct App {
    /// Its file.
    pub path: PathBuf,
    /// What it is written in.
    pub language: &'static Language,
}

impl App {
    /// Finds the app at a path, in a directory, or (without a path) in the current directory, and its language unless that is
    /// given.
    ///
    /// # Errors
    /// What was looked for and where, in words.
    pub fn find(path: Option<&Path>, language: Option<&str>) -> Result<Self, String> {
        let language = language.map(by_name).transpose()?;
        let path = path.unwrap_or(Path::new("."));
        let metadata = path.metadata().map_err(|error| format!("cannot find the app {}: {error}", path.display()))?;
        if metadata.is_dir() {
            return in_directory(path, language);
        }
        let language = language.or_else(|| by_ending(path)).or_else(|| by_first_line(path)).ok_or_else(|| {
            let endings: Vec<String> = LANGUAGES.iter().map(describe_endings).collect();
            let known = endings.join(", ");
            format!(
                "cannot tell the language of {} by its name or its first line; known are {known}; or say --language NAME",
                path.display()
            )
        })?;
        Ok(Self { path: path.to_owned(), language })
    }
}

/// The app in a directory, if there is one.
pub fn app_in(directory: &Path) -> Option<&'static str> {
    LANGUAGES.iter().flat_map(|language| language.files).copied().find(|file| directory.join(file).is_file())
}

fn in_directory(directory: &Path, language: Option<&'static Language>) -> Result<App, String> {
    let mut looked_for = Vec::new();
    for candidate in LANGUAGES.iter().filter(|candidate| language.is_none_or(|language| language.name == candidate.name)) {
        for file in candidate.files {
            let path = directory.join(file);
            if path.is_file() {
                // "./app.psgi" would only be a longer way to say it.
                let path = path.strip_prefix(".").map(Path::to_owned).unwrap_or(path);
                return Ok(App { path, language: candidate });
            }
            looked_for.push(*file);
        }
    }
    let place = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    Err(format!("no app in {}: looked for {}", place.display(), looked_for.join(", ")))
}

fn by_name(name: &str) -> Result<&'static Language, String> {
    LANGUAGES.iter().find(|language| language.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names: Vec<&str> = LANGUAGES.iter().map(|language| language.name).collect();
        format!("unknown language `{}`; known are {}", name.escape_debug(), names.join(", "))
    })
}

fn by_ending(path: &Path) -> Option<&'static Language> {
    let ending = path.extension()?.to_str()?;
    LANGUAGES.iter().find(|language| language.endings.contains(&ending))
}

/// By a line such as `#!/usr/bin/perl -w` or `#!/usr/bin/env ruby`.
fn by_first_line(path: &Path) -> Option<&'static Language> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line.strip_prefix(b"#!")?).ok()?.split_whitespace();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut program = name(words.next()?);
    if program == "env" {
        // Its options and assignments stand in front of the program.
        program = name(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
    }
    let program = program.trim_end_matches(|character: char| character.is_ascii_digit() || matches!(character, '.' | '-'));
    LANGUAGES.iter().find(|language| language.programs.contains(&program))
}

fn describe_endings(language: &Language) -> String {
    let endings: Vec<String> = language.endings.iter().map(|ending| format!(".{ending}")).collect();
    format!("{} ({})", endings.join(" and "), language.title)
}

#[cfg(test)]
mod tests {
    use super::by_first_line;

    #[test]
    fn the_first_line_of_a_script_says_its_language() {
        let folder = tempfile::tempdir().expect("a folder is to be had");
        let path = folder.path().join("rt-server");
        for (line, expected) in [
            ("#!/usr/bin/perl", Some("perl")),
            ("#!/usr/bin/perl -w -T", Some("perl")),
            ("#! /opt/perl/bin/perl5.36.0", Some("perl")),
            ("#!/usr/bin/env plackup", Some("perl")),
            ("#!/usr/bin/env ruby", Some("ruby")),
            ("#!/usr/bin/env -S LANG=C ruby3.1 -w", Some("ruby")),
            ("#!/usr/bin/env -S rackup -s oribi", Some("ruby")),
            ("#!/usr/bin/lua5.4", Some("lua")),
            ("#!/usr/bin/env luajit-2.1", Some("lua")),
            ("#!/bin/sh", None),
            ("#!/usr/bin/env", None),
            ("#!", None),
            ("use strict; #!/usr/bin/perl", None),
            ("", None),
            ("#!/usr/bin/python3 perl", None),
        ] {
            std::fs::write(&path, format!("{line}\nuse strict;\n")).expect("it is writable");
            assert_eq!(by_first_line(&path).map(|language| language.name), expected, "{line}");
        }
        std::fs::write(&path, b"#!\xff\xfe").expect("it is writable");
        assert!(by_first_line(&path).is_none() && by_first_line(folder.path()).is_none());
    }
}
