//! The kernel's data about a process, its descendants, and the other processes of its process group.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// User and system time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In the processes' own code.
    pub user: Duration,
    /// In the kernel, on behalf of the processes.
    pub system: Duration,
}

impl Cpu {
    /// Returns the CPU time spent since `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { user: self.user.saturating_sub(before.user), system: self.system.saturating_sub(before.system) }
    }

    /// Both together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// One process. The time of its start distinguishes it from a later process with the same process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The process id.
    pub pid: i32,
    /// Clock ticks after boot.
    started: u64,
}

impl Member {
    /// Whether it still runs; a zombie does not.
    pub fn is_alive(self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.started == self.started && stat.state != 'Z')
    }
}

/// The fields of `/proc/PID/stat` that are read here; times in clock ticks.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    pid: i32,
    state: char,
    parent: i32,
    group: i32,
    user: u64,
    system: u64,
    started: u64,
}

/// Parses a line in the format of proc(5). The name in parentheses may contain spaces and parentheses.
fn parse_stat(line: &str) -> Option<Stat> {
    let (before, after) = line.rsplit_once(')')?;
    let pid = before.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // Numbered as in proc(5), where the state is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        state: fields.first()?.chars().next()?,
        parent: i32::try_from(number(4)?).ok()?,
        group: i32::try_from(number(5)?).ok()?,
        // Children that ended and were waited for are added, so a worker that is replaced takes no time away with it.
        user: number(14)? + number(16)?,
        system: number(15)? + number(17)?,
        started: number(22)?,
    })
}

fn read_stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn stats(root: i32) -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Stat> = pids.filter_map(read_stat).collect();
    let mut found: Vec<Stat> = Vec::new();
    let mut known = BTreeSet::from([root]);
    loop {
        let (inside, outside): (Vec<Stat>, Vec<Stat>) = others
            .into_iter()
            .partition(|stat| known.contains(&stat.pid) || known.contains(&stat.parent) || stat.group == root);
        if inside.is_empty() {
            return found;
        }
        known.extend(inside.iter().map(|stat| stat.pid));
        found.extend(inside);
        others = outside;
    }
}

/// The process `root`, its descendants, and the group it leads.
pub fn members(root: i32) -> Vec<Member> {
    stats(root).iter().map(|stat| Member { pid: stat.pid, started: stat.started }).collect()
}

/// Returns the CPU time of the whole tree so far. The kernel counts it in ticks, usually of a hundredth of a second.
pub fn cpu(root: i32) -> Cpu {
    let ticks = stats(root).iter().fold((0, 0), |sum, stat| (sum.0 + stat.user, sum.1 + stat.system));
    let tick = Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100).max(1);
    let time = |ticks: u64| tick * u32::try_from(ticks).unwrap_or(u32::MAX);
    Cpu { user: time(ticks.0), system: time(ticks.1) }
}

/// Returns the memory of the tree in KiB, as the sum of the proportional set sizes (PSS): a page that two processes share
/// counts half for each.
pub fn memory(root: i32) -> u64 {
    let rollup = |pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    stats(root).iter().filter_map(|stat| parse_memory(&rollup(stat.pid))).sum()
}

fn parse_memory(rollup: &str) -> Option<u64> {
    rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 7 40 40 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 1 0 5555 1 2";
        let expected = Stat { pid: 42, state: 'S', parent: 7, group: 40, user: 103, system: 21, started: 5555 };
        assert_eq!(parse_stat(line), Some(expected));
        assert_eq!(parse_stat("42 (cut"), None);
    }

    #[test]
    fn memory_is_the_proportional_figure() {
        assert_eq!(parse_memory("Rss:  900 kB\nPss:     123 kB\nPss_Anon: 7 kB\n"), Some(123));
        assert_eq!(parse_memory(""), None);
    }

    #[test]
    fn a_process_finds_itself() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        let found = members(own);
        assert!(found.iter().any(|member| member.pid == own && member.is_alive()));
        assert!(memory(own) > 0);
    }
}
