//! Runs Ruby apps: finds Oribi's Ruby host, reads the app's configuration file, and starts the process that loads the app.

use crate::configuration::{Configuration, Said};
use crate::host_files::{HostFiles, program, variable};
use crate::language::{App, Home, Language, Runner};
use crate::options::Options;
use oribi_server::config::masked;
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The description of the language.
pub static LANGUAGE: Language = Language {
    name: "ruby",
    title: "Ruby (Rack)",
    endings: &["ru"],
    programs: &["ruby", "rackup"],
    files: &["config.ru"],
    shares_requests: true,
    home: Home::Mold { files: &FILES, find_runner },
};

/// The places of the Ruby host: a separate directory, or one of Ruby's directories.
static FILES: HostFiles = HostFiles {
    title: "Ruby",
    package: "ruby-oribi (Debian) or the gem oribi",
    mold: "oribi/mold.rb",
    variable: "ORIBI_RUBY_LIB",
    checkout: "hosts/ruby/lib",
    // In an installed gem, the program is in `libexec`.
    installed: &["lib/oribi/ruby", "lib"],
    layouts: &[&["lib"], &[""]],
    question: &["-e", r#"exit Gem.find_files("oribi/mold.rb").any?"#],
    flag: "--ruby",
};

/// Configuration files, relative to the directory of the app; the first existing one is read.
const CONFIGURATIONS: [&str; 4] = ["config/oribi.rb", "oribi.rb", "config/puma.rb", "config/unicorn.rb"];

/// A ruby, and the host's directories.
struct Ruby {
    program: OsString,
    /// Directories for `-I`; none if ruby finds the host by itself.
    libraries: Vec<PathBuf>,
    options: Options,
    /// The content of the configuration file, if it can be read only once, as from a pipe.
    text: OnceCell<OsString>,
}

/// The environment variable in which the host gets the content of a configuration file that can be read only once.
const TEXT: &str = "ORIBI_CONFIG_TEXT";

/// Finds the ruby and the Ruby host.
///
/// # Errors
/// The host is in none of the searched places, ruby cannot be run, or an option is not for Ruby apps.
fn find_runner(options: &Options) -> Result<Box<dyn Runner>, String> {
    if !options.modules.is_empty() {
        return Err("-M is for Perl apps: -r loads a Ruby library".to_owned());
    }
    options.lua.refuse("Ruby")?;
    let program = program(options.ruby.as_ref(), "ORIBI_RUBY", "ruby");
    let libraries = FILES.directories(&program)?;
    Ok(Box::new(Ruby { program, libraries, options: options.clone(), text: OnceCell::new() }))
}

impl Ruby {
    /// The ruby command, with the host's directories and the app's environment.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for place in &self.libraries {
            command.arg("-I").arg(place);
        }
        for place in &self.options.include {
            command.arg("-I").arg(place);
        }
        // A user who names a Gemfile, as `bundle exec` does, expects only the gems of that Gemfile. If RUBYOPT also requires
        // bundler/setup, this changes nothing.
        if variable("BUNDLE_GEMFILE").is_some() {
            command.args(["-r", "bundler/setup"]);
        }
        // The flag overrides RACK_ENV. RAILS_ENV is removed, because in Rails it would override RACK_ENV. Without the flag and
        // without these variables, the host chooses the environment after it has read the configuration file.
        if let Some(name) = &self.options.environment {
            command.env("RACK_ENV", name).env_remove("RAILS_ENV");
        }
        command
    }

    /// The configuration file to read, if any.
    fn file(&self, app: &App) -> Option<PathBuf> {
        match &self.options.config {
            Some(path) if path == Path::new("-") => None,
            Some(path) => Some(path.clone()),
            None => {
                let directory = app.path.parent().unwrap_or(Path::new(""));
                CONFIGURATIONS.iter().map(|place| directory.join(place)).find(|path| path.is_file())
            }
        }
    }
}

/// Returns the content of a configuration file that two processes cannot read one after the other, such as a pipe; `None` for
/// an ordinary file.
fn read_once(file: &Path) -> Result<Option<OsString>, String> {
    let wrong = |error| format!("cannot read the configuration file {}: {error}", file.display());
    if !file.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
        return Ok(None);
    }
    let mut bytes = std::fs::read(file).map_err(wrong)?;
    // An environment variable cannot hold a NUL, and no file in Ruby needs one.
    bytes.retain(|byte| *byte != 0);
    Ok(Some(OsString::from_vec(bytes)))
}

impl Runner for Ruby {
    fn program(&self) -> String {
        self.program.display().to_string()
    }

    fn configuration(&self, app: &App) -> Result<Option<Configuration>, String> {
        let Some(file) = self.file(app) else { return Ok(None) };
        let mut command = self.command();
        if let Some(text) = read_once(&file)? {
            command.env(TEXT, self.text.get_or_init(|| text));
        }
        command.args(["-r", "oribi/config_file/report", "-e", "exit Oribi::ConfigFile::Report.main(ARGV[0])", "--"]).arg(&file);
        let wrong = |error| format!("cannot run {}: {error}", self.program());
        // Not a pipe, which a process that the file leaves behind would hold open.
        let mut complaints =
            File::from(memfd_create("oribi-complaints", MemfdFlags::CLOEXEC).map_err(io::Error::from).map_err(wrong)?);
        command.stdin(Stdio::null()).stderr(complaints.try_clone().map_err(wrong)?);
        let output = command.output().map_err(wrong)?;
        let mut said = Vec::new();
        complaints.rewind().and_then(|()| complaints.read_to_end(&mut said)).map_err(wrong)?;
        // An exception of the file may quote a value. If standard error is closed, there is no reader.
        let _ = io::stderr().write_all(masked(&String::from_utf8_lossy(&said)).as_bytes());
        if !output.status.success() {
            return Err(format!("the configuration file {} cannot be used", file.display()));
        }
        let said = read_report(&output.stdout).ok_or_else(|| format!("{} printed something unexpected", self.program()))?;
        Ok(Some(Configuration { file, said }))
    }

    fn mold(&self, app: &App, check: bool) -> Command {
        let mut command = self.command();
        for library in &self.options.requires {
            command.arg("-r").arg(library);
        }
        command.args(["-r", "oribi/mold", "-e", "exit Oribi::Mold.main(ARGV)", "--"]);
        if check {
            command.arg("--check");
        }
        if let Some(file) = self.file(app) {
            command.arg("--config").arg(file);
        }
        if let Some(text) = self.text.get() {
            command.env(TEXT, text);
        }
        command.arg(&app.path);
        command
    }
}

/// Parses the output of `Oribi::ConfigFile::Report`: rows of texts. A NUL follows each text, and another NUL each row.
fn read_report(bytes: &[u8]) -> Option<Vec<Said>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut rows = Vec::new();
    let mut texts = Vec::new();
    for piece in text.split_inclusive('\0') {
        // Values may be empty, but every complete row ends with its own NUL.
        let row = match (piece.strip_suffix('\0')?, texts.as_slice()) {
            ("", ["note", note]) => Said::Note((*note).to_owned()),
            ("", ["set", name, value, place]) => {
                let [name, value, place] = [name, value, place].map(|text| (*text).to_owned());
                Said::Setting { name, value, place }
            }
            (text, _) => {
                texts.push(text);
                continue;
            }
        };
        rows.push(row);
        texts.clear();
    }
    texts.is_empty().then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str, place: &str) -> Said {
        Said::Setting { name: name.to_owned(), value: value.to_owned(), place: place.to_owned() }
    }

    #[test]
    fn a_report_is_read() {
        assert_eq!(read_report(b""), Some(vec![]));
        assert_eq!(
            read_report(b"set\0workers\x002\0puma.rb:1\0\0note\0what\never\0\0set\0server_header\0\0puma.rb:3\0\0"),
            Some(vec![
                setting("workers", "2", "puma.rb:1"),
                Said::Note("what\never".to_owned()),
                setting("server_header", "", "puma.rb:3")
            ])
        );
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for bytes in
            [&b"set\0workers\x002\0puma.rb:1\0"[..], b"set\0workers", b"hello\n", b"note\0\xff\0\0", b"other\0text\0\0"]
        {
            assert_eq!(read_report(bytes), None, "{}", bytes.escape_ascii());
        }
    }
}
