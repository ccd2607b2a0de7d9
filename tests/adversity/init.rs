//! Tests of a server that is process 1 of a PID namespace, as in a container without an init, and of servers whose first
//! process is killed.

use crate::client::Target;
use crate::pressure::Pressure;
use crate::server::{Server, children, runs, send, title, wait_for, wait_until};
use crate::site::{Edge, Language, Plan, Site, program};
use rustix::process::Signal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

crate::everywhere!(
    process_1_waits_for_orphans_and_obeys,
    process_1_stops_while_the_app_is_loaded,
    whoever_kills_process_1_ends_everything,
    whoever_kills_the_first_process_ends_everything,
);

/// Returns a command that executes its arguments as process 1 of a new PID namespace. This needs root.
fn as_process_1() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program());
    command
}

/// Returns the id that process 1 of that namespace has outside of it.
fn process_1(server: &Server) -> u32 {
    wait_for("process 1 (is this root?)", || children(server.pid()).first().copied())
}

/// The number of ended processes that their parent has not waited for.
fn zombies(parent: u32) -> usize {
    let stats = std::fs::read_dir("/proc").expect("it is always there").filter_map(Result::ok);
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let is_one = |stat: &String| {
        let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' ').collect()).unwrap_or_default();
        fields.first() == Some(&"Z") && fields.get(1).is_some_and(|found| found.parse() == Ok(parent))
    };
    stats.filter(is_one).count()
}

/// All processes below this one.
fn below(process: u32) -> Vec<u32> {
    let mut found = children(process);
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

fn workers_below(process: u32) -> Vec<u32> {
    let mut found = below(process);
    found.retain(|process| title(*process).starts_with("oribi: worker"));
    found.sort_unstable();
    found
}

fn must_be_free(address: SocketAddr) {
    wait_for("the address is free again", || TcpListener::bind(address).ok());
}

fn process_1_waits_for_orphans_and_obeys(language: Language, edge: Edge) {
    for stop in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut site = Plan::below(as_process_1(), language, edge, &[]).start();
        let first = process_1(&site.server);
        assert!(title(first).starts_with("oribi"), "{}", title(first));
        let pressure = Pressure::on(&site, edge);
        let workers = workers_below(first);
        for number in 0..10 {
            assert_eq!(site.get(&format!("/orphan?{number}")), Some(format!("orphan {number}\n")));
        }
        wait_until("nobody is left to be waited for", || zombies(first) == 0 && below(first).len() <= 4);
        assert_eq!(workers_below(first), workers, "orphans are not taken for workers");
        if stop == Signal::TERM {
            // A worker that dies is still known to be one.
            send(workers[0], Signal::KILL);
            wait_until("another worker", || workers_below(first).len() == 2 && !workers_below(first).contains(&workers[0]));
            for signal in [Signal::USR1, Signal::TTIN, Signal::TTOU] {
                send(first, signal);
            }
            let before = workers_below(first);
            let reloads = site.taken_over();
            send(first, Signal::HUP);
            wait_until("the reload", || site.taken_over() > reloads);
            wait_until("two new workers", || {
                let now = workers_below(first);
                now.len() == 2 && now.iter().all(|worker| !before.contains(worker))
            });
            pressure.must_have_lost_only_what_workers_had("while process 1 obeyed");
        } else {
            pressure.must_have_been_perfect("while process 1 waited for orphans");
        }
        send(first, stop);
        assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    }
}

fn process_1_stops_while_the_app_is_loaded(language: Language, edge: Edge) {
    for stop in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let plan = Plan::below(as_process_1(), language, edge, &[]);
        std::fs::write(plan.folder.file("load"), "hang").expect("the folder is writable");
        let (folder, mut server) = plan.run();
        let first = process_1(&server);
        wait_until("the load", || folder.file("loading").exists());
        send(first, stop);
        // The server ends without the event that the app waits for.
        let status = server.wait();
        assert!([0, 1, 128 + stop.as_raw()].contains(&status), "{stop:?}: {status}: {}", server.log());
    }
}

fn whoever_kills_process_1_ends_everything(language: Language, edge: Edge) {
    let mut site = Plan::below(as_process_1(), language, edge, &[]).start();
    let first = process_1(&site.server);
    let rest = below(first);
    send(first, Signal::KILL);
    wait_until("the end", || site.server.exit_status().is_some() && rest.iter().all(|process| !runs(*process)));
    must_be_free(site.address);
}

fn whoever_kills_the_first_process_ends_everything(language: Language, edge: Edge) {
    // When an app is being loaded again: not at all, just begun, in the middle.
    for loads in [None, Some(false), Some(true)] {
        let site = Site::start(language, edge, &["--graceful-timeout", "5s"]);
        let mut rest = site.processes();
        if let Some(in_the_middle) = loads {
            // A process that loads the app, or a worker that does, reads no messages.
            site.set_load(Some("hang"));
            site.server.signal(Signal::HUP);
            wait_until("the load", || {
                site.processes().len() > rest.len() && (!in_the_middle || site.folder.file("loading").exists())
            });
            rest = site.processes();
        }
        site.server.signal(Signal::KILL);
        wait_until("the end", || rest.iter().all(|process| !runs(*process)));
        must_be_free(site.address);
    }
}

/// Starts `plackup` or `rackup` with an app, as a user would from a command line.
fn classic(language: Language, edge: &str, prefix: &[&str]) -> (Server, SocketAddr, crate::server::Folder) {
    let folder = crate::server::Folder::new();
    let host = |path: &str| format!("{}/../../hosts/{path}", env!("CARGO_MANIFEST_DIR"));
    let app = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/adversity/apps").join(name);
    let interpreter = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let mut line: Vec<String> = prefix.iter().map(|&word| word.to_owned()).collect();
    let add = |line: &mut Vec<String>, words: &[&str]| line.extend(words.iter().map(|&word| word.to_owned()));
    if language == Language::Perl {
        add(
            &mut line,
            &[&interpreter("PERL", "/usr/bin/perl"), &format!("-Mblib={}", host("perl")), "-S", "plackup", "-s", "Oribi"],
        );
        add(&mut line, &["-E", "deployment", "--listen", "127.0.0.1:0", "--workers", "2", "--edge", edge]);
        line.push(app("app.psgi").display().to_string());
    } else {
        add(
            &mut line,
            &[&interpreter("RUBY", "/usr/bin/ruby"), &format!("-I{}", host("ruby/lib")), "-S", "rackup", "-s", "oribi"],
        );
        add(&mut line, &["-E", "production", "-O", "listen=127.0.0.1:0", "-O", "workers=2", "-O", &format!("edge={edge}")]);
        line.push(app("config.ru").display().to_string());
    }
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).env("ORIBI_TEST_FOLDER", &folder.0).env("ORIBI_CONTROL", "off");
    let mut server = Server::run(&mut command);
    let address = server.address();
    (server, address, folder)
}

#[test]
fn plackup_and_rackup_are_good_first_processes_too() {
    for (language, edge) in [(Language::Perl, "on"), (Language::Perl, "off"), (Language::Ruby, "on"), (Language::Ruby, "off")] {
        let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
        let (mut server, address, _folder) = classic(language, edge, &unshare);
        let first = process_1(&server);
        let get = |target: &str| crate::client::get_from(&Target::Tcp(address), target).map(|answer| answer.text);
        wait_until("the first answer", || get("/fast?1").is_ok_and(|text| text.ends_with("fast 1\n")));
        let workers = workers_below(first);
        assert_eq!(workers.len(), 2);
        for number in 0..5 {
            assert!(get(&format!("/orphan?{number}")).is_ok_and(|text| text.ends_with(&format!("orphan {number}\n"))));
        }
        wait_until("nobody is left to be waited for", || zombies(first) == 0);
        assert_eq!(workers_below(first), workers);
        send(first, Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());

        let (mut server, address, _folder) = classic(language, edge, &[]);
        let rest = wait_for("two workers", || Some(below(server.pid())).filter(|rest| rest.len() >= 2));
        server.signal(Signal::KILL);
        wait_until("the end", || server.exit_status().is_some() && rest.iter().all(|process| !runs(*process)));
        must_be_free(address);
    }
}

/// start_server opens the sockets. When it is killed, its server continues until it gets the order to stop, as under any other
/// program that lends it sockets. After that, no process is left.
#[test]
fn below_start_server_nothing_is_left_either() {
    let mut command = Command::new("start_server");
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/adversity/apps/app.lua");
    command.args(["--port", "127.0.0.1:0", "--"]).arg(program()).args([app, "--workers", "2"]).env("ORIBI_CONTROL", "off");
    let folder = crate::server::Folder::new();
    let mut server = Server::run(command.env("ORIBI_TEST_FOLDER", &folder.0));
    server.wait_for_log("listening on");
    let address = server.address();
    let first = wait_for("the server", || children(server.pid()).first().copied());
    let rest = wait_for("its processes", || Some(below(first)).filter(|rest| rest.len() >= 3));
    server.signal(Signal::KILL);
    wait_until("the end of start_server", || server.exit_status().is_some());
    crate::client::get_from(&Target::Tcp(address), "/fast?1").expect("it serves on");
    send(first, Signal::KILL);
    wait_until("the end", || rest.iter().all(|process| !runs(*process)));
    must_be_free(address);
}
