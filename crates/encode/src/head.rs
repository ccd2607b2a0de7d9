//! Makes the fields of an encoded response.

use crate::Outcome;
use crate::tag::weaken;
use oribi_message::list::{members, trim};
use oribi_message::{FieldMemory, FieldPair, ResponseHead};
use std::ops::Range;

/// Makes the heads of encoded responses, and keeps the memory that this takes for the next one.
///
/// | field | encoded response | response that varies |
/// |---|---|---|
/// | Content-Length | removed | |
/// | Content-Encoding | added; `identity` is removed | |
/// | Vary | `Accept-Encoding` is added, unless it or `*` is there | the same |
/// | ETag | a strong tag becomes weak, as two codings have different bytes; an invalid one is removed | if the status is 304 |
/// | Accept-Ranges | removed: a range would be one of the unencoded content | |
/// | Content-MD5, Digest, Repr-Digest, Content-Digest | removed | |
///
/// RFC 9530 computes both Content-Digest (section 2) and Repr-Digest (section 3) over content in its content coding, as RFC
/// 3230 did with Digest and RFC 1864 with Content-MD5. The values of an app are those of the unencoded content, so that a
/// client would reject the response; and the server cannot compute others before it has sent the head.
#[derive(Debug, Default)]
pub struct HeadWriter {
    fields: FieldMemory,
    values: Vec<u8>,
}

/// The values of fields that are made.
#[derive(Default)]
struct Made {
    /// The index of the line of Vary that gets another member, and its new value; `None` for a line of its own.
    vary: Option<(usize, Range<usize>)>,
    /// Whether Vary is complete as it is.
    varies: bool,
    /// The index and the new value of the line of ETag.
    etag: Option<(usize, Range<usize>)>,
}

impl HeadWriter {
    /// Passes the head that `outcome` asks for to `then`, and returns its result. A response to HEAD has the same head as one
    /// to GET.
    pub fn write<T>(&mut self, outcome: Outcome, head: ResponseHead<'_>, then: impl FnOnce(ResponseHead<'_>) -> T) -> T {
        if outcome == Outcome::Skip {
            return then(head);
        }
        self.values.clear();
        let made = make_values(outcome, head, &mut self.values);
        let mut fields = self.fields.take();
        write_fields(outcome, head, &made, &self.values, &mut fields);
        let result = then(ResponseHead { status: head.status, fields: &fields });
        self.fields.keep(fields);
        result
    }
}

fn make_values(outcome: Outcome, head: ResponseHead<'_>, values: &mut Vec<u8>) -> Made {
    let mut made = Made::default();
    let mut vary = None;
    for (index, (name, value)) in head.fields.iter().enumerate() {
        if name.eq_ignore_ascii_case(b"Vary") {
            made.varies |= members(value).any(|member| member == b"*" || member.eq_ignore_ascii_case(b"Accept-Encoding"));
            vary = Some((index, *value));
        } else if name.eq_ignore_ascii_case(b"ETag") && weakens(outcome) {
            let start = values.len();
            if weaken(value, values) {
                made.etag = Some((index, start..values.len()));
            }
        }
    }
    if let (false, Some((index, value))) = (made.varies, vary) {
        let start = values.len();
        let value = trim(value);
        if !value.is_empty() {
            values.extend_from_slice(value.strip_suffix(b",").unwrap_or(value));
            values.extend_from_slice(b", ");
        }
        values.extend_from_slice(b"Accept-Encoding");
        made.vary = Some((index, start..values.len()));
    }
    made
}

fn weakens(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Encode(_) | Outcome::NotModified)
}

fn write_fields<'a>(outcome: Outcome, head: ResponseHead<'a>, made: &Made, values: &'a [u8], fields: &mut Vec<FieldPair<'a>>) {
    let coding = if let Outcome::Encode(coding) = outcome { Some(coding) } else { None };
    for (index, (name, value)) in head.fields.iter().copied().enumerate() {
        let change = [&made.vary, &made.etag].into_iter().flatten().find(|(changed, _)| *changed == index);
        if let Some((_, span)) = change {
            fields.push((name, &values[span.clone()]));
        } else if !(coding.is_some() && is_of_unencoded_content(name, value)) {
            fields.push((name, value));
        }
    }
    if let Some(coding) = coding {
        fields.push((b"Content-Encoding", coding.name().as_bytes()));
    }
    if !made.varies && made.vary.is_none() {
        fields.push((b"Vary", b"Accept-Encoding"));
    }
}

/// Whether a field holds only for the unencoded content.
fn is_of_unencoded_content(name: &[u8], value: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        // Neither weak nor one that could be made weak: the field is invalid, and clients could take it for a strong one.
        4 => is("ETag") && !trim(value).starts_with(b"W/\""),
        6 => is("Digest"),
        11 => is("Content-MD5") || is("Repr-Digest"),
        13 => is("Accept-Ranges"),
        14 => is("Content-Length") || is("Content-Digest"),
        16 => is("Content-Encoding"),
        _ => false,
    }
}
