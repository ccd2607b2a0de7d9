//! The results of a run of the bench: figures for programs, a table for readers, plots.

mod charts;
mod records;
mod table;

use crate::rounds::{CellResult, Plan};
use crate::setup::YARDSTICK;
use crate::statistics::Spread;
use crate::system_calls::Calls;
use std::fs;
use std::path::Path;

/// The two counts for one server; `None` for a count that was not made.
#[derive(Debug)]
pub struct Count {
    /// The set-up's name.
    pub name: String,
    /// The set-up's title.
    pub title: String,
    /// Instructions per request, or what went wrong.
    pub instructions: Option<Result<f64, String>>,
    /// System calls per request, or what went wrong.
    pub system_calls: Option<Result<Calls, String>>,
}

/// Everything that was found out.
#[derive(Debug)]
pub struct Results {
    /// The day, as in 2026-01-31.
    pub date: String,
    /// The way in which the cells were measured.
    pub plan: Plan,
    /// The machine and the versions, each a name and a value.
    pub facts: Vec<(String, String)>,
    /// Each server's title and command line, with its placeholders.
    pub commands: Vec<(String, String)>,
    /// Servers that are not installed, with what to do about it.
    pub missing: Vec<String>,
    /// One for each cell.
    pub cells: Vec<CellResult>,
    /// One for each server that was counted.
    pub counts: Vec<Count>,
}

impl Results {
    /// Writes `table.md`, `machine.md`, `rounds.csv`, `counts.csv`, `ratio.svg` and `counts.svg` into a directory. Leaves out
    /// those for which there are no results.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), String> {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let files = [
            ("table.md", table::table(self)),
            ("machine.md", table::machine(self)),
            ("rounds.csv", records::rounds(self)),
            ("counts.csv", records::counts(self)),
            ("ratio.svg", charts::ratios(self)),
            ("counts.svg", charts::counts(self)),
        ];
        for (name, text) in files.into_iter().filter(|(name, _)| self.has(name)) {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }

    /// Whether there is anything to write into a file: cells and counts may be left out.
    fn has(&self, file: &str) -> bool {
        match file {
            "ratio.svg" | "rounds.csv" => !self.cells.is_empty(),
            "counts.svg" | "counts.csv" => !self.counts.is_empty(),
            _ => true,
        }
    }

    /// The short form for the terminal: the first section of `table.md`.
    pub fn summary(&self) -> String {
        table::summary(self)
    }

    /// Returns the faults of the yardstick and of Oribi. Faults of the other servers are only in the table: they do not fail a
    /// run.
    pub fn failures(&self) -> Vec<String> {
        let ours = |name: &str| name == YARDSTICK || name.starts_with("oribi");
        let mut failures = Vec::new();
        for result in &self.cells {
            for entry in result.entries.iter().filter(|entry| ours(&entry.name)) {
                let told = entry.problems.iter().map(|problem| format!("{}, {}: {problem}", result.cell.name, entry.title));
                failures.extend(told);
                if entry.failures().total() > 0 {
                    failures.push(format!("{}, {}: {}", result.cell.name, entry.title, entry.failures().describe()));
                }
            }
        }
        for count in self.counts.iter().filter(|count| ours(&count.name)) {
            if let Some(Err(e)) = &count.instructions {
                failures.push(format!("instructions, {}: {e}", count.title));
            }
            if let Some(Err(e)) = &count.system_calls {
                failures.push(format!("system calls, {}: {e}", count.title));
            }
        }
        failures
    }
}

impl CellResult {
    /// Returns the ratio of each server to the yardstick, in the order of the entries; `None` for a server that cannot be
    /// compared.
    pub fn ratios(&self) -> Vec<Option<Spread>> {
        let yardstick = self.entries.iter().find(|entry| entry.name == YARDSTICK);
        self.entries.iter().map(|entry| entry.ratio(yardstick?)).collect()
    }
}
