//! Recognises the well-known field names in a head without looking at their bytes one by one.
//!
//! Most fields of most requests are well known. Such a name is found by its first sixteen bytes, loaded as two numbers. A known
//! name is a token, so its bytes need no check either. Every other name takes the slow path.

use super::search;
use oribi_message::KnownField;

/// The first sixteen bytes of a name with its colon, and zeros after the colon.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    low: u64,
    high: u64,
}

impl Key {
    const BYTES: usize = 16;

    /// The slot of a name in any case: only bit 5 differs between the cases of a letter.
    #[inline]
    const fn slot(self, multiplier: u64) -> usize {
        const FOLD: u64 = every(0x20);
        let folded = (self.low | FOLD).wrapping_add((self.high | FOLD).rotate_left(29));
        (folded.wrapping_mul(multiplier) >> (64 - SLOT_BITS)) as usize
    }
}

const SLOT_BITS: u32 = 9;
const SLOTS: usize = 1 << SLOT_BITS;
const EMPTY: u8 = u8::MAX;
const NAMES: usize = KnownField::ALL.len();

#[derive(Clone, Copy)]
struct Name {
    key: Key,
    /// Bit 5 of each letter in the key: the bits in which equal names may differ.
    letters: Key,
    length: usize,
    field: KnownField,
}

struct Table {
    multiplier: u64,
    slots: [u8; SLOTS],
    names: [Name; NAMES],
}

/// Each key in a slot of its own, so that one look-up is enough. Of names with the same key only the first has a slot.
static TABLE: Table = build();

const fn build() -> Table {
    let nothing = Key { low: 0, high: 0 };
    let mut names = [Name { key: nothing, letters: nothing, length: 0, field: KnownField::Accept }; NAMES];
    let mut index = 0;
    while index < NAMES {
        names[index] = describe(KnownField::ALL[index]);
        index += 1;
    }
    // The first multiplier of a fixed series that separates the keys.
    let mut multiplier = 0x9e37_79b9_7f4a_7c15;
    loop {
        multiplier = u64::wrapping_add(u64::wrapping_mul(multiplier, 6_364_136_223_846_793_005), 1_442_695_040_888_963_407);
        if let Some(slots) = place(&names, multiplier) {
            return Table { multiplier, slots, names };
        }
    }
}

const fn describe(field: KnownField) -> Name {
    let name = field.name().as_bytes();
    let (mut key, mut letters) = ([0; Key::BYTES], [0; Key::BYTES]);
    let mut index = 0;
    while index < Key::BYTES && index <= name.len() {
        key[index] = if index < name.len() { name[index] } else { b':' };
        letters[index] = if key[index].is_ascii_alphabetic() { 0x20 } else { 0 };
        index += 1;
    }
    Name { key: halves(key), letters: halves(letters), length: name.len(), field }
}

const fn halves(bytes: [u8; Key::BYTES]) -> Key {
    let number = u128::from_le_bytes(bytes);
    Key { low: number as u64, high: (number >> 64) as u64 }
}

const fn place(names: &[Name; NAMES], multiplier: u64) -> Option<[u8; SLOTS]> {
    let mut slots = [EMPTY; SLOTS];
    let mut index = 0;
    while index < NAMES {
        let key = names[index].key;
        let slot = key.slot(multiplier);
        if slots[slot] == EMPTY {
            slots[slot] = index as u8;
        } else {
            let other = names[slots[slot] as usize].key;
            if key.low != other.low || key.high != other.high {
                return None;
            }
        }
        index += 1;
    }
    Some(slots)
}

const fn every(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Returns the well-known field whose name, followed by a colon, is in `input` from `pos` on, and the length of the name.
/// `None` may also mean that there are too few bytes to load, or that the name shares its first sixteen bytes with another.
#[inline]
pub(super) fn recognise(input: &[u8], pos: usize) -> Option<(usize, KnownField)> {
    let line = input.get(pos..)?;
    let number = match line.first_chunk() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None if line.is_empty() => return None,
        // Also loads bytes before the line, and shifts these bytes out.
        None => u128::from_le_bytes(*input.last_chunk()?) >> (8 * (Key::BYTES - line.len())),
    };
    let length = (search::colons(&number.to_le_bytes()) | 1 << Key::BYTES).trailing_zeros() as usize;
    let kept = &KEPT[length];
    let name = look_up(Key { low: number as u64 & kept.low, high: (number >> 64) as u64 & kept.high })?;
    if name.length >= Key::BYTES {
        let rest = line.get(Key::BYTES..=name.length)?;
        if !matches!(rest, [rest @ .., b':'] if rest.eq_ignore_ascii_case(&name.field.name().as_bytes()[Key::BYTES..])) {
            return None;
        }
    }
    Some((name.length, name.field))
}

/// Returns the well-known field with this name. `None` may also mean that the name shares its first sixteen bytes with
/// another.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<KnownField> {
    let Some(bytes) = name.first_chunk() else {
        let found = look_up(short_key(name))?;
        return Some(found.field);
    };
    let found = look_up(halves(*bytes))?;
    let same = found.field.name().as_bytes().get(Key::BYTES..)?.eq_ignore_ascii_case(&name[Key::BYTES..]);
    same.then_some(found.field)
}

/// The key of a name with fewer than sixteen bytes.
#[inline]
fn short_key(name: &[u8]) -> Key {
    let colon = u64::from(b':') << (8 * (name.len() % 8));
    match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => {
            let last = u64::from_le_bytes(*last);
            // Shifts out the bytes before the second half. Two shifts, because all 64 bits may have to go, and a shift by 64
            // overflows.
            let high = last >> (8 * (15 - name.len())) >> 8;
            Key { low: u64::from_le_bytes(*first), high: high | colon }
        }
        _ => Key { low: name.iter().rev().fold(0, |low, &byte| low << 8 | u64::from(byte)) | colon, high: 0 },
    }
}

#[inline]
fn look_up(key: Key) -> Option<&'static Name> {
    let name = TABLE.names.get(TABLE.slots[key.slot(TABLE.multiplier) % SLOTS] as usize)?;
    (key.low | name.letters.low == name.key.low && key.high | name.letters.high == name.key.high).then_some(name)
}

/// For each position of the first colon, ones for all bytes up to it. If sixteen bytes have no colon, all are kept.
static KEPT: [Key; Key::BYTES + 1] = {
    let mut kept = [Key { low: u64::MAX, high: u64::MAX }; Key::BYTES + 1];
    let mut length = 0;
    while length < Key::BYTES - 1 {
        let ones = (1u128 << (8 * (length + 1))) - 1;
        kept[length] = Key { low: ones as u64, high: (ones >> 64) as u64 };
        length += 1;
    }
    kept
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn every_known_name_is_recognised_in_any_case() {
        for &field in KnownField::ALL {
            for name in [field.name().to_ascii_lowercase(), field.name().to_ascii_uppercase()] {
                let line = format!("{name}: value of the field");
                let found = recognise(line.as_bytes(), 0);
                assert_eq!(recognise(format!("before:{line}").as_bytes(), 7), found);
                // This name shares its first sixteen bytes with another.
                if field != KnownField::AccessControlRequestMethod {
                    assert_eq!(found, Some((name.len(), field)));
                    assert_eq!(find(name.as_bytes()), Some(field));
                }
            }
        }
    }

    #[test]
    fn no_other_name_is() {
        for &field in KnownField::ALL {
            let name = field.name();
            for place in 0..=name.len() {
                for byte in 0..=255 {
                    let mut line = format!("{name}: value of the field").into_bytes();
                    line[place] = byte;
                    for length in [place, name.len(), name.len() + 1] {
                        let found = find(&line[..length]);
                        let is = |known: &&KnownField| known.name().as_bytes().eq_ignore_ascii_case(&line[..length]);
                        let wanted = KnownField::ALL.iter().find(is).copied();
                        assert!(found == wanted || wanted == Some(KnownField::AccessControlRequestMethod), "{line:?}");
                    }
                    if let Some((length, found)) = recognise(&line, 0) {
                        assert!(line[..length].eq_ignore_ascii_case(found.name().as_bytes()), "{line:?}");
                        assert_eq!(line[length], b':', "{line:?}");
                    } else {
                        assert!(
                            place == name.len()
                                || !line[place].eq_ignore_ascii_case(&name.as_bytes()[place])
                                || field == KnownField::AccessControlRequestMethod
                        );
                    }
                }
            }
        }
        assert_eq!(recognise(b": value of the field", 0), None);
        assert_eq!(recognise(b"value of the field", 18), None);
    }

    #[test]
    fn a_name_at_the_end_of_the_input_is_recognised() {
        assert_eq!(recognise(b"what came before\r\nDNT:", 18), Some((3, KnownField::Dnt)));
        assert_eq!(recognise(b"what came before\r\nDNT", 18), None);
        assert_eq!(recognise(b"DNT: 1", 0), None);
    }
}
