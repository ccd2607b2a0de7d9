//! The active requests of a connection, and their progress.

use alloc::vec::Vec;
use oribi_message::Role;

/// The first part of a request that is still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Params,
    Stdin,
    Data,
    Complete,
    Aborted,
}

/// An active request. A few bytes, because there may be as many requests as ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) id: u16,
    pub(super) role: Role,
    pub(super) phase: Phase,
    pub(super) keep_connection: bool,
}

/// The active requests, in the order of their ids. A web server that does not interleave has one at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<Active>);

impl Table {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn find(&mut self, id: u16) -> Option<&mut Active> {
        let place = self.place(id).ok()?;
        self.0.get_mut(place)
    }

    /// Whether a request with this id is active.
    #[inline]
    pub(super) fn contains(&self, id: u16) -> bool {
        self.place(id).is_ok()
    }

    #[inline]
    pub(super) fn insert(&mut self, active: Active) {
        if let Err(place) = self.place(active.id) {
            self.0.insert(place, active);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u16) -> Option<Active> {
        Some(self.0.remove(self.place(id).ok()?))
    }

    #[inline]
    fn place(&self, id: u16) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |active| active.id)
    }
}
