//! The CPU and memory usage of processes, from /proc: this process reads it, so that the server need not.

use rustix::param::clock_ticks_per_second;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// The interval at which the memory of a process is read. The kernel walks through all pages of the process for this, which
/// takes about ten milliseconds for a gigabyte.
const MEMORY_EVERY: Duration = Duration::from_secs(5);

/// The usage of a process. A value is `None` if it is not yet known, or if the kernel refuses to report it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Hundredths of one processor.
    pub cpu: Option<f64>,
    /// Bytes, each shared page divided by the number of its users (PSS).
    pub memory: Option<u64>,
}

/// The earlier readings of the processes.
#[derive(Debug, Default)]
pub struct Resources {
    seen: HashMap<u32, UsageSample>,
}

#[derive(Debug)]
struct UsageSample {
    at: Instant,
    /// The time at which the process started, in the kernel's units. It shows whether another process now has the same process
    /// id.
    began: u64,
    ticks: u64,
    memory: Option<(Instant, u64)>,
}

impl Resources {
    /// Reads the usage of these processes.
    pub fn look(&mut self, pids: &[u32]) -> HashMap<u32, Usage> {
        let mut before = std::mem::take(&mut self.seen);
        let mut usage = HashMap::new();
        for pid in pids {
            let Some((ticks, began)) = fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref().and_then(times) else {
                continue;
            };
            let now = Instant::now();
            let before = before.remove(pid).filter(|before| before.began == began);
            let cpu = before.as_ref().map(|before| percent(ticks.saturating_sub(before.ticks), now - before.at));
            let memory = match before.and_then(|before| before.memory) {
                Some((at, bytes)) if now - at < MEMORY_EVERY => Some((at, bytes)),
                _ => memory(*pid).map(|bytes| (now, bytes)),
            };
            usage.insert(*pid, Usage { cpu, memory: memory.map(|(_, bytes)| bytes) });
            self.seen.insert(*pid, UsageSample { at: now, began, ticks, memory });
        }
        usage
    }
}

fn percent(ticks: u64, time: Duration) -> f64 {
    100.0 * ticks as f64 / clock_ticks_per_second() as f64 / time.as_secs_f64().max(0.001)
}

/// Returns the CPU time of a process, and the time of its start: fields 14, 15 and 22 of its `stat` (proc(5)). The second field
/// is the name of the program in parentheses; the name may contain any character.
fn times(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok();
    Some((field(14)?.saturating_add(field(15)?), field(22)?))
}

fn memory(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_the_name() {
        let stat = "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 140 15 16 17 18 19 20 21 2200 23";
        assert_eq!(times(stat), Some((155, 2200)));
        assert_eq!(times("77 (a) S 1 2"), None);
        assert_eq!(times(""), None);
    }

    #[test]
    fn this_process_uses_processors_and_memory() {
        let mut resources = Resources::default();
        let own = std::process::id();
        let first = resources.look(&[own])[&own];
        assert_eq!(first.cpu, None, "there is nothing to compare with");
        let end = Instant::now() + Duration::from_secs(60);
        // Repeats until the kernel has counted a tick.
        while resources.look(&[own])[&own].cpu.is_none_or(|percent| percent <= 0.0) {
            assert!(Instant::now() < end, "it has computed for a minute");
            (0..1_000_000_u64).for_each(|number| {
                std::hint::black_box(number);
            });
        }
        assert!(resources.look(&[own])[&own].memory.is_some_and(|bytes| bytes > 100_000));
        assert!(resources.look(&[u32::MAX]).is_empty(), "there is no such process");
    }
}
