//! The conclusions from the figures: sentences and tables that are computed, so that they cannot contradict the figures.

use super::figures::{CellFigures, Figures, Metric, Verdict};
use super::tables::{self, NOTHING, digits, programs_of, table};
use super::{REFERENCE, groups, title};
use crate::cells::{Cell, Pattern, Transport};
use std::fmt::Write as _;

/// The models of Oribi that are compared with epoll. Level-triggered epoll is no longer measured, but results of earlier
/// studies have it.
const MODELS: [&str; 3] = ["io-uring", "epoll-level", "libevent"];
/// The compared measures.
const MEASURES: [(Metric, &str); 4] = [
    (Metric::Cpu, "CPU for each answer, as fast as it goes"),
    (Metric::CpuAtRate, "CPU for each answer, at the fixed rate"),
    (Metric::P99, "99th percentile, at the fixed rate"),
    (Metric::Peak, "answers a second"),
];

/// Describes, for each model of Oribi, in how many cells its figures are below, equal to and above those of epoll.
pub fn summary(cells: &[&CellFigures<'_>]) -> String {
    let mut lines = Vec::new();
    let mut told = String::new();
    for model in MODELS {
        let Some(name) = programs_of(cells).iter().find(|program| program.row == model).map(|program| program.title.clone())
        else {
            continue;
        };
        for (metric, measure) in MEASURES {
            let ratios = cells.iter().filter_map(|figures| figures.ratio(model, REFERENCE, metric));
            let verdicts: Vec<Verdict> = ratios.map(|ratio| ratio.verdict).collect();
            let count = |verdict| verdicts.iter().filter(|known| **known == verdict).count();
            let (less, tie, more) = (count(Verdict::Less), count(Verdict::Tie), count(Verdict::More));
            let (better, worse) = if metric == Metric::Peak { (more, less) } else { (less, more) };
            let line = [better, tie, worse, verdicts.len()].map(|count| count.to_string());
            lines.push([vec![name.clone(), measure.to_owned()], line.to_vec()].concat());
            if metric == Metric::Cpu {
                let _ = writeln!(told, "- {}", sentence(cells, model, &name, better, worse, verdicts.len()));
            }
        }
    }
    if lines.is_empty() {
        return "Only one model took part.".to_owned();
    }
    let heading = ["against epoll", "what", "better", "tie", "worse", "cells"].map(str::to_owned);
    format!("{told}\n{}", table(&heading, &lines).replacen("---:", "---", 1))
}

fn sentence(cells: &[&CellFigures<'_>], model: &str, name: &str, better: usize, worse: usize, all: usize) -> String {
    let extreme = |wanted: Verdict| {
        let of = |figures: &&CellFigures<'_>| {
            let ratio = figures.ratio(model, REFERENCE, Metric::Cpu).filter(|ratio| ratio.verdict == wanted)?;
            Some((ratio.spread.median, figures.cell))
        };
        let found = cells.iter().filter_map(of);
        match wanted {
            Verdict::More => found.max_by(|a, b| a.0.total_cmp(&b.0)),
            _ => found.min_by(|a, b| a.0.total_cmp(&b.0)),
        }
    };
    let at = |found: Option<(f64, Cell)>| {
        found.map_or_else(String::new, |(ratio, cell)| format!(" (at most {ratio:.2} times as much: `{cell}`)"))
    };
    let least = |found: Option<(f64, Cell)>| {
        found.map_or_else(String::new, |(ratio, cell)| format!(" (at best {ratio:.2} times as much: `{cell}`)"))
    };
    format!(
        "**{name}** takes less CPU for an answer than epoll in {better} of {all} cells{}, more in {worse}{}, and as much within the spread in {}.",
        least(extreme(Verdict::Less)),
        at(extreme(Verdict::More)),
        all - better - worse
    )
}

/// The result of io_uring in a cell, in comparison with epoll.
#[derive(Clone, Copy, PartialEq)]
enum Standing {
    Better,
    Level,
    Mixed,
    Worse,
}

impl Standing {
    const ALL: [Standing; 4] = [Standing::Better, Standing::Level, Standing::Mixed, Standing::Worse];

    /// Returns the result, and the number of compared measures; `None` if no measure could be compared.
    fn of(figures: &CellFigures<'_>) -> Option<(Standing, usize)> {
        let (mut better, mut worse, mut compared) = (false, false, 0);
        for (metric, _) in MEASURES {
            let Some(ratio) = figures.ratio("io-uring", REFERENCE, metric) else { continue };
            let bad = if metric == Metric::Peak { Verdict::Less } else { Verdict::More };
            worse |= ratio.verdict == bad;
            better |= ratio.verdict != bad && ratio.verdict != Verdict::Tie;
            compared += 1;
        }
        let standing = match (better, worse) {
            (true, true) => Standing::Mixed,
            (true, false) => Standing::Better,
            (false, true) => Standing::Worse,
            (false, false) => Standing::Level,
        };
        (compared > 0).then_some((standing, compared))
    }

    fn told(self) -> &'static str {
        match self {
            Standing::Better => "yes: better",
            Standing::Level => "tie",
            Standing::Mixed => "no: better in one thing, worse in another",
            Standing::Worse => "no: worse",
        }
    }
}

/// Compares io_uring with epoll in every cell. Where io_uring is worse in any measure, `auto` must not choose it.
pub fn automatic(cells: &[&CellFigures<'_>], rounds: usize) -> String {
    let (mut lines, mut by_group, mut compared) = (Vec::new(), Vec::new(), 0);
    let mut all = [0; 4];
    for (_, name, members) in groups(cells) {
        let mut counts = [0; 4];
        for figures in members {
            let Some((standing, count)) = Standing::of(figures) else { continue };
            compared += count;
            for (count, known) in counts.iter_mut().zip(Standing::ALL) {
                *count += usize::from(known == standing);
            }
            let shown = MEASURES.iter().map(|(metric, _)| tables::ratio(figures.ratio("io-uring", REFERENCE, *metric)));
            let cell = format!("{name}: {}", title(&figures.cell));
            lines.push(std::iter::once(cell).chain(shown).chain([standing.told().to_owned()]).collect::<Vec<_>>());
        }
        let sum: usize = counts.iter().sum();
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        if sum > 0 {
            by_group.push([vec![name], counts.map(|count| count.to_string()).to_vec(), vec![sum.to_string()]].concat());
        }
    }
    if lines.is_empty() {
        return "io_uring took no part.".to_owned();
    }
    let [better, level, mixed, worse] = all;
    let mut text = format!(
        "Against epoll, io_uring is better in something and worse in nothing in {better} of {} cells, level in {level}, better in one \
         thing and worse in another in {mixed}, and worse in something and better in nothing in {worse}.",
        better + level + mixed + worse
    );
    // Without a difference, each round is as likely to favour the one as the other.
    let chance = compared as f64 / 2f64.powi(i32::try_from(rounds).unwrap_or(i32::MAX));
    let _ = writeln!(
        text,
        " If nothing differed at all, {rounds} rounds would still agree on *worse* in about {chance:.0} of these {compared} comparisons, \
         unless the difference is below what counts: one cell that stands alone among its neighbours is no evidence.\n"
    );
    let heading = ["io_uring against epoll", "better", "tie", "mixed", "worse", "cells"].map(str::to_owned);
    let _ = writeln!(text, "{}", table(&heading, &by_group));
    let _ = writeln!(text, "Cell by cell, as ratios of io_uring to epoll; bold is less in every round, italic is more:\n");
    let heading = ["cell", "CPU", "CPU at the rate", "p99", "answers/s", "io_uring?"].map(str::to_owned);
    text + &table(&heading, &lines)
}

/// Lists, for each group of cells, the models of Oribi that take the least CPU time, including those that do not differ from
/// the best.
pub fn winners(cells: &[&CellFigures<'_>]) -> String {
    let model = |row: &str| row == REFERENCE || MODELS.contains(&row);
    let own: Vec<_> = programs_of(cells).into_iter().filter(|program| model(&program.row)).collect();
    let mut lines = Vec::new();
    for (_, name, members) in groups(cells) {
        let mut first = vec![0; own.len()];
        for figures in &members {
            let cpu = |row: &str| figures.spread(row, Metric::Cpu).map(|spread| spread.median);
            let best = own.iter().filter_map(|program| Some((cpu(&program.row)?, program))).min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, best)) = best else { continue };
            for (count, program) in first.iter_mut().zip(&own) {
                let level = figures.ratio(&program.row, &best.row, Metric::Cpu).is_some_and(|r| r.verdict == Verdict::Tie);
                *count += usize::from(program.row == best.row || level);
            }
        }
        let counts = first.iter().map(usize::to_string);
        lines.push([vec![name], counts.collect(), vec![members.len().to_string()]].concat());
    }
    let heading: Vec<String> = std::iter::once("least CPU, or level with the least".to_owned())
        .chain(own.iter().map(|program| program.title.clone()))
        .chain(["cells".to_owned()])
        .collect();
    if lines.is_empty() { "Not measured.".to_owned() } else { table(&heading, &lines) }
}

/// The targets, and the measured values.
pub fn targets(cells: &[&CellFigures<'_>]) -> String {
    let at = |pattern, connections| {
        let fits = |cell: &Cell| {
            cell.pattern == pattern && cell.connections == connections && cell.body == 12 && cell.transport == Transport::Tcp
        };
        cells.iter().find(|figures| fits(&figures.cell)).copied()
    };
    let (kept, short) = (at(Pattern::KeepAlive, 64), at(Pattern::Short, 64));
    let mut lines = Vec::new();
    let mut ratio = |what: &str, figures: Option<&CellFigures<'_>>, row: &str, of: &str, most: f64| {
        let Some(ratio) = figures.and_then(|figures| figures.ratio(row, of, Metric::Cpu)) else { return };
        let (median, low, high) = (ratio.spread.median, ratio.spread.low, ratio.spread.high);
        let kept = if median <= most { "yes" } else { "no" };
        lines.push(vec![what.to_owned(), format!("{most}"), format!("{median:.2} ({low:.2}–{high:.2})"), kept.to_owned()]);
    };
    ratio("CPU over that of the bare epoll loop, 64 kept connections", kept, "epoll", "bare-epoll", 1.10);
    ratio("CPU over that of the bare io_uring loop, 64 kept connections", kept, "io-uring", "bare-uring", 1.10);
    ratio("CPU over that of libevent's own server, 64 kept connections, Oribi over libevent", kept, "libevent", "evhttp", 0.5);
    ratio("CPU over that of libevent's own server, 64 kept connections, Oribi over epoll", kept, "epoll", "evhttp", 0.5);
    ratio("CPU over that of nginx, 64 short connections, epoll", short, "epoll", "nginx-return", 0.9);
    ratio("CPU over that of nginx, 64 short connections, io_uring", short, "io-uring", "nginx-return", 0.9);
    for (row, most) in [("epoll", 2.1), ("io-uring", 0.25)] {
        if let Some(calls) = kept.and_then(|figures| figures.server(row)).and_then(Figures::calls) {
            let what = format!("system calls for an answer, 64 kept connections, {}", row.replace('-', "_"));
            let met = if calls <= most { "yes" } else { "no" };
            lines.push(vec![what, digits(most), digits(calls), met.to_owned()]);
        }
    }
    if lines.is_empty() {
        return NOTHING.to_owned();
    }
    table(&["target", "at most", "measured", "met"].map(str::to_owned), &lines)
}

/// Files: Oribi's host beside nginx.
pub fn files(cells: &[&CellFigures<'_>]) -> String {
    let mut lines = Vec::new();
    for figures in cells {
        let ratio = |metric| figures.ratio("files", "nginx-file", metric);
        if ratio(Metric::Cpu).is_none() && ratio(Metric::P99).is_none() {
            continue;
        }
        let name = format!("{}, {}: {}", figures.cell.pattern.title(), figures.cell.transport.title(), title(&figures.cell));
        let shown = MEASURES.iter().map(|(metric, _)| tables::ratio(ratio(*metric)));
        lines.push(std::iter::once(name).chain(shown).collect::<Vec<_>>());
    }
    if lines.is_empty() {
        return "Not measured.".to_owned();
    }
    table(&["Oribi's files over nginx's", "CPU", "CPU at the rate", "p99", "answers/s"].map(str::to_owned), &lines)
}
