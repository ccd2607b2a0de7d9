//! The apps of a server with a master: a workforce with the molds of each app.
//!
//! Nothing that one app does ends another one: each has its own molds, workers, pools and pace. The server starts as long as one
//! app can be loaded.

mod applying;
mod auto_apply;
mod following;
mod reload;
mod watching;

use super::announce;
use super::app::{App, Plans, ServerPlan};
use super::molds::{MOLD_GRACE, Molds};
use super::server::{Phase, Server};
use super::server_totals::ServerTotals;
use super::workforce::{Apply, Finish, Workforce};
use applying::ServerFile;
use following::Following;
use oribi_admin::control::{Control, ProcessReport, Progress};
use oribi_control_api::{AppState, Generation, WorkerTarget};
use oribi_edge::parent_link::{Reason, WorkerRequest};
use oribi_listen::Listener;
use oribi_pool::Availability;
use oribi_stats::app_metrics::Contexts;
use oribi_stats::scoreboard::{DrainState, RunningRequest};
use reload::AppReloads;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitStatus};
use std::time::{Duration, Instant};

pub(super) struct Apps<'a> {
    apps: Vec<Molds<'a>>,
    reloads: AppReloads,
    /// Whether it was announced that the server serves.
    announced: bool,
    /// The availability of each app when the edges were last informed.
    available: Vec<Availability>,
    following: Following,
    /// The file of the server. `None` if its only app was named on the command line.
    file: Option<ServerFile<'a>>,
}

/// The places that numbers of changes of workers leave for apps.
const PLACES: u64 = 1 << 16;

impl<'a> Apps<'a> {
    /// Creates the workforce without a mold.
    pub(super) fn new(apps: Vec<App<'a>>, file: Option<(&'a dyn Plans, ServerPlan)>) -> Self {
        let apps: Vec<_> = apps.into_iter().enumerate().map(|(index, app)| Molds::new(app, index)).collect();
        let (available, following) = (vec![Availability::Available; apps.len()], Following::new(apps.len()));
        let file = file.map(|(plans, plan)| ServerFile::new(plans, plan));
        Self { apps, reloads: AppReloads::default(), announced: false, available, following, file }
    }

    /// Returns the app with this name. Without a name, there must be only one app.
    fn app(&mut self, name: Option<&str>) -> Result<(usize, &mut Molds<'a>), String> {
        let present: Vec<usize> = self.present().map(|(index, _)| index).collect();
        let index = match (name, &present[..]) {
            (None, [only]) => *only,
            (None, _) => return Err(format!("there are several apps; name one of {}", names(self.present_apps()))),
            (Some(name), _) => {
                let found = present.into_iter().find(|index| self.apps[*index].label().name() == Some(name));
                found.ok_or_else(|| format!("there is no app {name:?}; known are {}", names(self.present_apps())))?
            }
        };
        Ok((index, &mut self.apps[index]))
    }

    /// Returns the apps to which routes lead, with their places.
    fn present(&self) -> impl Iterator<Item = (usize, &Molds<'a>)> {
        self.apps.iter().enumerate().filter(|(_, app)| app.is_present())
    }

    fn present_apps(&self) -> impl Iterator<Item = &Molds<'a>> {
        self.present().map(|(_, app)| app)
    }

    /// When all apps have been loaded, or cannot be: announces that the server serves. Makes it fail if none does.
    fn note_start(&mut self, server: &mut Server<'_>) {
        if self.announced || server.phase == Phase::Failed || !self.apps.iter().all(Molds::is_settled) {
            return;
        }
        if !self.apps.iter().any(Molds::has_started) {
            log::error!("no app could be loaded: fix the errors above, then start the server again");
            return server.fail();
        }
        self.announced = true;
        server.notifier.ready("serving");
        server.set_title("");
        if !server.succession.is_not_ready() {
            announce(&server.listeners, server.settings, self.wanted());
            server.control.iter_mut().for_each(Control::take_name);
        }
        let failed: Vec<&Molds<'_>> = self.apps.iter().filter(|app| !app.has_started()).collect();
        if !failed.is_empty() {
            log::error!("not all apps serve: {} cannot be loaded, and clients get a 503", names(failed));
        }
    }

    /// Informs the edges which apps are available, if that has changed.
    pub(super) fn note_availability(&mut self, server: &Server<'_>) {
        for (index, (app, before)) in self.apps.iter().zip(&mut self.available).enumerate() {
            let available = app.availability();
            if std::mem::replace(before, available) != available {
                for pool in server.pools(index) {
                    if let Err(error) = pool.set_availability(available) {
                        log::error!("cannot inform an edge about {}: {error}", app.label());
                    }
                }
            }
        }
    }

    /// Makes all apps give up, if one has made the server fail.
    fn give_up_if_failed(&mut self, server: &Server<'_>) {
        if server.phase == Phase::Failed {
            self.give_up();
        }
    }
}

fn names<'m, 'a: 'm>(apps: impl IntoIterator<Item = &'m Molds<'a>>) -> String {
    apps.into_iter().filter_map(|app| app.label().name()).collect::<Vec<_>>().join(", ")
}

impl Workforce for Apps<'_> {
    /// Does nothing: [`Self::keep_running`] starts the first molds.
    fn begin(&mut self, _: &mut Server<'_>) {}

    fn rearm(&self) {}

    fn step(&mut self, server: &mut Server<'_>) {
        self.apps.iter_mut().for_each(|app| app.step(server));
        self.following.follow(&mut self.apps, server);
        self.note_start(server);
        self.go_on_applying(server);
        self.apply_changes(server);
        self.note_availability(server);
        self.give_up_if_failed(server);
    }

    fn keep_running(&mut self, server: &mut Server<'_>) {
        self.apps.iter_mut().for_each(|app| app.keep_a_mold(server));
        // A request may have woken an app.
        self.note_availability(server);
        self.give_up_if_failed(server);
    }

    /// Does nothing: a master waits for all its children, and passes their ends to [`Self::ended`].
    fn reap(&mut self, _: &mut Server<'_>) {}

    fn ended(&mut self, server: &mut Server<'_>, pid: Pid, status: WaitStatus) {
        if let Some(app) = self.apps.iter_mut().find(|app| app.owns(pid)) {
            app.mold_ended(server, pid, status);
        }
        self.give_up_if_failed(server);
    }

    fn has_served(&self) -> bool {
        self.announced || self.apps.iter().all(Molds::is_settled) && self.apps.iter().any(Molds::has_started)
    }

    fn is_complete(&self) -> bool {
        self.has_served()
    }

    fn is_alive(&self) -> bool {
        // With several apps, one that has failed must not restart the others.
        if self.has_one_app() { self.present_apps().all(Molds::is_alive) } else { self.present_apps().any(Molds::is_alive) }
    }

    fn answers_those_waiting(&self) -> bool {
        // Loading an app may take long.
        self.present_apps().any(Molds::has_started)
    }

    fn reload(&mut self, server: &mut Server<'_>, app: Option<&str>) -> Result<u64, String> {
        server.renew_certificates();
        server.renew_users();
        let numbers = match app {
            None => {
                let apps = self.apps.iter_mut().enumerate();
                let running = apps.filter(|(_, app)| app.is_present() && !app.is_stopped() && !app.is_asleep());
                running.map(|(index, app)| (index, app.load_again(server))).collect()
            }
            Some(_) => {
                let (index, app) = self.app(app)?;
                vec![(index, app.load_again(server))]
            }
        };
        Ok(self.reloads.begin(numbers))
    }

    fn reload_progress(&self, number: u64) -> Progress {
        self.reloads.progress(number, &self.apps)
    }

    fn wanted(&self) -> usize {
        self.present_apps().map(Molds::wanted).sum()
    }

    fn workers_of(&mut self, app: Option<&str>) -> Result<usize, String> {
        self.app(app).map(|(_, app)| app.wanted())
    }

    fn most_workers(&self, server: &Server<'_>) -> usize {
        self.present_apps().map(|app| app.most(server)).sum()
    }

    fn scale(&mut self, server: &Server<'_>, app: Option<&str>, target: WorkerTarget) -> Result<u64, String> {
        let (index, app) = self.app(app)?;
        Ok(app.scale_to(server, target)? * PLACES + index as u64)
    }

    fn follows_load(&self) -> bool {
        self.apps.iter().any(|app| app.range().follows_load())
    }

    fn begin_with(&mut self, workers: usize) {
        self.apps.iter_mut().for_each(|app| app.begin_with(workers));
    }

    fn scale_progress(&self, number: u64) -> Progress {
        self.apps[(number % PLACES) as usize].change_progress(number / PLACES)
    }

    fn stop_app(&mut self, name: &str) -> Result<(), String> {
        let (_, app) = self.app(Some(name))?;
        log::info!("{} stops: its workers finish", app.label());
        app.stop_app();
        Ok(())
    }

    fn index_of(&mut self, name: &str) -> Result<usize, String> {
        self.app(Some(name)).map(|(index, _)| index)
    }

    fn is_serving(&mut self, name: &str) -> Result<bool, String> {
        self.app(Some(name)).map(|(_, app)| app.state() == "serving")
    }

    fn has_one_app(&self) -> bool {
        self.present().count() == 1
    }

    fn apply(&mut self, server: &mut Server<'_>, order: Apply) -> Result<u64, String> {
        self.begin_to_apply(server, order)
    }

    fn apply_progress(&self, number: u64) -> Progress {
        self.file.as_ref().map_or(Progress::Pending, |file| file.progress(number))
    }

    fn is_applying(&self) -> bool {
        self.file.as_ref().is_some_and(ServerFile::is_applying)
    }

    fn has_file(&self) -> bool {
        self.file.is_some()
    }

    fn app_states(&self) -> Vec<AppState> {
        let state = |app: &Molds<'_>| {
            let name = app.label().name()?.to_owned();
            let requests = app.workers().map(|process| process.row.requests).sum();
            Some(AppState { name, state: app.state().into(), workers: app.wanted(), requests })
        };
        self.present_apps().filter_map(state).collect()
    }

    fn leave_slowly(&mut self, _: &mut Server<'_>) -> bool {
        false
    }

    fn let_next_leave(&mut self, _: &mut Server<'_>) -> bool {
        true
    }

    fn stop(&mut self, server: &mut Server<'_>, finish: Finish) {
        if finish == Finish::Last {
            server.listeners.iter_mut().for_each(Listener::remove_file);
        }
        let deadline = self.apps.iter_mut().map(|app| app.stop(server, finish)).max();
        server.phase = Phase::Stopping { deadline: deadline.unwrap_or_else(Instant::now), cut: false };
    }

    fn finish_up(&mut self, server: &mut Server<'_>) -> bool {
        let now = Instant::now();
        if let Phase::Stopping { deadline, .. } = server.phase
            && now >= deadline
            && !self.is_gone()
        {
            self.apps.iter_mut().for_each(|app| app.end_all(now + MOLD_GRACE));
            server.phase = Phase::Stopping { deadline: now + MOLD_GRACE, cut: true };
        }
        self.is_gone()
    }

    fn end_now(&mut self, server: &mut Server<'_>, _: &str) {
        self.apps.iter_mut().for_each(Molds::end_now);
        server.phase = Phase::Stopping { deadline: Instant::now() + MOLD_GRACE, cut: true };
    }

    fn give_up(&mut self) {
        self.apps.iter_mut().for_each(Molds::give_up);
    }

    fn is_gone(&self) -> bool {
        self.apps.iter().all(Molds::is_gone)
    }

    fn set_drain_state(&self, drain_state: DrainState) {
        self.apps.iter().for_each(|app| app.set_drain_state(drain_state));
    }

    fn handle_request(&mut self, _: &Server<'_>, request: WorkerRequest) {
        match (request.reason, request.process as usize) {
            (Reason::Asleep, index) => {
                if let Some(app) = self.apps.get_mut(index) {
                    self.following.wake(app, index);
                }
            }
            _ => self.apps.iter().for_each(|app| app.handle_request(request)),
        }
    }

    fn reopen_logs(&self) {
        self.apps.iter().for_each(|app| app.send_all(super::inheritance::Message::Reopen));
    }

    fn own_listeners(&self) {
        self.apps.iter().for_each(|app| app.send_all(super::inheritance::Message::Own));
    }

    fn add_counts(&self, totals: &ServerTotals, own_connections: bool) {
        self.apps.iter().for_each(|app| app.add_counts(totals, own_connections));
        totals.add_orphaned();
    }

    fn release(&mut self) {
        self.apps.iter_mut().for_each(Molds::release);
        self.file.iter_mut().for_each(ServerFile::release);
    }

    fn patience(&self, server: &Server<'_>, now: Instant) -> Option<Duration> {
        let applying = self.file.iter().flat_map(|file| [file.patience(now), file.next_look(now)]).flatten();
        let steps = self.apps.iter().filter_map(|app| app.next_step(server, now));
        steps.chain(self.following.wait(&self.apps, now)).chain(applying).min()
    }

    fn polled<'p>(&'p self, polled: &mut Vec<PollFd<'p>>) {
        self.apps.iter().for_each(|app| app.polled(polled));
        let watched = self.file.as_ref().and_then(ServerFile::changes);
        polled.extend(watched.map(|changes| PollFd::from_borrowed_fd(changes, PollFlags::IN)));
    }

    fn generations(&self) -> Vec<Generation> {
        self.apps.iter().flat_map(Molds::generations).collect()
    }

    fn processes(&self) -> Vec<ProcessReport> {
        self.apps.iter().flat_map(Molds::workers).collect()
    }

    fn running(&self) -> Vec<RunningRequest> {
        self.apps.iter().flat_map(Molds::running).collect()
    }

    fn parent_process(&self, process: &ProcessReport) -> Option<u32> {
        let generation = process.generation?;
        self.apps_of(process).find_map(|app| app.parent_process(generation))
    }

    fn backtraces(&self, process: &ProcessReport, lines: usize) -> Vec<u8> {
        let Some(generation) = process.generation else { return Vec::new() };
        let app = self.apps_of(process).find(|app| app.parent_process(generation).is_some());
        app.map(|app| app.backtraces(generation, process.row.number, lines)).unwrap_or_default()
    }

    fn contexts(&self) -> Vec<Contexts> {
        self.apps.iter().flat_map(Molds::contexts).collect()
    }
}

impl<'a> Apps<'a> {
    /// Returns the app of a process. There are two of the same name while a change replaces one by the other.
    fn apps_of(&self, process: &ProcessReport) -> impl Iterator<Item = &Molds<'a>> {
        self.apps.iter().filter(|app| app.label().name() == process.app.as_deref())
    }
}
