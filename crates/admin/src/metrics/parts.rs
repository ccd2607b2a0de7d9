//! Maps counters that are parts of a whole to one Prometheus family with labels.

use oribi_stats::totals::Counter;

/// The family and the labels of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) family: &'static str,
    pub(super) labels: Vec<(&'static str, String)>,
}

/// Prefixes of counter names, their family and its label.
const WHOLES: [(&str, &str, &str); 7] = [
    ("responses_", "responses", "class"),
    ("workers_ended_", "workers_ended", "reason"),
    ("protocol_", "requests", "protocol"),
    ("limit_", LIMITS, "limit"),
    ("tls_failures_", "tls_handshakes_failed", "reason"),
    ("http2_resets_", "http2_streams_reset", "by"),
    ("http2_ended_", "http2_connections_ended", "reason"),
];

/// The prefix of handshake counters, which have two labels.
const HANDSHAKES: &str = "tls_handshakes_";

/// The family of limits that were exceeded. It is complete: limits with a family of their own are in it as well.
pub(super) const LIMITS: &str = "limits_hit";

/// Counters of such limits, and their settings.
pub(super) const LIMITS_ELSEWHERE: [(Counter, &str); 5] = [
    (Counter::QueueRefused, "queue-limit"),
    (Counter::QueueTimeouts, "queue-timeout"),
    (Counter::RequestTimeouts, "request-timeout"),
    (Counter::HeadTimeouts, "header-timeout"),
    (Counter::ContentTimeouts, "body-timeout"),
];

/// Returns the family and the labels of a counter; `None`: it is a family of its own.
pub(super) fn part_of(name: &str) -> Option<Part> {
    if let Some((version, kind)) = name.strip_prefix(HANDSHAKES).and_then(|rest| rest.split_once('_')) {
        let version = if version == "13" { "1.3" } else { "1.2" };
        return Some(Part {
            family: "tls_handshakes",
            labels: vec![("version", version.to_owned()), ("kind", kind.to_owned())],
        });
    }
    WHOLES.iter().find_map(|(start, family, label)| {
        let part = name.strip_prefix(start)?;
        // A limit is labelled with the name of its setting.
        let part = if *family == LIMITS { part.replace('_', "-") } else { part.to_owned() };
        Some(Part { family, labels: vec![(label, part)] })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_stats::totals::NAMES;

    fn told(name: &str) -> String {
        let Some(Part { family, labels }) = part_of(name) else { return String::new() };
        let labels: Vec<String> = labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{family} {}", labels.join(","))
    }

    #[test]
    fn parts_have_a_whole_and_others_have_none() {
        for (name, expected) in [
            ("responses_2xx", "responses class=2xx"),
            ("limit_max_header_size", "limits_hit limit=max-header-size"),
            ("tls_handshakes_13_resumed", "tls_handshakes version=1.3,kind=resumed"),
            ("tls_handshakes_12_full", "tls_handshakes version=1.2,kind=full"),
            ("tls_failures_not_tls", "tls_handshakes_failed reason=not_tls"),
            ("http2_resets_client", "http2_streams_reset by=client"),
            ("protocol_http10", "requests protocol=http10"),
            ("requests_lost", ""),
            ("http2_streams", ""),
        ] {
            assert_eq!(told(name), expected, "{name}");
        }
    }

    #[test]
    fn what_belongs_together_stands_together_and_is_told_once() {
        let mut families = Vec::new();
        for (_, name) in NAMES {
            let family = part_of(name).map_or(name, |part| part.family);
            if families.last() != Some(&family) {
                assert!(!families.contains(&family), "{name}");
                families.push(family);
            }
        }
        let settings = LIMITS_ELSEWHERE.map(|(_, setting)| format!("limit_{}", setting.replace('-', "_")));
        assert!(NAMES.iter().all(|(_, name)| !settings.iter().any(|setting| setting == name)));
    }
}
