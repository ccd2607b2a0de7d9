//! Renders the help for keys.

use crate::top::controls::{Controls, Tables};
use crate::top::picture::{Style, StyledLine};

const KEYS: [(&str, &str); 13] = [
    ("q, Ctrl-C", "leave"),
    ("?, h", "this help"),
    ("p, space", "pause the display"),
    ("+, -", "a longer or a shorter interval"),
    ("Tab", "both tables, processes alone, requests alone"),
    ("s, S", "sort by the next column, or by the one before"),
    ("r", "reverse the order"),
    ("/", "show only rows with this text in them; Enter keeps it, Esc clears it"),
    ("up, down", "select a process, or go through the requests; also j, k, Page, Home, End"),
    ("b, Enter", "backtrace of the selected process, or of that of the first request; Esc goes back"),
    ("Esc", "clear the selection, then the filter"),
    ("Ctrl-L", "redraw"),
    ("Ctrl-Z", "stop this program; `fg` continues it"),
];

pub fn lines() -> Vec<StyledLine> {
    KEYS.map(|(keys, what)| StyledLine::of(format!("{keys:<10} "), Style::Strong).with(what, Style::Plain)).into()
}

/// Renders the last line.
pub fn keys(controls: &Controls) -> StyledLine {
    if controls.writing {
        return StyledLine::of("filter: ", Style::Strong).with(controls.filter.clone(), Style::Plain).with("_", Style::Strong);
    }
    let mut line = StyledLine::default();
    if controls.paused {
        line.push("paused ", Style::Doubtful);
    }
    let interval = controls.interval.as_secs_f64();
    if controls.backtrace.is_some() {
        line.push("backtrace ", Style::Strong);
        line.push(format!("q quit  ? help  Esc back  b ask now  up, down lines  p pause  +- every {interval} s"), Style::Faint);
        return line;
    }
    if !controls.filter.is_empty() {
        line.push(format!("filter: {} ", controls.filter), Style::Doubtful);
    }
    let table = match controls.tables {
        Tables::Both => "",
        Tables::Processes => "processes ",
        Tables::Requests => "requests ",
    };
    line.push(table, Style::Strong);
    let more = if controls.selected.is_some() { "b backtrace" } else { "Tab tables  s sort  r reverse" };
    line.push(format!("q quit  ? help  {more}  / filter  p pause  +- every {interval} s"), Style::Faint);
    line
}
