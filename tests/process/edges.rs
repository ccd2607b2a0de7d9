//! Edges: the processes that own connections, their state when others die, and the reports to other processes.

use crate::client::{Load, Manner, Target, get, get_from};
use crate::server::{Folder, Server, runs, send, title, wait_for, wait_until};
use crate::wire::Wire;
use crate::{native_on, tcp};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::process::Command;
use std::time::Duration;

const NOTHING: [&str; 0] = [];

/// `oribi --native hello --edge on` on a port of its own.
fn native(arguments: &[&str]) -> Server {
    native_on("127.0.0.1:0", &[&["--edge", "on"], arguments].concat())
}

/// Returns the sockets that a process has open, without those whose other end is in another process of the same server.
fn internet_sockets(process: u32) -> Vec<String> {
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default());
    let known: Vec<&str> =
        tables.iter().flat_map(|table| table.lines()).filter_map(|line| line.split_whitespace().nth(9)).collect();
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok()?.to_str().map(str::to_owned));
    let sockets = targets.filter_map(|target| Some(target.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()));
    sockets.filter(|socket| known.contains(&socket.as_str())).collect()
}

fn one_edge(server: &Server) -> u32 {
    wait_for("an edge", || server.edges().first().copied())
}

#[test]
fn only_edges_have_listeners_and_connections() {
    let mut server = native(&["--workers", "2", "--threads", "2"]);
    let Target::Tcp(address) = tcp(&mut server) else { unreachable!("it listens on TCP") };
    let mut client = Wire::of_http1(address).expect("it listens");
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
    assert!(client.read(&mut [0; 1024]).expect("an answer") > 0);
    for worker in server.wait_for_workers(2) {
        assert_eq!(internet_sockets(worker), NOTHING, "{}", title(worker));
    }
    let edge = one_edge(&server);
    assert_eq!(internet_sockets(edge).len(), 2, "the listener and a connection");
    assert_eq!(title(edge), "oribi: edge");
    server.wait_for_log("connections belong to 1 edge");
    server.wait_for_log(&format!("edge started (pid {edge})"));
}

#[test]
fn several_edges_share_the_listeners_or_have_their_own() {
    for (model, said) in [("shared", ""), ("own", "has a socket for each of 2 edges")] {
        let mut server = native(&["--workers", "2", "--edges", "2", "--accept", model]);
        let target = tcp(&mut server);
        let edges = wait_for("two edges", || Some(server.edges()).filter(|edges| edges.len() == 2));
        let mut titles: Vec<String> = edges.iter().map(|edge| title(*edge)).collect();
        titles.sort();
        assert_eq!(titles, ["oribi: edge 1", "oribi: edge 2"]);
        let load = Load::start(&target, 16, Manner::ConnectionPerRequest);
        load.wait_for_more(1000);
        assert_eq!(load.stop(), NOTHING);
        assert!(server.log().contains(said), "{}", server.log());
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        assert!(edges.iter().all(|edge| !runs(*edge)));
    }
}

#[test]
fn a_worker_that_is_killed_costs_at_most_what_it_had() {
    let mut server = native(&["--workers", "2", "--err-respawn-interval", "10ms"]);
    let load = Load::start(&tcp(&mut server), 8, Manner::KeepAlive);
    let mut killed = 0;
    for _ in 0..5 {
        load.wait_for_more(300);
        let workers = server.wait_for_workers(2);
        send(workers[0], Signal::KILL);
        killed += 1;
        wait_until("its replacement", || server.workers().len() == 2 && !server.workers().contains(&workers[0]));
    }
    load.wait_for_more(300);
    assert!(load.connections() <= 8, "a connection was closed: {}", load.connections());
    let lost = load.stop();
    assert!(lost.len() <= killed && lost.iter().all(|status| status == "HTTP/1.1 502 Bad Gateway"), "{lost:?}");
}

#[test]
fn an_edge_that_is_killed_is_replaced_and_no_worker_is() {
    let mut server = native(&["--workers", "2"]);
    let target = tcp(&mut server);
    let workers = server.wait_for_workers(2);
    for _ in 0..3 {
        let edge = one_edge(&server);
        let load = Load::start(&target, 8, Manner::KeepAlive);
        load.wait_for_more(300);
        send(edge, Signal::KILL);
        wait_until("another edge", || server.edges().first().is_some_and(|other| *other != edge));
        load.wait_for_more(300);
        // Each client had at most one request under way.
        assert!(load.stop().len() <= 8);
        let mut after = server.workers();
        after.sort_unstable();
        assert_eq!(after, workers.iter().copied().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>());
    }
    server.wait_for_log("was killed by signal 9");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn an_edge_that_cannot_take_the_place_of_another_is_tried_again() {
    let folder = Folder::new();
    let files = folder.file("files");
    std::fs::create_dir(&files).expect("it is writable");
    let mut server = native(&["--static", &format!("/files={}", files.display())]);
    let target = tcp(&mut server);
    get(&target).expect("it answers");
    std::fs::remove_dir(&files).expect("it is empty");
    send(one_edge(&server), Signal::KILL);
    wait_until("two ends", || server.log().matches("ended with exit status 1").count() >= 2);
    std::fs::create_dir(&files).expect("it is writable");
    wait_until("an answer", || get(&target).is_ok());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// Returns how often a process has gone to sleep because it waited for something.
fn sleeps(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn a_worker_that_waits_for_content_from_an_edge_that_is_killed_goes_on_and_has_nothing_to_complain_of() {
    let mut server = native(&["--workers", "1", "--probe", "/healthz"]);
    let target = tcp(&mut server);
    let Target::Tcp(address) = target else { unreachable!("it listens on TCP") };
    let (worker, edge) = (server.wait_for_workers(1)[0], one_edge(&server));
    send(worker, Signal::STOP);
    let mut client = Wire::of_http1(address).expect("it listens");
    client.write_all(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n").expect("it is connected");
    client.write_all(&[b'x'; 200_000]).expect("it is connected");
    wait_until("it is queued", || get_from(&target, "/healthz").is_ok_and(|answer| answer.text.contains("\"queue\":1")));
    send(edge, Signal::STOP);
    let before = sleeps(worker);
    send(worker, Signal::CONT);
    // A worker that rests sleeps once; one that waits for a descriptor checks again and again whether it is refused.
    wait_until("the worker asks for the content", || sleeps(worker) >= before + 5);
    send(edge, Signal::KILL);
    wait_until("another edge", || server.edges().first().is_some_and(|other| *other != edge));
    assert!(get(&target).expect("an answer").text.starts_with("HTTP/1.1 200 "));
    assert_eq!(server.workers(), [worker]);
    assert!(!server.log().contains(&format!("[error] [{worker}]")), "{}", server.log());
}

#[test]
fn workers_that_are_replaced_close_no_connection() {
    for arguments in [&["--workers", "2", "--max-requests", "200"][..], &["--workers", "2"]] {
        let mut server = native(arguments);
        let target = tcp(&mut server);
        let before = server.wait_for_workers(2);
        let load = Load::start(&target, 8, Manner::KeepAlive);
        load.wait_for_more(500);
        if arguments.len() == 2 {
            server.signal(Signal::HUP);
            server.wait_for_log("all workers have been replaced");
        }
        wait_until("other workers", || !before.iter().any(|worker| runs(*worker)));
        load.wait_for_more(3000);
        assert!(load.connections() <= 8, "a connection was closed: {}", load.connections());
        assert_eq!(load.stop(), NOTHING);
        assert!(!server.log().contains("rror"), "{}", server.log());
    }
}

#[test]
fn signals_to_single_workers_and_edges_lose_nothing() {
    let mut server = native(&["--workers", "2"]);
    let target = tcp(&mut server);
    let before = server.wait_for_workers(2);
    let edge = one_edge(&server);
    let load = Load::start(&target, 8, Manner::KeepAlive);
    load.wait_for_more(300);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::TTIN] {
        send(edge, signal);
    }
    load.wait_for_more(300);
    for worker in &before {
        send(*worker, Signal::TERM);
    }
    wait_until("other workers", || server.workers().len() == 2 && !before.iter().any(|worker| runs(*worker)));
    load.wait_for_more(300);
    assert!(load.connections() <= 8, "a connection was closed: {}", load.connections());
    assert_eq!(server.edges(), [edge]);
    assert_eq!(load.stop(), NOTHING);
}

#[test]
fn a_stop_loses_nothing_whoever_else_is_told() {
    for (signal, everybody) in [(Signal::TERM, false), (Signal::TERM, true), (Signal::INT, true), (Signal::QUIT, false)] {
        let mut server = native(&["--workers", "2"]);
        let target = tcp(&mut server);
        let workers = server.wait_for_workers(2);
        let load = Load::start(&target, 8, Manner::ConnectionPerRequest);
        load.wait_for_more(500);
        if everybody {
            workers.iter().chain(&server.edges()).for_each(|process| send(*process, signal));
        }
        server.signal(signal);
        assert_eq!(load.wait(), NOTHING, "{signal:?} {everybody}: {}", server.log());
        assert_eq!(server.wait(), 0, "{}", server.log());
        assert!(!workers.iter().any(|worker| runs(*worker)));
    }
}

#[test]
fn a_second_signal_ends_edges_and_workers_at_once() {
    let mut server = native(&["--workers", "1"]);
    let Target::Tcp(address) = tcp(&mut server) else { unreachable!("it listens on TCP") };
    let workers = server.wait_for_workers(1);
    let mut client = Wire::of_http1(address).expect("it listens");
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf").expect("it is connected");
    get(&Target::Tcp(address)).expect("behind this answer, the other request has been read");
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    // A signal within a quarter of a second counts as an echo of the first.
    std::thread::sleep(Duration::from_millis(300));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 1, "{}", server.log());
    assert!(server.log().contains("told to stop a second time"), "{}", server.log());
    wait_until("the end of the worker", || !runs(workers[0]));
}

#[test]
fn without_its_supervisor_no_process_stays() {
    let mut server = native(&["--workers", "2"]);
    let target = tcp(&mut server);
    let (workers, edges) = (server.wait_for_workers(2), server.edges());
    let load = Load::start(&target, 8, Manner::KeepAlive);
    load.wait_for_more(500);
    server.signal(Signal::KILL);
    wait_until("the end of all", || !workers.iter().chain(&edges).any(|process| runs(*process)));
    // No process is left to turn new connections away, so each client may have connected too late once.
    let lost = load.wait();
    assert!(lost.len() <= 8, "{lost:?}");
    assert!(get(&target).is_err(), "the port is free");
}

#[test]
fn a_unix_socket_belongs_to_the_edges_too() {
    let folder = Folder::new();
    let path = folder.file("socket");
    let mut server = native_on(&path.display().to_string(), &["--edge", "on", "--workers", "2"]);
    server.wait_for_log("listening on");
    assert!(std::fs::symlink_metadata(&path).expect("it is there").file_type().is_socket());
    let load = Load::start(&Target::Unix(path.clone()), 8, Manner::KeepAlive);
    load.wait_for_more(500);
    server.signal(Signal::TERM);
    assert_eq!(load.wait(), NOTHING);
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(!path.exists());
}

#[test]
fn logs_are_opened_again_by_edges_too() {
    let folder = Folder::new();
    let access = folder.file("access");
    let mut server = native(&["--workers", "1", "--access-log", &access.display().to_string()]);
    let target = tcp(&mut server);
    get(&target).expect("it serves");
    wait_until("a line", || std::fs::read_to_string(&access).is_ok_and(|text| text.lines().count() == 1));
    std::fs::rename(&access, folder.file("access.1")).expect("it is there");
    server.signal(Signal::USR1);
    wait_until("the new file", || access.exists());
    get(&target).expect("it serves");
    wait_until("a line", || std::fs::read_to_string(&access).is_ok_and(|text| text.lines().count() == 1));
}

#[test]
fn sockets_of_another_program_are_taken_over() {
    let mut command = Command::new("start_server");
    command.args(["--port=127.0.0.1:0", "--", env!("CARGO_BIN_EXE_oribi"), "--native", "hello", "--edge", "on"]);
    let mut server = Server::run(command.args(["--workers", "2"]));
    let target = tcp(&mut server);
    let load = Load::start(&target, 8, Manner::KeepAlive);
    load.wait_for_more(500);
    // The next server starts, and then the first one stops.
    server.signal(Signal::HUP);
    wait_until("two servers have started", || server.log().matches("listening on").count() >= 2);
    load.wait_for_more(500);
    assert_eq!(load.stop(), NOTHING, "{}", server.log());
    server.signal(Signal::TERM);
    server.wait();
}
