//! The tables, in Markdown.

use super::{Count, Results};
use crate::rounds::{CellResult, Entry, NEWCOMER_PATIENCE, Round};
use crate::setup::YARDSTICK;
use crate::statistics::{Spread, grouped};
use std::fmt::Write as _;
use std::time::Duration;

/// `table.md`.
pub fn table(results: &Results) -> String {
    let mut text = format!("# Measured on {}\n\n", results.date);
    let _ = writeln!(
        text,
        "One worker on one CPU, wrk on another, {} rounds of {} s each, all servers of a cell in turn within a round. \
         What was measured on and with is in [machine.md](machine.md), every round in [rounds.csv](rounds.csv), how to read it \
         in [the bench's README](../../README.md).\n",
        results.plan.rounds, results.plan.seconds
    );
    for plot in ["ratio.svg", "counts.svg"].into_iter().filter(|plot| results.has(plot)) {
        let _ = writeln!(text, "![{plot}]({plot})\n");
    }
    text.push_str(&summary(results));
    for result in &results.cells {
        text.push_str(&cell(result));
    }
    text.push_str(&counted(&results.counts));
    if !results.missing.is_empty() {
        text.push_str("## Not installed\n\n");
        results.missing.iter().for_each(|missing| text.push_str(&format!("- {missing}\n")));
    }
    text
}

/// One row for each server: the ratio in each cell, and the two counts.
pub fn summary(results: &Results) -> String {
    let mut text = String::from("## CPU per request as a ratio to nginx in the same round, median\n\n| server |");
    results.cells.iter().for_each(|result| text.push_str(&format!(" {} |", result.cell.name)));
    text.push_str(" instructions/request | system calls/request |\n|---|");
    text.push_str(&"---:|".repeat(results.cells.len() + 2));
    text.push('\n');
    for (name, title) in servers(results) {
        let _ = write!(text, "| {title} |");
        for result in &results.cells {
            let index = result.entries.iter().position(|entry| entry.name == name);
            let shown = index.map_or_else(String::new, |index| {
                let entry = &result.entries[index];
                let mark = if entry.failed() { " !" } else { "" };
                match result.ratios()[index] {
                    Some(ratio) => format!("{:.2}{mark}", ratio.median),
                    None if entry.cannot.is_some() => "cannot".to_owned(),
                    None => format!("–{mark}"),
                }
            });
            let _ = write!(text, " {shown} |");
        }
        let count = results.counts.iter().find(|count| count.name == name);
        let instructions = count.and_then(|count| count.instructions.as_ref());
        let calls = count.and_then(|count| count.system_calls.as_ref());
        let _ = writeln!(
            text,
            " {} | {} |",
            outcome(instructions, |figure| grouped(*figure)),
            outcome(calls, |calls| format!("{:.2}", calls.total))
        );
    }
    text.push_str("\n`!` marks a cell with failures, `cannot` one that the server is not able to do; both are told below.\n\n");
    text
}

/// The servers in the order of the first result that has them.
fn servers(results: &Results) -> Vec<(String, String)> {
    let entries = results.cells.iter().flat_map(|result| &result.entries).map(|entry| (&entry.name, &entry.title));
    let counts = results.counts.iter().map(|count| (&count.name, &count.title));
    let met: Vec<(&String, &String)> = entries.chain(counts).collect();
    // The order of the command lines is that of the set-ups; set-ups that were never started are left out.
    let known = results.commands.iter().filter_map(|(title, _)| met.iter().find(|(_, other)| *other == title));
    known.map(|(name, title)| ((*name).clone(), (*title).clone())).collect()
}

fn outcome<T>(counted: Option<&Result<T, String>>, show: impl Fn(&T) -> String) -> String {
    match counted {
        None => String::new(),
        Some(Ok(figure)) => show(figure),
        Some(Err(_)) => "– !".to_owned(),
    }
}

fn cell(result: &CellResult) -> String {
    let mut text = format!("## {}\n\n`{}`; nginx: {}.\n\n", result.cell.title, result.cell.name, result.cell.yardstick);
    text.push_str(
        "| server | CPU µs/request | of it user | ratio to nginx | lowest to highest | requests/s | busy | p50 | p99 | memory, MiB | \
         a newcomer waits | failures |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n",
    );
    let mut remarks = String::new();
    for (entry, ratio) in result.entries.iter().zip(result.ratios()) {
        match &entry.cannot {
            Some(reason) => {
                let _ = writeln!(remarks, "- {} cannot do this: {reason}.", entry.title);
            }
            None => text.push_str(&row(entry, ratio)),
        }
        // A server often fails alike in every round: once is enough.
        let mut told: Vec<&String> = entry.problems.iter().collect();
        told.dedup();
        told.iter().for_each(|problem| remarks.push_str(&format!("- {}: {problem}.\n", entry.title)));
    }
    text.push('\n');
    if !remarks.is_empty() {
        text.push_str(&remarks);
        text.push('\n');
    }
    text
}

fn row(entry: &Entry, ratio: Option<Spread>) -> String {
    let middle =
        |figure: fn(&Round) -> Option<f64>| Spread::of(entry.measured().filter_map(figure)).map(|spread| spread.median);
    let shown = |figure: Option<f64>, digits: usize| figure.map_or_else(|| "–".to_owned(), |f| format!("{f:.digits$}"));
    let latency = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |f| time(Duration::from_secs_f64(f)));
    let newcomer = match entry.newcomer {
        Some(wait) => time(wait),
        None if entry.measured().next().is_some() => format!("above {}", time(NEWCOMER_PATIENCE)),
        None => "–".to_owned(),
    };
    let failures = match (entry.failures().total(), entry.problems.is_empty()) {
        (0, false) => "see below".to_owned(),
        _ => entry.failures().describe(),
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {newcomer} | {failures} |\n",
        entry.title,
        shown(middle(Round::microseconds), 2),
        shown(middle(Round::user_microseconds), 2),
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.2}", ratio.median)),
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.2} to {:.2}", ratio.low, ratio.high)),
        middle(|round| Some(round.rate())).map_or_else(|| "–".to_owned(), grouped),
        middle(|round| Some(round.busy() * 100.0)).map_or_else(|| "–".to_owned(), |share| format!("{share:.0} %")),
        latency(middle(|round| round.outcome.median.map(|time| time.as_secs_f64()))),
        latency(middle(|round| round.outcome.p99.map(|time| time.as_secs_f64()))),
        entry.memory as f64 / 1024.0,
    )
}

/// A time as people say it.
fn time(duration: Duration) -> String {
    let microseconds = duration.as_micros();
    match microseconds {
        0..1000 => format!("{microseconds} µs"),
        1000..1_000_000 => format!("{:.1} ms", microseconds as f64 / 1e3),
        _ => format!("{:.2} s", microseconds as f64 / 1e6),
    }
}

fn counted(counts: &[Count]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "## Counts\n\nUser-space instructions (callgrind, 16 connections in lockstep, a request of 230 bytes; one connection where \
         a server waits for the one it has) and system calls (strace, 64 keep-alive connections).\n\n\
         | server | instructions/request | ratio | system calls/request | which |\n|---|---:|---:|---:|---|\n",
    );
    let figure = |count: &Count| count.instructions.as_ref().and_then(|counted| counted.as_ref().ok().copied());
    let yardstick = counts.iter().find(|count| count.name == YARDSTICK).and_then(figure);
    let mut remarks = String::new();
    for count in counts {
        let ratio = figure(count).zip(yardstick).map_or_else(String::new, |(own, other)| format!("{:.2}", own / other));
        let calls = count.system_calls.as_ref();
        let names = |calls: &crate::system_calls::Calls| {
            let named: Vec<String> = calls.by_name.iter().map(|(name, figure)| format!("{name} {figure:.2}")).collect();
            named.join(", ")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {ratio} | {} | {} |",
            count.title,
            outcome(count.instructions.as_ref(), |figure| grouped(*figure)),
            outcome(calls, |calls| format!("{:.2}", calls.total)),
            outcome(calls, names),
        );
        if let Some(Err(e)) = &count.instructions {
            let _ = writeln!(remarks, "- {}, instructions: {e}.", count.title);
        }
        if let Some(Err(e)) = &count.system_calls {
            let _ = writeln!(remarks, "- {}, system calls: {e}.", count.title);
        }
    }
    format!("{text}\n{remarks}")
}

/// `machine.md`.
pub fn machine(results: &Results) -> String {
    let mut text = format!("# The machine and the servers, {}\n\n| | |\n|---|---|\n", results.date);
    for (name, value) in &results.facts {
        let _ = writeln!(text, "| {name} | {} |", value.replace('|', "\\|"));
    }
    text.push_str("\n## Command lines\n\n");
    for (title, command) in &results.commands {
        let _ = writeln!(text, "- {title}: {command}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell;
    use crate::load::{Failures, Outcome};
    use crate::process_tree::Cpu;
    use crate::rounds::Plan;
    use crate::system_calls::Calls;

    fn entry(name: &str, microseconds: u64, failures: u64) -> Entry {
        let outcome = Outcome {
            requests: 1000,
            bytes: 200_000,
            duration: Duration::from_secs(1),
            median: Some(Duration::from_micros(640)),
            p99: Some(Duration::from_micros(2500)),
            failures: Failures { read: failures, ..Failures::default() },
        };
        let cpu = Cpu { user: Duration::from_millis(1), system: Duration::from_micros(microseconds * 1000 - 1000) };
        Entry {
            name: name.to_owned(),
            title: format!("The {name}"),
            memory: 2048,
            newcomer: Some(Duration::from_micros(900)),
            rounds: vec![Some(Round { outcome, cpu })],
            ..Entry::default()
        }
    }

    pub(super) fn results() -> Results {
        let unable = Entry { cannot: Some("it is closed".to_owned()), rounds: Vec::new(), ..entry("shop", 1, 0) };
        let entries = vec![entry(YARDSTICK, 10, 0), entry("oribi-psgi", 12, 0), entry("peer", 30, 4), unable];
        let commands = entries.iter().map(|entry| (entry.title.clone(), "run".to_owned())).collect();
        let calls = Calls { total: 2.07, by_name: vec![("recvfrom".to_owned(), 1.0)] };
        Results {
            date: "2026-01-31".to_owned(),
            plan: Plan { rounds: 1, seconds: 1 },
            facts: vec![("CPU".to_owned(), "a|b".to_owned())],
            commands,
            missing: Vec::new(),
            cells: vec![CellResult { cell: &cell::ALL[0], entries }],
            counts: vec![Count {
                name: YARDSTICK.to_owned(),
                title: format!("The {YARDSTICK}"),
                instructions: Some(Ok(12146.0)),
                system_calls: Some(Ok(calls)),
            }],
        }
    }

    #[test]
    fn a_row_tells_every_figure() {
        let text = table(&results());
        let row = "| The oribi-psgi | 12.00 | 1.00 | 1.20 | 1.20 to 1.20 | 1,000 | 1 % | 640 µs | 2.5 ms | 2.0 | 900 µs | 0 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("The shop cannot do this: it is closed."));
        assert!(text.contains("| The nginx | 12,146 | 1.00 | 2.07 | recvfrom 1.00 |"));
    }

    #[test]
    fn failures_are_shown_and_only_ours_fail_the_run() {
        let mut results = results();
        assert!(summary(&results).contains("| The peer | 3.00 ! |"));
        assert!(table(&results).contains("| 4 read |"));
        assert!(results.failures().is_empty());
        results.cells[0].entries[1].problems.push("wrong body".to_owned());
        assert_eq!(results.failures(), ["keep-alive-16, The oribi-psgi: wrong body"]);
    }

    #[test]
    fn every_row_has_as_many_columns_as_its_head() {
        let text = table(&results());
        let mut columns = None;
        for line in text.lines() {
            let found = line.starts_with('|').then(|| line.matches('|').count());
            assert!(columns.is_none() || found.is_none() || columns == found, "{line}");
            columns = found;
        }
    }

    #[test]
    fn a_bar_in_a_fact_does_not_end_its_column() {
        assert!(machine(&results()).contains("| CPU | a\\|b |"));
    }
}
