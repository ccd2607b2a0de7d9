//! Real-time signals do what docs/signals.md says.

use crate::connection::Connection;
use crate::language::{Language, Site};
use crate::server::{runs, title, wait_for, wait_until};
use crate::turn;
use std::ops::RangeInclusive;
use std::process::Command;

crate::in_every_language!(real_time_signals_of_the_server_do_nothing_and_all_others_end_a_process);

/// The real-time signals that the processes of a server send to each other.
const OWN: RangeInclusive<u32> = 36..=40;
/// All real-time signals that programs may use.
const ALL: RangeInclusive<u32> = 34..=64;

fn send(process: u32, signal: u32) {
    let status = Command::new("sh").args(["-c", "kill -$0 $1", &signal.to_string(), &process.to_string()]).status();
    assert!(status.expect("there is a shell").success(), "signal {signal} to process {process}");
}

/// The signals that a process handles or ignores.
fn survived(process: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let masks = ["SigCgt:", "SigIgn:"].map(|name| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says it");
        u64::from_str_radix(mask.trim(), 16).expect("a number")
    });
    ALL.filter(|signal| (masks[0] | masks[1]) >> (signal - 1) & 1 == 1).collect()
}

/// All processes of a server, with the first words of their titles.
fn processes(site: &Site) -> Vec<(u32, String)> {
    let of = |process: u32| (process, title(process).split(' ').take(2).collect::<Vec<_>>().join(" "));
    let mut all: Vec<(u32, String)> = site.processes().into_iter().chain([site.server.pid()]).map(of).collect();
    all.sort();
    all
}

fn real_time_signals_of_the_server_do_nothing_and_all_others_end_a_process(language: Language) {
    let _turn = turn::beside_others();
    let collector = ["--traces", "--trace-export", "http://127.0.0.1:9"];
    let site = language.start(&[&["--workers", "2"], &collector[..]].concat());
    let first = if language == Language::Lua { "oribi: supervisor" } else { "oribi: master" };
    let kinds = |all: &[(u32, String)]| {
        let has = |kind: &str, count: usize| all.iter().filter(|(_, title)| title == kind).count() == count;
        has(first, 1) && has("oribi: worker", 2) && has("oribi: edge", 1) && has("oribi: exporter", 1)
    };
    let before = wait_for("all processes", || Some(processes(&site)).filter(|all| kinds(all)));
    for (process, title) in &before {
        assert_eq!(survived(*process), OWN.collect::<Vec<_>>(), "{title}");
        OWN.for_each(|signal| send(*process, signal));
    }
    (1..=20).for_each(|number| _ = Connection::open(site.address).get_fast(number));
    assert_eq!(processes(&site), before, "{}", site.server.log());
    for signal in ALL.filter(|signal| !OWN.contains(signal)) {
        // One that has served is replaced at once.
        let worker = Connection::open(site.address).get_fast(u64::from(signal)).worker();
        send(worker, signal);
        wait_until(&format!("its end by signal {signal}"), || !runs(worker));
    }
}
