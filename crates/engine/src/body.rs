//! The content that a host gives for a response, in parts.

use oribi_host::Piece;

/// The most parts of content that are sent from their place: see [`Body::can_be_gathered`]. (The kernel sends at most 1024
/// slices in a call, and framing also needs some of them.)
const GATHERED_PARTS: usize = 16;

/// The content of a response, or a piece of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// All of the content in memory.
    Parts(&'a [&'a [u8]]),
    /// Some of the content in files.
    Pieces(&'a [Piece<'a>]),
}

impl<'a> Body<'a> {
    /// The number of bytes.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        match self {
            // Most content has only one part.
            Self::Parts([part]) => part.len() as u64,
            Self::Parts(parts) => parts.iter().map(|part| part.len() as u64).sum(),
            Self::Pieces(pieces) => pieces.iter().map(Piece::size).sum(),
        }
    }

    /// Whether the content can be sent from its place, together with its framing: it is in memory, in few parts. Content in
    /// many parts mostly has small parts, and is copied.
    pub(super) fn can_be_gathered(&self) -> bool {
        match self {
            Self::Parts(parts) => parts.len() <= GATHERED_PARTS,
            Self::Pieces(pieces) => {
                pieces.len() <= GATHERED_PARTS && pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_)))
            }
        }
    }

    #[inline]
    fn part(&self, number: usize) -> Option<Piece<'a>> {
        match self {
            Self::Parts(parts) => parts.get(number).map(|part| Piece::Bytes(part)),
            Self::Pieces(pieces) => pieces.get(number).copied(),
        }
    }

    /// The content, to be read from front to back.
    #[inline]
    pub(super) const fn rest(self) -> Rest<'a> {
        Rest { body: self, part: 0, taken: 0 }
    }
}

/// The content that has not been taken yet.
#[derive(Clone, Debug)]
pub(super) struct Rest<'a> {
    body: Body<'a>,
    /// The next part, and the number of its bytes that have been taken.
    part: usize,
    taken: u64,
}

impl<'a> Rest<'a> {
    /// Passes the next `size` bytes to `sink`, piece by piece. No piece is empty.
    #[inline]
    pub(super) fn take(&mut self, mut size: u64, mut sink: impl FnMut(Piece<'a>)) {
        while size > 0
            && let Some(part) = self.body.part(self.part)
        {
            let count = (part.size() - self.taken).min(size);
            if count > 0 {
                sink(slice(part, self.taken, count));
            }
            size -= count;
            self.taken += count;
            if self.taken == part.size() {
                (self.part, self.taken) = (self.part + 1, 0);
            }
        }
    }
}

/// `count` bytes of a piece, from `start` on.
#[inline]
fn slice(piece: Piece<'_>, start: u64, count: u64) -> Piece<'_> {
    match piece {
        Piece::Bytes(bytes) => Piece::Bytes(&bytes[start as usize..(start + count) as usize]),
        Piece::File { file, offset, .. } => Piece::File { file, offset: offset + start, size: count },
    }
}

/// Content between the bytes of framing in an output: `size` bytes after the first `position` bytes of framing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) position: usize,
    pub(super) size: u64,
}

#[cfg(test)]
mod tests {
    use super::Body;
    use oribi_host::Piece;

    #[test]
    fn content_is_taken_in_any_sizes() {
        let parts: [&[u8]; 5] = [b"", b"abc", b"", b"defg", b"h"];
        let pieces = parts.map(Piece::Bytes);
        for body in [Body::Parts(&parts), Body::Pieces(&pieces)] {
            assert_eq!((body.size(), body.can_be_gathered()), (8, true));
            for size in 1..10 {
                let (mut rest, mut taken) = (body.rest(), Vec::new());
                for _ in 0..8_u64.div_ceil(size) {
                    rest.take(size, |piece| {
                        let Piece::Bytes(bytes) = piece else { panic!("there are no files") };
                        assert!(!bytes.is_empty());
                        taken.extend_from_slice(bytes);
                    });
                }
                assert_eq!(taken, b"abcdefgh", "taken by {size}");
            }
        }
    }
}
