//! The folder with keys and certificates. Only its owner can read it, and its files are replaced as a whole.

use crate::account_key::AccountKey;
use crate::request::placeholder;
use crate::settings::{Challenge, Settings};
use oribi_tls::pem::{self, PRIVATE_KEY};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The data with which a server answers challenges.
#[derive(Debug)]
pub enum Answers {
    /// The thumbprint of the account's key, for [`answer`](crate::answer).
    Http(String),
    /// The file, open for reading, into which the client writes a proof when the authority asks for one: see
    /// [`Challenges`](oribi_tls::Challenges).
    TlsAlpn(OwnedFd),
}

/// Creates the files that must exist before a server listens: the folder, the key of the account, and placeholders for
/// certificates that have not been ordered yet.
///
/// # Errors
/// Says which file or folder cannot be used, and why.
pub fn prepare(settings: &Settings) -> Result<Answers, String> {
    let folder = settings.folder();
    make_private(&settings.storage, &folder)?;
    let path = folder.join(ACCOUNT);
    if !path.exists() {
        write_if_absent(&path, pem::encode(PRIVATE_KEY, &AccountKey::generate()?).as_bytes())?;
    }
    let key = account_key(settings)?;
    for names in &settings.certificates {
        let file = settings.file(names);
        if !file.exists() {
            write_if_absent(&file, placeholder(names)?.as_bytes())?;
            log::warn!(
                "{names}: there is no certificate yet; until one is issued, clients get a placeholder, which they do not trust"
            );
        }
    }
    match settings.challenge {
        Challenge::Http => Ok(Answers::Http(key.thumbprint())),
        Challenge::TlsAlpn => open_proof(&settings.proof()).map(Answers::TlsAlpn),
    }
}

/// Opens the file for proofs for reading; it is empty unless the authority asks for a proof. Edges and workers keep this
/// descriptor, because with their rights, or in their sandbox, they could not open another file. So the client overwrites the
/// file and never replaces it. Edges and workers cannot write to it.
fn open_proof(path: &Path) -> Result<OwnedFd, String> {
    if !path.exists() {
        write_if_absent(path, b"")?;
    }
    File::open(path).map(OwnedFd::from).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// A proof in the file for proofs. Dropping this empties the file.
#[derive(Debug)]
pub(crate) struct ProofFile(File);

impl ProofFile {
    /// Writes a proof for `name` into the file: `certificate`, which is PEM and includes the key.
    pub(crate) fn new(settings: &Settings, name: &str, certificate: &str) -> Result<Self, String> {
        let path = settings.proof();
        let write = || {
            let mut file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(0)?;
            file.write_all(format!("{name}\n{certificate}").as_bytes())?;
            Ok(Self(file))
        };
        write().map_err(|error: io::Error| match error.kind() {
            ErrorKind::NotFound => format!("{} was removed; restart the server, which keeps it open", path.display()),
            _ => format!("cannot write {}: {error}", path.display()),
        })
    }
}

impl Drop for ProofFile {
    fn drop(&mut self) {
        if let Err(error) = self.0.set_len(0) {
            log::warn!("cannot empty the file with the ACME proof: {error}");
        }
    }
}

/// The name of the file with the key of the account.
const ACCOUNT: &str = "account.pem";

/// Reads the key of the account from its file.
pub(crate) fn account_key(settings: &Settings) -> Result<AccountKey, String> {
    let path = settings.folder().join(ACCOUNT);
    let failed = |why: &str| format!("cannot use the key of the ACME account {}: {why}", path.display());
    let text = fs::read(&path).map_err(|error| failed(&error.to_string()))?;
    let document = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|_| failed("it is not a private key in PEM"))?;
    AccountKey::of(document.secret_pkcs8_der()).map_err(|why| failed(&why))
}

/// Creates the folder, or checks that no other user can enter it.
fn make_private(storage: &Path, folder: &Path) -> Result<(), String> {
    let failed =
        |path: &Path, why: String| format!("cannot use the folder {} for certificates (--acme-storage): {why}", path.display());
    if let Some(above) = storage.parent() {
        fs::create_dir_all(above).map_err(|error| failed(above, error.to_string()))?;
    }
    for path in [storage, folder] {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(path, error.to_string())),
        }
    }
    let found = fs::symlink_metadata(folder).map_err(|error| failed(folder, error.to_string()))?;
    let own = rustix::process::geteuid().as_raw();
    match () {
        () if !found.is_dir() => Err(failed(folder, "it is not a folder".to_owned())),
        () if found.uid() != own => Err(failed(folder, format!("it belongs to user {}, and this is user {own}", found.uid()))),
        () if found.mode() & 0o077 != 0 => {
            Err(failed(folder, "other users can enter it, and it contains keys; run chmod 700 on it".to_owned()))
        }
        () => Ok(()),
    }
}

/// Replaces the file at `path` by one that only its owner can read. A reader finds either the old or the new content.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), String> {
    let write = || {
        let new = beside(path, content)?;
        fs::rename(&new, path).inspect_err(|_| _ = fs::remove_file(&new))?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    };
    write().map_err(|error: io::Error| format!("cannot write {}: {error}", path.display()))
}

/// Removes a file that may be missing.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        log::warn!("cannot remove {}: {error}", path.display());
    }
}

/// Writes the file unless it exists already: another server that starts at the same time may have written it.
fn write_if_absent(path: &Path, content: &[u8]) -> Result<(), String> {
    let write = || {
        let new = beside(path, content)?;
        let linked = fs::hard_link(&new, path);
        fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    };
    write().map_err(|error: io::Error| format!("cannot write {}: {error}", path.display()))
}

/// Writes a new file beside `path`, and returns its path. The caller renames or links it to `path`.
fn beside(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    // An earlier process with this number may have died halfway through, and left its file.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content).and_then(|()| file.sync_all()).inspect_err(|_| _ = fs::remove_file(&new))?;
    Ok(new)
}

/// The exclusive right to order certificates into a folder: a lock, which ends with the process.
#[derive(Debug)]
pub(crate) struct Right {
    file: File,
}

impl Drop for Right {
    /// Releases the lock. Closing the file would not be enough: a child between fork and exec also has the file open, and would
    /// keep the lock.
    fn drop(&mut self) {
        _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Right {
    /// Takes the right; `None` if another process has it.
    pub(crate) fn take(settings: &Settings) -> Result<Option<Self>, String> {
        let path = settings.folder().join("lock");
        let failed = |error: io::Error| format!("cannot lock {}: {error}", path.display());
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // A process that had the right may have been killed while its proof was in the file.
                if let Err(error) = OpenOptions::new().write(true).open(settings.proof()).and_then(|proof| proof.set_len(0))
                    && error.kind() != ErrorKind::NotFound
                {
                    return Err(format!("cannot write {}: {error}", settings.proof().display()));
                }
                Ok(Some(Self { file }))
            }
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{LETS_ENCRYPT, Names};
    use std::os::unix::fs::PermissionsExt as _;

    fn settings(storage: &Path) -> Settings {
        Settings {
            certificates: vec![Names::parse("www.example.org").expect("it is good")],
            directory: LETS_ENCRYPT.to_owned(),
            email: None,
            storage: storage.to_owned(),
            authorities: None,
            agreed: true,
            challenge: Challenge::TlsAlpn,
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_reads_what_is_kept() {
        let place = tempfile::tempdir().expect("a folder");
        let settings = settings(&place.path().join("a/b"));
        prepare(&settings).expect("it can be made");
        let folder = settings.folder();
        assert_eq!((mode(&settings.storage), mode(&folder)), (0o700, 0o700));
        let mut names: Vec<_> =
            fs::read_dir(&folder).expect("it is there").map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["account.pem", "proof", "www.example.org.pem"], "nothing else is left");
        for name in &names {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name:?}");
        }
        let before = fs::read(folder.join("www.example.org.pem")).expect("it is there");
        let account = fs::read(folder.join(ACCOUNT)).expect("it is there");
        prepare(&settings).expect("it is there");
        assert_eq!(fs::read(folder.join(ACCOUNT)).expect("it is there"), account, "the account stays");
        assert_eq!(fs::read(folder.join("www.example.org.pem")).expect("it is there"), before, "and what is there");
        replace(&folder.join("www.example.org.pem"), b"new").expect("it is ours");
        assert_eq!(mode(&folder.join("www.example.org.pem")), 0o600);
        assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 3);
    }

    #[test]
    fn who_has_opened_the_file_for_proof_sees_it_come_and_go_and_cannot_write_it() {
        let place = tempfile::tempdir().expect("a folder");
        let settings = settings(place.path());
        assert!(ProofFile::new(&settings, "a.org", "").is_err_and(|why| why.contains("restart")), "it is made before");
        let Ok(Answers::TlsAlpn(opened)) = prepare(&settings) else { panic!("it can be made") };
        let content = || {
            let mut content = [0; 100];
            let size = rustix::io::pread(&opened, &mut content, 0).expect("it is open for that");
            String::from_utf8_lossy(&content[..size]).into_owned()
        };
        let first = ProofFile::new(&settings, "a.org", "a long text\n").expect("it is ours");
        assert_eq!(content(), "a.org\na long text\n");
        drop(first);
        assert_eq!(content(), "");
        std::mem::forget(ProofFile::new(&settings, "b.org", "text\n").expect("it is ours"));
        prepare(&settings).expect("it is there");
        assert_eq!(content(), "b.org\ntext\n", "another server that starts leaves it alone");
        drop(Right::take(&settings).expect("it can be locked"));
        assert_eq!(content(), "", "what is left of one that was killed");
        assert!(rustix::io::pwrite(&opened, b"x", 0).is_err());
    }

    #[test]
    fn challenges_of_http_need_the_thumbprint() {
        let place = tempfile::tempdir().expect("a folder");
        let settings = Settings { challenge: Challenge::Http, ..settings(place.path()) };
        let Ok(Answers::Http(thumbprint)) = prepare(&settings) else { panic!("it can be made") };
        assert_eq!(thumbprint, account_key(&settings).expect("it is there").thumbprint());
        assert!(!settings.proof().exists());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let settings = settings(place.path());
        prepare(&settings).expect("it can be made");
        fs::set_permissions(settings.folder(), fs::Permissions::from_mode(0o750)).expect("it is ours");
        let why = prepare(&settings).expect_err("others may enter it");
        assert!(why.contains("chmod 700") && why.contains(&settings.folder().display().to_string()), "{why}");
        fs::set_permissions(settings.folder(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        fs::write(settings.folder().join(ACCOUNT), "nonsense").expect("it is ours");
        assert!(prepare(&settings).expect_err("it is no key").contains("account.pem"));
    }

    #[test]
    fn one_process_orders_at_a_time() {
        let place = tempfile::tempdir().expect("a folder");
        let settings = settings(place.path());
        prepare(&settings).expect("it can be made");
        let right = Right::take(&settings).expect("it can be locked");
        assert!(right.is_some() && Right::take(&settings).expect("it can be tried").is_none());
        drop(right);
        assert!(Right::take(&settings).expect("it can be locked").is_some());
    }
}
