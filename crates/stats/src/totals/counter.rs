//! The counters of a server, with their names and units.

use super::routes::{RouteCounts, join_routes};
use super::times::Times;

/// A counter, in the order in memory. A new one is added at the end, so that other versions of this program find the older
/// ones at their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "their names say what they count; NAMES has the names for users")]
pub enum Counter {
    // The counters that a `Tally` changes for each request. The first eight are in two lines.
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
    /// Handed over to an edge of the next program.
    ConnectionsHandedOver,
    /// Taken over from an edge of the previous program.
    ConnectionsTakenOver,
    /// Idle connections closed to make room for new ones.
    ConnectionsDisplaced,
    /// Connections of web servers that are not among `--fastcgi-clients`.
    ConnectionsRefused,
    /// How often accepting was paused because there was no room.
    AcceptingPauses,
    /// Microseconds.
    QueueWait,
    /// Microseconds.
    QueueLongestWait,
    QueueRefused,
    QueueTimeouts,
    RequestTimeouts,
    HeadTimeouts,
    ContentTimeouts,
    /// Requests whose workers have died, and that were not tried again.
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
    // Heads of requests by protocol. A `Tally` changes these for each request, too; they are in one line.
    RequestsHttp10,
    RequestsHttp11,
    RequestsHttp2,
    RequestsFastCgi,
    /// Connections closed because no request came within `--header-timeout`.
    ConnectionsSilent,
    /// Requests on a connection that was encrypted for another server (421).
    Misdirected,
    // Limits that were exceeded and have no older counter: see `crates/engine/src/limits.rs`.
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
    // Failed handshakes.
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
    /// Requests rejected because of the resources that unfinished ones held.
    LimitBodyMemoryTotal,
    LimitBodyFilesTotal,
}

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of events.
    Count,
    /// Microseconds.
    Time,
    /// Microseconds, a maximum.
    Longest,
}

/// The number of counters.
pub(super) const COUNTERS: usize = Counter::LimitBodyFilesTotal as usize + 1;

/// The names of the counters for users.
pub const NAMES: [(Counter, &str); COUNTERS] = [
    (Counter::Responses1xx, "responses_1xx"),
    (Counter::Responses2xx, "responses_2xx"),
    (Counter::Responses3xx, "responses_3xx"),
    (Counter::Responses4xx, "responses_4xx"),
    (Counter::Responses5xx, "responses_5xx"),
    (Counter::BytesReceived, "bytes_received"),
    (Counter::BytesSent, "bytes_sent"),
    (Counter::ConnectionsAccepted, "connections_accepted"),
    (Counter::ConnectionsClosed, "connections_closed"),
    (Counter::ConnectionsHandedOver, "connections_handed_over"),
    (Counter::ConnectionsTakenOver, "connections_taken_over"),
    (Counter::ConnectionsDisplaced, "connections_displaced"),
    (Counter::ConnectionsRefused, "connections_refused"),
    (Counter::AcceptingPauses, "accepting_pauses"),
    (Counter::RequestsQueued, "requests_queued"),
    (Counter::QueueWait, "queue_wait_seconds"),
    (Counter::QueueLongestWait, "queue_longest_wait_seconds"),
    (Counter::QueueRefused, "queue_refused"),
    (Counter::QueueTimeouts, "queue_timeouts"),
    (Counter::RequestTimeouts, "request_timeouts"),
    (Counter::HeadTimeouts, "head_timeouts"),
    (Counter::ContentTimeouts, "content_timeouts"),
    (Counter::RequestsLost, "requests_lost"),
    (Counter::RequestsRetried, "requests_retried"),
    (Counter::WorkersStarted, "workers_started"),
    (Counter::WorkersFailed, "workers_failed"),
    (Counter::EndedByRequests, "workers_ended_requests"),
    (Counter::EndedByLifetime, "workers_ended_lifetime"),
    (Counter::EndedByMemory, "workers_ended_memory"),
    (Counter::EndedByFailure, "workers_ended_failure"),
    (Counter::EndedBecauseStuck, "workers_ended_stuck"),
    (Counter::EndedByReload, "workers_ended_reload"),
    (Counter::EndedByScale, "workers_ended_scale"),
    (Counter::EndedByStop, "workers_ended_stop"),
    (Counter::EdgesStarted, "edges_started"),
    (Counter::EdgesFailed, "edges_failed"),
    (Counter::GenerationsLoaded, "generations_loaded"),
    (Counter::GenerationsFailed, "generations_failed"),
    (Counter::Upgrades, "upgrades"),
    (Counter::UpgradesFailed, "upgrades_failed"),
    (Counter::RequestsHttp10, "protocol_http10"),
    (Counter::RequestsHttp11, "protocol_http11"),
    (Counter::RequestsHttp2, "protocol_http2"),
    (Counter::RequestsFastCgi, "protocol_fastcgi"),
    (Counter::Misdirected, "requests_misdirected"),
    (Counter::ConnectionsSilent, "connections_silent"),
    (Counter::LimitHeaderSize, "limit_max_header_size"),
    (Counter::LimitHeaders, "limit_max_headers"),
    (Counter::LimitUriSize, "limit_max_uri_size"),
    (Counter::LimitBodySize, "limit_max_body_size"),
    (Counter::LimitTemporaryDirectory, "limit_temporary_directory"),
    (Counter::LimitDescriptors, "limit_descriptors"),
    (Counter::LimitConnections, "limit_max_connections"),
    (Counter::LimitKeepaliveRequests, "limit_max_keepalive_requests"),
    (Counter::LimitKeepaliveTimeout, "limit_keepalive_timeout"),
    (Counter::LimitWriteTimeout, "limit_write_timeout"),
    (Counter::LimitHttp2Streams, "limit_http2_streams"),
    (Counter::LimitFastCgiRequests, "limit_max_fastcgi_requests"),
    (Counter::LimitOutputSpoolSize, "limit_output_spool_size"),
    (Counter::LimitBodyMemoryTotal, "limit_body_memory_total"),
    (Counter::LimitBodyFilesTotal, "limit_body_files_total"),
    (Counter::Tls12Full, "tls_handshakes_12_full"),
    (Counter::Tls12Resumed, "tls_handshakes_12_resumed"),
    (Counter::Tls13Full, "tls_handshakes_13_full"),
    (Counter::Tls13Resumed, "tls_handshakes_13_resumed"),
    (Counter::TlsIncompatible, "tls_failures_incompatible"),
    (Counter::TlsClientCertificate, "tls_failures_client_certificate"),
    (Counter::TlsRejected, "tls_failures_rejected"),
    (Counter::TlsPlain, "tls_failures_not_tls"),
    (Counter::TlsGone, "tls_failures_gone"),
    (Counter::TlsTimeout, "tls_failures_timeout"),
    (Counter::TlsOther, "tls_failures_other"),
    (Counter::Http2Connections, "http2_connections"),
    (Counter::Http2Streams, "http2_streams"),
    (Counter::Http2ResetsByClient, "http2_resets_client"),
    (Counter::Http2ResetsByServer, "http2_resets_server"),
    (Counter::Http2Stalled, "http2_stalled"),
    (Counter::Http2EndedForResets, "http2_ended_resets"),
    (Counter::Http2EndedForNuisances, "http2_ended_nuisances"),
    (Counter::Http2EndedForFields, "http2_ended_fields"),
    (Counter::Http2EndedOtherwise, "http2_ended_other"),
    (Counter::CertificatesOrdered, "certificates_ordered"),
    (Counter::CertificatesFailed, "certificates_failed"),
    (Counter::ResponsesSpooled, "spooled_responses"),
    (Counter::BytesSpooled, "spooled_bytes"),
];

impl Counter {
    /// Returns the unit of the counter.
    pub const fn unit(self) -> Unit {
        match self {
            Self::QueueWait => Unit::Time,
            Self::QueueLongestWait => Unit::Longest,
            _ => Unit::Count,
        }
    }
}

/// A copy of all counters and histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    pub(super) counters: [u64; COUNTERS],
    /// Histograms of the times of requests.
    pub times: Box<Times>,
    /// The counters of each route, in the order of the routes' names; empty if there are none.
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
        for (counter, number) in in_words().zip(&mut all.counters) {
            *number = join(counter.unit(), *number, other.of(counter));
        }
        all
    }

    /// Returns the sums of both; of a maximum, the larger one.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.with(other, |unit, one, other| if unit == Unit::Longest { one.max(other) } else { one.saturating_add(other) })
    }

    /// Returns the larger value of each counter.
    pub(super) fn highest(&self, other: &Self) -> Self {
        self.with(other, |_, one, other| one.max(other))
    }

    /// Returns the growth since `before`; of a maximum, its present value.
    pub(super) fn less(&self, before: &Self) -> Self {
        self.with(before, |unit, now, before| if unit == Unit::Longest { now } else { now.saturating_sub(before) })
    }
}

/// Returns all counters, in their order in memory.
pub(super) fn in_words() -> impl Iterator<Item = Counter> {
    const ORDERED: [Counter; COUNTERS] = {
        let mut ordered = [Counter::Responses2xx; COUNTERS];
        let mut index = 0;
        while index < COUNTERS {
            ordered[NAMES[index].0 as usize] = NAMES[index].0;
            index += 1;
        }
        ordered
    };
    ORDERED.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_one_name() {
        for counter in in_words() {
            let names: Vec<&str> = NAMES.iter().filter(|(named, _)| *named == counter).map(|(_, name)| *name).collect();
            assert_eq!(names.len(), 1, "{counter:?}: {names:?}");
            assert_eq!(names[0].ends_with("_seconds"), counter.unit() != Unit::Count, "{names:?}");
        }
    }

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
