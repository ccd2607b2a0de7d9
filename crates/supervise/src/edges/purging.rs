//! Makes all edges remove stored responses, and adds up their numbers.
//!
//! An edge that dies meanwhile takes its stored responses along; the next one has none.

use super::{EdgeProcess, Edges};
use oribi_edge::purging::choice;
use std::os::fd::AsFd;

/// The removals of stored responses so far.
#[derive(Debug, Default)]
pub(super) struct Purges {
    /// The number of removals that were begun.
    begun: u64,
    /// The one before the last, with the number of responses.
    last: (u64, u64),
}

impl Edges<'_> {
    /// Begins to remove stored responses of an app, or of all apps, that a target includes, or all of them. Returns the number of
    /// this removal.
    ///
    /// # Errors
    /// Another removal is under way, or an edge cannot be reached.
    pub(in super::super) fn begin_purge(&mut self, app: Option<usize>, target: Option<&str>) -> Result<u64, String> {
        if self.processes().any(|process| process.informed.purges.get()) {
            return Err("other stored responses are being removed: try again".to_owned());
        }
        let choice = choice(app, target)?;
        self.purges.last = (self.purges.begun, self.purged(self.purges.begun).unwrap_or_default());
        for process in self.processes() {
            let sent = process.link.purge(choice.as_fd());
            sent.map_err(|error| format!("an edge (pid {}) does not read its orders: {error}", process.pid))?;
            process.informed.purges.set(true);
            process.informed.purged.set(0);
            process.wake();
        }
        self.purges.begun += 1;
        Ok(self.purges.begun)
    }

    /// Returns the number of responses that were removed; `None` while edges have not reported it. Only the last two are known.
    pub(in super::super) fn purged(&self, number: u64) -> Option<u64> {
        let Purges { begun, last: (earlier, responses) } = self.purges;
        if number != begun {
            return Some(if number == earlier { responses } else { 0 });
        }
        let pending = self.processes().any(|process| process.informed.purges.get());
        (!pending).then(|| self.processes().map(|process| process.informed.purged.get()).sum())
    }

    fn processes(&self) -> impl Iterator<Item = &EdgeProcess> {
        self.entries.iter().filter_map(|entry| entry.process.as_ref())
    }
}
