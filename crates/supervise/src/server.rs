//! A server process without its workforce: the listeners, edges and helper processes, the control socket, metrics, the drain
//! period, and the relation to the servers before and after it. A mold also is such a process, but has only few of these parts.

mod listening;
mod opening;

use super::certifier::Certifier;
use super::drain_period::DrainPeriod;
use super::edges::{AppPools, Edges};
use super::exporter::Exporter;
use super::notify::Notifier;
use super::pid_file::PidFile;
use super::privileges::Privileges;
use super::relay::Relay;
use super::restart_file::RestartFile;
use super::server_totals::ServerTotals;
use super::signals::Signals;
use super::title::Title;
use super::upgrade::Succession;
use super::watch::Watch;
use super::watched_files::WatchedFiles;
use listening::LeavingListeners;
use oribi_admin::control::Control;
use oribi_admin::metrics::Metrics;
use oribi_config::Settings;
use oribi_host::Runtime;
use oribi_io::process::{Fork, fork};
use oribi_listen::{Listener, read_again};
use oribi_pool::Memory;
use std::io;
use std::time::Instant;

/// The phase of a server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// Workers get the command to finish one after the other, the next worker at `next`. No worker is replaced.
    Leaving {
        next: Instant,
    },
    /// The edges of this process finish their requests. The workforce serves as before.
    Draining,
    /// The workforce finishes.
    Stopping {
        /// The time when processes that have not finished are killed.
        deadline: Instant,
        /// Whether requests had to be cut off.
        cut: bool,
    },
    /// The server cannot serve, and ends as soon as its processes have ended.
    Failed,
}

/// The kind of a server process, as its title shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The first process, which leads molds.
    Master,
    /// The first process, which forks workers.
    Supervisor,
    /// The process that has loaded the app for a master. The number says how many times the app has been loaded.
    Mold(u64),
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Supervisor => "supervisor",
            Self::Mold(_) => "mold",
        }
    }

    /// In a mold: returns how many times the app has been loaded, including this load. `None` in any other process.
    pub(super) fn generation(self) -> Option<u64> {
        match self {
            Self::Mold(generation) => Some(generation),
            Self::Master | Self::Supervisor => None,
        }
    }
}

pub(super) struct Server<'a> {
    pub(super) settings: &'a Settings,
    /// The runtime of the language. `None` in a master, which runs no app.
    pub(super) runtime: Option<&'a dyn Runtime>,
    pub(super) role: Role,
    pub(super) phase: Phase,
    /// The drain period, during which the server still serves. A mold has none: its master announces the period.
    pub(super) drain_period: Option<DrainPeriod>,
    /// The deadline of the stop, set when the edges begin to finish, or received from the master.
    pub(super) stop_by: Option<Instant>,
    pub(super) started_at: Instant,
    /// Empty in a mold of a server with edges.
    pub(super) listeners: Vec<Listener>,
    /// Listeners whose addresses are gone, until all their clients have arrived.
    leaving: Vec<LeavingListeners>,
    /// The edges, if this process forks them: `None` in a mold and without edges.
    pub(super) edges: Option<Edges<'a>>,
    /// The memory that workers share with the edges of the master. Empty if this process is not a mold, or if there are no
    /// edges.
    pools: Vec<Memory>,
    pub(super) privileges: Privileges,
    pub(super) signals: Signals,
    pub(super) totals: ServerTotals,
    /// Notifies the service manager. Sends nothing in a mold, and nothing without a service manager.
    pub(super) notifier: Notifier,
    /// Watches the files of the app, if the settings request a reload when a file changes.
    pub(super) watch: Option<Watch>,
    pub(super) restart_file: Option<RestartFile<'a>>,
    /// The files of certificates. Empty in a mold, and without encrypted listeners.
    pub(super) certificates: WatchedFiles,
    /// The files of users of routes. Empty in a mold, and without routes that want passwords.
    pub(super) users: WatchedFiles,
    pub(super) certifier: Option<Certifier>,
    pub(super) exporter: Option<Exporter>,
    pub(super) relay: Option<Relay>,
    pub(super) control: Option<Control>,
    pub(super) metrics: Option<Metrics>,
    pub(super) pid_file: Option<PidFile>,
    /// The servers before and after this one.
    pub(super) succession: Succession,
}

impl Server<'_> {
    /// Sets the title of this process.
    pub(super) fn set_title(&self, state: &str) {
        Title { role: self.role.name(), generation: self.role.generation(), state }.show(self.settings, self.runtime);
    }

    /// Whether the server serves and is not about to stop. Otherwise it refuses reloads and upgrades.
    pub(super) fn stays(&self) -> bool {
        self.phase == Phase::Serving && self.drain_period.is_none()
    }

    /// Whether the edges or the workforce have begun to finish, or the server cannot serve. `false` while workers leave slowly.
    pub(super) fn is_stopping(&self) -> bool {
        !matches!(self.phase, Phase::Serving | Phase::Leaving { .. })
    }

    /// Whether edges have the connections.
    pub(super) fn has_edges(&self) -> bool {
        self.edges.is_some() || !self.pools.is_empty()
    }

    /// Returns the memory that the workers of an app share with edges. Only a master has several apps.
    pub(super) fn pools(&self, app: usize) -> &[Memory] {
        self.edges.as_ref().map_or(&self.pools, |edges| &edges.apps()[app].pools)
    }

    /// Returns the pools of an app. `None` without edges in this process.
    pub(super) fn app_pools(&self, app: usize) -> Option<&AppPools<'_>> {
        self.edges.as_ref().and_then(|edges| edges.apps().get(app))
    }

    /// In a new worker: returns the memory that it shares with edges, and drops everything else of the edges.
    pub(super) fn take_pools(&mut self) -> Vec<Memory> {
        let plan = self.edges.take().map(Edges::into_plan);
        plan.map_or_else(|| std::mem::take(&mut self.pools), |plan| plan.apps.into_iter().flat_map(|app| app.pools).collect())
    }

    /// Forks this process.
    ///
    /// # Errors
    /// The system or the language refuses to fork.
    pub(super) fn fork(&self) -> io::Result<Fork> {
        fork_from(self.runtime)
    }

    /// In a new process: closes the descriptors that only the parent may have. Edges and listeners stay open.
    pub(super) fn release(&mut self) {
        (self.control, self.metrics, self.watch) = (None, None, None);
        (self.certifier, self.exporter, self.relay) = (None, None, None);
        self.succession.close();
        self.totals.leave();
    }

    /// Reads the certificates again, and passes them to the edges. If a file is unusable, all certificates remain unchanged.
    pub(super) fn renew_certificates(&mut self) {
        self.certificates.were_read();
        match read_again(&self.listeners) {
            Ok(false) => {}
            Ok(true) => {
                log::info!("the certificates were read again");
                if let Some(edges) = &self.edges {
                    edges.give_certificates(&self.listeners);
                }
            }
            Err(why) => log::error!("{why}; keeping the current certificates"),
        }
    }

    /// Reads the files of users again, and passes the users to the edges. A file that is unusable changes nothing.
    pub(super) fn renew_users(&mut self) {
        self.users.were_read();
        self.edges.iter().for_each(Edges::renew_users);
    }

    /// Reopens the logs of this process, its edges and its helpers.
    pub(super) fn reopen_logs(&self) {
        super::reopen_error_log(self.settings, &self.privileges);
        self.edges.iter().for_each(Edges::reopen_logs);
        self.certifier.iter().for_each(Certifier::reopen_logs);
        self.exporter.iter().for_each(Exporter::reopen_logs);
        self.relay.iter().for_each(Relay::reopen_logs);
    }

    /// Adds to the totals the counters of edges and helpers since the last call.
    pub(super) fn add_counts(&self) {
        self.totals.add_edges(self.edges.as_ref());
        self.totals.add_certifier(self.certifier.as_ref());
        self.relay.iter().for_each(|relay| self.totals.add_relay(&relay.counts()));
    }

    /// Makes the server fail, and kills the edges, because no worker can answer their requests.
    pub(super) fn fail(&mut self) {
        self.phase = Phase::Failed;
        self.edges.iter_mut().for_each(|edges| edges.end_now("there is no worker"));
    }

    /// Whether no edge is left.
    pub(super) fn is_alone(&self) -> bool {
        self.edges.as_ref().is_none_or(Edges::are_gone)
    }

    /// While stopping: records that requests were cut off.
    pub(super) fn note_cut(&mut self, requests_cut: bool) {
        if let Phase::Stopping { cut, .. } = &mut self.phase {
            *cut |= requests_cut;
        }
    }
}

/// Forks this process. If the language runtime may have threads that need care at a fork, it forks the process itself.
pub(super) fn fork_from(runtime: Option<&dyn Runtime>) -> io::Result<Fork> {
    runtime.and_then(Runtime::fork).map_or_else(fork, |forked| forked.map(Fork::from_return))
}
