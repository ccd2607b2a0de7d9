//! Finds the script that answers a request, and the place in the request's path where the name of the script ends.
//!
//! The results are remembered until the next [`ScriptMap::forget`], so a request for a known script costs no system call.

mod gateway;
mod target;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The most scripts that a lane remembers, because clients can spell the same path in endless ways.
const REMEMBERED: usize = 4096;

/// The extension of scripts: no other file is run, shown or served.
const ENDING: &[u8] = b".lua";

/// The origin of the script of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// One script answers all requests: SCRIPT_NAME is empty.
    One(PathBuf),
    /// The path of the request leads to a script below a directory.
    DocumentRoot {
        /// The directory that no path leads out of.
        root: PathBuf,
        /// The script that answers for a directory.
        index: String,
    },
    /// The web server chooses the script, by SCRIPT_FILENAME.
    Gateway {
        /// A directory that must contain the script; `None` for any directory.
        root: Option<PathBuf>,
    },
}

impl ScriptSource {
    /// A document root with the usual index, `index.lua`.
    #[must_use]
    pub fn document_root(root: impl Into<PathBuf>) -> Self {
        Self::DocumentRoot { root: root.into(), index: "index.lua".to_owned() }
    }
}

/// The script of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file of the script, with symbolic links resolved.
    pub script: Arc<Path>,
    /// SCRIPT_NAME: the part of the request's path that led to the script, decoded. `None`: the value that the web server in
    /// front has sent, or an empty one for the only script.
    pub script_name: Option<Arc<[u8]>>,
    /// The number of bytes of the request's path, as sent, that led to the script; PATH_INFO is the rest, decoded.
    pub path_info_at: usize,
}

/// The reason why a request has no script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is none at this path, or none that may be run.
    NotFound,
    /// There is a script at this path plus a slash: without the slash, relative links in its page would be wrong.
    SlashMissing,
    /// The web server has not named a script.
    NoScriptFilename,
}

/// Finds scripts; shared by all lanes of a process.
#[derive(Debug)]
pub struct ScriptMap {
    source: ScriptSource,
    /// The only script, if the source is a single script. Each process resolves its path when it first needs it: since the
    /// process that forks new workers was started, a link may have been changed to another file.
    only: OnceLock<Found>,
    /// Increased when all remembered results must be looked up again.
    generation: AtomicU64,
}

/// The scripts that a lane has found and remembers.
#[derive(Debug, Default)]
pub struct PathCache {
    generation: u64,
    /// The results, by the part of the path that led to the script. Only existing scripts are remembered.
    found: HashMap<Box<[u8]>, Found>,
    /// The result of the last search that is not remembered.
    last: Option<Found>,
}

impl ScriptMap {
    /// Makes a map for a source.
    ///
    /// # Errors
    /// The only script, or the directory of the scripts, does not exist, or the directory is a file.
    pub fn new(source: ScriptSource) -> io::Result<Self> {
        match &source {
            ScriptSource::One(path) => _ = path.metadata()?,
            ScriptSource::DocumentRoot { root, .. } | ScriptSource::Gateway { root: Some(root) } => {
                if !root.metadata()?.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            ScriptSource::Gateway { root: None } => {}
        }
        Ok(Self { source, only: OnceLock::new(), generation: AtomicU64::new(0) })
    }

    /// The only script, if there is only one.
    pub(crate) fn only(&self) -> Option<&Arc<Path>> {
        self.found_only().map(|found| &found.script)
    }

    fn found_only(&self) -> Option<&Found> {
        let ScriptSource::One(path) = &self.source else { return None };
        Some(self.only.get_or_init(|| {
            // If the file has gone by now, loading it reports that.
            let script = path.canonicalize().unwrap_or_else(|_| path.clone()).into();
            Found { script, script_name: None, path_info_at: 0 }
        }))
    }

    /// Finds the script from the path of the request, as it was sent and without a query, and from SCRIPT_FILENAME, if a web
    /// server in front has sent it.
    ///
    /// With a document root, SCRIPT_FILENAME has precedence, because the web server has already mapped the path to a file. But
    /// that file must be within the document root.
    ///
    /// # Errors
    /// There is no such script, or it must not be run: see [`Missing`].
    pub fn find<'c>(
        &'c self,
        cache: &'c mut PathCache,
        path: &[u8],
        script_filename: Option<&[u8]>,
    ) -> Result<&'c Found, Missing> {
        if let Some(only) = self.found_only() {
            return Ok(only);
        }
        let generation = self.generation.load(Ordering::Relaxed);
        if cache.generation != generation {
            cache.found.clear();
            cache.generation = generation;
        }
        match (&self.source, script_filename) {
            (ScriptSource::DocumentRoot { root, .. }, Some(name)) => gateway::find(cache, Some(root), name),
            (ScriptSource::DocumentRoot { root, index }, None) => target::find(cache, root, index, path),
            (ScriptSource::Gateway { root }, Some(name)) => gateway::find(cache, root.as_deref(), name),
            (ScriptSource::Gateway { .. } | ScriptSource::One(_), _) => Err(Missing::NoScriptFilename),
        }
    }

    /// Makes every lane look up all scripts again: the sweep calls this, so that a moved link or a deleted file is noticed.
    pub fn forget(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}

impl PathCache {
    /// Remembers a result, if there is room.
    fn keep(&mut self, key: &[u8], found: Found) -> &Found {
        if self.found.len() < REMEMBERED { self.found.entry(key.into()).or_insert(found) } else { self.last.insert(found) }
    }
}

/// The file at `path` with symbolic links resolved, if it is a regular file below `root`.
fn file_below(root: &Path, path: &Path) -> Option<Arc<Path>> {
    let root = root.canonicalize().ok()?;
    let file = path.canonicalize().ok()?;
    (file.starts_with(&root) && file.metadata().ok()?.is_file()).then(|| file.into())
}

/// Bytes as a path.
fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_script_answers_everything() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("app.lua");
        assert_eq!(
            ScriptMap::new(ScriptSource::One(script.clone())).map_err(|error| error.kind()).err(),
            Some(io::ErrorKind::NotFound)
        );
        fs::write(&script, "").expect("written");
        let map = ScriptMap::new(ScriptSource::One(script.clone())).expect("a map");
        let mut cache = PathCache::default();
        for path in [&b"/"[..], b"/../%00", b"*"] {
            let found = map.find(&mut cache, path, Some(b"/etc/passwd")).expect("found");
            assert_eq!((&*found.script, found.script_name.as_deref(), found.path_info_at), (&*script, None, 0));
        }
    }

    #[test]
    fn a_root_must_be_a_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "").expect("written");
        for root in [file, directory.path().join("nowhere")] {
            assert!(ScriptMap::new(ScriptSource::document_root(&root)).is_err());
            assert!(ScriptMap::new(ScriptSource::Gateway { root: Some(root) }).is_err());
        }
    }

    #[test]
    fn what_was_found_is_remembered_until_it_is_to_be_forgotten() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("app.lua");
        fs::write(&script, "").expect("written");
        let map = ScriptMap::new(ScriptSource::document_root(directory.path())).expect("a map");
        let mut cache = PathCache::default();
        map.find(&mut cache, b"/app.lua", None).expect("found");
        fs::remove_file(&script).expect("removed");
        // No system call was made: it would have failed.
        map.find(&mut cache, b"/app.lua/more", None).expect("found");
        map.forget();
        assert_eq!(map.find(&mut cache, b"/app.lua", None), Err(Missing::NotFound));
    }
}
