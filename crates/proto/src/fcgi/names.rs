//! Recognises the names that most requests carry, of fields and of variables, with one or two table look-ups.

use oribi_message::{KnownField, KnownVariable};

/// The field or variable of a well-known name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Field(KnownField),
    Variable(KnownVariable),
}

/// The first and the last eight bytes of a name. They overlap if the name has fewer than sixteen bytes; zeros follow a name of
/// fewer than eight. Together with the length they distinguish all known names from one another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    first: u64,
    last: u64,
    length: usize,
}

impl Key {
    #[inline]
    const fn of(name: &[u8]) -> Self {
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            return Self { first: u64::from_le_bytes(*first), last: u64::from_le_bytes(*last), length: name.len() };
        }
        let (mut bytes, mut index) = ([0; 8], 0);
        while index < name.len() {
            bytes[index] = name[index];
            index += 1;
        }
        Self { first: u64::from_le_bytes(bytes), last: 0, length: name.len() }
    }

    #[inline]
    const fn slot(self, multiplier: u64) -> usize {
        let all = self.first.wrapping_add(self.last.rotate_left(29)).wrapping_add(self.length as u64);
        (all.wrapping_mul(multiplier) >> (64 - SLOT_BITS)) as usize
    }
}

/// There are about ten times as many slots as names, so that a multiplier that separates the names is found quickly.
const SLOT_BITS: u32 = 10;
const SLOTS: usize = 1 << SLOT_BITS;
const EMPTY: u8 = u8::MAX;
const FIELDS: usize = KnownField::ALL.len();
const NAMES: usize = FIELDS + KnownVariable::ALL.len();

#[derive(Clone, Copy)]
struct Name {
    key: Key,
    text: &'static [u8],
    known: Known,
}

struct Table {
    multiplier: u64,
    slots: [u8; SLOTS],
    names: [Name; NAMES],
}

/// Each name in a slot of its own, so that one look-up is enough.
static TABLE: Table = build();

const fn build() -> Table {
    const { assert!(NAMES < EMPTY as usize) };
    let first = describe(Known::Field(KnownField::ALL[0]));
    let mut names = [first; NAMES];
    let mut index = 1;
    while index < NAMES {
        names[index] = describe(if index < FIELDS {
            Known::Field(KnownField::ALL[index])
        } else {
            Known::Variable(KnownVariable::ALL[index - FIELDS])
        });
        index += 1;
    }
    // The first multiplier of a fixed series that separates the names.
    let mut multiplier = 0x9e37_79b9_7f4a_7c15;
    loop {
        multiplier = u64::wrapping_add(u64::wrapping_mul(multiplier, 6_364_136_223_846_793_005), 1_442_695_040_888_963_407);
        if let Some(slots) = place(&names, multiplier) {
            return Table { multiplier, slots, names };
        }
    }
}

const fn describe(known: Known) -> Name {
    let text = match known {
        Known::Field(field) => field.cgi_name().as_bytes(),
        Known::Variable(variable) => variable.name().as_bytes(),
    };
    Name { key: Key::of(text), text, known }
}

const fn place(names: &[Name; NAMES], multiplier: u64) -> Option<[u8; SLOTS]> {
    let mut slots = [EMPTY; SLOTS];
    let mut index = 0;
    while index < NAMES {
        let slot = names[index].key.slot(multiplier);
        if slots[slot] != EMPTY {
            return None;
        }
        slots[slot] = index as u8;
        index += 1;
    }
    Some(slots)
}

/// Returns the meaning of a name in the usual spelling; other spellings of a field name are not recognised here.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<Known> {
    let key = Key::of(name);
    let known = TABLE.names.get(usize::from(TABLE.slots[key.slot(TABLE.multiplier)]))?;
    if known.key != key {
        return None;
    }
    if name.len() > 16 && !has_middle(name, known.text) {
        return None;
    }
    Some(known.known)
}

/// Whether the bytes between the first and the last eight are the same in both names, which are equally long.
#[inline]
fn has_middle(name: &[u8], known: &[u8]) -> bool {
    match name.len() {
        // Eight bytes, which overlap the last eight.
        17..=24 => name[8..].first_chunk::<8>() == known[8..].first_chunk(),
        length => name[8..length - 8] == known[8..length - 8],
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, find};
    use oribi_message::{KnownField, KnownVariable};

    #[test]
    fn every_known_name_is_found() {
        for &field in KnownField::ALL {
            assert_eq!(find(field.cgi_name().as_bytes()), Some(Known::Field(field)));
        }
        for &variable in KnownVariable::ALL {
            assert_eq!(find(variable.name().as_bytes()), Some(Known::Variable(variable)));
        }
    }

    #[test]
    fn no_other_name_is() {
        let fields = KnownField::ALL.iter().map(|field| field.cgi_name());
        for name in fields.chain(KnownVariable::ALL.iter().map(|variable| variable.name())) {
            let bytes = name.as_bytes();
            for place in 0..bytes.len() {
                for byte in 0..=255 {
                    let mut other = bytes.to_vec();
                    other[place] = byte;
                    assert_eq!(find(&other).is_some(), other == bytes || is_known(&other), "{other:?}");
                }
                let shorter = [&bytes[..place], &bytes[place + 1..]].concat();
                let longer = [&bytes[..place], &bytes[place..=place], &bytes[place..]].concat();
                assert!(find(&shorter).is_none() || is_known(&shorter), "{shorter:?}");
                assert!(find(&longer).is_none() || is_known(&longer), "{longer:?}");
            }
            assert_eq!(find(&[bytes, &[0]].concat()), None);
        }
        assert_eq!(find(b""), None);
    }

    fn is_known(name: &[u8]) -> bool {
        let field = KnownField::ALL.iter().any(|field| field.cgi_name().as_bytes() == name);
        field || KnownVariable::lookup(name).is_some()
    }
}
