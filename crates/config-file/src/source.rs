//! One file: its text, and the places in it.

use crate::place::Place;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes between two places at which the characters before them are known: a file of one line has as many columns as
/// bytes, and each option in it has a place.
const STEP: usize = 256;

/// A file of the configuration.
pub(crate) struct Source {
    /// The index of the file: 0 is `oribi.toml`.
    index: usize,
    path: Arc<str>,
    /// The text. Bytes that are not UTF-8 are replaced.
    text: String,
    /// The offset of each line.
    lines: Vec<usize>,
    /// The number of characters before each `STEP` bytes.
    characters: Vec<usize>,
    /// The values of keys such as `password`, which no message shows.
    pub secrets: Vec<Range<usize>>,
}

impl Source {
    /// Returns the file, and the offset of the first byte that is not UTF-8, if there is one.
    pub fn new(index: usize, path: &str, content: &[u8]) -> (Self, Option<usize>) {
        let invalid = std::str::from_utf8(content).err().map(|error| error.valid_up_to());
        let text = String::from_utf8_lossy(content).into_owned();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(offset, _)| offset + 1)).collect();
        let (mut characters, mut count) = (Vec::new(), 0);
        for piece in text.as_bytes().chunks(STEP) {
            characters.push(count);
            count += starts(piece);
        }
        characters.push(count);
        (Self { index, path: path.into(), text, lines, characters, secrets: Vec::new() }, invalid)
    }

    /// The same file with another text.
    pub fn with_text(&self, text: &str) -> Self {
        Self::new(self.index, &self.path, text.as_bytes()).0
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path of a file that this one names: a relative path is joined to the folder of this file.
    pub fn joined(&self, path: &str) -> PathBuf {
        Path::new(&*self.path).parent().unwrap_or(Path::new("")).join(path)
    }

    /// The place of an offset.
    pub fn place(&self, offset: usize) -> Place {
        let line = self.line_at(offset);
        let column = self.characters_before(offset).saturating_sub(self.characters_before(self.lines[line])) + 1;
        Place { file: self.index, line: line + 1, column, path: self.path.clone() }
    }

    /// The offset of a place.
    pub fn offset(&self, place: &Place) -> usize {
        let start = self.lines.get(place.line.saturating_sub(1)).copied().unwrap_or(0);
        let line = self.line(start);
        self.text[line].char_indices().nth(place.column.saturating_sub(1)).map_or(start, |(offset, _)| start + offset)
    }

    /// The place of the whole file.
    pub fn whole(&self) -> Place {
        Place { file: self.index, line: 0, column: 0, path: self.path.clone() }
    }

    /// The offsets of the line that an offset is in, without its end.
    pub fn line(&self, offset: usize) -> Range<usize> {
        let line = self.line_at(offset);
        let end = self.lines.get(line + 1).map_or(self.text.len(), |next| next - 1);
        let start = self.lines[line];
        start..start + self.text[start..end].trim_end_matches('\r').len()
    }

    /// The index of the line that an offset is in.
    fn line_at(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    fn characters_before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let step = offset / STEP;
        self.characters[step] + starts(&self.text.as_bytes()[step * STEP..offset])
    }
}

/// The number of characters that start in these bytes of UTF-8.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_1_on() {
        let long = "\u{e9}".repeat(700);
        let text = format!("a\r\n\n{long}b\nc");
        let (source, invalid) = Source::new(0, "conf/oribi.toml", text.as_bytes());
        assert_eq!(invalid, None);
        for (part, place, line) in
            [("a", "1:1", "a"), ("b", "3:701", &format!("{long}b")), ("c", "4:1", "c"), ("\n\n", "1:3", "a")]
        {
            let offset = text.find(part).expect("it is in the text");
            assert_eq!(source.place(offset).to_string(), format!("conf/oribi.toml:{place}"), "{part}");
            assert_eq!(&source.text()[source.line(offset)], line, "{part}");
            assert!(part == "\n\n" || source.offset(&source.place(offset)) == offset, "{part}");
        }
        assert_eq!(source.place(text.len()).to_string(), "conf/oribi.toml:4:2");
        assert_eq!(source.place(usize::MAX).to_string(), "conf/oribi.toml:4:2");
        assert_eq!(source.joined("apps"), Path::new("conf/apps"));
        assert_eq!(source.joined("/apps"), Path::new("/apps"));
        let (empty, _) = Source::new(0, "oribi.toml", b"");
        assert_eq!((empty.place(0).to_string().as_str(), empty.joined("a")), ("oribi.toml:1:1", "a".into()));
    }

    #[test]
    fn bytes_that_are_no_text_are_found() {
        let (source, invalid) = Source::new(0, "oribi.toml", b"a = \"\xff\"");
        assert_eq!((source.text(), invalid), ("a = \"\u{fffd}\"", Some(5)));
    }
}
