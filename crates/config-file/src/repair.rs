//! Reads the rest of a file in spite of mistakes in its syntax: a line such as `workers = many` gets a value that fits nothing,
//! and nothing more is said about it.

use crate::source::Source;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::de::DeTable;

/// A value that no key takes: a time of day.
const UNFIT: &str = "00:00:00";

/// A file without its mistakes of syntax.
pub(crate) struct Repaired {
    /// The text. Each line that is not in `lines` is as before.
    pub source: Source,
    /// The lines with mistakes, from 1 on.
    pub lines: BTreeSet<usize>,
    /// Whether files or apps may be missing, because the lines named them.
    pub lacks_names: bool,
}

/// Repairs the lines of these offsets. `None`: the rest of the file cannot be understood, either.
pub(crate) fn repaired(source: &Source, offsets: &[usize]) -> Option<Repaired> {
    let ranges: BTreeSet<(usize, usize)> = offsets.iter().map(|&offset| bounds(source.line(offset))).collect();
    let with_values = |range: &(usize, usize)| Some(format!("{} = {UNFIT}", key(&source.text()[range.0..range.1])?));
    let mut lines: Vec<((usize, usize), String)> =
        ranges.iter().map(|range| Some((*range, with_values(range)?))).collect::<Option<_>>()?;
    let mut text = replaced(source.text(), &lines);
    let (_, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        // Those that remain may be keys that are there already.
        let second = source.with_text(&text);
        let faulty: BTreeSet<usize> =
            errors.iter().map(|error| second.place(error.span().map_or(0, |span| span.start)).line).collect();
        for (range, line) in &mut lines {
            let has_value = source.text()[range.0..range.1].contains('=');
            if has_value && faulty.contains(&source.place(range.0).line) {
                line.clear();
            }
        }
        text = replaced(source.text(), &lines);
        DeTable::parse(&text).ok()?;
    }
    let first_table =
        source.text().lines().position(|line| line.trim_start().starts_with('[')).map_or(usize::MAX, |index| index + 1);
    let names = |range: &(usize, usize)| {
        let key = key(&source.text()[range.0..range.1]).unwrap_or_default();
        let first = key.split('.').next().unwrap_or_default().trim();
        source.place(range.0).line < first_table && ["include", "app"].contains(&first)
    };
    Some(Repaired {
        lacks_names: ranges.iter().any(names),
        lines: ranges.iter().map(|range| source.place(range.0).line).collect(),
        source: source.with_text(&text),
    })
}

fn bounds(range: Range<usize>) -> (usize, usize) {
    (range.start, range.end)
}

/// The key at the start of a line, as in `workers = 4` or `workers: 4`; `None` for a header, and for a part of a longer value.
fn key(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let end = line.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter)).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let is_key = !key.is_empty() && (rest.starts_with(['=', ':']) || key.len() + rest.len() < line.len());
    is_key.then_some(key)
}

fn replaced(text: &str, lines: &[((usize, usize), String)]) -> String {
    let (mut whole, mut at) = (String::with_capacity(text.len()), 0);
    for ((start, end), line) in lines {
        whole.push_str(&text[at..*start]);
        whole.push_str(line);
        at = *end;
    }
    whole.push_str(&text[at..]);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text after the repair, and the lines with mistakes.
    fn repair(text: &str) -> Option<(String, Vec<usize>)> {
        let (source, _) = Source::new(0, "oribi.toml", text.as_bytes());
        let (_, errors) = DeTable::parse_recoverable(text);
        let offsets: Vec<usize> = errors.iter().map(|error| error.span().map_or(0, |span| span.start)).collect();
        let Repaired { source, lines, .. } = repaired(&source, &offsets)?;
        Some((source.text().to_owned(), lines.into_iter().collect()))
    }

    #[test]
    fn a_line_without_a_value_does_not_hide_the_others() {
        for (text, expected, lines) in [
            ("a = many\nb = 1\n", "a = 00:00:00\nb = 1\n", &[1][..]),
            ("a = 'x\nb = 1\n", "a = 00:00:00\nb = 1\n", &[1]),
            ("[s]\n  a: 4\nc = 2\n", "[s]\na = 00:00:00\nc = 2\n", &[2]),
            ("a = 1:4\nb = x\nc = 2\n", "a = 00:00:00\nb = 00:00:00\nc = 2\n", &[1, 2]),
            ("a = 1\na = 2\nb = 3\n", "a = 1\n\nb = 3\n", &[2]),
            ("a =\nb = 1", "a = 00:00:00\nb = 1", &[1]),
        ] {
            assert_eq!(repair(text), Some((expected.to_owned(), lines.to_vec())), "{text}");
        }
    }

    #[test]
    fn other_mistakes_leave_nothing_to_read() {
        for text in ["[a\nb = 1\n", "a = [\n  x y,\n]\n", "a = '''\nb\n", "[a]\nb = 1\n[a]\nc = 2\n"] {
            assert_eq!(repair(text), None, "{text}");
        }
    }

    #[test]
    fn a_line_that_names_files_or_apps_is_remembered() {
        for (text, lacks) in
            [("include = x\n", true), ("app.x = y\n", true), ("[[route]]\napp = x\n", false), ("[a]\nb = c\n", false)]
        {
            let (source, _) = Source::new(0, "oribi.toml", text.as_bytes());
            let offset = text.rfind('=').expect("it has one");
            assert_eq!(repaired(&source, &[offset]).expect("the rest is good").lacks_names, lacks, "{text}");
        }
    }
}
