//! The description of a language, and the interface for running its apps.

use crate::configuration::Configuration;
use crate::host_files::HostFiles;
use crate::options::{Mode, Options};
use crate::trouble::Trouble;
use oribi_server::config::Config;
use std::path::PathBuf;
use std::process::Command;

/// A language that apps can be written in.
pub struct Language {
    /// Its name for `--language`.
    pub name: &'static str,
    /// Its name for users, with the interface between app and server.
    pub title: &'static str,
    /// File name extensions of its apps.
    pub endings: &'static [&'static str],
    /// Names of the language's interpreters in a first line that starts with `#!`. A version may follow the name.
    pub programs: &'static [&'static str],
    /// Files to look for in a directory.
    pub files: &'static [&'static str],
    /// Whether the threads of a worker share its requests, because the language has one lock for all threads.
    pub shares_requests: bool,
    /// The process in which its apps run.
    pub home: Home,
}

/// The process in which the apps of a language run.
pub enum Home {
    /// A process of the language, the mold, which is started and loads the app.
    Mold {
        /// The places of the language's host.
        files: &'static HostFiles,
        /// Finds the program that runs the apps, or reports the part that is missing.
        find_runner: fn(&Options) -> Result<Box<dyn Runner>, String>,
    },
    /// This process and its workers, because the language is built into the command.
    BuiltIn {
        /// Describes the built-in version.
        describe: fn() -> String,
        /// Serves an app, or checks it.
        serve: fn(Mode, &App, &Options, Config) -> Result<u8, Trouble>,
    },
}

impl Language {
    /// For `--version`: describes the language or its host.
    pub fn describe(&self) -> String {
        match &self.home {
            Home::Mold { files, .. } => files.describe(),
            Home::BuiltIn { describe, .. } => describe(),
        }
    }
}

/// Runs the apps of a language.
pub trait Runner {
    /// The program, for users.
    fn program(&self) -> String;

    /// Returns the content of the app's configuration file, if there is one.
    ///
    /// # Errors
    /// The reason why the file cannot be used.
    fn configuration(&self, _app: &App) -> Result<Option<Configuration>, String> {
        Ok(None)
    }

    /// Returns the command of the process that loads the app and forks the workers. With `check`, that process only loads the
    /// app. The caller appends the settings as arguments, each `name=value`.
    fn mold(&self, app: &App, check: bool) -> Command;
}

/// An app that was found.
pub struct App {
    /// The file of the app.
    pub path: PathBuf,
    /// The language of the app.
    pub language: &'static Language,
}
