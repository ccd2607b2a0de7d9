//! Traces (`--traces`): the field `traceparent` (W3C Trace Context) links requests across programs and machines.
//!
//! Each request is a span of a trace: the caller's, if its field is valid, or a new one. The app gets a `traceparent` that
//! names this span, so that its own requests become children of it. All other values of that field are removed. If the caller's
//! value is not used, `tracestate` is also removed, because it has no meaning without that value.

use super::unique::Numbers;
use oribi_config::{Forwarding, SampleRatio};
use oribi_log::TraceIds;
use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, Span};

const PARENT: &[u8] = b"traceparent";

/// The positions in a field: version, trace, parent, flags, with a hyphen before each of the last three (section 3.2.2 of the
/// specification).
const TRACE: std::ops::Range<usize> = 3..35;
const PARENT_ID: std::ops::Range<usize> = 36..52;
const FLAGS: std::ops::Range<usize> = 53..55;
const LENGTH: usize = 55;

/// The known flags: recorded by the caller, and a random id (level 2). All others are passed on as zero.
const KNOWN_FLAGS: u8 = 3;
const SAMPLED: u8 = 1;

/// The number of bytes after the server's field that hold the id of the caller's span in hexadecimal digits, if spans are
/// exported. These bytes belong to no field, but are passed on together with the bytes of the head. Without a caller, all
/// digits are 0.
const CALLER_BYTES: usize = 16;

/// Assigns requests to traces.
#[derive(Debug)]
pub(super) struct Traces {
    ratio: SampleRatio,
    numbers: Numbers,
    /// Whether the id of the caller's span is kept for sampled requests.
    keeps_callers: bool,
}

/// The place of a sampled request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TracePlace {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    /// The span of the caller; zeros without a caller.
    pub(super) parent: [u8; 8],
}

/// The caller's values of a request.
#[derive(Clone, Copy)]
struct Given {
    trace: [u8; 32],
    parent: [u8; CALLER_BYTES],
    flags: u8,
}

impl Traces {
    /// Creates the ids of one process. It must run in the process that uses them: after a fork, both processes would give the
    /// same ids.
    pub(super) fn new(ratio: SampleRatio) -> Self {
        Self { ratio, numbers: Numbers::seeded(), keeps_callers: false }
    }

    /// Sets whether ids of callers are kept, because spans are exported.
    pub(super) fn keeping_callers(self, keeps_callers: bool) -> Self {
        Self { keeps_callers, ..self }
    }

    /// Whether a request with the server's field is sampled.
    #[inline]
    pub(super) fn is_sampled(head: &RequestHead<'_>) -> bool {
        parent_line(head).and_then(|value| value.of(head.bytes()).last()).is_some_and(|digit| digit & SAMPLED == SAMPLED)
    }

    /// The place of a request that has the server's field and the kept id of its caller; `None` for any other request.
    pub(super) fn place_of(head: &RequestHead<'_>) -> Option<TracePlace> {
        let value = parent_line(head)?;
        let end = value.end as usize;
        let (text, caller) = (value.of(head.bytes()), head.bytes().get(end..end + CALLER_BYTES)?);
        Some(TracePlace { trace: number(text.get(TRACE)?)?, span: number(text.get(PARENT_ID)?)?, parent: number(caller)? })
    }

    /// The trace and the span of a request with the server's field.
    pub(super) fn of<'b>(head: &RequestHead<'b>) -> Option<TraceIds<'b>> {
        let value = head.fields().find(|(known, ..)| is_parent(*known)).map(|(_, _, value)| value)?;
        Some(TraceIds { trace: value.get(TRACE)?, span: value.get(PARENT_ID)? })
    }

    /// Assigns a place to a request whose head is in `input`, or in `text` if `text` is not empty. Afterwards the head is in
    /// `text`.
    pub(super) fn place(&mut self, layout: &mut HeadLayout, input: &[u8], text: &mut Vec<u8>, forwarding: Forwarding) {
        if text.is_empty() {
            text.extend_from_slice(input);
        }
        self.place_in(layout, text, forwarding);
    }

    /// Like [`Traces::place`], for a head in memory of its own, `bytes`.
    pub(super) fn place_in(&mut self, layout: &mut HeadLayout, bytes: &mut Vec<u8>, forwarding: Forwarding) {
        let given = if forwarding == Forwarding::Removed { None } else { given(&RequestHead::new(bytes, layout)) };
        layout.fields.retain(|line| match line.known {
            Some(KnownField::Traceparent) => false,
            Some(KnownField::Tracestate) => given.is_some(),
            _ => true,
        });
        let Given { trace, parent, flags } = given.unwrap_or_else(|| self.begin());
        let span = self.numbers.span();
        let start = bytes.len();
        bytes.extend_from_slice(PARENT);
        let between = bytes.len();
        bytes.extend_from_slice(b"00-");
        bytes.extend_from_slice(&trace);
        bytes.push(b'-');
        bytes.extend_from_slice(&span);
        bytes.extend_from_slice(&[b'-', b'0', b'0' + flags]);
        let (name, value) = (Span::new(start, between), Span::new(between, bytes.len()));
        if self.keeps_callers && flags & SAMPLED == SAMPLED {
            bytes.extend_from_slice(&parent);
        }
        layout.fields.push(FieldLayout { name, value, known: Some(KnownField::Traceparent) });
    }

    /// Begins a new trace, and decides whether the trace is recorded.
    fn begin(&mut self) -> Given {
        let (trace, draw) = self.numbers.trace();
        Given { trace, parent: [b'0'; CALLER_BYTES], flags: if self.ratio.includes(draw) { SAMPLED } else { 0 } }
    }
}

/// The value of a hexadecimal digit, as this server writes it.
const fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The span of the value of the server's own field, which was added last.
#[inline]
fn parent_line(head: &RequestHead<'_>) -> Option<Span> {
    head.layout().fields.iter().rev().find(|line| is_parent(line.known)).map(|line| line.value)
}

/// The bytes of hexadecimal digits.
fn number<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let (pairs, _) = digits.as_chunks::<2>();
    let mut bytes = [0; BYTES];
    if pairs.len() != BYTES {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value_of(*high)? << 4 | value_of(*low)?;
    }
    Some(bytes)
}

fn is_parent(known: Option<KnownField>) -> bool {
    known == Some(KnownField::Traceparent)
}

/// The trace, the span and the flags that arrived with a request, if there is exactly one valid field.
fn given(head: &RequestHead<'_>) -> Option<Given> {
    let mut values = head.fields().filter(|(known, ..)| is_parent(*known)).map(|(_, _, value)| value);
    let only = values.next().filter(|_| values.next().is_none())?;
    read(only)
}

/// Reads a `traceparent`. Of a later version, reads only the parts of version 00, with which all versions begin.
fn read(value: &[u8]) -> Option<Given> {
    let is_hex = |range: std::ops::Range<usize>| value[range].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |range: std::ops::Range<usize>| value[range].iter().all(|&byte| byte == b'0');
    if value.len() < LENGTH || [2, 35, 52].iter().any(|&place| value[place] != b'-') {
        return None;
    }
    let (version, more) = (&value[..2], &value[LENGTH..]);
    let ends = more.is_empty() || version != b"00" && more[0] == b'-';
    let proper = [0..2, TRACE, PARENT_ID, FLAGS].into_iter().all(is_hex);
    if !ends || !proper || version == b"ff" || is_zero(TRACE) || is_zero(PARENT_ID) {
        return None;
    }
    let flags = u8::from_str_radix(str::from_utf8(&value[FLAGS]).ok()?, 16).ok()?;
    let (trace, parent) = (value[TRACE].try_into().ok()?, value[PARENT_ID].try_into().ok()?);
    Some(Given { trace, parent, flags: flags & KNOWN_FLAGS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_proto::h1;
    use std::collections::HashSet;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// The values of both fields after a request with these lines has been placed.
    fn placed(traces: &mut Traces, lines: &str, forwarding: Forwarding) -> (String, Vec<String>) {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}Accept: b\r\n\r\n");
        let (mut layout, mut copy) = (HeadLayout::default(), Vec::new());
        h1::Machine::new().handle_input(bytes.as_bytes(), &mut layout, &h1::Limits::default());
        traces.place(&mut layout, bytes.as_bytes(), &mut copy, forwarding);
        let head = RequestHead::new(&copy, &layout);
        assert_eq!((head.method(), head.target()), (&b"GET"[..], &b"/"[..]));
        let values = |wanted: &[u8]| -> Vec<String> {
            let fields = head.fields().filter(|(_, name, _)| name.eq_ignore_ascii_case(wanted));
            fields.map(|(_, _, value)| String::from_utf8_lossy(value).into_owned()).collect()
        };
        let parents = values(PARENT);
        assert_eq!(parents.len(), 1, "{parents:?}");
        let ids = Traces::of(&head).expect("it was placed");
        assert_eq!((ids.trace, ids.span), (&parents[0].as_bytes()[TRACE], &parents[0].as_bytes()[PARENT_ID]));
        assert!(read(parents[0].as_bytes()).is_some() && parents[0].len() == LENGTH, "{parents:?}");
        (parents[0].clone(), values(b"tracestate"))
    }

    fn all() -> Traces {
        Traces::new(SampleRatio::ALL)
    }

    #[test]
    fn a_proper_parent_keeps_its_trace_its_state_and_its_flags() {
        let state = "tracestate: a=1,b=2\r\nTracestate: c=3\r\n";
        for (given, flags) in [
            (GIVEN.to_owned(), "01"),
            (GIVEN.replace("-01", "-00"), "00"),
            (GIVEN.replace("-01", "-03"), "03"),
            (GIVEN.replace("-01", "-ff"), "03"),
            (GIVEN.replacen("00", "01", 1), "01"),
            (format!("{}-more-to-come", GIVEN.replacen("00", "cc", 1)), "01"),
        ] {
            for forwarding in [Forwarding::Kept, Forwarding::Believed] {
                let (parent, states) = placed(&mut all(), &format!("TraceParent: {given}\r\n{state}"), forwarding);
                assert_eq!((&parent[..36], &parent[52..]), (&format!("00-{}-", &GIVEN[TRACE])[..], &format!("-{flags}")[..]));
                assert_ne!(parent[PARENT_ID], GIVEN[PARENT_ID], "the app's parent is this server");
                assert_eq!(states, ["a=1,b=2", "c=3"]);
            }
            let (parent, states) = placed(&mut all(), &format!("traceparent: {given}\r\n{state}"), Forwarding::Removed);
            assert!(parent[TRACE] != GIVEN[TRACE] && states.is_empty(), "{parent} {states:?}");
        }
    }

    #[test]
    fn whatever_else_is_replaced_and_its_state_removed() {
        let (trace, span) = (&GIVEN[TRACE], &GIVEN[PARENT_ID]);
        let mut wrong: Vec<String> = [
            "".to_owned(),
            "x".repeat(55),
            format!("{GIVEN}-"),
            format!("{GIVEN}0"),
            format!("{GIVEN} x"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("01-{trace}-{span}-01x"),
            format!("{GIVEN},{GIVEN}"),
            format!("00-{trace}-{span}-0g"),
            format!("00-{trace}-{span}-+1"),
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01\u{e9}".to_owned(),
        ]
        .into();
        wrong.extend((1..LENGTH).map(|cut| GIVEN[..cut].to_owned()));
        wrong.extend((0..LENGTH).map(|place| format!("{}\"{}", &GIVEN[..place], &GIVEN[place + 1..])));
        let mut seen = HashSet::new();
        let mut traces = all();
        for wrong in wrong {
            let (parent, states) =
                placed(&mut traces, &format!("traceparent: {wrong}\r\ntracestate: a=1\r\n"), Forwarding::Kept);
            assert!(states.is_empty() && parent.ends_with("-01"), "{wrong:?}: {parent} {states:?}");
            assert!(parent[TRACE] != *trace && seen.insert(parent[TRACE].to_owned()), "{wrong:?}: {parent}");
        }
        let twice = format!("traceparent: {GIVEN}\r\ntraceparent: {GIVEN}\r\ntracestate: a=1\r\n");
        let (parent, states) = placed(&mut traces, &twice, Forwarding::Kept);
        assert!(parent[TRACE] != *trace && states.is_empty(), "two are not one");
        let (_, states) = placed(&mut traces, "tracestate: a=1\r\n", Forwarding::Kept);
        assert!(states.is_empty(), "{states:?}");
    }

    #[test]
    fn the_caller_of_a_sampled_request_is_kept_behind_its_field_if_spans_are_told() {
        let place = |lines: &str, keeps: bool, ratio: SampleRatio| {
            let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let (mut layout, mut copy) = (HeadLayout::default(), Vec::new());
            h1::Machine::new().handle_input(bytes.as_bytes(), &mut layout, &h1::Limits::default());
            Traces::new(ratio).keeping_callers(keeps).place(&mut layout, bytes.as_bytes(), &mut copy, Forwarding::Kept);
            let head = RequestHead::new(&copy, &layout);
            (Traces::is_sampled(&head), Traces::place_of(&head), copy.len() - bytes.len())
        };
        let line = format!("traceparent: {GIVEN}\r\n");
        let (sampled, told, added) = place(&line, true, SampleRatio::ALL);
        let told = told.expect("it has a place");
        assert!(sampled && added == PARENT.len() + LENGTH + CALLER_BYTES);
        assert_eq!(told.parent, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        assert_eq!(told.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
        assert!(told.span != told.parent && told.span != [0; 8]);
        assert_eq!(place("", true, SampleRatio::ALL).1.expect("it has a place").parent, [0; 8], "nobody has called");
        let none = SampleRatio::parse("0").expect("a ratio");
        for (lines, keeps, ratio, sampled) in [
            (&*line, false, SampleRatio::ALL, true),
            (&line.replace("-01", "-00"), true, SampleRatio::ALL, false),
            ("", true, none, false),
            (&line.replace("-01", "-02"), true, none, false),
        ] {
            assert_eq!(place(lines, keeps, ratio), (sampled, None, PARENT.len() + LENGTH), "{lines} {keeps}");
        }
    }

    #[test]
    fn so_many_new_traces_are_sampled_as_was_said_and_all_of_callers_stay() {
        for (text, range) in [("0", 0..=0), ("1", 10_000..=10_000), ("0.25", 2_200..=2_800)] {
            let mut traces = Traces::new(SampleRatio::parse(text).expect("a ratio"));
            let sampled = (0..10_000).filter(|_| traces.begin().flags == SAMPLED).count();
            assert!(range.contains(&sampled), "{text}: {sampled}");
            for flags in ["00", "01"] {
                let line = format!("traceparent: {}{flags}\r\n", &GIVEN[..53]);
                assert!(placed(&mut traces, &line, Forwarding::Kept).0.ends_with(flags));
            }
        }
    }
}
