//! Writes JSON (RFC 8259) that is harmless in a terminal: characters that control it, or that change the direction of text,
//! are escaped as well.

use oribi_message::is_plain;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};
use std::io::{self, Write};

/// Returns a value as JSON, without line ends. Returns `null` for a value with a map whose keys are not texts; no type of this
/// crate has such a map.
#[must_use]
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut bytes = Vec::new();
    match value.serialize(&mut Serializer::with_formatter(&mut bytes, Harmless)) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
        Err(_) => "null".to_owned(),
    }
}

struct Harmless;

impl Formatter for Harmless {
    /// Writes a number without an exponent, and with at least three digits behind the point: times are read by people, too.
    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let digits = value.to_string();
        let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        if fraction < 3 { write!(writer, "{value:.3}") } else { writer.write_all(digits.as_bytes()) }
    }

    /// Writes a part of a text without the characters that `write_char_escape` writes. Other characters that are not plain are
    /// escaped here.
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((index, character)) = rest.char_indices().find(|(_, character)| !is_plain(*character)) {
            writer.write_all(&rest.as_bytes()[..index])?;
            // All characters that are not plain are below U+10000, so four digits suffice.
            write!(writer, "\\u{:04x}", u32::from(character))?;
            rest = &rest[index + character.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: Write + ?Sized>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            // As in the log, which has no short escapes for these two.
            CharEscape::Backspace => CompactFormatter.write_char_escape(writer, CharEscape::AsciiControl(8)),
            CharEscape::FormFeed => CompactFormatter.write_char_escape(writer, CharEscape::AsciiControl(12)),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_inside_its_string_and_read_back() {
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = format!("{character}a{character}");
            let json = to_json(&text);
            assert!(json.chars().all(is_plain), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).ok(), Some(text), "{json:?}");
        }
    }

    #[test]
    fn escapes_are_short_only_for_five_characters() {
        let text = "\"\\/\n\r\t\u{8}\u{c}\0\u{1f}\u{7f}\u{80}\u{85}\u{a0}\u{202e}\u{2066}\u{2069}\u{2070}\u{e9}\u{1f980}";
        assert_eq!(
            to_json(text),
            "\"\\\"\\\\/\\n\\r\\t\\u0008\\u000c\\u0000\\u001f\\u007f\\u0080\\u0085\
             \u{a0}\\u202e\\u2066\\u2069\u{2070}\u{e9}\u{1f980}\""
        );
    }
}
