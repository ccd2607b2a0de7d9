//! Black-box tests of a master above a mold. This program is the tests, the master and the mold: see `roles`. It has no test
//! harness, because a process that forks must not have other threads.

mod outliving;
mod refused;
#[allow(dead_code)]
mod service_manager;
mod upgrades;

use client::{Load, Manner, Target, get, get_from};
use oribi_host::Native;
use oribi_server::config::{
    AcceptModel, ControlChoice, EdgeChoice, ListenAddress, LogTarget, Protocol, SandboxChoice, Settings, Timeouts,
    sandbox_choice, value,
};
use oribi_server::process;
use oribi_test_support::{client, roles, scrape, server, status};
use rustix::process::Signal;
use server::{Server, children, runs, send, title, wait_for, wait_until};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn main() {
    match roles::role().as_deref() {
        None => roles::run(&[
            ("a_stop_under_load_loses_nothing", a_stop_under_load_loses_nothing),
            ("a_mold_that_dies_is_replaced_without_a_refusal", a_mold_that_dies_is_replaced_without_a_refusal),
            ("without_its_master_no_process_stays", without_its_master_no_process_stays),
            ("an_app_that_does_not_load_ends_the_first_start", an_app_that_does_not_load_ends_the_first_start),
            ("a_stop_while_the_app_is_loaded_is_quick", a_stop_while_the_app_is_loaded_is_quick),
            (
                "a_stop_is_quick_that_comes_together_with_the_news_that_the_app_serves",
                a_stop_is_quick_that_comes_together_with_the_news_that_the_app_serves,
            ),
            ("what_a_terminal_sends_to_all_stops_once", what_a_terminal_sends_to_all_stops_once),
            ("a_unix_socket_is_removed_by_the_master_only", a_unix_socket_is_removed_by_the_master_only),
            ("signals_reach_the_mold", signals_reach_the_mold),
            ("hup_loads_the_app_anew_and_loses_nothing", hup_loads_the_app_anew_and_loses_nothing),
            (
                "a_generation_that_does_not_load_leaves_the_old_one_serving",
                a_generation_that_does_not_load_leaves_the_old_one_serving,
            ),
            ("what_is_being_loaded_gives_way_to_what_is_loaded_later", what_is_being_loaded_gives_way_to_what_is_loaded_later),
            ("a_touched_file_loads_the_app_anew", a_touched_file_loads_the_app_anew),
            ("usr1_opens_the_logs_of_all_processes_again", usr1_opens_the_logs_of_all_processes_again),
            ("processes_say_what_they_are", processes_say_what_they_are),
            (
                "with_edges_no_connection_closes_whatever_becomes_of_the_app",
                with_edges_no_connection_closes_whatever_becomes_of_the_app,
            ),
            ("an_edge_that_dies_leaves_the_app_as_it_is", an_edge_that_dies_leaves_the_app_as_it_is),
            ("with_edges_no_process_stays_without_its_master", with_edges_no_process_stays_without_its_master),
            ("what_is_sent_to_all_stops_edges_first", what_is_sent_to_all_stops_edges_first),
            ("a_stop_has_one_deadline_for_edges_and_workers", a_stop_has_one_deadline_for_edges_and_workers),
            ("a_mold_that_is_told_to_end_is_replaced_first", a_mold_that_is_told_to_end_is_replaced_first),
            ("a_stop_waits_for_an_app_that_is_loaded_again", a_stop_waits_for_an_app_that_is_loaded_again),
            ("upgrades_under_load_close_no_connection", upgrades::upgrades_under_load_close_no_connection),
            ("connections_of_web_servers_outlive_an_upgrade", upgrades::connections_of_web_servers_outlive_an_upgrade),
            (
                "orders_reach_the_server_before_and_after_an_upgrade",
                upgrades::orders_reach_the_server_before_and_after_an_upgrade,
            ),
            ("upgrades_without_edges_lose_no_request", upgrades::upgrades_without_edges_lose_no_request),
            ("a_program_that_cannot_serve_is_no_upgrade", upgrades::a_program_that_cannot_serve_is_no_upgrade),
            (
                "without_its_first_process_no_upgraded_server_stays",
                upgrades::without_its_first_process_no_upgraded_server_stays,
            ),
            ("a_service_manager_follows_an_upgrade", upgrades::a_service_manager_follows_an_upgrade),
            ("counters_outlive_reloads_and_molds", outliving::counters_outlive_reloads_and_molds),
            ("counters_outlive_upgrades", outliving::counters_outlive_upgrades),
            ("metrics_are_told_without_a_gap", outliving::metrics_are_told_without_a_gap),
            (
                "counters_that_cannot_be_read_begin_anew_and_the_log_says_so",
                outliving::counters_that_cannot_be_read_begin_anew_and_the_log_says_so,
            ),
            ("a_delayed_stop_is_known_to_each_generation", a_delayed_stop_is_known_to_each_generation),
            (
                "a_reload_without_processes_is_given_up_and_says_why",
                refused::a_reload_without_processes_is_given_up_and_says_why,
            ),
        ]),
        Some("mold") => serve(),
        Some("mold without processes") => std::process::exit(process::supervise(&settings(), &refused::Refused::new())),
        Some("mold that waits") => {
            let gate = std::env::var_os("ORIBI_TEST_GATE").expect("the test names it");
            wait_until("the gate", || Path::new(&gate).exists());
            serve();
        }
        Some("mold that loads once") if !is_first_generation() => std::process::exit(7),
        Some("mold that is slow once") if std::env::var("ORIBI_GENERATION").as_deref() == Ok("2") => {
            std::thread::sleep(Duration::from_secs(600));
        }
        Some("mold that loads once" | "mold that is slow once") => serve(),
        Some("failing mold") => std::process::exit(7),
        Some("mold that fails later") if std::env::var_os("ORIBI_TEST_FAILS").is_some_and(|file| Path::new(&file).exists()) => {
            std::process::exit(7);
        }
        Some("mold that fails later") => serve(),
        Some("slow mold") => std::thread::sleep(Duration::from_secs(600)),
        // A new master of a version that cannot read the counters of the one before: it finds nothing where they should be.
        Some(role) if std::env::var_os("ORIBI_TEST_STRANGE_TOTALS").is_some() && std::env::var_os("ORIBI_TOTALS").is_some() => {
            let mut again = roles::program(role);
            panic!("{}", again.env("ORIBI_TOTALS", "1000000").env_remove("ORIBI_TEST_STRANGE_TOTALS").exec());
        }
        Some(role) => {
            let mold = role.strip_prefix("master of ").expect("there are no others");
            std::process::exit(process::master::run(&settings(), roles::program(mold), settings().threads));
        }
    }
}

fn serve() {
    std::process::exit(process::supervise(&settings(), &Native::new("hello")));
}

fn is_first_generation() -> bool {
    std::env::var("ORIBI_GENERATION").as_deref() == Ok("1")
}

fn settings() -> Settings {
    let listen = std::env::var("ORIBI_TEST_SOCKET")
        .map_or_else(|_| ListenAddress::tcp("127.0.0.1", 0), |path| ListenAddress::unix(path, None));
    let respawn_interval = Duration::from_millis(10);
    let error_log = std::env::var("ORIBI_TEST_LOG").map_or(LogTarget::Standard, |path| LogTarget::File(path.into()));
    // The same tests are run for each way in which connections reach lanes: see tests/run.
    let accept = std::env::var("ORIBI_TEST_ACCEPT").map_or(Ok(AcceptModel::Shared), |model| value::accept_model(&model));
    let accept = accept.expect("it is one");
    // And for both shapes of the processes.
    let edge =
        std::env::var("ORIBI_EDGE").map_or(Ok(EdgeChoice::Off), |choice| value::edge_choice(&choice)).expect("it is one");
    let sandbox = std::env::var("ORIBI_EDGE_SANDBOX");
    let edge_sandbox = sandbox.map_or_else(|_| SandboxChoice::Off, |choice| sandbox_choice(&choice).expect("it is one"));
    let restart_file = std::env::var_os("ORIBI_TEST_RESTART_FILE").map(Into::into);
    let app_name = std::env::var("ORIBI_TEST_APP").unwrap_or_default();
    let delay = std::env::var("ORIBI_TEST_DELAY").map_or(0, |seconds| seconds.parse().expect("it is a number"));
    let mut settings = Settings {
        listen: vec![listen],
        workers: 2.into(),
        restart_file,
        respawn_interval,
        error_log,
        accept,
        edge,
        edge_sandbox,
        control: std::env::var_os("ORIBI_TEST_CONTROL").map_or(ControlChoice::Auto, |path| ControlChoice::At(path.into())),
        metrics: std::env::var_os("ORIBI_TEST_METRICS").map(|path| ListenAddress::unix(path, None)),
        protocol: if std::env::var_os("ORIBI_TEST_FASTCGI").is_some() { Protocol::FastCgi } else { Protocol::Http },
        app_name,
        probe: Some("/healthz".to_owned()),
        timeouts: Timeouts { shutdown_delay: Duration::from_secs(delay), ..Settings::default().timeouts },
        ..Settings::default()
    };
    if let Ok(seconds) = std::env::var("ORIBI_TEST_GRACEFUL") {
        settings.timeouts.graceful = Duration::from_secs(seconds.parse().expect("it is a number"));
    }
    oribi_server::log::prepare(&settings).expect("standard error is there");
    settings
}

fn master_of(mold: &str) -> Server {
    roles::start(&format!("master of {mold}"), &[])
}

/// Returns the ids of the mold of a master and of its workers, as soon as the mold has all workers.
fn generation(master: &Server) -> (u32, Vec<u32>) {
    wait_for("a mold with two workers", || {
        let mold = *master.workers().first()?;
        Some((mold, children(mold))).filter(|(_, workers)| workers.len() == 2)
    })
}

fn a_stop_under_load_loses_nothing() {
    for (signal, manner) in [
        (Signal::TERM, Manner::ConnectionPerRequest),
        (Signal::INT, Manner::KeepAlive),
        (Signal::QUIT, Manner::ConnectionPerRequest),
    ] {
        let mut master = master_of("mold");
        let load = Load::start(&Target::Tcp(master.address()), 8, manner);
        load.wait_for_more(500);
        let (mold, workers) = generation(&master);
        master.signal(signal);
        assert_eq!(load.wait(), Vec::<String>::new());
        assert_eq!(master.wait(), 0, "{}", master.log());
        assert!(!runs(mold) && !workers.iter().any(|worker| runs(*worker)));
    }
}

fn a_mold_that_dies_is_replaced_without_a_refusal() {
    let mut master = master_of("mold");
    let target = Target::Tcp(master.address());
    let (mold, workers) = generation(&master);
    let load = Load::start(&target, 8, Manner::ConnectionPerRequest);
    load.wait_for_more(500);
    send(mold, Signal::KILL);
    master.wait_for_log("generation 2 has taken over");
    wait_until("the end of the old workers", || !workers.iter().any(|worker| runs(*worker)));
    load.wait_for_more(500);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert!(master.log().contains("was killed by signal 9"), "{}", master.log());
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn without_its_master_no_process_stays() {
    let mut master = master_of("mold");
    let target = Target::Tcp(master.address());
    let (mold, workers) = generation(&master);
    master.signal(Signal::KILL);
    wait_until("the end of mold and workers", || !runs(mold) && !workers.iter().any(|worker| runs(*worker)));
    assert!(get(&target).is_err(), "the port is free");
}

fn an_app_that_does_not_load_ends_the_first_start() {
    let mut master = master_of("failing mold");
    assert_eq!(master.wait(), 1);
    let log = master.log();
    assert!(log.contains("ended with exit status 7 before the app could serve"), "{log}");
}

fn a_stop_while_the_app_is_loaded_is_quick() {
    let mut master = roles::start("master of slow mold", &[("ORIBI_TEST_DELAY", "600")]);
    let mold = wait_for("a mold", || master.workers().first().copied());
    // Until it has executed its program, the mold is a copy of the master, with the master's handlers.
    wait_until("its program", || {
        let environment = std::fs::read(format!("/proc/{mold}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == b"ORIBI_TEST_ROLE=slow mold")
    });
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
    assert!(!runs(mold));
}

fn a_stop_is_quick_that_comes_together_with_the_news_that_the_app_serves() {
    let folder = server::Folder::new();
    let (socket, gate) = (folder.file("socket"), folder.file("gate"));
    let files = [("ORIBI_TEST_SOCKET", &socket), ("ORIBI_TEST_GATE", &gate)];
    let files = files.map(|(name, path)| (name, path.to_str().expect("it is plain")));
    let mut master = roles::start("master of mold that waits", &[EDGES[0], files[0], files[1], ("ORIBI_TEST_GRACEFUL", "10")]);
    edge_of(&master);
    wait_for("a mold", || master.workers().first().copied());
    // The app cannot serve before the master sleeps, and serves before the master wakes up and reads both at once.
    master.signal(Signal::STOP);
    std::fs::write(&gate, "").expect("the folder is there");
    get(&Target::Unix(socket)).expect("edge and worker serve without the master");
    master.signal(Signal::TERM);
    master.signal(Signal::CONT);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn what_a_terminal_sends_to_all_stops_once() {
    let mut master = master_of("mold");
    let load = Load::start(&Target::Tcp(master.address()), 4, Manner::ConnectionPerRequest);
    load.wait_for_more(200);
    let (mold, workers) = generation(&master);
    for process in workers.into_iter().chain([mold, master.pid()]) {
        send(process, Signal::INT);
    }
    assert_eq!(load.wait(), Vec::<String>::new());
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn a_unix_socket_is_removed_by_the_master_only() {
    let folder = server::Folder::new();
    let path = folder.file("socket");
    let mut master = roles::start("master of mold", &[("ORIBI_TEST_SOCKET", path.to_str().expect("it is plain"))]);
    master.wait_for_log("listening on unix:");
    let (mold, _) = generation(&master);
    send(mold, Signal::TERM);
    master.wait_for_log("generation 2 has taken over");
    get(&Target::Unix(path.clone())).expect("the socket has outlived its first mold");
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
    assert!(!path.exists());
}

fn signals_reach_the_mold() {
    // Where workers have sockets of their own, their number stays.
    let mut master = roles::start("master of mold", &[("ORIBI_TEST_ACCEPT", "shared")]);
    master.address();
    let (mold, _) = generation(&master);
    master.signal(Signal::TTIN);
    wait_until("a third worker", || children(mold).len() == 3);
    master.signal(Signal::TTOU);
    wait_until("its end", || children(mold).len() == 2);
    // A worker that is stopped cannot finish; a second signal to the master ends it nevertheless.
    let worker = children(mold)[0];
    send(worker, Signal::STOP);
    master.signal(Signal::TERM);
    master.wait_for_log("stopping");
    // A signal within a quarter of a second counts as an echo of the first.
    std::thread::sleep(Duration::from_millis(300));
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 1, "{}", master.log());
    assert!(!runs(worker) && !runs(mold));
}

fn hup_loads_the_app_anew_and_loses_nothing() {
    for manner in [Manner::ConnectionPerRequest, Manner::KeepAlive] {
        let mut master = master_of("mold");
        let load = Load::start(&Target::Tcp(master.address()), 8, manner);
        for number in 2..4 {
            let (mold, workers) = generation(&master);
            load.wait_for_more(500);
            master.signal(Signal::HUP);
            master.wait_for_log(&format!("generation {number} has taken over"));
            wait_until("the end of the generation before", || !runs(mold) && !workers.iter().any(|worker| runs(*worker)));
        }
        load.wait_for_more(500);
        assert_eq!(load.stop(), Vec::<String>::new(), "{manner:?}");
        assert!(!master.log().contains("rror"), "{}", master.log());
        master.signal(Signal::TERM);
        assert_eq!(master.wait(), 0, "{}", master.log());
    }
}

fn a_touched_file_loads_the_app_anew() {
    let folder = server::Folder::new();
    let path = folder.file("restart.txt");
    let mut master = roles::start("master of mold", &[("ORIBI_TEST_RESTART_FILE", path.to_str().expect("it is plain"))]);
    master.address();
    generation(&master);
    for number in 2..4 {
        std::fs::write(&path, "").expect("the folder is there");
        master.wait_for_log(&format!("generation {number} has taken over"));
    }
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn a_generation_that_does_not_load_leaves_the_old_one_serving() {
    let mut master = master_of("mold that loads once");
    let target = Target::Tcp(master.address());
    let before = generation(&master);
    let load = Load::start(&target, 4, Manner::KeepAlive);
    for number in [2, 3] {
        master.signal(Signal::HUP);
        master.wait_for_log(&format!("the app could not be reloaded: generation {number} "));
    }
    load.wait_for_more(500);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert_eq!(generation(&master), before);
    assert!(!master.log().contains("generation 4"), "it is not tried again by itself: {}", master.log());
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn what_is_being_loaded_gives_way_to_what_is_loaded_later() {
    let mut master = master_of("mold that is slow once");
    let target = Target::Tcp(master.address());
    let (first, _) = generation(&master);
    master.signal(Signal::HUP);
    let slow = wait_for("a second mold", || master.workers().into_iter().find(|mold| *mold != first));
    wait_until("its program", || {
        let environment = std::fs::read(format!("/proc/{slow}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == b"ORIBI_GENERATION=2")
    });
    get(&target).expect("the first one serves meanwhile");
    master.signal(Signal::HUP);
    master.wait_for_log("generation 3 has taken over");
    wait_until("the end of the others", || !runs(first) && !runs(slow));
    get(&target).expect("the third one serves");
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn usr1_opens_the_logs_of_all_processes_again() {
    let folder = server::Folder::new();
    let (log, old) = (folder.file("log"), folder.file("log.1"));
    let mut master = roles::start("master of mold", &[("ORIBI_TEST_LOG", log.to_str().expect("it is plain"))]);
    let (mold, workers) = generation(&master);
    std::fs::rename(&log, &old).expect("it is there");
    master.signal(Signal::USR1);
    let is_open = |process: &u32| {
        let target = std::fs::read_link(format!("/proc/{process}/fd/2")).expect("it runs");
        target == log
    };
    wait_until("the new log everywhere", || workers.iter().chain([&mold, &master.pid()]).all(is_open));
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0);
}

const EDGES: [(&str, &str); 1] = [("ORIBI_EDGE", "on")];

fn edge_of(master: &Server) -> u32 {
    wait_for("an edge", || master.edges().first().copied())
}

fn with_edges_no_connection_closes_whatever_becomes_of_the_app() {
    let mut master = roles::start("master of mold", &EDGES);
    let target = Target::Tcp(master.address());
    let load = Load::start(&target, 8, Manner::KeepAlive);
    let mut number = 1;
    for signal in [None, Some(Signal::KILL), Some(Signal::TERM), None] {
        let (mold, workers) = generation(&master);
        load.wait_for_more(300);
        match signal {
            None => master.signal(Signal::HUP),
            Some(signal) => send(mold, signal),
        }
        number += 1;
        let said = if signal == Some(Signal::KILL) {
            "was killed by signal 9".to_owned()
        } else {
            format!("generation {number} has taken over")
        };
        master.wait_for_log(&said);
        wait_until("the end of the generation before", || !runs(mold) && !workers.iter().any(|worker| runs(*worker)));
    }
    generation(&master);
    load.wait_for_more(300);
    assert!(load.connections() <= 8, "a connection was closed: {}", load.connections());
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", master.log());
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn an_edge_that_dies_leaves_the_app_as_it_is() {
    let mut master = roles::start("master of mold", &EDGES);
    let target = Target::Tcp(master.address());
    let before = generation(&master);
    for _ in 0..3 {
        let edge = edge_of(&master);
        get(&target).expect("it serves");
        send(edge, Signal::KILL);
        wait_until("another edge", || master.edges().first().is_some_and(|other| *other != edge));
        get(&target).expect("it serves");
    }
    assert_eq!(generation(&master), before);
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn with_edges_no_process_stays_without_its_master() {
    let mut master = roles::start("master of mold", &EDGES);
    let target = Target::Tcp(master.address());
    let ((mold, workers), edge) = (generation(&master), edge_of(&master));
    let load = Load::start(&target, 8, Manner::KeepAlive);
    load.wait_for_more(300);
    master.signal(Signal::KILL);
    wait_until("the end of all", || ![mold, edge].iter().chain(&workers).any(|process| runs(*process)));
    assert!(load.wait().len() <= 8);
    assert!(get(&target).is_err(), "the port is free");
}

fn what_is_sent_to_all_stops_edges_first() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut master = roles::start("master of mold", &EDGES);
        let load = Load::start(&Target::Tcp(master.address()), 8, Manner::ConnectionPerRequest);
        load.wait_for_more(300);
        let ((mold, workers), edge) = (generation(&master), edge_of(&master));
        for process in workers.iter().copied().chain([mold, edge, master.pid()]) {
            send(process, signal);
        }
        assert_eq!(load.wait(), Vec::<String>::new(), "{signal:?}: {}", master.log());
        assert_eq!(master.wait(), 0, "{}", master.log());
        assert!(![mold, edge].iter().chain(&workers).any(|process| runs(*process)));
    }
}

fn a_stop_has_one_deadline_for_edges_and_workers() {
    const GRACEFUL: Duration = Duration::from_secs(4);
    let variables = [EDGES[0], ("ORIBI_TEST_GRACEFUL", "4")];
    // The second one is a supervisor without a master.
    let mut servers = ["master of mold", "mold"].map(|role| roles::start(role, &variables));
    let mut workers = Vec::new();
    let mut clients = Vec::new();
    for (server, has_mold) in servers.iter_mut().zip([true, false]) {
        let address = server.address();
        let own = if has_mold { generation(server).1 } else { server.wait_for_workers(2) };
        own.iter().for_each(|worker| send(*worker, Signal::STOP));
        workers.extend(own);
        let mut client = TcpStream::connect(address).expect("it listens");
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
        clients.push(client);
    }
    let start = Instant::now();
    servers.iter().for_each(|server| server.signal(Signal::TERM));
    for server in &mut servers {
        assert_eq!(server.wait(), 1, "a request was cut off: {}", server.log());
        let taken = start.elapsed();
        // Edges, workers and mold used to have that time each, one after the other.
        assert!(taken >= GRACEFUL && taken < GRACEFUL * 2 - GRACEFUL / 8, "{taken:?}: {}", server.log());
    }
    assert!(!workers.iter().any(|worker| runs(*worker)));
}

fn a_mold_that_is_told_to_end_is_replaced_first() {
    let mut master = roles::start("master of mold", &EDGES);
    let load = Load::start(&Target::Tcp(master.address()), 8, Manner::KeepAlive);
    let (mold, _) = generation(&master);
    load.wait_for_more(300);
    send(mold, Signal::TERM);
    master.wait_for_log("generation 2 has taken over");
    wait_until("its end", || !runs(mold));
    load.wait_for_more(300);
    assert!(load.connections() <= 8);
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", master.log());
}

fn a_stop_waits_for_an_app_that_is_loaded_again() {
    let mut master = roles::start("master of mold", &EDGES);
    let load = Load::start(&Target::Tcp(master.address()), 8, Manner::ConnectionPerRequest);
    load.wait_for_more(300);
    let (mold, _) = generation(&master);
    // The next generation answers the requests in the queue, and the server stops only then.
    send(mold, Signal::KILL);
    master.signal(Signal::TERM);
    assert_eq!(load.wait(), Vec::<String>::new(), "{}", master.log());
    assert_eq!(master.wait(), 0, "{}", master.log());
}

fn a_delayed_stop_is_known_to_each_generation() {
    for edge in ["on", "off"] {
        let mut master = roles::start("master of mold", &[("ORIBI_TEST_DELAY", "600"), ("ORIBI_EDGE", edge)]);
        let target = Target::Tcp(master.address());
        let (mold, _) = generation(&master);
        let is_draining = || get_from(&target, "/healthz").is_ok_and(|answer| answer.text.contains("\"draining\""));
        assert!(!is_draining());
        master.signal(Signal::TERM);
        wait_until("the probe to say so", is_draining);
        // A service manager may signal all processes, and then one of them dies.
        send(mold, Signal::TERM);
        send(mold, Signal::KILL);
        wait_until("the next generation", || generation(&master).0 != mold && get(&target).is_ok());
        wait_until("the probe to say so again", is_draining);
        std::thread::sleep(Duration::from_millis(300));
        master.signal(Signal::TERM);
        assert_eq!(master.wait(), 0, "{}", master.log());
    }
}

fn processes_say_what_they_are() {
    // The variable is in the way of the title, and is still there after it.
    let mut master = roles::start("master of mold", &[("ORIBI_TEST_APP", &"x".repeat(300)), ("ORIBI_EDGE", "off")]);
    master.address();
    let (mold, workers) = generation(&master);
    let app = "x".repeat(300);
    wait_until("the titles", || title(mold) == format!("oribi: mold {app} (generation 1)"));
    assert_eq!(title(master.pid()), format!("oribi: master {app}"));
    let mut titles: Vec<String> = workers.iter().map(|worker| title(*worker)).collect();
    titles.sort();
    assert_eq!(titles, [1, 2].map(|number| format!("oribi: worker {number} {app} (generation 1)")));
    // The mold of the second generation is given the variables that have been moved.
    master.signal(Signal::HUP);
    master.wait_for_log("generation 2 has taken over");
    let next = wait_for("the next mold", || {
        master.workers().into_iter().find(|mold| title(*mold) == format!("oribi: mold {app} (generation 2)"))
    });
    wait_until("the end of the first mold", || !runs(mold));
    let workers = children(next);
    // A request that has begun keeps the worker that has it.
    let mut client = TcpStream::connect(master.address()).expect("it listens");
    client.write_all(b"GET / HTTP/1.1\r\n").expect("it is connected");
    master.signal(Signal::HUP);
    wait_until("a worker that retires", || {
        workers.iter().any(|worker| title(*worker).ends_with(&format!("{app} (generation 2, retiring)")))
    });
    client.write_all(b"Host: x\r\n\r\n").expect("it is connected");
    master.signal(Signal::TERM);
    assert_eq!(master.wait(), 0, "{}", master.log());
}
