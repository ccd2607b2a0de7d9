//! The counters of a server, with their units.

use super::routes::{RouteCounts, join_routes};
use super::times::Times;

/// A counter. The variants are in the order of the counters in memory. A new counter is added at the end, so that other
/// versions of this program find the older counters at their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the rows of `rows` have their meanings")]
pub enum Counter {
    // The counters that a `Tally` changes for each request. The first eight of them are in two cache lines.
    Responses2xx,
    BytesReceived,
    BytesSent,
    RequestsQueued,
    Responses1xx,
    Responses3xx,
    Responses4xx,
    Responses5xx,
    ConnectionsAccepted,
    ConnectionsClosed,
    /// Connections handed over to an edge of the next program.
    ConnectionsHandedOver,
    /// Connections taken over from an edge of the previous program.
    ConnectionsTakenOver,
    /// Idle connections closed to make room for new ones.
    ConnectionsDisplaced,
    /// Connections of web servers whose addresses are not among `--fastcgi-clients`.
    ConnectionsRefused,
    /// How often accepting was paused because there was no room.
    AcceptingPauses,
    /// The time that requests waited, in microseconds.
    QueueWait,
    /// The longest wait of a request, in microseconds.
    QueueLongestWait,
    QueueRefused,
    QueueTimeouts,
    RequestTimeouts,
    HeadTimeouts,
    ContentTimeouts,
    /// Requests whose workers died, and that were not tried again.
    RequestsLost,
    RequestsRetried,
    WorkersStarted,
    /// Workers that ended abnormally.
    WorkersFailed,
    EdgesStarted,
    EdgesFailed,
    EndedByRequests,
    EndedByLifetime,
    EndedByMemory,
    EndedByFailure,
    EndedBecauseStuck,
    EndedByReload,
    EndedByScale,
    EndedByStop,
    GenerationsLoaded,
    GenerationsFailed,
    Upgrades,
    UpgradesFailed,
    // Heads of requests by protocol. A `Tally` also changes these for each request. They are in one line.
    RequestsHttp10,
    RequestsHttp11,
    RequestsHttp2,
    RequestsFastCgi,
    /// Connections closed because no request arrived within `--header-timeout`.
    ConnectionsSilent,
    /// Requests on a connection that was encrypted for another server (421).
    Misdirected,
    // Exceeded limits without an older counter: see `crates/engine/src/limits.rs`.
    LimitHeaderSize,
    LimitHeaders,
    LimitUriSize,
    LimitBodySize,
    LimitTemporaryDirectory,
    LimitDescriptors,
    LimitConnections,
    LimitKeepaliveRequests,
    LimitKeepaliveTimeout,
    LimitWriteTimeout,
    LimitHttp2Streams,
    LimitFastCgiRequests,
    // Completed handshakes, by TLS version and by whether a session was resumed.
    Tls12Full,
    Tls12Resumed,
    Tls13Full,
    Tls13Resumed,
    // Handshakes that failed.
    TlsIncompatible,
    TlsClientCertificate,
    TlsRejected,
    TlsPlain,
    TlsGone,
    TlsTimeout,
    TlsOther,
    Http2Connections,
    Http2Streams,
    Http2ResetsByClient,
    Http2ResetsByServer,
    /// Streams that the server reset because their client gave them no flow-control window for their content.
    Http2Stalled,
    // Connections that the server ended by GOAWAY because of the client's behaviour.
    Http2EndedForResets,
    Http2EndedForNuisances,
    Http2EndedForFields,
    Http2EndedOtherwise,
    CertificatesOrdered,
    CertificatesFailed,
    /// Responses of which a part went to a temporary file, because their clients were slow.
    ResponsesSpooled,
    BytesSpooled,
    /// Responses that needed a temporary file and exceeded the limit for these.
    LimitOutputSpoolSize,
    /// Requests rejected because of the resources that unfinished requests held.
    LimitBodyMemoryTotal,
    LimitBodyFilesTotal,
    /// Requests rejected by a limit of their route.
    LimitRoute,
    // Requests of routes with `cache`, by the part that the cache took.
    CacheHits,
    /// Answered by a stale response.
    CacheStale,
    CacheMisses,
    /// Answered by a stored response that the app has confirmed.
    CacheRevalidated,
    /// Answered by the response to another request.
    CacheCollapsed,
    CacheBypasses,
    /// Stored responses that `oribi ctl purge` has removed.
    CachePurged,
    // WebSockets and event streams of edges.
    WebsocketsOpened,
    WebsocketsClosed,
    /// WebSockets whose clients have not answered a ping.
    WebsocketsSilent,
    EventStreamsOpened,
    EventStreamsClosed,
    /// Messages of clients, which apps get as events.
    LiveMessagesReceived,
    /// Messages to clients.
    LiveMessagesSent,
    LimitWebsocketBuffer,
    // Connections to the Redis of `--relay`, and messages over them.
    RelayConnected,
    RelayDisconnected,
    RelaySent,
    RelayReceived,
    RelayLost,
    /// Responses that were cut off because of the memory that responses of slow clients held.
    LimitOutputMemoryTotal,
}

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of events.
    Count,
    /// A sum of times, in microseconds.
    Time,
    /// A maximum, in microseconds.
    Longest,
}

/// The number of counters.
pub(super) const COUNTERS: usize = Counter::LimitOutputMemoryTotal as usize + 1;

impl Counter {
    /// Returns the unit of the counter.
    pub const fn unit(self) -> Unit {
        unit_at(self as usize)
    }
}

/// Returns the unit of the counter at this index.
const fn unit_at(index: usize) -> Unit {
    const WAIT: usize = Counter::QueueWait as usize;
    const LONGEST: usize = Counter::QueueLongestWait as usize;
    match index {
        WAIT => Unit::Time,
        LONGEST => Unit::Longest,
        _ => Unit::Count,
    }
}

/// A copy of the values of all counters and histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    pub(super) counters: [u64; COUNTERS],
    /// Histograms of the times of requests.
    pub times: Box<Times>,
    /// The counters of each route, in the order of the routes' names; empty without routes.
    pub routes: Vec<RouteCounts>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { counters: [0; COUNTERS], times: Box::default(), routes: Vec::new() }
    }
}

impl Counts {
    /// Returns the value of one counter.
    #[inline]
    pub const fn of(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Returns the number of all responses.
    pub fn responses(&self) -> u64 {
        let classes =
            [Counter::Responses1xx, Counter::Responses2xx, Counter::Responses3xx, Counter::Responses4xx, Counter::Responses5xx];
        classes.into_iter().fold(0, |sum, class| sum.saturating_add(self.of(class)))
    }

    fn with(&self, other: &Self, join: impl Fn(Unit, u64, u64) -> u64) -> Self {
        let times = self.times.with(&other.times, |one, other| join(Unit::Count, one, other));
        let routes = join_routes(&self.routes, &other.routes, |one, other| join(Unit::Count, one, other));
        let mut all = Self { counters: self.counters, times: Box::new(times), routes };
        for (index, (number, other)) in all.counters.iter_mut().zip(other.counters).enumerate() {
            *number = join(unit_at(index), *number, other);
        }
        all
    }

    /// Returns the sum of both values of each counter; for a maximum, the larger value.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.with(other, |unit, one, other| if unit == Unit::Longest { one.max(other) } else { one.saturating_add(other) })
    }

    /// Returns the larger of both values of each counter.
    pub(super) fn highest(&self, other: &Self) -> Self {
        self.with(other, |_, one, other| one.max(other))
    }

    /// Returns the growth of each counter since `before`; for a maximum, its current value.
    pub(super) fn less(&self, before: &Self) -> Self {
        self.with(before, |unit, now, before| if unit == Unit::Longest { now } else { now.saturating_sub(before) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_overflow_and_the_longest_is_no_sum() {
        let (mut one, mut other) = (Counts::default(), Counts::default());
        one.counters = [u64::MAX; COUNTERS];
        other.counters = [3; COUNTERS];
        assert_eq!(one.and(&other), one);
        assert_eq!(other.and(&other).of(Counter::Responses4xx), 6);
        assert_eq!(other.and(&other).of(Counter::QueueLongestWait), 3);
        assert_eq!(other.responses(), 15);
    }
}
