//! Runs Perl apps: finds Oribi's Perl host, and starts the process that loads the app.

use crate::host_files::{HostFiles, joined, program, variable};
use crate::language::{App, Home, Language, Runner};
use crate::options::Options;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The description of the language.
pub static LANGUAGE: Language = Language {
    name: "perl",
    title: "Perl (PSGI, PAGI)",
    endings: &["psgi", "pl", "pagi"],
    programs: &["perl", "plackup"],
    files: &["app.psgi", "app.pagi"],
    shares_requests: false,
    home: Home::Mold { files: &FILES, find_runner },
};

/// The places of the Perl host: MakeMaker's layout (`lib` and `arch`), or one directory.
static FILES: HostFiles = HostFiles {
    title: "Perl",
    package: "liboribi-perl (Debian) or Oribi (CPAN)",
    mold: "Oribi/Mold.pm",
    variable: "ORIBI_PERL_LIB",
    checkout: "hosts/perl/blib",
    installed: &["lib/oribi/perl"],
    layouts: &[&["lib", "arch"], &[""]],
    question: &["-e", r#"for (@INC) { exit 0 if !ref && -e "$_/Oribi/Mold.pm" } exit 3"#],
    flag: "--perl",
};

/// A perl, and the host's module directories.
struct Perl {
    program: OsString,
    /// Directories for `-I`; none if perl finds the modules by itself.
    libraries: Vec<PathBuf>,
    options: Options,
}

/// Finds the perl and the Perl host.
///
/// # Errors
/// The host is in none of the searched places, perl cannot be run, or an option is not for Perl apps.
fn find_runner(options: &Options) -> Result<Box<dyn Runner>, String> {
    if options.config.is_some() || !options.requires.is_empty() {
        return Err("--config and -r are for Ruby apps: a Perl app is configured by flags, and -M loads a module".to_owned());
    }
    options.lua.refuse("Perl")?;
    let program = program(options.perl.as_ref(), "ORIBI_PERL", "perl");
    let libraries = FILES.directories(&program)?;
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
        // As with plackup, the flag overrides the environment. Development features are off by default.
        if let Some(name) = &self.options.environment {
            command.env("PLACK_ENV", name);
        } else if variable("PLACK_ENV").is_none() {
            command.env("PLACK_ENV", "deployment");
        }
        command
    }
}
