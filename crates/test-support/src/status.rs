//! The status of a server, from its control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Sends an order and returns the answer; `None` if nothing listens at `path`, or if the server ends before it answers.
pub fn order(path: &Path, order: &str) -> Option<String> {
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
    writeln!(stream, "{order}").ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    Some(answer).filter(|answer| !answer.is_empty())
}

/// The counters of a server, in the order in which it names them.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters(pub Vec<(String, f64)>);

impl Counters {
    /// Returns the counters of the server at `path`, which must answer.
    pub fn of(path: &Path) -> Self {
        Self::ask(path).expect("it answers")
    }

    /// Like [`Counters::of`]; `None` without an answer.
    pub fn ask(path: &Path) -> Option<Self> {
        let answer = order(path, "status")?;
        let (_, counters) = answer.split_once("\"counters\":{").unwrap_or_else(|| panic!("there are none: {answer}"));
        let (counters, _) = counters.split_once('}').expect("they end");
        let one = |entry: &str| {
            let (name, value) = entry.split_once(':').expect("a name and a value");
            (name.trim_matches('"').to_owned(), value.parse().expect("a number"))
        };
        Some(Self(counters.split(',').map(one).collect()))
    }

    pub fn get(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("{name} is no counter: {self:?}")).1
    }

    /// Returns how much each of the counters `names` has grown since `before`, as whole numbers.
    pub fn since<const COUNT: usize>(&self, before: &Self, names: [&str; COUNT]) -> [u64; COUNT] {
        names.map(|name| (self.get(name) - before.get(name)) as u64)
    }

    /// Checks that no counter is less than in `before`.
    pub fn must_not_shrink(&self, before: &Self) {
        for (name, value) in &before.0 {
            assert!(self.get(name) >= *value, "{name} has shrunk from {value} to {}", self.get(name));
        }
    }
}
