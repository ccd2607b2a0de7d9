//! The pictures: bars of CPU time and of latency, a panel for each cell, a picture for each group of cells.

use super::figures::{CellFigures, Metric};
use super::{Files, REFERENCE, groups, title};
use crate::rows::Family;
use oribi_bench::plot::{self, Bar, Colour, Panel};

const CPU: &str = "CPU time per answer, Oribi with epoll in the same round = 1 (median; the line spans all rounds)";
const P99: &str =
    "99th percentile at the fixed rate, Oribi with epoll in the same round = 1 (median; the line spans all rounds)";
const LANES: &str =
    "CPU time per answer, processes that share a socket in the same round = 1 (median; the line spans all rounds)";

/// Pictures for each group of the first part.
pub fn io(cells: &[&CellFigures<'_>]) -> Files {
    let mut files = Files::new();
    for (name, heading, members) in groups(cells) {
        for (short, words, metric, unit) in
            [("cpu", "CPU per answer", Metric::Cpu, CPU), ("p99", "99th percentile", Metric::P99, P99)]
        {
            let panels: Vec<Panel> = members.iter().map(|figures| panel(figures, REFERENCE, metric, unit)).collect();
            if panels.iter().any(|panel| !panel.bars.is_empty()) {
                let picture = plot::draw(&format!("{heading}: {words}, shorter is better"), &panels);
                files.push((format!("io-models/{short}-{name}.svg"), picture));
            }
        }
    }
    files
}

fn panel(figures: &CellFigures<'_>, reference: &str, metric: Metric, unit: &'static str) -> Panel {
    let bars = figures.servers.iter().filter_map(|server| {
        let row = &server.program.row;
        let figure = figures.ratio(row, reference, metric)?.spread;
        let colour = match server.family() {
            Family::Own => Colour::Own,
            Family::Floor => Colour::Yardstick,
            Family::Peer => Colour::Peer,
        };
        Some(Bar { colour, title: server.program.title.clone(), figure })
    });
    Panel { title: title(&figures.cell), unit, bars: bars.collect(), reference: Some(1.0), digits: 2 }
}

/// One picture for each cell of the second part.
pub fn network(cells: &[&CellFigures<'_>]) -> Files {
    let picture = |figures: &&CellFigures<'_>| {
        let heading = format!("{}: CPU per answer, shorter is better", figures.cell);
        let panels = [panel(figures, super::network::REFERENCE, Metric::Cpu, LANES)];
        (format!("io-models/cpu-{}.svg", figures.cell), plot::draw(&heading, &panels))
    };
    cells.iter().map(picture).collect()
}
