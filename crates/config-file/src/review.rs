//! The findings about a configuration, to which later checks add theirs.

use crate::finding::{Findings, Severity};
use crate::place::Place;
use crate::report::Report;
use crate::source::Source;

/// The findings so far.
pub struct Review {
    sources: Vec<Source>,
    report: Report,
    /// Whether all files are known, and none has an app.
    lacks_apps: bool,
}

impl Review {
    pub(crate) fn new(sources: Vec<Source>, report: Report, lacks_apps: bool) -> Self {
        Self { sources, report, lacks_apps }
    }

    /// The place of `oribi.toml` as a whole.
    #[must_use]
    pub fn whole(&self) -> Place {
        self.sources[0].whole()
    }

    /// Whether all files are known, and none has an app.
    #[must_use]
    pub fn lacks_apps(&self) -> bool {
        self.lacks_apps
    }

    /// Whether no further suggestion is wanted.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.report.is_long()
    }

    /// Adds a mistake. The message and the suggestion are without secrets.
    pub fn mistake(&mut self, place: &Place, message: impl Into<String>, suggestion: Option<String>) {
        self.report.at(Severity::Mistake, &self.sources[place.file], place, message.into(), suggestion);
    }

    /// Adds a warning.
    pub fn warning(&mut self, place: &Place, message: impl Into<String>) {
        self.report.at(Severity::Warning, &self.sources[place.file], place, message.into(), None);
    }

    /// Returns the warnings.
    ///
    /// # Errors
    /// All findings, if there is a mistake.
    pub fn finish(self) -> Result<Findings, Findings> {
        let mistakes = self.report.mistakes();
        let findings = self.report.finish();
        if mistakes == 0 { Ok(findings) } else { Err(findings) }
    }
}
