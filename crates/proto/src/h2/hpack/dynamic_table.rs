//! The dynamic table of a decoder (RFC 7541, sections 2.3.2 and 4).

use super::kind::Kind;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The initial size of a table, and the most that this decoder allows: SETTINGS_HEADER_TABLE_SIZE is left at its default.
pub(super) const MOST_BYTES: usize = 4096;

/// The size that an entry counts in addition to its text (RFC 7541, section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// Room for texts. Texts are written one after the other, and moved to the front when the room is used up. The room is a
/// quarter more than the table may hold, so that texts are moved at most once for each kibibyte that is written.
const ROOM: usize = MOST_BYTES + MOST_BYTES / 4;

/// An entry of the table: eight bytes in addition to its text.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u16,
    name: u16,
    value: u16,
    kind: Kind,
}

/// A field of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'t> {
    /// The name, and the value after it.
    pub(super) text: &'t [u8],
    /// The length of the name.
    pub(super) name: usize,
    pub(super) kind: Kind,
}

/// A table without entries owns no heap memory, a full one up to 6 KiB.
#[derive(Clone, Debug)]
pub(super) struct Table {
    texts: Vec<u8>,
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// The sum of the sizes that the entries count.
    size: usize,
    most: usize,
}

impl Table {
    pub(super) const fn new() -> Self {
        Self { texts: Vec::new(), entries: VecDeque::new(), size: 0, most: MOST_BYTES }
    }

    /// The field with this number; 0 is the field that was added last.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<Field<'_>> {
        let place = self.entries.len().checked_sub(number + 1)?;
        let entry = self.entries.get(place)?;
        let (start, name) = (usize::from(entry.start), usize::from(entry.name));
        let text = self.texts.get(start..start + name + usize::from(entry.value))?;
        Some(Field { text, name, kind: entry.kind })
    }

    /// Adds a field whose name is the first `name` bytes of `text`, and removes older fields that have no room beside it.
    pub(super) fn add(&mut self, text: &[u8], name: usize, kind: Kind) {
        let size = text.len() + OVERHEAD;
        if size > self.most {
            // RFC 7541, section 4.4: that empties the table, and is not an error.
            return self.shrink(0);
        }
        self.shrink(self.most - size);
        self.make_room(text.len());
        let start = self.texts.len() as u16;
        self.texts.extend_from_slice(text);
        self.entries.push_back(Entry { start, name: name as u16, value: (text.len() - name) as u16, kind });
        self.size += size;
    }

    /// Changes the size of the table. Returns `false`, and changes nothing, if the size is more than allowed.
    pub(super) fn resize(&mut self, most: usize) -> bool {
        if most > MOST_BYTES {
            return false;
        }
        self.most = most;
        self.shrink(most);
        true
    }

    /// Removes the oldest entries until the others together count at most `most`.
    fn shrink(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= usize::from(entry.name) + usize::from(entry.value) + OVERHEAD;
        }
        if self.entries.is_empty() {
            self.texts.clear();
        }
    }

    fn make_room(&mut self, length: usize) {
        let needed = self.texts.len() + length;
        if needed > ROOM {
            self.move_to_front();
        } else if needed > self.texts.capacity() {
            let room = needed.next_power_of_two().clamp(256, ROOM);
            self.texts.reserve_exact(room - self.texts.len());
        }
    }

    #[cold]
    fn move_to_front(&mut self) {
        let first = self.entries.front().map_or(0, |entry| entry.start);
        self.texts.copy_within(usize::from(first).., 0);
        self.texts.truncate(self.texts.len() - usize::from(first));
        for entry in &mut self.entries {
            entry.start -= first;
        }
        self.texts.reserve_exact(ROOM - self.texts.len());
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.texts.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    #[cfg(test)]
    pub(super) const fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// A table by the definition.
    struct Plain(Vec<(Vec<u8>, usize)>, usize);

    impl Plain {
        fn shrink(&mut self, most: usize) {
            while self.0.iter().map(|(text, _)| text.len() + 32).sum::<usize>() > most {
                self.0.pop();
            }
        }
    }

    #[test]
    fn the_table_holds_what_the_definition_says() {
        let (mut table, mut plain) = (Table::new(), Plain(Vec::new(), 4096));
        let mut state = 1_u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        for round in 0..20_000 {
            if below(50) == 0 {
                let most = below(4200);
                assert_eq!(table.resize(most), most <= 4096);
                if most <= 4096 {
                    plain.1 = most;
                    plain.shrink(most);
                }
            }
            let length = if below(20) == 0 { below(4200) } else { below(60) };
            let text = vec![round as u8; length];
            let name = below(length + 1);
            table.add(&text, name, Kind::Regular(None));
            plain.shrink(plain.1.saturating_sub(text.len() + 32));
            if text.len() + 32 <= plain.1 {
                plain.0.insert(0, (text, name));
            }
            assert_eq!(table.entries.len(), plain.0.len());
            for (number, (text, name)) in plain.0.iter().enumerate() {
                let field = table.get(number).expect("it is there");
                assert_eq!((field.text, field.name), (&text[..], *name));
            }
            assert!(table.get(plain.0.len()).is_none());
            assert!(table.memory() <= 5120 + 1024, "{}", table.memory());
        }
        assert!(table.get(usize::MAX - 1).is_none());
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 8);
        assert_eq!(Table::new().memory(), 0);
    }
}
