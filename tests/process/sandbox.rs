//! Tests of `--edge-sandbox`: an edge in the sandbox can do everything that edges do, and nothing else.
//! crates/io/tests/sandbox.rs tests what the sandbox forbids.

use crate::client::{Load, Manner, Target, get_from};
use crate::server::{Folder, Server, runs, send, wait_for, wait_until};
use crate::{native, tcp};
use oribi_io::Model;
use rustix::process::Signal;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Returns two values of /proc/PID/status: whether no_new_privs is set, and the mode of the filter for system calls.
fn confinement(process: u32) -> [String; 2] {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    ["NoNewPrivs:", "Seccomp:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says so");
        line.trim().to_owned()
    })
}

const CONFINED: [&str; 2] = ["1", "2"];

fn edge_of(server: &Server) -> u32 {
    wait_for("an edge", || server.edges().first().copied())
}

/// Sends a request with so much content that it must be stored in a file. Returns the status of the response.
fn upload(target: &Target) -> String {
    let Target::Tcp(address) = target else { panic!("it listens on TCP") };
    let size = 2 << 20;
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("PUT /content HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is ours");
    stream.write_all(head.as_bytes()).expect("it is connected");
    // A server that has refused the content does not read it.
    let _ = stream.write_all(&vec![7; size]);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// A place with files to serve, a directory for content, and logs.
struct Fixture {
    folder: Folder,
    options: Vec<String>,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        for directory in ["site", "site/docs", "spool"] {
            std::fs::create_dir(folder.file(directory)).expect("the folder is new");
        }
        for (name, content) in
            [("secret", "secret"), ("site/page", "a page"), ("site/docs/index.html", "an index"), ("site/page.gz", "gz")]
        {
            std::fs::write(folder.file(name), content).expect("the folder is writable");
        }
        std::os::unix::fs::symlink("../secret", folder.file("site/out")).expect("the folder is writable");
        let file = |name: &str| folder.file(name).display().to_string();
        let options = [
            ("--static", format!("/files={}", file("site"))),
            ("--temporary-directory", file("spool")),
            ("--access-log", file("access")),
            ("--error-log", file("errors")),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        Self { folder, options }
    }

    fn serve(&self, arguments: &[&str]) -> Server {
        let options = self.options.iter().map(String::as_str);
        native(&options.chain(arguments.iter().copied()).collect::<Vec<_>>())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.file(name)).unwrap_or_default()
    }

    /// Returns the address of the server, which is in the error log.
    fn address(&self) -> Target {
        let address = wait_for("the address", || {
            let log = self.read("errors");
            let rest = log.split("listening on http://").nth(1)?;
            rest.split(' ').next()?.parse().ok()
        });
        Target::Tcp(address)
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.folder.file(from), self.folder.file(to)).expect("it is there");
    }
}

/// Checks everything that an edge does with files and content.
fn serves_everything(target: &Target) {
    for (path, content) in [
        ("/", "hello"),
        ("/files/page", "a page"),
        ("/files/docs/", "an index"),
        // The file does not exist, so the app gets the request.
        ("/files/none", "hello"),
        ("/files/out", "hello"),
        ("/files/../secret", "hello"),
    ] {
        let response = get_from(target, path).expect("it answers");
        assert!(response.text.ends_with(&format!("\r\n\r\n{content}")), "{path}: {}", response.text);
    }
    assert_eq!(upload(target), "200");
}

fn an_edge_does_all_that_edges_do(io: &str) {
    let place = Fixture::new();
    let sandbox = ["--edge", "on", "--edge-sandbox", "on", "--index", "index.html", "--io", io, "--workers", "2"];
    let mut server = place.serve(&sandbox);
    let target = place.address();
    serves_everything(&target);
    let edge = edge_of(&server);
    assert_eq!(confinement(edge), CONFINED);
    for worker in server.wait_for_workers(2) {
        assert_eq!(confinement(worker)[1], confinement(std::process::id())[1], "nobody has asked for a sandbox of workers");
    }
    assert!(place.read("errors").contains("edges run in a sandbox: Landlock"), "{}", place.read("errors"));

    // A reload, while clients load it.
    let load = Load::start(&target, 8, Manner::KeepAlive);
    load.wait_for_more(100);
    let before = server.wait_for_workers(2);
    server.signal(Signal::HUP);
    wait_until("other workers", || {
        let now = server.workers();
        now.len() == 2 && !now.iter().any(|worker| before.contains(worker))
    });
    load.wait_for_more(100);
    assert_eq!(load.stop(), Vec::<String>::new());

    // Log files that were moved away, by a process that may not open any.
    for log in ["access", "errors"] {
        place.rename(log, &format!("{log}.old"));
    }
    server.signal(Signal::USR1);
    wait_until("the new log", || place.read("errors").contains("opened again"));
    wait_until("a line in the new log", || {
        get_from(&target, "/new").expect("it answers");
        place.read("access").contains("GET /new ")
    });

    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", place.read("errors"));
    let errors = [place.read("errors.old"), place.read("errors")].concat();
    assert!(!errors.contains("cannot") && !errors.contains("Operation not permitted"), "{errors}");
}

#[test]
fn an_edge_does_all_that_edges_do_over_each_io_model() {
    std::thread::scope(|scope| {
        for model in Model::built_in() {
            // A failure shows the name of its thread.
            let thread = std::thread::Builder::new().name(model.name().to_owned());
            thread.spawn_scoped(scope, move || an_edge_does_all_that_edges_do(model.name())).expect("a thread");
        }
    });
}

#[test]
fn the_next_edge_is_in_the_same_sandbox() {
    let place = Fixture::new();
    let server = place.serve(&["--edge", "on", "--edge-sandbox", "on", "--index", "index.html", "--io", "epoll"]);
    let target = place.address();
    let edge = edge_of(&server);
    send(edge, Signal::KILL);
    wait_until("its end", || !runs(edge));
    wait_until("another edge", || get_from(&target, "/").is_ok());
    serves_everything(&target);
    assert_eq!(confinement(edge_of(&server)), CONFINED);
}

#[test]
fn an_edge_opens_nothing_but_what_was_there_when_it_began() {
    // Where another directory has the same path, only the name is the same.
    for (sandbox, status) in [("on", "507"), ("off", "200")] {
        let place = Fixture::new();
        let _server = place.serve(&["--edge", "on", "--edge-sandbox", sandbox]);
        let target = place.address();
        assert_eq!(upload(&target), "200");
        place.rename("spool", "moved");
        std::fs::create_dir(place.folder.file("spool")).expect("the name is free");
        assert_eq!(upload(&target), status, "--edge-sandbox {sandbox}");
        assert!(get_from(&target, "/").expect("it answers").text.ends_with("hello"));
        let errors = place.read("errors");
        assert_eq!(errors.contains("Permission denied"), sandbox == "on", "{errors}");
    }
}

/// Runs `act` in a thread in which Landlock is missing, as on a kernel without it. Landlock is also missing in processes that
/// `act` starts.
fn without_landlock(act: impl FnOnce() + Send) {
    let calls = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH).expect("it is known");
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, missing, architecture).expect("it is a filter");
    let filter = BpfProgram::try_from(filter).expect("it is short");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(&filter).expect("the kernel filters calls");
            act();
        });
        thread.join().expect("it has succeeded");
    });
}

#[test]
fn a_kernel_without_landlock_stops_the_start_or_is_told() {
    without_landlock(|| {
        let mut refused = native(&["--edge", "on", "--edge-sandbox", "on"]);
        assert_eq!(refused.wait(), 1);
        let log = refused.log();
        assert!(
            log.contains("--edge-sandbox on: no Landlock (Function not implemented (os error 38)), which needs Linux 5.13"),
            "{log}"
        );

        let mut tried = native(&["--edge", "on", "--edge-sandbox", "try"]);
        let target = tcp(&mut tried);
        assert!(get_from(&target, "/").expect("it answers").text.ends_with("hello"));
        assert_eq!(confinement(edge_of(&tried)), CONFINED);
        let said = "--edge-sandbox try: edges run with a filter of system calls; no Landlock";
        assert!(tried.log().contains(said), "{}", tried.log());

        let mut unasked = native(&["--edge", "on", "--edge-sandbox", "off"]);
        tcp(&mut unasked);
        assert!(!unasked.log().contains("sandbox"), "{}", unasked.log());
    });
}

#[test]
fn without_edges_there_is_no_sandbox() {
    without_landlock(|| {
        let mut server = native(&["--edge", "off", "--edge-sandbox", "on"]);
        assert!(get_from(&tcp(&mut server), "/").expect("it answers").text.ends_with("hello"));
        assert!(server.log().contains("there are no edges, so nothing is in a sandbox"), "{}", server.log());
    });
}

#[test]
fn the_check_says_what_edges_would_run_in() {
    let app = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/edge/apps/app.lua"));
    let plan = |sandbox: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_oribi"));
        let output = command.arg("check").arg(app).args(["--edge-sandbox", sandbox]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|line| line.starts_with("sandbox ")).map(str::to_owned)
    };
    let told = plan("on").expect("it is asked for");
    assert!(told.starts_with("sandbox    Landlock (version ") && told.ends_with("(--edge-sandbox on)"), "{told}");
    assert_eq!(plan("off"), None);
    without_landlock(|| {
        let told = plan("on").expect("it is asked for");
        assert!(told.starts_with("sandbox    impossible: no Landlock"), "{told}");
        let told = plan("try").expect("it is asked for");
        assert!(told.starts_with("sandbox    a filter of system calls (--edge-sandbox try: no Landlock"), "{told}");
    });
}
