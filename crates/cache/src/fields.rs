//! Fields in one block of memory.

use oribi_message::FieldPair;

/// The ends of the name and of the value of a field.
type Ends = (u32, u32);

/// Names and values, copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Box<[u8]>,
    ends: Box<[Ends]>,
}

impl Fields {
    /// Copies fields.
    pub fn copy<'f>(fields: impl Iterator<Item = FieldPair<'f>>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            bytes.extend_from_slice(name);
            let middle = bytes.len() as u32;
            bytes.extend_from_slice(value);
            ends.push((middle, bytes.len() as u32));
        }
        Self { bytes: bytes.into(), ends: ends.into() }
    }

    /// The fields, in their order.
    pub fn iter(&self) -> impl Iterator<Item = FieldPair<'_>> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |(middle, end)| {
            let (middle, end) = (*middle as usize, *end as usize);
            let pair = (&self.bytes[start..middle], &self.bytes[middle..end]);
            start = end;
            pair
        })
    }

    /// The value of the first field with this name.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<Ends>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_fields_are_the_same_in_the_same_order() {
        let pairs: [FieldPair<'_>; 4] = [(b"A", b"1"), (b"", b""), (b"a", b""), (b"Long-Name", b"long value")];
        let fields = Fields::copy(pairs.into_iter());
        assert_eq!(fields.iter().collect::<Vec<_>>(), pairs);
        assert_eq!((fields.value(b"long-name"), fields.value(b"b")), (Some(&b"long value"[..]), None));
        assert_eq!(Fields::copy(std::iter::empty()).iter().count(), 0);
    }
}
