//! The program of this process, which an upgrade starts again from the file that is then at its path.

use super::super::applied::applied_file;
use super::super::detach::started_in;
use super::super::inheritance::{APPLIED, OWN};
use oribi_config::directory::Directory;
use oribi_io::process::environment;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command line of this process, and its original directory.
#[derive(Debug)]
pub(in super::super) struct Program {
    name: OsString,
    arguments: Vec<OsString>,
    directory: Directory,
    /// The original environment, because an app may have changed the current one. Without the server's own variables, which
    /// were meant for this process only.
    environment: Vec<(OsString, OsString)>,
    /// The file of this process, which may have been replaced or removed since.
    file: Option<PathBuf>,
    /// The file with the apps that was applied last, if it is not that of the command line.
    applied: Option<PathBuf>,
}

impl Program {
    /// Returns the program of this process. Must be called before the process gets a title, which overwrites its arguments.
    pub(in super::super) fn of_process() -> Self {
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_default();
        let (directory, file) = (started_in(), std::env::current_exe().ok());
        let mut environment = environment::variables();
        environment.retain(|(name, _)| !OWN.iter().any(|own| name == own));
        Self { name, arguments: arguments.collect(), directory, environment, file, applied: applied_file() }
    }

    /// Returns the command that runs the program again. The file is looked up as at the first start: a name with a slash is a
    /// path, in which a link may lead to another version now; other names are looked up in PATH.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(self.file());
        command.arg0(&self.name).args(&self.arguments);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(path) = self.directory.path() {
            command.current_dir(path);
        }
        self.directory.describe_to(&mut command);
        self.applied.iter().for_each(|applied| _ = command.env(APPLIED, applied));
        command
    }

    /// Makes later servers serve by this file with apps.
    pub(super) fn use_applied(&mut self, file: PathBuf) {
        self.applied = Some(file);
    }

    /// Returns the path of the file to run.
    pub(super) fn file(&self) -> PathBuf {
        let directory = self.directory.name().unwrap_or(Path::new(""));
        let named = if self.name.as_bytes().contains(&b'/') {
            // A file that exists and cannot be executed is an error that must be reported.
            Some(directory.join(&self.name)).filter(|path| path.exists())
        } else {
            let path = self.environment.iter().find(|(name, _)| name == "PATH");
            let folders = path.map(|(_, folders)| folders.clone()).unwrap_or_default();
            std::env::split_paths(&folders).map(|folder| directory.join(folder).join(&self.name)).find(|path| is_program(path))
        };
        named.or_else(|| self.file.clone()).unwrap_or_else(|| PathBuf::from(&self.name))
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_looked_up_again_and_what_is_not_there_gives_way_to_the_file_that_ran() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let link = folder.path().join("oribi");
        std::os::unix::fs::symlink("/bin/true", &link).expect("the folder is ours");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("the folder is ours");
        let program = |name: &str| Program {
            name: name.into(),
            arguments: vec!["app.psgi".into()],
            directory: Directory::at(folder.path()),
            environment: std::env::vars_os().collect(),
            file: Some("/opt/oribi-1/oribi".into()),
            applied: None,
        };
        assert_eq!(program("./oribi").file(), folder.path().join("./oribi"));
        assert_eq!(program("./no-such-file").file(), Path::new("/opt/oribi-1/oribi"));
        assert_eq!(program("./file").file(), folder.path().join("./file"), "it cannot be run, and is there");
        assert!(program("sh").file().ends_with("bin/sh"), "by PATH");
        let command = program("./oribi").command();
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["app.psgi"]);
        assert_eq!(command.get_current_dir(), Some(folder.path()));
        assert!(command.get_envs().any(|(name, value)| name == "PWD" && value == Some(folder.path().as_os_str())));
    }
}
