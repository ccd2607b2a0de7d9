//! The chunked transfer coding (RFC 9112, section 7.1), read strictly.
//!
//! Framing bytes are consumed at once, so that the caller keeps nothing but content and trailers, and every byte is read once.
//! Extensions are skipped. Trailer fields are checked like fields and returned as they arrive;
//! [`trailers_of`](super::trailers_of) lays them out when the section is complete.

use super::{Limits, Refusal, grammar};
use core::ops::Range;

/// The most hexadecimal digits of a size: 64 bits have 16.
const SIZE_DIGITS: u32 = 16;

/// The most lines of a trailer, independent of the limit: their number is kept in 16 bits.
const MOST_FIELDS: usize = u16::MAX as usize;

/// The most extra bytes that can be counted, which are bytes of size lines that the sizes do not need: their number is also
/// kept in 16 bits. As a limit, this value means no limit.
const MOST_EXTRA: usize = u16::MAX as usize;

/// This many bytes of content make up for one extra byte.
const CONTENT_FOR_EXTRA: u64 = 64;

/// The leading zeros of each chunk with content that cost nothing: some clients write the sizes of all chunks with eight digits.
const FREE_ZEROS: u32 = 7;

/// The part of the coding that the next byte belongs to, in order; from `Line` on, the trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChunkPart {
    Size,
    /// White space between the size and the semicolon of an extension.
    Gap,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The first byte of a trailer line.
    Line,
    Name,
    Value,
    ValueLf,
    EndLf,
}

/// The progress of reading a chunked content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    part: ChunkPart,
    /// The size of the chunk, as far as it has been read; within the data, the bytes that are left.
    size: u64,
    /// Bytes of content announced so far.
    total: u64,
    /// Bytes of the size line so far; in the trailer, bytes of the trailer so far.
    bytes: u32,
    /// Bytes of the size lines so far that the sizes did not need; in the trailer, complete trailer lines.
    count: u16,
}

/// The result of [`Chunks::read`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All of the input has been read.
    Nothing,
    /// A piece of content.
    Piece(Range<usize>),
    /// A piece of the trailer section: field lines with their ends, or parts of such lines.
    Trailers(Range<usize>),
    /// The end of the content, just before this place in the input.
    End(usize),
}

impl Chunks {
    pub(super) const START: Self = Self { part: ChunkPart::Size, size: 0, total: 0, bytes: 0, count: 0 };

    /// Reads up to the end of the next piece of content or of the trailer section, the end of the content, or the end of the
    /// input.
    pub(super) fn read(&mut self, input: &[u8], limits: &Limits) -> Result<Found, Refusal> {
        let mut pos = 0;
        // The position at which the trailer section begins, or continues.
        let mut section = 0;
        while let Some(&byte) = input.get(pos) {
            if self.part == ChunkPart::Data {
                let length = usize::try_from(self.size).map_or(input.len() - pos, |size| size.min(input.len() - pos));
                self.size -= length as u64;
                if self.size == 0 {
                    self.part = ChunkPart::DataCr;
                }
                return Ok(Found::Piece(pos..pos + length));
            }
            if self.part == ChunkPart::Line && byte == b'\r' && section < pos {
                return Ok(Found::Trailers(section..pos));
            }
            pos += 1;
            if self.part >= ChunkPart::Line {
                self.count(limits.trailer_bytes, Refusal::TRAILER_LENGTH)?;
            }
            match self.part {
                ChunkPart::Size => self.read_size(byte, limits)?,
                ChunkPart::Gap => match byte {
                    b' ' | b'\t' => self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)?,
                    b';' => {
                        self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)?;
                        self.part = ChunkPart::Extension;
                    }
                    _ => return Err(Refusal::CHUNK_SIZE),
                },
                ChunkPart::Extension => match byte {
                    b'\r' => self.part = ChunkPart::SizeLf,
                    b'\n' => return Err(Refusal::BARE_LF),
                    byte if byte.is_ascii_control() && byte != b'\t' => return Err(Refusal::CHUNK_EXTENSION),
                    _ => self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)?,
                },
                ChunkPart::SizeLf => {
                    expect(byte, b'\n', Refusal::BARE_CR)?;
                    self.end_size_line(limits)?;
                    section = pos;
                }
                ChunkPart::DataCr => {
                    expect(byte, b'\r', Refusal::CHUNK_END)?;
                    self.part = ChunkPart::DataLf;
                }
                ChunkPart::DataLf => {
                    expect(byte, b'\n', Refusal::CHUNK_END)?;
                    *self = Self { total: self.total, count: self.count, ..Self::START };
                }
                ChunkPart::Line => match byte {
                    b'\r' => self.part = ChunkPart::EndLf,
                    b'\n' => return Err(Refusal::BARE_LF),
                    b' ' | b'\t' => return Err(Refusal::FIELD_FOLDED),
                    _ if usize::from(self.count) >= limits.fields.min(MOST_FIELDS) => return Err(Refusal::FIELD_COUNT),
                    byte if grammar::is(byte, grammar::TOKEN) => self.part = ChunkPart::Name,
                    _ => return Err(Refusal::FIELD_NAME),
                },
                ChunkPart::Name => match byte {
                    b':' => self.part = ChunkPart::Value,
                    b' ' | b'\t' => return Err(Refusal::FIELD_SPACE),
                    byte if grammar::is(byte, grammar::TOKEN) => {}
                    _ => return Err(Refusal::FIELD_NAME),
                },
                ChunkPart::Value => match byte {
                    b'\r' => self.part = ChunkPart::ValueLf,
                    b'\n' => return Err(Refusal::BARE_LF),
                    byte if byte.is_ascii_control() && byte != b'\t' => return Err(Refusal::FIELD_VALUE),
                    _ => {}
                },
                ChunkPart::ValueLf => {
                    expect(byte, b'\n', Refusal::BARE_CR)?;
                    self.count += 1;
                    self.part = ChunkPart::Line;
                }
                ChunkPart::EndLf => {
                    expect(byte, b'\n', Refusal::BARE_CR)?;
                    return Ok(Found::End(pos));
                }
                ChunkPart::Data => {}
            }
        }
        let within = (ChunkPart::Line..ChunkPart::EndLf).contains(&self.part) && section < pos;
        Ok(if within { Found::Trailers(section..pos) } else { Found::Nothing })
    }

    fn read_size(&mut self, byte: u8, limits: &Limits) -> Result<(), Refusal> {
        if let Some(digit) = (byte as char).to_digit(16) {
            if self.bytes >= SIZE_DIGITS {
                return Err(Refusal::CHUNK_SIZE);
            }
            self.size = self.size << 4 | u64::from(digit);
            return self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE);
        }
        if self.bytes == 0 {
            return Err(Refusal::CHUNK_SIZE);
        }
        match byte {
            b'\r' => {
                if self.size > 0 {
                    self.bytes -= (self.bytes - digits(self.size)).min(FREE_ZEROS);
                }
                self.part = ChunkPart::SizeLf;
                return Ok(());
            }
            b';' => self.part = ChunkPart::Extension,
            b' ' | b'\t' => self.part = ChunkPart::Gap,
            b'\n' => return Err(Refusal::BARE_LF),
            _ => return Err(Refusal::CHUNK_SIZE),
        }
        self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)
    }

    fn end_size_line(&mut self, limits: &Limits) -> Result<(), Refusal> {
        self.total = self.total.checked_add(self.size).ok_or(Refusal::CONTENT_SIZE)?;
        if self.total > limits.content_bytes {
            return Err(Refusal::CONTENT_SIZE);
        }
        let extra = (usize::from(self.count) + (self.bytes - digits(self.size)) as usize).min(MOST_EXTRA);
        if extra > limits.chunk_extra_bytes {
            return Err(Refusal::CHUNK_EXTRA);
        }
        self.bytes = 0;
        // Clients may write longer sizes, and extensions, however large their content is.
        let left = (extra as u64).saturating_sub(self.size / CONTENT_FOR_EXTRA) as u16;
        (self.part, self.count) = if self.size == 0 { (ChunkPart::Line, 0) } else { (ChunkPart::Data, left) };
        Ok(())
    }

    /// Counts a byte of a bounded part.
    fn count(&mut self, limit: usize, refusal: Refusal) -> Result<(), Refusal> {
        if self.bytes as usize >= limit {
            return Err(refusal);
        }
        self.bytes = self.bytes.saturating_add(1);
        Ok(())
    }
}

/// The number of hexadecimal digits that a size needs.
const fn digits(size: u64) -> u32 {
    match size.checked_ilog2() {
        Some(log) => log / 4 + 1,
        None => 1,
    }
}

fn expect(byte: u8, wanted: u8, refusal: Refusal) -> Result<(), Refusal> {
    if byte == wanted { Ok(()) } else { Err(refusal) }
}

/// Undoes the chunked framing of content from another source than this connection's client, such as an app. Only lines are
/// limited in length, because the sender is trusted with the content itself.
#[derive(Clone, Copy, Debug)]
pub struct FramedContent {
    chunks: Chunks,
    begun: bool,
    ended: bool,
}

impl Default for FramedContent {
    fn default() -> Self {
        Self::new()
    }
}

impl FramedContent {
    /// A reader that has read nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Chunks::START, begun: false, ended: false }
    }

    /// Reads on and passes each piece of content in `input` to `sink`.
    ///
    /// # Errors
    /// The rule that the framing breaks. Content before the error has been passed to `sink`.
    pub fn read<'a>(&mut self, input: &'a [u8], mut sink: impl FnMut(&'a [u8])) -> Result<(), Refusal> {
        let limits = Limits { content_bytes: u64::MAX, chunk_extra_bytes: usize::MAX, ..Limits::default() };
        let mut rest = input;
        self.begun |= !input.is_empty();
        while !rest.is_empty() {
            if self.ended {
                return Err(Refusal::CHUNK_SIZE);
            }
            match self.chunks.read(rest, &limits)? {
                Found::Nothing => return Ok(()),
                Found::Piece(range) => {
                    sink(&rest[range.clone()]);
                    rest = &rest[range.end..];
                }
                // An app that frames its content by itself cannot send trailers.
                Found::Trailers(range) => rest = &rest[range.end..],
                Found::End(end) => {
                    self.ended = true;
                    rest = &rest[end..];
                }
            }
        }
        Ok(())
    }

    /// Whether the content may end here: after the last chunk, or before any byte, because a response without content has no
    /// framing either.
    #[must_use]
    pub const fn may_end(&self) -> bool {
        self.ended || !self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunks, Found, FramedContent, Limits};
    use std::vec::Vec;

    /// The content of `pieces`, and whether it may end there; `None` if the framing is broken.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<(Vec<u8>, bool)> {
        let (mut framed, mut content) = (FramedContent::new(), Vec::new());
        for piece in pieces {
            framed.read(piece, |bytes| content.extend_from_slice(bytes)).ok()?;
        }
        Some((content, framed.may_end()))
    }

    /// Reads so many chunks with this size line and this data. Returns whether all are accepted.
    fn accepts(count: usize, line: &str, data: &str) -> bool {
        let (mut chunks, limits) = (Chunks::START, Limits::default());
        let chunk = std::format!("{line}\r\n{data}\r\n");
        (0..count).all(|_| {
            let mut rest = chunk.as_bytes();
            while !rest.is_empty() {
                match chunks.read(rest, &limits) {
                    Ok(Found::Piece(range)) => rest = &rest[range.end..],
                    Ok(_) => rest = &[],
                    Err(_) => return false,
                }
            }
            true
        })
    }

    #[test]
    fn sizes_with_a_fixed_number_of_digits_are_accepted_in_any_number() {
        assert!(accepts(10_000, "005", "hello"));
        assert!(accepts(100_000, "00000005", "hello"));
        // Longer sizes and extensions have a limit.
        assert!(!accepts(10_000, "00000000005", "hello"));
        assert!(!accepts(10_000, "5;a", "hello"));
        assert!(!accepts(10_000, "005;a", "hello"));
    }

    #[test]
    fn framed_content_is_read_alike_however_it_is_cut() {
        for (framed, wanted) in [
            (&b"0\r\n\r\n"[..], Some((&b""[..], true))),
            (b"", Some((b"", true))),
            (b"5\r\nhello\r\n0\r\n\r\n", Some((b"hello", true))),
            (b"A;a=b\r\n0123456789\r\n1\r\nx\r\n000\r\nA: b\r\nC: d\r\n\r\n", Some((b"0123456789x", true))),
            (b"5\r\nhello\r\n", Some((b"hello", false))),
            (b"5\r\nhel", Some((b"hel", false))),
            (b"0\r\n\r\nx", None),
            (b"hello", None),
            (b"5\nhello\n0\n\n", None),
            (b"3\r\nhello\r\n", None),
            (b"-1\r\n", None),
            (b"\r\n", None),
        ] {
            let wanted = wanted.map(|(content, ended)| (content.to_vec(), ended));
            assert_eq!(read([framed]), wanted, "{}", framed.escape_ascii());
            assert_eq!(read(framed.chunks(1)), wanted, "{}, byte by byte", framed.escape_ascii());
            for place in 0..=framed.len() {
                let (front, back) = framed.split_at(place);
                assert_eq!(read([front, back]), wanted, "{}, cut at {place}", framed.escape_ascii());
            }
        }
    }
}
