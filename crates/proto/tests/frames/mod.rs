//! HTTP/2 frames, written and read strictly by the specification, without the code under test, as bytes and as the lines of the
//! corpus.
#![allow(dead_code, reason = "each user needs another part")]

use std::fmt;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;

/// The frame types, by their numbers.
const KINDS: [&str; 17] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
    "",
    "",
    "",
    "",
    "",
    "",
    "PRIORITY_UPDATE",
];

/// The names of the static table (RFC 7541, appendix A), and the values that responses use.
const NAMES: [&str; 61] = [
    ":authority",
    ":method",
    ":method",
    ":path",
    ":path",
    ":scheme",
    ":scheme",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "accept",
    "access-control-allow-origin",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
];
const STATUSES: [&str; 7] = ["200", "204", "206", "304", "400", "404", "500"];

/// A frame as it was sent; `content` includes its padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub id: u32,
    pub content: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, id: u32, content: &[u8]) -> Self {
        Self { kind, flags, id, content: content.to_vec() }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let length = (self.content.len() as u32).to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(&self.content);
        bytes
    }

    /// The number that the frame begins with.
    pub fn number(&self) -> u32 {
        u32::from_be_bytes(*self.content.first_chunk().expect("four bytes"))
    }

    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & 1 != 0
    }
}

/// Reads frames that end where `bytes` end.
pub fn decode(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let [a, b, c, kind, flags, d, e, f, g, rest @ ..] = bytes else { panic!("no header: {bytes:?}") };
        let (content, rest) = rest.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
        frames.push(Frame::new(*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]), content));
        bytes = rest;
    }
    frames
}

/// An integer of HPACK.
fn integer(value: usize, prefix: u32, first: u8) -> Vec<u8> {
    let mask = (1 << prefix) - 1;
    if value < mask {
        return vec![first | value as u8];
    }
    let (mut bytes, mut rest) = (vec![first | mask as u8], value - mask);
    while rest >= 128 {
        bytes.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    bytes.push(rest as u8);
    bytes
}

/// A field as a literal: `first` is 0 (without indexing) or 0x40 (with it).
pub fn literal(first: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[first][..], &integer(name.len(), 7, 0), name, &integer(value.len(), 7, 0), value].concat()
}

/// Reads a block that was encoded with the static table and literals alone, as one line for each field. A change of the size of
/// the table is the line `size N`.
pub fn fields(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn number(bytes: &mut &[u8], prefix: u32) -> usize {
        let mask = (1_usize << prefix) - 1;
        let mut value = usize::from(bytes[0]) & mask;
        *bytes = &bytes[1..];
        let mut shift = 0;
        while value >= mask {
            let byte = usize::from(bytes[0]);
            *bytes = &bytes[1..];
            value += (byte % 128) << shift;
            shift += 7;
            if byte < 128 {
                break;
            }
        }
        value
    }
    fn text(bytes: &mut &[u8]) -> Vec<u8> {
        assert!(bytes[0] < 128, "a text that is not in Huffman code");
        let length = number(bytes, 7);
        let (text, rest) = bytes.split_at(length);
        *bytes = rest;
        text.to_vec()
    }
    let (mut rest, mut fields) = (block, Vec::new());
    while let Some(&first) = rest.first() {
        if first >= 0x80 {
            let index = number(&mut rest, 7);
            fields.push((NAMES[index - 1].into(), STATUSES[index - 8].into()));
        } else if first & 0xe0 == 0x20 {
            fields.push((b"size".to_vec(), number(&mut rest, 5).to_string().into_bytes()));
        } else {
            assert_eq!(first & 0xf0, 0, "a literal without indexing");
            let index = number(&mut rest, 4);
            let name = if index == 0 { text(&mut rest) } else { NAMES[index - 1].into() };
            fields.push((name, text(&mut rest)));
        }
    }
    fields
}

/// The bytes of lines of the corpus: one frame each. The lines after a frame that start with `|` are its fields: as literals,
/// with `|+` as literals that are put into the table, with `|#` by an index, with `|x` as bytes.
pub fn encode<'a>(lines: impl IntoIterator<Item = &'a str>, unescape: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut last = None::<UnpaddedFrame>;
    for line in lines {
        if let Some(text) = line.strip_prefix('|') {
            let (mark, text) = text.split_once(' ').expect("a space behind the mark of a field");
            let content = &mut last.as_mut().expect("a frame").frame.content;
            match mark {
                "" | "+" => {
                    let place = 1 + text[1..].find(':').expect("a colon");
                    let value = text[place + 1..].strip_prefix(' ').unwrap_or(&text[place + 1..]);
                    let first = if mark.is_empty() { 0 } else { 0x40 };
                    // A line that begins with two colons has an empty name.
                    let name = if text.starts_with("::") { "" } else { &text[..place] };
                    content.extend(literal(first, &unescape(name), &unescape(value)));
                }
                "#" => content.extend(integer(text.parse().expect("an index"), 7, 0x80)),
                "x" => content.extend(unescape(text)),
                _ => panic!("{line}: an unknown mark"),
            }
            continue;
        }
        all.extend(last.take().map(UnpaddedFrame::into_bytes).unwrap_or_default());
        match line.split_once(' ').unwrap_or((line, "")) {
            ("PREFACE", _) => all.extend(PREFACE),
            ("raw", bytes) => all.extend(unescape(bytes)),
            _ => last = Some(UnpaddedFrame::parse(line, &unescape)),
        }
    }
    all.extend(last.map(UnpaddedFrame::into_bytes).unwrap_or_default());
    all
}

/// A frame whose padding is still missing.
struct UnpaddedFrame {
    frame: Frame,
    padding: Option<u8>,
    weight: bool,
}

impl UnpaddedFrame {
    fn into_bytes(self) -> Vec<u8> {
        let Self { mut frame, padding, weight } = self;
        if weight {
            frame.content.splice(0..0, [0x80, 0, 0, 0, 16]);
            frame.flags |= 32;
        }
        if let Some(padding) = padding {
            frame.content.insert(0, padding);
            frame.content.resize(frame.content.len() + usize::from(padding), 0);
            frame.flags |= 8;
        }
        frame.to_bytes()
    }

    fn parse(line: &str, unescape: impl Fn(&str) -> Vec<u8>) -> Self {
        let (kind, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: no id"));
        let (id, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let named = KINDS.iter().position(|name| *name == kind);
        let kind = named.or_else(|| kind.parse().ok()).unwrap_or_else(|| panic!("{line}: no frame type")) as u8;
        let mut frame = Frame::new(kind, 0, id.parse().expect("an id"), &[]);
        if matches!(kind, HEADERS | CONTINUATION) {
            frame.flags |= 4;
        }
        let (mut padding, mut weight) = (None, false);
        loop {
            let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
            match word {
                "end" | "ack" => frame.flags |= 1,
                "more" => frame.flags &= !4,
                "weight" => weight = true,
                _ if word.starts_with('+') => padding = Some(word[1..].parse().expect("a number of bytes")),
                _ if word.starts_with('=') => {
                    frame.content.extend(word[1..].parse::<u32>().expect("a number").to_be_bytes());
                }
                _ if kind == SETTINGS && word.contains('=') => {
                    let (name, value) = word.split_once('=').expect("a setting");
                    frame.content.extend(name.parse::<u16>().expect("a setting").to_be_bytes());
                    frame.content.extend(value.parse::<u32>().expect("a value").to_be_bytes());
                }
                _ => break,
            }
            rest = behind;
        }
        frame.content.extend(unescape(rest));
        Self { frame, padding, weight }
    }
}

/// The lines of the corpus for a frame, the first without its fields.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", KINDS[usize::from(self.kind)], self.id)?;
        let fields_end = self.flags & 4 != 0 || !matches!(self.kind, HEADERS | CONTINUATION);
        f.write_str(if fields_end { "" } else { " more" })?;
        f.write_str(match (self.kind, self.flags & 1) {
            (_, 0) => "",
            (DATA | HEADERS, _) => " end",
            _ => " ack",
        })?;
        match self.kind {
            HEADERS | CONTINUATION => Ok(()),
            RST_STREAM | WINDOW_UPDATE => write!(f, " ={}", self.number()),
            GOAWAY => {
                let code = u32::from_be_bytes(*self.content.last_chunk().expect("a code"));
                write!(f, " ={} ={code}", self.number())
            }
            SETTINGS => self.content.chunks(6).try_for_each(|setting| {
                let [a, b, c, d, e, g] = setting else { panic!("half a setting") };
                write!(f, " {}={}", u16::from_be_bytes([*a, *b]), u32::from_be_bytes([*c, *d, *e, *g]))
            }),
            _ if self.content.is_empty() => Ok(()),
            _ => write!(f, " {}", self.content.escape_ascii()),
        }
    }
}

/// All lines of the corpus for a frame.
pub fn lines(frame: &Frame) -> Vec<String> {
    let mut lines = vec![frame.to_string()];
    if frame.kind == HEADERS && frame.flags & 4 != 0 {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let fields = fields(&frame.content).into_iter();
        lines.extend(fields.map(|(name, value)| format!("| {}: {}", text(&name), text(&value)).trim_end().to_owned()));
    }
    lines
}
