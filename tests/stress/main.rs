//! A stress test: clients of every kind, in clear text and over TLS, send requests to four workers, which are meanwhile
//! replaced, added, removed, recycled and killed. Every request must get the expected answer, in order, and no client may wait
//! longer than [`client::LONGEST_WAIT`].
//!
//! Each run has two halves: first with many clients, then with a single client. The second half shows whether every worker may
//! leave a connection to the other workers: there is no further client then that would wake them.

mod client;
mod fastcgi;
mod findings;
mod kinds;
mod streams;
mod trouble;

use client::Peer;
use findings::Findings;
use kinds::Kind;
use oribi_io::Model;
use oribi_test_support::{http2, http2_streams, server, wire};
use rustix::process::Signal;
use server::{Folder, Server};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use trouble::Trouble;

/// The duration of each half of a run. Six runs of two halves take half a minute in all.
const HALF: Duration = Duration::from_secs(2);

/// The size of a file that is larger than the buffers of a socket, and of a file that is smaller.
const LARGE_FILE: usize = 2 << 20;
const SMALL_FILE: usize = 3000;

/// The kind of app that answers the requests.
#[derive(Clone, Copy, PartialEq)]
enum App {
    Native,
    Psgi,
}

impl App {
    /// Returns the content of the app's answer to a request.
    fn answer(self, method: &str, path: &str, length: usize) -> Vec<u8> {
        match self {
            Self::Native => b"hello".to_vec(),
            Self::Psgi => format!("{method} {path} {length}\n").into_bytes(),
        }
    }

    /// Returns the text of the log message after a HUP has replaced all workers.
    fn replaced(self) -> &'static str {
        match self {
            Self::Native => "all workers have been replaced",
            Self::Psgi => "has taken over",
        }
    }
}

#[test]
fn a_native_app_over_each_io_model() {
    Model::built_in().for_each(|model| run(model.name(), App::Native));
}

#[test]
fn a_psgi_app_over_each_io_model() {
    Model::built_in().for_each(|model| run(model.name(), App::Psgi));
}

/// A lock that is held during a run, because two runs at the same time would compete for the processors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn run(io: &str, app: App) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    std::fs::write(folder.file("large"), kinds::content_of_file(LARGE_FILE)).expect("the folder is writable");
    std::fs::write(folder.file("small"), kinds::content_of_file(SMALL_FILE)).expect("the folder is writable");

    let mut server = start(io, app, &folder);
    let addresses = server.addresses();
    let address = |scheme| addresses.iter().find_map(|address| address.strip_prefix(scheme)?.parse().ok());
    let peer = Peer {
        http: address("http://").expect("it listens for HTTP"),
        https: address("https://").expect("it listens for HTTP over TLS"),
        fastcgi: address("fcgi://").expect("it listens for FastCGI"),
        app,
    };

    let findings = Findings::default();
    let mut troubles = Vec::new();
    for clients in [Kind::CROWD, Kind::ALONE] {
        let end = Instant::now() + HALF;
        let mut trouble = Trouble::new(app);
        std::thread::scope(|scope| {
            for kind in clients {
                scope.spawn(|| kind.work(&peer, &findings, end));
            }
            while Instant::now() < end {
                trouble.make(&server, &findings, end);
            }
        });
        troubles.push(trouble);
    }

    let troubles_made: Vec<_> = troubles.iter().map(Trouble::summary).collect();
    println!("{io}: {}; {}", troubles_made.join("; then "), findings.summary());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{io}: the stop:\n{}", server.log());
    assert!(!server.log().contains("panicked"), "{io}:\n{}", server.log());
    assert_eq!(findings.failures(), [""; 0], "{io}: requests that were not answered as they should be");
    assert!(troubles.iter().all(Trouble::was_made), "{io}: too little happened to the workers to prove anything");
}

fn start(io: &str, app: App, folder: &Folder) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    match app {
        App::Native => command.args(["--native", "hello"]),
        App::Psgi => command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/stress/app.psgi")),
    };
    let encrypted = format!("https://127.0.0.1:0?cert={}", wire::certificate().display());
    command.args(["--listen", "127.0.0.1:0", "--listen", &encrypted, "--listen", "fcgi://127.0.0.1:0"]);
    command.args(["--io", io, "--workers", "4"]);
    command.args(["--max-requests", "100", "--min-requests", "50", "--err-respawn-interval", "10ms"]);
    command.arg("--static").arg(format!("/files={}", folder.0.display()));
    Server::run(&mut command)
}
