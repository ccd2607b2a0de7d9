//! Memory for the answer that a handler has returned.

use super::kept_head::KeptHead;
use super::numbers::Numbers;
use crate::vm::stack::Message;
use oribi_message::FieldPair;
use std::mem::ManuallyDrop;

/// Longer lists are not kept for the next request.
const KEPT_ELEMENTS: usize = 1024;

/// Memory for collecting and sending an answer, reused for each request. The lists are empty in between.
#[derive(Debug, Default)]
pub(crate) struct AnswerRoom {
    pub(crate) fields: Vec<FieldPair<'static>>,
    pub(crate) slices: Vec<&'static [u8]>,
    pub(crate) field_numbers: Numbers,
    pub(crate) slice_numbers: Numbers,
    pub(crate) head: KeptHead,
    /// The reason why a handler's result is not an answer.
    pub(crate) trouble: Option<Message>,
}

impl AnswerRoom {
    /// Frees the memory of a long answer.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        // Compared first, because mostly nothing has grown.
        if self.fields.capacity() > KEPT_ELEMENTS {
            self.fields.shrink_to(KEPT_ELEMENTS);
        }
        if self.slices.capacity() > KEPT_ELEMENTS {
            self.slices.shrink_to(KEPT_ELEMENTS);
        }
    }
}

/// An empty list with the memory of another one.
#[inline]
pub(crate) fn emptied<'to>(mut list: Vec<&[u8]>) -> Vec<&'to [u8]> {
    list.clear();
    let mut list = ManuallyDrop::new(list);
    // SAFETY: it takes over the memory of the other list, which forgets it; no element with the old lifetime is left.
    unsafe { Vec::from_raw_parts(list.as_mut_ptr().cast(), 0, list.capacity()) }
}

/// An empty list of fields with the memory of another one.
#[inline]
pub(crate) fn emptied_fields<'to>(mut list: Vec<FieldPair<'_>>) -> Vec<FieldPair<'to>> {
    list.clear();
    let mut list = ManuallyDrop::new(list);
    // SAFETY: as above.
    unsafe { Vec::from_raw_parts(list.as_mut_ptr().cast(), 0, list.capacity()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_memory() {
        let mut list: Vec<&[u8]> = Vec::with_capacity(17);
        list.push(b"x");
        let list = emptied(list);
        assert_eq!((list.len(), list.capacity()), (0, 17));
        let mut list: Vec<FieldPair<'_>> = Vec::with_capacity(17);
        list.push((b"Name", b"value"));
        let list = emptied_fields(list);
        assert_eq!((list.len(), list.capacity()), (0, 17));
    }
}
