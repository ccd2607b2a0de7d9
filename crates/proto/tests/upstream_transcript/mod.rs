//! Reads the bytes of an upstream and writes down their meaning.

use oribi_message::HeadLayout;
use oribi_proto::h1::client::{Event, Machine, RequestLine};
use oribi_proto::h1::{Framing, Limits, trailers_of};
use std::fmt;

/// The request before the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// `None`: no request was written.
    pub method: Option<&'a str>,
    pub upgrades: bool,
    /// Whether a part of its content has not been written.
    pub unfinished: bool,
}

/// An event. Pieces that follow each other are one item, so that items do not depend on packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Interim(u16, Vec<(String, String)>),
    Head(u16, Option<u64>, Vec<(String, String)>),
    Content(Vec<u8>),
    Trailers(Vec<u8>),
    End { ready: bool },
    Switched { rest: Vec<u8> },
    Fault(&'static str),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interim(status, _) => write!(f, "interim {status}"),
            Self::Head(status, Some(length), _) => write!(f, "{status} with {length}"),
            Self::Head(status, None, _) => write!(f, "{status}"),
            Self::Content(bytes) => write!(f, "content {}", bytes.escape_ascii()),
            Self::Trailers(bytes) => write!(f, "trailers {}", bytes.escape_ascii()),
            Self::End { ready: true } => f.write_str("end, kept"),
            Self::End { ready: false } => f.write_str("end"),
            Self::Switched { rest } => write!(f, "switched {}", rest.escape_ascii()),
            Self::Fault(reason) => write!(f, "fault: {reason}"),
        }
    }
}

/// Reads the pieces, and then the end of the connection.
pub fn read<'a>(asked: Asked<'_>, pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Vec<Item> {
    let (mut machine, mut layout, mut items) = (Machine::new(), HeadLayout::default(), Vec::new());
    if let Some(method) = asked.method {
        let content = if asked.unfinished { Framing::Length(1) } else { Framing::None };
        let line = RequestLine { method: method.as_bytes(), target: b"/", content, upgrades: asked.upgrades, trailers: true };
        machine.write_head(&line, [].into_iter(), &mut Vec::new()).expect("a valid request");
    }
    let mut input: Vec<u8> = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let step = machine.handle_input(&input, &mut layout, limits);
            assert!(step.consumed <= input.len());
            let head = &input[..step.consumed];
            let fields = || {
                let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
                layout.fields.iter().map(|field| (text(field.name.of(head)), text(field.value.of(head)))).collect::<Vec<_>>()
            };
            let go_on = match step.event {
                Event::NeedInput => false,
                Event::Interim { status } => push(&mut items, Item::Interim(status, fields())),
                Event::Head { status, length } => push(&mut items, Item::Head(status, length, fields())),
                Event::Content(range) => {
                    assert!(!range.is_empty() && range.end <= step.consumed);
                    let piece = &input[range];
                    match items.last_mut() {
                        Some(Item::Content(bytes)) => bytes.extend_from_slice(piece),
                        _ => items.push(Item::Content(piece.to_vec())),
                    }
                    true
                }
                Event::Trailers(range) => {
                    assert!(!range.is_empty() && range.end <= step.consumed);
                    let piece = &input[range];
                    match items.last_mut() {
                        Some(Item::Trailers(bytes)) => bytes.extend_from_slice(piece),
                        _ => items.push(Item::Trailers(piece.to_vec())),
                    }
                    true
                }
                Event::End => {
                    assert!(!machine.is_ready() || !asked.unfinished);
                    push(&mut items, Item::End { ready: machine.is_ready() })
                }
                Event::Switched => {
                    push(&mut items, Item::Switched { rest: Vec::new() });
                    false
                }
                Event::Failed(fault) => {
                    if !matches!(items.last(), Some(Item::Fault(_))) {
                        items.push(Item::Fault(fault.reason()));
                    }
                    assert!(!machine.is_ready());
                    false
                }
            };
            input.drain(..step.consumed);
            if let Some(Item::Switched { rest }) = items.last_mut() {
                rest.append(&mut input);
            }
            if !go_on {
                break;
            }
        }
    }
    let failed = matches!(items.last(), Some(Item::Fault(_)));
    match machine.handle_end(&input) {
        Event::End => items.push(Item::End { ready: machine.is_ready() }),
        Event::Failed(fault) if !failed => items.push(Item::Fault(fault.reason())),
        Event::Failed(_) | Event::NeedInput => {}
        event => panic!("{event:?} at the end"),
    }
    assert!(!machine.is_ready(), "the connection has ended");
    // Of trailers without an end, the pieces depend on packets. They must not be used.
    if matches!(items.last(), Some(Item::Fault(_))) && matches!(items.iter().rev().nth(1), Some(Item::Trailers(_))) {
        items.remove(items.len() - 2);
    }
    if let Some(Item::Trailers(section)) = items.iter().find(|item| matches!(item, Item::Trailers(_)))
        && items.iter().any(|item| matches!(item, Item::End { .. }))
    {
        trailers_of(section).for_each(drop);
    }
    items
}

fn push(items: &mut Vec<Item>, item: Item) -> bool {
    items.push(item);
    true
}
