//! Preconditions, in their order of precedence (RFC 9110, section 13.2.2).

use crate::date;
use crate::ranges::{self, ByteRange, Wanted};
use crate::selection::Selection;
use oribi_message::KnownField::{self, IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince, Range};
use oribi_message::list::trim;

/// The validators of a representation: they distinguish its current state from all others.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity-tag with its quotes; empty without any.
    pub etag: &'a [u8],
    /// The time of the last modification, in seconds since the Unix epoch; `None` if unknown.
    pub modified: Option<u64>,
}

/// The result of a request for a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it: 200.
    Whole,
    /// A part: 206.
    Part(ByteRange),
    /// Several parts: 206 with `multipart/byteranges`.
    Parts(Vec<ByteRange>),
    /// The client has it: 304.
    NotModified,
    /// The client expects another representation: 412.
    PreconditionFailed,
    /// All ranges lie after the end: 416.
    Unsatisfiable,
}

/// Decides the result of a GET, or with `get` false of a HEAD, for a representation of `size` bytes. `now` is called only if
/// the result depends on it.
pub fn decide(
    get: bool,
    selection: &Selection<'_>,
    validators: &Validators<'_>,
    size: u64,
    now: impl FnOnce() -> u64,
) -> Outcome {
    if selection.has(IfMatch) {
        if !any_matches(selection, IfMatch, validators.etag, strong) {
            return Outcome::PreconditionFailed;
        }
    } else if let (Some(since), Some(modified)) = (date_of(selection, IfUnmodifiedSince), validators.modified)
        && modified > since
    {
        return Outcome::PreconditionFailed;
    }
    if selection.has(IfNoneMatch) {
        if any_matches(selection, IfNoneMatch, validators.etag, weak) {
            return Outcome::NotModified;
        }
    } else if let (Some(since), Some(modified)) = (date_of(selection, IfModifiedSince), validators.modified)
        && modified <= since
    {
        return Outcome::NotModified;
    }
    // A Range of any other method is ignored (section 14.2).
    let Some(range) = selection.single(Range).filter(|_| get) else { return Outcome::Whole };
    if selection.has(IfRange) && !selection.single(IfRange).is_some_and(|value| is_current(value, validators, now)) {
        return Outcome::Whole;
    }
    match ranges::read(range, size) {
        Wanted::Whole => Outcome::Whole,
        Wanted::One(range) => Outcome::Part(range),
        Wanted::Several(ranges) => Outcome::Parts(ranges),
        Wanted::Nothing => Outcome::Unsatisfiable,
    }
}

fn date_of(selection: &Selection<'_>, field: KnownField) -> Option<u64> {
    selection.single(field).and_then(date::read)
}

/// Evaluates If-Range (section 13.1.5): only a strong validator proves that the part fits the client's copy.
fn is_current(value: &[u8], validators: &Validators<'_>, now: impl FnOnce() -> u64) -> bool {
    let value = trim(value);
    if value.ends_with(b"\"") {
        return strong(value, validators.etag);
    }
    // A date is a strong validator only if the file cannot have changed again within that second (section 8.8.2.2).
    date::read(value).is_some_and(|date| validators.modified == Some(date) && date < now())
}

/// The strong comparison (section 8.8.3.2).
fn strong(one: &[u8], other: &[u8]) -> bool {
    one == other && one.starts_with(b"\"")
}

/// The weak comparison.
fn weak(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag: &'_ [u8]| tag.strip_prefix(b"W/").map_or(0, |_| 2);
    !other.is_empty() && one[opaque(one)..] == other[opaque(other)..]
}

/// Whether one of the entity-tags in a list equals `etag`, or the list is `*`, which matches anything that exists.
fn any_matches(selection: &Selection<'_>, field: KnownField, etag: &[u8], equal: fn(&[u8], &[u8]) -> bool) -> bool {
    selection.lines(field).any(|line| trim(line) == b"*" || Tags(line).any(|tag| equal(tag, etag)))
}

/// The entity-tags of a list. Commas may occur within their quotes, so the list is read tag by tag; anything else ends it.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
        let prefix = if rest.starts_with(b"W/") { 2 } else { 0 };
        let inside = rest.get(prefix..)?.strip_prefix(b"\"")?;
        let length = inside.iter().position(|byte| *byte == b'"')?;
        let (tag, behind) = rest.split_at(prefix + length + 2);
        self.0 = behind;
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second of the examples in RFC 9110. The representation was modified in it.
    const MODIFIED: &str = "Sat, 29 Oct 1994 19:43:31 GMT";
    const BEFORE: &str = "Sat, 29 Oct 1994 19:43:30 GMT";
    const AFTER: &str = "Sat, 29 Oct 1994 19:43:32 GMT";

    fn outcome_of(get: bool, fields: &[(&str, &str)], age: u64) -> Outcome {
        let fields = fields.iter().map(|(name, value)| {
            (KnownField::lookup(name.as_bytes()).expect("the tests name fields that are known"), value.as_bytes())
        });
        let modified = date::read(MODIFIED.as_bytes());
        let validators = Validators { etag: b"\"xyzzy\"", modified };
        decide(get, &Selection::of(fields), &validators, 1000, || modified.unwrap_or_default() + age)
    }

    fn part(first: u64, last: u64) -> Outcome {
        Outcome::Part(ByteRange { start: first, end: last + 1 })
    }

    #[test]
    fn every_condition_by_itself() {
        use Outcome::{NotModified, PreconditionFailed, Whole};
        for (name, value, expected) in [
            ("if-match", "\"xyzzy\"", Whole),
            ("if-match", "\"xyzzy\", \"r2d2xxxx\", \"c3piozzzz\"", Whole),
            ("if-match", "\"r2d2xxxx\",\"c3piozzzz\" , \"xyzzy\"", Whole),
            ("if-match", "*", Whole),
            ("if-match", "\"other\"", PreconditionFailed),
            ("if-match", "W/\"xyzzy\"", PreconditionFailed),
            ("if-match", "xyzzy", PreconditionFailed),
            ("if-match", "", PreconditionFailed),
            ("if-match", "\"a,\"xyzzy\"", PreconditionFailed),
            ("if-none-match", "\"xyzzy\"", NotModified),
            ("if-none-match", "W/\"xyzzy\"", NotModified),
            ("if-none-match", "\"a\", W/\"xyzzy\" ,\"b\"", NotModified),
            ("if-none-match", "\"a,b\",\"xyzzy\"", NotModified),
            ("if-none-match", ",, \"xyzzy\"", NotModified),
            ("if-none-match", " * ", NotModified),
            ("if-none-match", "\"other\"", Whole),
            ("if-none-match", "\"xyzzy", Whole),
            ("if-none-match", "w/\"xyzzy\"", Whole),
            ("if-none-match", "", Whole),
            ("if-modified-since", MODIFIED, NotModified),
            ("if-modified-since", AFTER, NotModified),
            ("if-modified-since", BEFORE, Whole),
            ("if-modified-since", "Saturday, 29-Oct-94 19:43:31 GMT", NotModified),
            ("if-modified-since", "Sat Oct 29 19:43:31 1994", NotModified),
            ("if-modified-since", "yesterday", Whole),
            ("if-unmodified-since", MODIFIED, Whole),
            ("if-unmodified-since", AFTER, Whole),
            ("if-unmodified-since", BEFORE, PreconditionFailed),
            ("if-unmodified-since", "0", Whole),
            ("if-range", "\"xyzzy\"", Whole),
            ("range", "bytes=0-499", part(0, 499)),
        ] {
            assert_eq!(outcome_of(true, &[(name, value)], 10), expected, "{name}: {value}");
        }
    }

    #[test]
    fn precedence() {
        use Outcome::{NotModified, PreconditionFailed, Whole};
        let (same, other) = ("\"xyzzy\"", "\"other\"");
        for (fields, expected) in [
            // The tag overrides the date.
            (&[("if-match", same), ("if-unmodified-since", BEFORE)][..], Whole),
            (&[("if-match", other), ("if-unmodified-since", AFTER)], PreconditionFailed),
            (&[("if-none-match", other), ("if-modified-since", AFTER)], Whole),
            (&[("if-none-match", same), ("if-modified-since", BEFORE)], NotModified),
            // If-Match comes before If-None-Match.
            (&[("if-none-match", same), ("if-match", other)], PreconditionFailed),
            (&[("if-match", same), ("if-none-match", same)], NotModified),
            (&[("if-unmodified-since", BEFORE), ("if-none-match", same)], PreconditionFailed),
            (&[("if-match", same), ("if-modified-since", MODIFIED)], NotModified),
            // Range comes last.
            (&[("range", "bytes=0-0"), ("if-none-match", same)], NotModified),
            (&[("range", "bytes=0-0"), ("if-match", other)], PreconditionFailed),
            (&[("range", "bytes=9999-"), ("if-none-match", same)], NotModified),
            (&[("range", "bytes=9999-"), ("if-range", other)], Whole),
            (&[("range", "bytes=9999-"), ("if-range", same)], Outcome::Unsatisfiable),
            (&[("range", "bytes=0-0"), ("if-match", same), ("if-range", same)], part(0, 0)),
            // Several lines of a list are joined; a field that is not a list and occurs twice is ignored.
            (&[("if-none-match", other), ("if-none-match", same)], NotModified),
            (&[("if-match", other), ("if-match", same)], Whole),
            (&[("if-modified-since", AFTER), ("if-modified-since", AFTER)], Whole),
            (&[("range", "bytes=0-0"), ("range", "bytes=1-1")], Whole),
            (&[("range", "bytes=0-0"), ("if-range", same), ("if-range", same)], Whole),
        ] {
            assert_eq!(outcome_of(true, fields, 10), expected, "{fields:?}");
        }
    }

    #[test]
    fn a_range_is_given_only_of_what_the_client_has() {
        for (value, age, is_current) in [
            ("\"xyzzy\"", 0, true),
            (" \"xyzzy\" ", 0, true),
            ("W/\"xyzzy\"", 10, false),
            ("\"other\"", 10, false),
            ("\"xyzzy\", \"other\"", 10, false),
            ("*", 10, false),
            (MODIFIED, 1, true),
            (MODIFIED, 0, false),
            (AFTER, 10, false),
            (BEFORE, 10, false),
            ("soon", 10, false),
        ] {
            let outcome = outcome_of(true, &[("range", "bytes=-1"), ("if-range", value)], age);
            assert_eq!(outcome, if is_current { part(999, 999) } else { Outcome::Whole }, "{value}");
        }
    }

    #[test]
    fn head_knows_conditions_and_no_ranges() {
        assert_eq!(outcome_of(false, &[("if-none-match", "*")], 10), Outcome::NotModified);
        assert_eq!(outcome_of(false, &[("range", "bytes=0-0")], 10), Outcome::Whole);
        assert_eq!(outcome_of(false, &[("range", "bytes=5000-")], 10), Outcome::Whole);
    }

    #[test]
    fn without_validators_only_the_star_matches() {
        let none = Validators { etag: b"", modified: None };
        let outcome = |name, value: &'static str| {
            let selection = Selection::of([(name, value.as_bytes())].into_iter());
            decide(true, &selection, &none, 10, || 0)
        };
        assert_eq!(outcome(IfNoneMatch, "\"\", W/\"\""), Outcome::Whole);
        assert_eq!(outcome(IfMatch, "\"\""), Outcome::PreconditionFailed);
        assert_eq!(outcome(IfMatch, "*"), Outcome::Whole);
        assert_eq!(outcome(IfModifiedSince, MODIFIED), Outcome::Whole);
        assert_eq!(outcome(IfUnmodifiedSince, BEFORE), Outcome::Whole);
    }
}
