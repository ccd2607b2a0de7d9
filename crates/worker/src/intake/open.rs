//! The exchanges with incomplete answers.

use super::backlog::Backlog;
use oribi_host::{ExchangeId, ReplyError};
use oribi_pool::{Taken, Worker};

/// The progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Unanswered,
    /// The head has been written, and content follows.
    Started,
    /// The app has finished it, and a part of it waits in the backlog.
    Ended,
}

/// An exchange with an incomplete answer.
#[derive(Debug)]
pub(super) struct Open {
    serial: u32,
    /// The index of its pool.
    pub(super) pool: usize,
    pub(super) taken: Taken,
    pub(super) step: Step,
    pub(super) backlog: Backlog,
    /// The time that the request has waited, in nanoseconds, if the edge has stated when it was complete.
    pub(super) waited: Option<u64>,
    /// Whether a host has its request.
    pub(super) lent: bool,
    /// Whether its client is known to have disconnected.
    pub(super) gone: bool,
    /// Whether its edge has ended while the lane stops, so that perhaps no other edge reports the end of the client.
    pub(super) lost: bool,
    /// Whether a part of the response can never be sent.
    pub(super) broken: bool,
    /// Whether its client is a web server, which has a log.
    pub(super) gateway: bool,
    /// Whether its connection also carries other requests.
    pub(super) shared: bool,
    /// Whether the response must not have content, even if its app writes some.
    pub(super) bodiless: bool,
}

/// The exchanges with incomplete answers. There are at most as many as the pools have areas for this worker.
#[derive(Debug, Default)]
pub(super) struct Opened {
    entries: Vec<Option<Open>>,
    /// All entries below this index are in use.
    vacant_from: usize,
    count: usize,
    serial: u32,
}

impl Opened {
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds an exchange whose request is about to be lent.
    #[inline]
    pub(super) fn add(
        &mut self,
        pool: usize,
        taken: Taken,
        waited: Option<u64>,
        gateway: bool,
        shared: bool,
        bodiless: bool,
    ) -> ExchangeId {
        self.serial = self.serial.wrapping_add(1);
        self.count += 1;
        let (step, backlog) = (Step::Unanswered, Backlog::default());
        let (serial, lent, gone, lost, broken) = (self.serial, true, false, false, false);
        let open = Open { serial, pool, taken, step, backlog, waited, lent, gone, lost, broken, gateway, shared, bodiless };
        let index = self.vacant_index();
        self.entries[index] = Some(open);
        ExchangeId(u64::from(self.serial) << 32 | index as u64)
    }

    #[inline]
    fn index_of(&self, exchange: ExchangeId) -> Option<usize> {
        let index = (exchange.0 & u64::from(u32::MAX)) as usize;
        let open = self.entries.get(index)?.as_ref()?;
        (u64::from(open.serial) == exchange.0 >> 32).then_some(index)
    }

    /// Returns the exchange, in any state of its answer.
    #[inline]
    pub(super) fn get(&self, exchange: ExchangeId) -> Option<&Open> {
        self.entries[self.index_of(exchange)?].as_ref()
    }

    /// See [`Opened::get`].
    #[inline]
    pub(super) fn get_mut(&mut self, exchange: ExchangeId) -> Option<&mut Open> {
        let index = self.index_of(exchange)?;
        self.entries[index].as_mut()
    }

    #[inline]
    pub(super) fn remove(&mut self, exchange: ExchangeId) -> Option<Open> {
        let index = self.index_of(exchange)?;
        self.count -= 1;
        self.vacant_from = self.vacant_from.min(index);
        self.entries[index].take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.entries.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.entries.iter_mut().flatten()
    }

    /// Puts back an exchange that was removed. Its old id is no longer valid.
    pub(super) fn put_back(&mut self, open: Open) {
        self.count += 1;
        let index = self.vacant_index();
        self.entries[index] = Some(open);
    }

    #[inline]
    fn vacant_index(&mut self) -> usize {
        let index = match self.entries.get(self.vacant_from) {
            Some(None) => self.vacant_from,
            _ => self.look_for_vacant(),
        };
        self.vacant_from = index + 1;
        index
    }

    #[cold]
    fn look_for_vacant(&mut self) -> usize {
        let entries = self.entries.get(self.vacant_from..).unwrap_or_default();
        let found = entries.iter().position(Option::is_none).map(|ahead| self.vacant_from + ahead);
        found.unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        })
    }

    /// Removes the exchanges that `which` selects.
    pub(super) fn take_all(&mut self, which: impl Fn(&Open) -> bool) -> Vec<Open> {
        let mut taken = Vec::new();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Some(open) = entry.take_if(|open| which(open)) {
                self.vacant_from = self.vacant_from.min(index);
                taken.push(open);
            }
        }
        self.count -= taken.len();
        taken
    }
}

impl Open {
    /// Checks that the app can still add to the response.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the response is complete, or the client has gone.
    #[inline]
    pub(super) fn check(&self, pools: &[Worker]) -> Result<(), ReplyError> {
        let is_gone = self.lost || pools[self.pool].orders(&self.taken).gone;
        if self.step == Step::Ended || is_gone { Err(ReplyError::Gone) } else { Ok(()) }
    }

    /// Whether the exchange needs no answer any more: its client has disconnected, or the edge has ordered an interruption
    /// after the host has returned, when no code of the app runs that could be interrupted.
    pub(super) fn is_over(&self, pools: &[Worker]) -> bool {
        let orders = pools[self.pool].orders(&self.taken);
        self.lost || orders.gone || (orders.interrupted && !self.lent)
    }
}
