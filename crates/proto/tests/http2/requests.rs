//! Reads every HTTP/2 connection of the corpus whole, byte by byte, cut in two at every place, and, if it is short, cut in
//! three at every two places: the result is always the same.
//!
//! The files in `corpus/h2/requests` hold cases like this one:
//!
//! ```text
//! == a case, by what it shows
//! ! streams 1
//! > HEADERS 1
//! > | :method: POST
//! > | :scheme: http
//! > | :authority: a
//! > | :path: /
//! > DATA 1 end +3 hello
//! < 1 POST / HTTP/2.0
//! < 1 content hello
//! < 1 end
//! ```
//!
//! `!` sets a limit; with `! hold` no request is answered; with `! early` each request is answered when its head is there, and
//! otherwise when it is complete; `! bare` leaves out the preface and the SETTINGS that otherwise come first. The `>` lines are
//! frames: type, stream, flags, and the content; see `frames`. The `<` lines are the expected events; see `http2_transcript`.
//! `target` and `field` lines are compared if a case has them.

use crate::cases::{self, Case, unescape};
use crate::frames;
use crate::http2_transcript::{Item, Manner, What, read};
use oribi_proto::h2::Limits;

/// Connections up to this size are cut at every two places.
const SHORT_BYTES: usize = 160;

/// Connections from this size on are cut at every hundredth place only.
const LONG_BYTES: usize = 5_000;

fn limits_of(case: &Case) -> Limits {
    let mut limits = Limits::default();
    for line in case.lines("! ") {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let value: u64 = value.parse().expect("a number");
        match name {
            "streams" => limits.streams = value as u32,
            "head_bytes" => limits.head_bytes = value as usize,
            "fields" => limits.fields = value as usize,
            "target_bytes" => limits.target_bytes = value as usize,
            "strict_target" => limits.strict_target = value != 0,
            "content_bytes" => limits.content_bytes = value,
            "stream_window" => limits.stream_window = value as u32,
            "connection_window" => limits.connection_window = value as u32,
            "field_frames" => limits.field_frames = value as u8,
            "resets" => limits.resets = value as u16,
            "nuisances" => limits.nuisances = value as u32,
            "connect_protocol" => limits.connect_protocol = value != 0,
            _ => panic!("{}: there is no limit {name}", case.name),
        }
    }
    limits
}

/// The events, in the detail of the case.
fn describe(items: &[Item], wanted: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for item in items {
        lines.push(item.to_string());
        if let Item::Of(id, What::Head(head)) = item {
            let mentions = |what: &str| wanted.iter().any(|line| line.starts_with(&format!("{id} {what} ")));
            if mentions("target") {
                lines.push(head.describe_target(*id));
            }
            if mentions("field") {
                lines.extend(head.describe_fields(*id));
            }
        }
    }
    lines
}

fn check(case: &Case) {
    let limits = limits_of(case);
    let has = |word: &str| case.lines("! ").any(|line| line == word);
    let manner = match (has("hold"), has("early")) {
        (true, _) => Manner::Hold,
        (_, true) => Manner::Early,
        _ => Manner::Answer,
    };
    let front: &[&str] = if has("bare") { &[] } else { &["PREFACE", "SETTINGS 0"] };
    let bytes = frames::encode(front.iter().copied().chain(case.lines("> ")), unescape);
    // Only repetitions are written otherwise than they are sent, so they are expanded.
    let repeats = |line: &str| line.split('{').skip(1).any(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    let expand = |line: &str| if repeats(line) { unescape(line).escape_ascii().to_string() } else { line.to_owned() };
    let wanted = case.lines("< ").map(expand).collect::<Vec<_>>();
    assert!(!wanted.is_empty(), "{}: nothing is expected", case.name);
    let whole = read([&bytes[..]], &limits, manner);
    assert_eq!(describe(&whole, &wanted), wanted, "{}", case.name);
    assert_eq!(read(bytes.chunks(1), &limits, manner), whole, "{}, byte by byte", case.name);
    for place in 0..=bytes.len() {
        if bytes.len() >= LONG_BYTES && place % 100 > 0 {
            continue;
        }
        let (front, back) = bytes.split_at(place);
        assert_eq!(read([front, back], &limits, manner), whole, "{}, cut at {place}", case.name);
        if bytes.len() <= SHORT_BYTES {
            for second in 0..=back.len() {
                let (middle, back) = back.split_at(second);
                assert_eq!(read([front, middle, back], &limits, manner), whole, "{}, cut at {place}, {second}", case.name);
            }
        }
    }
    for size in [2, 3, 5, 7, 8, 9, 16, 17] {
        assert_eq!(read(bytes.chunks(size), &limits, manner), whole, "{}, {size} at a time", case.name);
    }
}

/// One test for each file, so that they run side by side and a failure names its topic.
macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test]
        fn $topic() {
            let file = concat!("h2/requests/", stringify!($topic), ".txt");
            cases::all(file, include_str!(concat!("../corpus/h2/requests/", stringify!($topic), ".txt"))).iter().for_each(check);
        })*

        #[test]
        fn the_corpus_is_all_there() {
            let mut files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/h2/requests"))
                .expect("the corpus")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
                .collect::<Vec<_>>();
            files.sort();
            assert_eq!(files, [$(concat!(stringify!($topic), ".txt")),*]);
        }
    };
}

topics! { connection content control fields floods ordinary pseudo streams trailers windows }
