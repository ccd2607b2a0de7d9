//! Renders the model: a head, the growth of the numbers, the processes, the requests.

pub mod backtrace;
mod head;
mod help;
mod rows;

use super::controls::{Controls, Tables};
use super::model::Model;
use super::order;
use super::picture::{Style, StyledLine};
use super::snapshot::Traffic;
use super::table::{Layout, Row};

/// The room for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: usize,
    /// The number of lines; `None` for as many as needed, without the line for keys.
    pub height: Option<usize>,
}

impl Size {
    /// Returns the number of rows by which the keys PageUp and PageDown move.
    pub fn page(self) -> usize {
        self.height.map_or(20, |height| (height / 2).max(1))
    }
}

/// Renders the picture, which is neither wider nor higher than `size`.
pub fn picture(model: &Model, controls: &Controls, size: Size) -> Vec<StyledLine> {
    let Size { width, height } = size;
    let mut lines = head::lines(model, width, height);
    match height {
        None => lines.extend(tables(model, controls, width, None)),
        Some(height) => {
            let room = height.saturating_sub(lines.len() + 1);
            let below = match controls {
                Controls { help: true, .. } => help::lines(),
                Controls { backtrace: Some(_), .. } => backtrace::part(model, controls, width, room),
                _ => tables(model, controls, width, Some(room)),
            };
            lines.extend(below.into_iter().take(room));
            lines.truncate(height.saturating_sub(1));
            lines.resize(height.saturating_sub(1), StyledLine::default());
            lines.push(help::keys(controls));
            lines.truncate(height);
        }
    }
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// The processes in the order of their rows.
pub fn pids(model: &Model, controls: &Controls) -> Vec<u32> {
    order::processes(model.processes(), controls.processes, &controls.filter).iter().map(|row| row.process.pid).collect()
}

/// The number of rows of requests.
pub fn requests(model: &Model, controls: &Controls) -> usize {
    match model.present.as_ref().map(|present| &present.traffic) {
        Some(Traffic::Known { requests, .. }) => order::requests(requests, controls.requests, &controls.filter).len(),
        _ => 0,
    }
}

/// Returns the process with the first displayed request; `None` if that request is queued, or without requests.
pub fn worker(model: &Model, controls: &Controls) -> Option<u32> {
    let Traffic::Known { requests, .. } = &model.present.as_ref()?.traffic else { return None };
    order::requests(requests, controls.requests, &controls.filter).get(controls.above)?.pid
}

/// Renders the displayed tables, in at most `room` lines.
fn tables(model: &Model, controls: &Controls, width: usize, room: Option<usize>) -> Vec<StyledLine> {
    let shown = order::processes(model.processes(), controls.processes, &controls.filter);
    let above = controls.selected.and_then(|pid| shown.iter().position(|row| row.process.pid == pid));
    let processes = Table {
        columns: &rows::PROCESSES,
        sorted: sorted(controls.processes.column()),
        rows: shown.iter().map(|row| rows::process(row, controls.selected)).collect(),
        more: 0,
        focus: Focus::Around(above.unwrap_or_default()),
        instead: "no process",
    };
    let traffic = model.present.as_ref().map(|present| &present.traffic);
    let (rows, more, instead) = match traffic {
        None => (Vec::new(), 0, ""),
        Some(Traffic::Unknown(why)) => (Vec::new(), 0, why.as_str()),
        Some(Traffic::Known { requests, more }) => {
            let shown = order::requests(requests, controls.requests, &controls.filter);
            (shown.into_iter().map(rows::request).collect(), *more, "no requests")
        }
    };
    let focus = Focus::From(if controls.tables == Tables::Requests { controls.above } else { 0 });
    let requests = Table { columns: &rows::REQUESTS, sorted: sorted(controls.requests.column()), rows, more, focus, instead };
    match controls.tables {
        Tables::Processes => processes.lines(width, room),
        Tables::Requests => requests.lines(width, room),
        Tables::Both => {
            let needed = processes.height();
            let gap = usize::from(room.is_none_or(|room| room >= 10));
            let first = room.map(|room| needed.min((room / 2).max(room.saturating_sub(requests.height() + gap))));
            let mut lines = processes.lines(width, first);
            lines.resize(lines.len() + gap, StyledLine::default());
            let rest = room.map(|room| room.saturating_sub(lines.len()));
            lines.extend(requests.lines(width, rest));
            lines
        }
    }
}

fn sorted((column, falls): (usize, bool)) -> (usize, char) {
    (column, if falls { 'v' } else { '^' })
}

/// A table. The visible rows depend on the room that is left for the table.
struct Table<'a> {
    columns: &'static [super::table::Column],
    sorted: (usize, char),
    rows: Vec<Row>,
    /// The number of further rows, about which there are no details.
    more: u64,
    focus: Focus,
    /// The text instead of rows if there are none.
    instead: &'a str,
}

/// The rows to display if there is not enough room for all of them.
enum Focus {
    /// This row, and those around it.
    Around(usize),
    /// This row, and those below it.
    From(usize),
}

impl Table<'_> {
    fn height(&self) -> usize {
        1 + self.rows.len().max(1) + usize::from(self.more > 0)
    }

    fn lines(&self, width: usize, room: Option<usize>) -> Vec<StyledLine> {
        let room = room.unwrap_or(usize::MAX);
        let layout = Layout::new(self.columns, Some(self.sorted), &self.rows, width);
        let mut lines = vec![layout.heads()];
        if self.rows.is_empty() {
            lines.push(StyledLine::of(self.instead, Style::Faint));
        }
        let from = match self.focus {
            Focus::From(first) => first.min(self.rows.len().saturating_sub(1)),
            Focus::Around(row) => {
                let page = room.saturating_sub(2).max(1);
                row.saturating_sub(page / 2).min(self.rows.len().saturating_sub(page))
            }
        };
        let below = &self.rows[from..];
        let fit = room.saturating_sub(1);
        // The line with the number of hidden rows takes the place of a row.
        let all = below.len() <= fit && self.more == 0;
        let shown = if all { below.len() } else { below.len().min(fit.saturating_sub(1)) };
        lines.extend(below[..shown].iter().map(|row| layout.line(row)));
        let hidden = (below.len() - shown) as u64 + self.more;
        if hidden > 0 && fit > 0 {
            lines.push(StyledLine::of(format!("and {hidden} more"), Style::Faint));
        }
        lines.truncate(room);
        lines
    }
}

#[cfg(test)]
mod tests;
