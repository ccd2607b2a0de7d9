//! The memory and the processors that are left to this process: those of the machine, or of its control groups if these have
//! less.

use super::cgroups::smallest_of_groups;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryLeft {
    /// The memory that can still be used. Files that the kernel keeps in memory count as free.
    pub free: u64,
    /// The whole memory of the machine, or the limit of the control group.
    pub whole: u64,
}

/// Returns the memory that is left. `None` if the system does not say.
#[must_use]
pub fn memory_left() -> Option<MemoryLeft> {
    memory_under(Path::new("/"))
}

/// [`memory_left`] with `proc` and `sys` under `root`.
fn memory_under(root: &Path) -> Option<MemoryLeft> {
    let of_groups = smallest_of_groups(root, "memory", memory_v2, memory_v1);
    memory_of_machine(root).into_iter().chain(of_groups).min()
}

/// `MemAvailable` and `MemTotal` (proc(5), meminfo).
fn memory_of_machine(root: &Path) -> Option<MemoryLeft> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let bytes = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|number| number << 10)
    };
    Some(MemoryLeft { free: bytes("MemAvailable:")?, whole: bytes("MemTotal:")? })
}

fn memory_v2(group: &Path) -> Option<MemoryLeft> {
    memory_of_group(group, ("memory.max", "memory.current"), "inactive_file")
}

fn memory_v1(group: &Path) -> Option<MemoryLeft> {
    memory_of_group(group, ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file")
}

/// Reads a group's limit and use. Files in memory that were not used lately do not count: the kernel drops them first.
fn memory_of_group(group: &Path, (limit, used): (&str, &str), inactive: &str) -> Option<MemoryLeft> {
    let whole = number(&group.join(limit))?;
    let files = word_of(&group.join("memory.stat"), inactive).unwrap_or(0);
    let used = number(&group.join(used))?.saturating_sub(files);
    Some(MemoryLeft { free: whole.saturating_sub(used), whole })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the number after `name` in a file of lines `NAME NUMBER`.
fn word_of(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(known, _)| *known == name)?.1.trim().parse().ok()
}

/// The time that processors have worked until a moment. The difference of two of these gives their load.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    at: Instant,
    /// Of the machine: the ticks in which its processors have worked, and all ticks.
    machine: Option<(u64, u64)>,
    /// Of the control group with the smallest quota: the quota in microseconds for each second, and the microseconds used.
    group: Option<(u64, u64)>,
}

impl CpuTime {
    /// Reads the time now.
    #[must_use]
    pub fn now() -> Self {
        Self::under(Path::new("/"), Instant::now())
    }

    fn under(root: &Path, at: Instant) -> Self {
        Self { at, machine: ticks(root), group: smallest_of_groups(root, "cpu", quota_v2, quota_v1) }
    }

    /// Returns the load of the processors from `before` until this moment, in percent: of the machine or of the control group,
    /// whichever is higher. `None` if the system does not say, or if there is no time between the two.
    #[must_use]
    pub fn load_since(&self, before: &Self) -> Option<u8> {
        let machine = self.machine.zip(before.machine).and_then(|((worked, all), (worked_before, all_before))| {
            percent(worked.saturating_sub(worked_before), all.saturating_sub(all_before))
        });
        let elapsed = self.at.saturating_duration_since(before.at);
        let group = self.group.zip(before.group).filter(|((quota, _), (same, _))| quota == same);
        let group = group.and_then(|((quota, used), (_, used_before))| {
            percent(used.saturating_sub(used_before), allowed_in(elapsed, quota))
        });
        machine.max(group)
    }
}

/// Returns the microseconds that a quota allows in this time.
fn allowed_in(elapsed: Duration, quota: u64) -> u64 {
    u64::try_from(elapsed.as_micros().saturating_mul(u128::from(quota)) / 1_000_000).unwrap_or(u64::MAX)
}

fn percent(part: u64, whole: u64) -> Option<u8> {
    let share = part.saturating_mul(100).checked_div(whole)?;
    Some(share.min(100) as u8)
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)). Work with a low
/// priority (nice) counts as idle, because it gives way.
fn ticks(root: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
    let [waiting, irq, soft, stolen] = [next(), next(), next(), next()].map(Option::unwrap_or_default);
    let worked = user + system + irq + soft + stolen;
    Some((worked, worked + nice + idle + waiting))
}

/// `cpu.max` is "$MAX $PERIOD", both in microseconds; "max" for no limit.
fn quota_v2(group: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (quota, period) = (words.next()??, words.next().map_or(Some(100_000), |period| period)?);
    Some((in_a_second(quota, period)?, word_of(&group.join("cpu.stat"), "usage_usec")?))
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us`, -1 for no limit; `cpuacct.usage` in nanoseconds.
fn quota_v1(group: &Path) -> Option<(u64, u64)> {
    let quota = in_a_second(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)?;
    Some((quota, number(&group.join("cpuacct.usage"))? / 1000))
}

fn in_a_second(quota: u64, period: u64) -> Option<u64> {
    quota.saturating_mul(1_000_000).checked_div(period).filter(|quota| *quota > 0)
}

#[cfg(test)]
mod tests {
    use super::super::cgroups::tests::Root;
    use super::*;

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal:  4096 kB\nMemFree: 8 kB\nMemAvailable:    2048 kB\n");

    #[test]
    fn memory_is_that_of_the_machine_or_of_the_group_that_has_less() {
        let group = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1048576\n"),
            ("sys/fs/cgroup/a/memory.current", "786432\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 262144\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ];
        let left = |free: u64, whole: u64| Some(MemoryLeft { free, whole });
        assert_eq!(memory_under(Root::with(&[]).path()), None);
        assert_eq!(memory_under(Root::with(&[MEMORY]).path()), left(2 << 20, 4 << 20));
        assert_eq!(memory_under(Root::with(&[&[MEMORY], &group[..]].concat()).path()), left(512 << 10, 1 << 20));
        let first_version = [
            ("proc/self/cgroup", "4:memory:/m\n"),
            ("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "65536\n"),
            ("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "70000\n"),
            ("sys/fs/cgroup/memory/m/memory.stat", "total_inactive_file 4465\n"),
        ];
        assert_eq!(memory_under(Root::with(&first_version).path()), left(1, 65536));
    }

    #[test]
    fn the_load_is_the_higher_one_of_the_machine_and_the_group() {
        let begun = Instant::now();
        let read = |stat: &str, used: &str, after: u64| {
            let files = [
                ("proc/stat", stat),
                ("proc/self/cgroup", "0::/a\n"),
                ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
                ("sys/fs/cgroup/a/cpu.stat", used),
            ];
            CpuTime::under(Root::with(&files).path(), begun + Duration::from_secs(after))
        };
        let before = read("cpu  100 0 100 800 0 0 0 0 0 0\n", "usage_usec 1000000\n", 0);
        // Half of the ticks since then are work; low priority is none.
        let busy = read("cpu  140 50 110 850 50 0 0 0 0 0\ncpu0 1\n", "usage_usec 1100000\n", 2);
        assert_eq!(busy.load_since(&before), Some(25));
        let throttled = read("cpu  140 50 110 850 50 0 0 0 0 0\n", "usage_usec 1950000\n", 2);
        assert_eq!(throttled.load_since(&before), Some(95), "of the one second that the quota allows");
        assert_eq!(before.load_since(&before), None, "no time has passed");
        assert_eq!(CpuTime::under(Root::with(&[]).path(), begun).load_since(&before), None);
    }

    #[test]
    fn this_machine_says_what_is_left() {
        let left = memory_left().expect("every Linux says it");
        assert!(left.free > 0 && left.free <= left.whole, "{left:?}");
        assert!(CpuTime::now().machine.is_some());
    }
}
