//! The static table of HPACK (RFC 7541, appendix A).

use super::super::error::Malformed;
use super::dynamic_table::OVERHEAD;
use super::kind::Kind;
use oribi_message::{KnownField, Span};

/// An entry: name and value.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name, and the value after it.
    pub(super) text: &'static [u8],
    /// The length of the name.
    pub(super) name: usize,
    pub(super) kind: Kind,
    /// The place of its value in [`PROLOGUE`]; `None` if the value is not there.
    pub(super) ready: Option<Span>,
    /// The size that the entry counts in a list of fields.
    pub(super) size: usize,
}

/// The beginning of every output: the name that `:authority` gets as a field, and the most frequent values of pseudo-fields.
/// A field of the static table with such a value is not copied.
pub(in crate::h2) const PROLOGUE: &[u8; 27] = b"hostGET/index.htmlPOSThttps";

/// The place of a value in the prologue.
const fn ready(name: &str, value: &str) -> Option<Span> {
    let value = value.as_bytes();
    if name.as_bytes()[0] != b':' || value.is_empty() {
        return None;
    }
    let mut start = 1;
    while start + value.len() <= PROLOGUE.len() {
        let mut place = 0;
        while place < value.len() && PROLOGUE[start + place] == value[place] {
            place += 1;
        }
        if place == value.len() {
            return Some(Span { start: start as u32, end: (start + value.len()) as u32 });
        }
        start += 1;
    }
    None
}

impl Entry {
    pub(super) fn name(&self) -> &'static [u8] {
        &self.text[..self.name]
    }
}

macro_rules! entries {
    ($($name:literal $value:literal,)*) => {
        /// The entries; the first has index 1.
        pub(super) static ENTRIES: [Entry; COUNT] =
            [$(Entry {
                text: concat!($name, $value).as_bytes(),
                name: $name.len(),
                kind: kind($name),
                ready: ready($name, $value),
                size: OVERHEAD + $name.len() + $value.len(),
            },)*];
        const NAMES: [&str; COUNT] = [$($name,)*];
    };
}

/// The number of entries; the indexes of the dynamic table follow.
pub(super) const COUNT: usize = 61;

entries! {
    ":authority" "",
    ":method" "GET",
    ":method" "POST",
    ":path" "/",
    ":path" "/index.html",
    ":scheme" "http",
    ":scheme" "https",
    ":status" "200",
    ":status" "204",
    ":status" "206",
    ":status" "304",
    ":status" "400",
    ":status" "404",
    ":status" "500",
    "accept-charset" "",
    "accept-encoding" "gzip, deflate",
    "accept-language" "",
    "accept-ranges" "",
    "accept" "",
    "access-control-allow-origin" "",
    "age" "",
    "allow" "",
    "authorization" "",
    "cache-control" "",
    "content-disposition" "",
    "content-encoding" "",
    "content-language" "",
    "content-length" "",
    "content-location" "",
    "content-range" "",
    "content-type" "",
    "cookie" "",
    "date" "",
    "etag" "",
    "expect" "",
    "expires" "",
    "from" "",
    "host" "",
    "if-match" "",
    "if-modified-since" "",
    "if-none-match" "",
    "if-range" "",
    "if-unmodified-since" "",
    "last-modified" "",
    "link" "",
    "location" "",
    "max-forwards" "",
    "proxy-authenticate" "",
    "proxy-authorization" "",
    "range" "",
    "referer" "",
    "refresh" "",
    "retry-after" "",
    "server" "",
    "set-cookie" "",
    "strict-transport-security" "",
    "transfer-encoding" "",
    "user-agent" "",
    "vary" "",
    "via" "",
    "www-authenticate" "",
}

const fn kind(name: &str) -> Kind {
    match name.as_bytes() {
        // This entry has no value.
        b":authority" => Kind::Authority { valid: false },
        b":method" => Kind::Method,
        b":path" => Kind::Path,
        b":scheme" => Kind::Scheme,
        // No request has this pseudo-field.
        b":status" => Kind::Malformed(Malformed::PseudoUnknown),
        _ => Kind::of_known(known(name)),
    }
}

const fn known(name: &str) -> Option<KnownField> {
    let mut number = 0;
    while number < KnownField::ALL.len() {
        if equal(name.as_bytes(), KnownField::ALL[number].name().as_bytes()) {
            return Some(KnownField::ALL[number]);
        }
        number += 1;
    }
    None
}

const fn equal(one: &[u8], other: &[u8]) -> bool {
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
}

/// The index of each well-known field; 0 if the table does not have it.
static INDEXES: [u8; KnownField::ALL.len()] = {
    let mut indexes = [0; KnownField::ALL.len()];
    let mut index = COUNT;
    while index > 0 {
        if let Some(known) = known(NAMES[index - 1]) {
            indexes[known as usize] = index as u8;
        }
        index -= 1;
    }
    indexes
};

/// The index of a name in any case, or 0. `known` is the well-known field of that name.
#[inline]
pub(super) fn index(name: &[u8], known: Option<KnownField>) -> usize {
    match known {
        Some(known) => usize::from(INDEXES[known as usize]),
        None => other_index(name),
    }
}

/// The index of a name that belongs to no [`KnownField`], or 0.
fn other_index(name: &[u8]) -> usize {
    let index = match (name.len(), name.first().map(|byte| byte | 0x20)) {
        (13, Some(b'a')) => 18,
        (27, Some(b'a')) => 20,
        (3, Some(b'a')) => 21,
        (5, Some(b'a')) => 22,
        (4, Some(b'e')) => 34,
        (7, Some(b'e')) => 36,
        (13, Some(b'l')) => 44,
        (4, Some(b'l')) => 45,
        (8, Some(b'l')) => 46,
        (18, Some(b'p')) => 48,
        (7, Some(b'r')) => 52,
        (11, Some(b'r')) => 53,
        (6, Some(b's')) => 54,
        (10, Some(b's')) => 55,
        (25, Some(b's')) => 56,
        (4, Some(b'v')) => 59,
        (16, Some(b'w')) => 61,
        _ => return 0,
    };
    if ENTRIES[index - 1].name().eq_ignore_ascii_case(name) { index } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_first_index() {
        for (place, entry) in ENTRIES.iter().enumerate() {
            let name = entry.name();
            let first = ENTRIES.iter().position(|other| other.name() == name).expect("it is there");
            let found = index(name, KnownField::lookup(name));
            assert_eq!(found, if name.starts_with(b":") { 0 } else { first + 1 }, "{}", name.escape_ascii());
            assert_eq!(index(&name.to_ascii_uppercase(), KnownField::lookup(name)), found);
            let value = &entry.text[entry.name..];
            let is_pseudo = matches!(entry.kind, Kind::Malformed(_) | Kind::Authority { .. });
            assert!(is_pseudo || entry.kind == Kind::of(name, value), "{place}");
            assert!(entry.ready.is_none_or(|ready| ready.of(PROLOGUE) == value), "{place}");
            assert_eq!(entry.ready.is_some(), (1..7).contains(&place), "{place}");
            assert_eq!(entry.size, 32 + entry.text.len(), "{place}");
        }
        assert_eq!(index(b"x-y", None), 0);
        assert_eq!(index(b"", None), 0);
    }
}
