//! The supervisor forks, replaces and stops workers.

mod aging;
mod behind_edges;
mod below_master;
mod certifying;
mod counting;
mod ends;
mod executed;
mod exporting;
mod farewell;
mod forking;
mod replaced;
mod reports;
mod staffing;
mod starting;
mod stopping;
mod stuck;
mod waiting;

use super::adoption::{adopt_or_open, secured};
use super::books::Books;
use super::certificate_files::CertificateFiles;
use super::certificates;
use super::certifier::{self, Certifier};
use super::edges::Edges;
use super::exporter::Exporter;
use super::farewell::Farewell;
use super::inheritance::{self, Inheritance, Link, Word};
use super::io_model;
use super::member::Member;
use super::notices::Notices;
use super::notify::Notifier;
use super::pace::Pace;
use super::pid_file::PidFile;
use super::privileges::Privileges;
use super::reasons::Reasons;
use super::restart_file::RestartFile;
use super::signals::{self, Signals, Wishes};
use super::title::Title;
use super::upgrade::{self, Succession};
use super::watch::{self, Watch};
use super::{descriptor_shortage, raise_descriptor_limit, scaling};
use oribi_admin::control::{self, Control};
use oribi_admin::metrics::{self, Metrics};
use oribi_config::directory::Directory;
use oribi_config::{IoModel, Settings};
use oribi_engine::shortage::explain;
use oribi_host::Runtime;
use oribi_io::process::note_forks;
use oribi_listen::{Listener, is_any_lent};
use oribi_pool::Memory;
use oribi_stats::scoreboard::{Scoreboard, WorkerCommand};
use oribi_stats::totals::{Counter, Totals};
use rustix::process::Signal;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use stopping::Stage;

/// Serves until told to stop and returns the exit status for the process: 0, or 1 if it could not start or requests had to be
/// cut off. In a worker it does not return. The process must have only one thread.
///
/// On TERM, INT and QUIT it finishes running requests, and on a second TERM or INT it ends at once. HUP replaces the workers,
/// USR1 reopens the logs (with a `spawn_interval`: stops slowly), TTIN and TTOU change the number of workers. Under a master,
/// it leaves INT and HUP to the master, and only the master can make it end at once.
pub fn supervise(settings: &Settings, runtime: &dyn Runtime) -> i32 {
    run(Supervisor::start(settings, runtime, false))
}

/// As [`supervise`], in a process whose program does nothing else, and does the same whenever it is executed with the same
/// arguments. On USR2 it is executed again, to replace this process: see the folder `upgrade`. The process must have no
/// children of its own.
pub fn supervise_program(settings: &Settings, runtime: &dyn Runtime) -> i32 {
    run(Supervisor::start(settings, runtime, true))
}

fn run(started: Result<Supervisor<'_>, String>) -> i32 {
    let mut supervisor = match started {
        Ok(supervisor) => supervisor,
        Err(message) => {
            log::error!("{message}");
            return 1;
        }
    };
    upgrade::keep_scale(&mut supervisor);
    let status = supervisor.run();
    supervisor.end_exporter();
    let status = upgrade::conclude(&mut supervisor, status);
    if supervisor.master.is_none() {
        supervisor.listeners.iter_mut().for_each(Listener::end);
        supervisor.metrics.iter_mut().for_each(Metrics::end);
    }
    status
}

/// Returns the number of threads of a worker that take requests by themselves.
fn lanes_of_worker(settings: &Settings, runtime: &dyn Runtime) -> usize {
    if runtime.global_lock().is_some() { 1 } else { settings.threads.max(1) }
}

/// Logs how sockets are assigned to lanes, if each lane has its own.
fn say_who_has_sockets(listeners: &[Listener], settings: &Settings) {
    let owners = settings.sockets_of_address();
    if owners > 1 {
        for listener in listeners {
            let alone = listener.sockets().count() > 1;
            let what = if alone { "a socket for each" } else { "one socket, as there can be no more, for all" };
            let who = if settings.edges_wanted() > 0 { "edges" } else { "lanes" };
            log::info!("{} has {what} of {owners} {who}", listener.display);
        }
    }
}

struct Supervisor<'a> {
    settings: &'a Settings,
    runtime: &'a dyn Runtime,
    /// Empty in a mold if there are edges.
    listeners: Vec<Listener>,
    /// The edges, if this process forks them.
    edges: Option<Edges<'a>>,
    /// The memory that workers share with the edges of the master; empty: there are none.
    pools: Vec<Memory>,
    privileges: Privileges,
    /// The link to the process that opened the listeners and leads; `None`: this process does.
    master: Option<Link>,
    /// The number of loads of the app by the master so far, including this one.
    generation: u64,
    signals: Signals,
    wishes: Wishes,
    /// Does nothing if this process has a master.
    notifier: Notifier,
    /// The pipe to which workers write when their state changes.
    notices: Notices,
    /// The pipe on which workers report why they cannot serve.
    reasons: Reasons,
    scoreboard: Scoreboard,
    books: Books,
    /// The reason why workers end when this process does.
    ends_for: Counter,
    members: Vec<Member>,
    /// The target number of workers that accept connections.
    wanted: usize,
    /// The last change of that number.
    change: scaling::Change,
    /// The order of the master that is to be reported as done when the number is reached.
    owes_settled: Option<u32>,
    pace: Pace,
    stage: Stage,
    /// The drain period, during which it still serves. A master handles that for its molds.
    farewell: Option<Farewell>,
    /// The time when everything must have ended, if a stop has begun here or the master has sent it.
    stop_by: Option<Instant>,
    /// Whether workers are to be replaced by new ones.
    replacing: bool,
    /// Whether the system does not show the exact memory use of workers.
    weighs_roughly: bool,
    /// The number of workers that ended before they could serve, until the start has been reported.
    failed_starts: usize,
    /// Whether any worker has become ready.
    served: bool,
    /// Whether the start has been reported, to the master or in the log.
    announced: bool,
    /// `None`: the master watches it, or there is none.
    restart_file: Option<RestartFile<'a>>,
    /// Empty if the master watches the files, or nothing is encrypted.
    certificates: CertificateFiles,
    /// `None`: the master has it, or no certificate is ordered.
    certifier: Option<Certifier>,
    /// `None`: the master has it, or spans are not exported.
    exporter: Option<Exporter>,
    /// `None`: the master has it, or there is none.
    control: Option<Control>,
    /// `None`: the master has them, or they are off.
    metrics: Option<Metrics>,
    born: Instant,
    /// The reason why the last replacement of the workers was given up; `None`: it was not.
    replacement_failure: Option<String>,
    /// The files of the app, if workers are replaced when one of them changes.
    watch: Option<Watch>,
    pid_file: Option<PidFile>,
    /// The directory in which each worker loads the app. `None`: the app was loaded before, and may have changed the working
    /// directory.
    directory: Option<Directory>,
    /// The servers before and after this one.
    succession: Succession,
    /// Whether another server serves until all workers here do.
    is_to_be_complete: bool,
}

impl<'a> Supervisor<'a> {
    fn start(settings: &'a Settings, runtime: &'a dyn Runtime, is_program: bool) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {}", explain(&error));
        let mut privileges = Privileges::of(settings)?;
        let (succession, before) = if is_program { Succession::of_process()? } else { (Succession::none(), None) };
        let is_first = before.is_none();
        let signals = Signals::watch(is_program).map_err(|error| failed("watch signals", error))?;
        note_forks().map_err(|error| failed("watch for forks", error))?;
        let descriptors = raise_descriptor_limit();
        let io = io_model::explain(settings, runtime)?;
        let (master, listeners, pools, board, generation) = match inheritance::inherit()? {
            Some(Inheritance { master, mut listeners, pools, board, vault, proof, generation }) => {
                oribi_listen::secure(&mut listeners, vault)?;
                if let Some(proof) = proof {
                    oribi_listen::answer_in_handshakes(&listeners, proof);
                }
                (Some(master), listeners, pools, board, generation)
            }
            None => {
                privileges.look_up_edges(settings)?;
                let answers = certifier::prepare(settings)?;
                let mut listeners = before.map_or_else(|| adopt_or_open(settings), secured)?;
                certifier::answer_challenges(&mut listeners, answers);
                (None, listeners, Vec::new(), None, 1)
            }
        };
        if generation == 1 {
            match settings.io {
                IoModel::Auto => log::debug!("{io}"),
                _ => log::info!("{io}"),
            }
            if let Some(shortage) = descriptor_shortage(descriptors, settings.limits.connections) {
                log::warn!("{shortage}");
            }
            say_who_has_sockets(&listeners, settings);
        }
        let totals =
            if is_program { upgrade::totals(settings, is_first) } else { Ok(Totals::of_this_process(&settings.route_names())) };
        let totals = totals.map_err(|error| failed("share memory with later servers", error))?;
        // A master has the app metrics of its molds.
        let figures = if master.is_none() { upgrade::figures(settings, is_first) } else { Ok(None) };
        let figures = figures.map_err(|error| failed("share memory with later servers", error))?;
        let notices = Notices::new().map_err(|error| failed("make a pipe", error))?;
        let reasons = Reasons::new().map_err(|error| failed("make a pipe", error))?;
        let wanted = settings.workers.max(1);
        let scoreboard =
            below_master::scoreboard(settings, board).map_err(|error| failed("share memory with workers", error))?;
        let mut supervisor = Self {
            settings,
            runtime,
            listeners,
            edges: None,
            pools,
            privileges,
            signals,
            wishes: Wishes::default(),
            notifier: Notifier::default(),
            notices,
            reasons,
            scoreboard,
            books: Books::new(totals, figures),
            ends_for: Counter::EndedByStop,
            members: Vec::new(),
            wanted,
            change: scaling::Change::default(),
            owes_settled: None,
            pace: Pace::new(settings.spawn_interval, settings.respawn_interval),
            stage: Stage::Serving,
            farewell: None,
            stop_by: None,
            replacing: false,
            weighs_roughly: false,
            failed_starts: 0,
            served: false,
            announced: false,
            restart_file: None,
            certificates: CertificateFiles::default(),
            certifier: None,
            exporter: None,
            control: None,
            metrics: None,
            born: Instant::now(),
            replacement_failure: None,
            watch: None,
            pid_file: None,
            succession,
            is_to_be_complete: false,
            master,
            generation,
            directory: is_program.then(Directory::current),
        };
        if supervisor.master.is_none() {
            supervisor.watch = watch::begin(settings);
            supervisor.certificates = CertificateFiles::of(&supervisor.listeners, Instant::now());
            supervisor.certifier = Certifier::new(settings);
            supervisor.restart_file = settings.restart_file.as_deref().map(|path| RestartFile::new(path, Instant::now()));
            let handed_over = supervisor.privileges.hand_over(settings, &supervisor.listeners);
            let lanes = lanes_of_worker(settings, runtime);
            let started = handed_over.and_then(|()| {
                supervisor.edges = Edges::new(settings, lanes)?;
                supervisor.exporter = Exporter::new(settings)?;
                supervisor.metrics = upgrade::metrics(settings, is_first, &supervisor.listeners)?;
                // The control socket and the pid file belong to the previous server until this one takes over.
                if is_first {
                    supervisor.control = Control::open(settings, is_any_lent(&supervisor.listeners))?;
                    supervisor.pid_file = settings.pid_file.as_deref().map(PidFile::write).transpose()?;
                }
                Ok(())
            });
            if let Err(message) = started {
                supervisor.listeners.iter_mut().for_each(Listener::remove_file);
                supervisor.metrics.iter_mut().for_each(Metrics::end);
                return Err(message);
            }
            if is_first {
                supervisor.notifier = Notifier::of_environment();
                supervisor.notifier.store(&mut supervisor.listeners, settings);
                supervisor.notifier.loading();
            } else {
                supervisor.edges.iter_mut().for_each(Edges::succeed);
            }
        }
        supervisor.entitle("starting");
        Ok(supervisor)
    }

    /// Sets the title of this process.
    fn entitle(&self, state: &str) {
        let role = if self.master.is_some() { "mold" } else { "supervisor" };
        Title { role, generation: self.generation_told(), state }.show(self.settings, Some(self.runtime));
    }

    /// Returns the number of the generation, if there may be others.
    fn generation_told(&self) -> Option<u64> {
        self.master.as_ref().map(|_| self.generation)
    }

    /// Whether edges have the connections.
    fn has_edges(&self) -> bool {
        self.edges.is_some() || !self.pools.is_empty()
    }

    fn run(&mut self) -> i32 {
        self.keep_edges();
        // An error that prevents the first fork would prevent all others.
        if let Err(error) = self.start_worker(WorkerCommand::Serve, self.vacant_seat()) {
            let why = explain(&error);
            log::error!("cannot start a worker: {why}");
            self.master.iter().for_each(|master| master.tell_trouble(&format!("a worker cannot be started: {why}")));
            self.edges.iter_mut().for_each(|edges| edges.end_now("there is no worker"));
            return 1;
        }
        loop {
            self.signals.rearm();
            self.notices.rearm();
            self.obey_signals();
            self.obey_master();
            self.go_on_with_farewell();
            self.reap();
            self.look_for_other_programs();
            self.announce();
            self.end_overdue();
            self.end_late_starters();
            self.replace_aged();
            self.keep_app_deadlines();
            self.obey_edges();
            self.let_next_leave();
            self.keep_watchdog();
            upgrade::go_on(self);
            if self.succession.has_yielded() {
                // The other server displays them.
                self.books();
            }
            self.keep_exporter();
            if !matches!(self.stage, Stage::Serving) {
                self.end_certifier();
            }
            let finished = match self.stage {
                Stage::Serving => {
                    self.keep_edges();
                    self.keep_certifier();
                    self.keep_staffed();
                    false
                }
                Stage::Draining => {
                    self.keep_staffed();
                    self.drain_edges();
                    false
                }
                Stage::Leaving { .. } => false,
                Stage::Stopping { .. } => self.finish_up(),
                Stage::Failed => self.members.is_empty() && self.edges.as_ref().is_none_or(Edges::are_gone),
            };
            if finished {
                break;
            }
            metrics::attend(self);
            if !control::steer(self) {
                self.sleep();
            }
        }
        let status = match self.stage {
            Stage::Stopping { cut: true, .. } | Stage::Failed => 1,
            _ => 0,
        };
        control::say_end(self, status);
        status
    }

    fn obey_signals(&mut self) {
        if self.succession.pass_signals_on() {
            return;
        }
        if let Some(master) = &self.master {
            let (term, quit) = (signals::take(Signal::TERM), signals::take(Signal::QUIT));
            signals::take(Signal::INT);
            // A terminal sends INT to all processes, and a service manager may send TERM to all: the master gets it, too, and
            // knows how often it was sent. If TERM was only for this process, the master starts another generation. Requests
            // wait for the workers until the edges have ended, or another generation has taken over. The master may also be
            // in its drain period.
            let waits = self.has_edges() || !self.settings.timeouts.farewell.is_zero();
            match term + quit {
                0 => {}
                _ if waits => master.say(Word::Told),
                _ => self.stop(WorkerCommand::Retire),
            }
        } else {
            self.obey_stops();
        }
        // A terminal sends HUP to the master, too, which then loads the app again.
        let told = signals::take(Signal::HUP) > 0 && self.master.is_none();
        let touched = self.restart_file.as_mut().is_some_and(|file| file.was_touched(Instant::now()));
        let renewed = self.certificates.have_changed(Instant::now());
        // Workers without an edge are given certificates when they start.
        if watch::look(self.watch.as_mut()) || told || touched || (renewed && self.edges.is_none()) {
            self.replace_all();
        } else if renewed {
            certificates::renew(&mut self.certificates, &self.listeners, self.edges.as_ref());
        }
        if signals::take(Signal::USR1) > 0 {
            if self.master.is_none() && !self.settings.spawn_interval.is_zero() {
                self.leave_slowly();
            } else {
                self.reopen_logs();
            }
        }
        upgrade::obey_signals(self);
    }

    /// Reopens the log files in all processes.
    fn reopen_logs(&mut self) {
        super::reopen_error_log(self.settings, &self.privileges);
        self.edges.iter().for_each(Edges::reopen_logs);
        self.certifier.iter().for_each(Certifier::reopen_logs);
        self.exporter.iter().for_each(Exporter::reopen_logs);
        let Some(member) = self.members.first() else { return };
        member.slot.log_opening.fetch_add(1, Relaxed);
        self.members.iter().for_each(Member::wake);
    }

    /// Reports to the service manager that this server is alive, while its edges and workers are there.
    fn keep_watchdog(&mut self) {
        let Self { notifier, members, edges, stage, .. } = self;
        let alive =
            || !matches!(stage, Stage::Serving) || !members.is_empty() && edges.as_mut().is_none_or(Edges::are_all_turning);
        notifier.keep_watchdog(Instant::now(), alive);
    }
}
