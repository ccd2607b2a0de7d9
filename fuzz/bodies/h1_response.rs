//! Properties of all responses that an app can give.

use oribi_message::{FieldPair, HeadLayout, ResponseHead};
use oribi_proto::h1::{Finish, Limits, Machine, Preset, Refusal};

const PRESET: Preset<'static> = Preset {
    date: b"Date: now\r\n",
    server: b"Server: Oribi\r\n",
    policy: b"Strict-Transport-Security: max-age=1\r\n",
    ok: b"",
    compressed: b"",
    prepared: None,
    id: None,
    timing: b"",
    until_close: false,
};

/// Fields of the app that are not passed on, or whose lines the machine writes itself.
const OWN: &[&str] = &["connection", "keep-alive", "proxy-connection", "trailer", "content-length"];

/// Takes numbers and texts from the bytes of the fuzzer. When these are used up, numbers are zero and texts are empty.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = usize::from(self.byte()).min(most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

/// A name and a value.
type Field = (Vec<u8>, Vec<u8>);

/// The response as a strict client reads it.
#[derive(Debug)]
struct ClientView {
    status: u16,
    fields: Vec<Field>,
    content: Vec<u8>,
    trailers: Vec<Field>,
    /// Whether the response is complete according to its own framing, without the end of the connection.
    whole: bool,
    until_close: bool,
}

impl ClientView {
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|field| field.0.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| &value[..])
    }
}

/// Answers a request as `data` says and reads the answer as a client does.
pub fn check(data: &[u8]) {
    let mut source = Source(data);
    let options = source.byte();
    let said = |bit: u8| options & 1 << bit != 0;
    let (head_only, old, close, in_content) = (said(0), said(1), said(2), said(3));
    let mut machine = machine(head_only, old, close, in_content);
    let mut out = Vec::new();
    if said(4) {
        inform(&mut machine, &mut source, old);
    }

    let status = u16::from_be_bytes([source.byte() % 4, source.byte()]);
    let count = source.byte() % 8;
    let fields = (0..count).map(|_| (source.bytes(48), source.bytes(64))).collect::<Vec<FieldPair<'_>>>();
    let pieces = (0..source.byte() % 6).map(|_| source.bytes(255)).collect::<Vec<_>>();
    let size = pieces.iter().map(|piece| piece.len() as u64).sum();
    let length = said(5).then_some(size);
    let before = format!("{machine:?}");
    let head = ResponseHead { status, fields: &fields };
    if machine.write_head(head, length, !said(6), &PRESET, &mut out).is_err() {
        assert_eq!((out.len(), format!("{machine:?}")), (0, before), "an invalid head leaves no trace");
        machine.write_refusal(Refusal::INTERNAL, &PRESET, &mut out);
        let seen = read(&out, head_only);
        assert!(seen.status == 500 && seen.whole && seen.value("connection") == Some(b"close") && machine.must_close());
        return;
    }
    assert!((200..1000).contains(&status));
    let (mut offered, mut sent_trailers) = (Vec::new(), Vec::new());
    for piece in &pieces {
        let sent = machine.write_content_prefix(piece.len() as u64, &mut out) as usize;
        out.extend_from_slice(&piece[..sent]);
        if sent > 0 {
            machine.write_content_suffix(&mut out);
        }
        offered.extend_from_slice(piece);
    }

    let unfinished = read(&out, head_only);
    check_fields(&unfinished, &fields, status);
    let bodiless = head_only || matches!(status, 204 | 205 | 304);
    let closing = machine.must_close();
    assert_eq!(closing, unfinished.value("connection").is_some_and(|value| value.starts_with(b"close")) || (old && closing));
    let must_close = close || said(6) || in_content || unfinished.until_close || closes(&fields);
    assert_eq!(closing, must_close);
    assert!(unfinished.value("transfer-encoding").is_none() || !(old || bodiless));

    if said(7) {
        let trailers = (0..source.byte() % 4).map(|_| (source.bytes(24), source.bytes(24))).collect::<Vec<FieldPair<'_>>>();
        let before = (out.len(), format!("{machine:?}"));
        match machine.write_trailers(&trailers, &mut out) {
            Ok(()) => sent_trailers = trailers,
            Err(_) => assert_eq!((out.len(), format!("{machine:?}")), before, "invalid trailers leave no trace"),
        }
    }
    let finish = machine.finish(&mut out);
    let seen = read(&out, head_only);
    if seen.value("transfer-encoding").is_some() {
        let sent: Vec<_> = sent_trailers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        assert_eq!(seen.trailers, sent, "trailers are the app's");
        let harmful =
            |(name, _): &(Vec<u8>, Vec<u8>)| name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"host");
        assert!(!seen.trailers.iter().any(harmful));
    }
    if bodiless {
        assert!(seen.content.is_empty() && seen.whole);
        assert_eq!(finish, if closing { Finish::Close } else { Finish::Reuse });
    } else {
        match finish {
            Finish::Short { missing } => {
                assert!(!seen.whole && !seen.until_close && seen.content == offered, "too short must not look whole");
                assert_eq!(promised(&seen), Some(offered.len() as u64 + missing));
            }
            Finish::Over => {
                assert!(seen.whole && offered.len() > seen.content.len() && offered.starts_with(&seen.content));
                assert_eq!(promised(&seen), Some(seen.content.len() as u64));
            }
            Finish::Close | Finish::Reuse => {
                assert_eq!(seen.content, offered);
                assert!(seen.whole != seen.until_close);
                assert_eq!(finish == Finish::Close, closing);
            }
        }
        // An unfinished response looks complete only if it has a length and the length is reached.
        assert!(!unfinished.whole || promised(&unfinished).is_some());
    }
    assert_eq!(machine.awaits_head(), finish == Finish::Reuse);
    assert_eq!(machine.must_close(), finish != Finish::Reuse);
}

/// Returns a machine that has read a request with these properties.
fn machine(head_only: bool, old: bool, close: bool, in_content: bool) -> Machine {
    let request = [
        if head_only { "HEAD / " } else { "GET / " },
        if old { "HTTP/1.0\r\nHost: a\r\n" } else { "HTTP/1.1\r\nHost: a\r\n" },
        if close == old {
            ""
        } else if close {
            "Connection: close\r\n"
        } else {
            "Connection: keep-alive\r\n"
        },
        if in_content { "Content-Length: 5\r\n" } else { "" },
        "\r\n",
    ]
    .concat();
    let mut machine = Machine::new();
    let step = machine.handle_input(request.as_bytes(), &mut HeadLayout::default(), &Limits::default());
    assert_eq!((step.consumed, machine.must_close(), machine.request_complete()), (request.len(), close, !in_content));
    machine
}

/// Sends an informational response first.
fn inform(machine: &mut Machine, source: &mut Source<'_>, old: bool) {
    let status = u16::from(source.byte());
    let fields = [(source.bytes(48), source.bytes(64))];
    let mut out = Vec::new();
    match machine.write_informational(status, &fields, &mut out) {
        Ok(()) if old => assert!(out.is_empty()),
        Ok(()) => {
            let seen = read(&out, true);
            assert!(seen.status == status && seen.fields.len() <= 1 && (100..200).contains(&status) && status != 101);
            assert!(seen.fields.iter().all(|field| (&field.0[..], &field.1[..]) == fields[0]));
        }
        Err(_) => assert!(out.is_empty()),
    }
}

/// Checks that the fields are those of the app, in the same order, with the server's fields around them.
fn check_fields(seen: &ClientView, fields: &[FieldPair<'_>], status: u16) {
    assert_eq!(seen.status, status);
    let is = |name: &[u8], other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let mut wanted = Vec::new();
    let policy = ("strict-transport-security", ("Strict-Transport-Security", "max-age=1"));
    for (name, line) in [("date", ("Date", "now")), ("server", ("Server", "Oribi")), policy] {
        if !fields.iter().any(|field| is(field.0, name)) {
            wanted.push((line.0.as_bytes().to_vec(), line.1.as_bytes().to_vec()));
        }
    }
    let passed = fields.iter().filter(|field| !OWN.iter().any(|own| is(field.0, own)));
    wanted.extend(passed.map(|(name, value)| (name.to_vec(), value.to_vec())));
    let framing = &seen.fields[wanted.len()..];
    assert_eq!(seen.fields[..wanted.len()], wanted);
    let names = framing.iter().map(|field| String::from_utf8_lossy(&field.0)).collect::<Vec<_>>();
    assert!(
        matches!(
            &names.iter().map(|name| &**name).collect::<Vec<_>>()[..],
            [] | ["Content-Length" | "Transfer-Encoding" | "Connection"]
                | ["Content-Length" | "Transfer-Encoding", "Connection"]
        ),
        "{names:?}"
    );
}

/// Whether the app closes the connection.
fn closes(fields: &[FieldPair<'_>]) -> bool {
    let mut options = fields
        .iter()
        .filter(|field| field.0.eq_ignore_ascii_case(b"connection"))
        .flat_map(|field| field.1.split(|&byte| byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

fn promised(seen: &ClientView) -> Option<u64> {
    std::str::from_utf8(seen.value("content-length")?).ok()?.parse().ok()
}

/// Reads `out`, which must be exactly one response, strictly by RFC 9112.
fn read(out: &[u8], head_only: bool) -> ClientView {
    let end = out.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of the head");
    let mut lines = lines(&out[..end + 2]).into_iter();
    let status_line = lines.next().expect("a status line");
    let (version, rest) = status_line.split_at(9);
    assert_eq!(version, b"HTTP/1.1 ");
    let status = std::str::from_utf8(&rest[..3]).expect("digits").parse().expect("a status");
    assert!(rest[3] == b' ' && rest[4..].iter().all(|byte| matches!(byte, b' '..=b'~')));
    let mut fields = Vec::new();
    lines.for_each(|line| fields.push(field(line)));
    let mut seen = ClientView { status, fields, content: Vec::new(), trailers: Vec::new(), whole: true, until_close: false };
    let rest = &out[end + 4..];
    if head_only || matches!(status, 100..=199 | 204 | 304) {
        assert!(rest.is_empty());
    } else if let Some(coding) = seen.value("transfer-encoding") {
        assert!(coding == b"chunked" && seen.value("content-length").is_none());
        (seen.content, seen.trailers, seen.whole) = dechunk(rest);
    } else if let Some(length) = promised(&seen) {
        assert!(rest.len() as u64 <= length);
        seen.whole = rest.len() as u64 == length;
        seen.content = rest.to_vec();
    } else {
        (seen.whole, seen.until_close, seen.content) = (false, true, rest.to_vec());
    }
    seen
}

/// Parses a field line. The name must be a token, and the value must not have control bytes.
fn field(line: &[u8]) -> Field {
    let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
    let (name, value) = (&line[..colon], line[colon + 1..].strip_prefix(b" ").expect("a space"));
    assert!(!name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte)));
    assert!(value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()));
    (name.to_vec(), value.to_vec())
}

/// Splits at CR LF; no other CR or LF may occur.
fn lines(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        assert!(bytes[end..].starts_with(b"\r\n"));
        lines.push(&bytes[..end]);
        bytes = &bytes[end + 2..];
    }
    assert!(bytes.is_empty());
    lines
}

/// The content of chunks, the trailers, and whether the last chunk is there.
fn dechunk(mut bytes: &[u8]) -> (Vec<u8>, Vec<Field>, bool) {
    let mut content = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(2).position(|window| window == b"\r\n").expect("the end of a size");
        let digits = std::str::from_utf8(&bytes[..end]).expect("digits");
        assert!(!digits.starts_with(['0', '+']) || digits == "0");
        let size = usize::from_str_radix(digits, 16).expect("a size");
        let data = &bytes[end + 2..];
        if size == 0 {
            let trailers = data.strip_suffix(b"\r\n").expect("the empty line at the end");
            return (content, lines(trailers).into_iter().map(field).collect(), true);
        }
        content.extend_from_slice(&data[..size]);
        bytes = data[size..].strip_prefix(b"\r\n").expect("the end of a chunk");
    }
    (content, Vec::new(), false)
}
