//! The dashboard: a page at the address for metrics that shows people how the server does, and has done for an hour.
//!
//! With `--dashboard` the first process looks at the server every two seconds, as it does when somebody asks for metrics, and keeps what
//! it sees in [`History`], whose size is fixed. A page that is opened is sent the history as an event, and what is seen from then on. It
//! asks for nothing more, and nobody is waited for. What takes longer to find out is only looked at while somebody watches, or rarely.

mod events;
mod guard;
mod history;
mod page;
mod passing;
mod state;

pub(super) use guard::{Guard, Stranger};
pub(super) use page::Page;

use super::families::Sample;
use crate::control::Requests;
use events::{Watchers, event};
use history::{Completed, History, Reading};
use oribi_config::{DashboardShows, ListenAddress};
use passing::{Bequest, Inheritance};
use rustix::event::PollFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Instant, SystemTime};

/// How soon a browser comes back that has lost its connection, in milliseconds.
const RETRY: &str = "retry: 2000\n\n";

/// What is known for the dashboard, and those who watch it.
#[derive(Debug)]
pub(super) struct Dashboard {
    shows: DashboardShows,
    history: History,
    watchers: Watchers,
    /// Those who have come since the server was looked at, and the heads of their responses.
    newcomers: Vec<(OwnedFd, Vec<u8>)>,
    /// In which the next program finds the history; `None`: the system has refused it.
    bequest: Option<Bequest>,
    /// In which this one finds more of it.
    inheritance: Option<Inheritance>,
}

/// What a dashboard wants to know now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// How the server does.
    pub(super) sample: bool,
    /// Also how much memory workers use at this moment.
    pub(super) memory: bool,
    /// Also which requests are in it.
    pub(super) requests: bool,
}

impl Dashboard {
    /// The dashboard that settings ask for at the address for metrics, and its guard; `None`: they ask for none.
    pub(super) fn of(settings: &oribi_config::Dashboard, address: &ListenAddress) -> Option<(Self, Guard)> {
        if settings.shows == DashboardShows::Nothing {
            return None;
        }
        let bequest = Bequest::new().inspect_err(|error| log::warn!("an upgrade will lose the dashboard's history: {error}"));
        let dashboard = Self {
            shows: settings.shows,
            history: History::new(),
            watchers: Watchers::default(),
            newcomers: Vec::new(),
            bequest: bequest.ok(),
            inheritance: None,
        };
        Some((dashboard, Guard::new(&settings.names, address)))
    }

    /// This one will go on with the history of the program before, which is in that file.
    pub(super) fn follow(&mut self, file: OwnedFd) {
        self.inheritance = Some(Inheritance::of(file));
    }

    /// The file with the history for a program that is about to follow.
    pub(super) fn left(&self) -> Option<BorrowedFd<'_>> {
        self.bequeath(false);
        self.bequest.as_ref().map(Bequest::descriptor)
    }

    /// Writes the history for the next program. `whole`: nothing is added to it any more.
    pub(super) fn bequeath(&self, whole: bool) {
        if let Some(Err(error)) = self.bequest.as_ref().map(|bequest| bequest.write(&self.history, whole)) {
            log::warn!("the next program does not get the dashboard's history: {error}");
        }
    }

    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.watchers.polled()
    }

    /// When there is something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.history.due().into_iter().chain(self.watchers.next_deadline()).min()
    }

    /// Takes in those who want to watch, and sends what is on its way. Returns what [`Self::note`] is to be told.
    pub(super) fn attend(&mut self, newcomers: Vec<(OwnedFd, Vec<u8>)>, now: Instant) -> Wanted {
        self.watchers.attend(now);
        self.newcomers.extend(newcomers);
        let is_watched = self.watchers.are_any() || !self.newcomers.is_empty();
        let due = self.history.due().is_none_or(|due| now >= due);
        let sample = due || !self.newcomers.is_empty();
        Wanted { sample, memory: sample && (is_watched || self.history.is_thorough(now)), requests: sample && is_watched }
    }

    /// Remembers how the server does, and tells all who watch.
    pub(super) fn note(
        &mut self,
        sample: &Sample,
        requests: Option<&Result<Requests, String>>,
        now: Instant,
        wall: SystemTime,
    ) {
        let reading = Reading::new(&sample.report.counted.0, state::levels(sample));
        let completed = self.history.note(&reading, now, wall);
        self.inheritance.take_if(|inheritance| inheritance.read(&mut self.history));
        let Some(requests) = requests else { return };
        let object = |completed: &Completed| state::object(sample, requests, self.shows, completed, wall);
        if completed != Completed::default() && self.watchers.are_any() {
            self.watchers.tell(&event("now", &object(&completed)), now);
        }
        if self.newcomers.is_empty() {
            return;
        }
        // The history has the points that were completed just now.
        let (past, present) = (event("history", &self.history.object()), event("now", &object(&Completed::default())));
        for (socket, mut beginning) in self.newcomers.drain(..) {
            [RETRY, &past, &present].into_iter().for_each(|text| beginning.extend_from_slice(text.as_bytes()));
            self.watchers.admit(socket, beginning, now);
        }
    }
}
