//! The formats, and how a file is recognized.

use crate::draft::Draft;
use crate::found::Found;
use crate::note::Note;
use crate::part::Part;
use crate::unreadable::Unreadable;
use crate::{command as commands, json, luafcgid, nginx, ruby, settle, unit, uwsgi, write};

/// The most bytes of a source.
const MOST: usize = 1 << 20;

/// A format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The JSON of NGINX Unit.
    Unit,
    /// The INI, XML, YAML or JSON of uWSGI.
    Uwsgi,
    /// nginx.conf.
    Nginx,
    /// The calls of a puma.rb.
    Puma,
    /// The calls of a unicorn.rb.
    Unicorn,
    /// The Lua of luafcgid.
    Luafcgid,
    /// A command line of a server.
    Command,
    /// A Procfile.
    Procfile,
    /// A Passengerfile.json.
    Passenger,
}

impl Format {
    /// Whether the file is a program in Ruby, whose calls are read.
    #[must_use]
    pub const fn is_ruby(self) -> bool {
        matches!(self, Self::Puma | Self::Unicorn)
    }

    /// All formats, with their names for `--from`.
    pub const ALL: &[(&'static str, Self)] = &[
        ("unit", Self::Unit),
        ("uwsgi", Self::Uwsgi),
        ("nginx", Self::Nginx),
        ("puma", Self::Puma),
        ("unicorn", Self::Unicorn),
        ("luafcgid", Self::Luafcgid),
        ("command", Self::Command),
        ("procfile", Self::Procfile),
        ("passenger", Self::Passenger),
    ];

    /// The format with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The text of `oribi.toml`, which its reader accepts.
    pub toml: String,
    /// The notes, which are also comments in the text.
    pub notes: Vec<Note>,
    /// The patterns of further files that belong to the source: [`import_with`] and [`command_with`] read them, too.
    pub wanted: Vec<String>,
    /// The same configuration as several files, if the source has several: `oribi.toml`, and those that it includes.
    pub parts: Vec<Part>,
}

/// The format of a file, by its name and its text.
#[must_use]
pub fn detect(name: &str, text: &str) -> Option<Format> {
    let file = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let start = text.trim_start_matches('\u{FEFF}').trim_start();
    if file.starts_with("procfile") || commands::is_procfile(text) {
        return Some(Format::Procfile);
    }
    if start.starts_with("#!") && text.lines().next().is_some_and(|line| line.ends_with("sh")) {
        return Some(Format::Command);
    }
    if start.starts_with(['{', '/']) || file.ends_with(".json") {
        if file.starts_with("passengerfile") {
            return Some(Format::Passenger);
        }
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        return match () {
            () if has("listeners") || has("applications") => Some(Format::Unit),
            () if has("uwsgi") => Some(Format::Uwsgi),
            () if has("app_type") || has("environment") && !has("routes") => Some(Format::Passenger),
            () => Some(Format::Unit),
        };
    }
    let uwsgi = |line: &str| line.starts_with("[uwsgi]") || line.trim_end() == "uwsgi:" || line.starts_with("<uwsgi");
    if text.lines().any(|line| uwsgi(line.trim_start())) {
        return Some(Format::Uwsgi);
    }
    if file.ends_with(".rb") || file.contains("puma") || file.contains("unicorn") || file.contains("rainbows") {
        return Some(of_ruby(&file, text));
    }
    if file.ends_with(".lua") || luafcgid::is_file(text) {
        return Some(Format::Luafcgid);
    }
    let blocks = ["server", "http", "events", "location", "upstream"];
    let nginx = |word: &str, next: &str| blocks.contains(&word) && next.starts_with(['{', '/', '~', '=', '^', '@']);
    let words: Vec<&str> = text.split_whitespace().collect();
    let blocks = words.windows(2).any(|pair| nginx(pair[0], pair[1])) || text.contains("server{") || text.contains("http{");
    (text.contains(';') && blocks || file.contains("nginx")).then_some(Format::Nginx)
}

/// Whose file of Ruby this is.
fn of_ruby(file: &str, text: &str) -> Format {
    let words = ["worker_processes", "preload_app true", "stderr_path", "stdout_path", "working_directory", "listen "];
    let unicorn = text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)));
    let named = file.contains("unicorn") || file.contains("rainbows");
    if named || unicorn && !file.contains("puma") { Format::Unicorn } else { Format::Puma }
}

/// Reads a source. `name` is its path, to which its own variables may refer.
///
/// # Errors
/// The source cannot be read, with the place if it is known.
pub fn import(format: Format, name: &str, text: &str) -> Result<Imported, Unreadable> {
    read(format, name, text, None)
}

/// Like [`import`], with further files that the source names.
///
/// # Errors
/// As [`import`].
pub fn import_with(format: Format, name: &str, text: &str, found: &[Found]) -> Result<Imported, Unreadable> {
    read(format, name, text, Some(found))
}

fn read(format: Format, name: &str, text: &str, found: Option<&[Found]>) -> Result<Imported, Unreadable> {
    if text.len() > MOST {
        return Err(Unreadable::new(format!("the source has more than {MOST} bytes")));
    }
    let title = |name: &str| Draft {
        title: format!("Made by oribi import from {name}."),
        found: found.map(<[_]>::to_vec),
        ..Draft::default()
    };
    let draft = match format {
        Format::Unit => {
            let root = json::read(text)?;
            if !root.is_map() {
                return Err(Unreadable::new("a configuration of Unit is an object"));
            }
            let mut draft = title("a configuration of NGINX Unit");
            unit::read(&root, &mut draft);
            draft
        }
        Format::Uwsgi => {
            let mut draft = title("a configuration of uWSGI");
            uwsgi::file(name, text, &mut draft)?;
            draft
        }
        Format::Nginx => {
            let mut draft = title("a configuration of nginx");
            nginx::read(name, text, &mut draft)?;
            draft
        }
        Format::Puma | Format::Unicorn => {
            let unicorn = format == Format::Unicorn;
            let mut draft = title(if unicorn { "a configuration of Unicorn" } else { "a configuration of Puma" });
            ruby::read(&json::read(text)?, unicorn, &mut draft)?;
            draft
        }
        Format::Luafcgid => {
            let mut draft = title("a configuration of luafcgid");
            luafcgid::read(text, &mut draft)?;
            draft
        }
        Format::Command => {
            let mut draft = title("a command line");
            commands::line(text, None, &mut draft)?;
            draft
        }
        Format::Procfile => {
            let mut draft = title("a Procfile");
            commands::procfile(text, &mut draft)?;
            draft
        }
        Format::Passenger => {
            let mut draft = title("a Passengerfile.json");
            commands::passengerfile(&json::read(text)?, &mut draft)?;
            draft
        }
    };
    Ok(finish(draft))
}

/// Reads the words of a command line.
///
/// # Errors
/// It is no command line of a known server.
pub fn command(words: &[String]) -> Result<Imported, Unreadable> {
    read_words(words, None)
}

/// Like [`command`], with further files that the command line names.
///
/// # Errors
/// As [`command`].
pub fn command_with(words: &[String], found: &[Found]) -> Result<Imported, Unreadable> {
    read_words(words, Some(found))
}

fn read_words(words: &[String], found: Option<&[Found]>) -> Result<Imported, Unreadable> {
    let mut draft = Draft {
        title: "Made by oribi import from a command line.".to_owned(),
        found: found.map(<[_]>::to_vec),
        ..Draft::default()
    };
    commands::words(words, &mut draft)?;
    Ok(finish(draft))
}

fn finish(draft: Draft) -> Imported {
    let (toml, draft) = settle::settle(draft);
    let parts = write::parts(&draft);
    Imported { toml, notes: draft.notes, wanted: draft.wanted, parts }
}
