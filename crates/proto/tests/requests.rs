//! Reads every request of the corpus whole, byte by byte and cut in two at every place: the result is always the same.
//!
//! The files in `corpus/requests` hold cases like this one:
//!
//! ```text
//! == a case, by what it shows
//! ! head_bytes 100
//! > GET /a?b HTTP/1.1\r\n
//! > Host: {3*x}\r\n\r\n
//! < GET /a?b HTTP/1.1
//! < target origin /a ?b
//! < field Host: xxx
//! < kept
//! ```
//!
//! `!` sets a limit. The `>` lines are the bytes that arrive, one after the other, with the escapes `\r`, `\n`, `\t`, `\\`,
//! `\xHH`, and `{N*text}` for N times the text. The `<` lines are the expected events; see `transcript`. `target` and `field`
//! lines and the reason after a status are compared where a case has them.

mod cases;
mod transcript;

use cases::{Case, unescape};
use oribi_proto::h1::Limits;
use transcript::{Item, read};

fn limits_of(case: &Case) -> Limits {
    let mut limits = Limits::default();
    for line in case.lines("! ") {
        let (name, value) = line.split_once(' ').expect("a limit and its value");
        let value: u64 = value.parse().expect("a number");
        match name {
            "head_bytes" => limits.head_bytes = value as usize,
            "fields" => limits.fields = value as usize,
            "target_bytes" => limits.target_bytes = value as usize,
            "strict_target" => limits.strict_target = value != 0,
            "content_bytes" => limits.content_bytes = value,
            "chunk_line_bytes" => limits.chunk_line_bytes = value as usize,
            "chunk_extra_bytes" => limits.chunk_extra_bytes = value as usize,
            "trailer_bytes" => limits.trailer_bytes = value as usize,
            _ => panic!("{}: there is no limit {name}", case.name),
        }
    }
    limits
}

/// The events, in the words and the detail of the case.
fn describe(items: &[Item], wanted: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    let mentions = |what: &str| wanted.iter().any(|line| line.starts_with(what));
    for item in items {
        lines.push(match item {
            Item::Refused { status, reason, .. } if mentions(&format!("{status} ")) => format!("{status} {reason}"),
            item => item.to_string(),
        });
        if let Item::Head(head) = item {
            if mentions("target ") {
                lines.push(head.describe_target());
            }
            if mentions("field ") {
                lines.extend(head.describe_fields());
            }
        }
    }
    lines
}

fn check(case: &Case) {
    let limits = limits_of(case);
    let bytes = case.lines("> ").flat_map(unescape).collect::<Vec<_>>();
    let wanted = case.lines("< ").collect::<Vec<_>>();
    assert!(!wanted.is_empty(), "{}: nothing is expected", case.name);
    let whole = read([&bytes[..]], &limits);
    assert_eq!(describe(&whole, &wanted), wanted, "{}", case.name);
    assert_eq!(read(bytes.chunks(1), &limits), whole, "{}, byte by byte", case.name);
    for place in 0..=bytes.len() {
        let (front, back) = bytes.split_at(place);
        assert_eq!(read([front, back], &limits), whole, "{}, cut at {place}", case.name);
    }
    for size in [2, 3, 5, 7, 16, 17] {
        assert_eq!(read(bytes.chunks(size), &limits), whole, "{}, {size} at a time", case.name);
    }
    if let Some(Item::Refused { status, reason, answer }) = whole.last() {
        let answer = String::from_utf8_lossy(answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{}: {answer}", case.name);
        assert!(answer.contains("\r\nConnection: close\r\n"), "{}: {answer}", case.name);
        let bodiless = !answer.ends_with(&format!("{reason}\n"));
        assert_eq!(bodiless, answer.ends_with("\r\n\r\n"), "{}: {answer}", case.name);
    }
}

/// One test for each file, so that they run side by side and a failure names its topic.
macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test]
        fn $topic() {
            let file = concat!("requests/", stringify!($topic), ".txt");
            cases::all(file, include_str!(concat!("corpus/requests/", stringify!($topic), ".txt"))).iter().for_each(check);
        })*

        #[test]
        fn the_corpus_is_all_there() {
            let mut files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/requests"))
                .expect("the corpus")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
                .collect::<Vec<_>>();
            files.sort();
            assert_eq!(files, [$(concat!(stringify!($topic), ".txt")),*]);
            let count = [$(include_str!(concat!("corpus/requests/", stringify!($topic), ".txt"))),*]
                .iter()
                .flat_map(|text| text.lines())
                .filter(|line| line.starts_with("== "))
                .count();
            assert!(count >= 300, "{count} cases");
        }
    };
}

topics! { chunked connection expect fields framing host limits lines methods ordinary targets trailers versions }
