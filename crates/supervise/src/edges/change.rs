//! Changes the plan of running edges: sends them the memory of new apps and the text of the plan, waits until all can serve by it,
//! and commits it.
//!
//! An edge that dies meanwhile is replaced by one that has the present plan from its parent, and is informed like the others.

use super::super::watched_files::WatchedFiles;
use super::{AppPools, AppShape, EdgeEntry, EdgeProcess, Edges, pools};
use oribi_config::{SandboxChoice, Settings};
use oribi_edge::parent_link::{Reason, WorkerRequest};
use oribi_edge::plan::{PlanFile, pack};
use oribi_edge::routes::{LimitMemory, Routes};
use oribi_edge::shape;
use oribi_io::process::shared_words_in_file;
use oribi_ipc::handover::MOST_DESCRIPTORS;
use oribi_listen::{SentListeners, Shard};
use oribi_pool::Memory;
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause before a message is sent again to an edge that has not read the earlier ones.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// A plan for edges.
pub(in super::super) struct PlanForEdges {
    /// The name of the app in each place, and the arguments that make its settings. The name of a place without an app is empty.
    pub(in super::super) places: Vec<(String, Vec<String>)>,
    /// The text of the routes.
    pub(in super::super) text: Vec<u8>,
    /// The change of listeners; `None` if they stay.
    pub(in super::super) listeners: Option<SentListeners>,
}

impl PlanForEdges {
    fn bytes(&self) -> Vec<u8> {
        let place = |(name, arguments): &(String, Vec<String>)| pack(std::iter::once(name).chain(arguments));
        pack([pack(self.places.iter().map(place)), self.text.clone()])
    }
}

/// The change of the plan that is under way, or the last one.
#[derive(Default)]
pub(super) struct PlanChange {
    /// The number of the change; 0 before the first one.
    number: u32,
    prepared: Option<PreparedChange>,
}

struct PreparedChange {
    /// The plan without the users.
    bytes: Vec<u8>,
    file: PlanFile,
    /// The files of users, as the plan has them.
    users: WatchedFiles,
    listeners: Option<SentListeners>,
    limits: Option<OwnedFd>,
    routes: Option<Arc<Routes>>,
    memory: LimitMemory,
}

/// The progress of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum ChangeProgress {
    /// Edges have not answered yet.
    Pending,
    /// All edges can serve by the plan.
    Prepared,
    /// An edge cannot; the text says which.
    Refused(String),
    /// All edges serve by the plan.
    Swapped,
}

/// The part of the plan that an edge has.
#[derive(Debug)]
pub(super) struct InformedEdge {
    /// The index of the edge.
    edge: usize,
    /// The number of places for apps, and the number of descriptors of the next one that it has.
    places: usize,
    descriptors: usize,
    /// The last plan that was sent.
    plan: u32,
    /// The last answer, with the number of the plan.
    answer: Cell<Option<(u32, Reason)>>,
    /// Whether the edge has not reported yet how many stored responses it has removed, and the number that it has reported.
    pub(super) purges: Cell<bool>,
    pub(super) purged: Cell<u64>,
    /// The directories of files that the edge could open before it entered its sandbox.
    directories: Vec<PathBuf>,
}

impl InformedEdge {
    /// Notes the answer of the edge to a plan. Returns `false` for any other request.
    pub(super) fn note(&self, request: WorkerRequest) -> bool {
        let WorkerRequest { process, reason } = request;
        if reason == Reason::Purged {
            self.purges.set(false);
            self.purged.set(process.into());
            return true;
        }
        let is_answer = matches!(reason, Reason::Prepared | Reason::Refused | Reason::Swapped);
        if is_answer {
            self.answer.set(Some((process, reason)));
        }
        is_answer
    }
}

impl<'a> Edges<'a> {
    /// Describes an edge that is forked now.
    pub(super) fn informed_at_start(&self, edge: usize) -> InformedEdge {
        let of_apps = self.apps.iter().flat_map(|app| &app.settings.files.mounts).map(|mount| mount.directory.clone());
        let of_routes = self.routes.iter().flat_map(|routes| routes.directories()).map(Path::to_owned);
        let (number, is_current) = (self.change.number, self.change.prepared.is_none());
        InformedEdge {
            edge,
            places: self.apps.len(),
            descriptors: 0,
            plan: if is_current { number } else { 0 },
            answer: Cell::new(is_current.then_some((number, Reason::Swapped))),
            purges: Cell::new(false),
            purged: Cell::new(0),
            directories: of_apps.chain(of_routes).collect(),
        }
    }

    /// Makes the memory for one more app. The edges get it with the next plan.
    ///
    /// # Errors
    /// The system refuses.
    pub(in super::super) fn add_place(&mut self, app: AppShape<'a>) -> Result<usize, String> {
        let (name, settings, lanes) = app;
        let pools = pools::make(settings, lanes, (self.entries.len(), self.apps.len().max(1) + 1))?;
        self.apps.push(AppPools { name, settings, pools });
        Ok(self.apps.len() - 1)
    }

    /// Whether the memory of a place suits an app.
    pub(in super::super) fn suits(&self, place: usize, settings: &Settings, lanes: usize) -> bool {
        let Some(memory) = self.apps[place].pools.first() else { return false };
        let (present, least) = (memory.shape(), super::super::scaling::pool_capacity(settings, lanes, Some(0), 2));
        let wanted = shape(settings, present.workers);
        present.workers as usize >= least && present.slots >= wanted.slots && present.request_bytes >= wanted.request_bytes
    }

    /// Puts an app into a place.
    pub(in super::super) fn use_place(&mut self, place: usize, (name, settings): (&'a str, &'a Settings)) {
        (self.apps[place].name, self.apps[place].settings) = (Some(name), settings);
    }

    /// Whether no request waits or runs in a place.
    pub(in super::super) fn is_empty(&self, place: usize) -> bool {
        let requests = |memory: &Memory| memory.inspect().map_or(0, |requests| requests.len());
        self.apps[place].pools.iter().map(requests).sum::<usize>() == 0
    }

    /// Begins to change the plan: each edge is to prepare it.
    ///
    /// # Errors
    /// The routes cannot be used; the message says why.
    pub(in super::super) fn begin_change(&mut self, plan: PlanForEdges) -> Result<(), String> {
        let bytes = plan.bytes();
        let reader = self.plan_reader.ok_or("the server has no file")?;
        let routes = reader.read(&bytes)?.routes;
        let mut limits = None;
        let mut room = |count| {
            let (file, words) = shared_words_in_file("oribi-limits", count)?;
            limits = Some(file);
            Ok(words)
        };
        let bound = routes.map(|routes| routes.bind(&self.limit_memory, &mut room)).transpose();
        let bound = bound.map_err(|error| format!("no memory for the limits of routes: {error}"))?;
        let (routes, memory) =
            bound.map_or_else(|| (None, self.limit_memory.clone()), |(routes, memory)| (Some(routes), memory));
        if self.settings.edge_sandbox != SandboxChoice::Off {
            self.check_directories(routes.as_ref())?;
        }
        let number = self.change.number + 1;
        let (file, users) = write_plan(number, &bytes, routes.as_ref())?;
        self.change.number = number;
        let listeners = plan.listeners;
        let shards = 0..self.entries.len();
        let most = shards.filter_map(|edge| Some(listeners.as_ref()?.descriptors(self.shard(edge)).len())).max();
        if most.is_some_and(|most| most > MOST_DESCRIPTORS) {
            return Err(format!("there are more than {} new sockets; oribi ctl upgrade applies it", MOST_DESCRIPTORS - 1));
        }
        let routes = routes.map(Arc::new);
        self.change.prepared = Some(PreparedChange { bytes, file, users, listeners, limits, routes, memory });
        Ok(())
    }

    /// Writes the plan that edges prepare once more if a file of users has changed since. Returns whether the edges have to prepare
    /// that one first.
    ///
    /// # Errors
    /// A file of users cannot be used; the message says why.
    pub(in super::super) fn renew_users_of_change(&mut self) -> Result<bool, String> {
        let PlanChange { number, prepared } = &mut self.change;
        let Some(prepared) = prepared.as_mut().filter(|prepared| !prepared.users.are_as_read()) else { return Ok(false) };
        (prepared.file, prepared.users) = write_plan(*number + 1, &prepared.bytes, prepared.routes.as_deref())?;
        *number += 1;
        Ok(true)
    }

    /// Returns the part of the sockets of each listener that an edge has.
    fn shard(&self, edge: usize) -> Shard {
        Shard { number: edge, of: self.settings.edges_wanted() }
    }

    /// Makes the edges end the listener with this number.
    pub(in super::super) fn end_listener(&self, number: u32) {
        for process in self.entries.iter().filter_map(|entry| entry.process.as_ref()) {
            if let Err(error) = process.link.end_listener(number) {
                log::error!("the edge with pid {} does not close an address that is gone: {error}", process.pid);
            }
            process.wake();
        }
    }

    /// An edge in its sandbox can open only files in directories that it had at its start.
    fn check_directories(&self, routes: Option<&Routes>) -> Result<(), String> {
        let has = |process: &EdgeProcess, directory: &Path| {
            process.informed.directories.iter().any(|known| directory.starts_with(known))
        };
        let edges = || self.entries.iter().filter_map(|entry| entry.process.as_ref());
        let is_new = |directory: &&Path| edges().any(|edge| !has(edge, directory));
        let missing = routes.into_iter().flat_map(Routes::directories).find(is_new);
        missing.map_or(Ok(()), |directory| {
            Err(format!(
                "files: {} is a new directory, which an edge in its sandbox cannot open; oribi ctl upgrade applies it",
                directory.display()
            ))
        })
    }

    /// Informs the edges, and returns how far they are.
    pub(in super::super) fn advance_change(&mut self) -> ChangeProgress {
        let of = self.settings.edges_wanted();
        let Self { entries, apps, change: PlanChange { number, prepared }, .. } = self;
        let prepared = prepared.as_ref();
        for process in entries.iter_mut().filter_map(|entry| entry.process.as_mut()) {
            process.inform(apps, *number, prepared, of);
        }
        let expected = if prepared.is_some() { Reason::Prepared } else { Reason::Swapped };
        let answer = |entry: &EdgeEntry| {
            let answer = entry.process.as_ref()?.informed.answer.get();
            answer.filter(|(plan, _)| plan == number).map(|(_, reason)| reason)
        };
        if let Some(index) = entries.iter().position(|entry| answer(entry) == Some(Reason::Refused)) {
            let name = super::child::name(index, entries.len());
            return ChangeProgress::Refused(format!("{name} cannot serve by it, as its lines in the log say"));
        }
        match entries.iter().all(|entry| answer(entry) == Some(expected)) {
            true if prepared.is_some() => ChangeProgress::Prepared,
            true => ChangeProgress::Swapped,
            false => ChangeProgress::Pending,
        }
    }

    /// Makes the edges serve by the plan that all of them have prepared, and all edges that start later. Returns its files of
    /// users; `None` if no plan was prepared.
    pub(in super::super) fn commit(&mut self) -> Option<WatchedFiles> {
        let PreparedChange { users, routes, memory, .. } = self.change.prepared.take()?;
        (self.routes, self.limit_memory) = (routes, memory);
        for process in self.entries.iter().filter_map(|entry| entry.process.as_ref()) {
            if let Err(error) = process.link.commit(self.change.number) {
                log::error!("cannot send a plan to the edge with pid {}: {error}", process.pid);
            }
            let _ = rustix::io::write(&process.waker, &[0]);
        }
        Some(users)
    }

    /// Gives up a plan that was not committed.
    pub(in super::super) fn cancel_change(&mut self) {
        if self.change.prepared.take().is_none() {
            return;
        }
        for process in self.entries.iter().filter_map(|entry| entry.process.as_ref()) {
            // An edge that does not read now forgets the plan when it gets the next one.
            let _ = process.link.cancel();
            let _ = rustix::io::write(&process.waker, &[0]);
        }
    }

    /// Returns the time until messages are sent again to an edge that has not read the earlier ones.
    pub(super) fn next_try(&self) -> Option<Duration> {
        self.change.prepared.as_ref()?;
        let mut edges = self.entries.iter().filter_map(|entry| entry.process.as_ref());
        edges.any(|process| process.informed.plan != self.change.number).then_some(AGAIN_AFTER)
    }
}

/// Writes a plan with the users of its routes, as their files are now. Returns it with these files.
fn write_plan(number: u32, plan: &[u8], routes: Option<&Routes>) -> Result<(PlanFile, WatchedFiles), String> {
    let files = routes.into_iter().flat_map(Routes::user_files).map(Path::to_owned).collect();
    // A file that changes while it is read counts as changed later.
    let watched = WatchedFiles::of(files, Instant::now());
    let users = routes.map_or_else(|| Ok(Vec::new()), Routes::read_users)?;
    let file = PlanFile::new(number, &pack([plan, &users])).map_err(|error| format!("no memory for the plan: {error}"))?;
    Ok((file, watched))
}

impl EdgeProcess {
    /// Sends what the edge does not have yet, as far as there is room.
    fn inform(&mut self, apps: &[AppPools<'_>], number: u32, prepared: Option<&PreparedChange>, edges: usize) {
        let Some(PreparedChange { file, limits, listeners, .. }) = prepared.filter(|_| self.informed.plan != number) else {
            return;
        };
        while let Some(app) = apps.get(self.informed.places) {
            let Some(memory) = app.pools.get(self.informed.edge) else { return };
            let place = u32::try_from(self.informed.places).unwrap_or(u32::MAX);
            match self.link.give_pool(place, memory, self.informed.descriptors) {
                Ok(sent) if sent < memory.edge_descriptors().count() => self.informed.descriptors = sent,
                Ok(_) => (self.informed.places, self.informed.descriptors) = (self.informed.places + 1, 0),
                Err(_) => return self.wake(),
            }
        }
        let shard = Shard { number: self.informed.edge, of: edges };
        let given = listeners.as_ref().map_or(Ok(()), |listeners| self.link.give_listeners(&listeners.descriptors(shard)));
        // If only the plan does not fit, the edge gets the listeners again with it.
        if given.is_ok() && self.link.give_plan(file.as_fd(), limits.as_ref().map(AsFd::as_fd)).is_ok() {
            self.informed.plan = number;
        }
        self.wake();
    }

    pub(super) fn wake(&self) {
        // If the pipe is full, the edge wakes up anyway.
        let _ = rustix::io::write(&self.waker, &[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::EdgeChoice;
    use oribi_edge::plan::{EdgePlan, PlanReader};
    use oribi_edge::routes::{Action, Filters, PasswordRule, Route, UserFile};
    use std::fs;

    /// A hash of `secret`, by bcrypt at the lowest price.
    const HASH: &str = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

    /// Reads any plan as one with the users of this file, in whose text `alice` is the only user.
    #[derive(Debug)]
    struct Guarded(PathBuf);

    impl PlanReader for Guarded {
        fn read(&self, _: &[u8]) -> Result<EdgePlan, String> {
            let file = Arc::new(UserFile::new(&self.0, format!("alice:{HASH}\n").as_bytes(), false)?);
            let passwords = Some(PasswordRule { file, realm: "staff".to_owned(), keep: false, field: None });
            let action = Action::Respond { status: 410, content: Vec::new(), content_type: None };
            let route = Route { rule: Default::default(), action, filters: Filters { passwords, ..Filters::default() } };
            Ok(EdgePlan { routes: Some(Routes::compile(vec![route]).expect("the rule is valid")), apps: Vec::new() })
        }
    }

    /// The content of the plan that edges prepare.
    fn plan(edges: &Edges<'_>) -> String {
        let prepared = edges.change.prepared.as_ref().expect("there is one");
        let mut content = vec![0; 1000];
        let size = rustix::io::pread(prepared.file.as_fd(), &mut content, 0).expect("it is in memory");
        String::from_utf8_lossy(&content[..size]).into_owned()
    }

    #[test]
    fn edges_get_the_users_of_the_time_of_the_plan_with_it() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let path = folder.path().join("users");
        let write = |user: &str| fs::write(&path, format!("{user}:{HASH}\n")).expect("it is ours");
        let (settings, reader) = (Settings { edge: EdgeChoice::On, ..Settings::default() }, Guarded(path.clone()));
        let mut edges = Edges::new(&settings, &[], None).expect("memory is to be had").expect("edges are wanted");
        edges.use_routes(None, Some(&reader)).expect("there are no limits");
        let begin = |edges: &mut Edges<'_>| {
            edges.begin_change(PlanForEdges { places: Vec::new(), text: b"text".to_vec(), listeners: None })
        };
        write("bob");
        begin(&mut edges).expect("all is valid");
        let first = plan(&edges);
        assert!(first.contains("text") && first.contains("bob") && !first.contains("alice"), "{first}");
        assert_eq!((edges.renew_users_of_change(), edges.change.number), (Ok(false), 1));
        write("carol");
        assert_eq!((edges.renew_users_of_change(), edges.change.number), (Ok(true), 2));
        let second = plan(&edges);
        assert!(second.contains("text") && second.contains("carol") && !second.contains("bob"), "{second}");
        fs::write(&path, "dave\n").expect("it is ours");
        assert!(edges.renew_users_of_change().is_err_and(|why| why.contains("users:1: ")));
        edges.cancel_change();
        assert!(begin(&mut edges).is_err_and(|why| why.contains("users:1: ")), "it is not the one of before");
        write("erin");
        begin(&mut edges).expect("all is valid");
        let files = edges.commit().expect("it is prepared");
        assert!(files.are_as_read());
        write("francis");
        assert!(!files.are_as_read(), "what changes afterwards is found");
        assert!(edges.commit().is_none());
    }
}
