//! Decodes keys, as terminals send them.

/// A key of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// A letter together with the control key.
    Control(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// A key without a meaning here.
    Other,
}

/// Returns the keys in `bytes`, and the number of bytes that these keys take. The remaining bytes are the beginning of another
/// key. An escape character that begins no sequence is the key Escape, because all bytes of a sequence arrive together.
pub fn decode(bytes: &[u8]) -> (Vec<Key>, usize) {
    let (mut keys, mut taken) = (Vec::new(), 0);
    while let Some((key, length)) = first(&bytes[taken..]) {
        keys.push(key);
        taken += length;
    }
    (keys, taken)
}

/// Returns the first key and its length in bytes; `None` if `bytes` has only a part of a key.
fn first(bytes: &[u8]) -> Option<(Key, usize)> {
    let key = match bytes {
        [] => return None,
        [0x1b, b'[', rest @ ..] => return sequence(rest).map(|(key, length)| (key, length + 2)),
        // The cursor keys in application mode.
        [0x1b, b'O'] => return None,
        [0x1b, b'O', last, ..] => return Some((named(&[], *last), 3)),
        [0x1b, ..] => Key::Escape,
        [b'\r' | b'\n', ..] => Key::Enter,
        [b'\t', ..] => Key::Tab,
        [0x7f | 0x08, ..] => Key::Backspace,
        [letter @ 1..=26, ..] => Key::Control(char::from(letter - 1 + b'a')),
        [0..0x20, ..] => Key::Other,
        [0x20..0x7f, ..] => Key::Char(char::from(bytes[0])),
        _ => return letter(bytes),
    };
    Some((key, 1))
}

/// A control sequence after its introducer (ECMA-48, section 5.4): parameters, intermediate bytes, a final byte.
fn sequence(bytes: &[u8]) -> Option<(Key, usize)> {
    let end = bytes.iter().position(|byte| !(0x20..0x40).contains(byte))?;
    // A byte that is not a final byte ends the sequence, and begins another key.
    let length = if (0x40..0x7f).contains(&bytes[end]) { end + 1 } else { end };
    Some((named(&bytes[..end], bytes[end]), length))
}

fn named(parameters: &[u8], last: u8) -> Key {
    match (parameters, last) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Home,
        (_, b'F') | (b"4" | b"8", b'~') => Key::End,
        (b"5", b'~') => Key::PageUp,
        (b"6", b'~') => Key::PageDown,
        _ => Key::Other,
    }
}

/// A letter in UTF-8 (RFC 3629).
fn letter(bytes: &[u8]) -> Option<(Key, usize)> {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((Key::Other, 1)),
    };
    match std::str::from_utf8(&bytes[..length.min(bytes.len())]) {
        Ok(text) => text.chars().next().map(|letter| (Key::Char(letter), length)),
        Err(error) if error.error_len().is_none() => None,
        Err(_) => Some((Key::Other, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let sent = b"q\x1b[A\x1b[B\x1bOA\x1b[5~\x1b[6~\x1b[1~\x1b[F\r\t\x7f\x03/\xc3\xa9\x1b[1;5C\x1b";
        let (keys, taken) = decode(sent);
        let expected = [
            Key::Char('q'),
            Key::Up,
            Key::Down,
            Key::Up,
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
            Key::Enter,
            Key::Tab,
            Key::Backspace,
            Key::Control('c'),
            Key::Char('/'),
            Key::Char('\u{e9}'),
            Key::Other,
            Key::Escape,
        ];
        assert_eq!((keys.as_slice(), taken), (&expected[..], sent.len()));
    }

    #[test]
    fn a_key_that_is_cut_waits_for_its_rest() {
        for cut in [&b"a\x1b["[..], b"a\x1b[1;", b"a\x1bO", b"a\xc3", b"a\xf0\x9f\x98"] {
            assert_eq!(decode(cut), (vec![Key::Char('a')], 1), "{cut:x?}");
        }
    }

    #[test]
    fn whatever_comes_is_read_to_its_end() {
        for byte in 0..=255_u8 {
            for begin in [&b""[..], b"\x1b", b"\x1b[", b"\x1bO", b"\x1b[1", b"\xe2", b"\xf4"] {
                let bytes = [begin, &[byte], b"qqqq~"].concat();
                let (keys, taken) = decode(&bytes);
                assert_eq!(taken, bytes.len(), "{bytes:x?}: {keys:?}");
            }
        }
    }
}
