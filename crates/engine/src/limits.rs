//! Counts the refusals of each limit, so that an operator sees which setting to change.
//!
//! An edge counts the limits of the queue and of apps (`crates/edge/src/queue.rs`, `crates/edge/src/deadlines.rs`).

use super::{Engine, ServeState};
use oribi_io::Backend;
use oribi_proto::h1::Refusal;
use oribi_proto::h2::{ErrorCode, Excess, Violation};
use oribi_stats::totals::Counter;

/// The refusals of requests that have a counter of their own. Requests that arrive too late are counted elsewhere.
const REFUSALS: [(Refusal, Counter); 12] = [
    (Refusal::HEAD_LENGTH, Counter::LimitHeaderSize),
    (Refusal::TRAILER_LENGTH, Counter::LimitHeaderSize),
    (Refusal::PARAMS_LENGTH, Counter::LimitHeaderSize),
    (Refusal::FIELD_COUNT, Counter::LimitHeaders),
    (Refusal::PAIR_COUNT, Counter::LimitHeaders),
    (Refusal::TARGET_LENGTH, Counter::LimitUriSize),
    (Refusal::CONTENT_SIZE, Counter::LimitBodySize),
    (Refusal::STORAGE, Counter::LimitTemporaryDirectory),
    (Refusal::DESCRIPTORS, Counter::LimitDescriptors),
    (Refusal::CONTENT_MEMORY, Counter::LimitBodyMemoryTotal),
    (Refusal::CONTENT_FILES, Counter::LimitBodyFilesTotal),
    (Refusal::MISDIRECTED, Counter::Misdirected),
];

impl<B: Backend> Engine<'_, B> {
    /// Counts the refusal of a request by its limit.
    pub(super) fn count_refusal(&self, refusal: Refusal) {
        if let Some((_, counter)) = REFUSALS.iter().find(|(one, _)| *one == refusal) {
            self.tally.count(*counter);
        }
    }

    /// Counts the end of a connection that was idle for too long after `asked` requests. Counts nothing in a server that stops
    /// or hands over, where idle connections end early.
    pub(super) fn count_idle_end(&self, asked: u32) {
        if self.stage != ServeState::Stopping && !self.hands_over {
            self.tally.count(if asked > 0 { Counter::LimitKeepaliveTimeout } else { Counter::ConnectionsSilent });
        }
    }

    /// Counts a stream of HTTP/2 that the server has reset with this code; nothing without a code.
    pub(super) fn count_reset(&self, code: Option<ErrorCode>) {
        let Some(code) = code else { return };
        self.tally.count(Counter::Http2ResetsByServer);
        if code == ErrorCode::REFUSED_STREAM {
            self.tally.count(Counter::LimitHttp2Streams);
        }
    }

    /// Logs and counts the end of an HTTP/2 connection on which the client broke a rule or reached a bound.
    pub(super) fn note_violation(&self, violation: Violation) {
        log::info!("closed an HTTP/2 connection: {} ({})", violation.reason(), violation.code().name());
        self.tally.count(match violation.excess() {
            Some(Excess::Resets) => Counter::Http2EndedForResets,
            Some(Excess::Nuisances) => Counter::Http2EndedForNuisances,
            Some(Excess::Fields) => Counter::Http2EndedForFields,
            None => Counter::Http2EndedOtherwise,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_says_that_something_is_too_large_is_counted() {
        for (refusal, _) in REFUSALS {
            assert_eq!(REFUSALS.iter().filter(|(one, _)| *one == refusal).count(), 1, "{}", refusal.reason());
            assert!(matches!(refusal.status(), 413 | 414 | 421 | 431 | 503 | 507), "{}", refusal.reason());
        }
    }
}
