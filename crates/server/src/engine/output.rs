//! Response bytes that wait for room in the socket.
//!
//! They stand in segments of a bounded size, each of which is freed when it has left, so that what is kept in memory is what waits
//! and never what has been sent. Framing is written straight into the last segment; see [`Output::tail`].

use oribi_host::Piece;
use oribi_io::{Attempt, Backend};
use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A segment takes no more bytes than this, but for the framing of what stands in it.
pub(super) const SEGMENT_BYTES: usize = 64 << 10;

/// Segments that leave with one call: a megabyte, which is more than a socket takes at once.
const GATHERED_SEGMENTS: usize = 16;

/// One turn of a connection moves this much of a file at most, so that a fast reader does not keep others waiting.
const FILE_TURN: usize = 1 << 20;

/// Outputs kept for the next response; more than these are freed.
const POOLED: usize = 64;

/// Memory that a kept output may own: most responses fit.
const POOLED_BYTES: usize = 16 << 10;

/// Outputs that no connection uses. The last one given back goes out first, for it is likeliest in the cache.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a connection without output has room for no more than a pointer")]
pub(super) struct Pool(Vec<Box<Output>>);

impl Pool {
    #[inline]
    pub(super) fn take(&mut self) -> Box<Output> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps an output from which everything has left.
    #[inline]
    pub(super) fn give(&mut self, mut output: Box<Output>) {
        debug_assert!(output.is_empty(), "an output is given back with bytes in it");
        if self.0.len() < POOLED {
            output.progress = 0;
            if output.spare.capacity() > POOLED_BYTES {
                output.spare = Vec::new();
            }
            self.0.push(output);
        }
    }
}

/// A queue of bytes and files.
#[derive(Debug, Default)]
pub(super) struct Output {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that have left.
    sent: usize,
    /// Bytes in memory in all segments but the last.
    closed: usize,
    /// Bytes sent since the deadline for writing was last set.
    pub(super) progress: usize,
    /// The memory of a segment that has left.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    File { file: Arc<File>, offset: u64, left: u64 },
}

impl Segment {
    fn bytes(&self) -> usize {
        if let Self::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// What became of an attempt to send everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// All of it left.
    All,
    /// The socket is full; an event will say when to go on.
    Later,
    /// A long file has had its turn; go on without waiting for an event.
    Turn,
    /// The connection is broken.
    Broken,
    /// A file ended before the size that was promised for it.
    FileEnded,
}

impl Output {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes in memory that wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.closed + self.segments.back().map_or(0, Segment::bytes) - self.sent
    }

    /// The end of the queue, to be appended to. Bytes that have left in part are not added to: whoever writes here may still change
    /// what it has written last.
    #[inline]
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        let open = match self.segments.back() {
            Some(Segment::Bytes(bytes)) => bytes.len() < SEGMENT_BYTES && (self.sent == 0 || self.segments.len() > 1),
            Some(Segment::File { .. }) | None => false,
        };
        if !open {
            let bytes = std::mem::take(&mut self.spare);
            self.add(Segment::Bytes(bytes));
        }
        match self.segments.back_mut() {
            Some(Segment::Bytes(bytes)) => bytes,
            _ => unreachable!("the last segment was looked at or added above"),
        }
    }

    /// The segment that waits alone, however long it is; a new one if nothing waits.
    pub(super) fn only_segment(&mut self) -> &mut Vec<u8> {
        if self.segments.is_empty() {
            return self.tail();
        }
        match self.segments.back_mut() {
            Some(Segment::Bytes(bytes)) => bytes,
            _ => unreachable!("whoever asks for it has seen that it is there"),
        }
    }

    fn add(&mut self, segment: Segment) {
        self.closed += self.segments.back().map_or(0, Segment::bytes);
        self.segments.push_back(segment);
    }

    /// Adds bytes behind all others.
    #[inline]
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let tail = self.tail();
            let (now, rest) = piece.split_at(piece.len().min(SEGMENT_BYTES - tail.len()));
            tail.extend_from_slice(now);
            piece = rest;
        }
    }

    /// Adds a piece of content behind all others.
    #[inline]
    pub(super) fn push_piece(&mut self, piece: &Piece<'_>) {
        match *piece {
            Piece::Bytes(bytes) => self.push(bytes),
            Piece::File { size: 0, .. } => {}
            Piece::File { file, offset, size } => self.add(Segment::File { file: file.clone(), offset, left: size }),
        }
    }

    /// Takes the only segment out, if there is one alone and nothing of it has left: it can then be sent together with bytes that
    /// are not copied.
    pub(super) fn take_only_segment(&mut self) -> Option<Vec<u8>> {
        if self.segments.len() != 1 || self.sent > 0 {
            return None;
        }
        match self.segments.pop_back()? {
            Segment::Bytes(bytes) => Some(bytes),
            file @ Segment::File { .. } => {
                self.segments.push_back(file);
                None
            }
        }
    }

    /// Whether [`Output::take_only_segment`] would give something.
    pub(super) fn is_one_segment(&self) -> bool {
        self.sent == 0 && self.segments.len() == 1 && matches!(self.segments.front(), Some(Segment::Bytes(_)))
    }

    /// Drops a last segment that nothing was written into.
    #[inline]
    pub(super) fn trim(&mut self) {
        if let Some(Segment::Bytes(bytes)) = self.segments.back()
            && bytes.is_empty()
            && let Some(Segment::Bytes(bytes)) = self.segments.pop_back()
        {
            self.closed -= self.segments.back().map_or(0, Segment::bytes);
            self.recycle(bytes);
        }
    }

    /// Keeps memory for the next segment.
    #[inline]
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > self.spare.capacity() && bytes.capacity() <= 2 * SEGMENT_BYTES {
            bytes.clear();
            self.spare = bytes;
        }
    }

    /// Sends what can be sent now. With `last`, the end of the connection follows at once.
    #[inline]
    pub(super) fn flush<B: Backend>(&mut self, backend: &mut B, socket: &mut B::Socket, last: bool) -> Flushed {
        let mut file_turn = FILE_TURN;
        loop {
            let attempt = match self.segments.front() {
                None => return Flushed::All,
                Some(Segment::Bytes(bytes)) if self.segments.len() == 1 => {
                    let rest = &bytes[self.sent..];
                    if last { backend.send_last(socket, rest) } else { backend.send(socket, rest) }
                }
                Some(Segment::Bytes(_)) => self.send_several(backend, socket),
                Some(Segment::File { .. }) if file_turn == 0 => return Flushed::Turn,
                Some(Segment::File { file, offset, left }) => {
                    let size = usize::try_from(*left).unwrap_or(file_turn).min(file_turn);
                    backend.send_file(socket, file.as_fd(), *offset, size)
                }
            };
            match attempt {
                Attempt::Done(count) => file_turn -= self.left(count).min(file_turn),
                Attempt::Later => return Flushed::Later,
                Attempt::End => return Flushed::FileEnded,
                Attempt::Broken => return Flushed::Broken,
            }
        }
    }

    /// Sends the bytes at the front of the queue, as far as one call takes them.
    fn send_several<B: Backend>(&self, backend: &mut B, socket: &mut B::Socket) -> Attempt {
        let mut slices = [IoSlice::new(&[]); GATHERED_SEGMENTS];
        let mut count = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            let Segment::Bytes(bytes) = segment else { break };
            *slice = IoSlice::new(if count == 0 { &bytes[self.sent..] } else { bytes });
            count += 1;
        }
        backend.send_gathered(socket, &slices[..count])
    }

    /// Takes out what has left; tells how much of that was a file's.
    #[inline]
    fn left(&mut self, mut count: usize) -> usize {
        self.progress += count;
        if let Some(Segment::File { offset, left, .. }) = self.segments.front_mut() {
            *offset += count as u64;
            *left -= count as u64;
            if *left == 0 {
                self.drop_first();
            }
            return count;
        }
        while count > 0 {
            let rest = self.segments.front().map_or(0, Segment::bytes) - self.sent;
            if count < rest {
                self.sent += count;
                break;
            }
            count -= rest;
            self.drop_first();
        }
        0
    }

    #[inline]
    fn drop_first(&mut self) {
        self.sent = 0;
        let Some(segment) = self.segments.pop_front() else { return };
        // The last segment is not counted among the closed ones.
        if !self.segments.is_empty() {
            self.closed -= segment.bytes();
        }
        if let Segment::Bytes(bytes) = segment {
            self.recycle(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flushed, Output, Pool, SEGMENT_BYTES};
    use oribi_io::{Backend, Sim, World};

    /// What arrives at a client whose socket takes `window` bytes at a time, and the most that waited in memory meanwhile.
    fn drained(output: &mut Output, window: usize) -> (Vec<u8>, usize) {
        let world = World::new();
        let client = world.connect();
        let mut backend = Sim::new(&world);
        let pipe = std::io::pipe().map(|(reader, _)| reader);
        backend.watch(std::os::fd::AsFd::as_fd(&pipe.expect("pipes are there"))).expect("this backend refuses nothing");
        let oribi_io::Accepted::Connection(mut socket, _) = accept(&mut backend) else { panic!("a client waits") };
        client.set_window(window);
        let (mut received, mut memory) = (Vec::new(), 0);
        loop {
            let flushed = output.flush(&mut backend, &mut socket, false);
            received.extend(client.received());
            memory = memory.max(output.memory() - output.waiting());
            match flushed {
                Flushed::All => return (received, memory),
                Flushed::Later => client.set_window(window),
                other => panic!("{other:?}"),
            }
        }
    }

    fn accept(backend: &mut Sim) -> oribi_io::Accepted<<Sim as Backend>::Socket> {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        backend.accept(0, std::os::fd::AsFd::as_fd(&socket))
    }

    impl Output {
        /// Bytes that its segments hold, sent or not.
        fn memory(&self) -> usize {
            self.segments.iter().map(super::Segment::bytes).sum()
        }
    }

    #[test]
    fn what_has_left_is_freed() {
        let bytes: Vec<u8> = (0..2_000_000_u32).map(|number| number as u8).collect();
        for window in [1000, SEGMENT_BYTES, SEGMENT_BYTES + 1, 300_000] {
            let mut output = Output::default();
            bytes.chunks(7000).for_each(|piece| output.push(piece));
            assert_eq!(output.waiting(), bytes.len());
            let (received, kept) = drained(&mut output, window);
            assert!(received == bytes, "with a window of {window}");
            assert!(kept <= SEGMENT_BYTES, "{kept} bytes were kept that had left");
            assert_eq!((output.waiting(), output.is_empty()), (0, true));
        }
    }

    #[test]
    fn what_has_left_in_part_is_not_added_to() {
        let mut output = Output::default();
        output.tail().extend_from_slice(b"abc");
        output.left(1);
        output.tail().extend_from_slice(b"def");
        assert_eq!((output.waiting(), output.segments.len()), (5, 2));
        output.left(2);
        assert_eq!(output.waiting(), 3);
        output.left(3);
        assert!(output.is_empty());
    }

    #[test]
    fn a_segment_that_nothing_was_written_into_is_dropped() {
        let mut output = Output::default();
        output.push(&vec![0; SEGMENT_BYTES]);
        output.tail();
        output.trim();
        assert_eq!((output.waiting(), output.segments.len()), (SEGMENT_BYTES, 1));
        output.left(SEGMENT_BYTES);
        output.tail();
        output.trim();
        assert!(output.is_empty());
    }

    #[test]
    fn kept_outputs_own_little() {
        let (mut pool, mut output) = (Pool::default(), Box::<Output>::default());
        output.push(&vec![0; 3 * SEGMENT_BYTES]);
        output.left(3 * SEGMENT_BYTES);
        pool.give(output);
        assert!(pool.take().spare.capacity() <= super::POOLED_BYTES);
    }
}
