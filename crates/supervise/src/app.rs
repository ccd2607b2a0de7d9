//! The description of an app for its master, and of the file with the apps of a server.

use oribi_config::directory::Directory;
use oribi_config::{Settings, Tls};
use oribi_edge::plan::PlanReader;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An app of a server with a master.
pub struct App<'a> {
    /// The name by which orders and messages name the app. `None` for the only app of a server that was started without names.
    pub name: Option<&'a str>,
    /// The settings of the app.
    pub settings: &'a Settings,
    /// The command that loads the app.
    pub mold: Command,
    /// The number of threads of each worker that take requests by themselves.
    pub lanes: usize,
    /// The directory in which the app is loaded.
    pub directory: Directory,
    /// The options, each as `name=value`, from which an edge makes the settings. Empty for an app without a name.
    pub arguments: Vec<String>,
}

/// An app of a file that was read again.
#[derive(Debug)]
pub struct PlannedApp {
    /// The name.
    pub name: String,
    /// See [`App::settings`].
    pub settings: Settings,
    /// See [`App::mold`].
    pub mold: Command,
    /// See [`App::lanes`].
    pub lanes: usize,
    /// See [`App::directory`].
    pub directory: Directory,
    /// See [`App::arguments`].
    pub arguments: Vec<String>,
}

/// The part of a file that belongs to the whole server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPlan {
    /// The options of the server, each as `name=value`, without the addresses.
    pub arguments: Vec<String>,
    /// The settings of the server. Only the addresses and their certificates count.
    pub settings: Settings,
    /// A number that differs if the routes do. Apps count by their names.
    pub routes: u64,
}

/// The content of a file that was read again.
#[derive(Debug)]
pub struct FilePlan {
    /// The part of the whole server.
    pub server: ServerPlan,
    /// The apps.
    pub apps: Vec<PlannedApp>,
    /// The text of the routes, for [`PlanReader::read`].
    pub text: Vec<u8>,
    /// Warnings, a line each.
    pub warnings: Vec<String>,
}

/// The files of a configuration; all paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The paths, and the patterns of paths, that name the files.
    pub patterns: Vec<PathBuf>,
    /// The files that these name now.
    pub files: Vec<PathBuf>,
}

/// Reads the file of a server again.
pub trait Plans: PlanReader {
    /// Reads `file`, or the file of the start.
    ///
    /// # Errors
    /// The file has mistakes; the message has each with its place.
    fn plan(&self, file: Option<&Path>) -> Result<FilePlan, String>;

    /// Returns the paths of `file`, or of the file of the start, and of the files that it includes.
    fn sources(&self, file: Option<&Path>) -> Sources;
}

/// Everything on which a loaded app depends, but the number of its workers and the addresses of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AppKey {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    directory: Option<PathBuf>,
    settings: Settings,
}

impl AppKey {
    pub(super) fn of(mold: &Command, settings: &Settings, directory: &Directory) -> Self {
        let is_left_out = |argument: &OsStr| {
            let name = argument.to_str().map(|argument| argument.trim_start_matches('-'));
            name.is_some_and(|name| name.starts_with("workers=") || name.starts_with("listen="))
        };
        let environment = mold.get_envs().map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned)));
        Self {
            program: mold.get_program().to_owned(),
            arguments: mold.get_args().filter(|argument| !is_left_out(argument)).map(OsStr::to_owned).collect(),
            environment: environment.collect(),
            directory: directory.name().map(Path::to_owned),
            // The certificates of the whole server follow from its addresses.
            settings: Settings { workers: 1.into(), listen: Vec::new(), tls: Tls::default(), ..settings.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_differs_by_all_but_its_number_of_workers_and_the_addresses() {
        let key = |arguments: &[&str], workers: usize, variable: &str| {
            let mut mold = Command::new("perl");
            mold.args(arguments).env("SECRET", variable);
            AppKey::of(&mold, &Settings { workers: workers.into(), ..Settings::default() }, &Directory::default())
        };
        let one = key(&["--", "app.psgi", "workers=2", "threads=1"], 2, "a");
        assert_eq!(one, key(&["--", "app.psgi", "workers=3", "threads=1"], 3, "a"));
        assert_eq!(one, key(&["--", "app.psgi", "listen=:8080", "threads=1"], 2, "a"));
        assert_ne!(one, key(&["--", "app.psgi", "workers=2", "threads=2"], 2, "a"));
        assert_ne!(one, key(&["--", "app.psgi", "workers=2", "threads=1"], 2, "b"));
    }
}
