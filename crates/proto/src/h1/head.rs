//! Reads the syntax of a head, of a request or a response (RFC 9112, sections 2 to 5), in one pass from the left.
//!
//! The pass stops at the first byte that breaks a rule, so the result depends on no byte after that one. If the bytes end
//! first, the [`Cursor`] keeps the position and the next call continues there, so the work does not grow with the number of
//! pieces in which a head arrives. If a head arrived in pieces, one more pass over the complete head lays it out, because the
//! layout belongs to the caller, which shares it among connections.

use super::{Limits, Refusal, grammar, names, search};
use oribi_message::{FieldLayout, HeadLayout, KnownField, Span, Version};

/// The most bytes of a method; no registered one has more than 17. A longer method is certainly unknown: 501.
pub(crate) const METHOD_BYTES: usize = 64;

/// The part of the head that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadPart {
    Method,
    Target,
    Version,
    /// The first line of a response.
    Status,
    /// The start of a field line, its name, or the empty line.
    Name,
    Value,
}

/// The progress of reading a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    part: HeadPart,
    /// The start of the part.
    start: u32,
    /// All bytes before this one are valid.
    pos: u32,
    /// Complete field lines.
    fields: u32,
}

impl Cursor {
    /// The start of a request.
    pub(super) const START: Self = Self { part: HeadPart::Method, start: 0, pos: 0, fields: 0 };

    /// The start of a response.
    pub(super) const RESPONSE: Self = Self { part: HeadPart::Status, ..Self::START };

    /// Whether a part of this head was read in an earlier call, so that the layout lacks that part.
    #[inline]
    pub(super) const fn has_moved(&self) -> bool {
        self.pos > 0
    }

    /// Whether more bytes have been read already than `input` has.
    #[inline]
    pub(super) const fn is_beyond(&self, input: &[u8]) -> bool {
        self.pos as usize > input.len()
    }
}

/// Reads on and returns the length of the head, or `None` if its end is not in `input`. `input` starts with the head and is
/// not longer than the limit for heads. Lays out everything except the parts of the target, which [`super::target`] finds.
pub(super) fn read(
    input: &[u8],
    cursor: &mut Cursor,
    layout: &mut HeadLayout,
    limits: &Limits,
) -> Result<Option<usize>, Refusal> {
    let Cursor { mut part, start, pos, fields } = *cursor;
    let (mut start, mut pos) = (start as usize, pos as usize);
    let most = limits.fields.saturating_sub(fields as usize);
    let mut name = Span::default();
    let mut known = None::<KnownField>;
    layout.fields.clear();
    loop {
        match part {
            HeadPart::Method => {
                // Most methods are recognised as a whole.
                pos = if pos == 0 && input.starts_with(b"GET ") { 3 } else { grammar::token_end(input, pos) };
                if pos > METHOD_BYTES {
                    return Err(Refusal::METHOD_LENGTH);
                }
                match input.get(pos) {
                    None => break,
                    Some(b' ') if pos > 0 => {}
                    Some(_) => return Err(Refusal::METHOD),
                }
                layout.method = Span::new(0, pos);
                pos += 1;
                start = pos;
                part = HeadPart::Target;
            }
            HeadPart::Target => {
                pos = search::target_end(input, pos, limits.strict_target);
                if pos - start > limits.target_bytes {
                    return Err(Refusal::TARGET_LENGTH);
                }
                match input.get(pos) {
                    None => break,
                    Some(b' ') if pos > start => {}
                    Some(b' ') => return Err(Refusal::TARGET_EMPTY),
                    Some(_) => return Err(Refusal::TARGET),
                }
                layout.target = Span::new(start, pos);
                pos += 1;
                start = pos;
                part = HeadPart::Version;
            }
            HeadPart::Version => {
                let Some(version) = read_version(input.get(start..).unwrap_or_default())? else { break };
                layout.version = version;
                pos = start + VERSION_LINE.len();
                start = pos;
                part = HeadPart::Name;
            }
            HeadPart::Name => {
                if pos == start {
                    pos = read_plain_fields(input, pos, most, layout);
                    start = pos;
                    match input.get(pos) {
                        None => break,
                        Some(b'\r') => match input.get(pos + 1) {
                            None => break,
                            Some(b'\n') => return Ok(Some(pos + 2)),
                            Some(_) => return Err(Refusal::BARE_CR),
                        },
                        Some(b' ' | b'\t') => return Err(Refusal::FIELD_FOLDED),
                        Some(b'\n') => return Err(Refusal::BARE_LF),
                        Some(_) if layout.fields.len() >= most => return Err(Refusal::FIELD_COUNT),
                        Some(_) => {}
                    }
                }
                pos = grammar::token_end(input, pos);
                match input.get(pos) {
                    None => break,
                    Some(b':') if pos > start => {}
                    Some(b' ' | b'\t') => return Err(Refusal::FIELD_SPACE),
                    Some(_) => return Err(Refusal::FIELD_NAME),
                }
                known = KnownField::lookup(&input[start..pos]);
                name = Span::new(start, pos);
                pos += 1;
                start = pos;
                part = HeadPart::Value;
            }
            HeadPart::Status => {
                pos = grammar::value_end(input, pos);
                if !is_line_end(input, pos, Refusal::STATUS_LINE)? {
                    break;
                }
                layout.version = read_status_line(&input[..pos])?;
                pos += 2;
                start = pos;
                part = HeadPart::Name;
            }
            HeadPart::Value => {
                pos = grammar::value_end(input, pos);
                if !is_line_end(input, pos, Refusal::FIELD_VALUE)? {
                    break;
                }
                let value = grammar::trimmed(input, start, pos);
                layout.fields.push(FieldLayout { name, value, known });
                pos += 2;
                start = pos;
                part = HeadPart::Name;
            }
        }
    }
    let fields = fields + layout.fields.len() as u32;
    *cursor = Cursor { part, start: start as u32, pos: pos as u32, fields };
    Ok(None)
}

/// Whether a line ends at `pos`, where its text ends; `false` while its end is missing. `other` is the fault of any other byte.
#[inline]
fn is_line_end(input: &[u8], pos: usize, other: Refusal) -> Result<bool, Refusal> {
    match input.get(pos) {
        None => Ok(false),
        Some(b'\r') => match input.get(pos + 1) {
            None => Ok(false),
            Some(b'\n') => Ok(true),
            Some(_) => Err(Refusal::BARE_CR),
        },
        Some(b'\n') => Err(Refusal::BARE_LF),
        Some(_) => Err(other),
    }
}

/// The version in the first line of a response. The space before an empty reason may be missing, as many servers leave it out;
/// the end of the response does not depend on it.
fn read_status_line(line: &[u8]) -> Result<Version, Refusal> {
    let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b' ', rest @ ..] = line else { return Err(Refusal::STATUS_LINE) };
    let (status, reason) = rest.split_at_checked(3).ok_or(Refusal::STATUS_LINE)?;
    let is_status = matches!(status, [b'1'..=b'5', ..]) && status.iter().all(u8::is_ascii_digit);
    if !is_status || !matches!(reason, [] | [b' ', ..]) {
        return Err(Refusal::STATUS_LINE);
    }
    match (major, minor) {
        (b'1', b'0') => Ok(Version::Http10),
        (b'1', b'1'..=b'9') => Ok(Version::Http11),
        (b'0'..=b'9', b'0'..=b'9') => Err(Refusal::VERSION_UNSUPPORTED),
        _ => Err(Refusal::STATUS_LINE),
    }
}

/// Lays out field lines in the most common form and returns the place after them. That form is: a name, a colon, one space, a
/// value without HTAB and without white space around it, CR LF. Stops before anything else, valid or not, and leaves that to
/// [`read`]. This function exists only because it takes less than half the time of [`read`].
#[inline(never)]
fn read_plain_fields(input: &[u8], mut pos: usize, most: usize, layout: &mut HeadLayout) -> usize {
    while layout.fields.len() < most && input.get(pos) != Some(&b'\r') {
        let (colon, known) = match names::recognise(input, pos) {
            Some((length, known)) => (pos + length, Some(known)),
            None => {
                let end = grammar::token_end(input, pos);
                if end == pos || input.get(end) != Some(&b':') {
                    break;
                }
                (end, KnownField::lookup(&input[pos..end]))
            }
        };
        let Some([_, b' ', rest @ ..]) = input.get(colon..) else { break };
        let start = colon + 2;
        // A search in a rest that is shorter than a block would have to copy that rest.
        let size = if rest.len() < search::BLOCK { search::control(input, start) - start } else { search::control(rest, 0) };
        let (value, behind) = rest.split_at(size);
        let ([first, ..], [.., last]) = (value, value) else { break };
        if *first == b' ' || *last == b' ' || behind.first_chunk() != Some(b"\r\n") {
            break;
        }
        let end = start + size;
        layout.fields.push(FieldLayout { name: Span::new(pos, colon), value: Span::new(start, end), known });
        pos = end + 2;
    }
    pos
}

const VERSION_LINE: &[u8; 10] = b"HTTP/1.1\r\n";

/// The version at the start of the line; `None` while its end is missing.
#[inline]
fn read_version(line: &[u8]) -> Result<Option<Version>, Refusal> {
    if line.starts_with(VERSION_LINE) {
        return Ok(Some(Version::Http11));
    }
    let mut version = Version::Http11;
    for (place, &byte) in line.iter().take(VERSION_LINE.len()).enumerate() {
        match place {
            5 if byte.is_ascii_digit() => {}
            // An unknown minor version is read like the highest that we know (RFC 9110, section 2.5). A well-formed other major
            // version is a 505 (section 15.6.6).
            7 if byte.is_ascii_digit() => match (line[5], byte) {
                (b'1', b'0') => version = Version::Http10,
                (b'1', _) => {}
                _ => return Err(Refusal::VERSION_UNSUPPORTED),
            },
            9 if byte != b'\n' => return Err(Refusal::BARE_CR),
            8 if byte == b'\n' => return Err(Refusal::BARE_LF),
            5 | 7 => return Err(Refusal::VERSION),
            _ if byte != VERSION_LINE[place] => return Err(Refusal::VERSION),
            _ => {}
        }
    }
    Ok((line.len() >= VERSION_LINE.len()).then_some(version))
}
