//! Limits of the control groups that this process is in.

use std::fs;
use std::path::{Path, PathBuf};

/// Reads a limit of one control group.
type Read<T> = fn(&Path) -> Option<T>;

/// Returns the smallest limit of the control groups of this process and of their ancestors: the group of version 2, read by
/// `read_v2`, and the group of version 1 with that `controller`, read by `read_v1`. `root` is the directory with `proc` and
/// `sys`. `None` if no group has a limit.
pub(super) fn smallest_of_groups<T: Ord>(root: &Path, controller: &str, read_v2: Read<T>, read_v1: Read<T>) -> Option<T> {
    let memberships = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut smallest = None;
    // cgroups(7): "hierarchy-ID:controller-list:cgroup-path"
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let groups = root.join("sys/fs/cgroup");
        let (mounts, read): (Vec<PathBuf>, Read<T>) = if controllers.is_empty() {
            (vec![groups.clone(), groups.join("unified")], read_v2)
        } else if controllers.split(',').any(|name| name == controller) {
            (vec![groups.join(controllers), groups.join(controller)], read_v1)
        } else {
            continue;
        };
        for mount in mounts {
            smallest = smallest.into_iter().chain(smallest_of_ancestors(&mount, path, read)).min();
        }
    }
    smallest
}

/// Returns the smallest limit of `group` and its ancestors. Groups that do not exist below `mount` are skipped: in a container,
/// `group` is often the path on the host, while the root of the mount is the container's own group.
fn smallest_of_ancestors<T: Ord>(mount: &Path, group: &str, read: Read<T>) -> Option<T> {
    Path::new(group.trim_start_matches('/')).ancestors().filter_map(|path| read(&mount.join(path))).min()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory with some files, removed on drop.
    pub(in super::super) struct Root(PathBuf);

    impl Root {
        pub(in super::super) fn with(files: &[(&str, &str)]) -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let name = format!("oribi-groups-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let root = std::env::temp_dir().join(name);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a directory")).expect("directory made");
                fs::write(path, text).expect("file written");
            }
            Self(root)
        }

        pub(in super::super) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
