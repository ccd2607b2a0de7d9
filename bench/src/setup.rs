//! The set-ups in `bench/servers`: how each server is found, started, and which cells it takes part in.

use crate::cell::{self, Encryption};
use crate::tls;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The set-up that all ratios are against.
pub const YARDSTICK: &str = "nginx";

/// One file of `bench/servers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The name of the file without its extension, and the name for `--servers`.
    pub name: String,
    /// Its name in the table and the plots.
    pub title: String,
    /// Debian's packages that bring it; empty for Oribi.
    pub package: String,
    /// Files that must exist beside the program.
    requires: Vec<String>,
    /// The file name extension of the apps that the server runs, which identifies their language; `None` if it needs no app.
    pub apps: Option<String>,
    /// A command that prints the version, and fails if the server is not installed.
    version: String,
    /// The command that starts the server in the foreground.
    command: String,
    /// Words that the command line needs for one cell in addition.
    extra: BTreeMap<String, String>,
    /// A file of `bench/servers` to be filled in and put into the server's directory.
    pub template: Option<String>,
    /// The way in which a worker serves its connections.
    pub serves: Serves,
    /// Whether instructions are counted with one connection only: with several in lockstep, client and server would wait for
    /// each other.
    pub alone: bool,
    /// Whether it takes part in the cells of HTTP/2.
    http2: bool,
    /// Whether it takes part in the cells of TLS.
    pub tls: bool,
    /// The part of the template that tells a web server in front how to pass requests on.
    pub pass: String,
    /// The only cells in which the server takes part; `None` for all.
    only: Option<BTreeSet<String>>,
    /// Cells that would say nothing new.
    skip: BTreeSet<String>,
    /// Cells it is not able to take part in, and why.
    cannot: BTreeMap<String, String>,
}

/// The way in which a worker serves its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// All at the same time, each for as long as its client wants.
    Many,
    /// One at a time, so that a second connection waits until the first is closed.
    OneConnection,
    /// One request on each connection; the server announces the end of the connection.
    OneRequest,
}

/// The use of a set-up in a cell.
#[derive(Debug, PartialEq, Eq)]
pub enum Participation<'a> {
    /// It is measured.
    Takes,
    /// It is left out, because it would say nothing new.
    Skips,
    /// It is left out, and the table has the reason.
    Cannot(&'a str),
}

impl Setup {
    /// Parses one file.
    ///
    /// # Errors
    /// A line is not `key = value`, a key or a cell is unknown, or a key is missing or given twice.
    pub fn parse(name: &str, text: &str) -> Result<Setup, String> {
        let mut values: BTreeMap<&str, &str> = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) = line.split_once('=').ok_or_else(|| format!("{name}: not `key = value`: {line}"))?;
            if values.insert(key.trim(), value.trim()).is_some() {
                return Err(format!("{name}: {} is given twice", key.trim()));
            }
        }
        let mut by_cell = |prefix: &str| {
            let found: Result<BTreeMap<String, String>, String> = values
                .iter()
                .filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)))
                .map(|(cell, value)| Ok((known_cell(name, cell)?, (*value).to_owned())))
                .collect();
            values.retain(|key, _| !key.starts_with(prefix));
            found
        };
        let (cannot, extra) = (by_cell("cannot.")?, by_cell("extra.")?);
        let mut take = |key: &str| values.remove(key).map(str::to_owned);
        let cells = |value: Option<String>| {
            value.map(|value| value.split_whitespace().map(|cell| known_cell(name, cell)).collect::<Result<_, _>>()).transpose()
        };
        let yes = |key: &str, value: Option<String>| match value.as_deref() {
            None => Ok(false),
            Some("yes") => Ok(true),
            Some(other) => Err(format!("{name}: {key} = {other}: the only value is yes")),
        };
        let required = |key: &str, value: Option<String>| value.ok_or_else(|| format!("{name}: {key} is missing"));
        let setup = Setup {
            name: name.to_owned(),
            title: required("title", take("title"))?,
            package: take("package").unwrap_or_default(),
            requires: take("requires").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            apps: match take("apps").as_deref() {
                None => None,
                Some(ending @ ("psgi" | "ru" | "lua" | "nginx.lua" | "wsapi.lua")) => Some(ending.to_owned()),
                Some(other) => return Err(format!("{name}: apps = {other}: there are psgi, ru, lua, nginx.lua and wsapi.lua")),
            },
            version: required("version", take("version"))?,
            command: required("command", take("command"))?,
            template: take("template"),
            serves: match take("serves").as_deref() {
                None => Serves::Many,
                Some("one-connection") => Serves::OneConnection,
                Some("one-request") => Serves::OneRequest,
                Some(other) => return Err(format!("{name}: serves = {other}: there are one-connection and one-request")),
            },
            alone: match take("lockstep").as_deref() {
                None => false,
                Some("alone") => true,
                Some(other) => return Err(format!("{name}: lockstep = {other}: the only value is alone")),
            },
            http2: yes("http2", take("http2"))?,
            tls: yes("tls", take("tls"))?,
            pass: take("pass").unwrap_or_default(),
            only: cells(take("only"))?,
            skip: cells(take("skip"))?.unwrap_or_default(),
            cannot,
            extra,
        };
        match values.keys().next() {
            Some(key) => Err(format!("{name}: unknown key {key}")),
            None => Ok(setup),
        }
    }

    /// Reads every `*.server` of a directory. The order is: the yardstick, Oribi, and the other servers by name.
    ///
    /// # Errors
    /// A file cannot be read or parsed, or there is no yardstick.
    pub fn read_all(directory: &Path) -> Result<Vec<Setup>, String> {
        let told = |e: std::io::Error| format!("{}: {e}", directory.display());
        let mut setups = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(told)? {
            let path = entry.map_err(told)?.path();
            if path.extension().is_some_and(|extension| extension == "server") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                setups.push(Setup::parse(&name, &std::fs::read_to_string(&path).map_err(told)?)?);
            }
        }
        setups.sort_by_key(|setup| (!setup.is_yardstick(), !setup.is_oribi(), setup.name.clone()));
        if setups.first().is_some_and(Setup::is_yardstick) {
            Ok(setups)
        } else {
            Err(format!("{}: no {YARDSTICK}.server, which all ratios are against", directory.display()))
        }
    }

    /// Whether ratios are against this one.
    pub fn is_yardstick(&self) -> bool {
        self.name == YARDSTICK
    }

    /// Whether this is the server under test.
    pub fn is_oribi(&self) -> bool {
        self.name.starts_with("oribi")
    }

    /// Its use in a cell or a count.
    pub fn part(&self, cell: &str) -> Participation<'_> {
        if let Some(reason) = self.cannot.get(cell) {
            Participation::Cannot(reason)
        } else if !self.has_app_for(cell)
            || !self.speaks_as_in(cell)
            || self.skip.contains(cell)
            || self.only.as_ref().is_some_and(|only| !only.contains(cell))
        {
            Participation::Skips
        } else {
            Participation::Takes
        }
    }

    /// Whether there is an app for it in a cell; the yardstick does without.
    fn has_app_for(&self, cell: &str) -> bool {
        let cell = cell::ALL.iter().find(|known| known.name == cell);
        let only = cell.and_then(|cell| cell.answer.only_language());
        self.is_yardstick() || only.is_none() || only == self.apps.as_deref()
    }

    /// Whether it speaks the protocols of a cell.
    fn speaks_as_in(&self, cell: &str) -> bool {
        let Some(cell) = cell::ALL.iter().find(|known| known.name == cell) else { return true };
        (self.http2 || cell.streams == 0) && (self.tls || cell.encryption == Encryption::None)
    }

    /// Returns the first line that the server prints about its version.
    ///
    /// # Errors
    /// The server is not installed; the error says what to install.
    pub fn version(&self, oribi: &Path) -> Result<String, String> {
        let remedy = if self.is_oribi() {
            "run `make build`, or name the program with --oribi".to_owned()
        } else {
            format!("run `apt-get install {}`", self.package)
        };
        if let Some(file) = self.requires.iter().find(|file| !Path::new(file).exists()) {
            return Err(format!("{}: {file} is missing: {remedy}", self.title));
        }
        let words = words(&self.version.replace("{oribi}", &oribi.display().to_string()))?;
        let output = words.split_first().map(|(program, rest)| Command::new(program).args(rest).output());
        match output {
            Some(Ok(output)) if output.status.success() => {
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text).into_owned();
                Ok(text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown").trim().to_owned())
            }
            Some(Ok(output)) => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(format!("{}: {}: {remedy}", self.title, text.lines().next().unwrap_or("its version command failed")))
            }
            Some(Err(e)) => Err(format!("{}: {}: {e}: {remedy}", self.title, words[0])),
            None => Err(format!("{}: no version command", self.title)),
        }
    }

    /// The words of the command line for a cell, with everything filled in.
    ///
    /// # Errors
    /// A quote that is not closed.
    pub fn command(&self, cell: &str, places: &Places) -> Result<Vec<String>, String> {
        let text = [self.command.as_str(), self.extra.get(cell).map_or("", String::as_str)].join(" ");
        words(&text)?.into_iter().map(|word| Ok(places.fill(&word))).collect()
    }

    /// The command line for readers, with what single cells add.
    pub fn command_line(&self) -> String {
        let extra = self.extra.iter().map(|(cell, words)| format!("; in {cell} also `{words}`"));
        format!("`{}`{}", self.command, extra.collect::<String>())
    }
}

/// The values of the words in braces.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// `{port}`: where to listen.
    pub port: u16,
    /// `{app}`: the app of the cell, in the server's language.
    pub app: PathBuf,
    /// `{dir}`: a directory of the server's own.
    pub directory: PathBuf,
    /// `{oribi}`: the program.
    pub oribi: PathBuf,
    /// `{http2}`: this word in a cell of HTTP/2, otherwise nothing, for servers that need it.
    pub http2: bool,
    /// `{ssl}`: this word in a cell of TLS, otherwise nothing. `{certificate}` and `{key}` are the paths of files in the
    /// server's directory, and `{listen}` is the address in the syntax of Oribi.
    pub encrypted: bool,
    /// `{pass}`: how a web server in front passes requests on.
    pub pass: String,
}

impl Places {
    /// Fills in a word or a whole file.
    pub fn fill(&self, text: &str) -> String {
        let file = |name: &str| self.directory.join(name).display().to_string();
        let (certificate, key) = (file(tls::CERTIFICATE), file(tls::KEY));
        let listen = if self.encrypted {
            format!("https://127.0.0.1:{}?cert={certificate}&key={key}", self.port)
        } else {
            format!("http://127.0.0.1:{}", self.port)
        };
        text.replace("{pass}", &self.pass)
            .replace("{listen}", &listen)
            .replace("{certificate}", &certificate)
            .replace("{key}", &key)
            .replace("{ssl}", if self.encrypted { "ssl" } else { "" })
            .replace("{port}", &self.port.to_string())
            .replace("{app}", &self.app.display().to_string())
            .replace("{dir}", &self.directory.display().to_string())
            .replace("{oribi}", &self.oribi.display().to_string())
            .replace("{http2}", if self.http2 { "http2" } else { "" })
    }
}

fn known_cell(setup: &str, cell: &str) -> Result<String, String> {
    if cell::is_known(cell) { Ok(cell.to_owned()) } else { Err(format!("{setup}: unknown cell {cell}")) }
}

/// Splits a command line at spaces; single quotes keep a word together, as in a shell. Nothing else is special.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let (mut word, mut started, mut quoted) = (String::new(), false, false);
    for character in text.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                started = true;
            }
            ' ' if !quoted => {
                if started {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            other => {
                word.push(other);
                started = true;
            }
        }
    }
    if quoted {
        return Err(format!("a quote is not closed: {text}"));
    }
    if started {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\ntitle = A\nversion = a -v\ncommand = a 'b c' {port}\nskip = short\n\
        cannot.stream = why not\nextra.upload-1m = -u\napps = psgi\n";

    #[test]
    fn a_file_says_what_takes_part() {
        let setup = Setup::parse("a", TEXT).expect("a good file");
        assert_eq!(setup.part("keep-alive-64"), Participation::Takes);
        assert_eq!(setup.part("short"), Participation::Skips);
        assert_eq!(setup.part("stream"), Participation::Cannot("why not"));
        assert_eq!(setup.part("rails"), Participation::Skips);
        let places =
            Places { port: 7, app: "/app".into(), directory: "/directory".into(), oribi: "/oribi".into(), ..Places::default() };
        assert_eq!(setup.command("short", &places).expect("closed quotes"), ["a", "b c", "7"]);
        assert_eq!(setup.command("upload-1m", &places).expect("closed quotes"), ["a", "b c", "7", "-u"]);
        let only = Setup::parse("a", &format!("{TEXT}only = body-64k\n")).expect("a good file");
        assert_eq!(only.part("keep-alive-64"), Participation::Skips);
        assert_eq!(only.part("body-64k"), Participation::Takes);
        assert_eq!(setup.part("http2-1x100"), Participation::Skips);
        let http2 = Setup::parse("a", &format!("{TEXT}http2 = yes\n")).expect("a good file");
        assert_eq!(http2.part("http2-1x100"), Participation::Takes);
        let encrypted = Places { http2: true, encrypted: true, pass: "to {dir}".to_owned(), ..places.clone() };
        assert_eq!(encrypted.fill("listen {port} {http2} {ssl}; {pass}"), "listen 7 http2 ssl; to /directory");
        assert_eq!(places.fill("{listen}"), "http://127.0.0.1:7");
        assert_eq!(encrypted.fill("{listen}"), "https://127.0.0.1:7?cert=/directory/site.crt&key=/directory/site.key");
        assert_eq!(http2.part("tls-64"), Participation::Skips);
        let tls = Setup::parse("a", &format!("{TEXT}tls = yes\n")).expect("a good file");
        assert_eq!((tls.part("tls-64"), tls.part("tls-http2-64x10")), (Participation::Takes, Participation::Skips));
    }

    #[test]
    fn a_mistake_is_an_error() {
        for wrong in [
            "colour = red",
            "skip = no-such-cell",
            "cannot.nothing = x",
            "serves = two",
            "lockstep = 2",
            "http2 = no",
            "tls = 1",
            "apps = psgi",
            "title = B",
            "words",
        ] {
            assert!(Setup::parse("a", &format!("{TEXT}{wrong}\n")).is_err(), "{wrong}");
        }
        assert!(Setup::parse("a", "title = A\n").is_err());
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("a 'b c'  d").expect("closed"), ["a", "b c", "d"]);
        assert_eq!(words("a ''").expect("closed"), ["a", ""]);
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn every_set_up_of_the_checkout_is_understood() {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (setups, apps) = (Setup::read_all(&bench.join("servers")).expect("good files"), bench.join("apps"));
        assert!(setups[0].is_yardstick());
        assert!(setups[1].is_oribi());
        let places =
            Places { port: 1, app: "/app".into(), directory: "/directory".into(), oribi: "/oribi".into(), ..Places::default() };
        for setup in setups {
            let command = setup.command("stream", &places).expect("closed quotes").join(" ");
            assert!(!command.contains('{'), "{command}");
            let template =
                setup.template.as_ref().map(|name| std::fs::read_to_string(bench.join("servers").join(name)).expect("a file"));
            let names_app = [&setup.command, template.as_deref().unwrap_or_default()].iter().any(|text| text.contains("{app}"));
            assert_eq!(setup.apps.is_some(), names_app, "{}: an app and its language", setup.name);
            for cell in cell::ALL.iter().filter(|cell| setup.apps.is_some() && setup.part(cell.name) == Participation::Takes) {
                let app = format!("{}.{}", cell.answer.app(), setup.apps.as_deref().unwrap_or_default());
                assert!(apps.join(&app).is_file(), "{}: no {app}", setup.name);
            }
        }
    }
}
