//! A picture: lines of text in a few styles.

/// The style of a piece of text. Without colours, the words alone are sufficient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    /// A title or an important number.
    Strong,
    /// An explanation, or a piece of less interest.
    Faint,
    /// The heads of a table.
    Heads,
    /// The column by which a table is sorted.
    Sorted,
    /// The selected row.
    Selected,
    Good,
    Doubtful,
    Bad,
}

/// A line, in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledLine {
    pub pieces: Vec<(String, Style)>,
    /// The style of the rest of the line up to the edge; `None` for none.
    pub filled: Option<Style>,
}

impl StyledLine {
    pub fn of(text: impl Into<String>, style: Style) -> Self {
        Self::default().with(text, style)
    }

    /// Adds a piece of text in a style.
    pub fn with(mut self, text: impl Into<String>, style: Style) -> Self {
        self.push(text, style);
        self
    }

    pub fn push(&mut self, text: impl Into<String>, style: Style) {
        self.pieces.push((text.into(), style));
    }

    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(text, _)| text.chars().count()).sum()
    }

    /// Cuts the line to this number of columns.
    pub fn cut(mut self, width: usize) -> Self {
        let mut left = width;
        for (text, _) in &mut self.pieces {
            if let Some((end, _)) = text.char_indices().nth(left) {
                text.truncate(end);
            }
            left -= text.chars().count();
        }
        self.pieces.retain(|(text, _)| !text.is_empty());
        self
    }

    pub fn text(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect::<String>().trim_end().to_owned()
    }
}

/// The lines as text without styles.
pub fn text(lines: &[StyledLine]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

/// Arranges facts side by side, in as many lines as they need.
pub fn wrapped(facts: Vec<StyledLine>, width: usize) -> Vec<StyledLine> {
    const GAP: &str = "  ";
    let mut lines: Vec<StyledLine> = Vec::new();
    for fact in facts {
        match lines.last_mut() {
            Some(last) if last.width() + GAP.len() + fact.width() <= width => {
                last.push(GAP, Style::Plain);
                last.pieces.extend(fact.pieces);
            }
            _ => lines.push(fact),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_characters() {
        let line = StyledLine::of("a\u{e9}", Style::Bad).with("bcd", Style::Plain);
        assert_eq!(line.clone().cut(9).text(), "a\u{e9}bcd");
        assert_eq!(line.clone().cut(3).text(), "a\u{e9}b");
        assert_eq!(line.clone().cut(1).pieces, [("a".to_owned(), Style::Bad)]);
        assert_eq!(line.cut(0), StyledLine::default());
    }

    #[test]
    fn facts_go_to_the_next_line_when_they_do_not_fit() {
        let fact = |text: &str| StyledLine::of(text, Style::Plain);
        let lines = wrapped(vec![fact("12345"), fact("678"), fact("90"), fact("a long one")], 10);
        assert_eq!(text(&lines), "12345  678\n90\na long one\n");
    }
}
