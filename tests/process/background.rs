//! Tests of `oribi --daemonize`: the command returns when the server serves in the background, or when it has failed. If a
//! start with a log file fails, the terminal gets the message as well.

use crate::client::{Target, get};
use crate::server::{Folder, runs, send, wait_until};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The process id of a server that is not a child of the test.
struct InBackground(u32);

impl Drop for InBackground {
    fn drop(&mut self) {
        if runs(self.0) {
            send(self.0, Signal::KILL);
        }
    }
}

/// Starts a server in the background that has everything in `folder`.
fn start(folder: &Folder, content: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.args(["-D", "--listen", "app.sock", "--error-log", "error.log", "--pid-file", "server.pid", "--control", "off"]);
    command.args(content).current_dir(folder.file("")).output().expect("it was built")
}

#[test]
fn the_command_returns_when_the_server_serves() {
    let folder = Folder::new();
    let started = start(&folder, &["--native", "hello", "--workers", "1", "--edge", "on"]);
    assert_eq!(started.status.code(), Some(0), "{started:?}");
    assert!(started.stdout.is_empty() && started.stderr.is_empty(), "{started:?}");
    let response = get(&Target::Unix(folder.file("app.sock"))).expect("it serves already");
    assert!(response.text.ends_with("hello"), "{}", response.text);

    let id = fs::read_to_string(folder.file("server.pid")).expect("it is written");
    let server = InBackground(id.trim().parse().expect("a number"));
    let id = server.0;
    let of_process = |name: &str| fs::read_link(format!("/proc/{id}/{name}")).expect("it runs");
    assert_eq!(of_process("cwd"), fs::canonicalize(folder.file("")).expect("it is there"));
    assert_eq!((of_process("fd/0"), of_process("fd/1")), (Path::new("/dev/null").into(), Path::new("/dev/null").into()));
    assert_eq!(of_process("fd/2"), fs::canonicalize(folder.file("error.log")).expect("it is there"));

    let again = start(&folder, &["--native", "hello"]);
    assert_eq!(again.status.code(), Some(1), "the address is taken");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.starts_with("oribi: the server could not start; the reason is in "), "{said}");
    assert!(said.trim_end().ends_with("error.log"), "{said}");
    let log = fs::read_to_string(folder.file("error.log")).expect("it is written");
    assert!(log.contains("cannot listen on"), "{log}");

    send(id, Signal::TERM);
    wait_until("it ends", || !runs(id));
}

#[test]
fn an_app_that_cannot_be_loaded_fails_the_command() {
    let folder = Folder::new();
    fs::write(folder.file("app.psgi"), "").expect("the folder is ours");
    let started = start(&folder, &["app.psgi", "--perl", "/bin/false"]);
    assert_eq!(started.status.code(), Some(1), "{started:?}");
    assert!(String::from_utf8_lossy(&started.stderr).contains("could not start; the reason is in "), "{started:?}");
}

#[test]
fn a_failed_start_says_on_standard_error_that_the_log_has_the_reason() {
    let folder = Folder::new();
    fs::write(folder.file("app.psgi"), "").expect("the folder is ours");
    fs::write(folder.file("app.lua"), "error 'no database'").expect("the folder is ours");
    let contents: [(&[&str], &str); 3] = [
        (&["--native", "hello", "--listen", "absent/app.sock"], "absent/app.sock"),
        (&["app.psgi", "--perl", "/bin/false"], "before the app could serve"),
        (&["app.lua"], "no database"),
    ];
    for (content, reason) in contents {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        command.args(["--listen", "app.sock", "--error-log", "error.log", "--control", "off"]).args(content);
        let started = command.current_dir(folder.file("")).output().expect("it was built");
        let said = String::from_utf8_lossy(&started.stderr);
        assert_eq!(started.status.code(), Some(1), "{content:?}: {said}");
        assert!(said.starts_with("oribi: the server could not start; the reason is in "), "{content:?}: {said}");
        assert!(said.trim_end().ends_with("error.log") && said.lines().count() == 1, "{content:?}: {said}");
        let log = fs::read_to_string(folder.file("error.log")).expect("it is written");
        assert!(log.contains(reason), "{content:?}: {log}");
        fs::remove_file(folder.file("error.log")).expect("it is there");
    }
}

#[test]
fn the_first_line_of_the_log_is_about_the_app() {
    let folder = Folder::new();
    fs::write(folder.file("app.lua"), "return function() return 'hello' end").expect("the folder is ours");
    let started = start(&folder, &["app.lua", "--workers", "1"]);
    let log = fs::read_to_string(folder.file("error.log")).expect("it is written");
    let id = fs::read_to_string(folder.file("server.pid")).expect("it is written");
    let server = InBackground(id.trim().parse().expect("a number"));
    assert_eq!(started.status.code(), Some(0), "{log}");
    let first = log.lines().next().unwrap_or_default();
    assert!(first.contains("starting ") && first.contains("app.lua (Oribi "), "{log}");
    assert!(!log.contains("I/O by"), "{log}");
    drop(server);
}
