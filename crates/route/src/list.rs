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

/// The patterns of the fields, or of the pairs of the query: a list for each name.
#[derive(Debug)]
pub(crate) struct NamedLists<P> {
    /// The positive patterns of each name that has some.
    positive: Vec<Vec<P>>,
    /// The negative patterns of all names.
    negative: Vec<P>,
}

impl<P> NamedLists<P> {
    /// Divides a list by the names of its patterns.
    pub(crate) fn of(list: List<P>, same_name: impl Fn(&P, &P) -> bool) -> Self {
        let mut positive: Vec<Vec<P>> = Vec::new();
        for pattern in list.positive {
            match positive.iter_mut().find(|of_name| of_name.iter().any(|other| same_name(other, &pattern))) {
                Some(of_name) => of_name.push(pattern),
                None => positive.push(alloc::vec![pattern]),
            }
        }
        Self { positive, negative: list.negative }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.positive.is_empty() && self.negative.is_empty()
    }

    /// Whether a positive pattern matches for each name that has some, and no negative one does.
    pub(crate) fn admits(&self, mut matches: impl FnMut(&P) -> bool) -> bool {
        self.positive.iter().all(|of_name| of_name.iter().any(&mut matches)) && !self.negative.iter().any(matches)
    }
}
