//! Counts system calls with perf while a server is loaded. strace would make the server slower, and a slower server finds more
//! work each time it asks the kernel for events.

use oribi_bench::group::Group;
use oribi_bench::interrupt;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The kernel's event for the beginning of each system call.
const EVENT: &str = "raw_syscalls:sys_enter";
/// The time that perf may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// perf, counting.
pub struct Counter {
    group: Group,
    report: std::path::PathBuf,
}

impl Counter {
    /// Begins to count the calls of some processes and all their threads.
    ///
    /// # Errors
    /// perf is not installed, or is not allowed to count.
    pub fn start(processes: &[i32], cpu: usize, scratch: &Path) -> Result<Counter, String> {
        let report = scratch.join("perf-report");
        let _ = fs::remove_file(&report);
        let list: Vec<String> = processes.iter().map(i32::to_string).collect();
        let mut words: Vec<String> = ["perf", "stat", "-x", ",", "-e", EVENT, "-o"].map(str::to_owned).to_vec();
        words.extend([report.display().to_string(), "-p".to_owned(), list.join(",")]);
        let mut group = Group::start(&words, &[cpu], &scratch.join("perf-output"))?;
        let end = Instant::now() + PATIENCE;
        while !counts(group.pid()) {
            if group.ended().is_some() || Instant::now() > end {
                return Err(format!(
                    "perf cannot count (it needs root or kernel.perf_event_paranoid -1): {}",
                    group.last_words(0)
                ));
            }
            interrupt::sleep(interrupt::STEP)?;
        }
        Ok(Counter { group, report })
    }

    /// Stops counting, and returns the number of calls.
    ///
    /// # Errors
    /// perf does not end, or reports no number.
    pub fn finish(mut self) -> Result<u64, String> {
        self.group.signal_leader(Signal::INT);
        let end = Instant::now() + PATIENCE;
        while self.group.ended().is_none() {
            if Instant::now() > end {
                return Err("perf did not end".to_owned());
            }
            interrupt::sleep(interrupt::STEP)?;
        }
        let text = fs::read_to_string(&self.report).map_err(|e| format!("{}: {e}", self.report.display()))?;
        parse(&text).ok_or_else(|| format!("perf counted nothing: {text:?}"))
    }
}

/// Whether a process has a counter open.
fn counts(process: i32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().contains("perf_event")))
}

/// Reads the line of the event: the count comes first.
fn parse(report: &str) -> Option<u64> {
    report.lines().find(|line| line.contains(EVENT))?.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read() {
        assert_eq!(parse("# started on\n\n631604,,raw_syscalls:sys_enter,501271341,100.00,,\n"), Some(631_604));
        assert_eq!(parse("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n"), None);
        assert_eq!(parse(""), None);
    }
}
