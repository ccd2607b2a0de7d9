//! A directory with Lua scripts, in which `oribi` is run as users run it.

use oribi_test_support::outcome::Outcome;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time after which a test gives up, far longer than needed on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A directory for one test, removed when the value is dropped.
pub struct TestDirectory(pub PathBuf);

impl TestDirectory {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("oribi-lua-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        fs::create_dir_all(&place).expect("a directory");
        Self(place)
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&self.0);
        // With `off`, no server of the tests has an edge.
        command.envs(std::env::var_os("ORIBI_EDGE").map(|choice| ("ORIBI_EDGE", choice)));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_as(env!("CARGO_BIN_EXE_oribi"), arguments)
    }

    pub fn run_as(&self, program: &str, arguments: &[&str]) -> Outcome {
        let start = Instant::now();
        let output = loop {
            match self.command(program).args(arguments).output() {
                // While another test forks, its child still has a copy of the program open for writing.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                output => break output.expect("it runs"),
            }
        };
        Outcome::of(output)
    }

    pub fn serve(&self, arguments: &[&str]) -> Server {
        self.serve_as(self.command(env!("CARGO_BIN_EXE_oribi")), arguments)
    }

    /// The same with a command that has its own environment.
    pub fn serve_as(&self, mut command: Command, arguments: &[&str]) -> Server {
        command.args(arguments).args(["--listen", "x.sock", "--workers", "1", "--error-log", "log"]);
        Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("oribi runs"))
    }

    /// The server's answer to a GET for `target`.
    pub fn get(&self, target: &str) -> String {
        let mut text = String::new();
        self.ask(target).read_to_string(&mut text).expect("an answer");
        text
    }

    /// A connection with a GET for `target`, the last one on it.
    pub fn ask(&self, target: &str) -> UnixStream {
        let mut connection = self.connect();
        connection.write_all(request(target, "close").as_bytes()).expect("sent");
        connection
    }

    pub fn connect(&self) -> UnixStream {
        let start = Instant::now();
        loop {
            match UnixStream::connect(self.0.join("x.sock")) {
                Ok(connection) => return connection,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}: {}", self.log()),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.0.join("log")).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_for_log(&self, part: &str) {
        let start = Instant::now();
        while !self.log().contains(part) {
            assert!(start.elapsed() < PATIENCE, "{part:?} does not come into the log: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn request(target: &str, connection: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n")
}

/// A server, killed when the value is dropped.
pub struct Server(pub Child);

impl Server {
    pub fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The descendant of `process` that has no children, which is its worker.
pub fn leaf(process: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().next().and_then(|child| child.parse().ok()).map_or(process, leaf)
}
