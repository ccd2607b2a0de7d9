//! Host patterns, and the rules that are possible with a host.

use crate::index::{Index, Mention};
use crate::list::List;
use crate::rows::{Rows, RuleSet};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// A host pattern without its `!`. Names are in lower case.
#[derive(Debug, PartialEq)]
pub(crate) enum HostPattern {
    /// Every request.
    Any,
    Exact(Vec<u8>),
    /// The hosts that end with this text, which begins with a dot.
    Below(Vec<u8>),
}

/// The longest name of a host, in bytes (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 255;

impl HostPattern {
    /// Parses a pattern that is not empty.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.starts_with('[') {
            let mut literal = Vec::new();
            let address = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            return match address.and_then(|address| address.parse().ok()) {
                Some(address) => {
                    write_literal(address, &mut literal);
                    Ok(Self::Exact(literal))
                }
                None => Err("bad IPv6 literal; write it without a port, such as [2001:db8::1]".to_owned()),
            };
        }
        let (name, below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('.') || name.ends_with('.') {
            return Err(format!("bad host; expected a name of 1 to {LONGEST_NAME} bytes, *.NAME or *"));
        }
        if let Some(other) = name.chars().find(|other| !(other.is_ascii_alphanumeric() || matches!(other, '-' | '.' | '_'))) {
            return Err(match other {
                ':' => "bad host; write it without a port, because hosts are compared without one".to_owned(),
                '*' => "bad host; a * may only stand alone, or for all labels before a name as in *.example.com".to_owned(),
                '~' => "bad host; regular expressions are not for hosts, expected NAME, *.NAME or *".to_owned(),
                other if !other.is_ascii() => "bad host; write a name that is not ASCII in its form with xn--".to_owned(),
                other => format!("bad host; a name has letters, digits, `-`, `_` and dots, but no {other:?}"),
            });
        }
        let name = name.to_ascii_lowercase().into_bytes();
        Ok(if below { Self::Below([b".".as_slice(), &name].concat()) } else { Self::Exact(name) })
    }
}

/// Writes the canonical form of an IPv6 literal.
fn write_literal(address: Ipv6Addr, literal: &mut Vec<u8>) {
    literal.clear();
    literal.push(b'[');
    for (index, segment) in address.segments().into_iter().enumerate() {
        if index > 0 {
            literal.push(b':');
        }
        literal.extend(segment.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hexadecimal));
    }
    literal.push(b']');
}

const fn hexadecimal(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }
}

/// The value of Host without its port and without a dot at its end.
#[inline(never)]
fn bare(host: &[u8]) -> &[u8] {
    let name = match host {
        [.., b'0'..=b'9' | b':'] => {
            let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            host[..host.len() - digits].strip_suffix(b":").unwrap_or(host)
        }
        host => host,
    };
    name.strip_suffix(b".").unwrap_or(name)
}

/// The rules that are possible with each host.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Names without patterns: they need no look into the tree.
    names: Names,
    /// All patterns, with their bytes from the last to the first: a pattern for the end of a host is a prefix then.
    reversed: Index,
    /// Whether there are patterns for the end of a host.
    any_below: bool,
    /// The row of hosts that no name belongs to.
    other: u32,
    /// Whether each rule is possible with each host.
    unrestricted: bool,
}

impl Hosts {
    /// Builds the index of the lists of all rules.
    pub(crate) fn new(lists: &[List<HostPattern>]) -> Self {
        let mut restricted = RuleSet::new(lists.len());
        let mut mentions = Vec::new();
        for (rule, list) in lists.iter().enumerate() {
            if !list.positive.is_empty() {
                restricted.insert(rule);
            }
            let signed = list.positive.iter().map(|pattern| (pattern, false));
            for (pattern, negative) in signed.chain(list.negative.iter().map(|pattern| (pattern, true))) {
                let (text, whole) = match pattern {
                    HostPattern::Any => (&[][..], false),
                    HostPattern::Exact(name) => (&name[..], true),
                    HostPattern::Below(end) => (&end[..], false),
                };
                mentions.push(Mention { key: text.iter().rev().copied().collect(), whole, negative, rule });
            }
        }
        let any_below = mentions.iter().any(|mention| !mention.whole && !mention.key.is_empty());
        let unrestricted = mentions.is_empty();
        let mut names: Vec<Vec<u8>> =
            mentions.iter().filter(|mention| mention.whole).map(|mention| mention.key.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let reversed = Index::new(lists.len(), &restricted, mentions);
        let rows = names.into_iter().map(|mut name| {
            let row = reversed.find(&name);
            name.reverse();
            (name, row)
        });
        let names = Names::new(rows.collect());
        let other = reversed.find(b"");
        Self { names, reversed, any_below, other, unrestricted }
    }

    /// The rows.
    #[inline]
    pub(crate) const fn rows(&self) -> &Rows {
        self.reversed.rows()
    }

    /// The row for all hosts; `None` if hosts differ.
    #[inline]
    pub(crate) fn of_all(&self) -> Option<u32> {
        self.unrestricted.then_some(self.other)
    }

    /// The row for a host. `scratch` is for hosts that are not plain.
    #[inline(always)]
    pub(crate) fn find(&self, host: Option<&[u8]>, scratch: &mut Vec<u8>) -> u32 {
        let Some(host) = host.filter(|_| !self.unrestricted) else { return self.other };
        let host = match host {
            [b'[', ..] => return self.find_literal(host, scratch),
            // The name of most hosts ends with a letter.
            [.., b'-' | b'a'..=b'z'] => host,
            host => bare(host),
        };
        match self.names.find(host) {
            Some(row) => row,
            None if self.any_below => self.find_end(host, scratch),
            None => self.other,
        }
    }

    /// The row of an IPv6 literal. A literal that is not valid is compared with no name.
    #[inline(never)]
    fn find_literal(&self, host: &[u8], scratch: &mut Vec<u8>) -> u32 {
        let address = bare(host).strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
        let address = address.and_then(|address| core::str::from_utf8(address).ok()?.parse().ok());
        let Some(address) = address else { return self.other };
        write_literal(address, scratch);
        self.names.find(scratch).unwrap_or(self.other)
    }

    #[inline(never)]
    fn find_end(&self, host: &[u8], scratch: &mut Vec<u8>) -> u32 {
        if let [b'.', ..] = host {
            return self.other;
        }
        scratch.clear();
        scratch.extend(host.iter().rev().map(u8::to_ascii_lowercase));
        self.reversed.find(scratch)
    }
}

/// A hash table of names in lower case.
#[derive(Debug)]
struct Names {
    /// A power of two, and at least four times the number of names.
    slots: Vec<Slot>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Slot {
    ends: Ends,
    /// 0: the slot is empty, because no name is.
    length: u32,
    row: u32,
    /// The name in `bytes`.
    start: u32,
}

/// The first and the last eight bytes of a name, which may overlap; of a shorter name, all bytes and nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ends {
    first: u64,
    last: u64,
}

impl Ends {
    #[inline(always)]
    fn of(name: &[u8]) -> Self {
        match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(first), Some(last)) => Self { first: u64::from_le_bytes(*first), last: u64::from_le_bytes(*last) },
            _ => Self { first: name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), last: 0 },
        }
    }

    /// The same for names that differ only in case. A few bytes that differ otherwise count as equal.
    #[inline(always)]
    fn hash(self, name: &[u8]) -> usize {
        // An odd number with many bits: 2^64 divided by the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        const FOLD: u64 = 0x2020_2020_2020_2020;
        let mix = |hash: u64, word: u64| (hash ^ hash >> 32 ^ (word | FOLD)).wrapping_mul(FACTOR);
        let mut hash = mix(mix(0, self.first), self.last);
        if name.len() > 16 {
            // The last bytes are there already.
            for chunk in name[8..].as_chunks::<8>().0 {
                hash = mix(hash, u64::from_le_bytes(*chunk));
            }
        }
        (hash >> 32) as usize
    }
}

impl Names {
    fn new(names: Vec<(Vec<u8>, u32)>) -> Self {
        let empty = Slot { ends: Ends::default(), length: 0, row: 0, start: 0 };
        let mut table = Self { slots: vec![empty; (names.len() * 4).next_power_of_two()], bytes: Vec::new() };
        for (name, row) in names {
            let ends = Ends::of(&name);
            let mut place = ends.hash(&name) & (table.slots.len() - 1);
            while table.slots[place].length > 0 {
                place = (place + 1) & (table.slots.len() - 1);
            }
            table.slots[place] = Slot { ends, length: name.len() as u32, row, start: table.bytes.len() as u32 };
            table.bytes.extend_from_slice(&name);
        }
        table
    }

    /// The row of a name in any case.
    #[inline(always)]
    fn find(&self, name: &[u8]) -> Option<u32> {
        let ends = Ends::of(name);
        let hash = ends.hash(name);
        let slot = self.slots.get(hash & (self.slots.len() - 1))?;
        if slot.length == 0 {
            return None;
        }
        // Nearly all clients send small letters.
        let equal = slot.ends == ends && slot.length as usize == name.len() && (name.len() <= 16 || *name == *self.name(slot));
        if equal { Some(slot.row) } else { self.find_any_case(name, hash) }
    }

    #[inline]
    fn name(&self, slot: &Slot) -> &[u8] {
        &self.bytes[slot.start as usize..][..slot.length as usize]
    }

    /// The same for a name that is not at its own place, or has capitals.
    #[inline(never)]
    fn find_any_case(&self, name: &[u8], hash: usize) -> Option<u32> {
        let mut place = hash & (self.slots.len() - 1);
        loop {
            let slot = self.slots.get(place)?;
            if slot.length == 0 {
                return None;
            }
            if name.eq_ignore_ascii_case(self.name(slot)) {
                return Some(slot.row);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_no_others() {
        let names: Vec<Vec<u8>> = (1..40).flat_map(|length| [vec![b'a'; length], vec![b'-'; length]]).collect();
        let table = Names::new(names.iter().cloned().zip(0..).collect());
        for (name, row) in names.iter().zip(0..) {
            assert_eq!(table.find(name), Some(row));
            assert_eq!(table.find(&name.to_ascii_uppercase()), Some(row));
            for place in 0..name.len() {
                let mut other = name.clone();
                // The hash is the same.
                other[place] = b'\r';
                assert_eq!(table.find(&other), None);
            }
        }
        assert_eq!((table.find(b""), table.find(&[b'a'; 40]), Names::new(Vec::new()).find(b"a")), (None, None, None));
    }

    #[test]
    fn a_host_has_no_port_and_no_dot_at_its_end() {
        for (host, expected) in [
            ("example.com", "example.com"),
            ("example.com:80", "example.com"),
            ("example.com:", "example.com"),
            ("example.com.", "example.com"),
            ("example.com.:8080", "example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("h1", "h1"),
            ("80", "80"),
            (":80", ""),
            ("", ""),
            ("a:b", "a:b"),
            ("[::1]:80", "[::1]"),
        ] {
            assert_eq!(bare(host.as_bytes()), expected.as_bytes(), "{host}");
        }
    }

    #[test]
    fn a_pattern_that_no_host_can_match_is_an_error() {
        for pattern in [
            "a:80",
            "*.",
            "**",
            "a.*",
            "*a",
            "*.*.a",
            ".a",
            "*..a",
            "a b",
            "a/b",
            "~a",
            "[::1",
            "[::1]:80",
            "[x]",
            "\u{e9}.com",
            ".",
            "a..",
        ] {
            assert!(HostPattern::parse(pattern).is_err(), "{pattern}");
        }
        assert!(HostPattern::parse(&"a".repeat(255)).is_ok());
        assert!(HostPattern::parse(&"a".repeat(256)).is_err());
        assert_eq!(HostPattern::parse("*.Example.COM."), Ok(HostPattern::Below(b".example.com".to_vec())));
        assert_eq!(HostPattern::parse("[0:0::1]"), HostPattern::parse("[::1]"));
    }
}
