//! The dashboard: a page at the metrics address that shows the state of the server, and its history of an hour.
//!
//! With `--dashboard` the first process takes a sample every two seconds, of the same kind as for metrics, and keeps it in
//! [`History`], whose size is fixed. When a page is opened, it gets the history as an event, and then each new sample. The
//! page sends no further requests, and the process never waits for a viewer. Costly numbers are read only while there are
//! viewers, and otherwise rarely.

mod events;
mod guard;
mod history;
mod json;
mod page;
mod passing;
mod state;

pub(super) use guard::{Guard, Stranger};
pub(super) use page::Page;

use super::families::Sample;
use events::{Watchers, event};
use history::{Completed, History, Reading};
use oribi_config::{DashboardShows, ListenAddress};
use oribi_control_api::Requests;
use passing::{Bequest, Inheritance};
use rustix::event::PollFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Instant, SystemTime};

/// The delay in milliseconds after which a browser reconnects.
const RETRY: &str = "retry: 2000\n\n";

/// The history and the viewers of the dashboard.
#[derive(Debug)]
pub(super) struct Dashboard {
    shows: DashboardShows,
    history: History,
    watchers: Watchers,
    /// The viewers that have connected since the last sample: the socket, and the head of the response.
    newcomers: Vec<(OwnedFd, Vec<u8>)>,
    /// The file to which the history is written for the next program; `None` if the operating system refused it.
    bequest: Option<Bequest>,
    /// The file with the history of the previous program; `None` if there is none, or after the whole history has been read.
    inheritance: Option<Inheritance>,
}

/// The data that a dashboard needs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Whether a sample of the server's state is needed.
    pub(super) sample: bool,
    /// Whether the memory use of workers must be measured for the sample.
    pub(super) memory: bool,
    /// Whether the requests in the server must be listed as well.
    pub(super) requests: bool,
}

impl Dashboard {
    /// Creates the dashboard of these settings at the metrics address, and its guard; `None` if the dashboard is off.
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

    /// Continues with the history of the previous program, which is in `file`.
    pub(super) fn follow(&mut self, file: OwnedFd) {
        self.inheritance = Some(Inheritance::of(file));
    }

    /// Writes the history so far to the file for the next program, which is about to start. Returns that file.
    pub(super) fn left(&self) -> Option<BorrowedFd<'_>> {
        self.bequeath(false);
        self.bequest.as_ref().map(Bequest::descriptor)
    }

    /// Writes the history to the file for the next program. `whole`: whether the history is final.
    pub(super) fn bequeath(&self, whole: bool) {
        if let Some(Err(error)) = self.bequest.as_ref().map(|bequest| bequest.write(&self.history, whole)) {
            log::warn!("cannot pass the dashboard's history on to the next program: {error}");
        }
    }

    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.watchers.polled()
    }

    /// Returns the time of the next sample or of the earliest deadline of a viewer.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.history.due().into_iter().chain(self.watchers.next_deadline()).min()
    }

    /// Adds new viewers, and sends pending data. Returns the data that [`Self::note`] needs.
    pub(super) fn attend(&mut self, newcomers: Vec<(OwnedFd, Vec<u8>)>, now: Instant) -> Wanted {
        self.watchers.attend(now);
        self.newcomers.extend(newcomers);
        let is_watched = self.watchers.are_any() || !self.newcomers.is_empty();
        let due = self.history.due().is_none_or(|due| now >= due);
        let sample = due || !self.newcomers.is_empty();
        Wanted { sample, memory: sample && (is_watched || self.history.is_thorough(now)), requests: sample && is_watched }
    }

    /// Adds a sample to the history, and sends it to all viewers. Viewers that are new also get the history.
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
        // The history already contains the points that this sample completed.
        let (past, present) = (event("history", &self.history.object()), event("now", &object(&Completed::default())));
        for (socket, mut beginning) in self.newcomers.drain(..) {
            [RETRY, &past, &present].into_iter().for_each(|text| beginning.extend_from_slice(text.as_bytes()));
            self.watchers.admit(socket, beginning, now);
        }
    }
}
