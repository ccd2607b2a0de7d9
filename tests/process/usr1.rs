//! USR1: opening the logs again, or, with an interval between workers, stopping slowly.

use crate::client::{Load, Manner, Target, get, get_from};
use crate::server::{Folder, cpu_ticks, runs, send, wait_until};
use crate::{native, tcp};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn all_processes_open_their_logs_again() {
    let folder = Folder::new();
    let (access, error) = (folder.file("access"), folder.file("error"));
    let (old_access, old_error) = (folder.file("access.1"), folder.file("error.1"));
    let logs = [("--access-log", &access), ("--error-log", &error)].map(|(flag, path)| [flag, path.to_str().expect("plain")]);
    for threads in ["1", "2"] {
        let arguments = [&["--workers", "2", "--threads", threads], logs.as_flattened()].concat();
        let server = native(&arguments);
        let address = crate::server::wait_for("its address", || {
            let text = text(&error);
            let said = text.split("listening on ").nth(1)?.split(' ').next()?;
            crate::wire::note(said);
            Some(said.split("://").nth(1)?.parse().expect("it is an address"))
        });
        let target = Target::Tcp(address);
        let workers = server.wait_for_workers(2);
        get_from(&target, "/before").expect("it serves");
        wait_until("a line", || text(&access).contains("/before"));
        std::fs::rename(&access, &old_access).expect("it is there");
        std::fs::rename(&error, &old_error).expect("it is there");
        server.signal(Signal::USR1);
        wait_until("the new error log", || text(&error).contains("the log files are opened again"));
        // Each lane does it in its next turn; one that does not would write to the old file for ever.
        wait_until("the new access log of all lanes", || {
            get_from(&target, "/after").expect("it serves");
            let open = |worker: &u32| descriptors(*worker);
            let all: Vec<String> = workers.iter().flat_map(open).collect();
            !all.iter().any(|name| name.ends_with("access.1") || name.ends_with("error.1"))
        });
        get_from(&target, "/later").expect("it serves");
        wait_until("a line", || text(&access).contains("/later"));
        assert!(!text(&old_access).contains("/later"));
        assert_eq!(server.workers().len(), 2);
        for file in [&access, &error, &old_access, &old_error] {
            std::fs::remove_file(file).expect("it is there");
        }
    }
}

/// The files that a process has open.
fn descriptors(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").filter_map(Result::ok);
    entries.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned())).collect()
}

#[test]
fn with_an_interval_one_worker_after_the_other_leaves_and_nothing_is_lost() {
    let mut server = native(&["--workers", "3", "--spawn-interval", "100ms", "--accept", "shared"]);
    let target = tcp(&mut server);
    let mut before = server.wait_for_workers(3);
    before.sort_unstable();
    let load = Load::start(&target, 8, Manner::ConnectionPerRequest);
    load.wait_for_more(500);
    server.signal(Signal::USR1);
    server.wait_for_log("stopping slowly: 3 workers, one every 0.1 s");
    assert_eq!(load.wait(), Vec::<String>::new());
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn workers_with_sockets_of_their_own_leave_together() {
    let mut server = native(&["--workers", "2", "--spawn-interval", "2s", "--accept", "own", "--edge", "off"]);
    get(&tcp(&mut server)).expect("it serves");
    server.wait_for_workers(2);
    server.signal(Signal::USR1);
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(!server.log().contains("stopping slowly"), "{}", server.log());
}

#[test]
fn the_others_serve_until_it_is_their_turn_and_waiting_costs_nothing() {
    let interval = Duration::from_secs(2);
    let mut server = native(&["--workers", "2", "--spawn-interval", "2s", "--accept", "shared"]);
    let target = tcp(&mut server);
    let mut workers = server.wait_for_workers(2);
    workers.sort_unstable();
    let (began, used) = (Instant::now(), cpu_ticks(server.pid()));
    server.signal(Signal::USR1);
    wait_until("the end of the first", || !runs(workers[0]));
    get(&target).expect("the other one serves");
    server.signal(Signal::USR1);
    let mut used_at_last = used;
    wait_until("the end of the second", || {
        used_at_last = used_at_last.max(cpu_ticks(server.pid()));
        !runs(workers[1])
    });
    assert!(began.elapsed() >= interval, "the second one was told too early");
    // A loop without a pause would use two hundred.
    assert!(used_at_last - used < 50, "{} ticks", used_at_last - used);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn without_workers_it_ends_at_once() {
    let mut server = native(&["--workers", "1", "--spawn-interval", "1h"]);
    server.address();
    let worker = server.wait_for_workers(1)[0];
    send(worker, Signal::KILL);
    server.wait_for_log("was killed by signal 9");
    server.signal(Signal::USR1);
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(!runs(worker));
}
