//! How a worker writes a response: as frames, one after the other, in an area that is a ring buffer.
//!
//! A frame is one word with its kind and its number of bytes, followed by these bytes in whole words. The reader does not trust
//! it: it believes a length only if the writer has published that many words.

use crate::shape::WORD;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words that stay free unless an end is written, so that an end always fits.
pub(crate) const RESERVE: usize = 1;

/// Words that must be free in an area before a worker takes a request for it: enough to begin an exchange and abandon it at
/// once, and a few more, so that no exchange begins where next to nothing fits.
pub(crate) const ROOM_TO_BEGIN: usize = 8;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Names the exchange to which the following frames belong.
    Begin = 1,
    Head = 2,
    Content = 3,
    File = 4,
    End = 5,
    Abandon = 6,
    Interim = 7,
    Message = 8,
    Wish = 9,
}

impl Kind {
    const fn from_bits(bits: u64) -> Option<Self> {
        Some(match bits {
            1 => Self::Begin,
            2 => Self::Head,
            3 => Self::Content,
            4 => Self::File,
            5 => Self::End,
            6 => Self::Abandon,
            7 => Self::Interim,
            8 => Self::Message,
            9 => Self::Wish,
            _ => return None,
        })
    }
}

/// The first word of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The number of bytes that follow.
    pub(crate) length: usize,
}

impl Header {
    const fn bits(self) -> u64 {
        (self.length as u64) << 8 | self.kind as u64
    }

    /// The number of words of the whole frame.
    pub(crate) const fn words(self) -> usize {
        1 + self.length.div_ceil(WORD)
    }

    /// `None` if these bits do not begin a frame of at most that many words.
    fn from_bits(bits: u64, most: usize) -> Option<Self> {
        let length = usize::try_from(bits >> 8).ok()?;
        let header = Self { kind: Kind::from_bits(bits & 0xFF)?, length };
        (header.words() <= most).then_some(header)
    }
}

/// The words of an area: a power of two. A position counts all words that were ever written.
#[derive(Clone, Copy)]
pub(crate) struct Circle<'a>(pub(crate) &'a [AtomicU64]);

impl Circle<'_> {
    #[inline]
    fn at(&self, position: u64) -> &AtomicU64 {
        &self.0[position as usize & (self.0.len() - 1)]
    }

    /// Writes a frame and returns the position after it. The caller has checked that there is room.
    pub(crate) fn write(self, position: u64, kind: Kind, bytes: &[u8]) -> u64 {
        let header = Header { kind, length: bytes.len() };
        self.at(position).store(header.bits(), Relaxed);
        let mut position = position + 1;
        let (words, rest) = bytes.as_chunks::<WORD>();
        for word in words {
            self.at(position).store(u64::from_ne_bytes(*word), Relaxed);
            position += 1;
        }
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            self.at(position).store(u64::from_ne_bytes(last), Relaxed);
            position += 1;
        }
        position
    }

    /// The frame at `position`, if it has at most `most` words.
    pub(crate) fn header(self, position: u64, most: usize) -> Option<Header> {
        Header::from_bits(self.at(position).load(Relaxed), most)
    }

    /// Copies the bytes of the frame at `position` into `bytes`.
    pub(crate) fn read(self, position: u64, header: Header, bytes: &mut Vec<u8>) {
        let words = header.words() - 1;
        bytes.clear();
        bytes.resize(words * WORD, 0);
        for (word, copy) in (position + 1..).zip(bytes.as_chunks_mut::<WORD>().0) {
            *copy = self.at(word).load(Relaxed).to_ne_bytes();
        }
        bytes.truncate(header.length);
    }
}

/// The words of a frame that consists of numbers; `None` if it has another length.
#[inline]
pub(crate) fn numbers<const COUNT: usize>(bytes: &[u8]) -> Option<[u64; COUNT]> {
    let (words, rest) = bytes.as_chunks::<WORD>();
    if words.len() != COUNT || !rest.is_empty() {
        return None;
    }
    let mut numbers = [0; COUNT];
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = u64::from_ne_bytes(*word);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(u64::MAX)).collect()
    }

    #[test]
    fn frames_are_read_as_they_were_written_wherever_the_circle_closes() {
        let words = words(16);
        let circle = Circle(&words);
        let text = b"a text that takes several words, with a rest";
        let mut read = Vec::new();
        for start in 0..16 {
            for length in 0..text.len() {
                let end = circle.write(start, Kind::Content, &text[..length]);
                let header = circle.header(start, 16).expect("a frame");
                assert_eq!((header.kind, header.length, start + header.words() as u64), (Kind::Content, length, end));
                circle.read(start, header, &mut read);
                assert_eq!(read, &text[..length]);
            }
        }
    }

    #[test]
    fn a_frame_that_is_longer_than_what_was_published_is_none() {
        let words = words(16);
        let circle = Circle(&words);
        assert_eq!(circle.header(0, 16), None, "all ones");
        circle.write(0, Kind::Head, &[1; 24]);
        assert!(circle.header(0, 4).is_some());
        assert_eq!(circle.header(0, 3), None);
        words[0].store(2 | u64::MAX << 8, Relaxed);
        assert_eq!(circle.header(0, 16), None);
        words[0].store(10, Relaxed);
        assert_eq!(circle.header(0, 16), None, "no such kind");
    }

    #[test]
    fn kinds_are_read_as_they_were_written() {
        let kinds: Vec<Kind> = (0..=255).filter_map(Kind::from_bits).collect();
        assert_eq!(kinds.iter().map(|kind| *kind as u8).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_have_their_length() {
        assert_eq!(numbers::<2>(&[0; 16]), Some([0, 0]));
        assert_eq!(numbers::<2>(&[0; 17]), None);
        assert_eq!(numbers::<2>(&[0; 8]), None);
    }
}
