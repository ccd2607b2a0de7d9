//! `oribi top` in a terminal of its own: its screen, its keys, and the restored terminal.

use crate::client::get;
use crate::server::{Folder, Server, send, wait_for};
use crate::{native, tcp};
use oribi_test_support::terminal::{Terminal, resize};
use rustix::process::Signal;
use rustix::termios::tcgetattr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn served(path: &Path) -> Server {
    let mut server = native(&["--workers", "2", "--control", path.to_str().expect("a plain path")]);
    server.wait_for_log("listening on");
    server
}

fn command(path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.args(["top", "--interval", "0.2", "--control"]).arg(path).env_remove("NO_COLOR");
    command
}

fn controlled() -> (Server, PathBuf, Folder) {
    let folder = Folder::new();
    let path = folder.file("control.sock");
    (served(&path), path, folder)
}

#[test]
fn keys_are_obeyed_and_the_terminal_is_given_back() {
    let (mut server, path, _folder) = controlled();
    assert!(get(&tcp(&mut server)).expect("it serves").text.ends_with("hello"));
    let mut terminal = Terminal::run(&mut command(&path));
    terminal.wait_for("PROCESS");
    terminal.wait_for("worker 2");
    terminal.wait_for("\u{1b}[38;5;2mready");
    assert_ne!(
        tcgetattr(&terminal.side).expect("it is a terminal").local_modes,
        terminal.before.local_modes,
        "keys come at once"
    );
    terminal.press("?", "this help");
    terminal.press("q", "worker 2");
    terminal.press("/nothing like it\r", "no process");
    terminal.press("\u{1b}", "worker 2");
    terminal.press("p", "paused");
    terminal.press("p", "q quit");
    terminal.press("s", "PID^");
    terminal.press("\u{1b}[F", "b backtrace");
    terminal.press("b", ": its language has no backtraces");
    terminal.press("\u{1b}", "PROCESS");
    terminal.press("\u{1b}", "Tab tables");
    terminal.press("-", "every 0.1 s");
    terminal.forget();
    resize(&terminal.side, 40, 10);
    send(terminal.program.id(), Signal::WINCH);
    // The line of keys is cut and is the tenth line.
    terminal.wait_for("\u{1b}[10;1H");
    terminal.wait_for("q quit  ? help  Tab tables  s sort  r re\u{1b}[0m");
    terminal.keyboard.write_all(b"q").expect("somebody reads");
    assert_eq!(terminal.end(), 0);
}

/// The server's report on the worker `number`: its process, and its number of threads.
fn worker(path: &Path, number: &str) -> Option<u32> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_oribi")).args(["ctl", "backtrace", number, "--json", "--control"]).arg(path).output();
    let answer: serde_json::Value = serde_json::from_slice(&output.expect("it was built").stdout).ok()?;
    answer["workers"][0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
}

#[test]
fn a_backtrace_says_when_its_process_has_ended_and_when_the_server_has() {
    let (mut server, path, _folder) = controlled();
    let pid = wait_for("the second worker", || worker(&path, "2"));
    let mut terminal = Terminal::run(&mut command(&path));
    terminal.wait_for(&format!(" {pid} "));
    terminal.press(&format!("/{pid}\r\u{1b}[B\r"), &format!("worker 2, pid {pid}, "));
    send(pid, Signal::KILL);
    terminal.wait_for(&format!("No backtrace: there is no worker {pid}; the last one follows"));
    terminal.press("p", "paused");
    server.signal(Signal::TERM);
    server.wait();
    // A picture that is paused changes when a key asks.
    terminal.press("b", "No backtrace: /");
    terminal.press("\u{1b}p", "No answer: these are the last numbers.");
    terminal.keyboard.write_all(b"q").expect("somebody reads");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn signals_and_control_c_give_the_terminal_back_and_no_colour_is_obeyed() {
    let (_server, path, _folder) = controlled();
    for (signal, status) in [(None, 0), (Some(Signal::TERM), 143), (Some(Signal::INT), 130), (Some(Signal::HUP), 129)] {
        let mut terminal = Terminal::run(command(&path).env("NO_COLOR", "1"));
        terminal.wait_for("worker 2");
        terminal.wait_for("q quit");
        match signal {
            Some(signal) => send(terminal.program.id(), signal),
            None => terminal.keyboard.write_all(b"\x03").expect("somebody reads"),
        }
        assert_eq!(terminal.end(), status);
        assert!(!terminal.text().contains("38;5;"), "{:?}", terminal.tail());
    }
}

#[test]
fn a_server_is_followed_through_its_upgrade_and_its_end() {
    let (mut server, path, _folder) = controlled();
    let mut terminal = Terminal::run(&mut command(&path));
    terminal.wait_for(&format!("pid {} ", server.pid()));
    let upgraded = Command::new(env!("CARGO_BIN_EXE_oribi")).args(["ctl", "upgrade", "--control"]).arg(&path).status();
    assert!(upgraded.expect("it was built").success());
    let next = wait_for("the next program", || {
        let output = Command::new(env!("CARGO_BIN_EXE_oribi")).args(["ctl", "status", "--control"]).arg(&path).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (_, rest) = text.split_once("pid ")?;
        rest.split(',').next()?.parse::<u32>().ok().filter(|pid| *pid != server.pid())
    });
    terminal.wait_for(&format!("pid {next} "));
    server.signal(Signal::TERM);
    server.wait();
    terminal.wait_for("No answer: these are the last numbers.");
    terminal.forget();
    let server = served(&path);
    terminal.wait_for(&format!("pid {} ", server.pid()));
    terminal.keyboard.write_all(b"q").expect("somebody reads");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn without_a_terminal_one_picture_is_printed_or_it_is_said_how() {
    let (server, path, folder) = controlled();
    let output = command(&path).output().expect("it was built");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`oribi top --once` prints the numbers once"), "{output:?}");
    for flag in ["--once", "--batch"] {
        let output = command(&path).arg(flag).output().expect("it was built");
        let text = String::from_utf8(output.stdout).expect("it is text");
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.starts_with("oribi ") && text.contains(&format!(" pid {} ", server.pid())), "{text}");
        assert!(text.contains("\nworker 2 ") && text.contains("\nPROCESS^ ") && text.contains("REQ/S"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("quit"), "{text}");
    }
    let output = command(&folder.file("nobody.sock")).arg("--once").output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot reach the server"), "{output:?}");
}
