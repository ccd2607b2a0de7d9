//! Renders the backtrace of a process, instead of the tables.

use crate::top::controls::Controls;
use crate::top::model::Model;
use crate::top::picture::{Style, StyledLine};

/// All lines of the backtrace.
pub fn lines(model: &Model, controls: &Controls, width: usize) -> Vec<StyledLine> {
    let Some(pid) = controls.backtrace else { return Vec::new() };
    let Some(told) = model.backtrace.as_ref().filter(|told| told.pid == pid) else {
        return vec![StyledLine::of(format!("asking process {pid} for its backtrace"), Style::Faint)];
    };
    let mut lines = Vec::new();
    if let Some(trouble) = &told.trouble {
        let was = if told.lines.is_empty() { "" } else { "; the last one follows" };
        lines.extend(wrapped(&format!("No backtrace: {trouble}{was}"), Style::Bad, width));
    }
    for (index, line) in told.lines.iter().enumerate() {
        lines.extend(wrapped(line, if index == 0 { Style::Strong } else { Style::Plain }, width));
    }
    lines
}

/// The lines that have room.
pub fn part(model: &Model, controls: &Controls, width: usize, room: usize) -> Vec<StyledLine> {
    lines(model, controls, width).into_iter().skip(controls.lines_above).take(room).collect()
}

/// Wraps a text instead of cutting it, because the end of a frame is its most important part.
fn wrapped(text: &str, style: Style, width: usize) -> Vec<StyledLine> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(width.max(1)).map(|part| StyledLine::of(part.iter().collect::<String>(), style)).collect()
}
