//! Reads every FastCGI connection of the corpus whole, byte by byte, cut in two at every place, and, if it is short, cut in
//! three at every two places: the result is always the same. In a very long connection, only every hundredth place within
//! contents is tried.
//!
//! The files in `corpus/fcgi/requests` hold cases like this one; those with the name of a web server were recorded from it:
//!
//! ```text
//! == a case, by what it shows
//! ! requests 1
//! > BEGIN_REQUEST 1 responder keep
//! > PARAMS 1 +4
//! > | REQUEST_METHOD=GET
//! > PARAMS 1
//! > STDIN 1 +3 hello
//! > STDIN 1
//! < 1 begin responder keep
//! < 1 GET / HTTP/1.1
//! < 1 stdin hello
//! < 1 stdin end
//! < 1 complete
//! ```
//!
//! `!` sets a limit; with `! hold` no request is answered, otherwise each is answered when it is complete. The `>` lines are
//! records: type, id, `+` and the length of the padding if there is any, and the content with the escapes `\r`, `\n`, `\t`,
//! `\\`, `\xHH`, and `{N*text}` for N times the text. A record may be given by the number of its type; `raw` marks bytes that
//! are not a record. `|` lines are name-value pairs of the record before them. The `<` lines are the expected events; see
//! `fastcgi_transcript`. `target`, `field` and `variable` lines are compared if a case has them.

mod cases;
mod fastcgi_transcript;
mod records;

use cases::{Case, unescape};
use fastcgi_transcript::{Item, What, read};
use oribi_proto::fcgi::Limits;

/// Connections up to this size are cut at every two places.
const SHORT_BYTES: usize = 300;

/// Connections of at least this size are not cut at every place within contents.
const LONG_BYTES: usize = 10_000;

fn limits_of(case: &Case) -> Limits {
    let mut limits = Limits::default();
    for line in case.lines("! ").filter(|line| *line != "hold") {
        let (name, value) = line.split_once(' ').expect("a limit and its value");
        let value: u64 = value.parse().expect("a number");
        match name {
            "connections" => limits.connections = value as u32,
            "requests" => limits.requests = value as u16,
            "params_bytes" => limits.params_bytes = value as usize,
            "pairs" => limits.pairs = value as usize,
            "target_bytes" => limits.target_bytes = value as usize,
            "strict_target" => limits.strict_target = value != 0,
            "content_bytes" => limits.content_bytes = value,
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
            if mentions("variable") {
                lines.extend(head.describe_variables(*id));
            }
        }
    }
    lines
}

fn check(case: &Case) {
    let limits = limits_of(case);
    let hold = case.lines("! ").any(|line| line == "hold");
    let bytes = records::encode(case.lines("> "), unescape);
    // Only repetitions are written otherwise than they are sent, so they are expanded.
    let repeats = |line: &str| line.split('{').skip(1).any(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    let expand = |line: &str| if repeats(line) { unescape(line).escape_ascii().to_string() } else { line.to_owned() };
    let wanted = case.lines("< ").map(expand).collect::<Vec<_>>();
    assert!(!wanted.is_empty(), "{}: nothing is expected", case.name);
    let whole = read([&bytes[..]], &limits, hold);
    assert_eq!(describe(&whole, &wanted), wanted, "{}", case.name);
    assert_eq!(read(bytes.chunks(1), &limits, hold), whole, "{}, byte by byte", case.name);
    // Long contents consist of `x` only.
    let within = |place: usize| place >= 16 && bytes[place - 16..].starts_with(&[b'x'; 32]);
    for place in 0..=bytes.len() {
        if bytes.len() >= LONG_BYTES && within(place) && place % 100 > 0 {
            continue;
        }
        let (front, back) = bytes.split_at(place);
        assert_eq!(read([front, back], &limits, hold), whole, "{}, cut at {place}", case.name);
        if bytes.len() <= SHORT_BYTES {
            for second in 0..=back.len() {
                let (middle, back) = back.split_at(second);
                assert_eq!(read([front, middle, back], &limits, hold), whole, "{}, cut at {place}, {second}", case.name);
            }
        }
    }
    for size in [2, 3, 5, 7, 8, 16, 17] {
        assert_eq!(read(bytes.chunks(size), &limits, hold), whole, "{}, {size} at a time", case.name);
    }
}

/// One test for each file, so that they run side by side and a failure names its topic.
macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test]
        fn $topic() {
            let file = concat!("fcgi/requests/", stringify!($topic), ".txt");
            cases::all(file, include_str!(concat!("corpus/fcgi/requests/", stringify!($topic), ".txt"))).iter().for_each(check);
        })*

        #[test]
        fn the_corpus_is_all_there() {
            let mut files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/fcgi/requests"))
                .expect("the corpus")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
                .collect::<Vec<_>>();
            files.sort();
            assert_eq!(files, [$(concat!(stringify!($topic), ".txt")),*]);
        }
    };
}

topics! { aborts apache cgi_fcgi fields interleaved lighttpd management nginx records roles targets variables violations }
