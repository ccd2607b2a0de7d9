//! Properties of any bytes in place of the head of a response that a worker should have written.

use oribi_ipc::slot::{Content, Head, Heads, encode_head, encode_interim, encode_trailers};
use oribi_message::{FieldPair, HeadLayout, ResponseHead};
use oribi_proto::h1::{Limits, Machine, Preset};

/// Reads `data` as an edge does, and writes the result for a client. Returns whether anything was written.
pub fn check(data: &[u8]) -> bool {
    let mut heads = Heads::default();
    let once = heads.read(data, |head| pass_on(data, head));
    // A reader keeps its memory for the next head, but nothing of what stood in it.
    let again = heads.read(data, |head| pass_on(data, head));
    assert_eq!(once, again);
    once.unwrap_or(false)
}

fn pass_on(data: &[u8], Head { head, content }: Head<'_>) -> bool {
    let mut written = Vec::new();
    match content {
        Content::Interim => encode_interim(head.status, head.fields, &mut written),
        Content::Trailers => encode_trailers(head.fields, &mut written),
        Content::Whole { .. } | Content::Started => encode_head(&head, content, &mut written),
    }
    assert_eq!(written, data, "a head can be written in one way only");
    let stands_there = |part: &[u8]| {
        let (all, part) = (data.as_ptr_range(), part.as_ptr_range());
        part.is_empty() || all.start <= part.start && part.end <= all.end
    };
    assert!(head.fields.iter().all(|(name, value)| stands_there(name) && stands_there(value)));

    let (mut machine, mut out) = (machine(), Vec::new());
    let preset = Preset::default();
    let outcome = match content {
        Content::Interim => machine.write_informational(head.status, head.fields, &mut out),
        Content::Whole { size } => machine.write_head(head, Some(size), true, &preset, &mut out),
        Content::Started => machine.write_head(head, None, true, &preset, &mut out),
        Content::Trailers => return end(machine, head.fields),
    };
    if outcome.is_err() {
        assert!(out.is_empty(), "an invalid head leaves no trace");
        return false;
    }
    check_lines(&out, head.status, head.fields.len());
    true
}

/// Ends a response in chunks with these trailers. Returns whether the trailers were written.
fn end(mut machine: Machine, trailers: &[FieldPair<'_>]) -> bool {
    let (mut head, mut out) = (Vec::new(), Vec::new());
    machine
        .write_head(ResponseHead { status: 200, fields: &[] }, None, true, &Preset::default(), &mut head)
        .expect("it is valid");
    if machine.write_trailers(trailers, &mut out).is_err() {
        assert!(out.is_empty(), "invalid trailers leave no trace");
        return false;
    }
    // The last chunk takes the place of a status line.
    let lines = out.strip_prefix(b"0\r\n").expect("the last chunk");
    check_lines(&[b"HTTP/1.1 200 OK\r\n", lines].concat(), 200, trailers.len());
    true
}

/// A machine whose client waits for an answer.
fn machine() -> Machine {
    let mut machine = Machine::new();
    machine.handle_input(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &mut HeadLayout::default(), &Limits::default());
    assert!(machine.request_complete());
    machine
}

/// Checks that `out` is one head with that status, and has no more fields than those of the worker and of the machine.
fn check_lines(out: &[u8], status: u16, fields: usize) {
    const OWN: usize = 2;
    let text = out.strip_suffix(b"\r\n\r\n").expect("the empty line at the end");
    let is_line_end = |at: usize| text[at..].starts_with(b"\r\n") || at > 0 && text[at - 1..].starts_with(b"\r\n");
    for (at, byte) in text.iter().enumerate() {
        assert!(!byte.is_ascii_control() || *byte == b'\t' || is_line_end(at), "{:?}", out.escape_ascii());
    }
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    assert!(lines[0].starts_with(format!("HTTP/1.1 {status} ").as_bytes()));
    assert!(lines.len() <= 1 + fields + OWN);
    assert!(lines[1..].iter().all(|line| line.first().is_some_and(|first| !b" \t:\r".contains(first)) && line.contains(&b':')));
}
