//! Counts the events of each request in an engine.

use super::{Account, Counter, RequestPhase};
use oribi_message::Version;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// The counters that change with each request, in their order in memory.
const EACH_REQUEST: [Counter; 12] = [
    Counter::Responses2xx,
    Counter::BytesReceived,
    Counter::BytesSent,
    Counter::RequestsQueued,
    Counter::Responses1xx,
    Counter::Responses3xx,
    Counter::Responses4xx,
    Counter::Responses5xx,
    Counter::RequestsHttp10,
    Counter::RequestsHttp11,
    Counter::RequestsHttp2,
    Counter::RequestsFastCgi,
];

/// The counters of one lane. Only the thread of that lane changes them, with a plain load and store.
#[derive(Debug)]
pub struct Tally {
    /// The account in which this lane counts: the account of its process, or a separate one if the process has several lanes.
    own: Account,
    /// The account of the process, if it has several lanes: see [`Tally::settle`].
    all: Option<Account>,
    /// The number of bytes that [`Tally::settle`] has moved from `own` to `all`.
    settled: Cell<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { own: Account::unshared(), all: None, settled: Cell::new(0) }
    }
}

impl Tally {
    /// Returns the tally of the only lane of a process.
    pub const fn of_only_lane(account: Account) -> Self {
        Self { own: account, all: None, settled: Cell::new(0) }
    }

    /// Returns the tally of one of several lanes of a process.
    pub fn of_one_lane(account: Account) -> Self {
        Self { own: Account::unshared(), all: Some(account), settled: Cell::new(0) }
    }

    /// Counts an event of a kind that does not occur with each request.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.all.unwrap_or(self.own).count(counter);
    }

    /// Adds an amount of a kind that does not occur with each request.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        self.all.unwrap_or(self.own).add(counter, amount);
    }

    /// Counts a final response that has begun.
    #[inline]
    pub fn responded(&self, status: u16) {
        if (200..300).contains(&status) { self.own.bump(Counter::Responses2xx, 1) } else { self.responded_otherwise(status) }
    }

    #[cold]
    fn responded_otherwise(&self, status: u16) {
        let class = match status {
            0..200 => Counter::Responses1xx,
            200..300 => Counter::Responses2xx,
            300..400 => Counter::Responses3xx,
            400..500 => Counter::Responses4xx,
            500.. => Counter::Responses5xx,
        };
        self.own.bump(class, 1);
    }

    /// Adds bytes received from clients.
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.own.bump(Counter::BytesReceived, bytes as u64);
    }

    /// Adds bytes written to a socket.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.own.bump(Counter::BytesSent, bytes as u64);
    }

    /// Returns the number of bytes that this lane has received and sent. If it is the only lane of its process, the number
    /// includes those of earlier processes.
    #[inline]
    pub fn moved(&self) -> u64 {
        self.settled.get().wrapping_add(self.in_own())
    }

    #[inline]
    fn in_own(&self) -> u64 {
        let number = |counter| self.own.word(counter).load(Relaxed);
        number(Counter::BytesReceived).wrapping_add(number(Counter::BytesSent))
    }

    /// Counts the head of an HTTP/1 request that has been read.
    #[inline]
    pub fn count_version(&self, version: Version) {
        if version == Version::Http11 { self.own.bump(Counter::RequestsHttp11, 1) } else { self.asked_otherwise() }
    }

    #[cold]
    fn asked_otherwise(&self) {
        self.own.bump(Counter::RequestsHttp10, 1);
    }

    /// Counts the head of an HTTP/2 request that has been read and has opened a stream.
    #[inline]
    pub fn count_http2(&self) {
        self.own.bump(Counter::RequestsHttp2, 1);
        self.count(Counter::Http2Streams);
    }

    /// Counts a FastCGI request that has begun.
    #[inline]
    pub fn count_fastcgi(&self) {
        self.own.bump(Counter::RequestsFastCgi, 1);
    }

    /// Counts a request that has begun to wait for its answer.
    #[inline]
    pub fn queued(&self) {
        self.own.bump(Counter::RequestsQueued, 1);
    }

    /// Counts the times of the parts of a request, in nanoseconds, in the order of [`RequestPhase::ALL`].
    #[inline]
    pub fn timed(&self, parts: [u64; RequestPhase::ALL.len()]) {
        match self.all {
            None => self.own.times.count(parts, true),
            Some(all) => Self::timed_by_many(all, parts),
        }
    }

    // A separate function, so that the inlined code for a single lane does not contain this.
    #[inline(never)]
    fn timed_by_many(all: Account, parts: [u64; RequestPhase::ALL.len()]) {
        all.times.count(parts, false);
    }

    /// Counts the time of one part of a request, in nanoseconds.
    pub fn timed_one(&self, part: RequestPhase, nanoseconds: u64) {
        self.all.unwrap_or(self.own).times.count_one(part, nanoseconds, false);
    }

    /// Counts a request of a route that has ended. `status` is the status of its response, or 0 if there was none.
    #[inline]
    pub fn routed(&self, route: u8, status: u16, nanoseconds: u64) {
        match self.all {
            None => self.own.routes.count(route, status, nanoseconds, true),
            Some(all) => all.routes.count(route, status, nanoseconds, false),
        }
    }

    /// Adds the counts of one of several lanes to the account of the process. Called before the lane waits, and before an app
    /// may end the process.
    #[inline]
    pub fn settle(&self) {
        if let Some(all) = self.all {
            self.settle_with(all);
        }
    }

    #[inline(never)]
    fn settle_with(&self, all: Account) {
        self.settled.set(self.moved());
        for counter in EACH_REQUEST {
            let number = self.own.take(counter);
            if number > 0 {
                all.add(counter, number);
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(tally: &Tally) {
        for status in [101, 200, 206, 304, 404, 499, 502, 999] {
            tally.responded(status);
        }
        tally.received(1000);
        tally.sent(70);
        tally.queued();
        tally.count_version(Version::Http11);
        (0..2).for_each(|_| tally.count_version(Version::Http10));
        (0..3).for_each(|_| tally.count_http2());
        (0..4).for_each(|_| tally.count_fastcgi());
    }

    /// The expected counters after the events of the test.
    const COUNTED: [u64; EACH_REQUEST.len()] = [2, 1000, 70, 1, 1, 1, 2, 2, 2, 1, 3, 4];

    fn known(account: Account) -> [u64; EACH_REQUEST.len()] {
        let counts = account.read();
        EACH_REQUEST.map(|counter| counts.of(counter))
    }

    #[test]
    fn a_lane_that_is_alone_has_told_everything_at_once() {
        let account = Account::unshared();
        let tally = Tally::of_only_lane(account);
        count(&tally);
        assert_eq!(known(account), COUNTED);
        drop(tally);
        assert_eq!(known(account), COUNTED);
    }

    #[test]
    fn one_of_several_lanes_tells_everything_once() {
        let account = Account::unshared();
        let (tally, other) = (Tally::of_one_lane(account), Tally::of_one_lane(account));
        count(&tally);
        assert_eq!(known(account), [0; EACH_REQUEST.len()], "nothing is known yet");
        for _ in 0..2 {
            tally.settle();
            other.settle();
            assert_eq!(known(account), COUNTED);
        }
        assert_eq!([tally.moved(), other.moved()], [1070, 0], "it has been told and is still known");
        tally.timed_one(RequestPhase::App, 5_000_000);
        other.timed_one(RequestPhase::App, 6_000_000);
        assert_eq!(account.read().times.of(RequestPhase::App).count(), 2, "times are known at once");
        other.responded(200);
        drop(other);
        assert_eq!(known(account)[0], 3, "an engine that ends has told everything");
    }
}
