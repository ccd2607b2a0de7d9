//! Servers with the app of each language, and the folder that they share with their tests.

use crate::client::{Target, get_from};
use crate::server::{Folder, Server, children, title, wait_for, wait_until};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Perl,
    Ruby,
    Lua,
}

impl Language {
    fn app(self) -> PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/adversity/apps")).join(self.file())
    }

    /// The usual name of an app.
    pub fn file(self) -> &'static str {
        match self {
            Self::Perl => "app.psgi",
            Self::Ruby => "config.ru",
            Self::Lua => "app.lua",
        }
    }

    /// Whether a separate process, the mold, loads the app for all workers.
    pub fn has_mold(self) -> bool {
        self != Self::Lua
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    On,
    Off,
}

/// The built program.
pub fn program() -> PathBuf {
    // Another build than this one, such as target/release/oribi.
    std::env::var_os("ORIBI").unwrap_or_else(|| env!("CARGO_BIN_EXE_oribi").into()).into()
}

/// A server that is to be started.
pub struct Plan {
    pub language: Language,
    pub folder: Folder,
    pub command: Command,
}

impl Plan {
    /// `oribi` with the app of this language, two workers and a free port.
    pub fn new(language: Language, edge: Edge, arguments: &[&str]) -> Self {
        Self::below(Command::new(program()), language, edge, arguments)
    }

    /// The same below `command`, which executes its arguments.
    pub fn below(command: Command, language: Language, edge: Edge, arguments: &[&str]) -> Self {
        Self::of_app(command, language, Folder::new(), &language.app(), edge, arguments)
    }

    /// The same for another app.
    pub fn of_app(
        mut command: Command,
        language: Language,
        folder: Folder,
        app: &Path,
        edge: Edge,
        arguments: &[&str],
    ) -> Self {
        command.arg(app).env("ORIBI_TEST_FOLDER", &folder.0).env("ORIBI_CONTROL", "off");
        command.args(["--edge", if edge == Edge::On { "on" } else { "off" }, "--respawn-interval", "100ms", "--workers", "2"]);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(arguments);
        Self { language, folder, command }
    }

    /// Starts the server without waiting for an answer. The folder belongs to the app.
    pub fn run(self) -> (Folder, Server) {
        let Self { folder, mut command, .. } = self;
        (folder, Server::run(&mut command))
    }

    /// Starts the server, and waits until it answers.
    pub fn start(self) -> Site {
        self.start_with(|server| {
            assert!(server.exit_status().is_none(), "it has ended: {}", server.log());
            server.log()
        })
    }

    /// The same, for a server whose log `log` returns.
    pub fn start_with(self, log: impl FnMut(&mut Server) -> String) -> Site {
        let site = self.announced(log);
        wait_until("the first answer", || site.get("/fast?0").is_some_and(|content| content == "fast 0\n"));
        site
    }

    /// The same, for an app that must answer `target`.
    pub fn start_and_look(self, target: &str) -> Site {
        let site = self.announced(|server| {
            assert!(server.exit_status().is_none(), "it has ended: {}", server.log());
            server.log()
        });
        wait_until("the first answer", || site.get(target).is_some());
        site
    }

    fn announced(self, mut log: impl FnMut(&mut Server) -> String) -> Site {
        let Self { language, folder, mut command } = self;
        let mut server = Server::run(&mut command);
        let address = wait_for("its address", || {
            let text = log(&mut server);
            text.split_once("listening on http://")?.1.split_once(' ')?.0.parse().ok()
        });
        Site { server, address, language, folder }
    }
}

pub struct Site {
    pub server: Server,
    pub address: SocketAddr,
    pub language: Language,
    pub folder: Folder,
}

impl Site {
    pub fn start(language: Language, edge: Edge, arguments: &[&str]) -> Self {
        Plan::new(language, edge, arguments).start()
    }

    pub fn target(&self) -> Target {
        Target::Tcp(self.address)
    }

    /// The content of an answer with status 200, on a new connection.
    pub fn get(&self, target: &str) -> Option<String> {
        let text = get_from(&self.target(), target).ok()?.text;
        text.starts_with("HTTP/1.1 200").then(|| text.split_once("\r\n\r\n").map(|(_, content)| content.to_owned()))?
    }

    /// Sets how the app behaves while it is loaded from now on: see `app.psgi`. `None` lets it load without trouble.
    pub fn set_load(&self, word: Option<&str>) {
        let file = self.folder.file("load");
        match word {
            Some(word) => std::fs::write(file, word).expect("the folder is writable"),
            None => std::fs::remove_file(file).expect("it is there"),
        }
    }

    /// Returns how often the log contains any of these texts.
    pub fn count(&self, texts: &[&str]) -> usize {
        let log = self.server.log();
        texts.iter().map(|text| log.matches(text).count()).sum()
    }

    /// The number of reloads that have succeeded.
    pub fn taken_over(&self) -> usize {
        self.count(&["has taken over", "all workers have been replaced"])
    }

    /// The number of reloads that have failed.
    pub fn failures(&self) -> usize {
        self.count(&["the app could not be reloaded", "the current workers stay"])
    }

    /// Returns the ids of all processes of the server but the first.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = children(self.server.pid());
        let mut next = 0;
        while next < found.len() {
            found.extend(children(found[next]));
            next += 1;
        }
        found
    }

    /// Returns the ids of the server's processes whose titles begin with `beginning`.
    pub fn titled(&self, beginning: &str) -> BTreeSet<u32> {
        let beginning = format!("oribi: {beginning}");
        self.processes().into_iter().filter(|process| title(*process).starts_with(&beginning)).collect()
    }

    /// Waits until the server has two workers that are not among `before`, and no other processes than after its start.
    pub fn wait_for_others(&self, before: &BTreeSet<u32>) {
        wait_for("two new workers, and nobody else", || {
            let (workers, all) = (self.titled("worker"), self.processes());
            let steady = workers.len() == 2 && workers.is_disjoint(before);
            let others = usize::from(self.language.has_mold()) + self.titled("edge").len();
            (steady && all.len() == workers.len() + others).then_some(())
        });
    }

    /// Reloads the app, and waits until that has succeeded.
    pub fn reload(&self) {
        let before = self.taken_over();
        self.server.signal(Signal::HUP);
        wait_until("the reload", || self.taken_over() > before);
    }

    /// Stops the server, and checks that it ends with status 0.
    pub fn stop(mut self) {
        self.server.signal(Signal::TERM);
        assert_eq!(self.server.wait(), 0, "{}", self.server.log());
    }
}
