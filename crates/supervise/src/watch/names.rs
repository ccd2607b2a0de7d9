//! Files whose changes do not concern the code of an app.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Folders in which apps, tools and version control write while the app stays the same.
const FOLDERS: [&str; 10] =
    ["log", "logs", "tmp", "temp", "cache", "coverage", "node_modules", "storage", "cover_db", "__pycache__"];

/// The suffixes of the names of files that are ignored: backups of editors, logs, and databases with their journals.
const ENDS: [&str; 17] = [
    "~", ".swp", ".swo", ".swx", ".tmp", ".temp", ".bak", ".orig", ".log", ".pid", ".sock", ".db", ".sqlite", ".sqlite3",
    "-journal", "-wal", "-shm",
];

/// Whether a folder is ignored. Names with a leading dot belong to tools.
pub(super) fn is_ignored_folder(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".") || FOLDERS.iter().any(|folder| name == *folder)
}

/// Whether a file is ignored. Vim writes a file `4913` to test its permissions, and files `#name#` belong to Emacs.
pub(super) fn is_ignored_file(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    // `.env` is read by many apps.
    let hidden = bytes.starts_with(b".") && !bytes.starts_with(b".env");
    hidden || bytes == b"4913" || bytes.starts_with(b"#") || ENDS.iter().any(|end| bytes.ends_with(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_counts_and_what_tools_leave_does_not() {
        for name in ["app.psgi", "Gemfile", "Gemfile.lock.rb", "a.log.rb", "index.html.ep", ".env", ".env.local", "dblib.pm"] {
            assert!(!is_ignored_file(OsStr::new(name)), "{name}");
        }
        for name in [".app.psgi.swp", "app.psgi~", "#app.rb#", ".#app.rb", "4913", "x.log", "x.db", "x.sqlite3-wal", "x.pid"] {
            assert!(is_ignored_file(OsStr::new(name)), "{name}");
        }
        for name in ["lib", "views", "templates", "logger"] {
            assert!(!is_ignored_folder(OsStr::new(name)), "{name}");
        }
        for name in [".git", ".bundle", "tmp", "log", "node_modules"] {
            assert!(is_ignored_folder(OsStr::new(name)), "{name}");
        }
    }
}
