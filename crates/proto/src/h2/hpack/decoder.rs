//! Decodes field blocks (RFC 7541, sections 3.2 and 6).

use super::dynamic_table::{OVERHEAD, Table};
use super::kind::Kind;
use super::static_table::{self, ENTRIES, Entry};
use super::{huffman, integer};
use alloc::vec::Vec;
use oribi_message::Span;

/// The most changes of the size of the table, at the beginning of a block: to the smallest size since the last block, and to
/// the final size (RFC 7541, section 4.2).
const RESIZES: u32 = 2;

/// A decoded field: the places of its name and its value in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::h2) struct Field {
    pub(in crate::h2) name: Span,
    pub(in crate::h2) value: Span,
    pub(in crate::h2) kind: Kind,
}

/// The bounds of a field list. Each field counts its text and 32 bytes (RFC 9113, section 10.5.1).
#[derive(Clone, Copy, Debug)]
pub(in crate::h2) struct Bounds {
    /// Fields beyond this are decoded, because the table must be kept in step, but not passed on.
    pub(in crate::h2) kept: usize,
    /// Nothing is decoded beyond this. This bounds the work: each field counts at least 32, and its whole text.
    pub(in crate::h2) read: usize,
}

/// The reason why a block cannot be decoded. The table is lost, and the connection with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::h2) enum Fault {
    /// The block breaks the rules.
    Invalid,
    /// The list of fields exceeds [`Bounds::read`].
    Large,
}

/// The decoder of one connection.
#[derive(Clone, Debug)]
pub(in crate::h2) struct Decoder {
    table: Table,
}

impl Decoder {
    pub(in crate::h2) const fn new() -> Self {
        Self { table: Table::new() }
    }

    /// Decodes a block. `out` begins with [`PROLOGUE`](static_table::PROLOGUE). Texts are appended to it, and each field is
    /// passed to `sink`. Returns whether all fields were within [`Bounds::kept`]; the texts of other fields are removed from
    /// `out` again.
    #[inline]
    pub(in crate::h2) fn decode(
        &mut self,
        block: &[u8],
        bounds: Bounds,
        out: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8], Field),
    ) -> Result<bool, Fault> {
        debug_assert!(out.starts_with(static_table::PROLOGUE), "values are said to be there");
        let (mut pos, mut list, mut resizes) = (0, 0, RESIZES);
        while let Some(&first) = block.get(pos) {
            let start = out.len();
            let appended = |name: usize, kind, out: &Vec<u8>| {
                let (name_end, end) = (start + name, out.len());
                (Field { name: Span::new(start, name_end), value: Span::new(name_end, end), kind }, OVERHEAD + end - start)
            };
            let (field, size) = if first >= 0x80 {
                // Index 0 is invalid: it becomes an index that no table has.
                let place = integer::decode(block, &mut pos, 7).ok_or(Fault::Invalid)?.wrapping_sub(1);
                match ENTRIES.get(place) {
                    // The name of a pseudo-field is not used.
                    Some(&Entry { ready: Some(value), kind, size, .. }) => (Field { name: Span::default(), value, kind }, size),
                    Some(entry) => {
                        out.extend_from_slice(entry.text);
                        appended(entry.name, entry.kind, out)
                    }
                    None => {
                        let field = self.table.get(place - static_table::COUNT).ok_or(Fault::Invalid)?;
                        out.extend_from_slice(field.text);
                        appended(field.name, field.kind, out)
                    }
                }
            } else if first & 0xe0 == 0x20 {
                let most = integer::decode(block, &mut pos, 5).ok_or(Fault::Invalid)?;
                resizes = resizes.checked_sub(1).ok_or(Fault::Invalid)?;
                if list > 0 || !self.table.resize(most) {
                    return Err(Fault::Invalid);
                }
                continue;
            } else {
                let (name, kind) = self.literal(first, block, &mut pos, out).ok_or(Fault::Invalid)?;
                appended(name, kind, out)
            };
            list += size;
            if list > bounds.kept {
                if list > bounds.read {
                    return Err(Fault::Large);
                }
                out.truncate(start);
                continue;
            }
            sink(out, field);
        }
        Ok(list <= bounds.kept)
    }

    /// The text of an indexed field, the length of its name, and its kind.
    #[inline]
    fn look_up(&self, index: usize) -> Option<(&[u8], usize, Kind)> {
        // Index 0 is invalid.
        if let Some(entry) = ENTRIES.get(index.checked_sub(1)?) {
            return Some((entry.text, entry.name, entry.kind));
        }
        let field = self.table.get(index - 1 - static_table::COUNT)?;
        Some((field.text, field.name, field.kind))
    }

    /// Appends a field that is not, or not wholly, in a table. Returns the length of its name and its kind.
    #[inline(never)]
    fn literal(&mut self, first: u8, block: &[u8], pos: &mut usize, out: &mut Vec<u8>) -> Option<(usize, Kind)> {
        let adds = first & 0x40 != 0;
        let index = integer::decode(block, pos, if adds { 6 } else { 4 })?;
        let start = out.len();
        let kind = if index == 0 {
            string(block, pos, out)?;
            Kind::of_name(&out[start..])
        } else {
            let (text, name, kind) = self.look_up(index)?;
            let name = &text[..name];
            out.extend_from_slice(name);
            // The entry may be malformed only because of its value, which this field does not have.
            if let Kind::Malformed(_) = kind { Kind::of_name(name) } else { kind }
        };
        let name = out.len() - start;
        string(block, pos, out)?;
        let text = &out[start..];
        let kind = kind.with_value(&text[name..]);
        if adds {
            self.table.add(text, name, kind);
        }
        Some((name, kind))
    }

    #[cfg(test)]
    pub(super) const fn table(&self) -> &Table {
        &self.table
    }
}

/// Appends a string (RFC 7541, section 5.2).
#[inline]
fn string(block: &[u8], pos: &mut usize, out: &mut Vec<u8>) -> Option<()> {
    let is_coded = block.get(*pos)? & 0x80 != 0;
    let length = integer::decode(block, pos, 7)?;
    let text = block.get(*pos..*pos + length)?;
    *pos += length;
    if is_coded {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Some(())
}
