//! The time for everything, or the number of rounds.

use std::env::var;
use std::time::{Duration, Instant};

/// The part of the time that the last servers may need to stop.
const STOPS: Duration = Duration::from_secs(10);

/// The time of the whole run.
pub struct Budget {
    begun: Instant,
    total: Duration,
    /// The number of rounds of each course, however long they take; `None` if the time decides.
    pub rounds: Option<usize>,
    /// Names of the courses and languages to run; empty for all.
    only: Vec<String>,
}

/// The condition for the end of a course.
pub struct Until {
    rounds: Option<usize>,
    end: Instant,
}

impl Budget {
    pub fn of_environment() -> Self {
        let number = |name| var(name).ok().and_then(|text| text.parse::<f64>().ok());
        let total = Duration::from_secs_f64(number("ORIBI_ENDURE_MINUTES").unwrap_or(10.0) * 60.0);
        let rounds = number("ORIBI_ENDURE_ROUNDS").map(|rounds| rounds as usize);
        let only = var("ORIBI_ENDURE_ONLY").unwrap_or_default();
        let only = only.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { begun: Instant::now(), total: total.saturating_sub(STOPS), rounds, only }
    }

    /// Whether to run the course or the language with this name. If courses are named, only these run, and likewise with
    /// languages.
    pub fn includes(&self, name: &str) -> bool {
        let is_language = |name: &String| name.starts_with(|letter: char| letter.is_uppercase());
        let mut of_kind = self.only.iter().filter(|only| is_language(only) == is_language(&name.to_owned())).peekable();
        of_kind.peek().is_none() || of_kind.any(|only| only == name)
    }

    /// Whether this run is long enough that each event must have happened as often as the project promises.
    pub fn is_whole(&self) -> bool {
        self.rounds.is_none() && self.only.is_empty() && self.total >= Duration::from_secs(580)
    }

    /// Returns the end of a course that may continue until this part of the whole time has passed.
    pub fn until(&self, part: f64) -> Until {
        Until { rounds: self.rounds, end: self.begun + self.total.mul_f64(part) }
    }
}

impl Until {
    /// Whether the course is over after this number of rounds. The first round is always finished.
    pub fn is_over(&self, rounds: usize) -> bool {
        rounds > 0 && self.rounds.map_or_else(|| Instant::now() >= self.end, |wanted| rounds >= wanted)
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}
