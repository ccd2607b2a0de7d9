//! Properties of all blocks of compressed fields, and for all fields that an app can set.

use crate::frames::{self, Frame, HEADERS, PREFACE};
use crate::http2_transcript::{Item, Manner, read};
use oribi_message::{FieldPair, HeadLayout, ResponseHead};
use oribi_proto::h2::{Event, Limits, Machine, Preset};

/// Checks blocks of compressed fields in `data`, each after its length. Each block is sent as the head of a request and as
/// trailers. The events must be the same whether the input is read whole or byte by byte. Then the same bytes are the fields of
/// a response, and must be readable when they are written. Returns the events.
pub fn check(data: &[u8]) -> Vec<Item> {
    let mut input = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    let (mut rest, mut id) = (data, 1);
    while let [length, behind @ ..] = rest {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        // All that has to be read first, and then the block.
        let request = [b"\x82\x86\x84\x01\x01a", block].concat();
        for block in [&request[..], block] {
            input.extend(Frame::new(HEADERS, 5, id, block).to_bytes());
            id += 2;
        }
        // And as trailers.
        input.extend(Frame::new(HEADERS, 4, id, b"\x83\x86\x84\x01\x01a").to_bytes());
        input.extend(Frame::new(HEADERS, 5, id, block).to_bytes());
        id += 2;
        rest = behind;
    }
    let limits = Limits { head_bytes: 2000, ..Limits::default() };
    let whole = read([&input[..]], &limits, Manner::Answer);
    assert_eq!(read(input.chunks(1), &limits, Manner::Answer), whole, "byte by byte");
    check_response(data);
    whole
}

fn check_response(data: &[u8]) {
    let mut machine = Machine::new(&Limits::default());
    let (mut text, mut layout, mut out) = (Vec::new(), HeadLayout::default(), Vec::new());
    let request = Frame::new(HEADERS, 5, 1, b"\x82\x86\x84\x01\x01a").to_bytes();
    let input = [PREFACE, b"\0\0\0\x04\0\0\0\0\0", &request].concat();
    let mut rest = &input[..];
    loop {
        let step = machine.handle_input(rest, &mut text, &mut layout, &Limits::default());
        rest = &rest[step.consumed..];
        match step.event {
            Event::Answer => machine.write_answer(&Limits::default(), &mut out),
            Event::Head { .. } => break,
            event => panic!("{event:?}"),
        }
    }
    out.clear();
    let texts = data.split(|&byte| byte == 0).collect::<Vec<_>>();
    let fields = texts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<FieldPair<'_>>>();
    let preset = Preset { date: b"Date: now\r\n", server: b"Server: x\r\n", ..Preset::default() };
    let head = ResponseHead { status: 200 + (data.len() % 400) as u16, fields: &fields };
    if machine.write_head(1, head, None, &preset, &mut out).is_err() {
        assert_eq!(out, b"", "an invalid head leaves no trace");
        return;
    }
    let frames = frames::decode(&out);
    let block = frames.iter().flat_map(|frame| frame.content.iter().copied()).collect::<Vec<_>>();
    let found = frames::fields(&block);
    let mut left = found.iter().skip(2);
    for (name, value) in &fields {
        let name = name.to_ascii_lowercase();
        let skipped: [&[u8]; 7] =
            [b"content-length", b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"];
        if skipped.contains(&&name[..]) {
            continue;
        }
        let (found, text) = left.next().expect("the field");
        assert_eq!(found, &name);
        assert!(value.trim_ascii_start().starts_with(text) || value.windows(text.len()).any(|part| part == text));
    }
    assert!(found.iter().all(|(name, _)| name == b":status" || !name.iter().any(u8::is_ascii_uppercase)));
}
