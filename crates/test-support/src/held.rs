//! The descriptors that a process holds, by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Returns the number of open descriptors of each kind in a process, without the three standard ones and those that this
/// process has inherited. Several descriptors for the same end of a pipe count once, because each signal handler has its own.
pub fn held(process: u32) -> BTreeMap<String, usize> {
    let (mut counts, mut ends) = (BTreeMap::new(), BTreeSet::new());
    let (foreign, mut sockets) = (foreign(), SocketTables::default());
    for (number, target) in open_in(&process.to_string()).into_iter().filter(|(number, _)| *number > 2) {
        if foreign.get(&number) == Some(&target) {
            continue;
        }
        let kind = match target.split_once(':') {
            Some(("pipe", _)) => {
                let writes = flags(&process.to_string(), number) & 1 == 1;
                if !ends.insert((target, writes)) {
                    continue;
                }
                if writes { "pipe to write" } else { "pipe to read" }.to_owned()
            }
            Some(("anon_inode", kind)) => kind.trim_matches(['[', ']']).to_owned(),
            Some(("socket", inode)) => sockets.kind_of(inode.trim_matches(['[', ']'])),
            _ if target.starts_with("/memfd:") => "shared memory".to_owned(),
            _ if fs::metadata(&target).is_ok_and(|found| found.is_dir()) => "folder".to_owned(),
            _ => target,
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    counts
}

/// The descriptors that a process is expected to have.
pub fn holding(kinds: &[(&str, usize)]) -> BTreeMap<String, usize> {
    kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

/// Returns the inherited descriptors of this process, by number. This process passes them on to its children.
pub fn foreign() -> BTreeMap<u32, String> {
    const O_CLOEXEC: u32 = 0o2_000_000;
    open_in("self").into_iter().filter(|(number, _)| flags("self", *number) & O_CLOEXEC == 0).collect()
}

/// The open descriptors of a process, with their kinds.
fn open_in(process: &str) -> BTreeMap<u32, String> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let named = |path: std::path::PathBuf| {
        Some((path.file_name()?.to_str()?.parse().ok()?, fs::read_link(&path).ok()?.to_str()?.to_owned()))
    };
    entries.filter_map(|entry| named(entry.path())).collect()
}

/// Returns the flags with which descriptor `number` was opened, as in proc(5).
fn flags(process: &str, number: u32) -> u32 {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0)
}

/// The kinds of the sockets of this system, by inode.
#[derive(Default)]
struct SocketTables {
    kinds: BTreeMap<String, String>,
    reads: usize,
}

impl SocketTables {
    /// The kind of a socket. The kernel leaves out rows of a table in which others change at the same time, so the tables are
    /// read again for a socket that is not in them.
    fn kind_of(&mut self, inode: &str) -> String {
        const MOST_READS: usize = 20;
        while !self.kinds.contains_key(inode) && self.reads < MOST_READS {
            self.reads += 1;
            self.read();
        }
        self.kinds.get(inode).cloned().unwrap_or_else(|| "socket".to_owned())
    }

    fn read(&mut self) {
        for (table, place) in [("tcp", 9), ("tcp6", 9), ("unix", 6)] {
            let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
            for row in text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()) {
                let listens = table != "unix" && row.get(3) == Some(&"0A");
                let kind = if listens { "listener" } else { table };
                row.get(place).map(|inode| self.kinds.insert((*inode).to_owned(), kind.to_owned()));
            }
        }
    }
}
