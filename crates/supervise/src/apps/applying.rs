//! Applies the file of the server while it serves: changes only the differences, without a closed connection or a lost request.
//!
//! 1. The file is read and checked whole, and compared with what runs. Options of the whole server cannot change here: an upgrade
//!    applies them. New addresses are opened, and no client is accepted there. Nothing has changed so far.
//! 2. Each app that is new, or differs in more than the number of its workers, gets a place of its own: memory at each edge, and
//!    molds that load it. The present app keeps its place and serves. When one cannot be loaded, or takes longer than its
//!    `--load-timeout`, all new ones are given up.
//! 3. When all of them have workers that could serve, the edges get the plan: the memory of new places, new sockets and the text
//!    of the routes, which each edge compiles again, because compiled routes cannot be sent. They report whether they can serve by
//!    it. If one cannot, all is given up.
//! 4. The plan is committed: each edge swaps its routes between two requests, within the same moment, and accepts at new
//!    addresses. Those that are gone end as in `server/listening.rs`. Then numbers of workers
//!    change, and the apps that no route leads to any more leave: when no request of theirs is in a queue or runs, their workers
//!    finish. Their places stay, and are given to later apps, so that nothing grows with the number of changes.
//!
//! An edge that dies meanwhile is replaced, and the next one gets what the others have (`edges/change.rs`). New edges were not
//! forked for a change, because connections of HTTP/2 and TLS cannot be handed over to them.

use super::super::app::{App, AppKey, FilePlan, PlannedApp, Plans, ServerPlan};
use super::super::edges::{ChangeProgress, Edges, PlanForEdges};
use super::super::mold_command::prepare_mold;
use super::super::molds::Molds;
use super::super::notify::Reloading;
use super::super::server::Server;
use super::super::workforce::Apply;
use super::Apps;
use super::watching::FileWatch;
use oribi_admin::control::Progress;
use oribi_config::Settings;
use oribi_listen::{AddressPlan, ListenChange, SentListeners};
use oribi_pool::Availability;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The number of changes whose outcomes are remembered.
const REMEMBERED: usize = 32;

/// The most places for apps: a removed app leaves its place to the next one that fits.
const MOST_PLACES: usize = 4096;

/// The time that edges have to prepare a plan.
const EDGES_WITHIN: Duration = Duration::from_secs(30);

/// The message if something cannot be changed in place.
const UPGRADE: &str = "oribi ctl upgrade applies it";

/// The file of a server, and its changes.
pub(super) struct ServerFile<'a> {
    pub(super) plans: &'a dyn Plans,
    /// The part of the file for the whole server, as it serves.
    server: ServerPlan,
    /// The file that was applied last, if it is not that of the start.
    pub(super) file: Option<PathBuf>,
    pub(super) change: Option<Change>,
    /// Watches the file; `None` if its changes are not applied by themselves.
    pub(super) watch: Option<FileWatch>,
    /// Whether HUP has arrived during a change.
    hup_arrived: bool,
    /// The number of changes so far, and the outcomes of the last ones.
    started: u64,
    outcomes: VecDeque<(u64, Progress)>,
    /// The names and settings of apps, which last as long as this process.
    names: Vec<&'static str>,
    settings: Vec<&'static Settings>,
}

/// A change that is under way.
pub(super) struct Change {
    step: Step,
    /// The apps that are loaded, by their places, and the apps that leave when those serve.
    joining: Vec<usize>,
    leaving: Vec<usize>,
    /// The places of present apps, with those of the same apps with other options.
    changing: Vec<(usize, usize)>,
    /// The apps that differ in the number of their workers, with their settings and options.
    scaled: Vec<(usize, (&'static str, &'static Settings), Vec<String>)>,
    /// Whether apps that do not differ are loaded again afterwards.
    reloads: bool,
    /// The listeners for other addresses.
    listeners: Option<ListenChange>,
    server: ServerPlan,
    text: Vec<u8>,
    file: Option<PathBuf>,
    /// The description of the differences.
    lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Load,
    /// Edges prepare the plan, until this time.
    Prepare(Instant),
    Swap,
}

/// The differences between a file and the server, by the places of present apps and the indices of planned ones.
#[derive(Debug, Default)]
struct Differences {
    added: Vec<usize>,
    changed: Vec<(usize, usize)>,
    scaled: Vec<(usize, usize)>,
    removed: Vec<usize>,
    lines: Vec<String>,
}

impl<'a> ServerFile<'a> {
    pub(super) fn new(plans: &'a dyn Plans, server: ServerPlan) -> Self {
        let mut file = Self {
            plans,
            server,
            file: None,
            change: None,
            watch: None,
            hup_arrived: false,
            started: 0,
            outcomes: VecDeque::new(),
            names: Vec::new(),
            settings: Vec::new(),
        };
        if file.server.settings.life.auto_apply {
            file.watch = FileWatch::begin(&plans.sources(None));
        }
        file
    }

    pub(super) const fn is_applying(&self) -> bool {
        self.change.is_some()
    }

    /// Returns the progress of the change with this number.
    pub(super) fn progress(&self, number: u64) -> Progress {
        let known = self.outcomes.iter().find(|(known, _)| *known == number).map(|(_, outcome)| outcome.clone());
        let is_present = number == self.started && self.change.is_some();
        known.unwrap_or_else(|| {
            if is_present { Progress::Pending } else { Progress::Failed("the change is forgotten".to_owned()) }
        })
    }

    /// Returns the time until the step that is under way has taken too long.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        match self.change.as_ref()?.step {
            Step::Prepare(until) => Some(until.saturating_duration_since(now)),
            Step::Load | Step::Swap => None,
        }
    }

    fn end(&mut self, outcome: Progress) {
        self.change = None;
        self.outcomes.push_back((self.started, outcome));
        let excess = self.outcomes.len().saturating_sub(REMEMBERED);
        self.outcomes.drain(..excess);
    }

    /// Returns values that last as long as this process. Equal ones are kept once.
    fn keep(&mut self, name: &str, settings: &Settings) -> (&'static str, &'static Settings) {
        let name = self.names.iter().copied().find(|known| *known == name).unwrap_or_else(|| {
            let kept: &'static str = name.to_owned().leak();
            self.names.push(kept);
            kept
        });
        let settings = self.settings.iter().copied().find(|known| *known == settings).unwrap_or_else(|| {
            let kept: &'static Settings = Box::leak(Box::new(settings.clone()));
            self.settings.push(kept);
            kept
        });
        (name, settings)
    }
}

/// Returns the names of the options that differ.
fn differing<'n>(one: &'n [String], other: &'n [String]) -> BTreeSet<&'n str> {
    let name = |argument: &'n String| argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
    let only = |these: &'n [String], those: &'n [String]| these.iter().filter(|argument| !those.contains(argument)).map(name);
    only(one, other).chain(only(other, one)).collect()
}

impl<'a> Apps<'a> {
    /// Reads the file, and begins to change what differs. Returns the number of the change.
    pub(super) fn begin_to_apply(&mut self, server: &mut Server<'_>, order: Apply) -> Result<u64, String> {
        let announced = self.announced;
        let file = self.file.as_mut().ok_or("this server has no file with apps: start it with oribi -c FILE")?;
        if file.change.is_some() {
            file.hup_arrived |= order.reloads;
            return if order.reloads { Ok(file.started) } else { Err("another change of the file is under way".to_owned()) };
        }
        if !announced || server.succession.is_not_ready() {
            return Err("the server is starting".to_owned());
        }
        if server.succession.successor.is_some() {
            return Err("the server is being upgraded".to_owned());
        }
        let named = order.file.clone().or_else(|| file.file.clone());
        let FilePlan { server: part, apps: mut planned, text, warnings } = file.plans.plan(named.as_deref())?;
        if part.arguments != file.server.arguments {
            let names = differing(&part.arguments, &file.server.arguments).into_iter().collect::<Vec<_>>().join(", ");
            return Err(format!("options of the whole server differ ({names}); {UPGRADE}"));
        }
        let swaps_routes = part.routes != file.server.routes;
        for PlannedApp { name, settings, mold, .. } in &mut planned {
            prepare_mold(settings, mold).map_err(|why| format!("app {name}: {why}"))?;
        }
        let addresses = AddressPlan::compare(&file.server.settings, &part.settings, &server.listeners)?;
        let Differences { added, changed, scaled, removed, mut lines } = self.compare(server, &planned)?;
        if swaps_routes {
            lines.push("routes: swapped".to_owned());
        }
        if !server.users.are_as_read() {
            lines.push("users: read again".to_owned());
        }
        lines.extend_from_slice(addresses.lines());
        warnings.iter().for_each(|warning| log::warn!("{warning}"));
        if order.dry_run {
            return Ok(self.note_outcome(Progress::Done(described(&lines))));
        }
        if lines.is_empty() {
            self.use_file(server, order.file);
            if order.reloads {
                super::Workforce::reload(self, server, None)?;
            }
            return Ok(self.note_outcome(Progress::Done(described(&lines))));
        }
        let listeners =
            if addresses.lines().is_empty() { None } else { Some(server.open_addresses(addresses, &part.settings)?) };
        log::info!("applying the file: {}", described(&lines));
        let leaving = changed.iter().map(|(place, _)| *place).chain(removed).collect();
        let mut change = Change {
            step: Step::Load,
            joining: Vec::new(),
            changing: Vec::new(),
            leaving,
            scaled: Vec::new(),
            reloads: order.reloads,
            listeners,
            server: part,
            text,
            file: order.file,
            lines,
        };
        let loaded = changed.into_iter().map(|(place, index)| (Some(place), index));
        let mut befores: Vec<Option<Option<usize>>> = vec![None; planned.len()];
        loaded.chain(added.into_iter().map(|index| (None, index))).for_each(|(before, index)| befores[index] = Some(before));
        for (index, app) in planned.into_iter().enumerate() {
            if let Some((place, _)) = scaled.iter().find(|(_, planned)| *planned == index) {
                let kept = self.keep(&app);
                change.scaled.push((*place, kept, app.arguments));
            } else if let Some(before) = befores[index] {
                let name = app.name.clone();
                match self.give_place(server, app, before) {
                    Ok(place) => {
                        change.joining.push(place);
                        change.changing.extend(before.map(|before| (before, place)));
                    }
                    Err(why) => {
                        change.joining.iter().for_each(|place| self.apps[*place].leave(true));
                        change.listeners.into_iter().for_each(ListenChange::abandon);
                        return Err(format!("{name}: {why}"));
                    }
                }
            }
        }
        server.notifier.reloading(Reloading::Program);
        let Some(file) = &mut self.file else { return Err("this server has no file".to_owned()) };
        file.started += 1;
        file.change = Some(change);
        Ok(file.started)
    }

    /// Records the outcome of a change that took no time. Returns its number.
    fn note_outcome(&mut self, outcome: Progress) -> u64 {
        let Some(file) = &mut self.file else { return 0 };
        file.started += 1;
        file.end(outcome);
        file.started
    }

    /// Makes later changes, and later servers, use this file.
    fn use_file(&mut self, server: &mut Server<'_>, applied: Option<PathBuf>) {
        if let (Some(file), Some(applied)) = (&mut self.file, applied) {
            server.succession.use_applied(&applied);
            file.file = Some(applied);
            if file.watch.is_some() {
                file.watch = FileWatch::begin(&file.plans.sources(file.file.as_deref()));
            }
        }
    }

    fn keep(&mut self, app: &PlannedApp) -> (&'static str, &'static Settings) {
        match &mut self.file {
            Some(file) => file.keep(&app.name, &app.settings),
            // There is a file wherever there are planned apps.
            None => (app.name.clone().leak(), Box::leak(Box::new(app.settings.clone()))),
        }
    }

    fn compare(&self, server: &Server<'_>, planned: &[PlannedApp]) -> Result<Differences, String> {
        let mut found = Differences::default();
        for (index, app) in planned.iter().enumerate() {
            let present = self.present().find(|(_, present)| present.label().name() == Some(&app.name));
            let Some((place, present)) = present else {
                found.lines.push(format!("{}: added", app.name));
                found.added.push(index);
                continue;
            };
            let workers = app.settings.workers;
            if *present.key() != AppKey::of(&app.mold, &app.settings, &app.directory) {
                let stopped = if present.is_stopped() { " (it stays stopped)" } else { "" };
                found.lines.push(format!("{}: reloaded{stopped}", app.name));
                found.changed.push((place, index));
            } else if workers != present.settings().workers && present.is_asleep() && !workers.may_sleep() {
                // Whether it can be loaded is not known yet.
                found.lines.push(format!("{}: {}", app.name, workers.in_words()));
                found.changed.push((place, index));
            } else if workers != present.settings().workers {
                let checked = present.check_number(server, &app.settings);
                checked.map_err(|why| format!("{}: {why}; {UPGRADE}", app.name))?;
                found.lines.push(format!("{}: {}", app.name, workers.in_words()));
                found.scaled.push((place, index));
            }
        }
        for (place, present) in self.present() {
            let name = present.label().name().unwrap_or_default();
            if !planned.iter().any(|app| app.name == name) {
                found.lines.push(format!("{name}: removed"));
                found.removed.push(place);
            }
        }
        Ok(found)
    }

    /// Gives an app a place and loads it. `before`: the place of the same app with other options. Returns the new place.
    fn give_place(&mut self, server: &mut Server<'_>, app: PlannedApp, before: Option<usize>) -> Result<usize, String> {
        let (name, settings) = self.keep(&app);
        let PlannedApp { mold, lanes, directory, arguments, .. } = app;
        let shape = (Some(name), settings, lanes);
        let place = self.free_place(server, lanes, settings);
        let Some(edges) = &mut server.edges else { return Err("there are no edges".to_owned()) };
        let place = match place {
            Some(place) => {
                edges.use_place(place, (name, settings));
                place
            }
            None if self.apps.len() >= MOST_PLACES => return Err(format!("there are more than {MOST_PLACES} apps")),
            None => edges.add_place(shape)?,
        };
        let mut molds = Molds::new(App { name: Some(name), settings, mold, lanes, directory, arguments }, place);
        if place < self.apps.len() {
            std::mem::swap(&mut self.apps[place], &mut molds);
        } else {
            self.apps.push(molds);
            self.available.push(Availability::Available);
        }
        self.following.begin(place);
        let before = before.map(|before| self.apps[before].state_for_next());
        self.apps[place].join(server, before);
        Ok(place)
    }

    /// Returns a place that an app has left, with memory that suits this app.
    fn free_place(&self, server: &Server<'_>, lanes: usize, settings: &Settings) -> Option<usize> {
        let edges = server.edges.as_ref()?;
        let suits = |place: &usize| edges.suits(*place, settings, lanes) && edges.is_empty(*place);
        (0..self.apps.len()).filter(|place| self.apps[*place].has_left()).find(suits)
    }

    /// Takes the next steps of a change, if they are due.
    pub(super) fn go_on_applying(&mut self, server: &mut Server<'_>) {
        if self.file.as_ref().is_none_or(|file| file.change.is_none()) {
            return;
        }
        if !server.stays() {
            return self.abandon(server, "the server stops");
        }
        let Some(step) = self.file.as_ref().and_then(|file| file.change.as_ref()).map(|change| change.step) else { return };
        let done = match step {
            Step::Load => self.advance_loads().and_then(|ready| if ready { self.send_plan(server) } else { Ok(()) }),
            Step::Prepare(until) => self.advance_plan(server, until),
            Step::Swap => Ok(()),
        };
        if let Err(why) = done {
            return self.abandon(server, &why);
        }
        let swapped = server.edges.as_mut().map(Edges::advance_change) == Some(ChangeProgress::Swapped);
        let is_swap = |file: &ServerFile<'a>| file.change.as_ref().is_some_and(|change| change.step == Step::Swap);
        if swapped && self.file.as_ref().is_some_and(is_swap) {
            self.finish(server);
        }
    }

    /// Returns whether all new apps can serve.
    fn advance_loads(&self) -> Result<bool, String> {
        let joining = self.file.iter().filter_map(|file| file.change.as_ref()).flat_map(|change| &change.joining);
        let mut ready = true;
        for place in joining {
            let app = &self.apps[*place];
            match app.join_progress() {
                Progress::Pending => ready = false,
                Progress::Done(_) => {}
                Progress::Failed(why) => return Err(format!("{}: {why}", app.label())),
            }
        }
        Ok(ready)
    }

    /// Makes edges prepare the plan.
    fn send_plan(&mut self, server: &mut Server<'_>) -> Result<(), String> {
        let Some(change) = self.file.as_mut().and_then(|file| file.change.as_mut()) else { return Ok(()) };
        let of_place = |(place, app): (usize, &Molds<'a>)| {
            let (name, arguments) = app.for_edges();
            if change.leaving.contains(&place) {
                return (String::new(), arguments);
            }
            let scaled = change.scaled.iter().find(|(scaled, ..)| *scaled == place);
            (name, scaled.map_or(arguments, |(_, _, arguments)| arguments.clone()))
        };
        let places = self.apps.iter().enumerate().map(of_place).collect();
        let listeners = change.listeners.as_ref().map(SentListeners::of).transpose();
        let listeners = listeners.map_err(|error| format!("cannot send the addresses to edges: {error}"))?;
        let plan = PlanForEdges { places, text: std::mem::take(&mut change.text), listeners };
        server.edges.as_mut().map_or(Ok(()), |edges| edges.begin_change(plan))?;
        change.step = Step::Prepare(Instant::now() + EDGES_WITHIN);
        Ok(())
    }

    /// Commits the plan when all edges have prepared it.
    fn advance_plan(&mut self, server: &mut Server<'_>, until: Instant) -> Result<(), String> {
        let Some(edges) = &mut server.edges else { return Err("there are no edges".to_owned()) };
        match edges.advance_change() {
            ChangeProgress::Pending if Instant::now() < until => Ok(()),
            ChangeProgress::Pending => Err("an edge does not react".to_owned()),
            ChangeProgress::Refused(why) => Err(why),
            ChangeProgress::Prepared | ChangeProgress::Swapped => {
                if edges.renew_users_of_change()? {
                    return Ok(());
                }
                let Some(change) = self.file.as_mut().and_then(|file| file.change.as_mut()) else { return Ok(()) };
                change.listeners.as_ref().map_or(Ok(()), ListenChange::listen)?;
                edges.commit().into_iter().for_each(|users| server.users = users);
                change.step = Step::Swap;
                change.listeners.take().into_iter().for_each(|change| server.use_addresses(change));
                let changing = std::mem::take(&mut change.changing);
                change.joining.iter().for_each(|place| self.apps[*place].be_present());
                for (before, place) in changing {
                    let before = self.apps[before].state_for_next();
                    self.apps[place].go_on_as(server, before);
                }
                Ok(())
            }
        }
    }

    /// Ends a change whose plan all edges serve by.
    fn finish(&mut self, server: &mut Server<'_>) {
        let Some(file) = &mut self.file else { return };
        let Some(change) = file.change.take() else { return };
        let Change { joining, leaving, scaled, reloads, server: part, file: applied, lines, .. } = change;
        file.server = part;
        file.end(Progress::Done(described(&lines)));
        let hup_arrived = std::mem::take(&mut file.hup_arrived);
        self.use_file(server, applied);
        leaving.iter().for_each(|place| self.apps[*place].leave(false));
        for (place, kept @ (_, settings), arguments) in scaled {
            server.edges.iter_mut().for_each(|edges| edges.use_place(place, kept));
            if let Err(why) = self.apps[place].use_number(server, settings, arguments) {
                log::error!("{}: the number of workers stays: {why}", self.apps[place].label());
            }
        }
        log::info!("the file is applied: {}", described(&lines));
        server.notifier.reloaded(Reloading::Program, "serving, the file is applied");
        // Files that have changed while apps loaded count as read.
        server.renew_certificates();
        if reloads && !hup_arrived {
            let rest = self.apps.iter_mut().enumerate();
            let rest = rest.filter(|(place, app)| app.is_present() && !app.is_stopped() && !joining.contains(place));
            let rest = rest.filter(|(_, app)| !app.is_asleep());
            rest.for_each(|(_, app)| _ = app.load_again(server));
        }
        self.repeat(server, hup_arrived);
    }

    /// Gives up a change: everything stays as it is.
    fn abandon(&mut self, server: &mut Server<'_>, why: &str) {
        let Some(file) = &mut self.file else { return };
        let Some(change) = file.change.take() else { return };
        if change.step == Step::Swap {
            // The edges serve by the plan already, and the server stops.
            return file.end(Progress::Done(described(&change.lines)));
        }
        log::error!("the file was not applied, and nothing has changed: {why}");
        change.listeners.into_iter().for_each(ListenChange::abandon);
        file.end(Progress::Failed(format!("nothing has changed: {why}")));
        let hup_arrived = std::mem::take(&mut file.hup_arrived);
        server.edges.iter_mut().for_each(Edges::cancel_change);
        change.joining.iter().for_each(|place| self.apps[*place].leave(true));
        server.notifier.reloaded(Reloading::Program, "the file could not be applied; serving as before");
        self.repeat(server, hup_arrived && server.stays());
    }

    /// Reads the file once more, if HUP has arrived during a change.
    fn repeat(&mut self, server: &mut Server<'_>, hup_arrived: bool) {
        let again = Apply { reloads: true, ..Apply::default() };
        if hup_arrived && let Err(why) = self.begin_to_apply(server, again) {
            log::error!("nothing was changed or reloaded: {why}");
        }
    }
}

/// Describes the differences for a user.
fn described(lines: &[String]) -> String {
    if lines.is_empty() { "nothing differs".to_owned() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_differ_are_named_without_their_values() {
        let arguments = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (one, other) = (arguments(&["edges=1", "user=a", "probe=/up"]), arguments(&["edges=2", "user=a", "metrics=:9000"]));
        let names: Vec<&str> = differing(&one, &other).into_iter().collect();
        assert_eq!(names, ["edges", "metrics", "probe"]);
        assert!(differing(&one, &one).is_empty());
    }
}
