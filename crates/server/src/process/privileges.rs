//! Gives up root's privileges: the processes that answer requests run as the user of `--user` and `--group`.
//!
//! The supervising process keeps root's privileges for what needs them, as with Unicorn: it opens ports below 1024, writes the
//! pid file, removes its Unix socket files, and opens its logs again. A mold starts as the user, before it loads the app. A
//! supervisor that has loaded the app itself, under plackup or rackup, forks workers that change to the user before they open a
//! context.

use crate::config::Settings;
use crate::listen::Listener;
use crate::log;
use oribi_io::process::Identity;
use rustix::fs::Mode;
use std::process::Command;

/// The identity to change to; `None`: none was requested, or this process has it already.
#[derive(Debug)]
pub(super) struct Privileges(Option<Identity>);

impl Privileges {
    /// Reads the identity from `settings`. Sets the umask, too.
    ///
    /// # Errors
    /// The user or group does not exist, or this process may not change to it. Then it must not serve, because the operator
    /// relies on it.
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
    /// Says what cannot be handed over, and why.
    pub(super) fn hand_over(&self, settings: &Settings, listeners: &[Listener]) -> Result<(), String> {
        let Some(identity) = &self.0 else { return Ok(()) };
        listeners.iter().try_for_each(|listener| listener.give_to(identity.user(), identity.group()))?;
        self.hand_over_logs(settings)
    }

    /// Like [`Privileges::hand_over`], only for log files: when they are opened again.
    ///
    /// # Errors
    /// Says which file cannot be handed over, and why.
    pub(super) fn hand_over_logs(&self, settings: &Settings) -> Result<(), String> {
        let Some(identity) = &self.0 else { return Ok(()) };
        log::give_to(settings, identity.user(), identity.group())
    }

    /// Makes the programs that `command` runs start without root's privileges.
    pub(super) fn drop_in(&self, command: &mut Command) {
        if let Some(identity) = &self.0 {
            identity.give_to(command);
        }
    }

    /// Gives up the privileges in this process.
    ///
    /// # Errors
    /// The process must end then.
    pub(super) fn drop_here(&self) -> Result<(), String> {
        match &self.0 {
            Some(identity) => identity.assume().map_err(|error| format!("cannot give up the rights of root: {error}")),
            None => Ok(()),
        }
    }
}
