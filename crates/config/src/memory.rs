//! The memory that this process may use: the smallest limit of its control groups.

use super::cgroups::smallest_of_groups;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The memory limit of this process in bytes, if any. Read once.
pub fn memory_allowed() -> Option<u64> {
    static ALLOWED: OnceLock<Option<u64>> = OnceLock::new();
    *ALLOWED.get_or_init(|| allowed_under(Path::new("/")))
}

/// [`memory_allowed`] with the file system of control groups under `root`.
fn allowed_under(root: &Path) -> Option<u64> {
    smallest_of_groups(
        root,
        "memory",
        |group| read(&group.join("memory.max")),
        |group| read(&group.join("memory.limit_in_bytes")),
    )
}

/// Reads a limit in bytes. `None` for the word "max", by which version 2 means no limit. Version 1 means no limit by a number
/// that is larger than any memory; this number is returned.
fn read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::cgroups::tests::Root;
    use super::*;

    #[test]
    fn limits() {
        let membership = "proc/self/cgroup";
        for (expected, files) in [
            (None, &[][..]),
            (None, &[(membership, "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")]),
            (
                Some(1 << 20),
                &[
                    (membership, "0::/a/b\n"),
                    ("sys/fs/cgroup/a/memory.max", "1048576\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "4194304\n"),
                ],
            ),
            (Some(65536), &[(membership, "4:memory:/m\n0::/\n"), ("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "65536\n")]),
        ] {
            let root = Root::with(files);
            assert_eq!(allowed_under(root.path()), expected, "{files:?}");
        }
    }
}
