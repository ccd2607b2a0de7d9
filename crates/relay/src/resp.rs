//! The protocol of Redis, version 3 (RESP3), as far as a client of channels needs it: writes commands, and reads what Redis sends,
//! in pieces of any size. Memory is bounded, whatever comes.

/// The most bytes of a line: a number, a status or an error.
const LARGEST_LINE: usize = 4 << 10;

/// The most values in values.
const DEEPEST: usize = 16;

/// The parts of a push that are kept: its kind, and up to three parts of a message.
const PARTS: usize = 4;

/// The most bytes of a part that is kept. A push with a larger one is skipped.
pub const LARGEST_PART: usize = (16 << 20) + (4 << 10);

/// A value that Redis has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The answer to a command: a text, or an empty one for anything with parts.
    Answer(Vec<u8>),
    /// The answer to a command that has failed, without `-`.
    Error(Vec<u8>),
    /// The first parts of a push, which answers no command.
    Push(Vec<Vec<u8>>),
    /// A push with a part that is too large.
    Oversized,
}

/// Bytes that are no RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("its bytes are not those of Redis")
    }
}

/// Reads values.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    /// The rest of a text whose size has been read, with its CR LF.
    text: Option<Text>,
    /// For each value in which the next one is: the number of values that are still to come.
    open: Vec<u64>,
    /// The outermost value, if it has parts.
    outermost: Outermost,
    is_malformed: bool,
}

#[derive(Debug, Default)]
enum Outermost {
    #[default]
    Scalar,
    /// Its parts are skipped.
    Other,
    Push {
        parts: Vec<Vec<u8>>,
        is_oversized: bool,
    },
}

#[derive(Debug)]
struct Text {
    is_error: bool,
    bytes: Vec<u8>,
    /// Whether its bytes are kept.
    is_kept: bool,
    left: u64,
    /// The bytes of CR LF that have been read.
    ends: u8,
}

impl Reader {
    /// Reads from `input`, which is cut by what has been read, up to the end of the next value. `None`: more must come.
    ///
    /// # Errors
    /// The bytes are no RESP. So is everything after them.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        if self.is_malformed {
            return Err(Malformed);
        }
        let read = self.read_on(input);
        self.is_malformed = read.is_err();
        read
    }

    /// The bytes that are held for a value that is not whole.
    #[must_use]
    pub fn held(&self) -> usize {
        let parts = match &self.outermost {
            Outermost::Push { parts, .. } => parts.iter().map(Vec::len).sum(),
            Outermost::Scalar | Outermost::Other => 0,
        };
        self.line.len() + self.text.as_ref().map_or(0, |text| text.bytes.len()) + parts
    }

    fn read_on(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        while !input.is_empty() {
            let value = if self.text.is_some() { self.read_text(input)? } else { self.read_line(input)? };
            if value.is_some() {
                return Ok(value);
            }
        }
        Ok(None)
    }

    fn read_text(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        let Some(text) = &mut self.text else { return Ok(None) };
        let size = input.len().min(usize::try_from(text.left).unwrap_or(usize::MAX));
        let (part, rest) = input.split_at(size);
        if text.is_kept {
            text.bytes.extend_from_slice(part);
        }
        text.left -= size as u64;
        *input = rest;
        while text.left == 0 && text.ends < 2 {
            let Some((byte, rest)) = input.split_first() else { return Ok(None) };
            if *byte != b"\r\n"[usize::from(text.ends)] {
                return Err(Malformed);
            }
            text.ends += 1;
            *input = rest;
        }
        if text.left > 0 {
            return Ok(None);
        }
        Ok(self.text.take().and_then(|text| self.add(text.is_error, text.bytes)))
    }

    fn read_line(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let (part, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        if self.line.len() + part.len() > LARGEST_LINE {
            return Err(Malformed);
        }
        self.line.extend_from_slice(part);
        *input = rest;
        if end.is_none() {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.line);
        let (&kind, content) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first).ok_or(Malformed)?;
        match kind {
            b'+' | b':' | b'_' | b'#' | b',' | b'(' => Ok(self.add(false, content.to_vec())),
            b'-' => Ok(self.add(true, content.to_vec())),
            b'$' | b'=' | b'!' => match size_of(content)? {
                None => Ok(self.add(false, Vec::new())),
                Some(left) => {
                    self.begin_text(kind == b'!', left);
                    Ok(None)
                }
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match size_of(content)? {
                None => Ok(self.add(false, Vec::new())),
                Some(count) => self.open(kind, count),
            },
            _ => Err(Malformed),
        }
    }

    /// Begins a text of `left` bytes.
    fn begin_text(&mut self, is_error: bool, left: u64) {
        let is_small = left <= LARGEST_PART as u64;
        let is_kept = match &mut self.outermost {
            Outermost::Scalar => is_small,
            Outermost::Other => false,
            Outermost::Push { parts, is_oversized } => {
                let is_part = self.open.len() == 1 && parts.len() < PARTS;
                *is_oversized |= is_part && !is_small;
                is_part && !*is_oversized
            }
        };
        self.text = Some(Text { is_error, bytes: Vec::new(), is_kept, left, ends: 0 });
    }

    /// Begins a value with `count` parts.
    fn open(&mut self, kind: u8, count: u64) -> Result<Option<Value>, Malformed> {
        if self.open.len() == DEEPEST {
            return Err(Malformed);
        }
        let count = if matches!(kind, b'%' | b'|') { count.checked_mul(2).ok_or(Malformed)? } else { count };
        if self.open.is_empty() {
            self.outermost =
                if kind == b'>' { Outermost::Push { parts: Vec::new(), is_oversized: false } } else { Outermost::Other };
        } else if let Outermost::Push { parts, .. } = &mut self.outermost
            && self.open.len() == 1
            && parts.len() < PARTS
        {
            parts.push(Vec::new());
        }
        // The value that attributes describe comes after them, as one more part.
        let count = if kind == b'|' { count.checked_add(1).ok_or(Malformed)? } else { count };
        self.open.push(count);
        if count > 0 { Ok(None) } else { Ok(self.close()) }
    }

    /// Adds a text to the value that is open, or returns it.
    fn add(&mut self, is_error: bool, bytes: Vec<u8>) -> Option<Value> {
        if self.open.is_empty() {
            return Some(if is_error { Value::Error(bytes) } else { Value::Answer(bytes) });
        }
        if let Outermost::Push { parts, .. } = &mut self.outermost
            && self.open.len() == 1
            && parts.len() < PARTS
        {
            parts.push(bytes);
        }
        *self.open.last_mut()? -= 1;
        self.close()
    }

    /// Ends the values that are whole, and returns the outermost one if it is.
    fn close(&mut self) -> Option<Value> {
        while self.open.last() == Some(&0) {
            self.open.pop();
            match self.open.last_mut() {
                Some(left) => *left -= 1,
                None => {
                    return Some(match std::mem::take(&mut self.outermost) {
                        Outermost::Push { is_oversized: true, .. } => Value::Oversized,
                        Outermost::Push { parts, .. } => Value::Push(parts),
                        Outermost::Scalar | Outermost::Other => Value::Answer(Vec::new()),
                    });
                }
            }
        }
        None
    }
}

/// The size of a text, or the number of parts; `None` for a value that is none (`-1`).
fn size_of(content: &[u8]) -> Result<Option<u64>, Malformed> {
    if content == b"-1" {
        return Ok(None);
    }
    // A sign is no digit.
    if content.is_empty() || !content.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    str::from_utf8(content).ok().and_then(|digits| digits.parse().ok()).map(Some).ok_or(Malformed)
}

/// Appends a command with its arguments. The last argument is joined from parts.
pub fn write_command(arguments: &[&[u8]], last: &[&[u8]], bytes: &mut Vec<u8>) {
    let sized = |parts: &[&[u8]], bytes: &mut Vec<u8>| {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        bytes.extend_from_slice(format!("${size}\r\n").as_bytes());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes.extend_from_slice(b"\r\n");
    };
    bytes.extend_from_slice(format!("*{}\r\n", arguments.len() + 1).as_bytes());
    arguments.iter().for_each(|argument| sized(&[argument], bytes));
    sized(last, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], size: usize) -> (Vec<Value>, bool) {
        let (mut reader, mut values) = (Reader::default(), Vec::new());
        for mut piece in input.chunks(size) {
            loop {
                match reader.read(&mut piece) {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => break assert!(piece.is_empty()),
                    Err(Malformed) => return (values, true),
                }
            }
        }
        (values, false)
    }

    fn push(parts: &[&str]) -> Value {
        Value::Push(parts.iter().map(|part| part.as_bytes().to_vec()).collect())
    }

    #[test]
    fn values_are_the_same_in_pieces_of_any_size() {
        let answer = |text: &str| Value::Answer(text.as_bytes().to_vec());
        let input = [
            &b"+OK\r\n:12\r\n-NOAUTH first\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n_\r\n#t\r\n,1.5\r\n(99\r\n=7\r\ntxt:abc\r\n!3\r\nERR\r\n"[..],
            b"%2\r\n+server\r\n$5\r\nredis\r\n+modules\r\n*1\r\n%1\r\n+a\r\n:1\r\n",
            b"*0\r\n*-1\r\n~2\r\n:1\r\n:2\r\n",
            b">4\r\n$8\r\npmessage\r\n$3\r\na:*\r\n$3\r\na:b\r\n$4\r\n\r\n\0x\r\n",
            b">3\r\n+psubscribe\r\n*2\r\n:1\r\n:2\r\n:1\r\n",
            b">6\r\n+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n$1\r\n6\r\n>0\r\n",
            b"|1\r\n+ttl\r\n:1\r\n+OK\r\n+last\r\n",
        ]
        .concat();
        let expected = [
            answer("OK"),
            answer("12"),
            Value::Error(b"NOAUTH first".to_vec()),
            answer("a\r\nbc"),
            answer(""),
            answer(""),
            answer(""),
            answer("t"),
            answer("1.5"),
            answer("99"),
            answer("txt:abc"),
            Value::Error(b"ERR".to_vec()),
            answer(""),
            answer(""),
            answer(""),
            answer(""),
            push(&["pmessage", "a:*", "a:b", "\r\n\0x"]),
            push(&["psubscribe", "", "1"]),
            push(&["1", "2", "3", "4"]),
            push(&[]),
            answer(""),
            answer("last"),
        ];
        for size in 1..=input.len() {
            assert_eq!(read(&input, size), (expected.to_vec(), false), "{size}");
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_skipped() {
        let size = LARGEST_PART + 1;
        let mut input = format!(">4\r\n$8\r\npmessage\r\n+p\r\n+c\r\n${size}\r\n").into_bytes();
        input.resize(input.len() + size, b'x');
        input.extend_from_slice(b"\r\n+OK\r\n");
        let mut reader = Reader::default();
        let mut values = Vec::new();
        for mut piece in input.chunks(1 << 20) {
            while let Some(value) = reader.read(&mut piece).expect("valid") {
                values.push(value);
            }
            assert!(reader.held() < 100, "nothing of it is kept");
        }
        assert_eq!(values, [Value::Oversized, Value::Answer(b"OK".to_vec())]);
    }

    #[test]
    fn other_bytes_are_refused() {
        let long = [b"+", &[b'x'; LARGEST_LINE][..]].concat();
        let deep = b"*1\r\n".repeat(DEEPEST + 1);
        for input in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"+OK\n",
            b"\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$+1\r\na\r\n",
            b"$1\r\nab\r\n",
            b"$1\r\na\rb",
            b"$\r\n",
            b"*99999999999999999999\r\n",
            b"%18446744073709551615\r\n",
            b"$?\r\n",
            &long,
            &deep,
        ] {
            for size in [1, 3, input.len()] {
                assert_eq!(read(input, size), (vec![], true), "{:?}", String::from_utf8_lossy(input));
            }
        }
    }

    #[test]
    fn commands_are_arrays_of_texts() {
        let mut bytes = Vec::new();
        write_command(&[b"PUBLISH", b"a:b"], &[b"x", b"\r\n"], &mut bytes);
        assert_eq!(bytes, b"*3\r\n$7\r\nPUBLISH\r\n$3\r\na:b\r\n$3\r\nx\r\n\r\n");
    }
}
