//! A copy of a response's head, for a body whose iterator runs before the head is sent.

use oribi_message::{FieldPair, ResponseHead};
use std::ops::Range;

/// If the text has grown beyond this, its memory is not kept for the next request.
const KEPT_BYTES: usize = 16 << 10;
/// If the list has grown beyond this, its memory is not kept for the next request.
const KEPT_FIELDS: usize = 256;

/// The copy. Its memory is kept from request to request.
#[derive(Debug, Default)]
pub(crate) struct KeptHead {
    status: u16,
    text: Vec<u8>,
    /// Names and values, as ranges of `text`.
    fields: Vec<(Range<usize>, Range<usize>)>,
}

impl KeptHead {
    /// Copies a head.
    pub(crate) fn keep(&mut self, head: &ResponseHead<'_>) {
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        self.fields.clear();
        self.fields.shrink_to(KEPT_FIELDS);
        self.status = head.status;
        for (name, value) in head.fields {
            let field = (self.copy(name), self.copy(value));
            self.fields.push(field);
        }
    }

    fn copy(&mut self, part: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(part);
        start..self.text.len()
    }

    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    /// Adds the fields to `list`, borrowed.
    pub(crate) fn lend<'a>(&'a self, list: &mut Vec<FieldPair<'a>>) {
        list.extend(self.fields.iter().map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()])));
    }
}
