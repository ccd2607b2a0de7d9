//! Limits postponed answers: their host has returned, and other code completes them. Each occupies an area until it ends or
//! its client disconnects. Some areas are reserved for requests that are answered at once, so that event streams in any
//! number never stop a worker. A concurrent host postpones all of its answers, so none of its areas are reserved.

use super::Intake;
use super::open::Step;
use super::rest::MonotonicTime;
use oribi_host::ExchangeId;

/// The divisor that gives the number of reserved areas.
const PART_KEPT: u32 = 8;

/// The shortest interval in nanoseconds between two log lines about refused answers.
const SAID_EVERY: u64 = 10_000_000_000;

/// Returns the number of answers that a worker with `areas` areas may postpone.
pub const fn most_postponed(areas: u32) -> u32 {
    areas - areas / PART_KEPT
}

impl Intake<'_> {
    /// Handles a host that has returned without a complete answer: abandons the exchange if there are too many such
    /// exchanges.
    #[cold]
    pub(super) fn note_postponed(&mut self, exchange: ExchangeId) {
        let Some(open) = self.opened.get(exchange) else { return };
        let most = most_postponed(self.pools[open.pool].shape().areas);
        // Usually only a few areas are in use.
        if self.pools[open.pool].vacant() >= self.pools[open.pool].shape().areas - most || open.step == Step::Ended {
            return;
        }
        let pool = open.pool;
        let postponed = self.opened.iter().filter(|open| open.pool == pool && !open.lent).count();
        if postponed <= most as usize {
            return;
        }
        let Some(open) = self.opened.remove(exchange) else { return };
        if self.now >= self.full_said_until {
            self.full_said_until = MonotonicTime(self.now.0 + SAID_EVERY);
            log::warn!(
                "{} unfinished answers wait for the app, as many as a worker may put off: {}; more workers (--workers) would help",
                postponed - 1,
                if open.step == Step::Unanswered { "a client gets a 503" } else { "a response is cut off" }
            );
        }
        if open.step == Step::Unanswered {
            self.answer_unavailable(open.pool, open.taken);
        } else {
            self.pools[open.pool].abandon(open.taken);
        }
    }
}
