//! The memory of all workers together.

use crate::server::{descendants, title};

/// Returns the memory in bytes of all workers below `first`, with their share of shared pages (PSS), and the number of these
/// workers.
pub fn of_workers(first: u32) -> (u64, usize) {
    let workers = descendants(first).into_iter().filter(|process| title(*process).starts_with("oribi: worker"));
    let each: Vec<u64> = workers.map(proportional).collect();
    (each.iter().sum(), each.len())
}

/// Returns the memory of a process in bytes; 0 if the process has ended.
fn proportional(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}
