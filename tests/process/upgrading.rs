//! The `oribi` command itself is replaced: by itself, and by programs that cannot take its place.

mod addresses;

use crate::client::{Load, Manner, Target, get};
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Folder, Server, children, runs, send, title, wait_for, wait_until};
use crate::service_manager::ServiceManager;
use crate::wire::{self, Wire};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const ORIBI: &str = env!("CARGO_BIN_EXE_oribi");

/// A server whose program is a symbolic link, which can be pointed to another program.
struct Site {
    server: Server,
    folder: Folder,
}

impl Site {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        symlink(ORIBI, folder.file("oribi")).expect("the folder is ours");
        let mut command = Command::new(folder.file("oribi"));
        command.args(["--native", "hello", "--workers", "2", "--control"]).arg(folder.file("control"));
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        // The same tests are run for each I/O model: see tests/run.
        if let Ok(model) = std::env::var("ORIBI_TEST_IO") {
            command.args(["--io", &model]);
        }
        let server = Server::run(command.args(arguments).args(wire::options()).envs(variables.iter().copied()));
        Self { server, folder }
    }

    fn address(&mut self) -> SocketAddr {
        self.server.address()
    }

    /// Replaces the program of the server by a script. `REAL` in the script stands for the path of the real program.
    fn put(&self, program: &str) {
        let file = self.folder.file("next");
        fs::write(&file, program.replace("REAL", ORIBI)).expect("the folder is ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::rename(file, self.folder.file("oribi")).expect("the folder is ours");
    }

    fn put_back(&self) {
        symlink(ORIBI, self.folder.file("next")).expect("the folder is ours");
        fs::rename(self.folder.file("next"), self.folder.file("oribi")).expect("the folder is ours");
    }

    fn ctl(&self, order: &str) -> Output {
        Command::new(ORIBI).args(["ctl", order, "--control"]).arg(self.folder.file("control")).output().expect("it was built")
    }

    /// Returns the id of the process that serves below the first one after an upgrade.
    fn present(&self) -> Option<u32> {
        present_below(self.server.pid())
    }

    /// Upgrades the server by `oribi ctl`, and waits until only the new server is left.
    fn upgrade(&self) -> u32 {
        let output = self.ctl("upgrade");
        let log = self.server.log();
        assert_eq!(output.status.code(), Some(0), "{}{log}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).expect("it is text");
        let pid = said.strip_prefix("the new server has taken over (pid ").and_then(|rest| rest.strip_suffix(")\n"));
        let pid = pid.and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{said}"));
        wait_until("only the new server is left", || self.present() == Some(pid));
        pid
    }

    /// Orders an upgrade that fails, and returns the reason.
    fn fail(&self) -> String {
        let output = self.ctl("upgrade");
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).expect("it is text")
    }

    fn stop(mut self) {
        self.server.signal(Signal::TERM);
        assert_eq!(self.server.wait(), 0, "{}", self.server.log());
        assert!(!self.folder.file("control").exists());
    }
}

fn present_below(first: u32) -> Option<u32> {
    match children(first)[..] {
        [only] if title(only).starts_with("oribi: supervisor") && title(first).starts_with("oribi: guardian") => Some(only),
        _ => None,
    }
}

/// Returns the open descriptors of a process: the paths of files, and the kinds of all others. Checks that no socket is open
/// twice.
fn descriptors(process: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mut links: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    links.sort();
    let twice = links.windows(2).find(|pair| pair[0] == pair[1] && pair[0].starts_with("socket:"));
    assert_eq!(twice, None, "in process {process}");
    links.iter_mut().for_each(|link| *link = link.split(":[").next().unwrap_or_default().to_owned());
    links
}

#[test]
fn after_five_upgrades_every_process_has_the_same_descriptors_and_no_connection_was_closed() {
    let mut site = Site::start(&["--edge", "on", "--metrics", "127.0.0.1:0"]);
    let target = Target::Tcp(site.address());
    let kept = Load::start(&target, 8, Manner::KeepAlive);
    let short = Load::start(&target, 2, Manner::ConnectionPerRequest);
    let mut first = None;
    for number in 1..=5 {
        kept.wait_for_more(100);
        short.wait_for_more(20);
        let present = site.upgrade();
        site.server.wait_for_log("follows the first process");
        wait_until("it follows", || site.server.log().matches("follows the first process").count() == number);
        let look = || (descriptors(site.server.pid()), descriptors(present));
        let expected = first.get_or_insert_with(look).clone();
        // The first process watches the one between until it has waited for it.
        wait_until(&format!("{expected:?} after upgrade {number}"), || look() == expected);
    }
    kept.wait_for_more(100);
    assert_eq!(kept.connections(), 8, "{}", site.server.log());
    for load in [kept, short] {
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
    }
    site.stop();
}

#[test]
fn a_number_of_workers_that_was_set_is_given_up_for_another_configuration() {
    for edge in ["on", "off"] {
        let mut site = Site::start(&["--edge", edge]);
        site.address();
        let workers = |site: &Site| String::from_utf8_lossy(&site.ctl("workers").stdout).matches(" ready ").count();
        for wanted in [3, 4] {
            site.server.signal(Signal::TTIN);
            wait_until("one more", || workers(&site) >= wanted);
        }
        site.upgrade();
        assert!(workers(&site) >= 4, "{}", site.server.log());
        site.put("#!/bin/sh\nexec REAL \"$@\" --workers 3\n");
        assert_eq!(site.ctl("upgrade").status.code(), Some(0), "{}", site.server.log());
        site.server.wait_for_log("workers: 3: the configuration has changed from 2, so the 4 that were set since are given up");
        site.stop();
    }
}

#[test]
fn metrics_are_told_without_a_gap_through_upgrades() {
    for edge in ["on", "off"] {
        let mut site = Site::start(&["--edge", edge, "--metrics", "127.0.0.1:0"]);
        let target = Target::Tcp(site.address());
        let place = MetricsAddress::said_in(&site.server.log());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // No client is refused, and nothing goes back.
            let scraper = scope.spawn(|| {
                let mut seen = Scrape::of(&place);
                while !done.load(Relaxed) {
                    let now = Scrape::of(&place);
                    now.must_not_shrink(&seen);
                    seen = now;
                }
                seen
            });
            for _ in 0..3 {
                (0..10).for_each(|_| assert!(get(&target).expect("it serves").text.ends_with("hello")));
                site.upgrade();
                assert!(!scraper.is_finished(), "{}", site.server.log());
            }
            wait_until("all counts", || Scrape::of(&place).get("oribi_responses_total{class=\"2xx\"}") == 30.0);
            done.store(true, Relaxed);
            assert_eq!(scraper.join().expect("it has seen nothing wrong").get("oribi_upgrades_total"), 3.0);
        });
        assert_eq!(site.server.log().matches("metrics are at").count(), 1, "{}", site.server.log());
        site.stop();
    }
}

#[test]
fn who_has_begun_to_ask_for_metrics_is_answered_by_the_server_before() {
    for edge in ["on", "off"] {
        let mut site = Site::start(&["--edge", edge, "--metrics", "127.0.0.1:0"]);
        site.address();
        let MetricsAddress::Tcp(address) = MetricsAddress::said_in(&site.server.log()) else { panic!("it is a port") };
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").expect("it is open");
        // It was accepted before later clients are answered.
        Scrape::of(&MetricsAddress::Tcp(address));
        assert_eq!(site.ctl("upgrade").status.code(), Some(0), "{}", site.server.log());
        stream.write_all(b"Host: test\r\n\r\n").expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it ends");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:?}: {}", site.server.log());
        drop(stream);
        wait_until("only the new server is left", || site.present().is_some());
        site.stop();
    }
}

/// A number of bytes that is larger than the socket buffers for an unread answer.
const LARGE: u64 = 32 << 20;

/// Returns a server after one complete upgrade, and at the beginning of a second one. The current server cannot finish the
/// second upgrade until its client has read an answer. Also returns the folder with the file, and the client.
fn site_that_finishes(edge: &str) -> (Site, Folder, Wire) {
    let files = Folder::new();
    fs::File::create(files.file("large")).and_then(|file| file.set_len(LARGE)).expect("the folder is ours");
    let place = format!("/files={}", files.0.display());
    let mut site = Site::start(&["--edge", edge, "--static", &place]);
    let address = site.address();
    site.upgrade();
    let client = large_answer(address);
    assert_eq!(site.ctl("upgrade").status.code(), Some(0), "{}", site.server.log());
    (site, files, client)
}

/// Returns a client that has read only the beginning of an answer.
fn large_answer(address: SocketAddr) -> Wire {
    let mut client = Wire::connect(address).expect("it listens");
    client.write_all(b"GET /files/large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("it is open");
    let mut status = [0; 15];
    client.read_exact(&mut status).expect("it answers");
    assert_eq!(&status, b"HTTP/1.1 200 OK");
    client
}

fn read_rest(mut client: Wire, site: &Site) {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap_or_else(|error| panic!("{error}: {}", site.server.log()));
    assert!(rest.len() as u64 > LARGE, "{} bytes: {}", rest.len(), site.server.log());
}

#[test]
fn a_server_that_takes_long_to_finish_stops_none_that_comes_later() {
    for edge in ["on", "off"] {
        let (mut site, _files, client) = site_that_finishes(edge);
        let target = Target::Tcp(site.address());
        for number in 3..=4 {
            assert_eq!(site.ctl("upgrade").status.code(), Some(0), "{}", site.server.log());
            // The one between has nothing to finish: the first one is the parent from then on.
            wait_until("it follows", || site.server.log().matches("follows the first process").count() == number - 1);
            assert!(get(&target).expect("it serves").text.ends_with("hello"));
        }
        read_rest(client, &site);
        wait_until("only the last server is left", || site.present().is_some());
        assert!(get(&target).expect("it serves").text.ends_with("hello"));
        site.stop();
    }
}

#[test]
fn a_stop_waits_for_servers_that_finish_and_no_longer() {
    for edge in ["on", "off"] {
        let (mut site, _files, client) = site_that_finishes(edge);
        site.server.signal(Signal::TERM);
        wait_until("the last server ends", || TcpStream::connect(site.address()).is_err());
        assert_eq!(site.server.exit_status(), None, "{}", site.server.log());
        read_rest(client, &site);
        assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    }
}

#[test]
fn a_stop_soon_after_an_upgrade_waits_for_the_old_server_of_a_service() {
    let manager = ServiceManager::new();
    let notify = manager.address();
    for edge in ["on", "off"] {
        let files = Folder::new();
        fs::File::create(files.file("large")).and_then(|file| file.set_len(LARGE)).expect("the folder is ours");
        let place = format!("/files={}", files.0.display());
        let variables = [("NOTIFY_SOCKET", notify.to_str().expect("it is ASCII"))];
        let mut site = Site::start_with(&["--edge", edge, "--static", &place], &variables);
        let client = large_answer(site.address());
        assert_eq!(site.ctl("upgrade").status.code(), Some(0), "{}", site.server.log());
        let status = String::from_utf8(site.ctl("status").stdout).expect("it is text");
        let next = status.split_once("pid ").and_then(|(_, rest)| rest.split([',', ' ', '\n', ')']).next()?.parse().ok());
        let next: u32 = next.unwrap_or_else(|| panic!("{status}"));
        assert_ne!(next, site.server.pid());
        send(next, Signal::TERM);
        wait_until("the new server waits", || site.server.log().contains("waiting for the old server"));
        assert!(runs(next) && runs(site.server.pid()), "{}", site.server.log());
        read_rest(client, &site);
        assert_eq!(site.server.wait(), 0, "{}", site.server.log());
        wait_until("its end", || !runs(next));
    }
}

#[test]
fn upgrades_of_workers_with_connections_lose_no_request() {
    let mut site = Site::start(&["--edge", "off"]);
    let target = Target::Tcp(site.address());
    let load = [Load::start(&target, 4, Manner::KeepAlive), Load::start(&target, 2, Manner::ConnectionPerRequest)];
    for _ in 0..3 {
        load.iter().for_each(|load| load.wait_for_more(100));
        site.upgrade();
    }
    load.iter().for_each(|load| load.wait_for_more(100));
    for load in load {
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
    }
    site.stop();
}

/// Returns what can be seen of a server from outside: the title, the children and the descriptors of the first process, and the
/// status.
fn state(site: &Site) -> (String, Vec<u32>, Vec<String>, String) {
    let pid = site.server.pid();
    let mut below = children(pid);
    below.sort_unstable();
    let status = String::from_utf8(site.ctl("status").stdout).expect("it is text");
    let stays = |line: &&str| ["server", "listening", "edges", "workers"].iter().any(|name| line.starts_with(name));
    let status = status.lines().filter(stays);
    (title(pid), below, descriptors(pid), status.collect())
}

#[test]
fn a_program_that_does_not_come_to_serve_leaves_everything_as_it_was() {
    let manager = ServiceManager::new();
    let notify = manager.address();
    // The new server of a service is no child of the old one, which learns of its end, and of no exit status.
    for (edge, is_service) in [("on", false), ("off", false), ("on", true)] {
        let variables = [("NOTIFY_SOCKET", notify.to_str().expect("it is ASCII"))];
        let variables: &[_] = if is_service { &variables } else { &[] };
        let mut site = Site::start_with(&["--edge", edge, "--upgrade-timeout", "3s"], variables);
        let load = Load::start(&Target::Tcp(site.address()), 4, Manner::KeepAlive);
        load.wait_for_more(50);
        let before = wait_for("all processes", || Some(state(&site)).filter(|(_, below, ..)| below.len() >= 2));
        let end = |status| if is_service { "ended, so this one keeps serving" } else { status };
        let fakes = [
            ("#!/bin/sh\nexit 3\n", end("ended with exit status 3, so this one keeps serving")),
            ("#!/bin/sh\nsleep 0.2\nkill -9 $$\n", end("was killed by signal 9")),
            (
                "#!/bin/sh\nexec sleep 600\n",
                "does not serve after 3 s (--upgrade-timeout) and is stopped; this one keeps serving",
            ),
            ("#!/no/such/interpreter\n", "cannot start "),
            // Its edges and workers cannot start.
            (
                "#!/bin/sh\nexec REAL \"$@\" --user nobody-of-this-name\n",
                end("ended with exit status 1, so this one keeps serving"),
            ),
        ];
        // Each twice in a row.
        for (fake, reason) in fakes.into_iter().flat_map(|fake| [fake, fake]) {
            site.put(fake);
            let why = site.fail();
            assert!(why.contains(reason), "{fake}: {why}");
            wait_until("the same as before", || state(&site) == before);
        }
        // A file that cannot be run.
        site.put("");
        fs::set_permissions(site.folder.file("oribi"), fs::Permissions::from_mode(0o644)).expect("it is ours");
        let why = site.fail();
        assert!(why.contains("cannot start ") && why.contains("Permission denied"), "{why}");
        assert_eq!(state(&site), before);
        site.put_back();
        if is_service {
            assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
            site.server.signal(Signal::TERM);
            assert_eq!(site.server.wait(), 0, "{}", site.server.log());
            continue;
        }
        site.upgrade();
        load.wait_for_more(50);
        if edge == "on" {
            assert_eq!(load.connections(), 4, "{}", site.server.log());
        }
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
        site.stop();
    }
}

/// A program that speaks a later version of the messages between servers, and answers requests by itself.
const OTHER_VERSION: &str = r#"#!/usr/bin/perl
use strict; use warnings; use IO::Socket::INET;
$SIG{PIPE} = 'IGNORE';
my ($link) = $ENV{ORIBI_UPGRADE} =~ /^(\d+):/;
my ($listener) = $ENV{ORIBI_LISTENERS} =~ /^(\d+)/;
open my $master, '+<&=', $link or die;
my $server = IO::Socket::INET->new_from_fd($listener, 'r+') or die;
for my $message ("OribiUpg" . pack('va', 99, 'e'), "OribiUpg" . pack('va', 99, '!'), "Later" x 50, "OribiUpg" . pack('va', 99, 'r')) {
    send($master, $message, 0) or die;
}
my $end = 0;
$SIG{TERM} = sub { exit 0 };
while (1) {
    my $ready = ''; vec($ready, $listener, 1) = 1;
    next if select($ready, undef, undef, undef) < 1;
    my $client = $server->accept or next;
    my $head = '';
    while ($head !~ /\r\n\r\n/) { sysread($client, $head, 4096, length $head) or last }
    syswrite($client, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nother");
}
"#;

#[test]
fn a_program_of_another_version_takes_over_without_the_connections() {
    for edge in ["on", "off"] {
        let mut site = Site::start(&["--edge", edge]);
        let target = Target::Tcp(site.address());
        let load = Load::start(&target, 4, Manner::KeepAlive);
        load.wait_for_more(50);
        site.put(OTHER_VERSION);
        site.server.signal(Signal::USR2);
        site.server.wait_for_log("has taken over; this one finishes what it has");
        let said = site.server.log().contains("they close after their next responses");
        assert_eq!(said, edge == "on", "{}", site.server.log());
        wait_until("the guardian", || title(site.server.pid()).starts_with("oribi: guardian"));
        load.wait_for_more(50);
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
        assert!(get(&target).expect("it serves").text.ends_with("other"));
        site.server.signal(Signal::TERM);
        assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    }
}

/// A script that executes the real program after a moment.
const SLOW: &str = "#!/bin/bash\nsleep 1\nexec -a \"$0\" REAL \"$@\"\n";

#[test]
fn signals_during_an_upgrade_are_obeyed() {
    let mut site = Site::start(&["--edge", "on"]);
    let load = Load::start(&Target::Tcp(site.address()), 4, Manner::KeepAlive);
    load.wait_for_more(50);
    site.put(SLOW);
    site.server.signal(Signal::USR2);
    site.server.wait_for_log("a new server is starting");
    site.server.signal(Signal::USR2);
    site.server.wait_for_log("an upgrade is under way already");
    site.server.signal(Signal::HUP);
    site.server.wait_for_log("all workers have been replaced");
    let present = wait_for("only the new server is left", || site.present());
    assert_eq!(site.server.log().matches("a new server is starting").count(), 1, "{}", site.server.log());
    load.wait_for_more(50);
    // Before the next one serves, the whole server gets the order to stop.
    site.server.signal(Signal::USR2);
    wait_until("another one is starting", || site.server.log().matches("a new server is starting").count() == 2);
    let next = wait_for("it", || children(present).into_iter().find(|child| !title(*child).starts_with("oribi: ")));
    assert_eq!(load.connections(), 4, "{}", site.server.log());
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
    let address = site.address();
    site.stop();
    wait_until("its end", || !runs(next) && !runs(present));
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn in_the_background_the_pid_file_and_the_socket_stay_and_go_with_the_server() {
    let folder = Folder::new();
    let mut command = Command::new(ORIBI);
    command.args(["-D", "--native", "hello", "--listen", "app.sock", "--error-log", "error.log", "--pid-file", "server.pid"]);
    command.args(["--control", "control", "--edge", "on"]).current_dir(folder.file(""));
    assert!(command.status().expect("it was built").success());
    let pid = || fs::read_to_string(folder.file("server.pid")).expect("it is there").trim().parse::<u32>().expect("a number");
    let (first, log) = (pid(), || fs::read_to_string(folder.file("error.log")).expect("it is there"));
    let target = Target::Unix(folder.file("app.sock"));
    let load = Load::start(&target, 4, Manner::KeepAlive);
    let mut before = None;
    for _ in 0..3 {
        load.wait_for_more(50);
        send(pid(), Signal::USR2);
        before = Some(wait_for("only the new server is left", || present_below(first).filter(|pid| Some(*pid) != before)));
        assert_eq!(pid(), first, "others know the server by the number of its first process");
    }
    load.wait_for_more(50);
    assert_eq!(load.connections(), 4, "{}", log());
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", log());
    let errors = fs::canonicalize(folder.file("")).expect("it is there").join("error.log");
    fs::rename(&errors, folder.file("error.log.1")).expect("the folder is ours");
    send(pid(), Signal::USR1);
    for process in [Some(first), before].into_iter().flatten() {
        let has_open = || fs::read_link(format!("/proc/{process}/fd/2")).expect("it runs") == errors;
        wait_until("the new log is open", has_open);
    }
    send(pid(), Signal::TERM);
    wait_until("its end", || !runs(first) && before.is_none_or(|last| !runs(last)));
    for name in ["app.sock", "server.pid", "control"] {
        assert!(!folder.file(name).exists(), "{name} is left:\n{}", log());
    }
}

#[test]
fn a_server_without_a_path_for_orders_is_found_by_its_first_process() {
    let folder = Folder::new();
    let mut command = Command::new(ORIBI);
    command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--edge", "on"]).env("XDG_RUNTIME_DIR", folder.file(""));
    let mut server = Server::run(&mut command);
    server.address();
    for _ in 0..2 {
        for order in ["upgrade", "status"] {
            let mut ctl = Command::new(ORIBI);
            ctl.args(["ctl", order, "--pid", &server.pid().to_string()]).env("XDG_RUNTIME_DIR", folder.file(""));
            let output = ctl.output().expect("it was built");
            assert!(output.status.success(), "{order}: {}{}", String::from_utf8_lossy(&output.stderr), server.log());
        }
        wait_until("only the new server is left", || present_below(server.pid()).is_some());
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn start_server_above_an_upgraded_server_starts_and_stops_it_as_before() {
    let folder = Folder::new();
    let socket: PathBuf = folder.file("socket");
    let probe = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = probe.local_addr().expect("it is bound");
    drop(probe);
    // An earlier server may have encrypted there.
    wire::note(&format!("http://{address}"));
    let mut command = Command::new("start_server");
    command.arg(format!("--port={address}")).arg(format!("--path={}", socket.display()));
    command.args(["--", ORIBI, "--native", "hello", "--edge", "on", "--control", "off"]);
    let mut starter = Server::run(&mut command);
    starter.wait_for_log("listening on unix:");
    let only = || wait_for("one server", || Some(children(starter.pid())).filter(|all| all.len() == 1).map(|all| all[0]));
    let load = [&Target::Tcp(address), &Target::Unix(socket)].map(|target| Load::start(target, 4, Manner::KeepAlive));
    for _ in 0..2 {
        let first = only();
        let mut before = None;
        for _ in 0..2 {
            load.iter().for_each(|load| load.wait_for_more(50));
            send(first, Signal::USR2);
            before = Some(wait_for("the upgrade", || present_below(first).filter(|pid| Some(*pid) != before)));
        }
        load.iter().for_each(|load| load.wait_for_more(50));
        starter.signal(Signal::HUP);
        wait_until("the end of the old server", || !runs(first) && before.is_none_or(|last| !runs(last)));
    }
    load.iter().for_each(|load| load.wait_for_more(50));
    for load in load {
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", starter.log());
    }
    let (last, log) = (only(), starter.log());
    starter.signal(Signal::TERM);
    starter.wait();
    wait_until("the end of the last server", || !runs(last));
    assert_eq!(log.matches("has taken over; this one finishes").count(), 4, "{log}");
}

#[test]
fn listeners_that_a_service_manager_keeps_stay_its_own() {
    let manager = ServiceManager::new();
    let (folder, path) = (Folder::new(), manager.address());
    let (socket, notify) = (folder.file("app.sock"), path.to_str().expect("it is ASCII"));
    let name = socket.to_str().expect("it is ASCII");
    let pid_file = folder.file("pid");
    let arguments = ["--edge", "on", "--listen", name, "--pid-file", pid_file.to_str().expect("it is ASCII")];
    let mut site = Site::start_with(&arguments, &[("NOTIFY_SOCKET", notify), ("FDSTORE", "16")]);
    let stored = manager.hear("FDSTORE");
    assert!(stored.descriptor.is_some());
    manager.hear("READY");
    let load = Load::start(&Target::Unix(socket.clone()), 4, Manner::KeepAlive);
    load.wait_for_more(50);
    site.server.signal(Signal::USR2);
    let next: u32 = manager.hear("MAINPID").value("MAINPID").and_then(|pid| pid.parse().ok()).expect("a number");
    assert_eq!(site.server.wait(), 0, "nobody needs the first process: {}", site.server.log());
    assert_eq!(fs::read_to_string(&pid_file).expect("it is there").trim(), next.to_string());
    load.wait_for_more(50);
    assert_eq!(load.connections(), 4, "{}", site.server.log());
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", site.server.log());
    send(next, Signal::TERM);
    wait_until("its end", || !runs(next));
    assert!(socket.exists(), "the next start finds its clients there");
    assert!(!pid_file.exists());
    drop(stored);
}
