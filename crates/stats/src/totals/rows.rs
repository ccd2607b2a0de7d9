//! The counters as users see them: a row for each. `oribi ctl`, metrics and docs/counters.md are made from the rows.

use super::counter::{COUNTERS, Counter};

/// A counter, with its names and meaning.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// The counter that the row describes.
    pub counter: Counter,
    /// The name in `oribi ctl status --json`. Also the name of the family of metrics, unless the counter is a part of another
    /// family.
    pub name: &'static str,
    /// The meaning, in Markdown, without a period.
    pub meaning: &'static str,
    /// The family of metrics of which the counter is a part, and the labels of that part. `None` if the counter has a family
    /// of its own.
    pub part: Option<(Family, &'static [(&'static str, &'static str)])>,
    /// The line of `oribi ctl status` that shows the counter, and the word for it there. `None` if only `--json` shows it.
    pub title: Option<(&'static str, &'static str)>,
}

/// A family of metrics with several counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name without the prefix of all metrics.
    pub name: &'static str,
    /// The help text in the metrics formats.
    pub help: &'static str,
}

impl CounterRow {
    /// Returns the name of the family of metrics, without the prefix of all metrics.
    pub fn family(&self) -> &'static str {
        self.part.map_or(self.name, |(family, _)| family.name)
    }

    /// Returns the help text of the family.
    pub fn help(&self) -> String {
        self.part.map_or_else(|| format!("{}.", self.meaning.replace('`', "")), |(family, _)| family.help.to_owned())
    }

    /// Returns the labels of the counter within the family.
    pub fn labels(&self) -> &'static [(&'static str, &'static str)] {
        self.part.map_or(&[], |(_, labels)| labels)
    }

    const fn titled(self, line: &'static str, word: &'static str) -> Self {
        Self { title: Some((line, word)), ..self }
    }

    const fn part_of(self, family: Family, labels: &'static [(&'static str, &'static str)]) -> Self {
        Self { part: Some((family, labels)), ..self }
    }
}

const fn row(counter: Counter, name: &'static str, meaning: &'static str) -> CounterRow {
    CounterRow { counter, name, meaning, part: None, title: None }
}

const RESPONSES: Family = Family { name: "responses", help: "Responses that have begun, by the class of their status." };
const REQUESTS: Family = Family { name: "requests", help: "Requests whose heads have been read, by their protocol." };
const TLS_HANDSHAKES: Family =
    Family { name: "tls_handshakes", help: "Completed handshakes of TLS, by version, and whether a session was resumed." };
const TLS_HANDSHAKES_FAILED: Family =
    Family { name: "tls_handshakes_failed", help: "Failed handshakes of TLS, by the reason." };
const HTTP2_STREAMS_RESET: Family =
    Family { name: "http2_streams_reset", help: "Streams of HTTP/2 that were reset before they were answered, by the side." };
const HTTP2_CONNECTIONS_ENDED: Family = Family {
    name: "http2_connections_ended",
    help: "Connections of HTTP/2 that were ended because of the client's behaviour, by the reason.",
};
const CACHE_REQUESTS: Family =
    Family { name: "cache_requests", help: "Requests of routes with a cache, by the part that the cache took." };

/// The family of exceeded limits. It contains all limits, even those whose counters have families of their own.
pub const LIMITS_HIT: Family =
    Family { name: "limits_hit", help: "Requests refused and connections closed by a limit, by its setting." };
const WORKERS_ENDED: Family = Family { name: "workers_ended", help: "Workers that have ended, by the reason." };

/// The rows of all counters, in the order in which users see them. Parts of a family follow each other, and so do the words
/// of a line.
#[rustfmt::skip]
pub const COUNTER_ROWS: [CounterRow; COUNTERS] = [
    row(Counter::Responses1xx, "responses_1xx",
        "Responses with this class of status; a 100 or 103 is not counted. Files, the probe and refusals are, as in the \
         next four").part_of(RESPONSES, &[("class", "1xx")]).titled("responses", "1xx"),
    row(Counter::Responses2xx, "responses_2xx",
        "Responses with this class of status").part_of(RESPONSES, &[("class", "2xx")]).titled("responses", "2xx"),
    row(Counter::Responses3xx, "responses_3xx",
        "Responses with this class of status").part_of(RESPONSES, &[("class", "3xx")]).titled("responses", "3xx"),
    row(Counter::Responses4xx, "responses_4xx",
        "Responses with this class of status").part_of(RESPONSES, &[("class", "4xx")]).titled("responses", "4xx"),
    row(Counter::Responses5xx, "responses_5xx",
        "Responses with this class of status").part_of(RESPONSES, &[("class", "5xx")]).titled("responses", "5xx"),
    row(Counter::BytesReceived, "bytes_received",
        "Bytes from clients, with everything that belongs to the protocol; without those of sockets that an app has \
         hijacked").titled("bytes", "received"),
    row(Counter::BytesSent, "bytes_sent", "Bytes to clients, likewise").titled("bytes", "sent"),
    row(Counter::ConnectionsAccepted, "connections_accepted",
        "Connections of clients that were accepted").titled("connections", "accepted"),
    row(Counter::ConnectionsClosed, "connections_closed",
        "Connections of clients that have ended; those of a process that is killed end with it")
        .titled("connections", "closed"),
    row(Counter::ConnectionsHandedOver, "connections_handed_over",
        "Connections that an edge has passed to an edge of the next program").titled("connections", "handed over"),
    row(Counter::ConnectionsTakenOver, "connections_taken_over",
        "Connections that an edge has received from an edge of the old program"),
    row(Counter::ConnectionsDisplaced, "connections_displaced",
        "Idle connections that were closed because there was no room for a new one (`--max-connections`, descriptors)")
        .titled("connections", "displaced"),
    row(Counter::ConnectionsRefused, "connections_refused",
        "Connections from an address that is none of `--fastcgi-clients`").titled("connections", "refused"),
    row(Counter::ConnectionsSilent, "connections_silent",
        "Connections that were closed because no request came within `--header-timeout`: nothing at all, or a \
         handshake, PROXY header or record of FastCGI without an end").titled("connections", "silent"),
    row(Counter::AcceptingPauses, "accepting_pauses",
        "Pauses in accepting, because there was no room at all").titled("connections", "pauses"),
    row(Counter::RequestsHttp10, "protocol_http10",
        "Requests of HTTP/1.0 whose heads have been read")
        .part_of(REQUESTS, &[("protocol", "http10")]).titled("protocols", "HTTP/1.0"),
    row(Counter::RequestsHttp11, "protocol_http11",
        "Requests of HTTP/1.1 whose heads have been read")
        .part_of(REQUESTS, &[("protocol", "http11")]).titled("protocols", "HTTP/1.1"),
    row(Counter::RequestsHttp2, "protocol_http2",
        "Requests of HTTP/2 whose heads have been read")
        .part_of(REQUESTS, &[("protocol", "http2")]).titled("protocols", "HTTP/2"),
    row(Counter::RequestsFastCgi, "protocol_fastcgi",
        "Requests of FastCGI whose heads have been read")
        .part_of(REQUESTS, &[("protocol", "fastcgi")]).titled("protocols", "FastCGI"),
    row(Counter::Misdirected, "requests_misdirected",
        "Requests that got a 421, because their connection was encrypted for another server")
        .titled("protocols", "misdirected"),
    row(Counter::Tls12Full, "tls_handshakes_12_full",
        "Completed handshakes of TLS 1.2")
        .part_of(TLS_HANDSHAKES, &[("version", "1.2"), ("kind", "full")]).titled("TLS", "1.2 full"),
    row(Counter::Tls12Resumed, "tls_handshakes_12_resumed",
        "Completed handshakes of TLS 1.2 that have resumed a session")
        .part_of(TLS_HANDSHAKES, &[("version", "1.2"), ("kind", "resumed")]).titled("TLS", "1.2 resumed"),
    row(Counter::Tls13Full, "tls_handshakes_13_full",
        "Completed handshakes of TLS 1.3")
        .part_of(TLS_HANDSHAKES, &[("version", "1.3"), ("kind", "full")]).titled("TLS", "1.3 full"),
    row(Counter::Tls13Resumed, "tls_handshakes_13_resumed",
        "Completed handshakes of TLS 1.3 that have resumed a session")
        .part_of(TLS_HANDSHAKES, &[("version", "1.3"), ("kind", "resumed")]).titled("TLS", "1.3 resumed"),
    row(Counter::TlsIncompatible, "tls_failures_incompatible",
        "Handshakes that have failed because both sides have no version, suite or protocol in common")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "incompatible")]).titled("TLS failed", "incompatible"),
    row(Counter::TlsClientCertificate, "tls_failures_client_certificate",
        "Handshakes that have failed because the client's certificate is bad, or missing where it is required \
         (`--ssl-verify-client`)")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "client_certificate")]).titled("TLS failed", "client certificate"),
    row(Counter::TlsRejected, "tls_failures_rejected",
        "Handshakes that the client has rejected, mostly because of the server's certificate")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "rejected")]).titled("TLS failed", "rejected"),
    row(Counter::TlsPlain, "tls_failures_not_tls",
        "Clients that do not speak TLS")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "not_tls")]).titled("TLS failed", "not TLS"),
    row(Counter::TlsGone, "tls_failures_gone",
        "Clients that have gone during the handshake")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "gone")]).titled("TLS failed", "gone"),
    row(Counter::TlsTimeout, "tls_failures_timeout",
        "Handshakes that were not finished in time")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "timeout")]).titled("TLS failed", "timeout"),
    row(Counter::TlsOther, "tls_failures_other",
        "Handshakes in which the client has broken the protocol in another way")
        .part_of(TLS_HANDSHAKES_FAILED, &[("reason", "other")]).titled("TLS failed", "other"),
    row(Counter::Http2Connections, "http2_connections",
        "Connections that have begun to speak HTTP/2").titled("HTTP/2", "connections"),
    row(Counter::Http2Streams, "http2_streams",
        "Streams that clients have opened, without those beyond `--http2-streams`").titled("HTTP/2", "streams"),
    row(Counter::Http2ResetsByClient, "http2_resets_client",
        "Streams that clients have reset before they were answered")
        .part_of(HTTP2_STREAMS_RESET, &[("by", "client")]).titled("HTTP/2", "reset by clients"),
    row(Counter::Http2ResetsByServer, "http2_resets_server",
        "Streams that the server has reset before they were answered")
        .part_of(HTTP2_STREAMS_RESET, &[("by", "server")]).titled("HTTP/2", "by the server"),
    row(Counter::Http2Stalled, "http2_stalled",
        "Streams that the server has reset because their clients gave them no window for content within \
         `--write-timeout`").titled("HTTP/2", "stalled"),
    row(Counter::Http2EndedForResets, "http2_ended_resets",
        "Connections that the server has ended (GOAWAY) because too many of their requests were given up (rapid reset)")
        .part_of(HTTP2_CONNECTIONS_ENDED, &[("reason", "resets")]).titled("HTTP/2", "ended for resets"),
    row(Counter::Http2EndedForNuisances, "http2_ended_nuisances",
        "Connections that the server has ended because of too many frames without use")
        .part_of(HTTP2_CONNECTIONS_ENDED, &[("reason", "nuisances")]).titled("HTTP/2", "for frames without use"),
    row(Counter::Http2EndedForFields, "http2_ended_fields",
        "Connections that the server has ended because the fields of one message were far too large, or came in too \
         many frames").part_of(HTTP2_CONNECTIONS_ENDED, &[("reason", "fields")]).titled("HTTP/2", "for fields"),
    row(Counter::Http2EndedOtherwise, "http2_ended_other",
        "Connections that the server has ended because of another fault of the client")
        .part_of(HTTP2_CONNECTIONS_ENDED, &[("reason", "other")]).titled("HTTP/2", "for other faults"),
    row(Counter::RequestsQueued, "requests_queued", "Requests that edges have put into the queue").titled("queue", "queued"),
    row(Counter::QueueRefused, "queue_refused",
        "Requests that got a 503 because of `--queue-limit`").titled("queue", "refused"),
    row(Counter::QueueTimeouts, "queue_timeouts",
        "Requests that got a 503 because of `--queue-timeout`").titled("queue", "timeouts"),
    row(Counter::QueueWait, "queue_wait_seconds",
        "Sum of the times that requests have waited for a worker, or in vain").titled("queue", "waited"),
    row(Counter::QueueLongestWait, "queue_longest_wait_seconds", "Longest of these times").titled("queue", "longest"),
    row(Counter::RequestTimeouts, "request_timeouts",
        "Requests that got a 504 because of `--request-timeout`; without edges, apps that were interrupted because of \
         it").titled("timeouts", "request"),
    row(Counter::HeadTimeouts, "head_timeouts",
        "Requests that got a 408 because of `--header-timeout`, and connections of HTTP/2 on which the rest of a frame \
         did not come").titled("timeouts", "head"),
    row(Counter::ContentTimeouts, "content_timeouts",
        "Requests that got a 408 because of `--body-timeout`").titled("timeouts", "content"),
    row(Counter::LimitHeaderSize, "limit_max_header_size",
        "Requests that got a 431 because of `--max-header-size`, also for their trailers")
        .part_of(LIMITS_HIT, &[("limit", "max-header-size")]).titled("limits", "max-header-size"),
    row(Counter::LimitHeaders, "limit_max_headers",
        "Requests that got a 431 because of `--max-headers`")
        .part_of(LIMITS_HIT, &[("limit", "max-headers")]).titled("limits", "max-headers"),
    row(Counter::LimitUriSize, "limit_max_uri_size",
        "Requests that got a 414 because of `--max-uri-size`")
        .part_of(LIMITS_HIT, &[("limit", "max-uri-size")]).titled("limits", "max-uri-size"),
    row(Counter::LimitBodySize, "limit_max_body_size",
        "Requests that got a 413 because of `--max-body-size`")
        .part_of(LIMITS_HIT, &[("limit", "max-body-size")]).titled("limits", "max-body-size"),
    row(Counter::LimitTemporaryDirectory, "limit_temporary_directory",
        "Requests that got a 507, because there was no room for their content in `--temporary-directory`")
        .part_of(LIMITS_HIT, &[("limit", "temporary-directory")]).titled("limits", "temporary-directory"),
    row(Counter::LimitDescriptors, "limit_descriptors",
        "Requests that got a 503, connections that were closed and pauses in accepting, because the process may open no \
         more files (`ulimit -n`)").part_of(LIMITS_HIT, &[("limit", "descriptors")]).titled("limits", "descriptors"),
    row(Counter::LimitConnections, "limit_max_connections",
        "Connections that were closed and pauses in accepting, because of `--max-connections`")
        .part_of(LIMITS_HIT, &[("limit", "max-connections")]).titled("limits", "max-connections"),
    row(Counter::LimitKeepaliveRequests, "limit_max_keepalive_requests",
        "Connections that were ended because of `--max-keepalive-requests`")
        .part_of(LIMITS_HIT, &[("limit", "max-keepalive-requests")]).titled("limits", "max-keepalive-requests"),
    row(Counter::LimitKeepaliveTimeout, "limit_keepalive_timeout",
        "Idle connections that were closed because of `--keepalive-timeout`")
        .part_of(LIMITS_HIT, &[("limit", "keepalive-timeout")]).titled("limits", "keepalive-timeout"),
    row(Counter::LimitWriteTimeout, "limit_write_timeout",
        "Connections that were cut, and streams of HTTP/2 that were reset, because of `--write-timeout`")
        .part_of(LIMITS_HIT, &[("limit", "write-timeout")]).titled("limits", "write-timeout"),
    row(Counter::LimitHttp2Streams, "limit_http2_streams",
        "Streams that were refused because of `--http2-streams`")
        .part_of(LIMITS_HIT, &[("limit", "http2-streams")]).titled("limits", "http2-streams"),
    row(Counter::LimitFastCgiRequests, "limit_max_fastcgi_requests",
        "Requests that were refused because of `--max-fastcgi-requests`")
        .part_of(LIMITS_HIT, &[("limit", "max-fastcgi-requests")]).titled("limits", "max-fastcgi-requests"),
    row(Counter::LimitOutputSpoolSize, "limit_output_spool_size",
        "Responses of slow clients that had to wait with their apps: `--output-spool-size` or `--output-spool-total` \
         was reached, or the disk took nothing")
        .part_of(LIMITS_HIT, &[("limit", "output-spool-size")]).titled("limits", "output-spool-size"),
    row(Counter::LimitOutputMemoryTotal, "limit_output_memory_total",
        "Responses of slow clients that were cut off, because together they held too much memory and the disk took no more")
        .part_of(LIMITS_HIT, &[("limit", "output-memory-total")]).titled("limits", "output-memory-total"),
    row(Counter::LimitBodyMemoryTotal, "limit_body_memory_total",
        "Requests that were given up because the bodies of unfinished ones held too much memory: see \
         [processes.md](processes.md#slow-uploads)")
        .part_of(LIMITS_HIT, &[("limit", "body-memory-total")]).titled("limits", "body-memory-total"),
    row(Counter::LimitBodyFilesTotal, "limit_body_files_total",
        "Requests that were given up because the bodies of unfinished ones held too many files")
        .part_of(LIMITS_HIT, &[("limit", "body-files-total")]).titled("limits", "body-files-total"),
    row(Counter::LimitRoute, "limit_route",
        "Requests that got a 429 because of a `limit` of their route")
        .part_of(LIMITS_HIT, &[("limit", "route")]).titled("limits", "route"),
    row(Counter::LimitWebsocketBuffer, "limit_websocket_buffer",
        "WebSockets and event streams that were cut off because their clients took messages too slowly, or sent them in too many \
         pieces")
        .part_of(LIMITS_HIT, &[("limit", "websocket-buffer")]).titled("limits", "websocket-buffer"),
    row(Counter::CacheHits, "cache_hits",
        "Requests that a fresh stored response has answered (`cache`)")
        .part_of(CACHE_REQUESTS, &[("result", "hit")]).titled("cache", "hits"),
    row(Counter::CacheStale, "cache_stale",
        "Requests that a stale stored response has answered")
        .part_of(CACHE_REQUESTS, &[("result", "stale")]).titled("cache", "stale"),
    row(Counter::CacheMisses, "cache_misses",
        "Requests that the app has answered because no stored response did")
        .part_of(CACHE_REQUESTS, &[("result", "miss")]).titled("cache", "misses"),
    row(Counter::CacheRevalidated, "cache_revalidated",
        "Requests that a stored response has answered after the app had confirmed it")
        .part_of(CACHE_REQUESTS, &[("result", "revalidated")]).titled("cache", "revalidated"),
    row(Counter::CacheCollapsed, "cache_collapsed",
        "Requests that were answered by the response to another request for the same URI")
        .part_of(CACHE_REQUESTS, &[("result", "collapsed")]).titled("cache", "collapsed"),
    row(Counter::CacheBypasses, "cache_bypasses",
        "Requests in which the cache took no part, such as those with Range")
        .part_of(CACHE_REQUESTS, &[("result", "bypass")]).titled("cache", "bypasses"),
    row(Counter::CachePurged, "cache_purged",
        "Stored responses that `oribi ctl purge` has removed").titled("cache", "purged"),
    row(Counter::WebsocketsOpened, "websockets_opened", "Connections that have become WebSockets of an edge")
        .titled("websockets", "opened"),
    row(Counter::WebsocketsClosed, "websockets_closed", "WebSockets of edges that have ended").titled("websockets", "closed"),
    row(Counter::WebsocketsSilent, "websockets_silent",
        "WebSockets whose clients did not answer a ping (`--websocket-ping`)").titled("websockets", "silent"),
    row(Counter::EventStreamsOpened, "event_streams_opened", "Responses that stay open as event streams")
        .titled("event streams", "opened"),
    row(Counter::EventStreamsClosed, "event_streams_closed", "Event streams that have ended")
        .titled("event streams", "closed"),
    row(Counter::LiveMessagesReceived, "live_messages_received", "Messages that clients have sent to WebSockets of edges")
        .titled("messages", "received"),
    row(Counter::LiveMessagesSent, "live_messages_sent", "Messages that edges have sent to WebSockets and event streams")
        .titled("messages", "sent"),
    row(Counter::RelayConnected, "relay_connected",
        "Connections to the Redis of `--relay` that were made; there is one now if one more was made than has ended")
        .titled("relay", "connected"),
    row(Counter::RelayDisconnected, "relay_disconnected", "Connections to that Redis that have ended")
        .titled("relay", "disconnected"),
    row(Counter::RelaySent, "relay_sent", "Messages to channels that this Redis has taken from this server")
        .titled("relay", "sent"),
    row(Counter::RelayReceived, "relay_received", "Messages to channels of other servers and programs")
        .titled("relay", "received"),
    row(Counter::RelayLost, "relay_lost",
        "Messages that have not reached other servers, or perhaps not, because Redis was away or slow; and messages of others that \
         were too large").titled("relay", "lost"),
    row(Counter::ResponsesSpooled, "spooled_responses",
        "Responses of which a part waited for a slow client in a temporary file (`--output-spool-size`)")
        .titled("spooled", "responses"),
    row(Counter::BytesSpooled, "spooled_bytes",
        "Bytes of responses that were written to temporary files").titled("spooled", "bytes"),
    row(Counter::RequestsLost, "requests_lost",
        "Requests whose workers have died, and that got a 502 or half a response").titled("lost", "requests"),
    row(Counter::RequestsRetried, "requests_retried",
        "Requests whose workers have died, and that another worker got (`--retry-lost`)").titled("lost", "tried again"),
    row(Counter::EdgesStarted, "edges_started", "Edges that were started"),
    row(Counter::EdgesFailed, "edges_failed", "Edges that have ended abnormally").titled("lost", "edges"),
    row(Counter::WorkersStarted, "workers_started", "Workers that were started"),
    row(Counter::WorkersFailed, "workers_failed", "Workers that have ended abnormally"),
    row(Counter::EndedByRequests, "workers_ended_requests",
        "Workers that have ended because of `--max-requests`, or at their own or their app's request")
        .part_of(WORKERS_ENDED, &[("reason", "requests")]).titled("ended", "requests"),
    row(Counter::EndedByLifetime, "workers_ended_lifetime",
        "Workers that have ended because of `--max-lifetime`")
        .part_of(WORKERS_ENDED, &[("reason", "lifetime")]).titled("ended", "lifetime"),
    row(Counter::EndedByMemory, "workers_ended_memory",
        "Workers that have ended because of `--max-memory`")
        .part_of(WORKERS_ENDED, &[("reason", "memory")]).titled("ended", "memory"),
    row(Counter::EndedByFailure, "workers_ended_failure",
        "Workers that could not start, crashed or were killed by somebody else")
        .part_of(WORKERS_ENDED, &[("reason", "failure")]).titled("ended", "failure"),
    row(Counter::EndedBecauseStuck, "workers_ended_stuck",
        "Workers that have ended because of `--request-kill`")
        .part_of(WORKERS_ENDED, &[("reason", "stuck")]).titled("ended", "stuck"),
    row(Counter::EndedByReload, "workers_ended_reload",
        "Workers that were replaced by a reload or an upgrade")
        .part_of(WORKERS_ENDED, &[("reason", "reload")]).titled("ended", "reload"),
    row(Counter::EndedByScale, "workers_ended_scale",
        "Workers that have ended because there were to be fewer")
        .part_of(WORKERS_ENDED, &[("reason", "scale")]).titled("ended", "scale"),
    row(Counter::EndedByStop, "workers_ended_stop",
        "Workers that have ended because the server stops")
        .part_of(WORKERS_ENDED, &[("reason", "stop")]).titled("ended", "stop"),
    row(Counter::GenerationsLoaded, "generations_loaded",
        "Loads of the app, or replacements of all workers").titled("loads", "well"),
    row(Counter::GenerationsFailed, "generations_failed",
        "Loads and replacements that have failed").titled("loads", "failed"),
    row(Counter::Upgrades, "upgrades", "New programs that have taken over").titled("upgrades", "well"),
    row(Counter::UpgradesFailed, "upgrades_failed", "New programs that could not take over").titled("upgrades", "failed"),
    row(Counter::CertificatesOrdered, "certificates_ordered",
        "Certificates that were ordered or renewed by `--acme`").titled("ACME", "ordered"),
    row(Counter::CertificatesFailed, "certificates_failed", "Orders and renewals that have failed").titled("ACME", "failed"),
];

/// Returns all counters, in their order in memory.
pub(super) fn in_words() -> impl Iterator<Item = Counter> {
    const ORDERED: [Counter; COUNTERS] = {
        let mut ordered = [Counter::Responses2xx; COUNTERS];
        let mut index = 0;
        while index < COUNTERS {
            ordered[COUNTER_ROWS[index].counter as usize] = COUNTER_ROWS[index].counter;
            index += 1;
        }
        ordered
    };
    ORDERED.into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::counter::Unit;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_counter_has_one_row() {
        for counter in in_words() {
            let names: Vec<&str> = COUNTER_ROWS.iter().filter(|row| row.counter == counter).map(|row| row.name).collect();
            assert_eq!(names.len(), 1, "{counter:?}: {names:?}");
            assert_eq!(names[0].ends_with("_seconds"), counter.unit() != Unit::Count, "{names:?}");
        }
    }

    #[test]
    fn parts_of_a_family_and_words_of_a_line_follow_each_other() {
        let families: Vec<&str> = COUNTER_ROWS.iter().map(CounterRow::family).collect();
        let lines: Vec<&str> = COUNTER_ROWS.iter().filter_map(|row| row.title).map(|(line, _)| line).collect();
        for mut names in [families, lines] {
            names.dedup();
            assert_eq!(names.len(), names.iter().collect::<HashSet<_>>().len(), "{names:?}");
        }
    }

    #[test]
    fn rows_differ_in_their_names_labels_and_titles() {
        let count = |seen: HashSet<String>| seen.len();
        assert_eq!(count(COUNTER_ROWS.iter().map(|row| row.name.to_owned()).collect()), COUNTERS);
        assert_eq!(count(COUNTER_ROWS.iter().map(|row| format!("{} {:?}", row.family(), row.labels())).collect()), COUNTERS);
        let titles = COUNTER_ROWS.iter().filter_map(|row| row.title);
        assert_eq!(count(titles.clone().map(|title| format!("{title:?}")).collect()), titles.count());
    }
}
