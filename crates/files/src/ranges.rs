//! The Range field (RFC 9110, section 14.2), with limits that make it harmless: the response is never more than the whole
//! representation and a line for each part.

use oribi_message::list::members;

/// The most ranges of one request; a client that asks for more gets the whole file. Players and document viewers ask for a few
/// at a time.
pub const MOST_RANGES: usize = 32;

/// A part of a representation: at least one byte, within the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

impl ByteRange {
    /// The number of bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The result of parsing a Range field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The field is invalid or asks for too much, and is ignored.
    Whole,
    /// One part.
    One(ByteRange),
    /// Several parts that do not overlap, in the order of the request or, if some overlapped, sorted.
    Several(Vec<ByteRange>),
    /// All ranges lie after the end.
    Nothing,
}

/// Parses the value of a Range field for a representation of `size` bytes.
#[must_use]
pub fn read(value: &[u8], size: u64) -> Wanted {
    let Some(set) = strip_unit(value) else { return Wanted::Whole };
    let mut ranges: Vec<ByteRange> = Vec::new();
    let mut count = 0;
    for element in members(set) {
        count += 1;
        if count > MOST_RANGES {
            return Wanted::Whole;
        }
        match Spec::read(element) {
            None => return Wanted::Whole,
            // An empty file has no bytes that a Content-Range could name.
            Some(Spec::Last(count)) if size == 0 && count > 0 => return Wanted::Whole,
            Some(spec) => ranges.extend(spec.within(size)),
        }
    }
    if count == 0 {
        return Wanted::Whole;
    }
    if overlap(&ranges) {
        ranges = joined(ranges);
    }
    match ranges[..] {
        [] => Wanted::Nothing,
        [range] => Wanted::One(range),
        _ => Wanted::Several(ranges),
    }
}

/// The only existing unit, in any case (section 14.1).
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One element of the range set.
#[derive(Clone, Copy)]
enum Spec {
    From(u64),
    FromTo(u64, u64),
    Last(u64),
}

impl Spec {
    fn read(element: &[u8]) -> Option<Self> {
        let dash = element.iter().position(|byte| *byte == b'-')?;
        match (&element[..dash], &element[dash + 1..]) {
            (b"", last) => Some(Self::Last(number(last)?)),
            (first, b"") => Some(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::FromTo(first, last))
            }
        }
    }

    fn within(self, size: u64) -> Option<ByteRange> {
        let (start, end) = match self {
            Self::From(first) => (first, size),
            Self::FromTo(first, last) => (first, last.saturating_add(1).min(size)),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (start < end).then_some(ByteRange { start, end })
    }
}

/// Parses a number of any length; one that does not fit 64 bits is beyond the end of any file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

fn overlap(ranges: &[ByteRange]) -> bool {
    ranges
        .iter()
        .enumerate()
        .any(|(index, one)| ranges[index + 1..].iter().any(|other| one.start < other.end && other.start < one.end))
}

/// Sorts the ranges and merges those that overlap or touch (section 15.3.7.2 allows it).
fn joined(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range((first, last): (u64, u64)) -> ByteRange {
        ByteRange { start: first, end: last + 1 }
    }

    #[test]
    fn one_part() {
        // The examples of RFC 9110, section 14.1.2, for 10,000 bytes, and similar ones.
        for (value, first, last) in [
            ("bytes=0-499", 0, 499),
            ("bytes=500-999", 500, 999),
            ("bytes=-500", 9500, 9999),
            ("bytes=9500-", 9500, 9999),
            ("bytes=0-0", 0, 0),
            ("bytes=-1", 9999, 9999),
            ("bytes=9999-9999", 9999, 9999),
            ("bytes=9999-", 9999, 9999),
            ("bytes=0-", 0, 9999),
            ("bytes=0-99999", 0, 9999),
            ("bytes=-10001", 0, 9999),
            ("bytes=-99999999999999999999999", 0, 9999),
            ("bytes=5-99999999999999999999999", 5, 9999),
            ("bytes=0-18446744073709551615", 0, 9999),
            ("Bytes=1-2", 1, 2),
            ("bytes= 1-2 ", 1, 2),
            ("bytes=,,1-2,", 1, 2),
            ("bytes=000000000000000000000001-2", 1, 2),
            ("bytes=1-2, 10000-10001", 1, 2),
            ("bytes=0-5,3-9", 0, 9),
            ("bytes=0-,0-,0-", 0, 9999),
            ("bytes=500-600,601-999,600-601", 500, 999),
        ] {
            assert_eq!(read(value.as_bytes(), 10_000), Wanted::One(range((first, last))), "{value}");
        }
    }

    #[test]
    fn several_parts() {
        for (value, expected) in [
            ("bytes=0-0,-1", &[(0, 0), (9999, 9999)][..]),
            ("bytes= 0-999, 4500-5499, -1000", &[(0, 999), (4500, 5499), (9000, 9999)]),
            ("bytes=500-600,601-999", &[(500, 600), (601, 999)]),
            ("bytes=-1,0-0", &[(9999, 9999), (0, 0)]),
            ("bytes=9-9,5-7,0-1,6-8", &[(0, 1), (5, 9)]),
            ("bytes=0-0,20000-,5-5", &[(0, 0), (5, 5)]),
        ] {
            let expected = expected.iter().copied().map(range).collect();
            assert_eq!(read(value.as_bytes(), 10_000), Wanted::Several(expected), "{value}");
        }
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=1-2-3",
            "bytes=5-4",
            "bytes=1-2,5-4",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes =1-2",
            "items=0-1",
            "bytes:0-1",
            "bytes=0x1-2",
            "bytes=--1",
            "bytes=0-0,junk",
        ] {
            assert_eq!(read(value.as_bytes(), 10_000), Wanted::Whole, "{value}");
        }
    }

    #[test]
    fn what_lies_behind_the_end_cannot_be_had() {
        for value in ["bytes=10000-", "bytes=10000-10001", "bytes=-0", "bytes=99999999999999999999-", "bytes=-0,10000-"] {
            assert_eq!(read(value.as_bytes(), 10_000), Wanted::Nothing, "{value}");
        }
        assert_eq!(read(b"bytes=0-", 0), Wanted::Nothing);
        assert_eq!(read(b"bytes=-0", 0), Wanted::Nothing);
        assert_eq!(read(b"bytes=-5", 0), Wanted::Whole);
    }

    #[test]
    fn many_and_overlapping_parts_are_harmless() {
        let many = |count: usize, spec: &str| format!("bytes={}", vec![spec; count].join(","));
        assert_eq!(read(many(MOST_RANGES, "0-").as_bytes(), 10_000), Wanted::One(range((0, 9999))));
        assert_eq!(read(many(MOST_RANGES + 1, "0-").as_bytes(), 10_000), Wanted::Whole);
        let steps: Vec<String> = (0..MOST_RANGES).map(|step| format!("{step}-")).collect();
        assert_eq!(read(format!("bytes={}", steps.join(",")).as_bytes(), 10_000), Wanted::One(range((0, 9999))));
    }
}
