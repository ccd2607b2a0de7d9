//! Tests the lines of all formats.

use super::*;
use crate::{Ending, TraceIds};
use oribi_config::AccessPattern;
use oribi_host::Endpoint;
use oribi_message::{FieldLayout, HeadLayout, RequestHead, Span, Version};
use std::time::{Duration, UNIX_EPOCH};

/// A head with arbitrary parts, which also stands for hostile heads that no parser would accept.
struct Head {
    bytes: Vec<u8>,
    layout: HeadLayout,
}

impl Head {
    fn new(method: &[u8], path: &[u8], query: Option<&[u8]>, fields: &[(&str, &[u8])]) -> Self {
        let mut head = Self { bytes: Vec::new(), layout: HeadLayout { version: Version::Http11, ..HeadLayout::default() } };
        head.layout.method = head.add(method);
        head.layout.path = head.add(path);
        head.layout.target = head.layout.path;
        if let Some(query) = query {
            head.add(b"?");
            let query = head.add(query);
            head.layout.query = Some(query);
            head.layout.target.end = query.end;
        }
        for (name, value) in fields {
            let (known, name) = (KnownField::lookup(name.as_bytes()), head.add(name.as_bytes()));
            let value = head.add(value);
            head.layout.fields.push(FieldLayout { name, value, known });
        }
        head
    }

    fn add(&mut self, part: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(part);
        Span::new(start, self.bytes.len())
    }

    fn view(&self) -> RequestHead<'_> {
        RequestHead::new(&self.bytes, &self.layout)
    }
}

const PARTS: PartDurations = PartDurations {
    queue: Duration::from_micros(250),
    first: Duration::from_micros(1500),
    app: Duration::from_micros(999_000),
    send: Duration::from_micros(873),
};

fn usual() -> Head {
    Head::new(b"GET", b"/a", Some(b"b"), &[("User-Agent", b"curl/8"), ("Cookie", b"a=1; SID=\"x\";b"), ("X-Id", b"7")])
}

fn entry(head: &Head) -> AccessEntry<'_> {
    AccessEntry {
        user: None,
        remote: "127.0.0.1",
        remote_port: "40044",
        peer: "192.0.2.1",
        earlier: Some(3),
        ending: Ending::Persists,
        server: Some(Endpoint { address: b"localhost", port: b"8080" }),
        head: Some(head.view()),
        id: None,
        trace: None,
        status: 200,
        bytes_sent: 13,
        noted: None,
        parts: Some(PARTS),
        time: UNIX_EPOCH + Duration::from_millis(784_111_777_123),
        duration: Duration::from_micros(1_000_123),
    }
}

fn unread<'a>() -> AccessEntry<'a> {
    AccessEntry {
        user: None,
        remote: "",
        remote_port: "0",
        peer: "",
        earlier: None,
        ending: Ending::Closes,
        server: None,
        head: None,
        id: None,
        trace: None,
        status: 400,
        bytes_sent: 0,
        noted: None,
        parts: None,
        time: UNIX_EPOCH + Duration::from_millis(784_111_777_123),
        duration: Duration::from_micros(1_000_123),
    }
}

fn line(format: &AccessFormat, entry: &AccessEntry<'_>) -> String {
    let mut line = Vec::new();
    append_entry(format, entry, &mut DateCache::new(), &mut line);
    String::from_utf8(line).expect("UTF-8")
}

fn by(pattern: &str, entry: &AccessEntry<'_>) -> String {
    line(&AccessFormat::Pattern(AccessPattern::parse(pattern).expect(pattern)), entry)
}

#[test]
fn formats() {
    let common = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 13";
    let head = usual();
    assert_eq!(line(&AccessFormat::Common, &entry(&head)), common);
    assert_eq!(line(&AccessFormat::Combined, &entry(&head)), format!("{common} \"-\" \"curl/8\""));
    assert_eq!(line(&AccessFormat::Rack, &entry(&head)), format!("{common} 1.0001"));
    assert_eq!(
        line(&AccessFormat::Json, &entry(&head)),
        "{\"time\":\"1994-11-06T08:49:37.123Z\",\"remote\":\"127.0.0.1\",\"method\":\"GET\",\"target\":\"/a?b\",\
         \"version\":\"HTTP/1.1\",\"user_agent\":\"curl/8\",\"status\":200,\"bytes\":13,\"duration\":1.000123,\
         \"queue\":0.000250,\"first\":0.001500,\"app\":0.999000,\"send\":0.000873}"
    );
}

#[test]
fn the_usual_formats_are_patterns_too() {
    let head = usual();
    for entry in [entry(&head), AccessEntry { bytes_sent: 0, ..entry(&head) }, unread()] {
        assert_eq!(by("%h %l %u %{}t \"%r\" %>s %b", &entry), line(&AccessFormat::Common, &entry));
        let combined = "%a %l %u [%{%d/%b/%Y:%T %z}t] \\\"%r\\\" %s %b \\\"%{Referer}i\\\" \\\"%{User-agent}i\\\"";
        assert_eq!(by(combined, &entry), line(&AccessFormat::Combined, &entry));
        let uwsgi = "%(addr) - %(user) [%(ltime)] \"%(method)";
        assert!(line(&AccessFormat::Common, &entry).starts_with(&by(uwsgi, &entry)));
    }
}

#[test]
fn directives() {
    let head = usual();
    for (pattern, read, not_read) in [
        ("%m %U%q %H", "GET /a?b HTTP/1.1", "- - -"),
        ("%(uri) %(proto)", "/a?b HTTP/1.1", "- -"),
        ("%v:%p %V", "localhost:8080 localhost", "-:- -"),
        ("%B %b %T %D %{ms}T %{us}T", "13 13 1 1000123 1000 1000123", "0 - 1 1000123 1000 1000123"),
        ("%t", "[06/Nov/1994:08:49:37 +0000]", "[06/Nov/1994:08:49:37 +0000]"),
        ("%{end:%T}t.%{end:msec_frac}t", "08:49:38.123", "08:49:38.123"),
        ("%{sec}t.%{usec_frac}t %{msec}t", "784111777.123000 784111777123", "784111777.123000 784111777123"),
        ("%{x-ID}i %{x-none}i %(var.HTTP_X_ID)", "7 - 7", "- - -"),
        ("%{sid}C %{a}C %{b}C %{ }t", "\\\"x\\\" 1 -  ", "- - -  "),
        ("%400,404s %!400s", "- 200", "400 -"),
        ("%{c}a:%{remote}p %{local}p", "192.0.2.1:40044 8080", "-:- -"),
        ("%k %X", "3 +", "- -"),
        ("%{REMOTE_ADDR}e %(var.REQUEST_URI)", "127.0.0.1 /a?b", "- -"),
    ] {
        assert_eq!(by(pattern, &entry(&head)), read, "{pattern}");
        assert_eq!(by(pattern, &unread()), not_read, "{pattern}");
    }
    assert_eq!(by("%P", &unread()), std::process::id().to_string());
    let named = Head::new(b"GET", b"/", None, &[("Host", b"a.example:81")]);
    assert_eq!(by("%V%q|", &entry(&named)), "a.example:81|");
}

#[test]
fn fields_of_responses() {
    let pattern = AccessPattern::parse("%{Content-Type}o %{x-id}o %500{x-id}o").expect("it is right");
    let fields: [FieldPair<'_>; 3] = [(b"X-ID", b"a\nb"), (b"content-type", b"text/plain"), (b"x-id", b"c")];
    let noted = note(&pattern, &fields.iter().copied()).expect("it has such fields");
    let head = usual();
    let format = AccessFormat::Pattern(pattern);
    assert_eq!(line(&format, &AccessEntry { noted: Some(&noted), ..entry(&head) }), "text/plain a\\nb -");
    assert_eq!(line(&format, &entry(&head)), "- - -");
    let without = AccessPattern::parse("%h").expect("it is right");
    assert!(note(&without, &fields.iter().copied()).is_none());
}

#[test]
fn ids_of_requests() {
    let head = usual();
    for (id, quoted, object) in [
        (None, "-", ""),
        (Some(&b"4b1c-9"[..]), "4b1c-9", "\"request_id\":\"4b1c-9\","),
        // Ids from clients contain no such bytes.
        (Some(b"a\"\n\\"), "a\\\"\\n\\\\", "\"request_id\":\"a\\\"\\n\\\\\","),
    ] {
        let entry = AccessEntry { id, ..entry(&head) };
        assert_eq!(by("%L", &entry), quoted);
        let line = line(&AccessFormat::Json, &entry);
        assert!(line.contains(&format!("\"remote\":\"127.0.0.1\",{object}\"method\"")), "{line}");
    }
}

#[test]
fn parts_of_the_time() {
    let head = usual();
    assert_eq!(by("%{queue}T %{first:ms}T %{app:ms}T %{app:s}T %{send:us}T", &entry(&head)), "250 1 999 0 873");
    assert_eq!(by("%{queue}T %{app:ms}T", &unread()), "- -");
}

#[test]
fn requests_that_could_not_be_read() {
    assert_eq!(line(&AccessFormat::Common, &unread()), "- - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 -");
    assert_eq!(
        line(&AccessFormat::Json, &unread()),
        "{\"time\":\"1994-11-06T08:49:37.123Z\",\"status\":400,\"bytes\":0,\"duration\":1.000123}"
    );
}

#[test]
fn places_in_traces() {
    let head = usual();
    let pattern = "%{trace_id}n %200{span_id}n";
    assert_eq!(by(pattern, &entry(&head)), "- -");
    let trace = Some(TraceIds { trace: b"0af7651916cd43dd8448eb211c80319c", span: b"b7ad6b7169203331" });
    let entry = AccessEntry { trace, ..entry(&head) };
    assert_eq!(by(pattern, &entry), "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331");
    let object = line(&AccessFormat::Json, &entry);
    let told = "\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"span_id\":\"b7ad6b7169203331\",\"method\"";
    assert!(object.contains(told), "{object}");
}

#[test]
fn nothing_from_outside_ends_a_line_or_a_text() {
    let hostile = b"\" 200 1\n127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1\r\0\x1b\\\xff";
    let fields: [(&str, &[u8]); 4] = [("Referer", hostile), ("User-Agent", hostile), ("x", hostile), ("Host", hostile)];
    let head = Head::new(hostile, hostile, Some(hostile), &fields);
    let noted = Noted(vec![hostile.to_vec()]);
    let entry = AccessEntry { noted: Some(&noted), ..entry(&head) };
    let pattern = "\"%r\" \"%m\" \"%U%q\" \"%{x}i\" \"%V\" \"%{a}o\" \"%(uri)\"";
    let pattern = AccessFormat::Pattern(AccessPattern::parse(pattern).expect("it is right"));
    for (format, quotes) in [(AccessFormat::Common, 2), (AccessFormat::Combined, 6), (AccessFormat::Json, 42), (pattern, 14)] {
        let line = line(&format, &entry);
        assert_eq!(line.matches(|character: char| character.is_control()).count(), 0, "{line}");
        let bare = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(bare.matches('"').count(), quotes, "{line}");
    }
}

#[test]
fn what_becomes_of_connections_and_who_writes() {
    let head = usual();
    for (ending, shown) in [(Ending::Aborted, "X"), (Ending::Persists, "+"), (Ending::Closes, "-")] {
        assert_eq!(by("%X", &AccessEntry { ending, ..entry(&head) }), shown);
    }
    let thread = rustix::thread::gettid().as_raw_nonzero();
    assert_eq!(by("%{tid}P %{hextid}P", &entry(&head)), format!("{thread} {thread:x}"));
}

#[test]
fn a_user_is_logged_where_others_have_a_dash() {
    let head = usual();
    let entry = AccessEntry { user: Some(b"al \"x\" \n"), ..entry(&head) };
    assert!(
        line(&AccessFormat::Common, &entry).starts_with("127.0.0.1 - al \\\"x\\\" \\n ["),
        "{}",
        line(&AccessFormat::Common, &entry)
    );
    assert!(
        line(&AccessFormat::Json, &entry).contains(",\"user\":\"al \\\"x\\\" \\n\","),
        "{}",
        line(&AccessFormat::Json, &entry)
    );
    assert_eq!(by("%u %l", &entry), "al \\\"x\\\" \\n -");
    assert_eq!(by("%(user) %{REMOTE_USER}e", &AccessEntry { user: Some(b""), ..entry }), "- -");
}
