//! What is known of a language, and of what runs its apps.

use crate::configuration::Configuration;
use crate::host_files::HostFiles;
use crate::options::Options;
use std::path::PathBuf;
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
    BuiltIn {
        /// Says which one.
        describe: fn() -> String,
    },
}

impl Language {
    /// For `--version`: what there is of it.
    pub fn describe(&self) -> String {
        match &self.home {
            Home::Mold { files, .. } => files.describe(),
            Home::BuiltIn { describe } => describe(),
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
