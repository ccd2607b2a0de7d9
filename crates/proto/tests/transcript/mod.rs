//! Writes down the reports of a machine about the bytes of a connection, for any split of these bytes. Shared by the tests
//! and the fuzz targets.
#![allow(dead_code, reason = "each user needs another part")]

use oribi_message::{HeadLayout, RequestHead, ResponseHead, TargetForm};
use oribi_proto::h1::{Event, Finish, Framing, Limits, Machine, Preset, trailers_of};
use std::fmt;

/// A request head, with everything that the machine and the layout report about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub version: &'static str,
    pub form: TargetForm,
    pub path: Vec<u8>,
    pub query: Option<Vec<u8>>,
    pub authority: Option<Vec<u8>>,
    pub https: bool,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub framing: Framing,
    pub expects_continue: bool,
}

/// One event on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Head(Box<Head>),
    /// All consecutive pieces of a content, joined: their cuts depend on their arrival.
    Content(Vec<u8>),
    /// The trailers of the request; written only with its end.
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    End,
    /// The request has been answered and the connection waits for the next one.
    Kept,
    /// The request has been answered and the connection is closed.
    Closed,
    Refused {
        status: u16,
        reason: &'static str,
        answer: Vec<u8>,
    },
    /// The input ended within a request.
    More,
}

/// Feeds `pieces` to a new machine one after the other, answers each complete request with a 204 and writes down the events.
/// Checks on the way the invariants of every input.
pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Vec<Item> {
    let mut items = Vec::new();
    let mut machine = Machine::new();
    let mut layout = HeadLayout::default();
    let (mut input, mut section) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let step = machine.handle_input(&input, &mut layout, limits);
            assert!(step.consumed <= input.len(), "consumed what is not there");
            let consumed = step.consumed;
            match step.event {
                Event::NeedInput if consumed == 0 => break,
                Event::NeedInput => {}
                Event::Head { start, content } => {
                    items.push(Item::Head(Box::new(head(&input[start..consumed], &layout, content, &machine))));
                    let complete = matches!(content, Framing::None | Framing::Empty);
                    assert_eq!(machine.request_complete(), complete);
                    assert_eq!(machine.awaits_content(), !complete);
                }
                Event::Content(range) => {
                    assert!(!range.is_empty() && range.end <= consumed && machine.awaits_content());
                    let piece = &input[range];
                    match items.last_mut() {
                        Some(Item::Content(content)) => content.extend_from_slice(piece),
                        _ => items.push(Item::Content(piece.to_vec())),
                    }
                }
                Event::Trailers(range) => {
                    assert!(!range.is_empty() && range.end <= consumed && machine.awaits_content());
                    section.extend_from_slice(&input[range]);
                    assert!(section.len() <= limits.trailer_bytes);
                }
                Event::End => {
                    assert!(machine.request_complete());
                    items.extend(trailers(&std::mem::take(&mut section), limits));
                    items.push(Item::End);
                }
                Event::Refused(refusal) => {
                    let again = machine.handle_input(&input, &mut layout, limits);
                    assert_eq!(again.event, Event::Refused(refusal), "a refusal must be sticky");
                    assert!(machine.must_close());
                    let mut answer = Vec::new();
                    machine.write_refusal(refusal, &Preset::default(), &mut answer);
                    assert!(machine.must_close() && machine.response_started());
                    let again = machine.handle_input(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut layout, limits);
                    assert_eq!(again.event, Event::Refused(refusal), "a refusal must be sticky");
                    items.push(Item::Refused { status: refusal.status(), reason: refusal.reason(), answer });
                    return items;
                }
            }
            input.drain(..consumed);
            if machine.request_complete() {
                match answer(&mut machine) {
                    Finish::Reuse => items.push(Item::Kept),
                    _ => {
                        let step = machine.handle_input(&input, &mut layout, limits);
                        assert_eq!((step.consumed, step.event), (0, Event::NeedInput), "a closed connection is not read");
                        items.push(Item::Closed);
                        return items;
                    }
                }
            }
        }
    }
    if machine.awaits_content() || (machine.awaits_head() && !input.is_empty()) {
        items.push(Item::More);
    }
    items
}

fn head(bytes: &[u8], layout: &HeadLayout, framing: Framing, machine: &Machine) -> Head {
    let head = RequestHead::new(bytes, layout);
    assert!(bytes.ends_with(b"\r\n\r\n"));
    for (known, name, _) in head.fields() {
        assert_eq!(known, oribi_message::KnownField::lookup(name), "{name:?}");
    }
    Head {
        method: head.method().to_vec(),
        target: head.target().to_vec(),
        version: head.version().as_str(),
        form: head.form(),
        path: head.path().to_vec(),
        query: layout.query.map(|query| query.of(bytes).to_vec()),
        authority: head.authority().map(<[u8]>::to_vec),
        https: head.https(),
        fields: head.fields().map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect(),
        framing,
        expects_continue: machine.expects_continue(),
    }
}

/// The trailers in a section, of which all lines are fields.
fn trailers(section: &[u8], limits: &Limits) -> Option<Item> {
    let fields: Vec<_> = trailers_of(section).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    let text = section.strip_suffix(b"\r\n").unwrap_or_default();
    assert!(text.is_empty() == section.is_empty() && !text.ends_with(b"\r\n"));
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    assert!(lines.clone().count() <= limits.fields);
    let mut names = lines.map(|line| line.split(|byte| *byte == b':').next().expect("a name"));
    assert!(fields.iter().all(|(name, _)| names.any(|other| other == name)), "each stands in the section, in this order");
    for (name, value) in &fields {
        assert!(!name.is_empty() && !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')), "{name:?}: {value:?}");
        assert_eq!(value.trim_ascii(), value);
        assert!(!name.eq_ignore_ascii_case(b"content-length") && !name.eq_ignore_ascii_case(b"host"));
    }
    (!fields.is_empty()).then_some(Item::Trailers(fields))
}

fn answer(machine: &mut Machine) -> Finish {
    let mut out = Vec::new();
    let close = machine.must_close();
    let head = ResponseHead { status: 204, fields: &[] };
    machine.write_head(head, None, true, &Preset::default(), &mut out).expect("a 204 may always be sent");
    assert_eq!(machine.must_close(), close);
    let finish = machine.finish(&mut out);
    assert_eq!(finish, if close { Finish::Close } else { Finish::Reuse });
    finish
}

/// The lines by which the corpus describes an item, without the optional ones.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(head) => {
                write!(f, "{} {} {}", head.method.escape_ascii(), head.target.escape_ascii(), head.version)?;
                match head.framing {
                    Framing::None => {}
                    Framing::Empty => f.write_str(" empty")?,
                    Framing::Length(length) => write!(f, " length {length}")?,
                    Framing::Chunked => f.write_str(" chunked")?,
                }
                if head.expects_continue { f.write_str(" expects continue") } else { Ok(()) }
            }
            Self::Content(content) => write!(f, "content {}", content.escape_ascii()),
            Self::Trailers(fields) => {
                let texts = fields.iter().map(|(name, value)| (name.escape_ascii(), value.escape_ascii()));
                let lines = texts.map(|(name, value)| format!("{name}: {value}").trim_end().to_owned()).collect::<Vec<_>>();
                write!(f, "trailers {}", lines.join("; "))
            }
            Self::End => f.write_str("end"),
            Self::Kept => f.write_str("kept"),
            Self::Closed => f.write_str("closed"),
            Self::Refused { status, .. } => write!(f, "{status}"),
            Self::More => f.write_str("more"),
        }
    }
}

impl Head {
    /// `form path` with, where there are, `?query`, `at authority` and `https`.
    pub fn describe_target(&self) -> String {
        let mut text = format!("target {} {}", format!("{:?}", self.form).to_lowercase(), self.path.escape_ascii());
        if let Some(query) = &self.query {
            text += &format!(" ?{}", query.escape_ascii());
        }
        if let Some(authority) = &self.authority {
            text += &format!(" at {}", authority.escape_ascii());
        }
        if self.https {
            text += " https";
        }
        text
    }

    /// One line for each field.
    pub fn describe_fields(&self) -> Vec<String> {
        let line = |name: &[u8], value: &[u8]| format!("field {}: {}", name.escape_ascii(), value.escape_ascii());
        self.fields.iter().map(|(name, value)| line(name, value).trim_end().to_owned()).collect()
    }
}
