//! Makes an `ExportTraceServiceRequest` with four spans for each record.
//!
//! ```text
//! METHOD ROUTE   |------------------------------------------|   the server's span, whose parent is the caller's
//!   queue        |------|
//!   app                 |----------------|                      with an event where its response began
//!   send                                 |------------------|
//! ```
//!
//! The field numbers are those of `trace.proto`, `common.proto` and `resource.proto` of the project opentelemetry-proto. The
//! names of attributes are those of the stable semantic conventions for HTTP.

use crate::record::Record;
use oribi_protobuf::{bytes, fixed32, fixed64, message, number};
use std::borrow::Cow;

/// Spans for each record.
pub const SPANS_OF_RECORD: usize = 4;

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_SERVER`.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;

/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

/// Flags of a span: the trace is sampled; the next flag is valid; the parent of the span is in another process.
const SAMPLED: u32 = 1;
const KNOWS_PARENT: u32 = 0x100;
const HAS_REMOTE_PARENT: u32 = 0x200;

/// The methods that the conventions name. All other methods get the same name, because clients may invent any number of
/// methods.
const METHODS: [&[u8]; 9] = [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
const OTHER_METHOD: &str = "_OTHER";

/// Returns the message for these records. Each record is in the form that [`Record::read`] parses; records in another form are
/// left out. `resource` has the attributes of the server as a whole.
#[must_use]
pub fn request<'r>(resource: &[(&str, &str)], records: impl IntoIterator<Item = &'r [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, 1, |out| {
        message(out, 1, |out| resource.iter().for_each(|(name, value)| text(out, 1, name, value.as_bytes())));
        message(out, 2, |out| {
            message(out, 1, |out| {
                bytes(out, 1, b"oribi");
                bytes(out, 2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            records.into_iter().filter_map(Record::read).for_each(|record| spans(out, &record));
        });
    });
    out
}

fn spans(out: &mut Vec<u8>, record: &Record<'_>) {
    let taken = record.begin.saturating_add(record.queue);
    let ended = taken.saturating_add(record.app);
    let sent = ended.saturating_add(record.send);
    message(out, 2, |out| server_span(out, record, sent));
    for (place, (name, begin, end)) in
        [("queue", record.begin, taken), ("app", taken, ended), ("send", ended, sent)].iter().enumerate()
    {
        message(out, 2, |out| {
            ids(out, record, child(record, place as u64), Some(record.span));
            bytes(out, 5, name.as_bytes());
            number(out, 6, INTERNAL);
            times(out, *begin, *end);
            if *name == "app" {
                of_app(out, record, *begin, *end);
            }
            fixed32(out, 16, SAMPLED | KNOWS_PARENT);
        });
    }
}

fn server_span(out: &mut Vec<u8>, record: &Record<'_>, sent: u64) {
    let parent = Some(record.parent).filter(|parent| *parent != [0; 8]);
    ids(out, record, record.span, parent);
    let known = METHODS.contains(&record.method);
    let mut name = if known { record.method } else { b"HTTP" }.to_vec();
    if !record.route.is_empty() {
        name.push(b' ');
        name.extend_from_slice(record.route);
    }
    bytes(out, 5, proper(&name).as_bytes());
    number(out, 6, SERVER);
    times(out, record.begin, sent);
    if known {
        text(out, 9, "http.request.method", record.method);
    } else {
        text(out, 9, "http.request.method", OTHER_METHOD.as_bytes());
        text(out, 9, "http.request.method_original", record.method);
    }
    text(out, 9, "url.scheme", if record.https { b"https" } else { b"http" });
    let (host, port) = host_and_port(record.host);
    for (name, value) in [
        ("url.path", record.path),
        ("http.route", record.route),
        ("server.address", host),
        ("client.address", record.client),
        ("network.peer.address", record.peer),
    ] {
        if !value.is_empty() {
            text(out, 9, name, value);
        }
    }
    if let Some(port) = port {
        whole_number(out, 9, "server.port", port.into());
    }
    text(out, 9, "network.protocol.version", record.version.as_str().as_bytes());
    let failed = record.status >= 500;
    if record.status > 0 {
        whole_number(out, 9, "http.response.status_code", record.status.into());
        whole_number(out, 9, "http.response.body.size", record.sent);
    }
    if record.gone {
        flag(out, 9, "oribi.client_gone");
    }
    if failed {
        text(out, 9, "error.type", record.status.to_string().as_bytes());
        message(out, 15, |out| number(out, 3, ERROR));
    }
    fixed32(out, 16, SAMPLED | KNOWS_PARENT | if parent.is_some() { HAS_REMOTE_PARENT } else { 0 });
}

/// Adds two facts to the span `app`: the id of the process, and the time at which the response began.
fn of_app(out: &mut Vec<u8>, record: &Record<'_>, begin: u64, end: u64) {
    if record.worker > 0 {
        whole_number(out, 9, "process.pid", record.worker.into());
    }
    if record.status > 0 {
        message(out, 11, |out| {
            fixed64(out, 1, begin.saturating_add(record.first).min(end));
            bytes(out, 2, b"response begins");
        });
    }
}

fn ids(out: &mut Vec<u8>, record: &Record<'_>, span: [u8; 8], parent: Option<[u8; 8]>) {
    bytes(out, 1, &record.trace);
    bytes(out, 2, &span);
    if let Some(parent) = parent {
        bytes(out, 4, &parent);
    }
}

fn times(out: &mut Vec<u8>, begin: u64, end: u64) {
    fixed64(out, 7, begin);
    fixed64(out, 8, end);
}

/// Returns the id of a span below the span of a request; `place` tells these spans apart. The id is never zero. Each step of
/// the computation can be inverted, so for the same `place`, different requests have different ids.
fn child(record: &Record<'_>, place: u64) -> [u8; 8] {
    let number = u64::from_be_bytes(record.span) ^ (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (number ^ number >> 31).max(1).to_be_bytes()
}

/// Splits a Host field into the host and the port.
fn host_and_port(host: &[u8]) -> (&[u8], Option<u16>) {
    // A colon within brackets belongs to an IPv6 address.
    let end = host.iter().rposition(|&byte| byte == b']').unwrap_or(0);
    let Some(colon) = host[end..].iter().rposition(|&byte| byte == b':') else { return (host, None) };
    let port = str::from_utf8(&host[end + colon + 1..]).ok().and_then(|port| port.parse().ok());
    if port.is_some() { (&host[..end + colon], port) } else { (host, None) }
}

/// Returns the text as UTF-8, because a collector refuses the whole message otherwise.
fn proper(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn attribute(out: &mut Vec<u8>, field: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    message(out, field, |out| {
        bytes(out, 1, name.as_bytes());
        message(out, 2, value);
    });
}

fn text(out: &mut Vec<u8>, field: u32, name: &str, value: &[u8]) {
    attribute(out, field, name, |out| bytes(out, 1, proper(value).as_bytes()));
}

fn whole_number(out: &mut Vec<u8>, field: u32, name: &str, value: u64) {
    // The field is signed.
    attribute(out, field, name, |out| number(out, 3, value.min(i64::MAX as u64)));
}

fn flag(out: &mut Vec<u8>, field: u32, name: &str) {
    attribute(out, field, name, |out| number(out, 2, 1));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::tests::{example, written};
    use oribi_protobuf::{Fields, Value};
    use std::collections::{BTreeMap, HashSet};

    /// A span, read back.
    #[derive(Debug, Default)]
    pub(crate) struct Span {
        pub(crate) trace: Vec<u8>,
        pub(crate) span: Vec<u8>,
        pub(crate) parent: Vec<u8>,
        pub(crate) name: String,
        pub(crate) kind: u64,
        pub(crate) begin: u64,
        pub(crate) end: u64,
        pub(crate) attributes: BTreeMap<String, String>,
        pub(crate) events: Vec<(u64, String)>,
        pub(crate) status: Option<u64>,
        pub(crate) flags: u32,
    }

    fn of_bytes(value: Value<'_>) -> &[u8] {
        match value {
            Value::Bytes(bytes) => bytes,
            other => panic!("no bytes: {other:?}"),
        }
    }

    fn of_number(value: Value<'_>) -> u64 {
        match value {
            Value::Number(number) | Value::Fixed64(number) => number,
            Value::Fixed32(number) => number.into(),
            Value::Bytes(bytes) => panic!("no number: {bytes:?}"),
        }
    }

    fn string(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
    }

    fn read_attribute(bytes: &[u8]) -> (String, String) {
        let fields: Vec<_> = Fields(bytes).collect();
        let [(1, name), (2, value)] = fields[..] else { panic!("a name and a value: {fields:?}") };
        let value = match Fields(of_bytes(value)).next().expect("a value") {
            (1, value) => string(of_bytes(value)),
            (2, value) => (of_number(value) == 1).to_string(),
            (3, value) => of_number(value).to_string(),
            other => panic!("{other:?}"),
        };
        (string(of_bytes(name)), value)
    }

    fn read_span(bytes: &[u8]) -> Span {
        let mut span = Span::default();
        for (field, value) in Fields(bytes) {
            match field {
                1 => span.trace = of_bytes(value).to_vec(),
                2 => span.span = of_bytes(value).to_vec(),
                4 => span.parent = of_bytes(value).to_vec(),
                5 => span.name = string(of_bytes(value)),
                6 => span.kind = of_number(value),
                7 => span.begin = of_number(value),
                8 => span.end = of_number(value),
                9 => {
                    let (name, value) = read_attribute(of_bytes(value));
                    assert!(span.attributes.insert(name, value).is_none(), "an attribute is there once");
                }
                11 => {
                    let fields: Vec<_> = Fields(of_bytes(value)).collect();
                    span.events.push((of_number(fields[0].1), string(of_bytes(fields[1].1))));
                }
                15 => span.status = Fields(of_bytes(value)).next().map(|(_, value)| of_number(value)),
                16 => span.flags = of_number(value) as u32,
                other => panic!("field {other}"),
            }
        }
        span
    }

    /// The attributes of the resource, and the spans.
    pub(crate) fn read(request: &[u8]) -> (Vec<(String, String)>, Vec<Span>) {
        let top: Vec<_> = Fields(request).collect();
        let [(1, all)] = top[..] else { panic!("one resource: {top:?}") };
        let parts: Vec<_> = Fields(of_bytes(all)).collect();
        let [(1, resource), (2, scope)] = parts[..] else { panic!("one scope: {parts:?}") };
        let resource = Fields(of_bytes(resource)).map(|(_, value)| read_attribute(of_bytes(value))).collect();
        let mut fields = Fields(of_bytes(scope));
        let named: Vec<_> =
            Fields(of_bytes(fields.next().expect("its name").1)).map(|(_, value)| string(of_bytes(value))).collect();
        assert_eq!(named, ["oribi", env!("CARGO_PKG_VERSION")]);
        (resource, fields.map(|(_, value)| read_span(of_bytes(value))).collect())
    }

    fn spans_of(record: &Record<'_>) -> Vec<Span> {
        let bytes = written(record);
        read(&request(&[], [&bytes[..]])).1
    }

    #[test]
    fn a_request_is_a_span_with_its_parts_below() {
        let record = example();
        let bytes = written(&record);
        let (resource, spans) =
            read(&request(&[("service.name", "shop"), ("host.name", "é")], [&bytes[..], b"nonsense", &bytes]));
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(resource, [named("service.name", "shop"), named("host.name", "é")]);
        assert_eq!(spans.len(), 2 * SPANS_OF_RECORD);
        let begin = record.begin;
        let expected = [
            ("GET /shop", SERVER, 0, 35_000, &b"parent!!"[..], 0x301),
            ("queue", INTERNAL, 0, 1_000, b"01234567", 0x101),
            ("app", INTERNAL, 1_000, 31_000, b"01234567", 0x101),
            ("send", INTERNAL, 31_000, 35_000, b"01234567", 0x101),
        ];
        for (span, (name, kind, from, to, parent, flags)) in spans.iter().zip(expected) {
            assert_eq!((&*span.name, span.kind, span.begin - begin, span.end - begin), (name, kind, from, to));
            assert_eq!((&span.trace[..], &span.parent[..], span.flags), (&b"0123456789abcdef"[..], parent, flags), "{name}");
            assert_eq!(span.status, None);
        }
        assert_eq!(spans[0].span, b"01234567");
        let ids: HashSet<_> = spans[..4].iter().map(|span| &span.span).collect();
        assert_eq!(ids.len(), 4, "each has its own id");
        let told: Vec<_> = spans[0].attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "client.address=192.0.2.7",
            "http.request.method=GET",
            "http.response.body.size=5",
            "http.response.status_code=200",
            "http.route=/shop",
            "network.protocol.version=2",
            "server.address=shop.example",
            "server.port=8443",
            "url.path=/shop/items",
            "url.scheme=https",
        ];
        assert_eq!(told, expected);
        assert_eq!(spans[2].attributes["process.pid"], "4711");
        assert_eq!(spans[2].events, [(begin + 3_000, "response begins".to_owned())]);
    }

    #[test]
    fn a_failure_is_one_and_a_client_that_has_left_is_none() {
        let failed = &spans_of(&Record { status: 502, ..example() })[0];
        assert_eq!((failed.status, &*failed.attributes["error.type"]), (Some(ERROR), "502"));
        for status in [404, 499] {
            let span = &spans_of(&Record { status, ..example() })[0];
            assert!(span.status.is_none() && !span.attributes.contains_key("error.type"), "{status}");
        }
        let spans = spans_of(&Record { status: 0, gone: true, worker: 0, parent: [0; 8], route: b"", ..example() });
        assert_eq!((spans[0].status, &*spans[0].attributes["oribi.client_gone"], &*spans[0].name), (None, "true", "GET"));
        assert!(!spans[0].attributes.keys().any(|name| name.starts_with("http.response") || name == "http.route"));
        assert!(spans[0].parent.is_empty() && spans[0].flags == 0x101, "nobody has called");
        assert!(spans[2].attributes.is_empty() && spans[2].events.is_empty(), "{:?}", spans[2]);
    }

    #[test]
    fn whatever_stands_in_a_record_the_message_is_in_order() {
        let odd =
            Record { method: b"BREW\xff", path: b"/\xff\0", host: b"\xff:99999", client: b"\x80", route: b"\xc3", ..example() };
        let odd = Record { begin: u64::MAX, queue: u64::MAX, app: u64::MAX, send: u64::MAX, sent: u64::MAX, ..odd };
        let spans = spans_of(&odd);
        assert_eq!((&*spans[0].name, &*spans[0].attributes["http.request.method"]), ("HTTP \u{fffd}", OTHER_METHOD));
        assert_eq!(spans[0].attributes["http.request.method_original"], "BREW\u{fffd}");
        assert_eq!(spans[0].attributes["http.response.body.size"], i64::MAX.to_string());
        assert!(spans.iter().all(|span| span.begin == u64::MAX && span.end == u64::MAX));
    }

    #[test]
    fn a_host_may_have_a_port() {
        for (host, name, port) in [
            ("a.org", "a.org", None),
            ("a.org:80", "a.org", Some(80)),
            ("[::1]:8080", "[::1]", Some(8080)),
            ("[::1]", "[::1]", None),
            ("a.org:", "a.org:", None),
            ("a.org:x", "a.org:x", None),
            ("a.org:70000", "a.org:70000", None),
            ("", "", None),
            (":1", "", Some(1)),
        ] {
            assert_eq!(host_and_port(host.as_bytes()), (name.as_bytes(), port), "{host}");
        }
    }
}
