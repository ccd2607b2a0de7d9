//! `oribi top` in a terminal of its own: what it shows, what keys do, and that the terminal is given back.

use crate::client::get;
use crate::server::{Folder, Server, send, wait_for, wait_until};
use crate::{native, tcp};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A program in a pseudo-terminal, and all that it has written there.
struct Terminal {
    program: Child,
    /// Keys go in here.
    keyboard: File,
    /// The program's side: it is kept open, so that its modes can be read afterwards.
    side: File,
    before: Termios,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn run(command: &mut Command) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there are pseudo-terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("a plain name");
        let side = File::options().read(true).write(true).open(name).expect("it is unlocked");
        let before = tcgetattr(&side).expect("it is a terminal");
        resize(&side, 80, 24);
        let own = || Stdio::from(side.try_clone().expect("there are descriptors"));
        let program = command.stdin(own()).stdout(own()).stderr(own()).spawn().expect("it was built");
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, all) = (File::from(master.try_clone().expect("there are descriptors")), Arc::clone(&written));
        // It ends when the other side has been closed everywhere.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                all.lock().expect("no other has panicked").extend_from_slice(&buffer[..count]);
            }
        });
        Self { program, keyboard: File::from(master), side, before, written }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no other has panicked")).into_owned()
    }

    /// The last of it, for messages.
    fn tail(&self) -> String {
        let text = self.text();
        text.chars().skip(text.chars().count().saturating_sub(4000)).collect()
    }

    /// Forgets what has been written so far.
    fn forget(&self) {
        self.written.lock().expect("no other has panicked").clear();
    }

    fn wait_for(&mut self, text: &str) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !self.text().contains(text) {
            let ended = self.program.try_wait().expect("it is a child");
            assert!(ended.is_none() && std::time::Instant::now() < end, "{text:?} has not come: {:?}", self.tail());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Presses keys, and waits until this is on the screen because of them.
    fn press(&mut self, keys: &str, shown: &str) {
        self.forget();
        self.keyboard.write_all(keys.as_bytes()).expect("somebody reads");
        self.wait_for(shown);
    }

    /// Waits for the end, and gives the exit status. The terminal is as it was before.
    fn end(&mut self) -> i32 {
        let status = wait_for("the end of the program", || self.program.try_wait().expect("it is a child"));
        let modes = |termios: &Termios| (termios.input_modes, termios.output_modes, termios.control_modes, termios.local_modes);
        let after = tcgetattr(&self.side).expect("it is a terminal");
        assert_eq!(modes(&after), modes(&self.before));
        wait_until("the first screen, with its cursor", || {
            let text = self.text();
            let last = |sequence: &str| text.rfind(sequence);
            last("\u{1b}[?1049l") > last("\u{1b}[?1049h") && last("\u{1b}[?25h") > last("\u{1b}[?25l")
        });
        status.code().expect("no signal has ended it")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn resize(side: &File, width: u16, height: u16) {
    tcsetwinsize(side, Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 }).expect("it is a terminal");
}

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
    terminal.press("b", ": its language cannot tell where its app is");
    terminal.press("\u{1b}", "PROCESS");
    terminal.press("\u{1b}", "Tab tables");
    terminal.press("-", "every 0.1 s");
    terminal.forget();
    resize(&terminal.side, 40, 10);
    send(terminal.program.id(), Signal::WINCH);
    // The line of keys is cut and stands in the tenth line.
    terminal.wait_for("\u{1b}[10;1H");
    terminal.wait_for("q quit  ? help  Tab tables  s sort  r re\u{1b}[0m");
    terminal.keyboard.write_all(b"q").expect("somebody reads");
    assert_eq!(terminal.end(), 0);
}

/// What the server tells of the worker `number`: its process, and how many threads it has.
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
    terminal.wait_for(&format!("No backtrace: there is no worker {pid}; this is where it was"));
    terminal.press("p", "paused");
    server.signal(Signal::TERM);
    server.wait();
    // A picture that is paused changes when a key asks.
    terminal.press("b", "No backtrace: /");
    terminal.press("\u{1b}p", "No answer; this is how it was.");
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
    terminal.wait_for("No answer; this is how it was.");
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
    assert!(String::from_utf8_lossy(&output.stderr).contains("`oribi top --once` prints one picture"), "{output:?}");
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
