//! Workers are replaced because of their age or their memory, or one by one because of a reload, and no client notices.

use crate::language::{Language, Site};
use crate::load::{Load, Plan, Question};
use crate::server::wait_until;
use crate::turn;
use rustix::process::Signal;
use std::time::Duration;

crate::in_every_language!(
    a_leaking_app_stays_within_its_limit,
    old_workers_are_replaced,
    a_rolling_reload_needs_one_worker_more
);

mod perl_alone {
    #[test]
    fn the_old_worker_goes_first_if_it_is_to() {
        super::the_old_worker_goes_first_if_it_is_to(super::Language::Perl);
    }

    #[test]
    fn a_rolling_reload_that_fails_is_rolled_back() {
        super::a_rolling_reload_that_fails_is_rolled_back(super::Language::Perl);
    }
}

/// The memory limit of a worker, in bytes: far more than an app needs that has just started.
const LIMIT: u64 = 128 << 20;

/// A load of so few requests a second that a replacement is ready before the old worker has become much larger.
fn leaking() -> Plan {
    Plan { connections: 8, pace: Some(Duration::from_millis(4)), requests: None, question: Question::leak }
}

fn steadily() -> Plan {
    Plan { connections: 16, pace: None, requests: None, question: Question::fast }
}

/// Returns the memory of a process in bytes, with its share of shared pages (PSS); 0 if the process has ended.
pub fn proportional(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Waits until the log has reported `count` replacements of workers because of their memory. Returns the most memory of all
/// workers together, in bytes, and the most workers, that were seen at one time.
fn watch(site: &Site, count: usize) -> (u64, usize) {
    let (mut most_memory, mut most_workers) = (0, 0);
    wait_until("workers are replaced", || {
        let workers = site.workers();
        most_memory = most_memory.max(workers.iter().map(|worker| proportional(*worker)).sum());
        most_workers = most_workers.max(workers.len());
        site.server.log().matches("--max-memory").count() >= count
    });
    (most_memory, most_workers)
}

fn a_leaking_app_stays_within_its_limit(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--max-memory", "128m"]);
    let load = Load::start(site.address, leaking());
    let (memory, _) = watch(&site, 4);
    load.stop().must_be_perfect("requests to an app that leaks");
    assert!(memory > LIMIT, "it has leaked: {memory}");
    assert!(memory <= 4 * LIMIT, "old and new workers had {memory} bytes together");
}

fn the_old_worker_goes_first_if_it_is_to(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--max-memory", "128m", "--replace-order", "old-first"]);
    let load = Load::start(site.address, leaking());
    let (_, workers) = watch(&site, 4);
    load.stop().must_be_perfect("requests while old workers go first");
    assert_eq!(workers, 2, "at the same time");
}

fn old_workers_are_replaced(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--max-lifetime", "700ms"]);
    let load = Load::start(site.address, steadily());
    wait_until("workers are replaced", || site.server.log().matches("--max-lifetime").count() >= 4);
    load.stop().must_be_perfect("requests while workers are replaced");
}

fn a_rolling_reload_needs_one_worker_more(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "3", "--reload-mode", "rolling"]);
    let load = Load::start(site.address, steadily());
    load.wait_for_more(100);
    let before = site.workers();
    site.server.signal(Signal::HUP);
    let mut most = 0;
    wait_until("new workers only", || {
        let now = site.workers();
        most = most.max(now.len());
        now.len() == 3 && now.iter().all(|worker| !before.contains(worker))
    });
    load.stop().must_be_perfect("requests during a rolling reload");
    assert!(most <= 4, "{most} workers at the same time:\n{}", site.server.log());
}

fn a_rolling_reload_that_fails_is_rolled_back(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "3", "--reload-mode", "rolling", "--boot-request", "/boot"]);
    let load = Load::start(site.address, steadily());
    load.wait_for_more(100);
    site.set_boot(Some("once"));
    site.server.signal(Signal::HUP);
    wait_until("it fails", || site.server.log().contains("the app could not be reloaded"));
    site.set_boot(None);
    let of_first = |worker: &u32| crate::server::title(*worker).contains("generation 1");
    wait_until("the first generation is whole again", || {
        let now = site.workers();
        now.len() == 3 && now.iter().all(of_first)
    });
    load.stop().must_be_perfect("requests during a reload that fails");
}
