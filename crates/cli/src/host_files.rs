//! Where the files of a language's host are, and the program that runs them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files of a host, seen from the language.
pub struct HostFiles {
    /// The name of the language for people.
    pub title: &'static str,
    /// The file that the mold runs, in one of the host's directories of modules.
    pub mold: &'static str,
    /// The environment variable that says where the host is.
    pub variable: &'static str,
    /// Where the host is in a checkout in which it was built.
    pub checkout: &'static str,
    /// Where it is below PREFIX.
    pub installed: &'static str,
    /// What the host's directories of modules may be, within its own (or, empty, that one itself): the first has the mold.
    pub layouts: &'static [&'static [&'static str]],
    /// Words for the program by which it tells (status 0) that it finds the mold among its own modules.
    pub question: &'static [&'static str],
    /// The flag that says which program.
    pub flag: &'static str,
}

impl HostFiles {
    /// The directory of the host: what the variable says, or a place beside this program, which may stand in the target directory
    /// of a checkout or in PREFIX/bin. `None`: in neither, so that only the language itself may know.
    ///
    /// # Errors
    /// The variable names a directory without it.
    pub fn find(&self) -> Result<Option<PathBuf>, String> {
        if let Some(place) = variable(self.variable).map(PathBuf::from) {
            return match self.directories_in(&place) {
                Some(_) => Ok(Some(place)),
                None => Err(format!("there is no {} in {}, which is {}", self.mold, self.variable, place.display())),
            };
        }
        Ok(self.places().into_iter().find(|place| self.directories_in(place).is_some()))
    }

    /// The directories of modules that `program` must be told; none if it finds the host among its own.
    ///
    /// # Errors
    /// What was looked for and where, or why the program cannot be run.
    pub fn directories(&self, program: &OsStr) -> Result<Vec<PathBuf>, String> {
        match self.find()? {
            Some(place) => Ok(self.directories_in(&place).unwrap_or_default()),
            None => self.ask(program).map(|()| Vec::new()),
        }
    }

    /// For `--version`: where the host is.
    pub fn describe(&self) -> String {
        match self.find() {
            Ok(Some(place)) => format!("its host is in {}", place.display()),
            Ok(None) => "no host beside this program; the language's own module directories are searched".to_owned(),
            Err(message) => message,
        }
    }

    /// Where the host may be, seen from this program.
    fn places(&self) -> Vec<PathBuf> {
        let Ok(program) = std::env::current_exe().and_then(|path| path.canonicalize()) else { return Vec::new() };
        let Some(directory) = program.parent() else { return Vec::new() };
        let above = |levels: usize| directory.ancestors().nth(levels).map(Path::to_owned);
        let checkout = above(2).map(|root| root.join(self.checkout));
        let installed = above(1).map(|prefix| prefix.join(self.installed));
        checkout.into_iter().chain(installed).collect()
    }

    fn directories_in(&self, place: &Path) -> Option<Vec<PathBuf>> {
        let layout = self.layouts.iter().find(|layout| place.join(layout[0]).join(self.mold).is_file())?;
        // No path ends with a slash, as it would if something empty were joined to it.
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
                let Self { title, mold, variable, .. } = self;
                Err(format!(
                    "cannot find the {title} host of Oribi. Build it with `make build`, or set {variable}. Looked for {mold} in \
                     the module directories of {name} and in{looked}"
                ))
            }
            Err(error) => Err(format!("cannot run {name}: {error}; say which with {} PATH", self.flag)),
        }
    }
}

/// The program of a language: what a flag says, what an environment variable says, or a name to look for in PATH.
pub fn program(flag: Option<&OsString>, named: &str, default: &str) -> OsString {
    flag.cloned().or_else(|| variable(named)).unwrap_or_else(|| OsString::from(default))
}

/// An environment variable that is there and not empty.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A flag and its value in one word.
pub fn joined(flag: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(flag);
    text.push(value);
    text
}
