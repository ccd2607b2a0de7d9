//! The second part: how connections reach several lanes.

use super::figures::{CellFigures, Metric, Verdict};
use super::tables::{self, NOTHING, digits, programs_of, table};
use super::title;
use crate::cells::StudyQuestion;
use oribi_bench::statistics::{Spread, grouped};
use std::fmt::Write as _;

/// The row that the others are compared with.
pub const REFERENCE: &str = "shared";

/// Its section of the page.
pub fn section(cells: &[&CellFigures<'_>], pictures: &[String], cpus: Option<usize>) -> String {
    if cells.is_empty() {
        return "Not measured.".to_owned();
    }
    let mut text = String::new();
    if let Some(cpus) = cpus.filter(|cpus| *cpus < 4) {
        let _ = writeln!(
            text,
            "This machine has {cpus} CPUs, and the load generator needs one of them. What several lanes gain by several CPUs can not be \
             seen here; what they cost, and how evenly connections reach them, can. Nothing below says how many workers to start.\n"
        );
    }
    text.push_str(&conclusions(cells));
    for figures in cells {
        let _ = writeln!(text, "\n**{}**\n", heading(figures));
        let picture = format!("io-models/cpu-{}.svg", figures.cell);
        if pictures.contains(&picture) {
            let _ = writeln!(text, "![CPU per answer]({picture})\n");
        }
        text.push_str(&lanes(figures));
    }
    text
}

/// The heading of a cell's table.
fn heading(figures: &CellFigures<'_>) -> String {
    let cell = &figures.cell;
    let StudyQuestion::Network { lanes, cpus } = cell.part else { return title(cell) };
    let where_to = if cpus == 1 { "one CPU" } else { "two CPUs, one of them also the load generator's" };
    let rate = figures.rate.map_or_else(String::new, |rate| format!("; {} requests a second in the open loop", grouped(rate)));
    format!("{}: {}, {lanes} lanes on {where_to}{rate}", cell.pattern.title(), title(cell))
}

fn lanes(figures: &CellFigures<'_>) -> String {
    let heading = [
        "row",
        "CPU µs/answer",
        "ratio to shared",
        "answers/s",
        "busiest lane",
        "switches",
        "system calls",
        "p50 µs",
        "p99 µs",
    ];
    let median = |spread: Option<Spread>| spread.map_or_else(|| NOTHING.to_owned(), |spread| digits(spread.median));
    let lines: Vec<Vec<String>> = figures
        .servers
        .iter()
        .map(|server| {
            let row = &server.program.row;
            let shown = |metric| median(figures.spread(row, metric));
            let mark = if server.failed() { " ✗" } else { "" };
            vec![
                format!("{}{mark}", server.program.title),
                shown(Metric::Cpu),
                if row == REFERENCE { NOTHING.to_owned() } else { tables::ratio(figures.ratio(row, REFERENCE, Metric::Cpu)) },
                shown(Metric::Peak),
                shown(Metric::Uneven),
                shown(Metric::Switches),
                server.calls().map_or_else(|| NOTHING.to_owned(), digits),
                shown(Metric::Median),
                shown(Metric::P99),
            ]
        })
        .collect();
    table(&heading.map(str::to_owned), &lines)
}

/// Describes, for each model, in how many cells its figures are below, equal to and above those of one shared listener.
fn conclusions(cells: &[&CellFigures<'_>]) -> String {
    let measures = [
        (Metric::Cpu, "CPU for each answer"),
        (Metric::Peak, "answers a second"),
        (Metric::P99, "99th percentile at the fixed rate"),
    ];
    let mut lines = Vec::new();
    for program in programs_of(cells).into_iter().filter(|program| program.row != REFERENCE) {
        for (metric, measure) in measures {
            let ratios = cells.iter().filter_map(|figures| figures.ratio(&program.row, REFERENCE, metric));
            let verdicts: Vec<Verdict> = ratios.map(|ratio| ratio.verdict).collect();
            let count = |verdict| verdicts.iter().filter(|known| **known == verdict).count();
            let (less, tie, more) = (count(Verdict::Less), count(Verdict::Tie), count(Verdict::More));
            let (better, worse) = if metric == Metric::Peak { (more, less) } else { (less, more) };
            let counts = [better, tie, worse, verdicts.len()].map(|count| count.to_string());
            lines.push([vec![program.title.clone(), measure.to_owned()], counts.to_vec()].concat());
        }
    }
    let heading = ["against processes that share", "what", "better", "tie", "worse", "cells"].map(str::to_owned);
    table(&heading, &lines)
}
