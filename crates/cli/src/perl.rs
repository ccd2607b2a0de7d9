//! Runs Perl apps: finds the Perl host of Oribi, and says how to start the process that loads the app.

use crate::language::{App, Options, Runner};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The module that the mold runs, as a file.
const MOLD: &str = "Oribi/Mold.pm";

/// A perl, and where the host's modules are.
struct Perl {
    program: OsString,
    /// Directories for `-I`; none if perl finds the modules by itself.
    libraries: Vec<PathBuf>,
    options: Options,
}

/// Finds the perl and the Perl host.
///
/// # Errors
/// What was looked for and where, in words.
pub fn find_runner(options: &Options) -> Result<Box<dyn Runner>, String> {
    let given = options.perl.clone().or_else(|| std::env::var_os("ORIBI_PERL").filter(|path| !path.is_empty()));
    let program = given.unwrap_or_else(|| OsString::from("perl"));
    let libraries = match find_host()? {
        Some(place) => libraries_in(&place).unwrap_or_default(),
        None => {
            ask_perl(&program)?;
            Vec::new()
        }
    };
    Ok(Box::new(Perl { program, libraries, options: options.clone() }))
}

impl Runner for Perl {
    fn program(&self) -> String {
        self.program.display().to_string()
    }

    fn mold(&self, app: &App, check: bool) -> Command {
        let mut command = Command::new(&self.program);
        let places =
            self.libraries.iter().map(|path| path.as_os_str()).chain(self.options.include.iter().map(OsString::as_os_str));
        for place in places {
            command.arg(joined("-I", place));
        }
        command.args(self.options.modules.iter().map(|module| format!("-M{module}")));
        command.args(["-MOribi::Mold", "-e", "exit Oribi::Mold->main(@ARGV)", "--"]);
        if check {
            command.arg("--check");
        }
        command.arg(&app.path);
        // As with plackup: the flag wins over the environment. Conveniences for development are asked for, not given.
        if let Some(name) = &self.options.environment {
            command.env("PLACK_ENV", name);
        } else if std::env::var_os("PLACK_ENV").is_none_or(|name| name.is_empty()) {
            command.env("PLACK_ENV", "deployment");
        }
        command
    }
}

fn joined(flag: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(flag);
    text.push(value);
    text
}

/// The directory of the Perl host: what ORIBI_PERL_LIB says, or a place beside this program, which may stand in the target
/// directory of a checkout or in PREFIX/bin. `None`: in neither, so that only perl itself may know.
///
/// # Errors
/// ORIBI_PERL_LIB names a directory without it.
pub fn find_host() -> Result<Option<PathBuf>, String> {
    if let Some(place) = std::env::var_os("ORIBI_PERL_LIB").filter(|place| !place.is_empty()).map(PathBuf::from) {
        return match libraries_in(&place) {
            Some(_) => Ok(Some(place)),
            None => Err(format!("there is no {MOLD} in ORIBI_PERL_LIB, which is {}", place.display())),
        };
    }
    Ok(places().into_iter().find(|place| libraries_in(place).is_some()))
}

/// Where the Perl host may be, seen from this program.
fn places() -> Vec<PathBuf> {
    let Ok(program) = std::env::current_exe().and_then(|path| path.canonicalize()) else { return Vec::new() };
    let Some(directory) = program.parent() else { return Vec::new() };
    let above = |levels: usize| directory.ancestors().nth(levels).map(Path::to_owned);
    let checkout = above(2).map(|root| root.join("hosts/perl/blib"));
    let installed = above(1).map(|prefix| prefix.join("lib/oribi/perl"));
    checkout.into_iter().chain(installed).collect()
}

/// The directories for `-I`, if the host is in `place`: as MakeMaker builds it (`lib` and `arch`), or all in one.
fn libraries_in(place: &Path) -> Option<Vec<PathBuf>> {
    if place.join("lib").join(MOLD).is_file() {
        return Some(vec![place.join("lib"), place.join("arch")]);
    }
    place.join(MOLD).is_file().then(|| vec![place.to_owned()])
}

/// Whether perl finds the host among its own modules.
fn ask_perl(program: &OsStr) -> Result<(), String> {
    let script = format!("for (@INC) {{ exit 0 if !ref && -e \"$_/{MOLD}\" }} exit 3");
    let status = Command::new(program).args(["-e", &script]).stdin(Stdio::null()).status();
    let name = program.display();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            let looked: String = places().iter().map(|place| format!("\n  {}", place.display())).collect();
            Err(format!(
                "cannot find the Perl host of Oribi. Build it with `make build`, or set ORIBI_PERL_LIB. Looked for {MOLD} in the \
                 module directories of {name} and in{looked}"
            ))
        }
        Err(error) => Err(format!("cannot run {name}: {error}; say which perl with --perl PATH")),
    }
}
