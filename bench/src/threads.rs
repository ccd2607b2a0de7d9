//! The kernel's data about each thread of a group of processes: running time in nanoseconds, and the number of switches.
//!
//! `/proc/PID/stat` counts in ticks of a hundredth of a second, which is too coarse for measurements shorter than seconds.

use crate::process_tree::{self, Cpu};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The most by which the ticks of a process may exceed the sum of its threads' times, because each figure is rounded to a tick.
const TICKS: Duration = Duration::from_millis(30);

/// The threads of a group at one moment.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    threads: BTreeMap<(i32, i32), Thread>,
    /// The group's time in ticks, which includes threads that have ended.
    ticks: Cpu,
}

/// One thread's counters since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Thread {
    /// Nanoseconds on a CPU, in user space and in the kernel.
    running: u64,
    /// Times it waited for something.
    voluntary: u64,
    /// Times it had to leave the CPU to another thread.
    involuntary: u64,
}

/// The resources that a group has used between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On CPUs, in user space and in the kernel.
    pub running: Duration,
    /// Context switches because a thread waited.
    pub voluntary: u64,
    /// Context switches because another thread's turn had come.
    pub involuntary: u64,
    /// The running time of each thread that ran, the longest first.
    pub by_thread: Vec<Duration>,
}

/// All threads of the process `root`, its descendants, and the group it leads.
pub fn threads(root: i32) -> Threads {
    let mut threads = BTreeMap::new();
    for member in process_tree::members(root) {
        let Ok(entries) = fs::read_dir(format!("/proc/{}/task", member.pid)) else { continue };
        for entry in entries.flatten() {
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            if let Some(thread) = parse(&read("schedstat"), &read("status")) {
                threads.insert((member.pid, number), thread);
            }
        }
    }
    Threads { threads, ticks: process_tree::cpu(root) }
}

impl Threads {
    /// The resources used since `before`.
    pub fn since(&self, before: &Threads) -> Spent {
        let mut spent = Spent::default();
        for (name, now) in &self.threads {
            let then = before.threads.get(name).copied().unwrap_or_default();
            let running = Duration::from_nanos(now.running.saturating_sub(then.running));
            spent.running += running;
            spent.voluntary += now.voluntary.saturating_sub(then.voluntary);
            spent.involuntary += now.involuntary.saturating_sub(then.involuntary);
            if !running.is_zero() {
                spent.by_thread.push(running);
            }
        }
        spent.by_thread.sort_unstable_by(|a, b| b.cmp(a));
        // A thread that has ended in between took its nanoseconds along; the ticks still have it.
        let ticks = self.ticks.since(before.ticks).total();
        if ticks > spent.running + TICKS {
            spent.running = ticks;
        }
        spent
    }
}

/// Takes `/proc/PID/task/TID/schedstat` and `status` apart.
fn parse(schedstat: &str, status: &str) -> Option<Thread> {
    let count = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Some(Thread {
        running: schedstat.split_whitespace().next()?.parse().ok()?,
        voluntary: count("voluntary_ctxt_switches:")?,
        involuntary: count("nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(threads: &[(i32, u64)], ticks: u64) -> Threads {
        let thread = |running| Thread { running, voluntary: running / 10, involuntary: 0 };
        let threads = threads.iter().map(|(number, running)| ((1, *number), thread(*running))).collect();
        Threads { threads, ticks: Cpu { user: Duration::from_millis(ticks), system: Duration::ZERO } }
    }

    #[test]
    fn the_files_of_the_kernel_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(parse("1234 56 7\n", status), Some(Thread { running: 1234, voluntary: 7, involuntary: 3 }));
        assert_eq!(parse("", status), None);
        assert_eq!(parse("1234 56 7", ""), None);
    }

    #[test]
    fn new_threads_count_from_nothing_and_the_longest_comes_first() {
        let spent = at(&[(1, 500), (2, 900), (3, 20)], 0).since(&at(&[(1, 400), (3, 20)], 0));
        assert_eq!(spent.by_thread, [900, 100].map(Duration::from_nanos));
        assert_eq!((spent.running, spent.voluntary), (Duration::from_nanos(1000), 100));
    }

    #[test]
    fn the_time_of_a_thread_that_ended_is_in_the_ticks() {
        let spent = at(&[(1, 100)], 500).since(&at(&[(1, 0), (2, 77)], 100));
        assert_eq!(spent.running, Duration::from_millis(400));
    }

    #[test]
    fn a_thread_finds_its_own_time() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        assert!(!threads(own).threads.is_empty());
    }
}
