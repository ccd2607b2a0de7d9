//! Collects findings.

use crate::excerpt::excerpt;
use crate::finding::{Finding, Findings, Severity};
use crate::place::Place;
use crate::source::Source;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The most findings that are listed.
pub(crate) const LISTED: usize = 1000;

/// The most findings with a suggestion: to compare a name with a thousand others takes a while.
const SUGGESTIONS: usize = 100;

/// The findings so far.
#[derive(Default)]
pub(crate) struct Report {
    findings: Findings,
    mistakes: usize,
    /// The lines of files about which nothing more is said.
    left_out: HashMap<usize, BTreeSet<usize>>,
    /// The places and messages of the listed findings.
    seen: HashSet<(Place, String)>,
}

impl Report {
    /// Adds a mistake at an offset of a file.
    pub fn mistake(&mut self, source: &Source, offset: usize, message: impl Into<String>) {
        self.add(source, offset, message.into(), None);
    }

    /// Adds a mistake with a suggestion.
    pub fn suggest(
        &mut self,
        source: &Source,
        offset: usize,
        message: impl Into<String>,
        suggestion: impl FnOnce() -> Option<String>,
    ) {
        let suggestion = if self.is_long() { None } else { suggestion() };
        self.add(source, offset, message.into(), suggestion);
    }

    /// Adds a mistake or a warning at a place.
    pub fn at(&mut self, severity: Severity, source: &Source, place: &Place, message: String, suggestion: Option<String>) {
        let listed = self.findings.list.len() < LISTED;
        let excerpt = if listed && place.line > 0 { excerpt(source, source.offset(place), true) } else { None };
        self.push(Finding { severity, place: place.clone(), message, excerpt, suggestion });
    }

    fn add(&mut self, source: &Source, offset: usize, message: String, suggestion: Option<String>) {
        let excerpt = if self.findings.list.len() < LISTED { excerpt(source, offset, true) } else { None };
        self.push(Finding { severity: Severity::Mistake, place: source.place(offset), message, excerpt, suggestion });
    }

    /// Adds a mistake at an offset of a file that cannot be parsed.
    pub fn unparsed(&mut self, source: &Source, offset: usize, message: impl Into<String>) {
        let excerpt = if self.findings.list.len() < LISTED { excerpt(source, offset, false) } else { None };
        let place = source.place(offset);
        // From the excerpt, which has no secret.
        let suggestion = excerpt.as_ref().and_then(|excerpt| quoted_range(&excerpt.line));
        self.push(Finding { severity: Severity::Mistake, place, message: message.into(), excerpt, suggestion });
    }

    /// Adds a mistake of a whole file.
    pub fn unreadable(&mut self, place: Place, message: impl Into<String>) {
        self.push(Finding { severity: Severity::Mistake, place, message: message.into(), excerpt: None, suggestion: None });
    }

    /// From now on, leaves out findings about these lines of a file.
    pub fn leave_out(&mut self, source: &Source, lines: BTreeSet<usize>) {
        self.left_out.insert(source.whole().file, lines);
    }

    fn push(&mut self, finding: Finding) {
        if self.left_out.get(&finding.place.file).is_some_and(|lines| lines.contains(&finding.place.line)) {
            return;
        }
        // The parser reports a mistake in a key twice if the key is repeated, and each app has the mistakes of the server.
        let known = (finding.place.clone(), finding.message.clone());
        if self.seen.contains(&known) {
            return;
        }
        self.mistakes += usize::from(finding.severity == Severity::Mistake);
        if self.findings.list.len() < LISTED {
            self.seen.insert(known);
            self.findings.list.push(finding);
        } else {
            self.findings.more += 1;
        }
    }

    /// Whether no further suggestion is wanted.
    pub fn is_long(&self) -> bool {
        self.findings.list.len() >= SUGGESTIONS
    }

    /// The number of mistakes so far.
    pub fn mistakes(&self) -> usize {
        self.mistakes
    }

    /// All findings, in the order of their places.
    pub fn finish(mut self) -> Findings {
        self.findings.list.sort_by(|left, right| left.place.cmp(&right.place));
        self.findings
    }
}

/// The suggestion to quote a value such as 1:4, which TOML takes for a time of day.
fn quoted_range(line: &str) -> Option<String> {
    let values = line.split('=').skip(1).map(str::trim_start);
    let range = |value: &str| {
        let end = value.find(|letter: char| !letter.is_ascii_digit() && letter != ':').unwrap_or(value.len());
        let (least, most) = value[..end].split_once(':')?;
        let numbers = [least, most].iter().all(|number| (1..=4).contains(&number.len()) && !number.contains(':'));
        numbers.then(|| format!("write \"{least}:{most}\""))
    };
    values.filter_map(range).next()
}
