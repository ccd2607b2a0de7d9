//! Lists of positive and negative patterns.

use alloc::vec::Vec;

/// The patterns of one part of a request.
#[derive(Debug)]
pub(crate) struct List<P> {
    pub(crate) positive: Vec<P>,
    pub(crate) negative: Vec<P>,
}

impl<P> List<P> {
    pub(crate) const fn new() -> Self {
        Self { positive: Vec::new(), negative: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.positive.is_empty() && self.negative.is_empty()
    }

    /// Whether a positive pattern matches, or there is none, and no negative one does.
    pub(crate) fn admits(&self, mut matches: impl FnMut(&P) -> bool) -> bool {
        (self.positive.is_empty() || self.positive.iter().any(&mut matches)) && !self.negative.iter().any(matches)
    }
}
