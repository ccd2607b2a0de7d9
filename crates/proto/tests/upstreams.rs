//! Reads every response of the corpus of upstreams whole, byte by byte and cut in two at every place: the result is always the
//! same.
//!
//! The files in `corpus/upstream` hold cases like this one; escapes are those of `requests`:
//!
//! ```text
//! == the name of a case
//! ! method HEAD
//! > HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n
//! < 200 with 0
//! < field Content-Length: 5
//! < end, kept
//! ```
//!
//! `!` describes the request (`method`, by default GET, or `none`; `upgrades`; `unfinished`) or sets a limit. The `>` lines are the
//! bytes that arrive before the upstream closes the connection. The `<` lines are the expected events; see
//! `upstream_transcript`. `field` lines are compared where a case has them.

mod cases;
mod upstream_transcript;

use cases::{Case, unescape};
use oribi_proto::h1::Limits;
use upstream_transcript::{Asked, Item, read};

fn fields_of(item: &Item) -> &[(String, String)] {
    match item {
        Item::Interim(_, fields) | Item::Head(_, _, fields) => fields,
        _ => &[],
    }
}

fn check(case: &Case) {
    let mut limits = Limits { content_bytes: u64::MAX, ..Limits::default() };
    let mut asked = Asked { method: Some("GET"), upgrades: false, unfinished: false };
    for line in case.lines("! ") {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let number = || value.parse::<usize>().expect("a number");
        match name {
            "method" => asked.method = (value != "none").then_some(value),
            "upgrades" => asked.upgrades = true,
            "unfinished" => asked.unfinished = true,
            "head_bytes" => limits.head_bytes = number(),
            "fields" => limits.fields = number(),
            "content_bytes" => limits.content_bytes = number() as u64,
            "chunk_line_bytes" => limits.chunk_line_bytes = number(),
            "chunk_extra_bytes" => limits.chunk_extra_bytes = number(),
            "trailer_bytes" => limits.trailer_bytes = number(),
            _ => panic!("{}: there is no {name}", case.name),
        }
    }
    let bytes = case.lines("> ").flat_map(unescape).collect::<Vec<_>>();
    let wanted = case.lines("< ").collect::<Vec<_>>();
    let whole = read(asked, [&bytes[..]], &limits);
    let with_fields = wanted.iter().any(|line| line.starts_with("field "));
    let mut lines = Vec::new();
    for item in &whole {
        lines.push(item.to_string());
        if with_fields {
            lines.extend(fields_of(item).iter().map(|(name, value)| format!("field {name}: {value}")));
        }
    }
    assert_eq!(lines, wanted, "{}", case.name);
    assert_eq!(read(asked, bytes.chunks(1), &limits), whole, "{}, byte by byte", case.name);
    for place in 0..=bytes.len() {
        let (front, back) = bytes.split_at(place);
        assert_eq!(read(asked, [front, back], &limits), whole, "{}, cut at {place}", case.name);
    }
    for size in [2, 3, 5, 7, 16, 17] {
        assert_eq!(read(asked, bytes.chunks(size), &limits), whole, "{}, {size} at a time", case.name);
    }
}

#[test]
fn hostile_responses() {
    cases::all("upstream/hostile.txt", include_str!("corpus/upstream/hostile.txt")).iter().for_each(check);
}

#[test]
fn ordinary_responses() {
    cases::all("upstream/ordinary.txt", include_str!("corpus/upstream/ordinary.txt")).iter().for_each(check);
}
