//! Giving up the rights of root: who answers requests runs as the user of `--user` and `--group`.
//!
//! What needs root stays with the process that decides, as with Unicorn: it opens ports below 1024, writes the pid file, removes the
//! files of its Unix sockets, and opens its logs again. A mold starts as the user, before it loads the app; a supervisor that has
//! loaded the app itself, under plackup or rackup, forks workers that become the user before they open a context.

use crate::config::Settings;
use crate::listen::Listener;
use crate::log;
use oribi_io::process::Identity;
use rustix::fs::Mode;
use std::process::Command;

/// What a server gives up; `None`: nothing was asked for, or it has been done by whoever started this process.
#[derive(Debug)]
pub(super) struct Privileges(Option<Identity>);

impl Privileges {
    /// What `settings` say. Sets the umask, too.
    ///
    /// # Errors
    /// There is no such user or group, or this process may not become it. It must not serve then, as somebody relies on it.
    pub(super) fn of(settings: &Settings) -> Result<Self, String> {
        if let Some(umask) = settings.umask {
            rustix::process::umask(Mode::from_raw_mode(umask));
        }
        let (user, group) = (settings.user.as_deref(), settings.group.as_deref());
        if user.is_none() && group.is_none() {
            return Ok(Self(None));
        }
        let wanted = [user.map(|user| format!("--user {user}")), group.map(|group| format!("--group {group}"))];
        let wanted = wanted.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let identity = Identity::named(user, group).map_err(|why| format!("{wanted}: {why}"))?;
        if identity.is_present() {
            return Ok(Self(None));
        }
        if !rustix::process::geteuid().is_root() {
            let present = rustix::process::geteuid();
            return Err(format!("{wanted}: only root may become another user, and this is user number {present}"));
        }
        Ok(Self(Some(identity)))
    }

    /// Lets the user of the workers write to the logs and connect to the Unix sockets.
    ///
    /// # Errors
    /// What cannot be handed over, and why.
    pub(super) fn hand_over(&self, settings: &Settings, listeners: &[Listener]) -> Result<(), String> {
        let Some(identity) = &self.0 else { return Ok(()) };
        listeners.iter().try_for_each(|listener| listener.give_to(identity.user(), identity.group()))?;
        self.hand_over_logs(settings)
    }

    /// As [`Privileges::hand_over`], of log files alone: for ones that are opened again.
    ///
    /// # Errors
    /// Which file cannot be handed over, and why.
    pub(super) fn hand_over_logs(&self, settings: &Settings) -> Result<(), String> {
        let Some(identity) = &self.0 else { return Ok(()) };
        log::give_to(settings, identity.user(), identity.group())
    }

    /// Has the programs that `command` runs start without the rights.
    pub(super) fn drop_in(&self, command: &mut Command) {
        if let Some(identity) = &self.0 {
            identity.give_to(command);
        }
    }

    /// Gives the rights up in this process.
    ///
    /// # Errors
    /// The process must end.
    pub(super) fn drop_here(&self) -> Result<(), String> {
        match &self.0 {
            Some(identity) => identity.assume().map_err(|error| format!("cannot give up the rights of root: {error}")),
            None => Ok(()),
        }
    }
}
