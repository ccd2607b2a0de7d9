//! The tables, in Markdown.

use super::figures::{CellFigures, Figures, Metric, Ratio, Verdict};
use super::{REFERENCE, title};
use crate::raw::{Program, Raw};
use oribi_bench::statistics::{Spread, grouped};
use std::fmt::Write as _;

/// The text in place of a missing figure.
pub const NOTHING: &str = "–";

/// One figure with as many digits as it deserves.
pub fn digits(figure: f64) -> String {
    match figure {
        figure if figure >= 1000.0 => grouped(figure),
        figure if figure >= 100.0 => format!("{figure:.0}"),
        figure if figure >= 10.0 => format!("{figure:.1}"),
        figure => format!("{figure:.2}"),
    }
}

/// Formats a ratio: in bold if it is less than 1 in every round, and in italics if it is more.
pub fn ratio(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return NOTHING.to_owned() };
    let figure = format!("{:.2}", ratio.spread.median);
    match ratio.verdict {
        Verdict::Less => format!("**{figure}**"),
        Verdict::More => format!("*{figure}*"),
        Verdict::Tie => figure,
    }
}

fn median(spread: Option<Spread>) -> String {
    spread.map_or_else(|| NOTHING.to_owned(), |spread| digits(spread.median))
}

fn range(spread: Option<Spread>) -> String {
    let Some(Spread { median, low, high }) = spread else { return NOTHING.to_owned() };
    format!("{} ({}–{})", digits(median), digits(low), digits(high))
}

/// A table: its heading, and lines of as many columns. The first column is text.
pub fn table(heading: &[String], lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    let rule: String = std::iter::once("---").chain(heading.iter().skip(1).map(|_| "---:")).collect::<Vec<_>>().join("|");
    let _ = writeln!(text, "| {} |\n|{rule}|", heading.join(" | "));
    for line in lines {
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
    text
}

/// The rows that take part in any of some cells.
pub fn programs_of<'a>(cells: &[&CellFigures<'a>]) -> Vec<&'a Program> {
    let mut programs: Vec<&Program> = Vec::new();
    for server in cells.iter().flat_map(|cell| &cell.servers) {
        if !programs.iter().any(|known| known.row == server.program.row) {
            programs.push(server.program);
        }
    }
    programs
}

fn heading(first: &str, programs: &[&Program]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(programs.iter().map(|program| program.title.clone())).collect()
}

fn marked(text: String, server: Option<&Figures<'_>>) -> String {
    if server.is_some_and(Figures::failed) { format!("{text} ✗") } else { text }
}

/// For each group of cells: CPU for each answer, and how long answers took.
pub fn groups(cells: &[&CellFigures<'_>], pictures: &[String]) -> String {
    let mut text = String::new();
    for (name, heading_text, members) in super::groups(cells) {
        let programs = programs_of(&members);
        let _ = writeln!(text, "### {heading_text}\n");
        let show = |text: &mut String, picture: String, what: &str| {
            if pictures.contains(&picture) {
                let _ = writeln!(text, "![{what}: {heading_text}]({picture})\n");
            }
        };
        show(&mut text, format!("io-models/cpu-{name}.svg"), "CPU per answer");
        let _ = writeln!(
            text,
            "CPU time of the server for each answer, Oribi with epoll in the same round = 1 (its microseconds in the first column):\n"
        );
        let lines: Vec<Vec<String>> = members.iter().map(|figures| cpu_line(figures, &programs)).collect();
        let _ = writeln!(text, "{}", table(&heading("cell", &programs), &lines));
        if members.iter().all(|figures| figures.rate.is_none()) {
            continue;
        }
        let _ =
            writeln!(text, "99 of 100 answers came within so many microseconds, at the rate (answers a second) in brackets:\n");
        let lines: Vec<Vec<String>> = members.iter().map(|figures| latency_line(figures, &programs)).collect();
        let _ = writeln!(text, "{}", table(&heading("cell", &programs), &lines));
        show(&mut text, format!("io-models/p99-{name}.svg"), "99th percentile");
    }
    text
}

fn cpu_line(figures: &CellFigures<'_>, programs: &[&Program]) -> Vec<String> {
    let shown = |program: &&Program| {
        let server = figures.server(&program.row);
        let text = if program.row == REFERENCE {
            figures
                .spread(REFERENCE, Metric::Cpu)
                .map_or_else(|| NOTHING.to_owned(), |cpu| format!("{} µs", digits(cpu.median)))
        } else {
            ratio(figures.ratio(&program.row, REFERENCE, Metric::Cpu))
        };
        marked(text, server)
    };
    std::iter::once(title(&figures.cell)).chain(programs.iter().map(shown)).collect()
}

fn latency_line(figures: &CellFigures<'_>, programs: &[&Program]) -> Vec<String> {
    let rate = figures.rate.map_or_else(String::new, |rate| format!(" [{}]", grouped(rate)));
    let shown = |program: &&Program| marked(median(figures.spread(&program.row, Metric::P99)), figures.server(&program.row));
    std::iter::once(title(&figures.cell) + &rate).chain(programs.iter().map(shown)).collect()
}

/// User memory for each connection, where there are thousands.
pub fn memory(cells: &[&CellFigures<'_>]) -> String {
    let many: Vec<&CellFigures<'_>> = cells.iter().copied().filter(|figures| figures.cell.tells_memory()).collect();
    let programs = programs_of(&many);
    let lines: Vec<Vec<String>> = many
        .iter()
        .map(|figures| {
            let cell = &figures.cell;
            let bytes = |program: &&Program| {
                let bytes = figures.server(&program.row).and_then(|server| server.bytes_per_connection(cell));
                bytes.map_or_else(|| NOTHING.to_owned(), grouped)
            };
            let name = format!("{}, {}: {}", cell.pattern.title(), cell.transport.title(), title(cell));
            std::iter::once(name).chain(programs.iter().map(bytes)).collect()
        })
        .collect();
    if lines.is_empty() { "Not measured.".to_owned() } else { table(&heading("cell", &programs), &lines) }
}

/// `cells.md`: every figure.
pub fn every_cell(cells: &[CellFigures<'_>]) -> String {
    let mut text = "# Every cell\n\n\
        <!-- Made from the raw results by `oribi-study report`. -->\n\n\
        What the columns mean is said in [io-models.md](../io-models.md). Figures are medians of the rounds, the lowest and the\n\
        highest in brackets.\n"
        .to_owned();
    let heading = [
        "row",
        "CPU µs/answer",
        "ratio to epoll",
        "answers/s",
        "busy",
        "system calls",
        "switches",
        "KiB, no connection",
        "KiB, all open",
        "CPU µs at the rate",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
    ]
    .map(str::to_owned);
    for figures in cells {
        let rate =
            figures.rate.map_or_else(String::new, |rate| format!("; {} requests a second in the open loop", grouped(rate)));
        let _ = writeln!(text, "\n## {}\n\n{}{rate}.\n", figures.cell, title(&figures.cell));
        let lines: Vec<Vec<String>> = figures.servers.iter().map(|server| cell_line(figures, server)).collect();
        text.push_str(&table(&heading, &lines));
    }
    text
}

fn cell_line(figures: &CellFigures<'_>, server: &Figures<'_>) -> Vec<String> {
    let row = &server.program.row;
    let spread = |metric| figures.spread(row, metric);
    let percent = |spread: Option<Spread>| spread.map_or_else(|| NOTHING.to_owned(), |s| format!("{:.0} %", s.median * 100.0));
    let memory = |kib: Option<u64>| kib.map_or_else(|| NOTHING.to_owned(), |kib| grouped(kib as f64));
    let against = figures.ratio(row, REFERENCE, Metric::Cpu).filter(|_| row != REFERENCE);
    let lowest_highest = against.map_or_else(String::new, |r| format!(" ({:.2}–{:.2})", r.spread.low, r.spread.high));
    vec![
        marked(server.program.title.clone(), Some(server)),
        range(spread(Metric::Cpu)),
        ratio(against) + &lowest_highest,
        median(spread(Metric::Peak)),
        percent(spread(Metric::Busy)),
        server.calls().map_or_else(|| NOTHING.to_owned(), |calls| format!("{calls:.3}")),
        spread(Metric::Switches).map_or_else(|| NOTHING.to_owned(), |switches| format!("{:.4}", switches.median)),
        memory(server.count.map(|count| count.idle_memory)),
        memory(server.count.map(|count| count.open_memory)),
        median(spread(Metric::CpuAtRate)),
        median(spread(Metric::Median)),
        range(spread(Metric::P99)),
        median(spread(Metric::P999)),
    ]
}

/// Cells that were not measured: reasons, each with the cells that it keeps out.
pub fn left_out(raw: &Raw) -> String {
    let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
    for left in &raw.left_out {
        let title = |row: &String| {
            let program = raw.programs.iter().find(|program| program.row == *row);
            program.map_or_else(|| row.clone(), |program| program.title.clone())
        };
        let who = left.row.as_ref().map_or_else(String::new, |row| format!("{}: ", title(row)));
        let key = who + &left.reason;
        match by_reason.iter_mut().find(|(known, _)| *known == key) {
            Some((_, cells)) => cells.push(&left.cell),
            None => by_reason.push((key, vec![&left.cell])),
        }
    }
    let mut text = String::new();
    for (reason, cells) in by_reason {
        let _ = writeln!(text, "- {reason} ({})", cells.iter().map(|cell| format!("`{cell}`")).collect::<Vec<_>>().join(", "));
    }
    for program in raw.programs.iter().filter(|program| !program.found) {
        let _ = writeln!(text, "- {} took no part: {}", program.title, program.version);
    }
    if text.is_empty() { "Nothing.".to_owned() } else { text }
}

/// The faults.
pub fn problems(raw: &Raw) -> String {
    if raw.problems.is_empty() {
        return "Nothing went wrong: every answer of every load was checked, byte by byte, and none was wrong or missing."
            .to_owned();
    }
    let line = |problem: &crate::raw::Problem| format!("- `{}`, {}: {}\n", problem.cell, problem.row, problem.what);
    let told: String = raw.problems.iter().map(line).collect();
    format!("Loads with a wrong or missing answer give no figure and are marked with ✗:\n\n{told}")
}

/// The note on top of a page whose figures are only an impression.
pub fn warning(raw: &Raw) -> String {
    let rounds = raw.rounds();
    let seconds = raw.facts.iter().find(|(name, _)| name == "Seconds of a load").and_then(|(_, value)| value.parse().ok());
    let short = seconds.is_some_and(|seconds: f64| seconds < 0.2);
    if rounds >= 5 && !short {
        return String::new();
    }
    "**These figures are from a quick look: too few or too short rounds to prove anything.** They show what the page will have.\n"
        .to_owned()
}

/// The machine and the plan.
pub fn facts(raw: &Raw) -> String {
    let lines: Vec<Vec<String>> = raw.facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    let text = table(&["fact".to_owned(), "value".to_owned()], &lines);
    text.replacen("|---|---:|", "|---|---|", 1)
}

/// The rows' versions and command lines.
pub fn programs(raw: &Raw) -> String {
    let line = |program: &Program| format!("- {} ({}): `{}`\n", program.title, program.version, program.command);
    raw.programs.iter().filter(|program| program.found).map(line).collect()
}
