//! The number of CPUs that this process may use: the smaller of its affinity and of the CPU quota of its control groups.
//!
//! For example, 64 workers in a container with a quota of one CPU, on a machine with 64 CPUs, would all be throttled at the
//! same time (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpu in the kernel's tree).

use super::cgroups::smallest_of_groups;
use std::fs;
use std::path::Path;

/// The number of CPUs that this process may use; at least 1.
#[must_use]
pub fn allowed() -> usize {
    // Reading the affinity fails only if the kernel has more CPUs than `CpuSet` has room for: then use all of them.
    let affinity = rustix::thread::sched_getaffinity(None)
        .map(|set| set.count() as usize)
        .or_else(|_| std::thread::available_parallelism().map(usize::from))
        .unwrap_or(1);
    allowed_under(Path::new("/"), affinity)
}

/// [`allowed`] with the file system of control groups under `root` and a known affinity.
fn allowed_under(root: &Path, affinity: usize) -> usize {
    quota(root).unwrap_or(usize::MAX).min(affinity).max(1)
}

/// The smallest quota of the control groups that this process is in, in CPUs, rounded up.
fn quota(root: &Path) -> Option<usize> {
    smallest_of_groups(root, "cpu", read_v2, read_v1)
}

/// `cpu.max`: "$MAX $PERIOD", both in microseconds; "max" for none.
fn read_v2(group: &Path) -> Option<usize> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let quota = words.next()?.parse::<u64>().ok()?;
    let period = words.next().map_or(Ok(100_000), str::parse::<u64>).ok()?;
    rounded_up(quota, period)
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us`; -1 for none.
fn read_v1(group: &Path) -> Option<usize> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    rounded_up(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn rounded_up(quota: u64, period: u64) -> Option<usize> {
    if period == 0 {
        return None;
    }
    usize::try_from(quota.div_ceil(period)).ok()
}

#[cfg(test)]
mod tests {
    use super::super::cgroups::tests::Root;
    use super::*;

    #[test]
    fn quotas() {
        let membership = "proc/self/cgroup";
        for (expected, files) in [
            (8, &[][..]),
            (8, &[(membership, "0::/a/b\n")]),
            (8, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "max 100000\n")]),
            (2, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "200000 100000\n")]),
            (3, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "200001 100000\n")]),
            (1, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "1000 100000\n")]),
            (8, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "6400000 100000\n")]),
            (8, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "100000 0\n")]),
            (8, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "nonsense\n")]),
            // A parent group has the smaller quota.
            (
                2,
                &[
                    (membership, "0::/a/b\n"),
                    ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
                    ("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"),
                ],
            ),
            // In a container: the host's path, but the files at the root of the mount.
            (4, &[(membership, "0::/docker/0123\n"), ("sys/fs/cgroup/cpu.max", "400000 100000\n")]),
            // Version 1, alone and together with an empty version 2.
            (
                2,
                &[
                    (membership, "4:memory:/m\n2:cpu,cpuacct:/a\n0::/\n"),
                    ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n"),
                    ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
                ],
            ),
            (
                8,
                &[
                    (membership, "2:cpu:/\n"),
                    ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
                    ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ],
            ),
        ] {
            let root = Root::with(files);
            assert_eq!(allowed_under(root.path(), 8), expected, "{files:?}");
        }
    }

    #[test]
    fn there_is_always_one() {
        assert_eq!(allowed_under(Path::new("/nowhere"), 0), 1);
        assert!(allowed() >= 1);
    }
}
