//! The memory of all workers together.

use crate::server::{descendants, title};

/// The memory in bytes of all workers below `first`, shared pages in proportion (PSS), and how many workers these are.
pub fn of_workers(first: u32) -> (u64, usize) {
    let workers = descendants(first).into_iter().filter(|process| title(*process).starts_with("oribi: worker"));
    let each: Vec<u64> = workers.map(proportional).collect();
    (each.iter().sum(), each.len())
}

/// 0 for a process that has ended.
fn proportional(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}
