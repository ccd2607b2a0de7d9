//! Lines of all formats.

use super::*;
use crate::config::AccessPattern;
use oribi_host::Endpoint;
use oribi_message::{FieldLayout, HeadLayout, RequestHead, Span, Version};
use std::time::{Duration, UNIX_EPOCH};

/// A head whose parts may be anything: what is hostile here need not have passed a parser.
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

fn usual() -> Head {
    Head::new(b"GET", b"/a", Some(b"b"), &[("User-Agent", b"curl/8"), ("Cookie", b"a=1; SID=\"x\";b"), ("X-Id", b"7")])
}

fn entry(head: &Head) -> AccessEntry<'_> {
    AccessEntry {
        remote: "127.0.0.1",
        server: Some(Endpoint { address: b"localhost", port: b"8080" }),
        head: Some(head.view()),
        status: 200,
        bytes_sent: 13,
        noted: &[],
        time: UNIX_EPOCH + Duration::from_millis(784_111_777_123),
        duration: Duration::from_micros(1_000_123),
    }
}

fn unread<'a>() -> AccessEntry<'a> {
    AccessEntry {
        remote: "",
        server: None,
        head: None,
        status: 400,
        bytes_sent: 0,
        noted: &[],
        time: UNIX_EPOCH + Duration::from_millis(784_111_777_123),
        duration: Duration::from_micros(1_000_123),
    }
}

fn line(format: &AccessFormat, entry: &AccessEntry<'_>) -> String {
    let mut line = Vec::new();
    append_entry(format, entry, &mut Stamp::new(), &mut line);
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
    assert_eq!(
        line(&AccessFormat::Json, &entry(&head)),
        "{\"time\":\"1994-11-06T08:49:37.123Z\",\"remote\":\"127.0.0.1\",\"method\":\"GET\",\"target\":\"/a?b\",\
         \"version\":\"HTTP/1.1\",\"user_agent\":\"curl/8\",\"status\":200,\"bytes\":13,\"duration\":1.000123}"
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
    assert_eq!(line(&format, &AccessEntry { noted: &noted, ..entry(&head) }), "text/plain a\\nb -");
    assert_eq!(line(&format, &entry(&head)), "- - -");
    let without = AccessPattern::parse("%h").expect("it is right");
    assert!(note(&without, &fields.iter().copied()).is_none());
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
fn nothing_from_outside_ends_a_line_or_a_text() {
    let hostile = b"\" 200 1\n127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1\r\0\x1b\\\xff";
    let fields: [(&str, &[u8]); 4] = [("Referer", hostile), ("User-Agent", hostile), ("x", hostile), ("Host", hostile)];
    let head = Head::new(hostile, hostile, Some(hostile), &fields);
    let noted = [hostile.to_vec()];
    let entry = AccessEntry { noted: &noted, ..entry(&head) };
    let pattern = "\"%r\" \"%m\" \"%U%q\" \"%{x}i\" \"%V\" \"%{a}o\" \"%(uri)\"";
    let pattern = AccessFormat::Pattern(AccessPattern::parse(pattern).expect("it is right"));
    for (format, quotes) in [(AccessFormat::Common, 2), (AccessFormat::Combined, 6), (AccessFormat::Json, 34), (pattern, 14)] {
        let line = line(&format, &entry);
        assert_eq!(line.matches(|character: char| character.is_control()).count(), 0, "{line}");
        let bare = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(bare.matches('"').count(), quotes, "{line}");
    }
}
