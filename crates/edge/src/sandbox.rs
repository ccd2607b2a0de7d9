//! The sandbox of edges (`--edge-sandbox`): what an edge may still do when it serves.
//!
//! An edge owns client connections, sends files, keeps content in files without names, and passes descriptors on. Whoever gets
//! control of one by what a client sends shall not get at more than that: no other files, no programs, no connections to
//! elsewhere, no signals to other processes. [`oribi_io::process::sandbox`] knows how the kernel does this.
//!
//! Everything that an edge needs by name it opens before: its logs, the directories of `--static`, the listeners are its keeper's.
//! Logs that are opened again are given to it by its keeper (`keeper.rs`).

use oribi_config::{SandboxChoice, Settings};
use oribi_io::process::sandbox::Offer;
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What an edge is about to enter.
#[derive(Debug)]
pub struct Sandbox(Offer);

impl Sandbox {
    /// In the process that forks edges, before the first one: says in the log what edges will run in.
    ///
    /// # Errors
    /// The settings ask for more than the kernel has, so nothing is to be served.
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

    /// In a new edge, while it still sees itself in /proc; `None`: there is to be no sandbox.
    ///
    /// # Errors
    /// The sandbox would not hold. The edge must end then.
    pub fn of_edge(settings: &Settings) -> Result<Option<Self>, String> {
        if settings.edge_sandbox == SandboxChoice::Off {
            return Ok(None);
        }
        // Landlock confines the thread that asks for it, and the language of an app may have started another one in a fork.
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

    /// Enters it. There is no way back.
    ///
    /// # Errors
    /// A directory cannot be opened, or the system refuses. The edge must end then.
    pub(crate) fn enter(&self, settings: &Settings) -> io::Result<()> {
        let sites = settings.files.mounts.iter().map(|mount| directory(&mount.directory)).collect::<io::Result<Vec<_>>>()?;
        let temporary = directory(&settings.temporary_directory)?;
        let readable: Vec<BorrowedFd<'_>> = sites.iter().map(AsFd::as_fd).collect();
        self.0
            .take(&readable, &[temporary.as_fd()])
            .map_err(|error| io::Error::new(error.kind(), format!("cannot enter the sandbox of --edge-sandbox: {error}")))
    }
}

/// Opens a directory only as a place.
fn directory(path: &Path) -> io::Result<OwnedFd> {
    let failed = |error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot open {} for the sandbox of an edge: {error}", path.display()))
    };
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)
}
