//! The I/O model of workers is the one that was asked for, and the log names it.

use crate::client::{Load, Manner, get};
use crate::server::{Server, wait_until};
use crate::{native, tcp};
use oribi_io::Model;
use rustix::process::Signal;

/// The number of descriptors of this kind that a process has.
fn count(process: u32, kind: &str) -> usize {
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| std::fs::read_link(link.path()).ok()).filter(|target| target.as_os_str() == kind).count()
}

/// Whether a process has a descriptor of this kind.
fn has(process: u32, kind: &str) -> bool {
    count(process, kind) > 0
}

fn every_worker_has(server: &mut Server, kind: &str, workers: usize) {
    let target = tcp(server);
    get(&target).expect("it serves");
    for worker in server.wait_for_workers(workers) {
        wait_until(kind, || has(worker, kind));
    }
}

/// Loads a server while its workers are replaced again and again, because of `--max-requests` and HUP. Stops the server after
/// that.
fn load_and_reload(mut server: Server, manner: Manner) {
    let load = Load::start(&tcp(&mut server), 4, manner);
    load.wait_for_more(2000);
    server.signal(Signal::HUP);
    load.wait_for_more(1000);
    assert_eq!(load.stop(), [""; 0], "{}", server.log());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn io_uring_is_what_workers_use_when_told_so() {
    for threads in ["1", "2"] {
        let mut server = native(&["--io", "io_uring", "--workers", "2", "--threads", threads, "--edge", "off"]);
        every_worker_has(&mut server, "anon_inode:[io_uring]", 2);
        server.wait_for_log("I/O by io_uring, as asked for");
        for worker in server.workers() {
            // Each lane has one for what wakes it, and none for its connections.
            assert!(count(worker, "anon_inode:[eventpoll]") <= threads.parse().unwrap_or(0), "{}", server.log());
        }
    }
}

#[test]
fn epoll_is_what_workers_use_otherwise() {
    for io in ["epoll", "auto"] {
        let mut server = native(&["--workers", "1", "--io", io, "--log-level", "debug"]);
        every_worker_has(&mut server, "anon_inode:[eventpoll]", 1);
        server.wait_for_log("I/O by epoll");
    }
}

#[test]
fn nothing_is_lost_over_any_model_when_workers_are_replaced_and_the_server_stops() {
    // A worker that is alone accepts more connections ahead of being asked for them than one that shares a listener.
    let cases = [(Manner::KeepAlive, "2"), (Manner::ConnectionPerRequest, "2"), (Manner::ConnectionPerRequest, "1")];
    for model in Model::built_in().map(Model::name) {
        for (manner, workers) in cases {
            let arguments = ["--io", model, "--workers", workers, "--max-requests", "300", "--respawn-interval", "0"];
            let mut server = native(&arguments);
            server.wait_for_log(&format!("I/O by {model}"));
            load_and_reload(server, manner);
        }
    }
}

#[cfg(feature = "libevent")]
mod libevent {
    use super::*;
    use std::process::Command;

    /// Starts `oribi --native hello --io libevent`, with these environment variables of libevent.
    fn over_libevent(variables: &[&str], arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--io", "libevent"]).args(arguments);
        Server::run(command.envs(variables.iter().map(|variable| (variable, "1"))))
    }

    #[test]
    fn is_what_workers_use_when_told_so() {
        for (threads, lanes) in [("1", 2), ("2", 4)] {
            // libevent itself says, for every event base that is made, how it asks the system.
            let mut server = over_libevent(&["EVENT_SHOW_METHOD"], &["--workers", "2", "--threads", threads]);
            server.wait_for_log("I/O by libevent (epoll, edge-triggered), as asked for");
            get(&tcp(&mut server)).expect("it serves");
            // Behind an edge, workers have no connections.
            let lanes = if server.edges().is_empty() { lanes } else { server.edges().len() };
            wait_until("an event base for each lane that has connections, and one to try", || {
                server.log().matches("libevent using: epoll").count() == lanes + 1
            });
        }
    }

    #[test]
    fn loses_nothing_by_poll_when_workers_are_replaced_and_the_server_stops() {
        for manner in [Manner::KeepAlive, Manner::ConnectionPerRequest] {
            let arguments = ["--workers", "2", "--max-requests", "300", "--respawn-interval", "0"];
            let mut server = over_libevent(&["EVENT_NOEPOLL"], &arguments);
            server.wait_for_log("I/O by libevent (poll, level-triggered), as asked for");
            load_and_reload(server, manner);
        }
    }
}
