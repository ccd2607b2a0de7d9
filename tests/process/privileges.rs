//! Black-box tests of `--user` and `--group`: which users the processes are, and what still works then. These tests need root,
//! as the tested servers do. This program is the tests, the master, the mold and the supervisor: see `roles`.

use client::{Load, Manner, Target, get};
use oribi_host::Native;
use oribi_io::process::Identity;
use oribi_server::config::{AccessFormat, EdgeChoice, ListenAddress, LogTarget, Settings, sandbox_choice, value};
use oribi_server::process;
use oribi_test_support::{client, roles, server};
use rustix::process::Signal;
use server::{Folder, Server, children, send, title, wait_for, wait_until};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn main() {
    match roles::role().as_deref() {
        None => {
            assert!(
                rustix::process::geteuid().is_root(),
                "these tests must be run as root: they start servers that become others"
            );
            roles::run(&[
                ("a_supervisor_forks_workers_that_become_the_user", a_supervisor_forks_workers_that_become_the_user),
                ("edges_become_the_user_too", edges_become_the_user_too),
                (
                    "an_edge_of_another_user_cannot_be_signalled_or_traced_by_workers",
                    an_edge_of_another_user_cannot_be_signalled_or_traced_by_workers,
                ),
                ("an_upgraded_server_is_the_same_users", an_upgraded_server_is_the_same_users),
                ("new_privileges_are_out_of_reach", new_privileges_are_out_of_reach),
                ("both_users_write_to_the_logs", both_users_write_to_the_logs),
                ("a_mold_is_the_user_before_it_loads_the_app", a_mold_is_the_user_before_it_loads_the_app),
                ("files_belong_to_who_needs_them", files_belong_to_who_needs_them),
                ("what_cannot_be_given_up_ends_the_start", what_cannot_be_given_up_ends_the_start),
                ("who_is_the_user_already_needs_no_root", who_is_the_user_already_needs_no_root),
            ]);
        }
        Some("mold") => std::process::exit(process::supervise(&settings(), &Native::new("hello"))),
        Some("supervisor") => std::process::exit(process::supervise_program(&settings(), &Native::new("hello"))),
        Some(_) => std::process::exit(process::master::run(&settings(), roles::program("mold"), 1)),
    }
}

fn settings() -> Settings {
    let variable = |name: &str| std::env::var(name).ok();
    let listen = variable("ORIBI_TEST_SOCKET")
        .map_or_else(|| ListenAddress::tcp("127.0.0.1", 0), |path| ListenAddress::unix(path, Some(0o600)));
    let settings = Settings {
        listen: vec![listen],
        workers: 2.into(),
        // The same tests are run for both shapes of the processes: see tests/run.
        edge: variable("ORIBI_EDGE").map_or(EdgeChoice::Off, |choice| value::edge_choice(&choice).expect("it is one")),
        edge_sandbox: variable("ORIBI_EDGE_SANDBOX")
            .map_or_else(Default::default, |choice| sandbox_choice(&choice).expect("fits")),
        user: variable("ORIBI_TEST_USER"),
        group: variable("ORIBI_TEST_GROUP"),
        edge_user: variable("ORIBI_TEST_EDGE_USER"),
        new_privileges: variable("ORIBI_TEST_NO_NEW_PRIVILEGES").is_none(),
        error_log: variable("ORIBI_TEST_LOG").map_or(LogTarget::Standard, |path| LogTarget::File(path.into())),
        access_log: variable("ORIBI_TEST_ACCESS_LOG").map(|path| LogTarget::File(path.into())),
        access_log_format: AccessFormat::Common,
        ..Settings::default()
    };
    oribi_server::log::prepare(&settings).expect("the logs can be opened");
    settings
}

/// A copy of this program, at a place where every user may execute it.
struct Site {
    folder: Folder,
}

impl Site {
    fn new() -> Self {
        let folder = Folder::new();
        std::fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).expect("it is ours");
        std::fs::copy(std::env::current_exe().expect("it is running"), folder.file("program")).expect("there is room");
        Self { folder }
    }

    fn command(&self, role: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.folder.file("program"));
        command.env("ORIBI_TEST_ROLE", role).envs(variables.iter().copied());
        command
    }
}

/// The users and groups of a process: real, effective, saved, and that of the file system.
fn identity(pid: u32) -> (Vec<u32>, Vec<u32>) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line is there");
        line.split_whitespace().map(|number| number.parse().expect("a number")).collect()
    };
    (numbers("Uid:"), numbers("Gid:"))
}

/// Waits for the workers of a process, and until all of them have this user and group.
fn workers_as(parent: u32, user: u32, group: u32) -> Vec<u32> {
    wait_for("two workers with another identity", || {
        let workers: Vec<u32> =
            children(parent).into_iter().filter(|child| !title(*child).starts_with("oribi: edge")).collect();
        let changed = |worker: &u32| identity(*worker) == (vec![user; 4], vec![group; 4]);
        (workers.len() == 2 && workers.iter().all(changed)).then_some(workers)
    })
}

fn nobody() -> (u32, u32) {
    let nobody = Identity::named(Some("nobody"), Some("daemon")).expect("every system has them");
    (nobody.user(), nobody.group())
}

const NOBODY: [(&str, &str); 2] = [("ORIBI_TEST_USER", "nobody"), ("ORIBI_TEST_GROUP", "daemon")];

fn a_supervisor_forks_workers_that_become_the_user() {
    let site = Site::new();
    let mut server = Server::run(&mut site.command("supervisor", &NOBODY));
    let target = Target::Tcp(server.address());
    let (user, group) = nobody();
    let before = workers_as(server.pid(), user, group);
    assert_eq!(identity(server.pid()).0, [0; 4], "it is needed for what only root may do");
    get(&target).expect("it answers");
    server.signal(Signal::HUP);
    wait_until("other workers", || {
        let now = server.workers();
        now.len() == 2 && !now.iter().any(|worker| before.contains(worker))
    });
    workers_as(server.pid(), user, group);
    get(&target).expect("it answers");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

fn edges_become_the_user_too() {
    let (user, group) = nobody();
    for role in ["supervisor", "master"] {
        let site = Site::new();
        let mut server = Server::run(site.command(role, &NOBODY).env("ORIBI_EDGE", "on"));
        let target = Target::Tcp(server.address());
        let edge = *server.edges().first().expect("it has one");
        wait_until("another identity", || identity(edge) == (vec![user; 4], vec![group; 4]));
        get(&target).expect("it answers");
        send(edge, Signal::KILL);
        let next = wait_for("another edge", || server.edges().first().copied().filter(|next| *next != edge));
        wait_until("another identity", || identity(next) == (vec![user; 4], vec![group; 4]));
        get(&target).expect("it answers");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

/// Whether `script` succeeds in a process with the user of the workers. `$0` in the script is the process id `process`.
fn nobody_can(script: &str, process: u32) -> bool {
    let (user, group) = nobody();
    let mut command = Command::new("sh");
    command.args(["-c", script, &process.to_string()]).uid(user).gid(group).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("there is a shell").success()
}

fn an_edge_of_another_user_cannot_be_signalled_or_traced_by_workers() {
    let (signal, trace) = ("kill -0 $0", "cat /proc/$0/maps");
    for role in ["supervisor", "master"] {
        let site = Site::new();
        let mut server = Server::run(site.command(role, &NOBODY).env("ORIBI_EDGE", "on").env("ORIBI_TEST_EDGE_USER", "games"));
        let target = Target::Tcp(server.address());
        let games = Identity::named(Some("games"), None).expect("every system has that user");
        let edge = server.edges()[0];
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        wait_until("another identity", || {
            (users, groups) = identity(edge);
            (&users, &groups) == (&vec![games.user(); 4], &vec![games.group(); 4])
        });
        // Workers answer the requests of an edge of another user.
        get(&target).expect("it answers");
        assert!(!nobody_can(signal, edge) && !nobody_can(trace, edge), "{role}");
        let parent = if role == "master" { server.workers()[0] } else { server.pid() };
        let (user, group) = nobody();
        let worker = workers_as(parent, user, group)[0];
        assert!(nobody_can(signal, worker), "the same shows that workers can be signalled");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
    // Where both are the same user, the memory is hidden all the same.
    let site = Site::new();
    let mut server = Server::run(site.command("supervisor", &NOBODY).env("ORIBI_EDGE", "on"));
    get(&Target::Tcp(server.address())).expect("it answers");
    let edge = server.edges()[0];
    assert!(nobody_can(signal, edge) && !nobody_can(trace, edge));
}

fn an_upgraded_server_is_the_same_users() {
    for role in ["supervisor", "master"] {
        let site = Site::new();
        let socket = site.folder.file("app.sock");
        let mut command = site.command(role, &NOBODY);
        command.env("ORIBI_EDGE", "on").env("ORIBI_TEST_EDGE_USER", "games").env("ORIBI_TEST_SOCKET", &socket);
        let mut server = Server::run(&mut command);
        server.addresses();
        let target = Target::Unix(socket.clone());
        let load = Load::start(&target, 4, Manner::KeepAlive);
        let owner = |path: &PathBuf| std::fs::metadata(path).map(|found| (found.uid(), found.gid())).expect("it is there");
        let before = owner(&socket);
        let mut last = None;
        for _ in 0..2 {
            load.wait_for_more(50);
            server.signal(Signal::USR2);
            let present = wait_for("only the new server is left", || match children(server.pid())[..] {
                [only] if Some(only) != last && title(server.pid()).starts_with("oribi: guardian") => Some(only),
                _ => None,
            });
            let (games, (user, group)) = (Identity::named(Some("games"), None).expect("every system has it"), nobody());
            wait_until("an edge of its user", || {
                let edge = children(present).into_iter().find(|child| title(*child).starts_with("oribi: edge"));
                edge.is_some_and(|edge| identity(edge) == (vec![games.user(); 4], vec![games.group(); 4]))
            });
            let is_mold = |child: &u32| title(*child).starts_with("oribi: mold");
            let parent = children(present).into_iter().find(is_mold).unwrap_or(present);
            workers_as(parent, user, group);
            assert_eq!(owner(&socket), before);
            last = Some(present);
        }
        load.wait_for_more(50);
        assert_eq!(load.connections(), 4, "{}", server.log());
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", server.log());
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        assert!(!socket.exists(), "the last one has removed it");
    }
}

/// Whether a process can get more rights by executing a program: whether no_new_privs is not set.
fn may_get_new_privileges(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    status.lines().any(|line| line.split_whitespace().eq(["NoNewPrivs:", "0"]))
}

fn new_privileges_are_out_of_reach() {
    for forbidden in [true, false] {
        for role in ["supervisor", "master"] {
            let site = Site::new();
            let mut command = site.command(role, &[("ORIBI_EDGE", "on")]);
            let setting = ("ORIBI_TEST_NO_NEW_PRIVILEGES", "yes");
            let mut server = Server::run(command.envs(forbidden.then_some(setting)));
            get(&Target::Tcp(server.address())).expect("it answers");
            assert!(!may_get_new_privileges(server.edges()[0]), "an edge executes nothing");
            let (mold, workers) = match (role, server.workers()) {
                ("master", molds) => (Some(molds[0]), children(molds[0])),
                (_, workers) => (None, workers),
            };
            assert!(workers.into_iter().chain(mold).all(|process| may_get_new_privileges(process) != forbidden), "{role}");
            assert!(may_get_new_privileges(server.pid()), "it starts the next mold");
        }
    }
}

fn both_users_write_to_the_logs() {
    let site = Site::new();
    let file = |name: &str| site.folder.file(name);
    let (log, access) = (file("log"), file("access"));
    // In such a folder, only an owner or root may make files; it is the first process that does.
    let mut command = site.command("master", &NOBODY);
    command.env("ORIBI_TEST_LOG", &log).env("ORIBI_TEST_ACCESS_LOG", &access).env("ORIBI_TEST_SOCKET", file("socket"));
    let mut server = Server::run(command.env("ORIBI_EDGE", "on").env("ORIBI_TEST_EDGE_USER", "games"));
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    wait_until("the server", || read(&log).contains("listening on"));
    for path in [&log, &access] {
        std::fs::rename(path, path.with_extension("old")).expect("root may");
    }
    server.signal(Signal::USR1);
    wait_until("the new log", || read(&log).contains("opened again"));
    let target = Target::Unix(file("socket"));
    wait_until("a line in the new log", || {
        get(&target).unwrap_or_else(|error| panic!("{error}: {}{}", read(&log.with_extension("old")), read(&log)));
        read(&access).contains("GET / ")
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    assert!(!read(&log).contains("cannot open"), "{}", read(&log));
}

fn a_mold_is_the_user_before_it_loads_the_app() {
    let site = Site::new();
    // The mold is this program in its other role; it is started by its own path.
    let mut server = Server::run(&mut site.command("master", &NOBODY));
    let target = Target::Tcp(server.address());
    let (user, group) = nobody();
    let mold = server.workers()[0];
    assert_eq!(identity(mold), (vec![user; 4], vec![group; 4]));
    workers_as(mold, user, group);
    get(&target).expect("it answers");
    server.signal(Signal::HUP);
    server.wait_for_log("generation 2 has taken over");
    wait_until("the end of the first mold", || !server.workers().contains(&mold));
    workers_as(server.workers()[0], user, group);
    get(&target).expect("it answers");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

fn files_belong_to_who_needs_them() {
    let (user, group) = nobody();
    for role in ["supervisor", "master"] {
        let site = Site::new();
        let file = |name: &str| site.folder.file(name);
        let text = |path: &PathBuf| path.display().to_string();
        let (log, access, socket) = (file("log"), file("access"), file("socket"));
        let variables =
            [("ORIBI_TEST_LOG", text(&log)), ("ORIBI_TEST_ACCESS_LOG", text(&access)), ("ORIBI_TEST_SOCKET", text(&socket))];
        let mut command = site.command(role, &NOBODY);
        let mut server = Server::run(command.envs(variables));
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        wait_until("the server", || read(&log).contains("listening on"));
        let owned = |path: &PathBuf| {
            let found = std::fs::metadata(path).expect("it is there");
            (found.uid(), found.gid()) == (user, group)
        };
        assert!(owned(&log) && owned(&access) && owned(&socket), "{role}");
        let target = Target::Unix(socket.clone());
        get(&target).expect("it answers");
        wait_until("its line", || read(&access).contains("GET / "));
        // As logrotate does it.
        for path in [&log, &access] {
            std::fs::rename(path, path.with_extension("old")).expect("root may");
        }
        server.signal(Signal::USR1);
        wait_until("the new log", || read(&log).contains("opened again"));
        wait_until("a line in the new log", || {
            get(&target).expect("it answers");
            read(&access).contains("GET / ")
        });
        assert!(owned(&log) && owned(&access), "{role}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{role}: {}", read(&log));
        assert!(!socket.exists(), "{role} removes its socket");
    }
}

fn what_cannot_be_given_up_ends_the_start() {
    let site = Site::new();
    let (user, group) = nobody();
    for role in ["supervisor", "master"] {
        let mut unknown = Server::run(&mut site.command(role, &[("ORIBI_TEST_USER", "no-such-user")]));
        assert_eq!(unknown.wait(), 1);
        assert!(unknown.log().contains("--user no-such-user: there is no user `no-such-user`"), "{}", unknown.log());
        let mut unknown = Server::run(&mut site.command(role, &[("ORIBI_TEST_GROUP", "no-such-group")]));
        assert_eq!(unknown.wait(), 1);
        assert!(unknown.log().contains("there is no group"), "{}", unknown.log());
        let mut command = site.command(role, &[("ORIBI_TEST_USER", "daemon")]);
        let mut powerless = Server::run(command.uid(user).gid(group));
        assert_eq!(powerless.wait(), 1);
        assert!(powerless.log().contains("only root may become another user"), "{}", powerless.log());
    }
}

fn who_is_the_user_already_needs_no_root() {
    let site = Site::new();
    let (user, group) = nobody();
    for role in ["supervisor", "master"] {
        let mut command = site.command(role, &NOBODY);
        let mut server = Server::run(command.uid(user).gid(group));
        get(&Target::Tcp(server.address())).expect("it answers");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}
