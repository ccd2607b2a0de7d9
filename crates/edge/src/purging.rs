//! Removes stored responses of an edge, at the order of its parent process.

use super::EdgeLoop;
use crate::parent_link::Reason;
use crate::plan::PlanFile;
use oribi_cache::Selection;
use oribi_io::Backend;
use oribi_stats::totals::Counter;
use std::os::fd::OwnedFd;

/// The number in place of that of an app for all apps.
const ALL: u32 = u32::MAX;

/// Writes a choice of stored responses for edges: those of an app, or of all apps, whose URIs a
/// [target](oribi_cache::Selection::parse) includes, or all of them.
///
/// # Errors
/// The target is invalid, or the system has no memory.
pub fn choice(app: Option<usize>, target: Option<&str>) -> Result<PlanFile, String> {
    target.map(Selection::parse).transpose().map_err(|why| format!("purge: {why}"))?;
    let app = app.and_then(|app| u32::try_from(app).ok()).unwrap_or(ALL);
    PlanFile::new(app, target.unwrap_or_default().as_bytes()).map_err(|error| format!("no memory for the order: {error}"))
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Removes the chosen responses, and reports their number.
    pub(super) fn purge(&mut self, choice: OwnedFd) {
        let removed = match PlanFile::read(choice) {
            Ok((app, target)) => self.remove_stored((app != ALL).then_some(app as usize), &String::from_utf8_lossy(&target)),
            Err(error) => {
                log::error!("cannot read which stored responses to remove: {error}");
                0
            }
        };
        self.slot.account.add(Counter::CachePurged, removed as u64);
        let removed = u32::try_from(removed).unwrap_or(u32::MAX);
        self.parent_link.into_iter().for_each(|link| _ = link.report(removed, Reason::Purged));
    }

    fn remove_stored(&mut self, app: Option<usize>, target: &str) -> usize {
        // The parent process has checked the target.
        let Ok(selection) = (!target.is_empty()).then(|| Selection::parse(target)).transpose() else { return 0 };
        let chosen = self.apps.iter_mut().enumerate().filter(|(index, _)| app.is_none_or(|app| app == *index));
        chosen.for_each(|(_, app)| app.outdate_fetches(selection.as_ref()));
        let Some((_, store)) = &self.store else { return 0 };
        store.borrow_mut().purge(app, selection.as_ref())
    }
}
