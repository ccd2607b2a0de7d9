//! FastCGI records, written and read strictly by the specification, without the code under test, as bytes and as the lines of
//! the corpus.
#![allow(dead_code, reason = "each user needs another part")]

use std::fmt;

/// The record types, by their numbers.
const KINDS: [&str; 12] = [
    "",
    "BEGIN_REQUEST",
    "ABORT_REQUEST",
    "END_REQUEST",
    "PARAMS",
    "STDIN",
    "STDOUT",
    "STDERR",
    "DATA",
    "GET_VALUES",
    "GET_VALUES_RESULT",
    "UNKNOWN_TYPE",
];
const ROLES: [&str; 4] = ["", "responder", "authorizer", "filter"];
const STATUSES: [&str; 4] = ["complete", "cannot multiplex", "overloaded", "unknown role"];

/// A record as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: u8,
    pub id: u16,
    pub content: Vec<u8>,
    pub padding: u8,
}

impl Record {
    pub fn to_bytes(&self) -> Vec<u8> {
        let length = u16::try_from(self.content.len()).expect("a content that fits into a record").to_be_bytes();
        let id = self.id.to_be_bytes();
        let mut bytes = vec![1, self.kind, id[0], id[1], length[0], length[1], self.padding, 0];
        bytes.extend(&self.content);
        bytes.resize(bytes.len() + usize::from(self.padding), 0);
        bytes
    }
}

/// Reads records that end where `bytes` end.
pub fn decode(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let [1, kind, a, b, c, d, padding, 0, rest @ ..] = bytes else { panic!("no header: {bytes:?}") };
        let (content, rest) = rest.split_at(usize::from(u16::from_be_bytes([*c, *d])));
        let (zeros, rest) = rest.split_at(usize::from(*padding));
        assert!(zeros.iter().all(|&zero| zero == 0), "padding that says something");
        let id = u16::from_be_bytes([*a, *b]);
        records.push(Record { kind: *kind, id, content: content.to_vec(), padding: *padding });
        bytes = rest;
    }
    records
}

/// A name and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Reads name-value pairs, and returns whether they end where `bytes` end.
pub fn pairs(bytes: &[u8]) -> (Vec<Pair>, bool) {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let first = *bytes.first()?;
        let size = if first < 128 { 1 } else { 4 };
        let (digits, rest) = bytes.split_at_checked(size)?;
        *bytes = rest;
        let number = digits.iter().fold(0, |number, &digit| number << 8 | usize::from(digit));
        Some(if size == 4 { number - (1 << 31) } else { number })
    }
    fn text<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
        let (text, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(text)
    }
    let (mut pairs, mut rest) = (Vec::new(), bytes);
    let mut pair = || {
        let (name, value) = (length(&mut rest)?, length(&mut rest)?);
        let pair = (text(&mut rest, name)?.to_vec(), text(&mut rest, value)?.to_vec());
        Some((pair, rest.is_empty()))
    };
    while let Some((pair, last)) = pair() {
        pairs.push(pair);
        if last {
            return (pairs, true);
        }
    }
    (pairs, bytes.is_empty())
}

/// A name-value pair as it is sent.
pub fn pair(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| match text.len() {
        short @ ..128 => vec![short as u8],
        long => (long as u32 | 1 << 31).to_be_bytes().to_vec(),
    };
    [&length(name)[..], &length(value), name, value].concat()
}

/// The bytes of lines of the corpus: one record each, and `| NAME=VALUE` for a pair of the record in front.
pub fn encode<'a>(lines: impl IntoIterator<Item = &'a str>, unescape: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut last = None::<Record>;
    for line in lines {
        if let Some(text) = line.strip_prefix("| ") {
            let (name, value) = text.split_once('=').expect("a name and a value");
            last.as_mut().expect("a record").content.extend(pair(&unescape(name), &unescape(value)));
            continue;
        }
        all.extend(last.take().map(|record| record.to_bytes()).unwrap_or_default());
        if let Some(bytes) = line.strip_prefix("raw ") {
            all.extend(unescape(bytes));
        } else {
            last = Some(parse(line, &unescape));
        }
    }
    all.extend(last.map(|record| record.to_bytes()).unwrap_or_default());
    all
}

fn parse(line: &str, unescape: impl Fn(&str) -> Vec<u8>) -> Record {
    let (kind, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: no id"));
    let (id, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let position = |names: &[&str], name: &str| names.iter().position(|other| !other.is_empty() && *other == name);
    let kind = position(&KINDS, kind).or_else(|| kind.parse().ok()).unwrap_or_else(|| panic!("{line}: no record type"));
    let mut padding = 0;
    if let Some(count) = rest.strip_prefix('+') {
        let (count, behind) = count.split_once(' ').unwrap_or((count, ""));
        padding = count.parse().expect("a number of bytes");
        rest = behind;
    }
    let words = rest.split(' ').collect::<Vec<_>>();
    let content = match (KINDS.get(kind), &words[..]) {
        (Some(&"BEGIN_REQUEST"), [role, keep @ ..]) if position(&ROLES, role).is_some() => {
            let role = position(&ROLES, role).expect("a role");
            vec![0, role as u8, u8::from(keep == ["keep"]), 0, 0, 0, 0, 0]
        }
        (Some(&"END_REQUEST"), ["status", number, ..]) => {
            let status = rest.splitn(3, ' ').nth(2).and_then(|status| position(&STATUSES, status)).expect("a status");
            let number = number.parse::<u32>().expect("a number").to_be_bytes();
            [&number[..], &[status as u8, 0, 0, 0]].concat()
        }
        _ => unescape(rest),
    };
    Record { kind: kind as u8, id: id.parse().expect("an id"), content, padding }
}

/// The line of the corpus for a record.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.get(usize::from(self.kind)) {
            Some(name) => write!(f, "{name} {}", self.id)?,
            None => write!(f, "{} {}", self.kind, self.id)?,
        }
        if self.padding > 0 {
            write!(f, " +{}", self.padding)?;
        }
        match (self.kind, &self.content[..]) {
            (_, []) => Ok(()),
            (3, [a, b, c, d, status, 0, 0, 0]) => {
                write!(f, " status {} {}", u32::from_be_bytes([*a, *b, *c, *d]), STATUSES[usize::from(*status)])
            }
            (_, content) => write!(f, " {}", content.escape_ascii()),
        }
    }
}
