//! Writes down the reports of a machine about the bytes of an HTTP/2 connection, for any split of these bytes. Shared by the
//! tests and the fuzz targets.
#![allow(dead_code, reason = "each user needs another part")]

use crate::frames::{self, Frame};
use oribi_message::{HeadLayout, KnownField, RequestHead, ResponseHead};
use oribi_proto::h2::{Admission, Event, Finish, Limits, Machine, Outline, Preset, Refusal, Step};
use std::collections::BTreeSet;
use std::fmt;

/// A request's head, with everything that the machine reports about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub version: &'static str,
    pub path: Vec<u8>,
    pub query: Option<Vec<u8>>,
    pub https: bool,
    pub protocol: Option<Vec<u8>>,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub outline: Outline,
    pub complete: bool,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Head(Box<Head>),
    Content(Vec<u8>),
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    End,
    Refused(Refusal),
    Reset(Option<(u32, &'static str)>),
    Malformed(&'static str),
}

/// One event on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event of the stream with this id. All consecutive pieces of a content are joined.
    Of(u32, What),
    /// A frame of the machine itself. Window updates, which depend on the cuts of content, and the frames with which every
    /// connection begins are left out.
    Answer(Frame),
    Room,
    Broken(u32, &'static str),
    /// The input ended within a frame.
    More,
}

/// The caller's treatment of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each complete request is answered with a 204.
    Answer,
    /// No request is answered.
    Hold,
    /// Each request is answered as soon as its head is there.
    Early,
}

/// Feeds `pieces` to a new machine one after the other and writes down the events. Checks on the way the invariants of every
/// input.
pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits, manner: Manner) -> Vec<Item> {
    let mut run = Run {
        machine: Machine::new(limits),
        text: Vec::new(),
        layout: HeadLayout::default(),
        open: BTreeSet::new(),
        items: Vec::new(),
        manner,
        said: 0,
        received: 0,
        granted: 0,
    };
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        if !run.feed(&mut input, limits) {
            return run.items;
        }
    }
    if !input.is_empty() || !run.machine.between_frames() {
        run.items.push(Item::More);
    }
    run.items
}

struct Run {
    machine: Machine,
    text: Vec<u8>,
    layout: HeadLayout,
    open: BTreeSet<u32>,
    items: Vec<Item>,
    manner: Manner,
    /// Frames of the machine itself.
    said: usize,
    /// Bytes of content that were received, and bytes that window updates have allowed.
    received: usize,
    granted: usize,
}

impl Run {
    /// Reads all that can be read; `false` if the connection has ended.
    fn feed(&mut self, input: &mut Vec<u8>, limits: &Limits) -> bool {
        loop {
            let Step { consumed, event } = self.machine.handle_input(input, &mut self.text, &mut self.layout, limits);
            assert!(consumed <= input.len());
            self.received += consumed;
            let read = input.drain(..consumed).collect::<Vec<_>>();
            match event {
                Event::NeedInput => {
                    assert!(input.len() <= 255, "{} bytes are left", input.len());
                    assert!(!self.machine.must_close());
                    return true;
                }
                Event::Refuse(violation) => {
                    let mut out = Vec::new();
                    self.machine.write_answer(limits, &mut out);
                    let frames = frames::decode(&out);
                    assert!(matches!(&frames[..], [one] if one.kind == frames::GOAWAY), "{frames:?}");
                    self.items.push(Item::Answer(frames[0].clone()));
                    self.items.push(Item::Broken(violation.code().0, violation.reason()));
                    let again = self.machine.handle_input(input, &mut self.text, &mut self.layout, limits);
                    assert_eq!((again.consumed, again.event), (0, Event::Refuse(violation)));
                    assert!(self.machine.must_close());
                    return false;
                }
                event => self.event(event, &read, limits),
            }
            assert!(self.machine.active() <= limits.streams as usize);
            if self.manner == Manner::Hold {
                assert_eq!(self.machine.active(), self.open.len());
            }
        }
    }

    fn event(&mut self, event: Event, read: &[u8], limits: &Limits) {
        match event {
            Event::NeedInput | Event::Refuse(_) => unreachable!("handled before"),
            Event::Head { id, outline, complete } => {
                assert!(self.open.insert(id), "{id} is active");
                let head = self.head(outline, complete);
                self.items.push(Item::Of(id, What::Head(Box::new(head))));
                if complete || self.manner == Manner::Early {
                    self.answer(id);
                }
            }
            Event::Content { id, range } => {
                let piece = &read[range];
                assert!(!piece.is_empty() && self.open.contains(&id));
                match self.items.last_mut() {
                    Some(Item::Of(last, What::Content(content))) if *last == id => content.extend_from_slice(piece),
                    _ => self.items.push(Item::Of(id, What::Content(piece.to_vec()))),
                }
                let mut out = Vec::new();
                self.machine.consume(id, piece.len(), &mut out);
                self.credit(&frames::decode(&out));
            }
            Event::End { id, trailers } => {
                if trailers {
                    let fields = self.trailers(limits);
                    self.items.push(Item::Of(id, What::Trailers(fields)));
                }
                self.items.push(Item::Of(id, What::End));
                self.answer(id);
            }
            Event::Refused { id, refusal } => {
                self.open.insert(id);
                self.items.push(Item::Of(id, What::Refused(refusal)));
                if self.manner != Manner::Hold {
                    let mut out = Vec::new();
                    self.machine.write_refusal(id, refusal, &Preset::default(), &mut out);
                    self.finish(id, &mut out);
                }
            }
            Event::Reset { id, error } => {
                assert!(self.open.remove(&id), "{id} is not known");
                self.items.push(Item::Of(id, What::Reset(error.map(|error| (error.code().0, error.reason())))));
            }
            Event::Malformed { id, why } => {
                assert!(!self.open.contains(&id));
                self.items.push(Item::Of(id, What::Malformed(why.reason())));
            }
            Event::Room => self.items.push(Item::Room),
            Event::Answer => {
                let again = self.machine.handle_input(b"", &mut self.text, &mut self.layout, limits);
                assert_eq!((again.consumed, again.event), (0, Event::Answer), "an answer must not get lost");
                let mut out = Vec::new();
                self.machine.write_answer(limits, &mut out);
                assert!((1..=64).contains(&out.len()), "{}", out.len());
                let frames = frames::decode(&out);
                self.said += 1;
                if self.said == 1 {
                    assert_eq!(frames[0].kind, frames::SETTINGS);
                    return;
                }
                if self.said == 2 {
                    assert_eq!(frames[0], Frame::new(frames::SETTINGS, 1, 0, &[]));
                }
                self.credit(&frames);
                let said = frames.into_iter().filter(|frame| frame.kind != frames::WINDOW_UPDATE);
                let skipped = usize::from(self.said == 2);
                self.items.extend(said.skip(skipped).map(Item::Answer));
            }
        }
    }

    /// Checks window updates: they never allow the client more bytes than it has used.
    fn credit(&mut self, frames: &[Frame]) {
        for frame in frames.iter().filter(|frame| frame.kind == frames::WINDOW_UPDATE && frame.id == 0) {
            self.granted += frame.number() as usize;
            assert!(frame.number() > 0 && self.granted <= self.received, "{} of {}", self.granted, self.received);
        }
    }

    fn head(&self, mut outline: Outline, complete: bool) -> Head {
        let protocol = outline.protocol.take();
        let head = RequestHead::new(&self.text, &self.layout);
        for (known, name, value) in head.fields() {
            assert_eq!(known, KnownField::lookup(name), "{name:?}");
            assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase), "{name:?}");
            assert!(!value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')), "{value:?}");
            assert_eq!(value.trim_ascii(), value);
        }
        assert!(head.field(KnownField::Host).is_some());
        assert!(head.fields().filter(|(known, ..)| *known == Some(KnownField::Cookie)).count() <= 1);
        Head {
            method: head.method().to_vec(),
            target: head.target().to_vec(),
            version: head.version().as_str(),
            path: head.path().to_vec(),
            query: self.layout.query.map(|query| query.of(&self.text).to_vec()),
            https: head.https(),
            protocol: protocol.map(|protocol| protocol.of(&self.text).to_vec()),
            fields: head.fields().map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect(),
            outline,
            complete,
        }
    }

    fn trailers(&self, limits: &Limits) -> Vec<(Vec<u8>, Vec<u8>)> {
        let head = RequestHead::new(&self.text, &self.layout);
        assert!((1..=limits.fields).contains(&self.layout.fields.len()));
        for (known, name, value) in head.fields() {
            assert_eq!(known, KnownField::lookup(name), "{name:?}");
            assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase), "{name:?}");
            assert!(!value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')), "{value:?}");
            assert_eq!(value.trim_ascii(), value);
            assert!(!matches!(known, Some(KnownField::ContentLength | KnownField::Host)));
        }
        head.fields().map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    fn answer(&mut self, id: u32) {
        if self.manner == Manner::Hold || self.machine.response_started(id) {
            return;
        }
        let mut out = Vec::new();
        let head = ResponseHead { status: 204, fields: &[] };
        self.machine.open_tunnel(id);
        self.machine.write_head(id, head, None, &Preset::default(), &mut out).expect("a 204 may always be sent");
        assert_eq!(self.machine.write_content_prefix(id, 1, &mut out), Admission::Dropped);
        self.finish(id, &mut out);
    }

    fn finish(&mut self, id: u32, out: &mut Vec<u8>) {
        assert_eq!(self.machine.finish(id, out), Finish::Complete);
        let frames = frames::decode(out);
        assert!(frames[0].kind == frames::HEADERS && frames.iter().any(Frame::ends_stream));
        assert!(frames.iter().all(|frame| frame.id == id));
        assert!(self.open.remove(&id), "an active stream");
        let before = self.machine.active();
        assert_eq!(self.machine.finish(id, out), Finish::Complete);
        assert_eq!(self.machine.active(), before);
    }
}

/// The lines by which the corpus describes an item, without the optional ones.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(id, What::Head(head)) => {
                write!(f, "{id} {} {} {}", head.method.escape_ascii(), head.target.escape_ascii(), head.version)?;
                head.outline.content_length.map_or(Ok(()), |length| write!(f, " length {length}"))?;
                f.write_str(if head.outline.expects_continue { " expects" } else { "" })?;
                if let Some(protocol) = &head.protocol {
                    write!(f, " protocol {}", protocol.escape_ascii())?;
                }
                f.write_str(if head.complete { " complete" } else { "" })
            }
            Self::Of(id, What::Content(content)) => write!(f, "{id} content {}", content.escape_ascii()),
            Self::Of(id, What::Trailers(fields)) => {
                let texts = fields.iter().map(|(name, value)| (name.escape_ascii(), value.escape_ascii()));
                let lines = texts.map(|(name, value)| format!("{name}: {value}").trim_end().to_owned()).collect::<Vec<_>>();
                write!(f, "{id} trailers {}", lines.join("; "))
            }
            Self::Of(id, What::End) => write!(f, "{id} end"),
            Self::Of(id, What::Refused(refusal)) => write!(f, "{id} {} {}", refusal.status(), refusal.reason()),
            Self::Of(id, What::Reset(None)) => write!(f, "{id} reset"),
            Self::Of(id, What::Reset(Some((_, reason)))) => write!(f, "{id} reset: {reason}"),
            Self::Of(id, What::Malformed(why)) => write!(f, "{id} malformed: {why}"),
            Self::Answer(frame) => write!(f, "answer {frame}"),
            Self::Room => f.write_str("room"),
            Self::Broken(code, reason) => write!(f, "broken {code}: {reason}"),
            Self::More => f.write_str("more"),
        }
    }
}

impl Head {
    /// `target path` with, where there is one, `?query`, and the scheme.
    pub fn describe_target(&self, id: u32) -> String {
        let query = self.query.as_ref().map_or(String::new(), |query| format!(" ?{}", query.escape_ascii()));
        format!("{id} target {}{query} {}", self.path.escape_ascii(), if self.https { "https" } else { "http" })
    }

    /// One line for each field.
    pub fn describe_fields(&self, id: u32) -> Vec<String> {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let lines = self.fields.iter().map(|(name, value)| format!("{id} field {}: {}", text(name), text(value)));
        lines.map(|line| line.trim_end().to_owned()).collect()
    }
}
