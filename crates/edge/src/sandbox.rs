//! The sandbox of edges (`--edge-sandbox`).
//!
//! An edge owns client connections, sends files, stores content in unnamed files, and passes descriptors on. An attacker who
//! controls an edge must not be able to do anything else: open other files, execute programs, make outgoing connections, or
//! send signals to other processes. [`oribi_io::process::sandbox`] implements the sandbox.
//!
//! Before an edge enters the sandbox, it opens everything that it needs by name: its logs and the directories of `--static`.
//! It has inherited the listeners. Later its parent process reopens the logs for it (`parent_link.rs`).

use oribi_config::{SandboxChoice, Settings};
use oribi_io::process::sandbox::Offer;
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The sandbox that an edge is about to enter.
#[derive(Debug)]
pub struct Sandbox(Offer);

impl Sandbox {
    /// Logs in which sandbox edges will run. Must be called before the first edge is forked.
    ///
    /// # Errors
    /// The settings require a sandbox that the kernel does not support, so the server must not serve.
    pub fn announce(settings: &Settings) -> Result<(), String> {
        if settings.edge_sandbox == SandboxChoice::Off {
            return Ok(());
        }
        if settings.edges_wanted() == 0 {
            log::warn!("--edge-sandbox: there are no edges, so nothing is in a sandbox (see --edge)");
            return Ok(());
        }
        let offer = Offer::of_kernel();
        match offer.missing() {
            None => log::info!("edges run in a sandbox: {offer}"),
            Some(missing) if settings.edge_sandbox == SandboxChoice::On => {
                return Err(format!("--edge-sandbox on: {missing}; --edge-sandbox try does without what is missing"));
            }
            Some(missing) => log::warn!("--edge-sandbox try: edges run with {offer}; {missing}"),
        }
        Ok(())
    }

    /// Prepares the sandbox in a new edge, while the edge still has access to /proc. `None` if the edge gets no sandbox.
    ///
    /// # Errors
    /// The sandbox that the settings require would not be effective. The edge must end.
    pub fn of_edge(settings: &Settings) -> Result<Option<Self>, String> {
        if settings.edge_sandbox == SandboxChoice::Off {
            return Ok(None);
        }
        // Landlock confines only the calling thread, and the language runtime of an app may have started other threads after
        // the fork.
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads > 1 {
            let why = format!("this process has {threads} threads, of the app's language, and Landlock confines only one");
            match settings.edge_sandbox {
                SandboxChoice::On => {
                    return Err(format!("--edge-sandbox on: {why}; start the app by `oribi`, which has no language"));
                }
                _ => log::warn!("--edge-sandbox try: {why}"),
            }
        }
        Ok(Some(Self(Offer::of_kernel())))
    }

    /// Enters the sandbox, which cannot be left. `sites`: the directories with files that the edge sends.
    ///
    /// # Errors
    /// A directory cannot be opened, or the operating system refuses. The edge must end.
    pub(crate) fn enter<'d>(&self, settings: &Settings, sites: impl Iterator<Item = &'d Path>) -> io::Result<()> {
        // A directory that cannot be opened has no files, either.
        let sites: Vec<OwnedFd> = sites.filter_map(|site| directory(site).ok()).collect();
        let temporary = directory(&settings.temporary_directory)?;
        let readable: Vec<BorrowedFd<'_>> = sites.iter().map(AsFd::as_fd).collect();
        self.0
            .take(&readable, &[temporary.as_fd()])
            .map_err(|error| io::Error::new(error.kind(), format!("cannot enter the sandbox of --edge-sandbox: {error}")))
    }
}

/// Opens a directory as a location only (`O_PATH`).
fn directory(path: &Path) -> io::Result<OwnedFd> {
    let failed = |error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot open {} for the sandbox of an edge: {error}", path.display()))
    };
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)
}
