//! `oribi ctl`: a server answers and obeys at its control socket, only for its own user.

use crate::client::get;
use crate::server::{Folder, Server, mode, send, wait_for, wait_until};
use crate::{native, tcp};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A server with a control socket in a folder of its own.
fn controlled(arguments: &[&str]) -> (Server, PathBuf, Folder) {
    let folder = Folder::new();
    let path = folder.file("control.sock");
    let text = path.to_str().expect("a plain path");
    let mut server = native(&[&["--control", text], arguments].concat());
    server.wait_for_log("listening on");
    (server, path, folder)
}

fn command(path: &Path, order: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.arg("ctl").args(order).arg("--control").arg(path);
    command
}

fn ctl(path: &Path, order: &[&str]) -> Output {
    command(path, order).output().expect("it was built")
}

/// Returns the output of an `oribi ctl` that must succeed.
fn well(path: &Path, order: &[&str]) -> String {
    let output = ctl(path, order);
    assert_eq!(output.status.code(), Some(0), "{order:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// Sends `line` unchanged to the control socket, and returns the answer.
fn raw(path: &Path, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("it listens");
    let _ = stream.write_all(line);
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

#[test]
fn a_server_is_asked_and_steered_until_its_end() {
    let (mut server, path, folder) = controlled(&["--workers", "2"]);
    assert_eq!(mode(&path), 0o600);
    let status = well(&path, &["status"]);
    assert!(status.starts_with(&format!("server      serving, pid {}, oribi ", server.pid())), "{status}");
    let object = well(&path, &["status", "--json"]);
    assert!(object.starts_with("{\"ok\":true,") && object.contains("\"workers\":2"), "{object}");

    let before = server.wait_for_workers(2);
    assert_eq!(well(&path, &["reload"]), "all workers have been replaced\n");
    assert!(server.log().contains("all workers have been replaced"), "it has waited for them");
    wait_until("the last of the old workers", || !before.iter().any(|worker| server.workers().contains(worker)));

    if std::env::var("ORIBI_TEST_ACCEPT").is_ok_and(|model| model == "own") {
        assert_eq!(ctl(&path, &["scale", "3"]).status.code(), Some(1));
    } else {
        assert_eq!(well(&path, &["scale", "3"]), "workers: 3 (before: 2)\n");
        let workers = well(&path, &["workers"]);
        let ready = workers.lines().filter(|line| line.starts_with("worker ") && line.contains("ready")).count();
        assert_eq!(ready, 3, "it has waited for them: {workers}");
        let refused = ctl(&path, &["scale", "1000"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("at most 64 workers"), "{refused:?}");
    }
    assert_eq!(ctl(&path, &["nonsense"]).status.code(), Some(2));
    if std::env::var("ORIBI_EDGE").is_ok_and(|shape| shape == "on") {
        assert_eq!(well(&path, &["requests"]), "no requests\n");
    } else {
        let unknown = ctl(&path, &["requests"]);
        assert_eq!(unknown.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&unknown.stderr).contains("--edge on"), "{unknown:?}");
    }

    let workers = well(&path, &["workers"]);
    assert!(workers.starts_with("PROCESS") && workers.contains("ready"), "{workers}");
    // The sum includes the work of workers that have ended.
    let count = |name: &str| -> u64 {
        let object = well(&path, &["status", "--json"]);
        let number = object.split(&format!("\"{name}\":")).nth(1).expect("it is there").split([',', '}']).next();
        number.expect("a value").parse().expect("a number")
    };
    let (answered, failed) = (count("requests"), count("workers_failed"));
    assert!(get(&tcp(&mut server)).expect("it serves").text.ends_with("hello"));
    wait_until("the count of it", || count("requests") == answered + 1);
    for worker in server.workers() {
        send(worker, Signal::KILL);
    }
    wait_until("the count of the failures", || count("workers_failed") > failed);
    assert_eq!(count("requests"), answered + 1);
    wait_until("a worker", || well(&path, &["workers"]).contains("ready"));
    assert!(get(&tcp(&mut server)).expect("it serves").text.ends_with("hello"));

    assert_eq!(well(&path, &["stop"]), "stopped\n");
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(!path.exists());
    assert_eq!(ctl(&path, &["status"]).status.code(), Some(1));
    drop(folder);
}

#[test]
fn who_stalls_floods_or_sends_rubbish_harms_nobody() {
    let (mut server, path, _folder) = controlled(&["--workers", "1"]);
    let silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    assert!(get(&tcp(&mut server)).expect("it serves").text.ends_with("hello"));
    let refused = wait_for("an answer", || Some(raw(&path, b"status\n")).filter(|answer| !answer.is_empty()));
    assert!(refused.contains("32 clients are connected"), "{refused}");
    drop(silent);
    wait_until("a place", || raw(&path, b"status\n").contains("\"ok\":true"));
    for (line, why) in [
        (&b"\xff\xfe\n"[..], "not text"),
        (b"GET / HTTP/1.1\r\n", "orders are"),
        (&[b'x'; 4096][..], "longer than"),
        (b"\n", "unknown order"),
    ] {
        let answer = raw(&path, line);
        assert!(answer.starts_with("{\"ok\":false,") && answer.contains(why), "{answer}");
    }
    // A client that leaves while it waits is forgotten, and its order is carried out all the same.
    let mut gone = UnixStream::connect(&path).expect("it listens");
    gone.write_all(b"stop\n").expect("it reads");
    drop(gone);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn strangers_are_refused_and_logged() {
    assert!(rustix::process::geteuid().is_root(), "only root can be somebody else for a test");
    let (mut server, path, folder) = controlled(&["--workers", "1"]);
    // A client's own program, which any user may run.
    let script = "use IO::Socket::UNIX; $SIG{PIPE} = q(IGNORE); my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die qq(no: $!\\n); print {$s} qq(stop\\n); \
                  print readline $s";
    let stranger = |path: &Path| {
        let output =
            Command::new("perl").args(["-e", script]).arg(path).uid(65_534).gid(65_534).output().expect("perl is there");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o711)).expect("it is ours");
    assert_eq!(stranger(&path), "no: Permission denied\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("it is ours");
    assert_eq!(
        stranger(&path),
        "{\"ok\":false,\"error\":\"only the user of the server and root may use its control socket\"}\n"
    );
    server.wait_for_log("the control socket has refused user 65534 (pid ");
    assert!(raw(&path, b"status\n").contains("\"state\":\"serving\""), "it goes on");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_and_that_of_another_is_not() {
    let (server, path, _folder) = controlled(&["--workers", "1"]);
    let text = path.to_str().expect("a plain path");
    let mut second = native(&["--control", text]);
    assert_eq!(second.wait(), 1);
    assert!(second.log().contains("another server is listening there"), "{}", second.log());
    server.signal(Signal::KILL);
    let mut third = wait_for("the end of the first", || {
        let mut third = native(&["--control", text]);
        wait_until("a beginning", || third.log().contains("listening on") || third.exit_status().is_some());
        third.exit_status().is_none().then_some(third)
    });
    assert!(raw(&path, b"status\n").contains(&format!("\"pid\":{}", third.pid())));
    assert_eq!(well(&path, &["stop"]), "stopped\n");
    assert_eq!(third.wait(), 0);
}

#[test]
fn without_a_path_the_socket_is_in_a_directory_of_the_user_and_is_found_by_the_process() {
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--workers", "1"]).env("XDG_RUNTIME_DIR", &folder.0);
    let mut server = Server::run(command.env_remove("RUNTIME_DIRECTORY"));
    server.wait_for_log("listening on");
    let own = folder.file("oribi");
    assert_eq!((mode(&own), mode(&own.join(format!("{}.sock", server.pid())))), (0o700, 0o600));
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_oribi"));
    let pid = server.pid().to_string();
    ctl.args(["ctl", "stop", "--pid", &pid]).env("XDG_RUNTIME_DIR", &folder.0).env_remove("ORIBI_CONTROL");
    assert!(ctl.status().expect("it was built").success());
    assert_eq!(server.wait(), 0);
    assert!(own.read_dir().expect("it stays").next().is_none());
}

#[test]
fn a_client_that_takes_nothing_does_not_keep_the_server_from_ending() {
    let (mut server, path, _folder) = controlled(&["--workers", "1"]);
    let mut idle = UnixStream::connect(&path).expect("it listens");
    idle.write_all(b"stop\n").expect("it reads");
    assert_eq!(server.wait(), 0);
    let mut answer = String::new();
    idle.read_to_string(&mut answer).expect("it was sent");
    assert_eq!(answer, "{\"ok\":true,\"status\":0}\n");
}
