//! The format of a response in an area, which is a ring buffer: frames, one after the other.
//!
//! A frame is one word with its kind and its number of bytes, followed by these bytes in whole words. The reader accepts a
//! length only if the writer has published that many words.

use crate::shape::WORD;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words that stay free unless an end is written, so that an end always fits.
pub(crate) const RESERVE: usize = 1;

/// Words that must be free in an area before a worker takes a request for it: enough to begin an exchange and abandon it at
/// once, and a few more, so that no exchange begins where almost nothing fits.
pub(crate) const ROOM_TO_BEGIN: usize = 8;

/// The most bytes of the head of a response.
pub const HEAD_BYTES: usize = 1 << 20;

/// Bytes of the numbers before the head of a whole response.
const WHOLE: usize = 2 * WORD;

/// Words before the head of a whole response.
const BEFORE_WHOLE: usize = 1 + WHOLE / WORD;

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
    DescriptorRequest = 9,
    /// A whole response: the entry of its exchange, the number of bytes of its head, the head, and the content. It ends the
    /// exchange.
    Whole = 10,
    Deadline = 11,
    /// The trailers; `End` follows.
    Trailers = 12,
    /// A part of a head that does not fit into an area. The next frame of this kind, or `Head`, continues it.
    MoreHead = 13,
    /// A part of the commands of the app for its connection.
    Commands = 14,
}

impl Kind {
    /// Whether it is the last frame of an exchange.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::End | Self::Abandon | Self::Whole)
    }

    #[inline(always)]
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
            9 => Self::DescriptorRequest,
            10 => Self::Whole,
            11 => Self::Deadline,
            12 => Self::Trailers,
            13 => Self::MoreHead,
            14 => Self::Commands,
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

    /// The number of bytes of head and content together in a frame with a whole response; `None` for another kind of frame, or
    /// if the frame is too short.
    #[inline]
    pub(crate) const fn bytes_of_whole(self) -> Option<usize> {
        if matches!(self.kind, Kind::Whole) { self.length.checked_sub(WHOLE) } else { None }
    }

    /// The number of words of a frame with a whole response whose head and content have `bytes` bytes together.
    #[inline]
    pub(crate) const fn words_of_whole(bytes: usize) -> usize {
        1 + (WHOLE + bytes).div_ceil(WORD)
    }

    /// The number of words of the whole frame.
    #[inline]
    pub(crate) const fn words(self) -> usize {
        1 + self.length.div_ceil(WORD)
    }

    /// `None` if these bits do not begin a frame of at most `most` words.
    #[inline(always)]
    fn from_bits(bits: u64, most: usize) -> Option<Self> {
        let length = usize::try_from(bits >> 8).ok()?;
        let header = Self { kind: Kind::from_bits(bits & 0xFF)?, length };
        (header.words() <= most).then_some(header)
    }
}

/// The words of an area: a power of two. A position counts all words that were ever written.
#[derive(Clone, Copy)]
pub(crate) struct RingBuffer<'a>(pub(crate) &'a [AtomicU64]);

impl RingBuffer<'_> {
    #[inline]
    fn at(&self, position: u64) -> &AtomicU64 {
        &self.0[position as usize & (self.0.len() - 1)]
    }

    /// Writes a frame and returns the position after it. The caller has checked that there is room.
    #[inline]
    pub(crate) fn write(self, position: u64, kind: Kind, bytes: &[u8]) -> u64 {
        self.at(position).store(Header { kind, length: bytes.len() }.bits(), Relaxed);
        let mut joint = Joint::new(self, position + 1);
        joint.put(bytes);
        joint.end()
    }

    /// Writes a frame with a whole response and returns the position after it. The caller has checked that there is room.
    #[inline]
    pub(crate) fn write_whole(self, position: u64, entry: u64, head: &[u8], parts: &[&[u8]]) -> u64 {
        let content: usize = parts.iter().map(|part| part.len()).sum();
        let length = WHOLE + head.len() + content;
        self.at(position).store(Header { kind: Kind::Whole, length }.bits(), Relaxed);
        self.at(position + 1).store(entry, Relaxed);
        self.at(position + 2).store(head.len() as u64, Relaxed);
        let mut joint = Joint::new(self, position + 3);
        joint.put(head);
        for part in parts {
            joint.put(part);
        }
        joint.end()
    }

    /// The range of words for head and content of a whole response, whose frame begins at `position` and has `words` words. The
    /// ring buffer has `size` words. `None` if the frame does not fit before the end of the ring buffer, so that it would be in
    /// two pieces.
    #[inline]
    pub(crate) fn bytes_of_whole(position: u64, size: usize, words: usize) -> Option<Range<usize>> {
        let start = position as usize & (size - 1);
        (start + words <= size).then_some(start + BEFORE_WHOLE..start + words)
    }

    /// Writes the header and the two numbers of a whole response whose head and content have already been written, and returns
    /// the position after the response. `head` is the number of bytes of the head, `bytes` that of head and content.
    #[inline]
    pub(crate) fn write_numbers_of_whole(self, position: u64, entry: u64, head: usize, bytes: usize) -> u64 {
        self.at(position).store(Header { kind: Kind::Whole, length: WHOLE + bytes }.bits(), Relaxed);
        self.at(position + 1).store(entry, Relaxed);
        self.at(position + 2).store(head as u64, Relaxed);
        position + Header::words_of_whole(bytes) as u64
    }

    /// The frame at `position`, if it has at most `most` words.
    #[inline(always)]
    pub(crate) fn header(self, position: u64, most: usize) -> Option<Header> {
        Header::from_bits(self.at(position).load(Relaxed), most)
    }

    /// Copies the bytes of the frame at `position` into `bytes`.
    #[inline]
    pub(crate) fn read(self, position: u64, header: Header, bytes: &mut Vec<u8>) {
        self.read_bytes(position + 1, header.length, bytes);
    }

    /// Copies head and content of the whole response at `position` into `bytes`, and returns the two numbers before them;
    /// `None` if the frame is too short for these.
    #[inline]
    pub(crate) fn read_whole(self, position: u64, header: Header, bytes: &mut Vec<u8>) -> Option<[u64; 2]> {
        let length = header.length.checked_sub(WHOLE)?;
        self.read_bytes(position + 3, length, bytes);
        Some(self.numbers_of_whole(position))
    }

    /// The entry of the exchange whose whole response is at `position`, and the number of bytes of its head. Meaningless if
    /// there is no whole response.
    #[inline]
    pub(crate) fn numbers_of_whole(self, position: u64) -> [u64; 2] {
        [position + 1, position + 2].map(|at| self.at(at).load(Relaxed))
    }

    /// Copies the `length` bytes of head and content of the whole response at `position`. The caller has checked its length.
    #[inline]
    pub(crate) fn read_parts_of_whole(self, position: u64, length: usize, bytes: &mut Vec<u8>) {
        self.read_bytes(position + 3, length, bytes);
    }

    fn read_bytes(self, position: u64, length: usize, bytes: &mut Vec<u8>) {
        // The former content is overwritten, so it need not be cleared. A word of zeros is appended separately, because its
        // size is known at compile time: `resize` then rarely has to grow the vector, which would cost a call.
        bytes.truncate(length);
        bytes.extend_from_slice(&[0; WORD]);
        bytes.resize(length.next_multiple_of(WORD), 0);
        let copies = bytes.as_chunks_mut::<WORD>().0;
        let start = position as usize & (self.0.len() - 1);
        if let Some(words) = self.0[start..].get(..copies.len()) {
            copy_words(words, copies);
        } else {
            let (one, other) = self.run(position, copies.len());
            let (start, end) = copies.split_at_mut(one.len());
            copy_words(one, start);
            copy_words(other, end);
        }
        bytes.truncate(length);
    }

    /// Returns `count` words from `position` on, at most as many as the ring buffer has, in two slices: the words up to the end
    /// of the ring buffer, and the words at its start.
    #[inline]
    fn run(&self, position: u64, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let start = position as usize & (self.0.len() - 1);
        let before = count.min(self.0.len() - start);
        (&self.0[start..start + before], &self.0[..count - before])
    }
}

/// Copies words of shared memory, four at a time, because the compiler does not combine reads of atomics. `copies` has as many
/// elements as `words`.
#[inline(always)]
fn copy_words(words: &[AtomicU64], copies: &mut [[u8; WORD]]) {
    let ((words, last_words), (copies, last_copies)) = (words.as_chunks::<4>(), copies.as_chunks_mut::<4>());
    for ([a, b, c, d], copies) in words.iter().zip(copies) {
        *copies = [a, b, c, d].map(|word| word.load(Relaxed).to_ne_bytes());
    }
    for (word, copy) in last_words.iter().zip(last_copies) {
        *copy = word.load(Relaxed).to_ne_bytes();
    }
}

/// Writes bytes from several slices one after the other into whole words.
struct Joint<'a> {
    ring_buffer: RingBuffer<'a>,
    position: u64,
    /// The bytes of the incomplete word, and their number.
    begun: [u8; WORD],
    count: usize,
}

impl<'a> Joint<'a> {
    #[inline]
    const fn new(ring_buffer: RingBuffer<'a>, position: u64) -> Self {
        Self { ring_buffer, position, begun: [0; WORD], count: 0 }
    }

    #[inline]
    fn put(&mut self, mut bytes: &[u8]) {
        if self.count > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(WORD - self.count));
            self.begun[self.count..self.count + first.len()].copy_from_slice(first);
            self.count += first.len();
            if self.count < WORD {
                return;
            }
            self.ring_buffer.at(self.position).store(u64::from_ne_bytes(self.begun), Relaxed);
            self.position += 1;
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks::<WORD>();
        let (one, other) = self.ring_buffer.run(self.position, words.len());
        let (start, end) = words.split_at(one.len());
        for (area, words) in [(one, start), (other, end)] {
            for (target, word) in area.iter().zip(words) {
                target.store(u64::from_ne_bytes(*word), Relaxed);
            }
        }
        self.position += words.len() as u64;
        self.begun = [0; WORD];
        self.begun[..rest.len()].copy_from_slice(rest);
        self.count = rest.len();
    }

    /// Writes the bytes of the last, incomplete word and returns the position after it.
    #[inline]
    fn end(self) -> u64 {
        if self.count == 0 {
            return self.position;
        }
        self.ring_buffer.at(self.position).store(u64::from_ne_bytes(self.begun), Relaxed);
        self.position + 1
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
        let ring_buffer = RingBuffer(&words);
        let text = b"a text that takes several words, with a rest";
        let mut read = Vec::new();
        for start in 0..16 {
            for length in 0..text.len() {
                let end = ring_buffer.write(start, Kind::Content, &text[..length]);
                let header = ring_buffer.header(start, 16).expect("a frame");
                assert_eq!((header.kind, header.length, start + header.words() as u64), (Kind::Content, length, end));
                ring_buffer.read(start, header, &mut read);
                assert_eq!(read, &text[..length]);
            }
        }
    }

    #[test]
    fn whole_responses_are_read_as_they_were_written_wherever_the_circle_closes() {
        let words = words(16);
        let ring_buffer = RingBuffer(&words);
        let text = b"the head and the content of a whole response, in a few parts of any size";
        let mut read = Vec::new();
        for start in 0..16 {
            for (head, middle, end) in [(0, 0, 0), (0, 0, 1), (3, 4, 9), (8, 16, 24), (7, 8, 9), (20, 20, 72), (1, 2, 72)] {
                let parts = [&text[head..middle], &[], &text[middle..end]];
                let after = ring_buffer.write_whole(start, 77, &text[..head], &parts);
                let header = ring_buffer.header(start, 16).expect("a frame");
                assert_eq!((header.kind, start + header.words() as u64), (Kind::Whole, after));
                assert_eq!(header.words(), Header::words_of_whole(end));
                assert_eq!(ring_buffer.read_whole(start, header, &mut read), Some([77, head as u64]));
                assert_eq!(read, &text[..end]);
            }
        }
        let short = Header { kind: Kind::Whole, length: 15 };
        assert_eq!(ring_buffer.read_whole(0, short, &mut read), None);
    }

    #[test]
    fn a_frame_that_is_longer_than_what_was_published_is_none() {
        let words = words(16);
        let ring_buffer = RingBuffer(&words);
        assert_eq!(ring_buffer.header(0, 16), None, "all ones");
        ring_buffer.write(0, Kind::Head, &[1; 24]);
        assert!(ring_buffer.header(0, 4).is_some());
        assert_eq!(ring_buffer.header(0, 3), None);
        words[0].store(2 | u64::MAX << 8, Relaxed);
        assert_eq!(ring_buffer.header(0, 16), None);
        words[0].store(15, Relaxed);
        assert_eq!(ring_buffer.header(0, 16), None, "no such kind");
    }

    #[test]
    fn kinds_are_read_as_they_were_written() {
        let kinds: Vec<Kind> = (0..=255).filter_map(Kind::from_bits).collect();
        assert_eq!(kinds.iter().map(|kind| *kind as u8).collect::<Vec<_>>(), (1..=14).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_have_their_length() {
        assert_eq!(numbers::<2>(&[0; 16]), Some([0, 0]));
        assert_eq!(numbers::<2>(&[0; 17]), None);
        assert_eq!(numbers::<2>(&[0; 8]), None);
    }
}
