//! The app of each language, and servers that run it.

use crate::built;
use crate::connection::Connection;
use crate::server::{Folder, Server, descendants, title, wait_for, wait_until};
use crate::wire;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Perl,
    Ruby,
    Lua,
}

/// The files below /files/ of every server: the name, and the size in bytes.
pub const FILES: [(&str, usize); 2] = [("small", 3000), ("large", 2 << 20)];

/// Returns the content of a file of this size.
pub fn content_of_file(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

impl Language {
    pub fn app(self) -> PathBuf {
        let name = match self {
            Self::Perl => "app.psgi",
            Self::Ruby => "config.ru",
            Self::Lua => "app.lua",
        };
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/edge/apps")).join(name)
    }

    /// `oribi` with this app, an edge, files and a probe.
    pub fn start(self, arguments: &[&str]) -> Site {
        Site::start(Launcher::Oribi, self, arguments)
    }
}

/// The program that starts the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    Oribi,
    Plackup,
    Rackup,
    /// `oribi` below start_server, which opens the socket.
    StartServer,
}

impl Launcher {
    /// The command that runs `app` with options in the form of flags.
    fn command(self, app: &Path, options: &[String]) -> Command {
        let host = |path: &str| format!("{}/../../hosts/{path}", env!("CARGO_MANIFEST_DIR"));
        match self {
            Self::Oribi => {
                let mut command = Command::new(program());
                command.arg(app).args(options);
                command
            }
            Self::StartServer => {
                let mut command = Command::new("start_server");
                command.arg(format!("--port={}", free_address())).arg("--").arg(program()).arg(app).args(options);
                command
            }
            Self::Plackup => {
                let mut command = Command::new(std::env::var("PERL").unwrap_or_else(|_| "/usr/bin/perl".into()));
                command.args([&format!("-Mblib={}", host("perl")), "-S", "plackup", "-s", "Oribi", "-E", "deployment"]);
                command.args(options).arg(app);
                command
            }
            Self::Rackup => {
                let mut command = Command::new(std::env::var("RUBY").unwrap_or_else(|_| "/usr/bin/ruby".into()));
                command.args([&format!("-I{}", host("ruby/lib")), "-S", "rackup", "-s", "oribi", "-E", "production"]);
                let mut options = options.iter().peekable();
                while let Some(name) = options.next() {
                    let value = options.next_if(|value| !value.starts_with("--")).map_or("1", String::as_str);
                    command.args(["-O", &format!("{}={value}", name.trim_start_matches('-').replace('-', "_"))]);
                }
                command.arg(app);
                command
            }
        }
    }
}

/// `oribi` as cargo has built it for the tests, or the build that `ORIBI` names.
pub fn program() -> OsString {
    std::env::var_os("ORIBI").unwrap_or_else(|| built().join("oribi").into())
}

/// An address without a listener.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("it listens")
}

/// Returns the value of `--edge`: `on`, or that of ORIBI_TEST_EDGE, by which one can see that tests fail without an edge.
pub fn edge() -> String {
    std::env::var("ORIBI_TEST_EDGE").unwrap_or_else(|_| "on".into())
}

/// A server and the folders that it shares with its test.
pub struct Site {
    pub server: Server,
    pub address: SocketAddr,
    folder: Folder,
}

impl Site {
    /// Starts a server on a free port and waits until it answers.
    pub fn start(launcher: Launcher, language: Language, arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let (inside, files) = (folder.file("inside"), folder.file("files"));
        for path in [&inside, &files] {
            std::fs::create_dir(path).expect("the folder is new");
        }
        for (name, length) in FILES {
            std::fs::write(files.join(name), content_of_file(length)).expect("the folder is writable");
        }
        // Nothing is ever written to it, so that its reader keeps waiting.
        mknodat(CWD, inside.join(".fifo"), FileType::Fifo, Mode::RWXU, 0).expect("the folder is writable");
        let mut options = vec!["--static".to_owned(), format!("/files={}", files.display())];
        if !arguments.contains(&"--edge") {
            options.extend(["--edge".to_owned(), edge()]);
        }
        options.extend(["--sendfile-root".into(), files.display().to_string()]);
        options.extend(["--probe", "/healthz", "--respawn-interval", "100ms"].map(str::to_owned));
        if !arguments.contains(&"--listen") {
            options.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
        }
        options.extend(arguments.iter().map(|&argument| argument.to_owned()));
        if !arguments.iter().any(|argument| argument.contains("cert")) {
            options.extend(wire::options());
        }
        let mut command = launcher.command(&language.app(), &options);
        command.env("ORIBI_TEST_INSIDE", &inside).env("ORIBI_TEST_FILES", &files);
        let mut server = Server::run(&mut command);
        let addresses = server.addresses();
        let (protocol, address) = addresses[0].split_once("://").expect("it tells the protocol");
        let address = address.parse().expect("it listens on TCP");
        let site = Self { server, address, folder };
        if protocol == "http" || !wire::options().is_empty() {
            wait_until("the first answer", || site.serves());
        }
        site
    }

    fn serves(&self) -> bool {
        let mut connection = Connection::open(self.address);
        connection.ask("/fast?0");
        connection.response(false).is_ok_and(|response| response.status == 200)
    }

    /// Waits until an app is running request `number`, and returns the id of its process.
    pub fn wait_inside(&self, number: u64) -> u32 {
        wait_for("the app begins with the request", || self.inside(number))
    }

    /// Returns the id of the process whose app has begun with request `number`.
    pub fn inside(&self, number: u64) -> Option<u32> {
        std::fs::read_to_string(self.folder.file("inside").join(number.to_string())).ok()?.parse().ok()
    }

    /// Returns the path of a file in the folder of this site.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Sets how the apps answer boot requests from now on: `die`, `hang`, a status or, for Lua, `slow`. `None` lets them
    /// succeed.
    pub fn set_boot(&self, word: Option<&str>) {
        let file = self.folder.file("inside").join("boot");
        match word {
            Some(word) => std::fs::write(file, word).expect("the folder is writable"),
            None => std::fs::remove_file(file).expect("it is there"),
        }
    }

    /// Removes the note that an app has begun with request `number`.
    pub fn forget(&self, number: u64) {
        let _ = std::fs::remove_file(self.folder.file("inside").join(number.to_string()));
    }

    /// Lets one of the apps that wait in a read (`/read`) continue.
    pub fn release(&self) {
        let fifo = File::options().read(true).write(true).open(self.folder.file("inside").join(".fifo"));
        fifo.and_then(|mut fifo| fifo.write_all(b"\n")).expect("an app reads it");
    }

    /// Returns the ids of all processes of the server but the first.
    pub fn processes(&self) -> Vec<u32> {
        descendants(self.server.pid())
    }

    /// Returns the ids of the server's workers, including those that are finishing.
    pub fn workers(&self) -> Vec<u32> {
        self.processes().into_iter().filter(|process| title(*process).starts_with("oribi: worker")).collect()
    }

    /// Returns the ids of the server's edges, recognized by their process titles.
    pub fn edges(&self) -> Vec<u32> {
        let is_edge = |process: &u32| {
            let title = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&title).starts_with("oribi: edge")
        };
        self.processes().into_iter().filter(is_edge).collect()
    }
}
