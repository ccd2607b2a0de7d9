//! The bench's two pictures.

use super::Results;
use crate::plot::{Bar, Colour, Panel, draw};
use crate::setup::YARDSTICK;
use crate::statistics::Spread;

/// `ratio.svg`: a panel for each cell.
pub fn ratios(results: &Results) -> String {
    let panels: Vec<Panel> = results
        .cells
        .iter()
        .map(|result| {
            let bars = result.entries.iter().zip(result.ratios());
            Panel {
                title: result.cell.title.to_owned(),
                unit: "CPU time per request, nginx in the same round = 1 (median; the line spans all rounds)",
                bars: bars.filter_map(|(entry, figure)| Some(bar(&entry.name, &entry.title, figure?))).collect(),
                reference: Some(1.0),
                digits: 2,
            }
        })
        .collect();
    draw("CPU per request, shorter is better", &panels)
}

/// `counts.svg`: instructions and system calls.
pub fn counts(results: &Results) -> String {
    let point = |figure: f64| Spread { median: figure, low: figure, high: figure };
    let instructions = results.counts.iter().filter_map(|count| {
        let figure = *count.instructions.as_ref()?.as_ref().ok()?;
        Some(bar(&count.name, &count.title, point(figure)))
    });
    let calls = results.counts.iter().filter_map(|count| {
        let figure = count.system_calls.as_ref()?.as_ref().ok()?.total;
        Some(bar(&count.name, &count.title, point(figure)))
    });
    let panels = [
        Panel {
            title: "Instructions in user space".to_owned(),
            unit: "instructions per request",
            bars: instructions.collect(),
            reference: None,
            digits: 0,
        },
        Panel {
            title: "System calls".to_owned(),
            unit: "system calls per request",
            bars: calls.collect(),
            reference: None,
            digits: 2,
        },
    ];
    draw("Counted per request, shorter is better", &panels)
}

fn bar(name: &str, title: &str, figure: Spread) -> Bar {
    let colour = match name {
        YARDSTICK => Colour::Yardstick,
        name if name.starts_with("oribi") => Colour::Own,
        _ => Colour::Peer,
    };
    Bar { colour, title: title.to_owned(), figure }
}
