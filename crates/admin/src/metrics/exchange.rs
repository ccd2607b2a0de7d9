//! One request at the metrics address, and its response. The machine of HTTP/1 parses the requests, with tighter limits than
//! usual.

use super::accept::preferred;
use super::dashboard::{Guard, Page, Stranger};
use super::text::Format;
use httpdate::HttpDate;
use oribi_message::{FieldPair, HeadLayout, KnownField, RequestHead, ResponseHead};
use oribi_proto::h1::{Event, Limits, Machine, Preset};
use std::rc::Rc;
use std::time::SystemTime;

/// The largest request head in bytes: scrapers send a few hundred.
pub(super) const HEAD_BYTES: usize = 8 << 10;
/// The longest request target in bytes.
const TARGET_BYTES: usize = 1 << 10;
/// The path of the metrics.
const PATH: &[u8] = b"/metrics";
/// The paths of the dashboard and of its events.
const PAGE: &[u8] = b"/";
const EVENTS: &[u8] = b"/events";

const STRANGE_HOST: &str =
    "the dashboard does not answer to this host name: use an IP address or localhost, or add the name to --dashboard\n";

const STRANGER: &str = "metrics are not for this address\n";

/// The exchange of a client; a connection carries one request.
#[derive(Debug)]
pub(super) struct Exchange {
    /// Whether the client has access.
    is_known: bool,
    machine: Machine,
    /// Received bytes that have not been parsed yet.
    bytes: Vec<u8>,
    /// The access rules of the dashboard, if it is on.
    guard: Option<Rc<Guard>>,
}

/// The request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// No whole request has arrived so far.
    Nothing,
    /// The metrics, in this format.
    Metrics(Format),
    /// The events of the dashboard.
    Events,
    /// Anything else. The whole response to it.
    Other(Vec<u8>),
}

impl Exchange {
    /// Creates an exchange. `guard` contains the access rules of the dashboard, if it is on. If the client is not known
    /// (`is_known`), every request is refused.
    pub(super) fn new(guard: Option<Rc<Guard>>, is_known: bool) -> Self {
        Self { is_known, machine: Machine::default(), bytes: Vec::new(), guard }
    }

    /// Parses bytes of the client. Must not be called again after it has returned another result than [`Asked::Nothing`].
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Asked {
        self.bytes.extend_from_slice(bytes);
        let limits = Limits { head_bytes: HEAD_BYTES, target_bytes: TARGET_BYTES, ..Limits::default() };
        let mut layout = HeadLayout::default();
        let step = self.machine.handle_input(&self.bytes, &mut layout, &limits);
        match step.event {
            Event::Head { start, .. } => {
                let bytes = std::mem::take(&mut self.bytes);
                self.read(&RequestHead::new(&bytes[start..step.consumed], &layout))
            }
            Event::Refused(refusal) => {
                let mut response = Vec::new();
                self.machine.write_refusal(refusal, &Preset { date: &date(), ..Preset::default() }, &mut response);
                Asked::Other(response)
            }
            Event::NeedInput | Event::Content(_) | Event::Trailers(_) | Event::End => {
                self.bytes.drain(..step.consumed);
                Asked::Nothing
            }
        }
    }

    fn read(&mut self, head: &RequestHead<'_>) -> Asked {
        if !self.is_known {
            return Asked::Other(self.refusal(403, &[], STRANGER));
        }
        let guard = self.guard.clone();
        let is_dashboard = guard.is_some() && matches!(head.path(), PAGE | EVENTS);
        if head.path() != PATH && !is_dashboard {
            let places =
                if guard.is_some() { "metrics are at /metrics, the dashboard is at /" } else { "metrics are at /metrics" };
            return Asked::Other(self.refusal(404, &[], &format!("not found: {places}\n")));
        }
        if !matches!(head.method(), b"GET" | b"HEAD") {
            return Asked::Other(self.refusal(405, &[(b"Allow", b"GET, HEAD")], "only GET and HEAD\n"));
        }
        match guard.filter(|_| is_dashboard).map(|guard| guard.admit(head)) {
            None => {
                let accept = head.fields().filter(|(known, ..)| *known == Some(KnownField::Accept));
                Asked::Metrics(preferred(accept.map(|(_, _, value)| value)))
            }
            Some(Err(Stranger::Host)) => Asked::Other(self.refusal(421, &[], STRANGE_HOST)),
            Some(Err(Stranger::Origin)) => Asked::Other(self.refusal(403, &[], "the dashboard is for no other page\n")),
            Some(Ok(())) if head.path() == PAGE => Asked::Other(self.page()),
            // A HEAD request gets the head of the response to GET.
            Some(Ok(())) if head.method() == b"HEAD" => Asked::Other(self.events()),
            Some(Ok(())) => Asked::Events,
        }
    }

    fn page(&mut self) -> Vec<u8> {
        let Some(Page { text, policy }) = Page::new() else {
            return self.refusal(503, &[(b"Retry-After", b"1")], "the system has no random numbers yet\n");
        };
        let fields: [FieldPair<'_>; 5] = [
            (b"Content-Security-Policy", policy.as_bytes()),
            (b"Cache-Control", b"no-store"),
            (b"Referrer-Policy", b"no-referrer"),
            (b"X-Content-Type-Options", b"nosniff"),
            (b"Cross-Origin-Resource-Policy", b"same-origin"),
        ];
        self.response(200, &fields, "text/html; charset=utf-8", text.as_bytes())
    }

    /// Returns the head of the response with events. The response lasts until the connection ends.
    pub(super) fn events(&mut self) -> Vec<u8> {
        let fields: [FieldPair<'_>; 5] = [
            (b"Content-Type", b"text/event-stream"),
            (b"Cache-Control", b"no-store"),
            (b"X-Content-Type-Options", b"nosniff"),
            (b"Cross-Origin-Resource-Policy", b"same-origin"),
            // Makes an nginx between server and client pass on each event at once.
            (b"X-Accel-Buffering", b"no"),
        ];
        let (mut response, date) = (Vec::new(), date());
        let preset = Preset { date: &date, until_close: true, ..Preset::default() };
        // Cannot fail: there is a request, and its response has not begun.
        let _ = self.machine.write_head(ResponseHead { status: 200, fields: &fields }, None, false, &preset, &mut response);
        response
    }

    /// Returns the response with the metrics.
    pub(super) fn metrics(&mut self, format: Format, text: &[u8]) -> Vec<u8> {
        self.response(200, &[], format.media_type(), text)
    }

    fn refusal(&mut self, status: u16, fields: &[FieldPair<'_>], text: &str) -> Vec<u8> {
        self.response(status, fields, "text/plain; charset=utf-8", text.as_bytes())
    }

    fn response(&mut self, status: u16, fields: &[FieldPair<'_>], media_type: &str, content: &[u8]) -> Vec<u8> {
        let (mut response, length) = (Vec::with_capacity(content.len() + 256), content.len() as u64);
        let fields: Vec<FieldPair<'_>> =
            [(&b"Content-Type"[..], media_type.as_bytes())].iter().chain(fields).copied().collect();
        let (head, date) = (ResponseHead { status, fields: &fields }, date());
        let preset = Preset { date: &date, ..Preset::default() };
        // Cannot fail: there is a request, and its response has not begun.
        let _ = self.machine.write_head(head, Some(length), false, &preset, &mut response);
        let sent = self.machine.write_content_prefix(length, &mut response) as usize;
        response.extend_from_slice(&content[..sent]);
        self.machine.write_content_suffix(&mut response);
        // The connection ends in any case.
        let _ = self.machine.finish(&mut response);
        response
    }
}

fn date() -> Vec<u8> {
    format!("Date: {}\r\n", HttpDate::from(SystemTime::now())).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::ListenAddress;

    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: a\r\n";

    /// Returns the result for a request, whole and cut in two at every byte.
    fn asked(request: &str) -> Asked {
        asked_behind(None, request)
    }

    /// The result if the dashboard has this guard.
    fn asked_behind(guard: Option<&Rc<Guard>>, request: &str) -> Asked {
        let begun = || Exchange::new(guard.cloned(), true);
        let whole = begun().receive(request.as_bytes());
        let without_date = |asked: &Asked| match asked {
            Asked::Other(response) => String::from_utf8_lossy(response)
                .lines()
                .filter(|line| !line.starts_with("Date: ") && !line.contains("nonce"))
                .collect::<Vec<_>>()
                .join("\n"),
            other => format!("{other:?}"),
        };
        for end in 0..request.len() {
            let mut exchange = begun();
            let first = exchange.receive(&request.as_bytes()[..end]);
            // After the answer, parsing stops.
            let both = if first == Asked::Nothing { exchange.receive(&request.as_bytes()[end..]) } else { first };
            assert_eq!(without_date(&both), without_date(&whole), "cut behind {end} bytes: {request:?}");
        }
        let mut exchange = begun();
        let single = request.bytes().map(|byte| exchange.receive(&[byte])).find(|asked| *asked != Asked::Nothing);
        assert_eq!(without_date(&single.unwrap_or(Asked::Nothing)), without_date(&whole), "byte by byte: {request:?}");
        whole
    }

    fn refused(request: &str) -> String {
        let Asked::Other(response) = asked(request) else { panic!("{request:?} was not refused") };
        let response = String::from_utf8(response).expect("it is text");
        assert!(response.contains("\r\nConnection: close\r\n") && response.contains("\r\nDate: "), "{response}");
        response
    }

    #[test]
    fn a_request_for_metrics_is_understood_in_all_its_forms() {
        for rest in ["\r\n", "Accept: */*\r\n\r\n", "Content-Length: 3\r\n\r\nabc", "\r\nGET / HTTP/1.1\r\n\r\n"] {
            assert_eq!(asked(&format!("{GET}{rest}")), Asked::Metrics(Format::Plain), "{rest:?}");
        }
        let open = "Accept: application/openmetrics-text\r\n\r\n";
        assert_eq!(asked(&format!("{GET}{open}")), Asked::Metrics(Format::Open));
        assert_eq!(asked("\r\nGET /metrics?name=x HTTP/1.0\r\n\r\n"), Asked::Metrics(Format::Plain));
        assert_eq!(asked("GET http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Asked::Metrics(Format::Plain));
        assert_eq!(asked("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Asked::Metrics(Format::Plain));
        assert_eq!(asked(GET), Asked::Nothing);
    }

    #[test]
    fn anything_else_is_refused() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found"),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found"),
            ("GET /metrics/ HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "405 Method Not Allowed"),
            ("OPTIONS /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "405 Method Not Allowed"),
            ("GET /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET /metrics HTTP/1.1\nHost: a\n\n", "400 Bad Request"),
            ("\x16\x03\x01\x02\0\r\n\r\n", "400 Bad Request"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 HTTP Version Not Supported"),
        ] {
            let response = refused(request);
            assert!(response.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {response}");
        }
        assert!(refused("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n").contains("\r\nAllow: GET, HEAD\r\n"));
        let many = format!("{GET}{}\r\n", "A: b\r\n".repeat(200));
        assert!(refused(&many).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn a_head_that_does_not_end_is_refused_before_much_of_it_is_kept() {
        let mut exchange = Exchange::new(None, true);
        assert_eq!(exchange.receive(format!("{GET}A: ").as_bytes()), Asked::Nothing);
        for received in (0..).step_by(1000) {
            assert!(received < 2 * HEAD_BYTES, "it is kept for ever");
            if let Asked::Other(response) = exchange.receive(&[b'x'; 1000]) {
                assert!(response.starts_with(b"HTTP/1.1 431 "));
                break;
            }
        }
        let mut exchange = Exchange::new(None, true);
        let Asked::Other(response) = exchange.receive(format!("GET /{} HTTP/1.1", "x".repeat(2000)).as_bytes()) else {
            panic!("it is too long");
        };
        assert!(response.starts_with(b"HTTP/1.1 414 "));
    }

    #[test]
    fn who_is_not_known_gets_nothing_whatever_it_asks_for() {
        let guard = Rc::new(Guard::new(&[], &ListenAddress::tcp("", 9090)));
        for target in ["/metrics", "/", "/events", "/missing"] {
            for method in ["GET", "HEAD", "POST"] {
                let mut exchange = Exchange::new(Some(guard.clone()), false);
                let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let Asked::Other(response) = exchange.receive(request.as_bytes()) else { panic!("{request}") };
                assert!(response.starts_with(b"HTTP/1.1 403 Forbidden\r\n"), "{request}");
            }
        }
    }

    #[test]
    fn the_response_has_a_length_and_is_the_last_one() {
        let answer = |request: &str| {
            let mut exchange = Exchange::new(None, true);
            let Asked::Metrics(format) = exchange.receive(request.as_bytes()) else { panic!("{request:?}") };
            String::from_utf8(exchange.metrics(format, b"a 1\n")).expect("it is text")
        };
        let response = answer(&format!("{GET}\r\n"));
        let (head, content) = response.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nDate: "), "{head}");
        for line in ["Content-Type: text/plain; version=0.0.4; charset=utf-8", "Content-Length: 4", "Connection: close"] {
            assert!(head.lines().any(|present| present == line), "{line}: {head}");
        }
        assert_eq!(content, "a 1\n");
        let response = answer("HEAD /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n");
        let line = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(response.contains(line) && response.contains("\r\nContent-Length: 4\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\n"), "a HEAD has no content: {response}");
    }

    #[test]
    fn the_dashboard_is_for_those_whom_its_guard_lets_in() {
        let guard = Rc::new(Guard::new(&[], &ListenAddress::tcp("", 9090)));
        let status = |request: &str| match asked_behind(Some(&guard), request) {
            Asked::Other(response) => String::from_utf8_lossy(&response[9..12]).into_owned(),
            other => format!("{other:?}"),
        };
        for (target, fields, outcome) in [
            ("/", "Host: localhost", "200"),
            ("/?a", "Host: 192.0.2.7:9090", "200"),
            ("/events", "Host: localhost", "Events"),
            ("/events", "Host: localhost\r\nOrigin: http://localhost", "Events"),
            ("/events", "Host: localhost\r\nOrigin: http://evil.example", "403"),
            ("/", "Host: evil.example", "421"),
            ("/events", "Host: evil.example", "421"),
            ("/metrics", "Host: evil.example", "Metrics(Plain)"),
            ("/event", "Host: localhost", "404"),
        ] {
            assert_eq!(status(&format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n")), outcome, "{target} {fields}");
        }
        assert_eq!(status("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
        assert_eq!(status("PUT /events HTTP/1.1\r\nHost: localhost\r\n\r\n"), "405");
        let Asked::Other(page) = asked_behind(Some(&guard), "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n") else {
            panic!("it is the head of a response");
        };
        assert!(page.ends_with(b"\r\n\r\n"), "a HEAD has no content");
    }
}
