//! The report: a page with the conclusions, a page with every figure, and pictures. All of it is computed from the raw results,
//! so it can be made again without measuring, and is always the same.

mod conclusions;
mod figures;
mod network;
mod pictures;
mod tables;

use crate::cells::{Cell, StudyQuestion};
use crate::raw::Raw;
use figures::{CellFigures, collect};
use std::fs;
use std::path::Path;

/// The row that all others are compared with.
const REFERENCE: &str = "epoll";
/// The prose, with placeholders for computed parts.
const TEMPLATE: &str = include_str!("io-models.md");

/// Files by name, relative to the directory of the documentation.
pub type Files = Vec<(String, String)>;

/// Makes all files of the report from raw results. `source` is the text of the page about the place of these results.
///
/// # Errors
/// The template names something that is not computed.
pub fn render(raw: &Raw, source: &str) -> Result<Files, String> {
    let cells = collect(raw);
    let of = |part: fn(&StudyQuestion) -> bool| cells.iter().filter(|figures| part(&figures.cell.part)).collect::<Vec<_>>();
    let io = of(|part| *part == StudyQuestion::Io);
    let network = of(|part| *part != StudyQuestion::Io);
    let mut files = pictures::io(&io);
    files.extend(pictures::network(&network));
    let pictures: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let cpus = raw.facts.iter().find(|(name, _)| name == "CPUs").and_then(|(_, value)| value.parse().ok());
    let mut page = TEMPLATE.to_owned();
    for (name, text) in [
        ("source", source.to_owned()),
        ("warning", tables::warning(raw)),
        ("summary", conclusions::summary(&io)),
        ("auto", conclusions::automatic(&io, raw.rounds())),
        ("winners", conclusions::winners(&io)),
        ("targets", conclusions::targets(&io)),
        ("files", conclusions::files(&io)),
        ("memory", tables::memory(&io)),
        ("tables", tables::groups(&io, &pictures)),
        ("network", network::section(&network, &pictures, cpus)),
        ("left-out", tables::left_out(raw)),
        ("problems", tables::problems(raw)),
        ("facts", tables::facts(raw)),
        ("programs", tables::programs(raw)),
    ] {
        page = page.replace(&format!("{{{{{name}}}}}"), text.trim_end());
    }
    if let Some(rest) = page.split_once("{{") {
        return Err(format!("nobody computes {{{{{}", rest.1.lines().next().unwrap_or_default()));
    }
    files.push(("io-models.md".to_owned(), page));
    files.push(("io-models/cells.md".to_owned(), tables::every_cell(&cells)));
    Ok(files)
}

/// Makes the report and writes its files below the directory `docs`.
///
/// # Errors
/// Results cannot be read, or files cannot be written.
pub fn write(results: &Path, docs: &Path, source: &str) -> Result<(), String> {
    for (name, text) in render(&Raw::read(results)?, source)? {
        let path = docs.join(name);
        let told = |e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(docs)).map_err(told)?;
        fs::write(&path, text).map_err(told)?;
    }
    Ok(())
}

/// The name of a cell in a line of a table.
fn title(cell: &Cell) -> String {
    let connections = match cell.connections {
        1 => "1 connection".to_owned(),
        many if cell.active < many => format!("{many} connections, {} active", cell.active),
        many => format!("{many} connections"),
    };
    format!("{connections}, {}", crate::cells::size(cell.body))
}

/// Cells with the same pattern and transport, each group with its name and its title.
fn groups<'a, 'b>(cells: &'b [&'a CellFigures<'a>]) -> Vec<(String, String, Vec<&'b CellFigures<'a>>)> {
    let mut groups: Vec<(String, String, Vec<&CellFigures<'_>>)> = Vec::new();
    for figures in cells {
        let cell = &figures.cell;
        let name = format!("{}-{}", cell.pattern.name(), cell.transport.name());
        match groups.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., members)) => members.push(figures),
            None => {
                let title = format!("{}, {}", cell.pattern.title(), cell.transport.title());
                groups.push((name, title, vec![figures]));
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Count, Finished, Load, Problem, Program};
    use std::collections::BTreeSet;

    /// Two rows in one cell: the cost of an answer for each in three rounds, in microseconds.
    fn raw(epoll: [u64; 3], uring: [u64; 3]) -> Raw {
        let cell = crate::cells::all().0[0];
        let mut raw = Raw { finished: vec![Finished { cell, rate: Some(1000.0) }], ..Raw::default() };
        for (row, title, costs) in [("epoll", "Oribi, epoll", epoll), ("io-uring", "Oribi, io_uring", uring)] {
            raw.programs.push(Program {
                row: row.to_owned(),
                family: "own".to_owned(),
                title: title.to_owned(),
                version: "1".to_owned(),
                found: true,
                command: row.to_owned(),
            });
            raw.counts.push(Count {
                cell: cell.to_string(),
                row: row.to_owned(),
                idle_memory: 100,
                open_memory: 200,
                calls: Some(2000),
                responses: 1000,
            });
            for (index, cost) in costs.into_iter().enumerate() {
                for rate in [None, Some(1000.0)] {
                    raw.loads.push(Load {
                        cell: cell.to_string(),
                        row: row.to_owned(),
                        round: index + 1,
                        rate,
                        responses: 20_000,
                        seconds: 0.5,
                        bytes: 1,
                        running: cost * 20_000_000,
                        busiest: cost * 20_000_000,
                        voluntary: 20,
                        involuntary: 0,
                        p50: 10.0,
                        p99: 50.0,
                        p999: 90.0,
                        max: 100.0,
                        errors: 0,
                    });
                }
            }
        }
        raw
    }

    fn page(raw: &Raw) -> String {
        let files = render(raw, "results").expect("a page");
        files.into_iter().find(|(name, _)| name == "io-models.md").map(|(_, text)| text).expect("the page")
    }

    #[test]
    fn the_page_says_what_every_round_says() {
        let worse = page(&raw([10, 20, 30], [12, 23, 40]));
        assert!(
            worse.contains("**Oribi, io_uring** takes less CPU for an answer than epoll in 0 of 1 cells, more in 1"),
            "{worse}"
        );
        assert!(worse.contains("| *1.20* |") && worse.contains("| no: worse |"), "{worse}");
        let better = page(&raw([10, 20, 30], [9, 18, 27]));
        assert!(
            better.contains("less CPU for an answer than epoll in 1 of 1 cells") && better.contains("| **0.90** |"),
            "{better}"
        );
        let tie = page(&raw([10, 20, 30], [12, 18, 27]));
        assert!(tie.contains("in 0 of 1 cells, more in 0, and as much within the spread in 1"), "{tie}");
    }

    #[test]
    fn a_load_with_errors_gives_no_figure_and_a_mark() {
        let mut raw = raw([10, 20, 30], [9, 18, 27]);
        raw.loads.iter_mut().filter(|load| load.row == "io-uring").for_each(|load| load.errors = 1);
        let cell = raw.finished[0].cell.to_string();
        raw.problems.push(Problem { cell, row: "io-uring".to_owned(), what: "errors: 1 broken".to_owned() });
        let page = page(&raw);
        assert!(
            page.contains("| – ✗ |") && page.contains("errors: 1 broken") && page.contains("io_uring took no part."),
            "{page}"
        );
    }

    /// The committed page is the generator's output for the committed results, without any other file beside it.
    #[test]
    fn the_committed_page_follows_from_the_committed_results() {
        let docs = crate::checkout().join("docs");
        let committed = fs::read_to_string(docs.join("io-models.md")).expect("docs/io-models.md");
        let (_, rest) = committed.split_once("(../bench/study/results/").expect("it says where its results are");
        let name = rest.split(')').next().expect("the name of a directory");
        let results = crate::home().join("results").join(name);
        let files = render(&Raw::read(&results).expect("results"), &crate::source(&results)).expect("a page");
        for (name, text) in &files {
            let found = fs::read_to_string(docs.join(name)).unwrap_or_default();
            assert!(found == *text, "docs/{name} is not what `oribi-study report {}` makes", results.display());
        }
        let made: BTreeSet<&str> = files.iter().filter_map(|(name, _)| name.strip_prefix("io-models/")).collect();
        let entries = fs::read_dir(docs.join("io-models")).expect("docs/io-models").flatten();
        let there: BTreeSet<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(there.iter().map(String::as_str).collect::<BTreeSet<_>>(), made);
    }
}
