//! Every response of the corpus comes out byte for byte.
//!
//! The files in `corpus/responses` hold cases like this one:
//!
//! ```text
//! == a case, by what it shows
//! ? GET / HTTP/1.1\r\n
//! ? Host: a\r\n\r\n
//! continue
//! inform 103
//! head 200 length 5
//! field Content-Type: text/plain
//! write hello
//! finish
//! > HTTP/1.1 200 OK\r\n
//! = reuse
//! ```
//!
//! `?` lines are the request, `GET / HTTP/1.1` with a Host if there are none. `head` is followed by the status and, in any
//! order, `length N`, `closing` (the server wants to close), `preset` (a Date and a Server are given), `policy` (a
//! Strict-Transport-Security is given) and `until-close` (no chunks); the `field` lines after it are the app's, and so are
//! those after `trailers`. `invalid`: the head or trailers before it must be refused and leave no trace. `refuse NAME` is the
//! server's own answer. The `>` lines are all expected bytes, `=` is the expected fate of the connection.

mod cases;

use cases::{Case, unescape};
use oribi_message::{FieldPair, HeadLayout, ResponseHead};
use oribi_proto::h1::{
    Finish, InvalidResponse, Limits, Machine, Preset, Refusal, check_head, check_informational, check_trailers,
};

const PRESET: Preset<'static> = Preset {
    date: b"Date: now\r\n",
    server: b"Server: Oribi\r\n",
    policy: b"",
    ok: b"",
    compressed: b"",
    prepared: None,
    id: None,
    timing: b"",
    until_close: false,
};
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nDate: now\r\nServer: Oribi\r\n";
const POLICY: &[u8] = b"Strict-Transport-Security: max-age=1\r\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A head with its fields, as the lines of a case give it.
struct Head {
    words: Vec<String>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Run {
    machine: Machine,
    out: Vec<u8>,
    head: Option<Head>,
    refused: bool,
    finish: Option<Finish>,
    /// Whether the preset also has the beginning of a 200 in one piece.
    ok: bool,
}

impl Run {
    fn new(case: &Case, ok: bool) -> Self {
        let mut request = case.lines("? ").flat_map(unescape).collect::<Vec<_>>();
        if request.is_empty() {
            request = REQUEST.to_vec();
        }
        let mut machine = Machine::new();
        let (mut layout, mut place) = (HeadLayout::default(), 0);
        loop {
            let step = machine.handle_input(&request[place..], &mut layout, &Limits::default());
            place += step.consumed;
            if step.consumed == 0 {
                break;
            }
        }
        Self { machine, out: Vec::new(), head: None, refused: false, finish: None, ok }
    }

    fn line(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "?" | ">" | "=" => {}
            "field" => {
                let (name, value) = rest.split_once(':').expect("a colon");
                let value = value.strip_prefix(' ').unwrap_or(value);
                self.head.as_mut().expect("a head").fields.push((unescape(name), unescape(value)));
            }
            "invalid" => {
                self.flush(true);
            }
            _ => {
                self.flush(false);
                self.verb(verb, rest);
            }
        }
    }

    fn verb(&mut self, verb: &str, rest: &str) {
        match verb {
            "head" | "inform" | "trailers" => {
                let words = [verb].into_iter().chain(rest.split(' ')).map(str::to_owned).collect();
                self.head = Some(Head { words, fields: Vec::new() });
            }
            "write" => {
                let piece = unescape(rest);
                let sent = self.machine.write_content_prefix(piece.len() as u64, &mut self.out) as usize;
                self.out.extend_from_slice(&piece[..sent]);
                if sent > 0 {
                    self.machine.write_content_suffix(&mut self.out);
                }
            }
            "continue" => self.machine.write_continue(&mut self.out),
            "finish" => {
                assert_eq!(self.finish, None);
                self.finish = Some(self.machine.finish(&mut self.out));
            }
            "refuse" => {
                let (rest, is_secure) = rest.strip_suffix(" policy").map_or((rest, false), |rest| (rest, true));
                let refusal = match rest {
                    "HEAD_TIMEOUT" => Refusal::HEAD_TIMEOUT,
                    "CONTENT_TIMEOUT" => Refusal::CONTENT_TIMEOUT,
                    "CONTENT_SIZE" => Refusal::CONTENT_SIZE,
                    "INTERNAL" => Refusal::INTERNAL,
                    "OVERLOADED" => Refusal::OVERLOADED,
                    "DESCRIPTORS" => Refusal::DESCRIPTORS,
                    "STORAGE" => Refusal::STORAGE,
                    _ => panic!("there is no refusal {rest}"),
                };
                let policy = if is_secure { POLICY } else { b"" };
                self.machine.write_refusal(refusal, &Preset { policy, ..PRESET }, &mut self.out);
                self.refused = true;
            }
            _ => panic!("there is no verb {verb}"),
        }
    }

    /// Writes the head whose fields are complete now.
    fn flush(&mut self, invalid: bool) {
        let Some(Head { words, fields }) = self.head.take() else { return assert!(!invalid, "nothing to refuse") };
        let before = (self.out.clone(), format!("{:?}", self.machine));
        let result = self.write(&words, &fields);
        assert_eq!(result.is_err(), invalid, "{words:?} {result:?}");
        if invalid {
            assert_eq!((self.out.clone(), format!("{:?}", self.machine)), before, "what is invalid leaves no trace");
        }
    }

    fn write(&mut self, words: &[String], fields: &[(Vec<u8>, Vec<u8>)]) -> Result<(), InvalidResponse> {
        let fields = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect::<Vec<FieldPair<'_>>>();
        if words[0] == "trailers" {
            let written = self.machine.write_trailers(&fields, &mut self.out);
            if written != Err(InvalidResponse("trailers before the response began")) {
                assert_eq!(written, check_trailers(&fields));
            }
            return written;
        }
        let status = words[1].parse().expect("a status");
        if words[0] == "inform" {
            let written = self.machine.write_informational(status, &fields, &mut self.out);
            agrees(&written, check_informational(status, &fields));
            return written;
        }
        let place = words.iter().position(|word| word == "length");
        let length = place.map(|place| words[place + 1].parse().expect("a length"));
        let said = |what: &str| words.iter().any(|word| word == what);
        let ok = if self.ok { OK } else { b"" };
        let preset = if said("preset") { Preset { ok, ..PRESET } } else { Preset::default() };
        let policy = if said("policy") { POLICY } else { b"" };
        let preset = Preset { until_close: said("until-close"), policy, ..preset };
        let head = ResponseHead { status, fields: &fields };
        let written = self.machine.write_head(head, length, !said("closing"), &preset, &mut self.out);
        agrees(&written, check_head(&head));
        written
    }
}

/// Checks that a process that has only the head accepts or refuses it as the process that writes it does. (That process also
/// knows what was written before.)
fn agrees(written: &Result<(), InvalidResponse>, checked: Result<(), InvalidResponse>) {
    match written {
        Err(InvalidResponse("the response has already begun" | "no request to answer")) => {}
        written => assert_eq!(*written, checked),
    }
}

/// The result must not depend on whether the beginning of a response was put together in advance.
fn check(case: &Case) {
    [false, true].into_iter().for_each(|ok| check_with(case, ok));
}

fn check_with(case: &Case, ok: bool) {
    let mut run = Run::new(case, ok);
    case.lines("").for_each(|line| run.line(line));
    run.flush(false);
    let wanted = case.lines("> ").flat_map(unescape).collect::<Vec<_>>();
    assert_eq!(run.out.escape_ascii().to_string(), wanted.escape_ascii().to_string(), "{}", case.name);
    let fate = match run.finish {
        Some(Finish::Reuse) => "reuse".to_owned(),
        Some(Finish::Close) => "close".to_owned(),
        Some(Finish::Short { missing }) => format!("short {missing}"),
        Some(Finish::Over) => "over".to_owned(),
        None if run.refused => "refused".to_owned(),
        None => "open".to_owned(),
    };
    assert_eq!(case.lines("= ").collect::<Vec<_>>(), [&fate], "{}", case.name);
    if run.finish.is_some() {
        let reuse = fate == "reuse";
        assert_eq!((run.machine.awaits_head(), run.machine.must_close()), (reuse, !reuse), "{}", case.name);
        let next = run.machine.handle_input(REQUEST, &mut HeadLayout::default(), &Limits::default());
        assert_eq!(next.consumed > 0, reuse, "{}: a connection is read again only if it is used again", case.name);
    }
}

macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test]
        fn $topic() {
            let file = concat!("responses/", stringify!($topic), ".txt");
            cases::all(file, include_str!(concat!("corpus/responses/", stringify!($topic), ".txt"))).iter().for_each(check);
        })*
    };
}

topics! { connections contents heads interim invalid refusals trailers }
