//! Several parts of a representation in one response (`multipart/byteranges`, RFC 9110, section 14.6).

use crate::ranges::ByteRange;
use crate::representation::{Content, Representation};
use oribi_host::Piece;
use std::hash::{BuildHasher, RandomState};

/// The boundary lines and the fields between them.
pub(crate) struct Multipart {
    /// The Content-Type of the response.
    pub(crate) media_type: String,
    /// The lines before each part.
    lines: Vec<String>,
    end: String,
}

impl Multipart {
    /// Makes the lines. `media_type` and `size` are those of the representation.
    pub(crate) fn new(ranges: &[ByteRange], media_type: &[u8], size: u64) -> Self {
        // The boundary is random, so the author of a file cannot have put it into the file.
        let (one, other) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        let boundary = format!("{one:016x}{other:016x}");
        let media_type = String::from_utf8_lossy(media_type);
        let type_line = if media_type.is_empty() { String::new() } else { format!("Content-Type: {media_type}\r\n") };
        let lines = ranges.iter().map(|range| {
            let range = content_range(range, size);
            format!("\r\n--{boundary}\r\n{type_line}Content-Range: {range}\r\n\r\n")
        });
        Self {
            lines: lines.collect(),
            end: format!("\r\n--{boundary}--\r\n"),
            media_type: format!("multipart/byteranges; boundary={boundary}"),
        }
    }

    /// Lines and parts in the order of `ranges`.
    pub(crate) fn pieces<'a>(&'a self, ranges: &[ByteRange], representation: &'a Representation) -> Vec<Piece<'a>> {
        let mut pieces: Vec<Piece<'a>> = Vec::with_capacity(2 * ranges.len() + 1);
        for (line, range) in self.lines.iter().zip(ranges) {
            pieces.push(Piece::Bytes(line.as_bytes()));
            pieces.push(piece(representation, range));
        }
        pieces.push(Piece::Bytes(self.end.as_bytes()));
        pieces
    }
}

/// A part of a representation. If the representation is in memory and the range is not within it, the part is empty.
pub(crate) fn piece<'a>(representation: &'a Representation, range: &ByteRange) -> Piece<'a> {
    match &representation.content {
        Content::Memory(bytes) => Piece::Bytes(bytes.get(range.start as usize..range.end as usize).unwrap_or_default()),
        Content::File(file) => Piece::File { file, offset: range.start, size: range.len() },
    }
}

/// The value of a Content-Range field.
pub(crate) fn content_range(range: &ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end - 1)
}
