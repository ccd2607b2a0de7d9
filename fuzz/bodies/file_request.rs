//! Properties of all requests for a file that a client can send.

use oribi_files::coding::{Choice, choose};
use oribi_files::conditions::{Outcome, Validators, decide};
use oribi_files::ranges::{ByteRange, MOST_RANGES, Wanted, read};
use oribi_files::selection::Selection;
use oribi_files::target;
use oribi_message::KnownField;
use std::path::{Component, Path};

const ETAG: &[u8] = b"\"xyzzy\"";
/// Sat, 29 Oct 1994 19:43:31 GMT
const MODIFIED: u64 = 783_459_811;

/// Checks a request for a file. The first byte of `data` chooses the size of the file, and the second its variants. The rest
/// consists of lines: a letter that stands for a field (or `P` for a path), and the value. Returns the number of parts that are
/// sent.
pub fn check(data: &[u8]) -> usize {
    let [size, variants, lines @ ..] = data else { return 0 };
    let size = u64::from(*size) * u64::from(*size) / 16;
    let mut fields: Vec<(KnownField, &[u8])> = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let [letter, value @ ..] = line else { continue };
        let field = match letter {
            b'M' => KnownField::IfMatch,
            b'N' => KnownField::IfNoneMatch,
            b'S' => KnownField::IfModifiedSince,
            b'U' => KnownField::IfUnmodifiedSince,
            b'I' => KnownField::IfRange,
            b'R' => KnownField::Range,
            b'E' => KnownField::AcceptEncoding,
            b'P' => {
                check_path(value);
                continue;
            }
            _ => continue,
        };
        fields.push((field, value));
    }
    let selection = Selection::of(fields.iter().copied());
    let has = |field| fields.iter().any(|(other, _)| *other == field);

    let is_there = |coding| *variants & 1 << coding as u8 != 0;
    match choose(&selection, is_there) {
        Choice::Coded(coding) => assert!(is_there(coding) && has(KnownField::AcceptEncoding)),
        Choice::None => {
            assert!(fields.iter().any(|(field, value)| *field == KnownField::AcceptEncoding && value.contains(&b'0')));
        }
        Choice::Identity => {}
    }
    if !has(KnownField::AcceptEncoding) {
        assert_eq!(choose(&selection, |_| true), Choice::Identity);
    }

    for (field, value) in &fields {
        if *field == KnownField::Range {
            check_range(value, size);
        }
    }
    let validators = Validators { etag: ETAG, modified: Some(MODIFIED) };
    let outcome = |get| decide(get, &selection, &validators, size, || MODIFIED + 10);
    match (outcome(true), outcome(false)) {
        (whole @ (Outcome::Whole | Outcome::NotModified | Outcome::PreconditionFailed), head) => {
            assert_eq!(whole, head, "without a part, HEAD says what GET does");
            match whole {
                Outcome::NotModified => assert!(has(KnownField::IfNoneMatch) || has(KnownField::IfModifiedSince)),
                Outcome::PreconditionFailed => assert!(has(KnownField::IfMatch) || has(KnownField::IfUnmodifiedSince)),
                _ => {}
            }
            0
        }
        (part, head) => {
            assert_eq!(head, Outcome::Whole, "HEAD knows no parts");
            assert!(has(KnownField::Range));
            match part {
                Outcome::Part(range) => check_ranges(&[range], size),
                Outcome::Parts(ranges) => check_ranges(&ranges, size),
                _ => 0,
            }
        }
    }
}

fn check_path(path: &[u8]) {
    let Some(decoded) = target::decode(path) else { return };
    assert!(decoded.len() < path.len());
    assert_eq!(decoded.iter().filter(|byte| **byte == b'/').count() + 1, path.iter().filter(|byte| **byte == b'/').count());
    for dotfiles in [false, true] {
        if !target::is_plain(&decoded, dotfiles) {
            continue;
        }
        assert!(target::is_plain(&decoded, true) && !decoded.contains(&0));
        if let Ok(text) = std::str::from_utf8(&decoded) {
            let mut components = Path::new(text).components();
            assert!(components.all(|component| matches!(component, Component::Normal(_))), "{text:?}");
            assert!(!text.contains("//") && !text.starts_with('/') && !text.contains('\\'));
            assert!(dotfiles || !text.split('/').any(|name| name.starts_with('.') && name != ".well-known"), "{text:?}");
        }
    }
}

/// Compares the result for a Range field with that of [`plain_reading`].
fn check_range(value: &[u8], size: u64) {
    let wanted = read(value, size);
    match &wanted {
        Wanted::One(range) => drop(check_ranges(&[*range], size)),
        Wanted::Several(ranges) => {
            assert!(ranges.len() > 1);
            check_ranges(ranges, size);
        }
        Wanted::Whole | Wanted::Nothing => {}
    }
    let expected = plain_reading(value, size);
    match (wanted, expected) {
        (Wanted::Whole, None) => {}
        (Wanted::Nothing, Some(covered)) => assert!(!covered.contains(&true)),
        (Wanted::One(range), Some(covered)) => assert_eq!(cover(&[range], size), covered),
        (Wanted::Several(ranges), Some(covered)) => assert_eq!(cover(&ranges, size), covered),
        (wanted, expected) => panic!("{wanted:?} where {} was expected", if expected.is_some() { "a part" } else { "nothing" }),
    }
}

/// Returns which bytes of the file the field asks for; `None` if the field must be ignored.
fn plain_reading(value: &[u8], size: u64) -> Option<Vec<bool>> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, set) = (text.get(..6)?, text.get(6..)?);
    if !unit.eq_ignore_ascii_case("bytes=") {
        return None;
    }
    let specs: Vec<&str> = set.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty()).collect();
    if specs.is_empty() || specs.len() > MOST_RANGES {
        return None;
    }
    let mut covered = vec![false; size as usize];
    for spec in specs {
        let (first, last) = spec.split_once('-')?;
        let (from, to) = match (first, last) {
            ("", last) => {
                let count = number(last)?;
                if size == 0 && count > 0 {
                    return None;
                }
                (u128::from(size).saturating_sub(count), u128::MAX)
            }
            (first, "") => (number(first)?, u128::MAX),
            (first, last) => (number(first)?, number(last)?),
        };
        // Numbers that do not fit into 64 bits are beyond the end of every file.
        if from.min(u64::MAX.into()) > to.min(u64::MAX.into()) {
            return None;
        }
        for place in from..u128::from(size).min(to.saturating_add(1)) {
            covered[place as usize] = true;
        }
    }
    Some(covered)
}

/// Parses a number. A number that does not fit into a u128 becomes the largest one, because it is larger than any size.
fn number(digits: &str) -> Option<u128> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    Some(if significant.is_empty() { 0 } else { significant.parse().unwrap_or(u128::MAX) })
}

fn cover(ranges: &[ByteRange], size: u64) -> Vec<bool> {
    (0..size).map(|place| ranges.iter().any(|range| (range.start..range.end).contains(&place))).collect()
}

/// Checks that the ranges are in the file and do not overlap. Returns their number.
fn check_ranges(ranges: &[ByteRange], size: u64) -> usize {
    assert!(
        ranges.len() <= MOST_RANGES && ranges.iter().all(|range| range.start < range.end && range.end <= size),
        "{ranges:?}"
    );
    assert!(ranges.iter().map(ByteRange::len).sum::<u64>() <= size, "{ranges:?}");
    ranges.len()
}
