//! Properties of all responses that an app can give over FastCGI, as a web server reads them.

use crate::records::{Record, decode};
use oribi_message::{FieldPair, ResponseHead, Role};
use oribi_proto::fcgi::{Finish, Preset, Refusal, ResponseWriter};

const ID: u16 = 0x1234;

/// Fields of the app that are not passed on, and `content-length`, which the server writes itself.
const OWN: &[&str] = &["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "status", "content-length"];

/// Takes numbers and texts from the bytes of the fuzzer. When these are used up, numbers are zero and texts are empty.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = usize::from(self.byte()).min(most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

/// The response as a web server reads it.
struct WebServerView {
    status: u16,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    content: Vec<u8>,
}

/// Answers a request as `data` says and reads the answer.
pub fn check(data: &[u8]) {
    let mut source = Source(data);
    let options = source.byte();
    let said = |bit: u8| options & 1 << bit != 0;
    let (bodiless, authorizer, sent_between) = (said(0), said(1), said(2));
    let mut writer = ResponseWriter::new(ID, if authorizer { Role::Authorizer } else { Role::Responder });
    writer.set_bodiless(bodiless);
    let (mut all, mut out) = (Vec::new(), Vec::new());
    let mut errors = Vec::new();
    let mut complain = |writer: &mut ResponseWriter, text: &[u8], out: &mut Vec<u8>| {
        errors.extend_from_slice(text);
        writer.write_error(text, out);
    };
    complain(&mut writer, if said(3) { source.bytes(40) } else { b"" }, &mut out);

    let status = u16::from_be_bytes([source.byte() % 4, source.byte()]);
    let count = source.byte() % 8;
    let fields = (0..count).map(|_| (source.bytes(48), source.bytes(64))).collect::<Vec<FieldPair<'_>>>();
    // Each piece is repeated, so that some fill records.
    let pieces = (0..source.byte() % 6).map(|_| source.bytes(255).repeat(1 << (source.byte() % 10))).collect::<Vec<_>>();
    let offered = pieces.concat();
    let before = (out.clone(), format!("{writer:?}"));
    let head = ResponseHead { status, fields: &fields };
    let length = said(4).then_some(offered.len() as u64);
    if writer.write_head(head, &Preset::default(), length, &mut out).is_err() {
        assert_eq!((out.clone(), format!("{writer:?}")), before, "an invalid head leaves no trace");
        writer.write_refusal(Refusal::INTERNAL, &mut out);
        assert_eq!(writer.finish(1, &mut out), Finish::Complete);
        let seen = read(&out, &errors, 1);
        assert_eq!((seen.status, seen.content.is_empty()), (500, bodiless));
        return;
    }
    assert!((200..1000).contains(&status));
    for (number, piece) in pieces.iter().enumerate() {
        if sent_between || number % 3 == 2 {
            all.append(&mut out);
        }
        let mut rest = &piece[..];
        loop {
            let admitted = writer.write_content_prefix(rest.len() as u64, &mut out) as usize;
            if admitted == 0 {
                break;
            }
            out.extend_from_slice(&rest[..admitted]);
            writer.write_content_suffix(&mut out);
            rest = &rest[admitted..];
        }
        complain(&mut writer, if said(5) { source.bytes(9) } else { b"" }, &mut out);
    }
    writer.write_refusal(Refusal::INTERNAL, &mut out);
    let app_status = u32::from(source.byte());
    let finish = writer.finish(app_status, &mut out);
    all.append(&mut out);
    let seen = read(&all, &errors, app_status);
    assert_eq!(seen.status, status);
    check_fields(&seen, &fields);
    let promised = seen.fields.iter().find(|field| field.0 == b"Content-Length").map(|field| &field.1[..]);
    let promised = promised.map(|digits| std::str::from_utf8(digits).expect("digits").parse::<u64>().expect("a number"));
    let (sent, offered_bytes) = (seen.content.len() as u64, offered.len() as u64);
    assert!(offered.starts_with(&seen.content));
    if bodiless || matches!(status, 204 | 205 | 304) || (authorizer && status == 200) {
        assert!(sent == 0 && finish == Finish::Complete);
        return;
    }
    match finish {
        Finish::Complete => assert!(sent == offered_bytes && promised.is_none_or(|promised| promised == sent)),
        Finish::Short { missing } => assert!(sent == offered_bytes && promised == Some(sent + missing)),
        Finish::Over => assert!(sent < offered_bytes && promised == Some(sent)),
    }
    assert!(length.is_none() || promised.is_some());
}

/// Checks that the fields are those of the app, in the same order, followed by the length.
fn check_fields(seen: &WebServerView, fields: &[FieldPair<'_>]) {
    let is = |name: &[u8], other: &&&str| name.eq_ignore_ascii_case(other.as_bytes());
    let passed = fields.iter().filter(|field| !OWN.iter().any(|own| is(field.0, &own)));
    let wanted = passed.map(|(name, value)| (name.to_vec(), value.to_vec())).collect::<Vec<_>>();
    let (apps, servers) = seen.fields.split_at(wanted.len());
    assert_eq!(apps, wanted);
    assert!(matches!(servers, [] | [_]) && servers.iter().all(|field| field.0 == b"Content-Length"));
}

/// Reads all that was written for a request, strictly by the specification.
fn read(bytes: &[u8], errors: &[u8], app_status: u32) -> WebServerView {
    assert_eq!(bytes.len() % 8, 0, "everything is padded");
    let records = decode(bytes);
    assert!(records.iter().all(|record| record.id == ID));
    let (last, records) = records.split_last().expect("an end");
    let status = app_status.to_be_bytes();
    assert_eq!((last.kind, &last.content[..4], &last.content[4..]), (3, &status[..], &[0; 4][..]));
    let complaints = stream(records, 7);
    assert_eq!(complaints.as_deref().unwrap_or_default(), errors);
    assert_eq!(complaints.is_some(), !errors.is_empty(), "a stream that was used ends, and only that");
    assert!(records.iter().all(|record| matches!(record.kind, 6 | 7)));
    let text = stream(records, 6).expect("STDOUT ends");
    let end = text.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of the head");
    let mut fields = Vec::new();
    for line in text[..end].split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
        let (name, value) = (&line[..colon], line[colon + 1..].strip_prefix(b" ").expect("a space"));
        assert!(!name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte)));
        assert!(value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()));
        fields.push((name.to_vec(), value.to_vec()));
    }
    let (name, value) = fields.remove(0);
    assert!(name == b"Status" && value[3] == b' ' && value.len() > 4);
    assert!(!fields.iter().any(|field| field.0.eq_ignore_ascii_case(b"status")));
    let status = std::str::from_utf8(&value[..3]).expect("digits").parse().expect("a status");
    WebServerView { status, fields, content: text[end + 4..].to_vec() }
}

/// The content of a stream that has ended, or `None` if it was not used.
fn stream(records: &[Record], kind: u8) -> Option<Vec<u8>> {
    let mut records = records.iter().filter(|record| record.kind == kind).map(|record| &record.content[..]);
    let last = records.next_back()?;
    let rest = records.collect::<Vec<_>>();
    assert!(last.is_empty() && rest.iter().all(|content| !content.is_empty()), "a stream ends once");
    Some(rest.concat())
}
