//! Makes untrusted text harmless in a log.

use oribi_message::is_plain;
use std::fmt::{self, Write};

/// Appends bytes as Apache does in its logs. A backslash precedes a quote and a backslash; bytes that are not printable ASCII
/// are written as `\n`, `\t` or `\xhh`.
pub fn append_quoted(bytes: &[u8], line: &mut Vec<u8>) {
    append(
        bytes,
        line,
        |byte| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\',
        |byte, line| match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            _ => line.extend_from_slice(&[b'\\', b'x', hexadecimal(byte >> 4), hexadecimal(byte & 15)]),
        },
    );
}

/// Appends bytes as the inside of a JSON string (RFC 8259, section 7). Invalid UTF-8 becomes U+FFFD. Characters that control a
/// terminal or change the direction of text are also escaped, although JSON does not require that.
pub fn append_json(bytes: &[u8], line: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((index, character)) = rest.char_indices().find(|(_, character)| is_escaped_in_json(*character)) {
            line.extend_from_slice(&rest.as_bytes()[..index]);
            match character {
                '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
                '\n' => line.extend_from_slice(b"\\n"),
                '\r' => line.extend_from_slice(b"\\r"),
                '\t' => line.extend_from_slice(b"\\t"),
                _ => {
                    // None of them is beyond U+FFFF.
                    let [high, low] = (character as u32 as u16).to_be_bytes();
                    let digits = [high >> 4, high & 15, low >> 4, low & 15].map(hexadecimal);
                    line.extend_from_slice(b"\\u");
                    line.extend_from_slice(&digits);
                }
            }
            rest = &rest[index + character.len_utf8()..];
        }
        line.extend_from_slice(rest.as_bytes());
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[inline]
fn is_escaped_in_json(character: char) -> bool {
    matches!(character, '"' | '\\') || !is_plain(character)
}

/// Copies runs of bytes that are `plain` and passes every other byte to `escape`.
fn append(bytes: &[u8], line: &mut Vec<u8>, plain: impl Fn(u8) -> bool, escape: impl Fn(u8, &mut Vec<u8>)) {
    let mut rest = bytes;
    while let Some(index) = rest.iter().position(|&byte| !plain(byte)) {
        line.extend_from_slice(&rest[..index]);
        escape(rest[index], line);
        rest = &rest[index + 1..];
    }
    line.extend_from_slice(rest);
}

fn hexadecimal(digit: u8) -> u8 {
    b"0123456789abcdef"[usize::from(digit & 15)]
}

/// Appends the text of a message to a line, up to a number of bytes. Control characters and characters that change the
/// direction of text are escaped. Line ends inside the text become `\n`. Line ends at the end of the text are dropped, because
/// each message of Perl ends with one.
pub struct Message<'a> {
    line: &'a mut Vec<u8>,
    /// Bytes that may still be appended.
    room: usize,
    /// Line ends that have been read but not written, because no other text has followed yet.
    line_ends: usize,
    cut: bool,
}

impl<'a> Message<'a> {
    pub fn new(line: &'a mut Vec<u8>, room: usize) -> Self {
        Self { line, room, line_ends: 0, cut: false }
    }

    fn push(&mut self, text: &str) {
        if self.cut {
            return;
        }
        if text.len() > self.room {
            // The beginning is kept, because it names the request and the event.
            let end = (0..=self.room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
            self.line.extend_from_slice(&text.as_bytes()[..end]);
            self.cut = true;
            self.line.extend_from_slice(b"...");
            return;
        }
        self.room -= text.len();
        self.line.extend_from_slice(text.as_bytes());
    }

    /// Appends an escape sequence as a whole, or nothing if there is no room for all of it.
    fn push_escape(&mut self, digits: &[u8]) {
        if digits.len() > self.room && !self.cut {
            self.room = 0;
        }
        self.push(std::str::from_utf8(digits).unwrap_or_default());
    }

    fn escape(&mut self, character: char) {
        match character {
            '\n' => self.push_escape(b"\\n"),
            '\r' => self.push_escape(b"\\r"),
            '\t' => self.push_escape(b"\\t"),
            ..='\u{ff}' => {
                let code = character as u32 as u8;
                let digits = [b'\\', b'x', hexadecimal(code >> 4), hexadecimal(code)];
                self.push_escape(&digits);
            }
            _ => {
                // None of them is beyond U+FFFF.
                let [high, low] = (character as u32 as u16).to_be_bytes();
                let [a, b, c, d] = [high >> 4, high, low >> 4, low].map(hexadecimal);
                self.push_escape(&[b'\\', b'u', b'{', a, b, c, d, b'}']);
            }
        }
    }
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for run in text.split_inclusive(|character| !is_plain(character)) {
            let control = run.chars().next_back().filter(|character| !is_plain(*character));
            let plain = &run[..run.len() - control.map_or(0, char::len_utf8)];
            if !plain.is_empty() || control.is_some_and(|control| control != '\n') {
                for _ in 0..std::mem::take(&mut self.line_ends) {
                    self.push_escape(b"\\n");
                }
            }
            self.push(plain);
            match control {
                Some('\n') => self.line_ends += 1,
                Some(control) => self.escape(control),
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(bytes: &[u8]) -> String {
        let mut line = Vec::new();
        append_quoted(bytes, &mut line);
        String::from_utf8(line).expect("ASCII")
    }

    fn json(bytes: &[u8]) -> String {
        let mut line = Vec::new();
        append_json(bytes, &mut line);
        String::from_utf8(line).expect("UTF-8")
    }

    fn message(pieces: &[&str], room: usize) -> String {
        let mut line = Vec::new();
        let mut message = Message::new(&mut line, room);
        for piece in pieces {
            message.write_str(piece).expect("memory takes it");
        }
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn quoted_text() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"/a?b=c%20d", "/a?b=c%20d"),
            (b"a\"b\\c", "a\\\"b\\\\c"),
            (b"a\r\n\tb\0\x1b[31m\x7f", "a\\r\\n\\tb\\x00\\x1b[31m\\x7f"),
            ("\u{e9}\u{9b}".as_bytes(), "\\xc3\\xa9\\xc2\\x9b"),
            (b"\xff", "\\xff"),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }

    #[test]
    fn json_text() {
        for (bytes, expected) in [
            (&b"/a"[..], "/a"),
            (b"a\"b\\c\r\n\t\0\x1f\x7f", "a\\\"b\\\\c\\r\\n\\t\\u0000\\u001f\\u007f"),
            ("\u{e9}\u{1f98c}".as_bytes(), "\u{e9}\u{1f98c}"),
            (b"a\xffb\xc3", "a\u{fffd}b\u{fffd}"),
            ("\u{80}\u{9b}31m\u{a0}\u{85}".as_bytes(), "\\u0080\\u009b31m\u{a0}\\u0085"),
            ("\u{200e}\u{200f}\u{61c}".as_bytes(), "\\u200e\\u200f\\u061c"),
            ("a\u{202e}b\u{2066}\u{2069}\u{2070}\u{2028}".as_bytes(), "a\\u202eb\\u2066\\u2069\u{2070}\\u2028"),
        ] {
            assert_eq!(json(bytes), expected);
        }
    }

    #[test]
    fn every_byte_stays_inside_its_line() {
        for byte in 0..=255_u8 {
            for text in [quoted(&[byte]), json(&[byte])] {
                assert!(!text.contains(|character: char| character.is_ascii_control()), "{byte}");
                assert!(!text.starts_with('"'), "{byte}");
            }
        }
    }

    #[test]
    fn messages() {
        for (pieces, expected) in [
            (&["died at app.psgi line 3.\n"][..], "died at app.psgi line 3."),
            (&["one\n", "two\n\n"], "one\\ntwo"),
            (&["one\n\n", "\ttwo"], "one\\n\\n\\ttwo"),
            (&["\u{1b}[31m", "\u{9b}", "\u{7f}"], "\\x1b[31m\\x9b\\x7f"),
            (&["\u{e9}\0"], "\u{e9}\\x00"),
            (&["/\u{202e}gpj.\u{2066}x\u{200f}\u{61c}\u{2028}"], "/\\u{202e}gpj.\\u{2066}x\\u{200f}\\u{061c}\\u{2028}"),
            (&["\n"], ""),
        ] {
            assert_eq!(message(pieces, 1000), expected);
        }
        assert_eq!(message(&["12345", "6"], 5), "12345...");
        assert_eq!(message(&["12345\n", "", "\n"], 5), "12345");
        assert_eq!(message(&["123456", "7"], 5), "12345...");
        assert_eq!(message(&["12\u{1f980}"], 5), "12...");
        for room in 4..7 {
            assert_eq!(message(&["1234\u{1b}x"], room), "1234...");
            assert_eq!(message(&["1234\u{202e}x"], room), "1234...");
        }
    }
}
