//! The file with the id of the process to which other programs send signals.

use std::io;
use std::path::{Path, PathBuf};

/// A file with a process id. When the process that wrote the file drops this value, it removes the file, if the file still
/// contains the id.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the id of this process to `path` atomically, so that readers never see a part of it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(path: &Path) -> Result<Self, String> {
        let describe = |error: io::Error| format!("cannot write the pid file {}: {error}", path.display());
        // The path must stay the same even if a daemon changes its directory.
        let path = oribi_config::directory::absolute(path).map_err(describe)?;
        let mut draft = path.clone().into_os_string();
        draft.push(format!(".{}", std::process::id()));
        std::fs::write(&draft, format!("{}\n", std::process::id())).map_err(describe)?;
        if let Err(error) = std::fs::rename(&draft, &path) {
            // The draft is useless now, and the caller reports the first error.
            let _ = std::fs::remove_file(&draft);
            return Err(describe(error));
        }
        Ok(Self { path })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let own = std::process::id().to_string();
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == own) {
            // If the file remains, the next start overwrites it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_the_id_and_goes_with_its_writer_unless_another_took_it_over() {
        let path = std::env::temp_dir().join(format!("oribi-pid-file-{}", std::process::id()));
        let file = PidFile::write(&path).expect("the directory is writable");
        assert_eq!(std::fs::read_to_string(&path).expect("it was written"), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());

        let file = PidFile::write(&path).expect("the directory is writable");
        std::fs::write(&path, "1\n").expect("it is ours");
        drop(file);
        assert!(path.exists(), "it belongs to another process now");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_refusal_names_the_file() {
        let message = PidFile::write(Path::new("/nowhere/at/all.pid")).expect_err("there is no such directory");
        assert!(message.starts_with("cannot write the pid file /nowhere/at/all.pid: "), "{message}");
    }
}
