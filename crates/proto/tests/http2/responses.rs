//! Every HTTP/2 response of the corpus comes out frame by frame.
//!
//! The files in `corpus/h2/responses` hold cases like this one:
//!
//! ```text
//! == a case, by what it shows
//! open 1 GET
//! head 1 200 length 5
//! field Content-Type: text/plain
//! write 1 hello
//! finish 1
//! > HEADERS 1
//! > | size: 0
//! > | :status: 200
//! > | content-type: text/plain
//! > | content-length: 5
//! > DATA 1 end hello
//! = complete
//! ```
//!
//! `open` sends a request with the method, complete unless `open` follows it. `client` sends a frame of the client (see
//! `frames`). `head`, `informational` and `trailers` have the `field` lines after them; `preset` puts a Date and a Server in
//! front, `policy` a Strict-Transport-Security. `write` offers content until all of it is written or no more may be. If some is
//! left, an `=` line has the number of its bytes, and `blocked` or `dropped`. The result of `finish` also has an `=` line.
//! `invalid`: the head or trailers before it must be refused and leave no trace. `continue`, `refuse`, `reset`, `retire`,
//! `decide` (`retire_at_once`), `wait`, `next`, `consume` and `closing` call methods of the machine. The `>` lines are all
//! frames that the server must write from the first verb on, except the preface; `=` lines are the results of verbs and the
//! events.

use crate::cases::{self, Case, unescape};
use crate::frames;
use oribi_message::{FieldPair, HeadLayout, PreparedFields, ResponseHead};
use oribi_proto::h2::{Admission, ErrorCode, Event, Finish, Limits, Machine, Preset, Refusal, compress_preset};

/// A head or trailers with their fields, as the lines of a case give them.
struct Head {
    verb: String,
    id: u32,
    rest: String,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Run {
    machine: Machine,
    limits: Limits,
    out: Vec<u8>,
    said: Vec<String>,
    head: Option<Head>,
    preset: bool,
    policy: &'static [u8],
    compressed: &'static [u8],
}

impl Run {
    fn new() -> Self {
        let limits = Limits { connect_protocol: true, ..Limits::default() };
        let machine = Machine::new(&limits);
        let mut run = Self {
            machine,
            limits,
            out: Vec::new(),
            said: Vec::new(),
            head: None,
            preset: false,
            policy: b"",
            compressed: b"",
        };
        run.send(frames::PREFACE);
        run.out.clear();
        run
    }

    /// Lets the machine read all of this, and notes its events except heads and contents.
    fn send(&mut self, mut bytes: &[u8]) {
        let (mut text, mut layout) = (Vec::new(), HeadLayout::default());
        loop {
            let step = self.machine.handle_input(bytes, &mut text, &mut layout, &self.limits);
            bytes = &bytes[step.consumed..];
            match step.event {
                Event::NeedInput => return assert_eq!(bytes, b""),
                Event::Answer => self.machine.write_answer(&self.limits, &mut self.out),
                Event::Head { .. } | Event::Content { .. } | Event::End { .. } => {}
                Event::Reset { id, .. } => self.said.push(format!("{id} reset")),
                Event::Room => self.said.push("room".to_owned()),
                event => panic!("{event:?}"),
            }
        }
    }

    fn line(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            ">" | "=" => {}
            "field" => {
                let (name, value) = rest.split_once(':').expect("a colon");
                let value = value.strip_prefix(' ').unwrap_or(value);
                self.head.as_mut().expect("a head").fields.push((unescape(name), unescape(value)));
            }
            "invalid" => self.flush(true),
            _ => {
                self.flush(false);
                let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
                self.verb(verb, first.parse().unwrap_or(0), behind, rest);
            }
        }
    }

    fn verb(&mut self, verb: &str, id: u32, rest: &str, all: &str) {
        match verb {
            "open" => {
                let (method, open) = rest.split_once(' ').map_or((rest, false), |(method, _)| (method, true));
                let mut block = frames::literal(0, b":method", method.as_bytes());
                if method == "CONNECT" {
                    block.extend(frames::literal(0, b":protocol", b"websocket"));
                }
                block.extend(b"\x86\x84\x01\x01a");
                if rest.ends_with("expects") {
                    block.extend(frames::literal(0, b"expect", b"100-continue"));
                }
                let flags = if open { 4 } else { 5 };
                self.send(&frames::Frame::new(frames::HEADERS, flags, id, &block).to_bytes());
            }
            "client" => self.send(&frames::encode([all], unescape)),
            "preset" => self.preset = true,
            "policy" => self.policy = b"Strict-Transport-Security: max-age=1\r\n",
            "head" | "informational" | "trailers" => {
                self.head = Some(Head { verb: verb.to_owned(), id, rest: rest.to_owned(), fields: Vec::new() });
            }
            "continue" => self.machine.write_continue(id, &mut self.out),
            "write" => {
                let mut piece = &unescape(rest)[..];
                loop {
                    match self.machine.write_content_prefix(id, piece.len() as u64, &mut self.out) {
                        Admission::Bytes(admitted) => {
                            let (now, rest) = piece.split_at(admitted as usize);
                            self.out.extend_from_slice(now);
                            piece = rest;
                        }
                        Admission::Blocked => return self.said.push(format!("{} blocked", piece.len())),
                        Admission::Dropped if piece.is_empty() => return,
                        Admission::Dropped => return self.said.push(format!("{} dropped", piece.len())),
                    }
                }
            }
            "finish" => {
                let finish = self.machine.finish(id, &mut self.out);
                self.said.push(match finish {
                    Finish::Complete => "complete".to_owned(),
                    Finish::Short { missing } => format!("short {missing}"),
                    Finish::Over => "over".to_owned(),
                });
            }
            "refuse" => self.machine.write_refusal(id, Refusal::INTERNAL, &self.preset(None), &mut self.out),
            "reset" => self.machine.reset(id, ErrorCode::CANCEL, &mut self.out),
            "retire" => self.machine.retire(&mut self.out),
            "decide" => self.machine.retire_at_once(&mut self.out),
            "wait" => self.machine.set_waiting(id, true),
            "next" => self.said.push(format!("next {:?}", self.machine.next_to_send())),
            "consume" => self.machine.consume(id, rest.parse().expect("a size"), &mut self.out),
            "closing" => self.said.push(format!("closing {}", self.machine.must_close())),
            _ => panic!("there is no verb {verb}"),
        }
    }

    /// Writes the head whose fields are complete now.
    fn flush(&mut self, invalid: bool) {
        let Some(Head { verb, id, rest, fields }) = self.head.take() else { return assert!(!invalid, "nothing to refuse") };
        self.machine.open_tunnel(id);
        let before = (self.out.clone(), format!("{:?}", self.machine));
        let fields = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect::<Vec<FieldPair<'_>>>();
        let prepared = PreparedFields::new(&[(b"Vary", b"Accept")]).expect("valid fields");
        let preset = self.preset(Some(&prepared));
        let (status, length) = rest.split_once(" length ").map_or((&rest[..], None), |(status, length)| (status, Some(length)));
        let length = length.map(|length| length.parse().expect("a length"));
        let status = status.parse().unwrap_or(0);
        let result = match &verb[..] {
            "head" => self.machine.write_head(id, ResponseHead { status, fields: &fields }, length, &preset, &mut self.out),
            "informational" => self.machine.write_informational(id, status, &fields, &mut self.out),
            _ => self.machine.write_trailers(id, &fields, &mut self.out),
        };
        assert_eq!(result.is_err(), invalid, "{status} {result:?}");
        if invalid {
            assert_eq!((self.out.clone(), format!("{:?}", self.machine)), before, "what is invalid leaves no trace");
        }
    }

    fn preset<'p>(&self, prepared: Option<&'p PreparedFields>) -> Preset<'p> {
        let policy = self.policy;
        if !self.preset {
            return Preset { policy, ..Preset::default() };
        }
        Preset { policy, compressed: self.compressed, prepared, ..STAMP }
    }
}

const STAMP: Preset<'static> = Preset {
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

/// The result must not depend on whether Date and Server were compressed in advance.
fn check(case: &Case) {
    let mut compressed = Vec::new();
    compress_preset(&STAMP, &mut compressed);
    assert!(!compressed.is_empty());
    for compressed in [b"", &*compressed.leak()] {
        check_with(case, compressed);
    }
}

fn check_with(case: &Case, compressed: &'static [u8]) {
    let mut run = Run::new();
    run.compressed = compressed;
    run.send(&frames::Frame::new(frames::SETTINGS, 0, 0, &[]).to_bytes());
    run.out.clear();
    case.lines("").for_each(|line| run.line(line));
    run.flush(false);
    let found = frames::decode(&run.out).iter().flat_map(frames::lines).collect::<Vec<_>>();
    let repeats = |line: &str| line.split('{').skip(1).any(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    let expand = |line: &str| if repeats(line) { unescape(line).escape_ascii().to_string() } else { line.to_owned() };
    assert_eq!(found, case.lines("> ").map(expand).collect::<Vec<_>>(), "{}", case.name);
    assert_eq!(run.said, case.lines("= ").collect::<Vec<_>>(), "{}", case.name);
}

macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test]
        fn $topic() {
            let file = concat!("h2/responses/", stringify!($topic), ".txt");
            cases::all(file, include_str!(concat!("../corpus/h2/responses/", stringify!($topic), ".txt"))).iter().for_each(check);
        })*
    };
}

topics! { contents ends heads interim invalid leaving refusals trailers windows }
