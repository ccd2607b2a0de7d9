//! The results of a run, as a table and as a verdict.

use crate::budget::Budget;
use crate::clients::Found;
use crate::language::Language;
use crate::resources::Held;
use std::fmt;
use std::time::Duration;

/// The servers' counters.
pub const RECYCLED: &str = "recycled worker";

/// The events that must happen for each language in ten minutes: the name, the acts that count, and the least number.
const PROMISED: [(&str, &[&str], usize); 5] = [
    ("reloads", &["reload", "reload by ctl"], 20),
    ("upgrades", &["upgrade", "upgrade by ctl", "upgrade with a queue", "upgrade and reload"], 5),
    ("recycled workers", &[RECYCLED], 200),
    ("changes of scale", &["scale 3-7-1-3"], 5),
    ("start_server HUPs", &["start_server HUP", "reload in a drain"], 20),
];

/// The number of lines of a server's log that are shown after a fault.
const LAST_LINES: usize = 60;

/// The number of faults of a course that are shown.
const FIRST_FAULTS: usize = 8;

/// The results of one course.
pub struct Outcome {
    pub language: Language,
    pub course: &'static str,
    pub rounds: usize,
    pub took: Duration,
    counts: Vec<(&'static str, usize)>,
    found: Found,
    pub faults: Vec<String>,
    pub held: Option<(Held, Held)>,
    /// Additional lines for the report.
    pub remark: Option<String>,
    log: String,
}

impl Outcome {
    pub fn new(language: Language, course: &'static str) -> Self {
        let (counts, faults) = (Vec::new(), Vec::new());
        let (found, took) = (Found::default(), Duration::ZERO);
        Self { language, course, rounds: 0, took, counts, found, faults, held: None, remark: None, log: String::new() }
    }

    /// A course without any other results.
    pub fn broken(language: Language, course: &'static str, why: &str) -> Self {
        let mut outcome = Self::new(language, course);
        outcome.faults.push(why.to_owned());
        outcome
    }

    /// Counts `times` more occurrences of an act.
    pub fn count(&mut self, act: &'static str, times: usize) {
        match self.counts.iter_mut().find(|(name, _)| *name == act) {
            Some((_, count)) => *count += times,
            None => self.counts.push((act, times)),
        }
    }

    /// The results of the clients.
    pub fn take(&mut self, mut found: Found) {
        self.faults.append(&mut found.faults);
        self.found = found;
    }

    /// Keeps the end of a server's log if something was wrong.
    pub fn keep_log_if_needed(&mut self, log: &str) {
        if self.faults.is_empty() {
            return;
        }
        if let Ok(folder) = std::env::var("ORIBI_ENDURE_LOGS") {
            let name = format!("{folder}/{:?}-{}.log", self.language, self.course.replace(' ', "-"));
            let _ = std::fs::write(name, log);
        }
        let lines: Vec<&str> = log.lines().collect();
        self.log = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n    ");
    }

    fn verdict(&self) -> Vec<String> {
        let name = format!("{:?}, {}", self.language, self.course);
        let mut lines: Vec<String> = self.faults.iter().take(FIRST_FAULTS).map(|fault| format!("{name}: {fault}")).collect();
        if self.faults.len() > FIRST_FAULTS {
            lines.push(format!("{name}: and {} faults more", self.faults.len() - FIRST_FAULTS));
        }
        lines
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { language, course, rounds, took, counts, found, faults, held, remark, log } = self;
        writeln!(out, "{language:?}, {course}: {rounds} rounds in {:.0} s", took.as_secs_f64())?;
        let counts: Vec<String> = counts.iter().map(|(act, count)| format!("{act} {count}")).collect();
        if !counts.is_empty() {
            writeln!(out, "    {}", counts.join(", "))?;
        }
        if found.answers > 0 {
            let Found { answers, slow, parted, closed, .. } = found;
            let parted = if *parted > 0 { format!(", {parted} announced ends of connections") } else { String::new() };
            writeln!(out, "    {answers} answers, the longest 1 % took {slow:.0?}; {closed} connections closed{parted}")?;
        }
        if let Some((before, after)) = held {
            writeln!(out, "    first process and edges after a round: {before}; at the end: {after}")?;
        }
        if let Some(remark) = remark {
            writeln!(out, "    {remark}")?;
        }
        if !faults.is_empty() {
            writeln!(out, "    {} FAULTS; the last lines of the log:\n    {log}", faults.len())?;
        }
        Ok(())
    }
}

/// The results of all courses.
#[derive(Default)]
pub struct Report {
    outcomes: Vec<Outcome>,
}

impl Report {
    pub fn add(&mut self, outcomes: Vec<Outcome>) {
        self.outcomes.extend(outcomes);
    }

    /// The faults, and the events that have not happened often enough.
    pub fn faults(&self, budget: &Budget) -> Vec<String> {
        let mut faults: Vec<String> = self.outcomes.iter().flat_map(Outcome::verdict).collect();
        if budget.is_whole() {
            for language in self.languages() {
                for (what, count, wanted) in self.promised(language) {
                    if count < wanted {
                        faults.push(format!("{language:?}: {count} {what}, and {wanted} are wanted"));
                    }
                }
            }
        }
        faults
    }

    fn languages(&self) -> Vec<Language> {
        let mut languages: Vec<Language> = self.outcomes.iter().map(|outcome| outcome.language).collect();
        languages.dedup();
        languages
    }

    /// The number of the promised events, and the least number.
    fn promised(&self, language: Language) -> impl Iterator<Item = (&'static str, usize, usize)> {
        PROMISED.iter().map(move |(what, acts, wanted)| {
            let outcomes = self.outcomes.iter().filter(|outcome| outcome.language == language);
            let counts = outcomes.flat_map(|outcome| &outcome.counts).filter(|(act, _)| acts.contains(act));
            (*what, counts.map(|(_, count)| count).sum(), *wanted)
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out)?;
        for outcome in &self.outcomes {
            write!(out, "{outcome}")?;
        }
        for language in self.languages() {
            let of_language = || self.outcomes.iter().filter(|outcome| outcome.language == language);
            let answers: usize = of_language().map(|outcome| outcome.found.answers).sum();
            let faults: usize = of_language().map(|outcome| outcome.faults.len()).sum();
            let happened: Vec<String> = self.promised(language).map(|(what, count, _)| format!("{count} {what}")).collect();
            writeln!(out, "{language:?}: {}; {answers} answers, {faults} faults", happened.join(", "))?;
        }
        let good = self.outcomes.iter().all(|outcome| outcome.faults.is_empty());
        write!(out, "verdict: {}", if good { "no client has noticed anything" } else { "FAILED" })
    }
}
