//! Which responses are encoded, and their fields.

use oribi_encode::{Coding, Filter, HeadWriter, MediaRange, Outcome, RequestFacts, Settings};
use oribi_message::{FieldPair, ResponseHead};

use Outcome::{Encode, NotModified, Skip, Vary};

/// A request with these values of Accept-Encoding.
fn accepting(filter: &Filter, values: &[&str]) -> RequestFacts {
    filter.read_request(b"GET", values.iter().map(|value| value.as_bytes()), std::iter::empty(), false)
}

fn pairs<'a>(fields: &[(&'a str, &'a str)]) -> Vec<FieldPair<'a>> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

/// The decision of a filter with default settings, for a client that decodes gzip.
fn decide(status: u16, fields: &[(&str, &str)], size: Option<u64>) -> Outcome {
    let filter = Filter::default();
    filter.decide(accepting(&filter, &["gzip"]), status, &pairs(fields), size)
}

const HTML: (&str, &str) = ("Content-Type", "text/html; charset=utf-8");
const ENCODED: Outcome = Encode(Coding::Gzip);

#[test]
fn responses_of_the_types_are_encoded() {
    assert_eq!(decide(200, &[HTML], Some(5000)), ENCODED);
    assert_eq!(decide(200, &[("content-type", " Application/JSON ;charset=x")], Some(5000)), ENCODED);
    assert_eq!(decide(404, &[HTML], Some(5000)), ENCODED);
    assert_eq!(decide(200, &[("Content-Type", "image/png")], Some(5000)), Skip);
    assert_eq!(decide(200, &[("Content-Type", "text/event-stream")], None), Skip);
    assert_eq!(decide(200, &[("Content-Type", "")], Some(5000)), Skip);
    assert_eq!(decide(200, &[], Some(5000)), Skip);
    assert_eq!(decide(200, &[HTML, HTML], Some(5000)), Skip);
}

#[test]
fn sizes_decide_if_they_are_known() {
    const MOST: u64 = 1024 * 1024;
    for (size, expected) in [
        (Some(0), Skip),
        (Some(1023), Skip),
        (Some(1024), ENCODED),
        (Some(MOST), ENCODED),
        (Some(MOST + 1), Skip),
        (None, ENCODED),
    ] {
        assert_eq!(decide(200, &[HTML], size), expected, "{size:?}");
        let text = size.map(|size| size.to_string());
        let fields: Vec<_> = [HTML].into_iter().chain(text.as_deref().map(|text| ("Content-Length", text))).collect();
        assert_eq!(decide(200, &fields, None), expected, "{size:?} in the field");
    }
    assert_eq!(decide(200, &[HTML, ("content-length", "10")], Some(5000)), ENCODED, "the caller knows better");
    assert_eq!(decide(200, &[HTML, ("Content-Length", "5000"), ("Content-Length", "5000")], None), Skip);
}

#[test]
fn responses_that_must_stay_as_they_are_are_skipped() {
    for status in [100, 101, 103, 199, 204, 205] {
        assert_eq!(decide(status, &[HTML], Some(5000)), Skip, "{status}");
    }
    for status in [206, 304] {
        assert_eq!(decide(status, &[HTML], Some(5000)), Vary, "the whole response varies: {status}");
    }
    assert_eq!(decide(206, &[("Content-Type", "image/png"), ("Content-Range", "bytes 0-1/2")], Some(2)), Skip);
    for field in [
        ("Content-Range", "bytes 0-4999/9000"),
        ("CONTENT-RANGE", "bytes */9000"),
        ("Content-Encoding", "gzip"),
        ("content-encoding", "identity, br"),
        ("Content-Encoding", "unknown"),
        ("Cache-Control", "no-transform"),
        ("cache-control", "max-age=60 , NO-TRANSFORM"),
        ("Signature-Input", "sig1=(\"content-length\")"),
    ] {
        assert_eq!(decide(200, &[HTML, field], Some(5000)), Skip, "{field:?}");
        assert_eq!(decide(200, &[field, HTML], Some(5000)), Skip, "{field:?}");
    }
    for field in [
        ("Content-Encoding", "identity"),
        ("Content-Encoding", ""),
        ("Cache-Control", "no-store, no-transformation"),
        ("X-Content-Range", "1"),
    ] {
        assert_eq!(decide(200, &[HTML, field], Some(5000)), ENCODED, "{field:?}");
    }
}

#[test]
fn other_clients_are_the_reason_to_vary() {
    let filter = Filter::default();
    for values in [&[][..], &["identity"], &["deflate"], &["gzip;q=0"]] {
        let request = accepting(&filter, values);
        assert_eq!(filter.decide(request, 200, &pairs(&[HTML]), Some(5000)), Vary, "{values:?}");
        assert_eq!(filter.decide(request, 200, &pairs(&[HTML]), Some(10)), Skip, "{values:?}");
        assert_eq!(filter.decide(request, 200, &pairs(&[("Content-Type", "image/png")]), Some(5000)), Skip);
    }
    let none = Filter::new(Settings { codings: Vec::new(), ..Settings::default() });
    assert_eq!(none.decide(accepting(&none, &["gzip"]), 200, &pairs(&[HTML]), Some(5000)), Skip);
}

#[test]
fn secrets_are_not_compressed_unless_settings_say_so() {
    let cookie = [HTML, ("Set-Cookie", "a=b")];
    for private in [false, true] {
        let filter = Filter::new(Settings { private, ..Settings::default() });
        let expected = if private { ENCODED } else { Vary };
        let values = || std::iter::once(&b"gzip"[..]);
        let secret = filter.read_request(b"GET", values(), std::iter::empty(), true);
        let open = filter.read_request(b"GET", values(), std::iter::empty(), false);
        assert_eq!(filter.decide(secret, 200, &pairs(&[HTML]), Some(5000)), expected);
        assert_eq!(filter.decide(open, 200, &pairs(&cookie), Some(5000)), expected);
        assert_eq!(filter.decide(open, 200, &pairs(&[HTML]), Some(5000)), ENCODED);
    }
}

#[test]
fn settings_choose_codings_types_and_sizes() {
    let settings = Settings {
        codings: vec![Coding::Gzip, Coding::Zstd],
        types: vec![MediaRange::parse("a/*").expect("valid"), MediaRange::parse("Text/Event-Stream").expect("valid")],
        min_size: 10,
        max_size: 20,
        private: false,
    };
    let filter = Filter::new(settings.clone());
    assert_eq!(filter.settings(), &settings);
    let request = accepting(&filter, &["zstd, gzip, br"]);
    for (media_type, size, expected) in [
        ("a/b", Some(10), ENCODED),
        ("A/b", Some(20), ENCODED),
        ("a/b", Some(9), Skip),
        ("a/b", Some(21), Skip),
        ("text/html", Some(15), Skip),
        ("text/event-stream", None, ENCODED),
    ] {
        assert_eq!(filter.decide(request, 200, &pairs(&[("Content-Type", media_type)]), size), expected, "{media_type}");
    }
    assert_eq!(
        filter.decide(accepting(&filter, &["br, zstd"]), 200, &pairs(&[("Content-Type", "a/b")]), None),
        Encode(Coding::Zstd)
    );
}

#[test]
fn the_method_counts_only_if_it_makes_a_tunnel() {
    let filter = Filter::default();
    for (method, expected) in [("GET", ENCODED), ("HEAD", ENCODED), ("POST", ENCODED), ("X", ENCODED), ("CONNECT", Skip)] {
        let request = filter.read_request(method.as_bytes(), std::iter::once(&b"gzip"[..]), std::iter::empty(), false);
        assert_eq!(filter.decide(request, 200, &pairs(&[HTML]), None), expected, "{method}");
    }
}

#[test]
fn a_304_is_changed_only_if_the_client_may_have_an_encoded_response() {
    let filter = Filter::default();
    for (condition, etag, expected) in [
        ("W/\"1~z\"", "\"1\"", NotModified),
        ("\"0\", W/\"1~z\"", "\"1\"", NotModified),
        ("W/\"1\"", "\"1\"", Vary),
        ("\"1\"", "\"1\"", Vary),
        ("*", "\"1\"", Vary),
        ("W/\"1\"", "W/\"1\"", Vary),
    ] {
        let request = filter.read_request(b"GET", std::iter::empty(), std::iter::once(condition.as_bytes()), false);
        assert_eq!(filter.decide(request, 304, &pairs(&[("ETag", etag)]), None), expected, "{condition} {etag}");
    }
    let changed = written(NotModified, 304, &[("ETag", "\"1\"")]);
    assert_eq!(changed, [("ETag", "W/\"1~z\""), ("Vary", "Accept-Encoding")].map(owned));
    let unchanged = written(Vary, 304, &[("ETag", "\"1\"")]);
    assert_eq!(unchanged, [("ETag", "\"1\""), ("Vary", "Accept-Encoding")].map(owned));
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn written(outcome: Outcome, status: u16, fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut heads = HeadWriter::default();
    let fields = pairs(fields);
    let mut write = || {
        heads.write(outcome, ResponseHead { status, fields: &fields }, |head| {
            assert_eq!(head.status, status);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("all is ASCII");
            head.fields.iter().map(|(name, value)| (text(name), text(value))).collect::<Vec<_>>()
        })
    };
    let first = write();
    assert_eq!(write(), first, "the memory of the last head is not visible");
    first
}

#[test]
fn an_encoded_response_has_no_field_of_the_unencoded_content() {
    let fields = [
        HTML,
        ("Content-Length", "5000"),
        ("content-length", "5000"),
        ("Content-Encoding", "identity"),
        ("Accept-Ranges", "bytes"),
        ("Content-MD5", "x"),
        ("Digest", "sha-256=x"),
        ("Repr-Digest", "sha-256=:x:"),
        ("content-digest", "sha-256=:x:"),
        ("ETag", "invalid"),
        ("Want-Repr-Digest", "sha-256=1"),
        ("X", "y"),
    ];
    let expected =
        [HTML, ("Want-Repr-Digest", "sha-256=1"), ("X", "y"), ("Content-Encoding", "zstd"), ("Vary", "Accept-Encoding")];
    assert_eq!(written(Encode(Coding::Zstd), 200, &fields), expected.map(owned));
    let unchanged: Vec<_> = fields.into_iter().chain([("Vary", "Accept-Encoding")]).map(owned).collect();
    assert_eq!(written(Vary, 200, &fields), unchanged);
    assert_eq!(written(Skip, 200, &fields), fields.map(owned));
}

#[test]
fn a_strong_tag_becomes_weak_only_if_the_content_is_encoded() {
    for (tag, encoded) in [("\"1\"", "W/\"1~z\""), ("\"\"", "W/\"~z\""), (" \"1\"", "W/\"1~z\""), ("W/\"1\"", "W/\"1\"")] {
        let rest = [("Content-Encoding", "br"), ("Vary", "Accept-Encoding")];
        let expected: Vec<_> = [("ETag", encoded)].into_iter().chain(rest).map(owned).collect();
        assert_eq!(written(Encode(Coding::Brotli), 200, &[("ETag", tag)]), expected);
        assert_eq!(written(Vary, 200, &[("ETag", tag)])[0], owned(("ETag", tag)));
    }
}

#[test]
fn vary_names_the_field_once() {
    for (before, after) in [
        (&[][..], &["Accept-Encoding"][..]),
        (&[""], &["Accept-Encoding"]),
        (&["Origin"], &["Origin, Accept-Encoding"]),
        (&["Origin,"], &["Origin, Accept-Encoding"]),
        (&["Accept-Encoding"], &["Accept-Encoding"]),
        (&["Origin, accept-ENCODING"], &["Origin, accept-ENCODING"]),
        (&["accept-encoding", "Origin"], &["accept-encoding", "Origin"]),
        (&["Origin", "Cookie"], &["Origin", "Cookie, Accept-Encoding"]),
        (&["*"], &["*"]),
        (&["*", "Origin"], &["*", "Origin"]),
        (&["Accept-Encodings"], &["Accept-Encodings, Accept-Encoding"]),
    ] {
        let fields: Vec<_> = before.iter().map(|value| ("vary", *value)).collect();
        let values: Vec<_> = written(Vary, 200, &fields).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, after, "{before:?}");
        let encoded = written(ENCODED, 200, &fields);
        let vary = encoded.iter().filter(|(name, _)| name.eq_ignore_ascii_case("vary")).map(|(_, value)| value);
        assert!(vary.eq(after), "{before:?}: {encoded:?}");
    }
}
