//! Queues response bytes that wait for room in the socket.
//!
//! The bytes are in segments of bounded size. Each segment is freed when it has been sent, so memory holds only waiting bytes.
//! Framing is written directly into the last segment; see [`Output::tail`]. Beyond a limit, segments move to a file
//! (`spooled`).

pub(super) mod spooled;

use super::answer::Unsent;
use super::bounds::{Budget, Share};
use super::spool::Block;
use oribi_config::memory_allowed;
use oribi_host::Piece;
use oribi_io::{Attempt, Backend};
use oribi_stats::totals::Tally;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The most bytes of a segment, without the framing of its content.
pub(super) const SEGMENT_BYTES: usize = 64 << 10;

/// The most segments that one call sends: a megabyte, which is more than a socket takes at once.
const GATHERED_SEGMENTS: usize = 16;

/// The most bytes of a file that one turn of a connection sends, so that a fast reader does not keep others waiting.
const FILE_TURN: usize = 1 << 20;

/// Outputs that are kept for the next responses; more are freed.
const POOLED: usize = 64;

/// The most memory that a kept output may own: most responses fit.
const POOLED_BYTES: usize = 16 << 10;

/// The fewest bytes that another queue takes over without a copy. For fewer bytes, a separate segment costs more than a copy.
const SHARED_BYTES: usize = 4 << 10;

/// Unused outputs. The last one given back is used first, because it is most likely in the cache.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a connection without output has room for no more than a pointer")]
pub(super) struct Pool(Vec<Box<Output>>);

impl Pool {
    #[inline]
    pub(super) fn take(&mut self) -> Box<Output> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps an output that has been sent completely.
    #[inline(always)]
    pub(super) fn give(&mut self, mut output: Box<Output>) {
        debug_assert!(output.is_empty(), "an output is given back with bytes in it");
        if self.0.len() < POOLED {
            output.progress = 0;
            output.timed = false;
            // Few responses hold anything, and this check is faster than the call.
            if !output.held.is_empty() {
                output.held.clear();
            }
            if output.tail.capacity() + output.spare.capacity() > POOLED_BYTES {
                (output.tail, output.spare) = (Vec::new(), Vec::new());
            }
            self.0.push(output);
        }
    }
}

/// A queue of bytes and files.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The segments before the last one.
    closed: VecDeque<Segment>,
    /// Bytes in memory of the segments before the last one, with the sent bytes of the first.
    closed_bytes: usize,
    /// The last segment, which is written to; mostly the only one.
    tail: Vec<u8>,
    /// Bytes of the first segment that have been sent.
    sent: usize,
    /// Bytes sent since the deadline for writing was last set.
    pub(super) progress: usize,
    /// Whether the deadline for writing has been set.
    pub(super) timed: bool,
    /// The memory of a segment that has been sent.
    spare: Vec<u8>,
    /// The complete responses in the output.
    pub(super) unsent: Vec<Unsent>,
    /// Values that are dropped when the output has been sent, or its connection ends.
    pub(super) held: Vec<Box<dyn fmt::Debug>>,
    /// Bytes that wait in the spool.
    spooled: u64,
    /// The output's part of the memory that responses hold; zero if a socket takes all of the output at once.
    pub(super) share: Share,
    /// Whether the output has unchecked files, which may be in memory.
    unknown_files: bool,
    /// Bytes of the output's files that are in memory.
    of_files: u64,
    /// Whether a part of the output has been in the spool.
    pub(super) was_spooled: bool,
    /// Whether the spool has refused a part of the output.
    pub(super) was_refused: bool,
}

/// A segment that is no longer written to; never empty.
#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    /// A part of a segment that was passed on from another queue: see [`Output::pass_on`].
    Part {
        bytes: Arc<Vec<u8>>,
        start: usize,
        end: usize,
    },
    File {
        file: Arc<File>,
        offset: u64,
        left: u64,
        /// The bytes of memory that the file holds, as far as they are known.
        memory: u64,
    },
    /// The bytes of a block in the spool, from `start` on.
    Spooled {
        block: Block,
        start: usize,
    },
}

/// The result of sending all waiting bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// All bytes were sent.
    All,
    /// The socket is full; the next event of the socket continues.
    Later,
    /// A long file has used its turn; continue without waiting for an event.
    Turn,
    /// The connection is broken.
    Broken,
    /// A file ended before its promised size.
    FileEnded,
}

impl Output {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.closed.is_empty()
    }

    /// Whether all that waits is in memory, and belongs to no response that is to be counted when it has been sent.
    pub(super) fn is_in_memory(&self) -> bool {
        let in_memory = |segment: &Segment| matches!(segment, Segment::Bytes(_) | Segment::Part { .. });
        self.unsent.is_empty() && self.held.is_empty() && self.closed.iter().all(in_memory)
    }

    /// A copy of the bytes in memory that wait.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.waiting());
        for segment in &self.closed {
            match segment {
                Segment::Bytes(part) => bytes.extend_from_slice(part),
                Segment::Part { bytes: part, start, end } => bytes.extend_from_slice(&part[*start..*end]),
                Segment::File { .. } | Segment::Spooled { .. } => {}
            }
        }
        bytes.extend_from_slice(&self.tail);
        bytes.drain(..self.sent);
        bytes
    }

    /// Bytes in memory that wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.closed_bytes + self.tail.len() - self.sent
    }

    /// Bytes in memory and in the spool that wait, without those of files that apps send.
    #[inline]
    pub(super) fn framed(&self) -> usize {
        self.waiting().saturating_add(self.spooled as usize)
    }

    /// Returns the end of the queue, for appending. This is never a partly sent segment, because the writer may still change
    /// the last bytes of the segment.
    #[inline]
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        if self.tail.len() >= SEGMENT_BYTES || (self.sent > 0 && self.closed.is_empty()) {
            self.close_tail();
        }
        &mut self.tail
    }

    /// Starts a new last segment.
    #[cold]
    fn close_tail(&mut self) {
        let next = std::mem::take(&mut self.spare);
        let bytes = std::mem::replace(&mut self.tail, next);
        self.closed_bytes += bytes.len();
        self.closed.push_back(Segment::Bytes(bytes));
    }

    #[inline]
    pub(super) fn push(&mut self, piece: &[u8]) {
        let tail = self.tail();
        if piece.len() <= SEGMENT_BYTES - tail.len() {
            return tail.extend_from_slice(piece);
        }
        self.push_in_segments(piece);
    }

    #[inline(never)]
    fn push_in_segments(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let tail = self.tail();
            let (now, rest) = piece.split_at(piece.len().min(SEGMENT_BYTES - tail.len()));
            tail.extend_from_slice(now);
            piece = rest;
        }
    }

    /// Appends a piece of content.
    #[inline]
    pub(super) fn push_piece(&mut self, piece: &Piece<'_>) {
        match *piece {
            Piece::Bytes(bytes) => self.push(bytes),
            Piece::File { file, offset, size } => self.push_file(file, offset, size),
        }
    }

    fn push_file(&mut self, file: &Arc<File>, offset: u64, size: u64) {
        if size == 0 {
            return;
        }
        if !self.tail.is_empty() {
            self.close_tail();
        }
        self.unknown_files = true;
        self.closed.push_back(Segment::File { file: file.clone(), offset, left: size, memory: 0 });
    }

    /// Whether a complete response is still waiting because the socket had no room for it.
    #[inline]
    pub(super) fn holds_responses_back(&self) -> bool {
        // Only a socket that has refused bytes gets this deadline.
        self.timed
    }

    /// The bytes that wait in memory and in files.
    pub(super) fn size(&self) -> u64 {
        let of_files = self.closed.iter().map(|segment| if let Segment::File { left, .. } = segment { *left } else { 0 });
        self.waiting() as u64 + self.spooled + of_files.sum::<u64>()
    }

    /// Moves the first `size` bytes to the end of another queue; at least that many must wait. Large parts in memory are not
    /// copied: both queues share such a segment until this queue has passed on the rest of it.
    ///
    /// # Errors
    /// The disk cannot be read, so some of the bytes are missing.
    pub(super) fn pass_on(&mut self, mut size: u64, to: &mut Self) -> io::Result<()> {
        while size > 0 {
            let count = match self.closed.front_mut() {
                Some(Segment::Spooled { block, start }) => {
                    let count = size.min((block.len() - *start) as u64);
                    block.read(*start, count as usize, to.tail())?;
                    count
                }
                Some(Segment::File { file, offset, left, .. }) => {
                    let count = size.min(*left);
                    to.push_file(file, *offset, count);
                    count
                }
                Some(Segment::Part { bytes, start, end }) => {
                    let count = size.min((*end - *start) as u64);
                    to.push_part(bytes, *start, *start + count as usize);
                    count
                }
                Some(Segment::Bytes(bytes)) if size < SHARED_BYTES as u64 => push_some(&bytes[self.sent..], size, to),
                Some(Segment::Bytes(bytes)) => {
                    let (start, end) = (std::mem::take(&mut self.sent), bytes.len());
                    let bytes = Arc::new(std::mem::take(bytes));
                    self.closed_bytes -= start;
                    self.closed[0] = Segment::Part { bytes, start, end };
                    continue;
                }
                None if size >= SHARED_BYTES as u64 && self.tail.len() - self.sent >= SHARED_BYTES => {
                    self.close_tail();
                    continue;
                }
                None => push_some(&self.tail[self.sent..], size, to),
            };
            if count == 0 {
                return Ok(());
            }
            self.left(count as usize);
            size -= count;
        }
        if self.closed.is_empty() && self.sent == self.tail.len() {
            self.tail.clear();
            self.sent = 0;
        }
        Ok(())
    }

    fn push_part(&mut self, bytes: &Arc<Vec<u8>>, start: usize, end: usize) {
        if end - start < SHARED_BYTES {
            return self.push(&bytes[start..end]);
        }
        if !self.tail.is_empty() {
            self.close_tail();
        }
        self.closed_bytes += end - start;
        self.closed.push_back(Segment::Part { bytes: bytes.clone(), start, end });
    }

    /// Whether all waiting bytes are one segment of which nothing has been sent. Such a segment can be sent together with
    /// content that is not copied.
    #[inline]
    pub(super) fn is_one_segment(&self) -> bool {
        self.closed.is_empty() && self.sent == 0
    }

    /// The single segment, of any length.
    #[inline]
    pub(super) fn only_segment(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.is_one_segment(), "there are others");
        &mut self.tail
    }

    /// Removes and returns the single segment.
    pub(super) fn take_only_segment(&mut self) -> Vec<u8> {
        debug_assert!(self.is_one_segment(), "there are others");
        std::mem::take(&mut self.tail)
    }

    /// Keeps memory for the next segment.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if self.tail.capacity() == 0 {
            self.tail = bytes;
        } else if bytes.capacity() > self.spare.capacity() && bytes.capacity() <= 2 * SEGMENT_BYTES {
            self.spare = bytes;
        }
    }

    /// Sends as much as the socket takes, counted by `tally`. With `last`, the end of the connection follows at once.
    #[inline]
    pub(super) fn flush<B: Backend>(&mut self, backend: &mut B, socket: &mut B::Socket, last: bool, tally: &Tally) -> Flushed {
        if !self.closed.is_empty() {
            let flushed = self.flush_closed(backend, socket, tally);
            if flushed != Flushed::All {
                return flushed;
            }
        }
        while self.sent < self.tail.len() {
            let rest = &self.tail[self.sent..];
            match if last { backend.send_last(socket, rest) } else { backend.send(socket, rest) } {
                Attempt::Done(count) if count == rest.len() => {
                    tally.sent(count);
                    break;
                }
                Attempt::Done(count) => {
                    tally.sent(count);
                    self.progress += count;
                    self.sent += count;
                }
                Attempt::Later => return Flushed::Later,
                Attempt::End | Attempt::Broken => return Flushed::Broken,
            }
        }
        self.tail.clear();
        self.sent = 0;
        Flushed::All
    }

    /// Sends everything before the last segment.
    #[inline(never)]
    fn flush_closed<B: Backend>(&mut self, backend: &mut B, socket: &mut B::Socket, tally: &Tally) -> Flushed {
        let mut file_turn = FILE_TURN;
        if self.unknown_files && Budget::of_process().spares_sockets(memory_allowed()) {
            self.look_at_files();
        }
        loop {
            let attempt = match self.closed.front() {
                None => return Flushed::All,
                Some(Segment::Bytes(_) | Segment::Part { .. }) => self.send_several(backend, socket),
                Some(Segment::File { .. } | Segment::Spooled { .. }) if file_turn == 0 => return Flushed::Turn,
                Some(Segment::File { file, offset, left, memory }) if *memory > 0 => {
                    // The file is in memory, and its pages in the queue of a socket would still be uncounted memory. So would a
                    // buffer that is kept for the next call.
                    let count = usize::try_from(*left).unwrap_or(file_turn).min(file_turn).min(SEGMENT_BYTES);
                    let mut bytes = vec![0; count];
                    file.read_exact_at(&mut bytes, *offset).map_or(Attempt::End, |()| backend.send(socket, &bytes))
                }
                Some(Segment::File { file, offset, left, .. }) => {
                    let size = usize::try_from(*left).unwrap_or(file_turn).min(file_turn);
                    backend.send_file(socket, file.as_fd(), *offset, size)
                }
                Some(Segment::Spooled { block, start }) => {
                    let count = (block.len() - *start).min(file_turn);
                    // A disk error ends the response, as does a file that is too short.
                    block.with_bytes(*start, count, |bytes| backend.send(socket, bytes)).unwrap_or(Attempt::End)
                }
            };
            match attempt {
                Attempt::Done(count) => {
                    tally.sent(count);
                    file_turn -= self.left(count).min(file_turn);
                }
                Attempt::Later => return Flushed::Later,
                Attempt::End => return Flushed::FileEnded,
                Attempt::Broken => return Flushed::Broken,
            }
        }
    }

    /// Sends the bytes at the front of the queue, as many as one call takes.
    fn send_several<B: Backend>(&self, backend: &mut B, socket: &mut B::Socket) -> Attempt {
        let mut slices = [IoSlice::new(&[]); GATHERED_SEGMENTS];
        let mut count = 0;
        let mut bytes = self.closed.iter().map_while(|segment| match segment {
            Segment::Bytes(bytes) => Some(&bytes[..]),
            Segment::Part { bytes, start, end } => Some(&bytes[*start..*end]),
            Segment::File { .. } | Segment::Spooled { .. } => None,
        });
        for slice in &mut slices {
            let Some(bytes) = bytes.next() else { break };
            *slice = IoSlice::new(if count == 0 { &bytes[self.sent..] } else { bytes });
            count += 1;
        }
        if count == self.closed.len() && count < GATHERED_SEGMENTS && !self.tail.is_empty() {
            slices[count] = IoSlice::new(&self.tail);
            count += 1;
        }
        backend.send_gathered(socket, &slices[..count])
    }

    /// Removes `count` sent bytes; returns how many of them were from a file or the spool.
    fn left(&mut self, mut count: usize) -> usize {
        self.progress += count;
        loop {
            match self.closed.front_mut() {
                Some(Segment::File { offset, left, memory, .. }) => {
                    *offset += count as u64;
                    *left -= count as u64;
                    if *left == 0 {
                        self.of_files -= *memory;
                        self.closed.pop_front();
                    }
                    return count;
                }
                Some(Segment::Spooled { block, start }) => {
                    *start += count;
                    self.spooled -= count as u64;
                    if *start == block.len() {
                        self.closed.pop_front();
                    }
                    return count;
                }
                Some(Segment::Part { start, end, .. }) => {
                    let sent = count.min(*end - *start);
                    *start += sent;
                    self.closed_bytes -= sent;
                    count -= sent;
                    if start == end {
                        self.closed.pop_front();
                    }
                    if count == 0 {
                        return 0;
                    }
                }
                Some(Segment::Bytes(bytes)) if count >= bytes.len() - self.sent => {
                    count -= bytes.len() - self.sent;
                    self.closed_bytes -= bytes.len();
                    self.sent = 0;
                    if let Some(Segment::Bytes(bytes)) = self.closed.pop_front() {
                        self.recycle(bytes);
                    }
                    if count == 0 {
                        return 0;
                    }
                }
                // A part of the first segment, or a part of the last one, which was sent together with the segments before it.
                Some(Segment::Bytes(_)) | None => {
                    self.sent += count;
                    return 0;
                }
            }
        }
    }
}

/// Appends up to `size` of these bytes; returns the number appended.
fn push_some(bytes: &[u8], size: u64, to: &mut Output) -> u64 {
    let count = usize::try_from(size).map_or(bytes.len(), |size| size.min(bytes.len()));
    to.push(&bytes[..count]);
    count as u64
}

#[cfg(test)]
mod tests;
