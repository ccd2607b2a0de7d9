//! The chunked transfer coding (RFC 9112, section 7.1), read strictly.
//!
//! Framing bytes are consumed as they are seen, so that nothing but content need be kept and every byte is looked at once.
//! Extensions are skipped; trailer fields are checked like fields and dropped, since nothing in a trailer may change what a
//! head has said (RFC 9110, section 6.5.1).

use super::{Limits, Refusal, grammar};
use core::ops::Range;

/// Hexadecimal digits of a size: as many as 64 bits have.
const SIZE_DIGITS: u32 = 16;

/// Lines of a trailer, whatever the limit: their number is kept in 16 bits.
const MOST_FIELDS: usize = u16::MAX as usize;

/// What the next byte belongs to, in the order of the coding: from `Line` on it is the trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
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

/// How far a chunked content has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    part: Part,
    /// Size of the chunk, as far as it has been read; within the data what is left of it.
    size: u64,
    /// Bytes of content announced so far.
    total: u64,
    /// Bytes of the size line so far; in the trailer, bytes of that.
    bytes: u32,
    /// Complete trailer lines.
    fields: u16,
}

/// What a step of [`Chunks::read`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All of the input has been read.
    Nothing,
    /// A piece of content.
    Piece(Range<usize>),
    /// The end, just before this place in the input.
    End(usize),
}

impl Chunks {
    pub(super) const START: Self = Self { part: Part::Size, size: 0, total: 0, bytes: 0, fields: 0 };

    /// Reads up to the next piece of content, the end, or the end of the input.
    pub(super) fn read(&mut self, input: &[u8], limits: &Limits) -> Result<Found, Refusal> {
        let mut pos = 0;
        while let Some(&byte) = input.get(pos) {
            if self.part == Part::Data {
                let length = usize::try_from(self.size).map_or(input.len() - pos, |size| size.min(input.len() - pos));
                self.size -= length as u64;
                if self.size == 0 {
                    self.part = Part::DataCr;
                }
                return Ok(Found::Piece(pos..pos + length));
            }
            pos += 1;
            if self.part >= Part::Line {
                self.count(limits.trailer_bytes, Refusal::TRAILER_LENGTH)?;
            }
            match self.part {
                Part::Size => self.read_size(byte, limits)?,
                Part::Gap => match byte {
                    b' ' | b'\t' => self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)?,
                    b';' => {
                        self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)?;
                        self.part = Part::Extension;
                    }
                    _ => return Err(Refusal::CHUNK_SIZE),
                },
                Part::Extension => match byte {
                    b'\r' => self.part = Part::SizeLf,
                    b'\n' => return Err(Refusal::BARE_LF),
                    byte if byte.is_ascii_control() && byte != b'\t' => return Err(Refusal::CHUNK_EXTENSION),
                    _ => self.count(limits.chunk_line_bytes, Refusal::CHUNK_LINE)?,
                },
                Part::SizeLf => {
                    expect(byte, b'\n', Refusal::BARE_CR)?;
                    self.end_size_line(limits)?;
                }
                Part::DataCr => {
                    expect(byte, b'\r', Refusal::CHUNK_END)?;
                    self.part = Part::DataLf;
                }
                Part::DataLf => {
                    expect(byte, b'\n', Refusal::CHUNK_END)?;
                    *self = Self { total: self.total, ..Self::START };
                }
                Part::Line => match byte {
                    b'\r' => self.part = Part::EndLf,
                    b'\n' => return Err(Refusal::BARE_LF),
                    b' ' | b'\t' => return Err(Refusal::FIELD_FOLDED),
                    _ if usize::from(self.fields) >= limits.fields.min(MOST_FIELDS) => return Err(Refusal::FIELD_COUNT),
                    byte if grammar::is(byte, grammar::TOKEN) => self.part = Part::Name,
                    _ => return Err(Refusal::FIELD_NAME),
                },
                Part::Name => match byte {
                    b':' => self.part = Part::Value,
                    b' ' | b'\t' => return Err(Refusal::FIELD_SPACE),
                    byte if grammar::is(byte, grammar::TOKEN) => {}
                    _ => return Err(Refusal::FIELD_NAME),
                },
                Part::Value => match byte {
                    b'\r' => self.part = Part::ValueLf,
                    b'\n' => return Err(Refusal::BARE_LF),
                    byte if byte.is_ascii_control() && byte != b'\t' => return Err(Refusal::FIELD_VALUE),
                    _ => {}
                },
                Part::ValueLf => {
                    expect(byte, b'\n', Refusal::BARE_CR)?;
                    self.fields += 1;
                    self.part = Part::Line;
                }
                Part::EndLf => {
                    expect(byte, b'\n', Refusal::BARE_CR)?;
                    return Ok(Found::End(pos));
                }
                Part::Data => {}
            }
        }
        Ok(Found::Nothing)
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
                self.part = Part::SizeLf;
                return Ok(());
            }
            b';' => self.part = Part::Extension,
            b' ' | b'\t' => self.part = Part::Gap,
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
        self.bytes = 0;
        self.part = if self.size == 0 { Part::Line } else { Part::Data };
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

fn expect(byte: u8, wanted: u8, refusal: Refusal) -> Result<(), Refusal> {
    if byte == wanted { Ok(()) } else { Err(refusal) }
}
