//! The rows: programs that are compared, how each is started, and the cells it has no part in.

use crate::cells::{Cell, Pattern, StudyQuestion, Transport};
use oribi_bench::machine;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The family of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Oribi, with one model or another.
    Own,
    /// A loop that parses nothing, which shows the physical limit.
    Floor,
    /// Another server.
    Peer,
}

impl Family {
    /// Its name in the raw results.
    pub fn name(self) -> &'static str {
        match self {
            Family::Own => "own",
            Family::Floor => "floor",
            Family::Peer => "peer",
        }
    }

    /// The family of that name.
    pub fn parse(name: &str) -> Option<Family> {
        [Family::Own, Family::Floor, Family::Peer].into_iter().find(|family| family.name() == name)
    }
}

/// A program that takes part.
pub struct Row {
    /// Its name for `--only` and in the raw results.
    pub name: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// Its family.
    pub family: Family,
    /// Whether the row takes part in the cells for several lanes; otherwise in the cells for one lane.
    network: bool,
    /// The command that starts the program in the foreground, with placeholders for [`Places`].
    command: &'static str,
    /// A command that prints the version, and succeeds if the program is installed and can do what the row needs.
    probe: &'static str,
    /// The remedy if the probe fails.
    remedy: &'static str,
    /// A template in `bench/study/servers` that is filled in and put into the server's directory.
    pub template: Option<&'static str>,
    /// The path of requests.
    pub path: &'static str,
    /// Returns the reason why the row takes no part in a cell; `None` if it takes part.
    leaves: fn(&Cell) -> Option<&'static str>,
}

const BUILD: &str = "run `bench/study/build --release`";
const NGINX: &str = "run `apt-get install nginx`";

/// The value of `{native}`: Oribi with a fixed answer, without a language, and with limits that no cell reaches.
const NATIVE: &str = "{oribi} --native-file {body} --listen {address} {limits}";
const LIMITS: &str = "--keepalive-timeout 600 --header-timeout 600 --max-connections 18000";

/// Oribi with one lane and an I/O model.
const fn io_model(name: &'static str, title: &'static str, command: &'static str, probe: &'static str) -> Row {
    let (family, network, remedy, template, path) = (Family::Own, false, BUILD, None, "/");
    Row { name, title, family, network, command, probe, remedy, template, path, leaves: every_cell }
}

/// Oribi with several lanes and a network model.
const fn network_model(name: &'static str, title: &'static str, command: &'static str, probe: &'static str) -> Row {
    Row { network: true, ..io_model(name, title, command, probe) }
}

/// A loop that parses nothing.
const fn bare(name: &'static str, title: &'static str, command: &'static str, probe: &'static str) -> Row {
    Row { family: Family::Floor, leaves: none_idle, ..io_model(name, title, command, probe) }
}

/// nginx with one worker.
const fn nginx(name: &'static str, title: &'static str, path: &'static str, leaves: fn(&Cell) -> Option<&'static str>) -> Row {
    let (family, remedy, template) = (Family::Peer, NGINX, Some("nginx.conf"));
    Row { family, remedy, template, path, leaves, ..io_model(name, title, "nginx -p {dir} -c {dir}/nginx.conf", "nginx -v") }
}

/// Every row, in the order of the tables. The first row of each part is the one that the others are compared with.
pub const ALL: &[Row] = &[
    io_model("epoll", "Oribi, epoll", "{native} --workers 1 --io epoll", "{oribi} check --native x --io epoll"),
    io_model("io-uring", "Oribi, io_uring", "{native} --workers 1 --io io_uring", "{oribi} check --native x --io io_uring"),
    io_model("libevent", "Oribi, libevent", "{native} --workers 1 --io libevent", "{oribi} check --native x --io libevent"),
    bare(
        "bare-epoll",
        "bare epoll loop",
        "{examples}/bare_loop {prefixed} --body {bytes} {pattern}",
        "test -x {examples}/bare_loop",
    ),
    bare(
        "bare-uring",
        "bare io_uring loop",
        "{examples}/bare_uring {prefixed} --body {bytes} {pattern}",
        "test -x {examples}/bare_uring",
    ),
    nginx("nginx-return", "nginx, return", "/", |cell| {
        (cell.body > 1024).then_some("no text in its configuration is longer than 4 KiB")
    }),
    Row {
        family: Family::Peer,
        ..io_model("evhttp", "libevent's evhttp", "{examples}/evhttp {prefixed} {body}", "{examples}/evhttp --version")
    },
    Row {
        path: "/body",
        leaves: files_where_they_tell,
        ..io_model(
            "files",
            "Oribi, file",
            "{oribi} serve {files} --listen {address} {limits} --workers 1 --io epoll",
            "{oribi} check serve /usr --io epoll",
        )
    },
    Row {
        path: "/body",
        leaves: files_where_they_tell,
        ..io_model(
            "files-uring",
            "Oribi, file, io_uring",
            "{oribi} serve {files} --listen {address} {limits} --workers 1 --io io_uring",
            "{oribi} check serve /usr --io io_uring",
        )
    },
    nginx("nginx-file", "nginx, file", "/body", files_where_they_tell),
    network_model(
        "shared",
        "processes, shared",
        "{native} --workers {lanes} --accept shared --io epoll",
        "{oribi} check --native x --workers 2 --accept shared",
    ),
    network_model(
        "own",
        "processes, own",
        "{native} --workers {lanes} --accept own --io epoll",
        "{oribi} check --native x --workers 2 --accept own",
    ),
    network_model(
        "shared-threads",
        "threads, shared",
        "{native} --workers 1 --threads {lanes} --accept shared --io epoll",
        "{oribi} check --native x --workers 1 --threads 2 --accept shared",
    ),
    network_model(
        "own-threads",
        "threads, own",
        "{native} --workers 1 --threads {lanes} --accept own --io epoll",
        "{oribi} check --native x --workers 1 --threads 2 --accept own",
    ),
];

fn every_cell(_: &Cell) -> Option<&'static str> {
    None
}

/// Leaves out cells with idle connections: a bare loop that closes connections does so after every answer.
fn none_idle(cell: &Cell) -> Option<&'static str> {
    let idle = cell.pattern == Pattern::Short && cell.active < cell.connections;
    idle.then_some("it closes after every answer, so that no connection can be idle")
}

/// Leaves out cells that would show the same, because the cost of opening a file does not depend on the number of connections.
fn files_where_they_tell(cell: &Cell) -> Option<&'static str> {
    (cell.body == 12 && cell.connections != 256).then_some("files of 12 bytes are compared with 256 connections")
}

impl Row {
    /// Its command line, with placeholders for [`Places`].
    pub fn command(&self) -> String {
        self.command.replace("{native}", NATIVE).replace("{limits}", LIMITS)
    }

    /// Whether it has a part in a cell.
    pub fn takes_part(&self, cell: &Cell) -> bool {
        self.belongs(cell) && (self.leaves)(cell).is_none()
    }

    /// Returns the reason why the row takes no part in a cell of its part of the study; `None` if it takes part, and for other
    /// cells.
    pub fn leaves(&self, cell: &Cell) -> Option<&'static str> {
        if self.belongs(cell) { (self.leaves)(cell) } else { None }
    }

    fn belongs(&self, cell: &Cell) -> bool {
        self.network == (cell.part != StudyQuestion::Io)
    }

    /// Returns the first line that the program prints about its version.
    ///
    /// # Errors
    /// The program is not installed or cannot do what the row needs; the error says what to do about it.
    pub fn version(&self, programs: &Programs) -> Result<String, String> {
        let words = words(&programs.fill(self.probe));
        let told = |why: &str| format!("{}: {why}: {}", self.title, self.remedy);
        let [program, rest @ ..] = &words[..] else { return Err(told("no probe")) };
        let output = Command::new(program).args(rest).output().map_err(|e| told(&format!("{program}: {e}")))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(told(text.lines().next().unwrap_or("its probe failed")));
        }
        Ok(if self.family != Family::Peer {
            machine::output(&programs.oribi.display().to_string(), &["--version"])
        } else {
            let text = [output.stdout, output.stderr].concat();
            String::from_utf8_lossy(&text)
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or("no version")
                .trim()
                .to_owned()
        })
    }
}

/// The directory of the programs of this repository.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `{oribi}`.
    pub oribi: PathBuf,
    /// `{examples}`: the directory of the loops.
    pub examples: PathBuf,
}

impl Programs {
    fn fill(&self, text: &str) -> String {
        text.replace("{oribi}", &self.oribi.display().to_string()).replace("{examples}", &self.examples.display().to_string())
    }
}

/// The values of the words in braces.
#[derive(Debug)]
pub struct Places<'a> {
    /// `{port}`, and with the host `{address}`: where to listen by TCP.
    pub port: u16,
    /// `{dir}`: a directory of the server. `{files}`, `{body}` and, if it is a Unix socket, `{address}` are in this directory.
    pub directory: &'a Path,
    /// Which of them.
    pub transport: Transport,
    /// The programs.
    pub programs: &'a Programs,
    /// `{text}`, if it is not too long.
    pub body: &'a str,
    /// `{lanes}`.
    pub lanes: usize,
    /// `{pattern}`: the option of a bare loop for it.
    pub pattern: Pattern,
}

impl Places<'_> {
    /// Host and port, or a path.
    pub fn address(&self) -> String {
        match self.transport {
            Transport::Tcp => format!("127.0.0.1:{}", self.port),
            Transport::Unix => self.directory.join("socket").display().to_string(),
        }
    }

    /// As [`Places::address`], with `unix:` before a path.
    pub fn prefixed(&self) -> String {
        let prefix = if self.transport == Transport::Unix { "unix:" } else { "" };
        prefix.to_owned() + &self.address()
    }

    /// Replaces all words in braces.
    pub fn fill(&self, text: &str) -> String {
        let directory = self.directory.display().to_string();
        let short = if self.body.len() <= 1024 { self.body } else { "" };
        self.programs
            .fill(text)
            .replace("{address}", &self.address())
            .replace("{prefixed}", &self.prefixed())
            .replace("{port}", &self.port.to_string())
            .replace("{files}", "{dir}/files")
            .replace("{body}", "{dir}/files/body")
            .replace("{dir}", &directory)
            .replace("{bytes}", &self.body.len().to_string())
            .replace("{lanes}", &self.lanes.to_string())
            .replace(
                "{pattern}",
                match self.pattern {
                    Pattern::Short => "--close",
                    Pattern::Pipelined => "--pipelined",
                    Pattern::KeepAlive | Pattern::SlowReaders | Pattern::SlowSenders => "",
                },
            )
            .replace("{text}", short)
    }

    /// The words of a command line.
    pub fn command(&self, row: &Row) -> Vec<String> {
        words(&row.command()).iter().map(|word| self.fill(word)).filter(|word| !word.is_empty()).collect()
    }
}

/// No word here has a space in it.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fit_into_the_raw_results() {
        let names: BTreeSet<&str> = ALL.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')));
    }

    #[test]
    fn everything_in_braces_is_filled_in() {
        let programs = Programs { oribi: "/oribi".into(), examples: "/examples".into() };
        for transport in [Transport::Tcp, Transport::Unix] {
            let places = Places {
                port: 7,
                directory: Path::new("/d"),
                transport,
                programs: &programs,
                body: "abc",
                lanes: 2,
                pattern: Pattern::Short,
            };
            for row in ALL {
                let words = places.command(row).join(" ");
                assert!(!words.contains('{'), "{words}");
                let template = row.template.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("servers").join(name));
                if let Some(path) = template {
                    let text = places.fill(&std::fs::read_to_string(path).expect("a template"));
                    assert!(text.contains("\"abc\"") && text.contains(&places.prefixed()), "{text}");
                }
            }
        }
    }

    #[test]
    fn every_cell_has_rows_to_compare() {
        for cell in cells::all().0 {
            let part: Vec<&str> = ALL.iter().filter(|row| row.takes_part(&cell)).map(|row| row.name).collect();
            assert!(part.len() >= 2, "{cell}: {part:?}");
        }
    }
}
