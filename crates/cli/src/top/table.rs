//! Aligns the columns of rows, and omits the least important columns if the width is not sufficient.

use super::picture::{Style, StyledLine};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub head: &'static str,
    pub side: Side,
    /// The importance of the column. Columns with the least weight are omitted first, all columns of the same weight together.
    pub weight: u8,
    /// The least width, so that the columns to the right keep their places while the numbers in this column change.
    pub least: usize,
}

/// The side on which the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Column {
    pub const fn left(head: &'static str, weight: u8, least: usize) -> Self {
        Self { head, side: Side::Left, weight, least }
    }

    pub const fn right(head: &'static str, weight: u8, least: usize) -> Self {
        Self { head, side: Side::Right, weight, least }
    }
}

/// A row, and whether it is selected.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub cells: Vec<(String, Style)>,
    pub selected: bool,
}

/// The columns of a table that fit, with their widths.
#[derive(Debug)]
pub struct Layout<'a> {
    columns: &'a [Column],
    /// The column by which the rows are sorted, and the mark after its head.
    sorted: Option<(usize, char)>,
    shown: Vec<(usize, usize)>,
}

const GAP: usize = 1;

impl<'a> Layout<'a> {
    /// Lays out these rows in `width` columns of the terminal. The text of the last column may be cut.
    pub fn new(columns: &'a [Column], sorted: Option<(usize, char)>, rows: &[Row], width: usize) -> Self {
        let natural = |(index, column): (usize, &Column)| {
            let cells = rows.iter().filter_map(|row| row.cells.get(index)).map(|(text, _)| text.chars().count());
            let mark = usize::from(sorted.is_some_and(|(by, _)| by == index));
            (index, cells.max().unwrap_or(0).max(column.head.len() + mark).max(column.least))
        };
        let mut shown: Vec<(usize, usize)> = columns.iter().enumerate().map(natural).collect();
        while needed(columns, &shown) > width && shown.len() > 1 {
            let least = shown.iter().map(|(index, _)| columns[*index].weight).min().unwrap_or_default();
            shown.retain(|(index, _)| columns[*index].weight > least);
        }
        Self { columns, sorted, shown }
    }

    pub fn heads(&self) -> StyledLine {
        let mut line = StyledLine { filled: Some(Style::Heads), ..StyledLine::default() };
        for (index, width) in &self.shown {
            let column = &self.columns[*index];
            let (head, style) = match self.sorted {
                Some((by, mark)) if by == *index => (format!("{}{mark}", column.head), Style::Sorted),
                _ => (column.head.to_owned(), Style::Heads),
            };
            self.push(&mut line, *index, *width, &head, style, Style::Heads);
        }
        line
    }

    pub fn line(&self, row: &Row) -> StyledLine {
        let mut line = StyledLine { filled: row.selected.then_some(Style::Selected), ..StyledLine::default() };
        for (index, width) in &self.shown {
            let (text, style) = row.cells.get(*index).map_or(("", Style::Plain), |(text, style)| (text.as_str(), *style));
            let (style, gap) = if row.selected { (Style::Selected, Style::Selected) } else { (style, Style::Plain) };
            self.push(&mut line, *index, *width, text, style, gap);
        }
        line
    }

    fn push(&self, line: &mut StyledLine, index: usize, width: usize, text: &str, style: Style, gap: Style) {
        if !line.pieces.is_empty() {
            line.push(" ".repeat(GAP), gap);
        }
        let last = self.shown.last().is_some_and(|(last, _)| *last == index);
        match self.columns[index].side {
            Side::Left if last => line.push(text, style),
            Side::Left => line.push(format!("{text:<width$}"), style),
            Side::Right => line.push(format!("{text:>width$}"), style),
        }
    }
}

/// Returns the width that these columns need. A last column that is left-aligned counts with its least width, because it may be
/// cut.
fn needed(columns: &[Column], shown: &[(usize, usize)]) -> usize {
    let of_one = |(place, (index, width)): (usize, &(usize, usize))| {
        let column = &columns[*index];
        if place + 1 == shown.len() && column.side == Side::Left { column.least.max(column.head.len()) } else { *width }
    };
    shown.iter().enumerate().map(of_one).sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::picture::text;

    const COLUMNS: [Column; 3] = [Column::left("NAME", 9, 0), Column::right("PID", 1, 0), Column::left("RUNS", 5, 6)];

    fn table(width: usize) -> String {
        let row = |cells: [&str; 3]| Row { cells: cells.map(|cell| (cell.to_owned(), Style::Plain)).to_vec(), selected: false };
        let rows = [row(["worker 1", "77", "GET /a/long/path"]), row(["edge 1", "100078", ""])];
        let layout = Layout::new(&COLUMNS, Some((1, '^')), &rows, width);
        let lines: Vec<StyledLine> = std::iter::once(layout.heads()).chain(rows.iter().map(|row| layout.line(row))).collect();
        text(&lines.into_iter().map(|line| line.cut(width)).collect::<Vec<_>>())
    }

    #[test]
    fn columns_that_matter_least_are_left_out_first() {
        assert_eq!(table(40), "NAME       PID^ RUNS\nworker 1     77 GET /a/long/path\nedge 1   100078\n");
        assert_eq!(table(22), "NAME       PID^ RUNS\nworker 1     77 GET /a\nedge 1   100078\n");
        assert_eq!(table(21), "NAME     RUNS\nworker 1 GET /a/long/\nedge 1\n");
        assert_eq!(table(14), "NAME\nworker 1\nedge 1\n");
        assert_eq!(table(3), "NAM\nwor\nedg\n");
    }
}
