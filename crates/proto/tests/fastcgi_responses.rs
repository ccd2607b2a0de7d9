//! Every FastCGI response of the corpus comes out record by record.
//!
//! The files in `corpus/fcgi/responses` hold cases like this one:
//!
//! ```text
//! == a case, by what it shows
//! head 200 length 5
//! field Content-Type: text/plain
//! write hello
//! error something odd
//! finish
//! > STDOUT 1 +7 Status: 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello
//! > STDERR 1 +3 something odd
//! > STDERR 1
//! > STDOUT 1
//! > END_REQUEST 1 status 0 complete
//! = complete
//! ```
//!
//! The request has the id 1. `authorizer` before it makes it a request for that role, and `bodiless` a request with the method
//! HEAD. `policy` sets a Strict-Transport-Security. `head` is followed by the status and perhaps `length N`; the `field` lines
//! after it are the app's. `invalid`: the head or text before it must be refused and leaves no trace. `sent` empties the buffer
//! of the response, as when it has been sent. `finish` may be followed by a status. `refuse` is the server's own answer. The
//! `>` lines are all expected records, as in `fastcgi_requests`; `=` is the expected result of `finish`; a case without
//! `finish` has no such line.

mod cases;
mod records;

use cases::{Case, unescape};
use oribi_message::{FieldPair, ResponseHead, Role};
use oribi_proto::fcgi::{Finish, Preset, Refusal, ResponseWriter};

/// A head with its fields, as the lines of a case give it.
struct Head {
    status: u16,
    length: Option<u64>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Run {
    writer: ResponseWriter,
    sent: Vec<u8>,
    out: Vec<u8>,
    head: Option<Head>,
    policy: bool,
    finish: Option<Finish>,
}

impl Run {
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
                self.verb(verb, rest);
            }
        }
    }

    fn verb(&mut self, verb: &str, rest: &str) {
        match verb {
            "authorizer" => self.writer = ResponseWriter::new(1, Role::Authorizer),
            "policy" => self.policy = true,
            "bodiless" => self.writer.set_bodiless(true),
            "head" => {
                let (status, length) =
                    rest.split_once(" length ").map_or((rest, None), |(status, length)| (status, Some(length)));
                let length = length.map(|length| length.parse().expect("a length"));
                self.head = Some(Head { status: status.parse().expect("a status"), length, fields: Vec::new() });
            }
            "write" => {
                let mut piece = &unescape(rest)[..];
                loop {
                    let admitted = self.writer.write_content_prefix(piece.len() as u64, &mut self.out) as usize;
                    if admitted == 0 {
                        break;
                    }
                    self.out.extend_from_slice(&piece[..admitted]);
                    self.writer.write_content_suffix(&mut self.out);
                    piece = &piece[admitted..];
                }
            }
            "error" => self.writer.write_error(&unescape(rest), &mut self.out),
            "sent" => self.sent.append(&mut self.out),
            "refuse" => self.writer.write_refusal(Refusal::CONTENT_SHORT, &mut self.out),
            "finish" => {
                assert_eq!(self.finish, None);
                self.finish = Some(self.writer.finish(rest.parse().unwrap_or(0), &mut self.out));
            }
            _ => panic!("there is no verb {verb}"),
        }
    }

    /// Writes the head whose fields are complete now.
    fn flush(&mut self, invalid: bool) {
        let Some(Head { status, length, fields }) = self.head.take() else { return assert!(!invalid, "nothing to refuse") };
        let before = (self.out.clone(), format!("{:?}", self.writer));
        let fields = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect::<Vec<FieldPair<'_>>>();
        let policy: &[u8] = if self.policy { b"Strict-Transport-Security: max-age=1\r\n" } else { b"" };
        let preset = Preset { date: b"Date: now\r\n", server: b"Server: Oribi\r\n", policy, ..Preset::default() };
        let result = self.writer.write_head(ResponseHead { status, fields: &fields }, &preset, length, &mut self.out);
        assert_eq!(result.is_err(), invalid, "{status} {result:?}");
        if invalid {
            assert_eq!((self.out.clone(), format!("{:?}", self.writer)), before, "an invalid head leaves no trace");
        }
    }
}

fn check(case: &Case) {
    let writer = ResponseWriter::new(1, Role::Responder);
    let mut run = Run { writer, sent: Vec::new(), out: Vec::new(), head: None, policy: false, finish: None };
    case.lines("").for_each(|line| run.line(line));
    run.flush(false);
    run.sent.append(&mut run.out);
    let wanted = records::encode(case.lines("> "), unescape);
    let lines = |bytes: &[u8]| records::decode(bytes).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(lines(&run.sent), lines(&wanted), "{}", case.name);
    assert_eq!(run.sent.len() % 8, 0, "{}", case.name);
    let fate = run.finish.map(|finish| match finish {
        Finish::Complete => "complete".to_owned(),
        Finish::Short { missing } => format!("short {missing}"),
        Finish::Over => "over".to_owned(),
    });
    assert_eq!(case.lines("= ").collect::<Vec<_>>(), fate.iter().collect::<Vec<_>>(), "{}", case.name);
    if fate.is_some() {
        let mut out = Vec::new();
        run.writer.write_error(b"late", &mut out);
        run.writer.write_refusal(Refusal::CONTENT_SHORT, &mut out);
        assert_eq!(run.writer.write_content_prefix(5, &mut out), 0);
        assert!(run.writer.write_head(ResponseHead { status: 200, fields: &[] }, &Preset::default(), None, &mut out).is_err());
        run.writer.finish(0, &mut out);
        assert_eq!(out, b"", "{}: nothing comes behind the end", case.name);
    }
}

macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test]
        fn $topic() {
            let file = concat!("fcgi/responses/", stringify!($topic), ".txt");
            cases::all(file, include_str!(concat!("corpus/fcgi/responses/", stringify!($topic), ".txt"))).iter().for_each(check);
        })*
    };
}

topics! { contents ends errors heads invalid large }
