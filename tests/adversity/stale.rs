//! Leftovers of dead servers: their sockets and their pid files.

use crate::client::{Target, get};
use crate::server::{Folder, Server, children, runs, wait_for, wait_until};
use crate::site::{Edge, Language, Plan, program};
use rustix::process::Signal;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

crate::everywhere!(what_a_killed_server_leaves_is_taken_over);

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn what_a_killed_server_leaves_is_taken_over(language: Language, edge: Edge) {
    let folder = Folder::new();
    let [socket, pid_file, control] = ["app.sock", "pid", "control.sock"].map(|name| folder.file(name));
    let arguments = ["--listen", plain(&socket), "--pid-file", plain(&pid_file), "--control", plain(&control)];
    let plan = || Plan::new(language, edge, &arguments);
    let begun = |server: &mut Server| {
        wait_until("a beginning", || server.log().contains("listening on") || server.exit_status().is_some());
        server.exit_status().is_none()
    };
    let (_app, mut first) = plan().run();
    assert!(begun(&mut first), "{}", first.log());
    get(&Target::Unix(socket.clone())).expect("it serves");

    let (_other, mut second) = plan().run();
    assert_eq!(second.wait(), 1);
    let refused = format!("cannot listen on {}: another server is listening there", socket.display());
    assert!(second.log().contains(&refused), "{}", second.log());
    assert_eq!(std::fs::read_to_string(&pid_file).expect("it stays"), format!("{}\n", first.pid()));
    get(&Target::Unix(socket.clone())).expect("it serves on");

    let rest = children(first.pid());
    first.signal(Signal::KILL);
    wait_until("the end of all", || rest.iter().all(|process| !runs(*process)));
    assert!(socket.exists() && pid_file.exists() && control.exists(), "nobody has cleaned up");
    // Workers may have been children of those.
    let (_app, mut third) = wait_for("the end of its workers", || {
        let (app, mut third) = plan().run();
        begun(&mut third).then_some((app, third))
    });
    get(&Target::Unix(socket.clone())).expect("it serves");
    assert_eq!(std::fs::read_to_string(&pid_file).expect("it is new"), format!("{}\n", third.pid()));
    let mut ctl = Command::new(program());
    let stopped = ctl.args(["ctl", "stop", "--control", plain(&control)]).status().expect("it was built");
    assert!(stopped.success());
    assert_eq!(third.wait(), 0, "{}", third.log());
    assert!(!socket.exists() && !pid_file.exists() && !control.exists(), "it has cleaned up");
}

/// `oribi --native` with this pid file.
fn native(pid_file: &Path) -> Server {
    let mut command = Command::new(program());
    command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--workers", "1", "--pid-file", plain(pid_file)]);
    Server::run(command.env("ORIBI_CONTROL", "off"))
}

/// A pid file may have any content: the process id in it may now belong to another process, as after a crash, or in each
/// container.
#[test]
fn a_pid_file_is_overwritten_whatever_it_says() {
    let folder = Folder::new();
    let path = folder.file("pid");
    let own = format!("{}\n", std::process::id());
    for (content, mode) in [("999999999\n", 0o644), (own.as_str(), 0o644), ("", 0o644), ("no number", 0o644), ("1\n", 0o000)] {
        std::fs::write(&path, content).expect("the folder is writable");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
        let mut server = native(&path);
        server.address();
        assert_eq!(std::fs::read_to_string(&path).expect("it is new"), format!("{}\n", server.pid()), "{content:?}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0);
        assert!(!path.exists(), "{content:?}");
    }
}

#[test]
fn a_pid_file_that_cannot_be_written_prevents_the_start_and_nothing_is_left() {
    let folder = Folder::new();
    let (directory, missing) = (folder.file("directory"), folder.file("missing/pid"));
    std::fs::create_dir(&directory).expect("the folder is writable");
    for (path, why) in [(&directory, "Is a directory"), (&missing, "No such file or directory")] {
        let mut server = native(path);
        assert_eq!(server.wait(), 1);
        let expected = format!("cannot write the pid file {}: {why}", path.display());
        assert!(server.log().contains(&expected), "{}", server.log());
    }
    let left: Vec<_> =
        folder.0.read_dir().expect("it is there").filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["directory"]);
}
