//! The start of a server process: it opens or inherits everything that it needs before its workforce starts.

use super::super::adoption::adopt_or_open;
use super::super::certifier::{self, Certifier};
use super::super::edges::{AppShape, Edges};
use super::super::exporter::Exporter;
use super::super::notify::Notifier;
use super::super::outbox;
use super::super::pid_file::PidFile;
use super::super::privileges::Privileges;
use super::super::relay::Relay;
use super::super::restart_file::RestartFile;
use super::super::server_totals::ServerTotals;
use super::super::signals::Signals;
use super::super::upgrade::{self, Succession};
use super::super::watched_files::WatchedFiles;
use super::super::{failed_to, raise_descriptor_limit, watch};
use super::{Phase, Role, Server};
use oribi_admin::control::Control;
use oribi_admin::metrics::Metrics;
use oribi_config::Settings;
use oribi_host::Runtime;
use oribi_listen::{Listener, fit_sockets, is_any_lent};
use oribi_pool::Memory;
use oribi_stats::totals::Totals;
use std::time::Instant;

impl<'a> Server<'a> {
    /// Opens or inherits everything for the first process of a server. `is_program`: whether the process can be executed again for an upgrade, and has no children but
    /// those of the server.
    ///
    /// # Errors
    /// A part cannot be opened; the message says which, and why. The files of sockets that were created before the error are
    /// removed.
    pub(in super::super) fn open(
        settings: &'a Settings,
        runtime: Option<&'a dyn Runtime>,
        role: Role,
        is_program: bool,
        apps: &[AppShape<'a>],
    ) -> Result<Self, String> {
        let mut privileges = Privileges::of(settings)?;
        privileges.look_up_edges(settings)?;
        let (mut succession, before) = if is_program { Succession::of_process()? } else { (Succession::none(), None) };
        let is_first = before.is_none();
        let signals = Signals::watch(is_program).map_err(|error| failed_to("watch signals", &error))?;
        raise_descriptor_limit();
        let totals =
            if is_program { upgrade::totals(settings, is_first) } else { Ok(Totals::of_this_process(&settings.route_names())) };
        let counted = totals.and_then(|totals| Ok((totals, upgrade::app_metrics(settings, is_first)?)));
        let (totals, app_metrics) = counted.map_err(|error| failed_to("share memory with later servers", &error))?;
        let answers = certifier::prepare(settings)?;
        let mut listeners = match (before, &mut succession.before) {
            (Some(listeners), Some(before)) => before.follow(settings, listeners)?,
            _ => adopt_or_open(settings)?,
        };
        certifier::answer_challenges(&mut listeners, answers);
        listeners.iter_mut().zip(0..).for_each(|(listener, id)| listener.id = id);
        let now = Instant::now();
        let mut server = Self {
            certificates: WatchedFiles::of_listeners(&listeners, now),
            users: WatchedFiles::default(),
            certifier: Certifier::new(settings),
            restart_file: settings.restart_file.as_deref().map(|path| RestartFile::new(path, now)),
            watch: watch::begin(settings),
            succession,
            ..Self::without_extras(
                settings,
                runtime,
                role,
                listeners,
                privileges,
                signals,
                ServerTotals::new(totals, app_metrics),
            )
        };
        if let Err(message) = server.open_rest(is_first, apps) {
            server.listeners.iter_mut().for_each(Listener::remove_file);
            server.metrics.iter_mut().for_each(Metrics::end);
            return Err(message);
        }
        if is_first {
            let kept = server.listeners.iter().filter(|listener| listener.stored);
            fit_sockets(kept, settings, server.privileges.owner_of_sockets());
            server.notifier = Notifier::of_environment();
            server.notifier.store(&mut server.listeners, settings);
            server.notifier.loading();
        } else {
            server.edges.iter_mut().for_each(Edges::succeed);
        }
        Ok(server)
    }

    /// Opens the parts that need the listeners.
    fn open_rest(&mut self, is_first: bool, apps: &[AppShape<'a>]) -> Result<(), String> {
        let settings = self.settings;
        self.privileges.hand_over(settings, &self.listeners)?;
        let boxes = self.succession.before.as_ref().and_then(|before| outbox::inherit_boxes(before.pid()));
        self.edges = Edges::new(settings, apps, boxes)?;
        self.exporter = Exporter::new(settings)?;
        self.relay = Relay::new(settings, self.edges.as_ref().map(Edges::posts))?;
        self.metrics = upgrade::metrics(settings, is_first, &self.listeners)?;
        // The control socket and the pid file belong to the previous server until this one takes over.
        if is_first {
            self.control = Control::open(settings, is_any_lent(&self.listeners))?;
            self.pid_file = settings.pid_file.as_deref().map(PidFile::write).transpose()?;
        }
        Ok(())
    }

    /// Creates the server of a mold, which has inherited `listeners`, or `pools` if there are edges.
    ///
    /// # Errors
    /// Signals cannot be watched, or the workers cannot run as the user of the settings.
    pub(in super::super) fn of_mold(
        settings: &'a Settings,
        runtime: &'a dyn Runtime,
        generation: u64,
        listeners: Vec<Listener>,
        pools: Vec<Memory>,
    ) -> Result<Self, String> {
        let privileges = Privileges::of(settings)?;
        let signals = Signals::watch(false).map_err(|error| failed_to("watch signals", &error))?;
        raise_descriptor_limit();
        // The master reads the app metrics of its molds itself.
        let totals = ServerTotals::new(Totals::of_this_process(&settings.route_names()), None);
        let role = Role::Mold(generation);
        Ok(Self { pools, ..Self::without_extras(settings, Some(runtime), role, listeners, privileges, signals, totals) })
    }

    fn without_extras(
        settings: &'a Settings,
        runtime: Option<&'a dyn Runtime>,
        role: Role,
        listeners: Vec<Listener>,
        privileges: Privileges,
        signals: Signals,
        totals: ServerTotals,
    ) -> Self {
        Self {
            settings,
            runtime,
            role,
            phase: Phase::Serving,
            drain_period: None,
            stop_by: None,
            started_at: Instant::now(),
            listeners,
            leaving: Vec::new(),
            edges: None,
            pools: Vec::new(),
            privileges,
            signals,
            totals,
            notifier: Notifier::default(),
            watch: None,
            restart_file: None,
            certificates: WatchedFiles::default(),
            users: WatchedFiles::default(),
            certifier: None,
            exporter: None,
            relay: None,
            control: None,
            metrics: None,
            pid_file: None,
            succession: Succession::none(),
        }
    }
}
