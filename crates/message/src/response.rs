//! A response head as a host passes it.

use alloc::vec::Vec;

/// One field of a response: name and value, not yet validated.
pub type FieldPair<'a> = (&'a [u8], &'a [u8]);

/// Status and fields of a response, borrowed from the host. A name may occur several times.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code, 200 to 999 for a final response.
    pub status: u16,
    /// The fields in the order in which they are sent.
    pub fields: &'a [FieldPair<'a>],
}

/// Memory for the fields of one response after the other.
#[derive(Debug, Default)]
pub struct FieldMemory(Vec<FieldPair<'static>>);

impl FieldMemory {
    /// Takes the memory for the fields of a response.
    #[inline]
    pub fn take<'a>(&mut self) -> Vec<FieldPair<'a>> {
        core::mem::take(&mut self.0)
    }

    /// Empties `fields` and keeps their memory for those of another lifetime.
    #[inline]
    pub fn keep(&mut self, mut fields: Vec<FieldPair<'_>>) {
        fields.clear();
        // The standard library collects into the same memory if the sizes are equal.
        self.0 = fields.into_iter().map(|_| (&b""[..], &b""[..])).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_for_fields_is_kept() {
        let mut memory = FieldMemory::default();
        let (name, value) = (alloc::vec![1], alloc::vec![2]);
        let mut fields = memory.take();
        fields.push((&name[..], &value[..]));
        let (before, room) = (fields.as_ptr().cast::<u8>(), fields.capacity());
        memory.keep(fields);
        let fields = memory.take();
        assert_eq!((fields.as_ptr().cast::<u8>(), fields.capacity(), fields.len()), (before, room, 0));
    }
}
