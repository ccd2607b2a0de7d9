//! Drops privileges: the rights of root, if `--user` or `--edge-user` requests it, and the right to gain privileges
//! (no_new_privs).
//!
//! The first process keeps root's privileges, as Unicorn's master does, because it needs them: it opens ports below 1024,
//! writes the pid file, removes its Unix socket files, and reopens its logs. A mold runs as the user from its start, before it
//! loads the app. A supervisor that has loaded the app itself, under plackup or rackup, forks workers, which change to the user
//! before they open a context. The first process forks edges with the rights of root, so edges may become another user than the
//! workers. Then no worker, even under an attacker's control, can send an edge a signal or trace it.

use oribi_config::Settings;
use oribi_edge::sandbox::Sandbox;
use oribi_io::process::{Identity, forbid_new_privileges, forbid_new_privileges_of, hide_memory};
use oribi_listen::Listener;
use oribi_log::Writers;
use rustix::fs::Mode;
use std::process::Command;

/// Makes the program that `command` runs start with the rights that the workers of `settings` have.
///
/// # Errors
/// The user or group does not exist, or this process may not change to it.
pub fn start_as_worker(settings: &Settings, command: &mut Command) -> Result<(), String> {
    Privileges::of_workers(settings).map(|privileges| privileges.drop_in(command))
}

/// The identities to which workers and edges change. `None` for those whose identity was not requested, or is that of this
/// process.
#[derive(Debug)]
pub(super) struct Privileges {
    workers: Option<Identity>,
    edges: Option<Identity>,
    /// Whether edges, and not workers, write the access log.
    has_edges: bool,
    /// Whether programs that an app starts may gain more rights than the app has.
    new_privileges: bool,
}

impl Privileges {
    /// Looks up the identity of workers according to `settings`. Also sets the umask.
    ///
    /// # Errors
    /// The user or group does not exist, or this process may not change to it. Then the server must not serve, because the
    /// operator relies on that identity.
    pub(super) fn of(settings: &Settings) -> Result<Self, String> {
        if let Some(umask) = settings.umask {
            rustix::process::umask(Mode::from_raw_mode(umask));
        }
        Self::of_workers(settings)
    }

    /// As [`Privileges::of`], without setting the umask.
    ///
    /// # Errors
    /// The same as for [`Privileges::of`].
    pub(super) fn of_workers(settings: &Settings) -> Result<Self, String> {
        let workers = identity(("user", settings.user.as_deref()), ("group", settings.group.as_deref()))?;
        Ok(Self { edges: None, workers, has_edges: false, new_privileges: settings.new_privileges })
    }

    /// Looks up the identity of edges, and logs in which sandbox edges will run. Called in the process that forks the edges.
    ///
    /// # Errors
    /// The same as for [`Privileges::of`], or the kernel does not support the sandbox that the settings require.
    pub(super) fn look_up_edges(&mut self, settings: &Settings) -> Result<(), String> {
        Sandbox::announce(settings)?;
        self.has_edges = settings.edges_wanted() > 0;
        if !self.has_edges {
            return Ok(());
        }
        let (user, group) = (settings.edge_user.as_deref(), settings.edge_group.as_deref());
        let user = user.map_or(("user", settings.user.as_deref()), |user| ("edge-user", Some(user)));
        let group = match group {
            Some(group) => ("edge-group", Some(group)),
            // Another user belongs to other groups.
            None if settings.edge_user.is_some() => ("edge-group", None),
            None => ("group", settings.group.as_deref()),
        };
        self.edges = identity(user, group)?;
        Ok(())
    }

    /// Permits the users of workers and edges to write to the logs, and the workers' user to connect to the Unix sockets.
    ///
    /// # Errors
    /// A file cannot be handed over; the message says which, and why.
    pub(super) fn hand_over(&self, settings: &Settings, listeners: &[Listener]) -> Result<(), String> {
        self.hand_over_sockets(listeners)?;
        self.hand_over_logs(settings)
    }

    /// Permits the workers' user to connect to Unix sockets.
    ///
    /// # Errors
    /// A file cannot be handed over; the message says which, and why.
    pub(super) fn hand_over_sockets(&self, listeners: &[Listener]) -> Result<(), String> {
        let Some(workers) = &self.workers else { return Ok(()) };
        listeners.iter().try_for_each(|listener| listener.give_to(workers.user(), workers.group()))
    }

    /// Returns the owner of new Unix sockets: the user, and the group if the settings name a user or a group.
    pub(super) fn owner_of_sockets(&self) -> (u32, Option<u32>) {
        let own = || (rustix::process::geteuid().as_raw(), None);
        self.workers.as_ref().map_or_else(own, |workers| (workers.user(), Some(workers.group())))
    }

    /// Permits the users of workers and edges to write to the logs, after these were reopened.
    ///
    /// # Errors
    /// A file cannot be handed over; the message says which, and why.
    pub(super) fn hand_over_logs(&self, settings: &Settings) -> Result<(), String> {
        let only = |identity: &Identity| Writers { user: identity.user(), group: identity.group(), with_group: false };
        // The processes that own connections write the access log; both workers and edges write the error log.
        let (access, error) = match (&self.workers, &self.edges) {
            (None, None) => return Ok(()),
            (Some(workers), None) if self.has_edges => (None, Some(only(workers))),
            (Some(workers), None) => (Some(only(workers)), Some(only(workers))),
            (Some(workers), Some(edges)) if workers.user() == edges.user() => (Some(only(edges)), Some(only(workers))),
            (workers, Some(edges)) => {
                let user = workers.as_ref().map_or_else(|| Identity::present().user(), Identity::user);
                (Some(only(edges)), Some(Writers { user, group: edges.group(), with_group: true }))
            }
        };
        access.map_or(Ok(()), |writers| oribi_log::give_access_log_to(settings, writers))?;
        error.map_or(Ok(()), |writers| oribi_log::give_error_log_to(settings, writers))
    }

    /// Makes the programs that `command` runs start as the workers' user, and sets no_new_privs for them unless the settings
    /// permit new privileges.
    pub(super) fn drop_in(&self, command: &mut Command) {
        if let Some(identity) = &self.workers {
            identity.give_to(command);
        }
        if !self.new_privileges {
            forbid_new_privileges_of(command);
        }
    }

    /// Drops the privileges of this process, a worker.
    ///
    /// # Errors
    /// The system refuses; the process must end.
    pub(super) fn drop_here(&self) -> Result<(), String> {
        assume(self.workers.as_ref())?;
        if self.new_privileges { Ok(()) } else { forbid() }
    }

    /// Sets no_new_privs for this process, the certifier, which starts no program, and hides its memory, which contains keys.
    /// The certifier keeps the rights of its parent, so that it can read and store the keys.
    ///
    /// # Errors
    /// The system refuses; the process must end.
    pub(super) fn hold_in_certifier() -> Result<(), String> {
        forbid()?;
        hide_memory().map_err(|error| format!("cannot keep others from reading the memory: {error}"))
    }

    /// Drops the privileges of this process, the exporter or the relay, which starts no program. It becomes the user of the workers,
    /// and its memory is hidden from them, because it may contain the secrets by which it is known to another server.
    ///
    /// # Errors
    /// The system refuses; the process must end.
    pub(super) fn drop_in_client(&self) -> Result<(), String> {
        assume(self.workers.as_ref())?;
        Self::hold_in_certifier()
    }

    /// Drops the privileges of this process, an edge, which starts no program and so never needs more rights. Its memory is
    /// hidden, because it contains data of clients.
    ///
    /// # Errors
    /// The system refuses; the process must end.
    pub(super) fn drop_in_edge(&self) -> Result<(), String> {
        assume(self.edges.as_ref())?;
        forbid()?;
        hide_memory().map_err(|error| format!("cannot keep others from reading the memory: {error}"))
    }
}

fn assume(identity: Option<&Identity>) -> Result<(), String> {
    match identity {
        Some(identity) => identity.assume().map_err(|error| format!("cannot give up the rights of root: {error}")),
        None => Ok(()),
    }
}

fn forbid() -> Result<(), String> {
    forbid_new_privileges().map_err(|error| format!("cannot forbid this process to gain privileges (no_new_privs): {error}"))
}

/// Looks up the identity that a user and a group give: each argument has the name of its setting and the value. `None` if
/// neither has a value, or if this process has that identity already.
fn identity(user: (&str, Option<&str>), group: (&str, Option<&str>)) -> Result<Option<Identity>, String> {
    if user.1.is_none() && group.1.is_none() {
        return Ok(None);
    }
    let wanted = [user, group].into_iter().filter_map(|(name, text)| Some(format!("--{name} {}", text?)));
    let wanted = wanted.collect::<Vec<_>>().join(" ");
    let identity = Identity::named(user.1, group.1).map_err(|why| format!("{wanted}: {why}"))?;
    if identity.is_present() {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        let present = rustix::process::geteuid();
        return Err(format!("{wanted}: only root may become another user, and this process runs as user id {present}"));
    }
    Ok(Some(identity))
}
