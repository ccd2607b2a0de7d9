//! Writes down the reports of a machine about the bytes of a FastCGI connection, for any split of these bytes. Shared by the
//! tests and the fuzz targets.
#![allow(dead_code, reason = "each user needs another part")]

use crate::records;
use oribi_message::{HeadLayout, KnownField, KnownVariable, RequestHead, ResponseHead, Role};
use oribi_proto::fcgi::params::{self, Outline};
use oribi_proto::fcgi::{Event, Finish, Limits, Machine, Preset, Refusal, ResponseWriter};
use std::collections::HashMap;
use std::fmt;

/// A request's head and variables, with everything that the machine reports about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub version: &'static str,
    pub path: Vec<u8>,
    pub query: Option<Vec<u8>>,
    pub authority: Option<Vec<u8>>,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub outline: Outline,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Begin {
        role: Role,
        keep: bool,
    },
    Head(Box<Head>),
    Stdin(Vec<u8>),
    StdinEnd,
    Data(Vec<u8>),
    DataEnd,
    /// The request is complete; unless requests are held, it has been answered.
    Complete,
    Abort,
    Refused(Refusal),
}

/// One event on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event of the request with this id. All consecutive pieces of a content are joined: their cuts depend on their
    /// arrival.
    Of(u16, What),
    /// An answer of the machine itself.
    Answer(Vec<u8>),
    Broken(&'static str),
    /// The connection must be closed.
    Close,
    /// The input ended with requests that are not complete, or within a record.
    More,
}

struct Open {
    writer: ResponseWriter,
    params: Vec<u8>,
}

/// Feeds `pieces` to a new machine one after the other and writes down the events. Each request is answered with a 204 when it
/// is complete, or ended when it is aborted; with `hold` it is not answered, and stays active. Checks on the way the invariants
/// of every input.
pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits, hold: bool) -> Vec<Item> {
    let mut run = Run { machine: Machine::new(), open: HashMap::new(), items: Vec::new(), hold };
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        if !run.feed(&mut input, limits) {
            return run.items;
        }
    }
    if !input.is_empty() || !run.machine.between_records() || (!hold && run.machine.active() > 0) {
        run.items.push(Item::More);
    }
    run.items
}

struct Run {
    machine: Machine,
    open: HashMap<u16, Open>,
    items: Vec<Item>,
    hold: bool,
}

impl Run {
    /// Consumes the bytes that the machine takes from the input. `false` if the connection is over.
    fn feed(&mut self, received: &mut Vec<u8>, limits: &Limits) -> bool {
        let mut place = 0;
        loop {
            let input = &received[place..];
            let step = self.machine.handle_input(input, limits);
            assert!(step.consumed <= input.len(), "consumed what is not there");
            match step.event {
                Event::NeedInput if step.consumed == 0 => {
                    assert!(input.len() < 4096 + 8, "more is kept than promised");
                    received.drain(..place);
                    return true;
                }
                Event::Refused(violation) => {
                    let again = self.machine.handle_input(b"\x01\x01\x00\x01\x00\x00\x00\x00", limits);
                    assert_eq!((again.consumed, again.event), (0, step.event), "a refusal must be sticky");
                    assert!(self.machine.must_close());
                    self.items.push(Item::Broken(violation.reason()));
                    return false;
                }
                event => self.event(event, &input[..step.consumed], limits),
            }
            place += step.consumed;
            if self.machine.must_close() {
                let step = self.machine.handle_input(&received[place..], limits);
                assert_eq!((step.consumed, step.event), (0, Event::NeedInput), "a closed connection is not read");
                assert_eq!(self.machine.active(), 0);
                self.items.push(Item::Close);
                return false;
            }
        }
    }

    fn event(&mut self, event: Event, input: &[u8], limits: &Limits) {
        let piece = |range: std::ops::Range<usize>| {
            assert!(!range.is_empty());
            input[range].to_vec()
        };
        match event {
            Event::NeedInput | Event::Refused(_) => {}
            Event::Begin { id, role, keep_connection } => {
                assert_ne!(id, 0);
                let open = Open { writer: ResponseWriter::new(id, role), params: Vec::new() };
                assert!(self.open.insert(id, open).is_none(), "{id} is active");
                assert!(self.open.len() <= usize::from(limits.requests));
                self.items.push(Item::Of(id, What::Begin { role, keep: keep_connection }));
            }
            Event::Params { id, range } => {
                let open = self.open.get_mut(&id).expect("an active request");
                open.params.extend(piece(range));
                if open.params.len() > limits.params_bytes {
                    self.refuse(id, Refusal::PARAMS_LENGTH);
                }
            }
            Event::ParamsEnd { id, complete } => self.params_end(id, complete, limits),
            Event::Stdin { id, range } => match self.items.last_mut() {
                Some(Item::Of(last, What::Stdin(content))) if *last == id => content.extend(piece(range)),
                _ => self.items.push(Item::Of(id, What::Stdin(piece(range)))),
            },
            Event::StdinEnd { id, complete } => {
                self.items.push(Item::Of(id, What::StdinEnd));
                assert_eq!(complete, self.open[&id].writer.role() == Role::Responder);
                if complete {
                    self.complete(id);
                }
            }
            Event::Data { id, range } => match self.items.last_mut() {
                Some(Item::Of(last, What::Data(content))) if *last == id => content.extend(piece(range)),
                _ => self.items.push(Item::Of(id, What::Data(piece(range)))),
            },
            Event::DataEnd { id } => {
                self.items.push(Item::Of(id, What::DataEnd));
                assert_eq!(self.open[&id].writer.role(), Role::Filter);
                self.complete(id);
            }
            Event::Abort { id } => {
                self.items.push(Item::Of(id, What::Abort));
                if !self.hold {
                    self.finish(id);
                }
            }
            Event::Answer => {
                let again = self.machine.handle_input(b"", limits);
                assert_eq!((again.consumed, again.event), (0, Event::Answer), "an answer must not get lost");
                let mut answer = Vec::new();
                self.machine.write_answer(limits, &mut answer);
                assert!(!answer.is_empty() && answer.len() % 8 == 0);
                self.items.push(Item::Answer(answer));
            }
        }
    }

    fn params_end(&mut self, id: u16, complete: bool, limits: &Limits) {
        let open = self.open.get_mut(&id).expect("an active request");
        assert_eq!(complete, open.writer.role() == Role::Authorizer);
        match head(&mut open.params, limits) {
            Ok(head) => {
                open.writer.set_bodiless(head.outline.bodiless);
                self.items.push(Item::Of(id, What::Head(Box::new(head))));
                if complete {
                    self.complete(id);
                }
            }
            Err(refusal) => self.refuse(id, refusal),
        }
    }

    fn complete(&mut self, id: u16) {
        self.items.push(Item::Of(id, What::Complete));
        if !self.hold {
            let open = self.open.get_mut(&id).expect("an active request");
            let mut out = Vec::new();
            let head = ResponseHead { status: 204, fields: &[] };
            open.writer.write_head(head, &Preset::default(), None, &mut out).expect("a 204 may always be sent");
            let records = records::decode(&out);
            assert!(matches!(&records[..], [one] if one.kind == 6 && one.id == id));
            self.finish(id);
        }
    }

    fn refuse(&mut self, id: u16, refusal: Refusal) {
        self.items.push(Item::Of(id, What::Refused(refusal)));
        let open = self.open.get_mut(&id).expect("an active request");
        let mut out = Vec::new();
        open.writer.write_refusal(refusal, &mut out);
        let text = String::from_utf8_lossy(&records::decode(&out)[0].content).into_owned();
        assert!(text.starts_with(&format!("Status: {} ", refusal.status())), "{text}");
        assert!(text.ends_with(&format!("{}\n", refusal.reason())), "{text}");
        self.finish(id);
    }

    fn finish(&mut self, id: u16) {
        let mut open = self.open.remove(&id).expect("an active request");
        let mut out = Vec::new();
        assert_eq!(open.writer.finish(0, &mut out), Finish::Complete);
        let records = records::decode(&out);
        assert!(matches!(&records[..], [end, end_request] if (end.kind, end_request.kind) == (6, 3)), "{records:?}");
        let active = self.machine.active();
        self.machine.finished(id);
        self.machine.finished(id);
        assert_eq!(self.machine.active(), active - 1);
    }
}

/// Lays out the variables of a request.
pub fn head(params: &mut Vec<u8>, limits: &Limits) -> Result<Head, Refusal> {
    let (mut layout, mut variables) = (HeadLayout::default(), Vec::new());
    let outline = params::lay_out(params, &mut layout, &mut variables, limits)?;
    let head = RequestHead::new(params, &layout);
    for (known, name, _) in head.fields() {
        assert_eq!(known, KnownField::lookup(name), "{name:?}");
    }
    for variable in &variables {
        assert_eq!(variable.known, KnownVariable::lookup(variable.name.of(params)));
    }
    Ok(Head {
        method: head.method().to_vec(),
        target: head.target().to_vec(),
        version: head.version().as_str(),
        path: head.path().to_vec(),
        query: layout.query.map(|query| query.of(params).to_vec()),
        authority: head.authority().map(<[u8]>::to_vec),
        fields: head.fields().map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect(),
        variables: variables.iter().map(|one| (one.name.of(params).to_vec(), one.value.of(params).to_vec())).collect(),
        outline,
    })
}

/// The lines by which the corpus describes an item, without the optional ones.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(id, What::Begin { role, keep }) => {
                let keep = if *keep { " keep" } else { "" };
                write!(f, "{id} begin {}{keep}", role.as_str().to_lowercase())
            }
            Self::Of(id, What::Head(head)) => {
                write!(f, "{id} {} {} {}", head.method.escape_ascii(), head.target.escape_ascii(), head.version)?;
                head.outline.content_length.map_or(Ok(()), |length| write!(f, " length {length}"))
            }
            Self::Of(id, What::Stdin(content)) => write!(f, "{id} stdin {}", content.escape_ascii()),
            Self::Of(id, What::StdinEnd) => write!(f, "{id} stdin end"),
            Self::Of(id, What::Data(content)) => write!(f, "{id} data {}", content.escape_ascii()),
            Self::Of(id, What::DataEnd) => write!(f, "{id} data end"),
            Self::Of(id, What::Complete) => write!(f, "{id} complete"),
            Self::Of(id, What::Abort) => write!(f, "{id} abort"),
            Self::Of(id, What::Refused(refusal)) => write!(f, "{id} {} {}", refusal.status(), refusal.reason()),
            Self::Answer(bytes) => {
                let records = records::decode(bytes);
                write!(f, "answer {}", records.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            Self::Broken(reason) => write!(f, "broken: {reason}"),
            Self::Close => f.write_str("close"),
            Self::More => f.write_str("more"),
        }
    }
}

impl Head {
    /// `target path` with, where there are, `?query` and `at authority`.
    pub fn describe_target(&self, id: u16) -> String {
        let mut text = format!("{id} target {}", self.path.escape_ascii());
        if let Some(query) = &self.query {
            text += &format!(" ?{}", query.escape_ascii());
        }
        if let Some(authority) = &self.authority {
            text += &format!(" at {}", authority.escape_ascii());
        }
        text
    }

    /// One line for each field.
    pub fn describe_fields(&self, id: u16) -> Vec<String> {
        describe(&self.fields, |name, value| format!("{id} field {name}: {value}"))
    }

    /// One line for each variable.
    pub fn describe_variables(&self, id: u16) -> Vec<String> {
        describe(&self.variables, |name, value| format!("{id} variable {name}={value}"))
    }
}

fn describe(pairs: &[(Vec<u8>, Vec<u8>)], line: impl Fn(&str, &str) -> String) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    pairs.iter().map(|(name, value)| line(&text(name), &text(value)).trim_end().to_owned()).collect()
}
