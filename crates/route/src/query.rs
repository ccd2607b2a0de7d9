//! The pairs of a query.

use crate::normal::decode;
use alloc::vec::Vec;
use core::ops::Range;
use memchr::memchr;

/// The decoded pairs of a query. They are read once, by the first rule that has a condition for them.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    pairs: Vec<(Range<usize>, Range<usize>)>,
    read: bool,
}

impl Pairs {
    /// Forgets the pairs of the last request and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.read = false;
    }

    /// Whether a pair with this name has a value that matches.
    pub(crate) fn any(&mut self, query: &[u8], name: &[u8], mut matches: impl FnMut(&[u8]) -> bool) -> bool {
        if !self.read {
            self.read(query);
        }
        let bytes = &self.bytes;
        self.pairs.iter().any(|(pair_name, value)| bytes[pair_name.clone()] == *name && matches(&bytes[value.clone()]))
    }

    fn read(&mut self, query: &[u8]) {
        self.bytes.clear();
        self.pairs.clear();
        for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let (name, value) = match memchr(b'=', pair) {
                Some(equals) => (&pair[..equals], &pair[equals + 1..]),
                None => (pair, &[][..]),
            };
            let start = self.bytes.len();
            decode(name, true, &mut self.bytes);
            let middle = self.bytes.len();
            decode(value, true, &mut self.bytes);
            self.pairs.push((start..middle, middle..self.bytes.len()));
        }
        self.read = true;
    }
}
