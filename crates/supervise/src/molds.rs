//! The master: a small process without a language. It opens the listeners and starts a mold, which loads the app and forks
//! the workers. It starts another mold if that one dies, or to reload the app.

mod books;
mod certifying;
mod changing;
mod ends;
mod exporting;
mod farewell;
mod generation;
mod late;
mod loading;
mod replaced;
mod reports;
mod rolling;
mod stopping;
mod taking_over;
mod waiting;

use super::adoption::{adopt_or_open, secured};
use super::books::Books;
use super::certificate_files::CertificateFiles;
use super::certificates;
use super::certifier::{self, Certifier};
use super::edges::{Birth, Edges};
use super::exporter::Exporter;
use super::farewell::Farewell;
use super::inheritance::{self, Word};
use super::notify::{self, Notifier};
use super::pace::Pace;
use super::pid_file::PidFile;
use super::privileges::Privileges;
use super::raise_descriptor_limit;
use super::reloads::Reloads;
use super::restart_file::RestartFile;
use super::signals::{self, Signals, Wishes};
use super::title::Title;
use super::upgrade::{self, Succession};
use super::watch::{self, Watch};
use generation::Generation;
use oribi_admin::control::{self, Control};
use oribi_admin::metrics::{self, Metrics};
use oribi_config::Settings;
use oribi_config::directory::Directory;
use oribi_engine::shortage::explain;
use oribi_io::process::fork;
use oribi_listen::{Listener, is_any_lent};
use rolling::Rolling;
use rustix::process::Signal;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that a mold may take to stop, beyond that of its workers.
const MOLD_GRACE: Duration = Duration::from_secs(5);

/// The number of molds that had served and are replaced at once, and the time after which one more is. To load an app
/// occupies a processor.
const MOLDS: (u32, Duration) = (5, Duration::from_secs(1));

/// Runs `mold` as the process that loads the app, and serves until told to stop. `mold` finds the listeners in its
/// environment, and [`supervise`](super::supervise) takes them over. Returns the exit status for the process: 0, or 1 if the
/// app could not be loaded at the start, the listeners could not be opened, or requests had to be cut off.
///
/// Signals have the same meaning as for [`supervise`](super::supervise), except that HUP loads the app again, in another
/// mold; when that mold's workers accept connections, the old ones retire. The master may run as process 1. The process must
/// have only one thread. A worker of the mold has `lanes` threads that take requests by themselves.
///
/// If there are edges, this process forks them. They stop first, and workers only when no request is left.
pub fn run(settings: &Settings, mold: Command, lanes: usize) -> i32 {
    let mut master = match Master::start(settings, mold, lanes) {
        Ok(master) => master,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    upgrade::keep_scale(&mut master);
    let status = master.run();
    master.end_exporter();
    let status = upgrade::conclude(&mut master, status);
    master.listeners.iter_mut().for_each(Listener::end);
    master.metrics.iter_mut().for_each(Metrics::end);
    status
}

struct Master<'a> {
    settings: &'a Settings,
    mold: Command,
    listeners: Vec<Listener>,
    /// `None`: workers have the connections.
    edges: Option<Edges<'a>>,
    privileges: Privileges,
    signals: Signals,
    wishes: Wishes,
    notifier: Notifier,
    /// The serving generation, the one being loaded, and those that are finishing.
    generations: Vec<Generation>,
    /// The number of generations started.
    started: u64,
    /// The outcomes of reloads.
    reloads: Reloads,
    /// A reload that replaces one worker after the other.
    rolling: Option<Rolling>,
    /// Whether any generation has been ready.
    served: bool,
    pace: Pace,
    stage: Stage,
    /// The drain period, during which it still serves.
    farewell: Option<Farewell>,
    restart_file: Option<RestartFile<'a>>,
    certificates: CertificateFiles,
    /// `None`: no certificate is ordered.
    certifier: Option<Certifier>,
    /// `None`: spans are not exported.
    exporter: Option<Exporter>,
    control: Option<Control>,
    metrics: Option<Metrics>,
    books: Books,
    born: Instant,
    /// The target number of workers of each generation.
    wanted: usize,
    /// The number of threads of a worker that take requests by themselves.
    lanes: usize,
    change: changing::Changing,
    pid_file: Option<PidFile>,
    succession: Succession,
    /// The files of the app, if it is reloaded when one of them changes.
    watch: Option<Watch>,
    /// The directory in which the app is loaded.
    directory: Directory,
}

/// Sets the title of this process.
fn entitle(settings: &Settings, state: &str) {
    Title { role: "master", generation: None, state }.show(settings, None);
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Serving,
    /// The edges finish their requests. Workers serve as before.
    Draining {
        /// The time when everything must have ended.
        deadline: Instant,
    },
    Stopping {
        deadline: Instant,
        /// Whether requests had to be cut off.
        cut: bool,
    },
    /// Everything has ended.
    Ended {
        status: i32,
    },
}

impl<'a> Master<'a> {
    fn start(settings: &'a Settings, mut mold: Command, lanes: usize) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {}", explain(&error));
        let mut privileges = Privileges::of(settings)?;
        privileges.look_up_edges(settings)?;
        privileges.drop_in(&mut mold);
        inheritance::OWN.iter().chain(&notify::VARIABLES).for_each(|variable| _ = mold.env_remove(variable));
        let (succession, inherited) = Succession::of_process()?;
        let is_first = inherited.is_none();
        let signals = Signals::watch(true).map_err(|error| failed("watch signals", error))?;
        raise_descriptor_limit();
        // Workers whose mold has died become children of this process, so that it can wait for them.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| failed("become the parent of orphans", error.into()))?;
        let answers = certifier::prepare(settings)?;
        let mut listeners = inherited.map_or_else(|| adopt_or_open(settings), secured)?;
        certifier::answer_challenges(&mut listeners, answers);
        let pid_file = privileges
            .hand_over(settings, &listeners)
            .and_then(|()| settings.pid_file.as_deref().filter(|_| is_first).map(PidFile::write).transpose())
            .inspect_err(|_| listeners.iter_mut().for_each(Listener::remove_file))?;
        let made = Edges::new(settings, lanes).and_then(|edges| {
            // The control socket belongs to the previous server until this one takes over.
            let control = if is_first { Control::open(settings, is_any_lent(&listeners))? } else { None };
            Ok((edges, control, upgrade::metrics(settings, is_first, &listeners)?, Exporter::new(settings)?))
        });
        let (mut edges, control, metrics, exporter) =
            made.inspect_err(|_| listeners.iter_mut().for_each(Listener::remove_file))?;
        let mut notifier = Notifier::default();
        if is_first {
            notifier = Notifier::of_environment();
            notifier.store(&mut listeners, settings);
            notifier.loading();
        } else {
            edges.iter_mut().for_each(Edges::succeed);
        }
        let counted =
            upgrade::totals(settings, is_first).and_then(|totals| Ok((totals, upgrade::figures(settings, is_first)?)));
        let (totals, figures) = counted.map_err(|error| failed("share memory with later masters", error))?;
        let books = Books::new(totals, figures);
        entitle(settings, "loading");
        let certificates = CertificateFiles::of(&listeners, Instant::now());
        Ok(Self {
            settings,
            mold,
            listeners,
            edges,
            privileges,
            signals,
            wishes: Wishes::default(),
            notifier,
            generations: Vec::new(),
            started: 0,
            reloads: Reloads::default(),
            rolling: None,
            served: false,
            pace: Pace::new(Duration::ZERO, settings.respawn_interval).replacing(MOLDS.0, MOLDS.1),
            stage: Stage::Serving,
            farewell: None,
            watch: watch::begin(settings),
            directory: Directory::current(),
            restart_file: settings.restart_file.as_deref().map(|path| RestartFile::new(path, Instant::now())),
            certificates,
            certifier: Certifier::new(settings),
            exporter,
            control,
            metrics,
            books,
            born: Instant::now(),
            wanted: settings.workers.max(1),
            lanes,
            change: changing::Changing::default(),
            pid_file,
            succession,
        })
    }

    fn run(&mut self) -> i32 {
        loop {
            self.signals.rearm();
            self.obey_signals();
            self.go_on_with_farewell();
            // Reaping a mold also reads the messages of all others, so their effects are handled after it.
            self.reap();
            self.listen_to_molds();
            self.roll();
            self.go_on_with_change();
            self.end_overdue();
            self.end_late_loads();
            self.pass_on_pleas();
            self.keep_watchdog();
            upgrade::go_on(self);
            self.keep_books_if_watched();
            self.keep_exporter();
            match self.stage {
                Stage::Serving => {
                    self.keep_edges();
                    self.keep_certifier();
                    self.keep_running();
                }
                Stage::Draining { .. } => {
                    self.end_certifier();
                    self.drain();
                }
                Stage::Stopping { deadline, cut } => {
                    self.end_certifier();
                    self.finish_up(deadline, cut);
                }
                Stage::Ended { status } => {
                    control::say_end(self, status);
                    return status;
                }
            }
            metrics::attend(self);
            if !matches!(self.stage, Stage::Ended { .. }) && !control::steer(self) {
                self.sleep();
            }
        }
    }

    fn obey_signals(&mut self) {
        if self.succession.pass_signals_on() {
            return;
        }
        self.obey_stops();
        let told = signals::take(Signal::HUP) > 0;
        let touched = self.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        let changed = watch::look(self.watch.as_mut());
        let renewed = self.certificates.have_changed(Instant::now());
        // Workers without an edge are given certificates when they start.
        let renews = renewed && self.edges.is_none();
        if self.stage == Stage::Serving && self.farewell.is_none() {
            if told || touched || changed || renews {
                self.reload();
            } else if renewed {
                certificates::renew(&mut self.certificates, &self.listeners, self.edges.as_ref());
            }
        }
        if signals::take(Signal::USR1) > 0 {
            self.reopen_logs();
        }
        upgrade::obey_signals(self);
    }

    fn say(&self, word: Word) {
        self.generations.iter().for_each(|generation| generation.link.say(word));
    }

    /// While serving: starts the edges that are missing.
    fn keep_edges(&mut self) {
        // While another server serves, clients must not wait here until the app is loaded.
        let serves = self.served || !self.succession.is_not_ready();
        if let Some(edges) = self.edges.as_mut().filter(|_| serves)
            && let Some(birth) = edges.keep_running(fork)
        {
            self.become_edge(birth);
        }
    }

    /// In a new edge: releases the descriptors of the master.
    fn become_edge(&mut self, birth: Birth) -> ! {
        // If an edge kept the sockets to the molds, these would not notice the master's death.
        self.generations.clear();
        (self.control, self.metrics, self.certifier, self.exporter) = (None, None, None, None);
        self.succession.close();
        self.books.leave();
        self.watch = None;
        let pools = self.edges.take().map(Edges::into_pools).unwrap_or_default();
        let entitle = |role: &str| Title { role, generation: None, state: "" }.show(self.settings, None);
        birth.live(self.settings, &self.listeners, pools, &self.privileges, &mut self.signals, entitle)
    }

    /// Reports to the service manager that this server is alive, while its edges and a mold are there.
    fn keep_watchdog(&mut self) {
        let Self { notifier, generations, edges, stage, .. } = self;
        let has_mold = generations.iter().any(Generation::stays);
        let alive = || *stage != Stage::Serving || has_mold && edges.as_mut().is_none_or(Edges::are_all_turning);
        notifier.keep_watchdog(Instant::now(), alive);
    }

    /// Forwards the requests of edges about a worker, such as to end it, to all molds. Each mold ignores the workers of
    /// others.
    fn pass_on_pleas(&self) {
        for plea in self.edges.iter().flat_map(Edges::pleas) {
            self.generations.iter().for_each(|generation| generation.link.pass_on(plea));
        }
    }
}
