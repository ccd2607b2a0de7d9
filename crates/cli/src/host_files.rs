//! Finds the files of a language's host, and the program that runs them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The places of a language's host.
pub struct HostFiles {
    /// The name of the language for users.
    pub title: &'static str,
    /// The packages that have the host.
    pub package: &'static str,
    /// The file that the mold runs, relative to the first of the host's module directories.
    pub mold: &'static str,
    /// The environment variable that names the host's directory.
    pub variable: &'static str,
    /// The host's directory in a checkout in which it was built.
    pub checkout: &'static str,
    /// Possible directories of the host below PREFIX.
    pub installed: &'static [&'static str],
    /// Possible sets of module directories, relative to the host's directory; an empty path stands for the host's directory
    /// itself. The first directory of each set contains the file `mold`.
    pub layouts: &'static [&'static [&'static str]],
    /// Arguments with which the program exits with status 0 if it finds the mold among its own modules.
    pub question: &'static [&'static str],
    /// The flag that names the program.
    pub flag: &'static str,
}

impl HostFiles {
    /// Returns the directory of the host: the one that the environment variable names, or else the one in the checkout or below
    /// the PREFIX that this program is in (`target/*/` or `PREFIX/bin`). `None` if neither exists; then only the language
    /// itself may find the host.
    ///
    /// # Errors
    /// The environment variable names a directory without the host.
    pub fn find(&self) -> Result<Option<PathBuf>, String> {
        if let Some(place) = variable(self.variable).map(PathBuf::from) {
            return match self.directories_in(&place) {
                Some(_) => Ok(Some(place)),
                None => Err(format!("there is no {} in {}, which is {}", self.mold, self.variable, place.display())),
            };
        }
        Ok(self.places().into_iter().find(|place| self.directories_in(place).is_some()))
    }

    /// Returns the module directories to pass to `program`; empty if `program` finds the host by itself.
    ///
    /// # Errors
    /// The searched places, the reason why the program cannot be run, or an error of [`HostFiles::find`].
    pub fn directories(&self, program: &OsStr) -> Result<Vec<PathBuf>, String> {
        match self.find()? {
            Some(place) => Ok(self.directories_in(&place).unwrap_or_default()),
            None => self.ask(program).map(|()| Vec::new()),
        }
    }

    /// For `--version`: the directory of the host.
    pub fn describe(&self) -> String {
        match self.find() {
            Ok(Some(place)) => format!("its host is in {}", place.display()),
            Ok(None) => "no host beside this program; the language's own module directories are searched".to_owned(),
            Err(message) => message,
        }
    }

    /// Returns the possible directories of the host, found from the path of this program.
    fn places(&self) -> Vec<PathBuf> {
        let Ok(program) = std::env::current_exe().and_then(|path| path.canonicalize()) else { return Vec::new() };
        let Some(directory) = program.parent() else { return Vec::new() };
        let above = |levels: usize| directory.ancestors().nth(levels).map(Path::to_owned);
        let checkout = above(2).map(|root| root.join(self.checkout));
        let installed = self.installed.iter().filter_map(|place| Some(above(1)?.join(place)));
        checkout.into_iter().chain(installed).collect()
    }

    fn directories_in(&self, place: &Path) -> Option<Vec<PathBuf>> {
        let layout = self.layouts.iter().find(|layout| place.join(layout[0]).join(self.mold).is_file())?;
        // Joining an empty name would add a slash to the path.
        let full = |directory: &&str| if directory.is_empty() { place.to_owned() } else { place.join(directory) };
        Some(layout.iter().map(full).collect())
    }

    fn ask(&self, program: &OsStr) -> Result<(), String> {
        let status = Command::new(program).args(self.question).stdin(Stdio::null()).status();
        let name = program.display();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => {
                let looked: String = self.places().iter().map(|place| format!("\n  {}", place.display())).collect();
                let Self { title, package, mold, variable, .. } = self;
                Err(format!(
                    "cannot find the {title} host of Oribi. Install {package}, or build it with `make build` or a tarball's \
                     `install-hosts`, or set {variable}. Looked for {mold} in the module directories of {name} and in{looked}"
                ))
            }
            Err(error) => Err(format!("cannot run {name}: {error}; name another with {} PATH", self.flag)),
        }
    }
}

/// The program of a language: from a flag, from an environment variable, or a name to look up in PATH.
pub fn program(flag: Option<&OsString>, named: &str, default: &str) -> OsString {
    flag.cloned().or_else(|| variable(named)).unwrap_or_else(|| OsString::from(default))
}

/// An environment variable, if it is set and not empty.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A flag and its value as one argument.
pub fn joined(flag: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(flag);
    text.push(value);
    text
}
