//! The description of an app for its master.

use oribi_config::Settings;
use oribi_config::directory::Directory;
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
}
