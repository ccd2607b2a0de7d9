//! Watches paths and patterns of paths by all that they depend on: each folder on the way, and the targets of links. So a file is
//! noticed that an editor renames into place, a link that a deployment swaps, and a folder that appears later.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The most links of one path, as in the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The most folders that are watched.
const MOST_FOLDERS: usize = 4096;

/// The names that count in a folder; `None`: all.
type Names = Option<BTreeSet<OsString>>;

/// The watched folders.
#[derive(Debug)]
pub(in super::super) struct Trails {
    inotify: OwnedFd,
    /// The folders by the kernel's watch numbers.
    folders: HashMap<i32, Names>,
}

impl Trails {
    /// # Errors
    /// The system has no room for another inotify instance.
    pub(in super::super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify, folders: HashMap::new() })
    }

    /// Watches these absolute paths and patterns, and no others.
    pub(in super::super) fn follow(&mut self, patterns: &[PathBuf]) {
        let mut wanted = BTreeMap::new();
        patterns.iter().for_each(|pattern| note(pattern, &mut wanted));
        let changes = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB | WatchFlags::CREATE | WatchFlags::DELETE;
        let events = changes | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let mut folders: HashMap<i32, Names> = HashMap::new();
        for (path, names) in wanted {
            match inotify::add_watch(&self.inotify, &path, events) {
                // Two paths may lead to the same folder.
                Ok(number) => match folders.entry(number).or_insert_with(|| Some(BTreeSet::new())) {
                    all @ Some(_) if names.is_none() => *all = None,
                    Some(known) => known.extend(names.into_iter().flatten()),
                    None => {}
                },
                // The folder before it on the way reports when it is there.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => {
                    let hint = if error == Errno::NOSPC { " (see sysctl fs.inotify.max_user_watches)" } else { "" };
                    log::warn!("cannot watch {}: {}{hint}", path.display(), io::Error::from(error));
                }
            }
        }
        for gone in self.folders.keys().filter(|number| !folders.contains_key(number)) {
            // The kernel has removed the watch of a folder that is gone.
            let _ = inotify::remove_watch(&self.inotify, *gone);
        }
        self.folders = folders;
    }

    /// Returns the descriptor that is readable when something has changed.
    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether a path that counts has changed since the last call. Then call [`Self::follow`] again.
    pub(in super::super) fn have_changed(&mut self) -> bool {
        let mut changed = false;
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => changed = true,
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    changed |= match (self.folders.get(&event.wd()), name) {
                        (Some(None), Some(_)) => true,
                        (Some(Some(names)), Some(name)) => names.contains(name),
                        // The folder itself.
                        (Some(_), None) => event.events().contains(ReadFlags::IGNORED),
                        (None, _) => false,
                    };
                }
                Err(Errno::INTR) => {}
                // No more events for now.
                Err(_) => return changed,
            }
        }
    }
}

fn is_pattern(name: &OsStr) -> bool {
    name.as_bytes().iter().any(|byte| b"*?".contains(byte))
}

/// Notes the folders on the way of a path, and the names that count there.
fn note(pattern: &Path, wanted: &mut BTreeMap<PathBuf, Names>) {
    let mut ways = vec![(PathBuf::from("/"), components(pattern), 0)];
    while let Some((mut folder, mut rest, mut links)) = ways.pop() {
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                folder.pop();
                continue;
            }
            if wanted.len() >= MOST_FOLDERS {
                return;
            }
            if is_pattern(&name) {
                wanted.insert(folder.clone(), None);
                // A folder that cannot be read has nothing that counts.
                let entries = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
                for entry in entries.filter(|entry| !rest.is_empty() || entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
                    let mut way = rest.clone();
                    way.push_front(entry.file_name());
                    ways.push((folder.clone(), way, links));
                }
                break;
            }
            if let Some(names) = wanted.entry(folder.clone()).or_insert_with(|| Some(BTreeSet::new())) {
                names.insert(name.clone());
            }
            let path = folder.join(&name);
            match std::fs::read_link(&path) {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        folder = PathBuf::from("/");
                    }
                    let mut way = components(&target);
                    way.append(&mut rest);
                    rest = way;
                }
                _ => folder = path,
            }
        }
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let counts = |component: &Component<'_>| matches!(component, Component::Normal(_) | Component::ParentDir);
    path.components().filter(counts).map(|component| component.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Whether a change is noticed.
    fn notices(patterns: &[PathBuf], act: impl FnOnce()) -> bool {
        let mut trails = Trails::new().expect("the system allows it");
        trails.follow(patterns);
        assert!(!trails.have_changed(), "nothing has happened");
        act();
        trails.have_changed()
    }

    #[test]
    fn files_links_and_folders_on_the_way_are_noticed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let root = folder.path().canonicalize().expect("it is there");
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("releases/1/apps")).expect("it is ours");
        fs::create_dir_all(at("releases/2/apps")).expect("it is ours");
        symlink("releases/1", at("current")).expect("it is ours");
        fs::write(at("elsewhere.toml"), "1").expect("it is ours");
        symlink(at("elsewhere.toml"), at("releases/1/apps/linked.toml")).expect("it is ours");
        let patterns = [at("oribi.toml"), at("current/apps/*.toml"), at("later/*/app.toml")];
        let writes = |name: &str| fs::write(at(name), "2").expect("it is ours");
        assert!(notices(&patterns, || writes("oribi.toml")));
        assert!(notices(&patterns, || {
            writes("new.toml");
            fs::rename(at("new.toml"), at("oribi.toml")).expect("it is ours");
        }));
        assert!(notices(&patterns, || writes("releases/1/apps/a.toml")));
        assert!(notices(&patterns, || fs::remove_file(at("releases/1/apps/a.toml")).expect("it is ours")));
        assert!(notices(&patterns, || writes("elsewhere.toml")), "the target of a link");
        assert!(!notices(&patterns, || writes("releases/2/apps/a.toml")));
        assert!(!notices(&patterns, || writes("other.toml")));
        assert!(notices(&patterns, || {
            symlink("releases/2", at("next")).expect("it is ours");
            fs::rename(at("next"), at("current")).expect("it is ours");
        }));
        assert!(notices(&patterns, || writes("releases/2/apps/a.toml")), "it is the current one now");
        assert!(notices(&patterns, || fs::create_dir(at("later")).expect("it is ours")));
        assert!(notices(&patterns, || fs::create_dir(at("later/x")).expect("it is ours")));
        assert!(notices(&patterns, || writes("later/x/app.toml")));
        assert!(!notices(&patterns, || writes("later/x/other.toml")));
        assert!(notices(&patterns, || fs::remove_dir_all(at("later")).expect("it is ours")));
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let root = folder.path().canonicalize().expect("it is there");
        symlink("b", root.join("a")).expect("it is ours");
        symlink("a", root.join("b")).expect("it is ours");
        let appears = || fs::remove_file(root.join("a")).expect("it is ours");
        assert!(notices(&[root.join("a/oribi.toml")], appears));
    }
}
