//! Response bytes that wait for room in the socket.

use oribi_host::Piece;
use oribi_io::{Attempt, Backend};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

/// One turn of a connection moves this much of a file at most, so that a fast reader does not keep others waiting.
const FILE_TURN: usize = 1 << 20;

/// A queue of bytes and files.
#[derive(Debug, Default)]
pub(super) struct Output {
    segments: VecDeque<Segment>,
    /// Bytes in memory that wait.
    waiting: usize,
    /// Bytes sent since the deadline for writing was last set.
    pub(super) progress: usize,
}

#[derive(Debug)]
enum Segment {
    Bytes { bytes: Vec<u8>, sent: usize },
    File { file: Arc<File>, offset: u64, left: u64 },
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
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes in memory that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds bytes behind all others.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.waiting += piece.len();
        match self.segments.back_mut() {
            Some(Segment::Bytes { bytes, .. }) => bytes.extend_from_slice(piece),
            _ => self.segments.push_back(Segment::Bytes { bytes: piece.to_vec(), sent: 0 }),
        }
    }

    /// Adds what stands behind the first `skip` bytes of a piece, but no more than `most` bytes; tells how many.
    pub(super) fn push_piece(&mut self, piece: &Piece<'_>, skip: u64, most: u64) -> u64 {
        let count = (piece.size() - skip).min(most);
        match *piece {
            Piece::Bytes(bytes) => self.push(&bytes[skip as usize..(skip + count) as usize]),
            Piece::File { file, offset, .. } if count > 0 => {
                self.segments.push_back(Segment::File { file: file.clone(), offset: offset + skip, left: count });
            }
            Piece::File { .. } => {}
        }
        count
    }

    /// Sends what can be sent now.
    pub(super) fn flush<B: Backend>(&mut self, backend: &mut B, socket: &mut B::Socket) -> Flushed {
        let mut file_turn = FILE_TURN;
        while let Some(segment) = self.segments.front_mut() {
            let attempt = match segment {
                Segment::Bytes { bytes, sent } => backend.send(socket, &bytes[*sent..]),
                Segment::File { .. } if file_turn == 0 => return Flushed::Turn,
                Segment::File { file, offset, left } => {
                    let size = usize::try_from(*left).unwrap_or(file_turn).min(file_turn);
                    backend.send_file(socket, file.as_fd(), *offset, size)
                }
            };
            let count = match attempt {
                Attempt::Done(count) => count,
                Attempt::Later => return Flushed::Later,
                Attempt::End => return Flushed::FileEnded,
                Attempt::Broken => return Flushed::Broken,
            };
            self.progress += count;
            let finished = match segment {
                Segment::Bytes { bytes, sent } => {
                    *sent += count;
                    self.waiting -= count;
                    *sent == bytes.len()
                }
                Segment::File { offset, left, .. } => {
                    *offset += count as u64;
                    *left -= count as u64;
                    file_turn -= count;
                    *left == 0
                }
            };
            if finished {
                self.segments.pop_front();
            }
        }
        Flushed::All
    }
}
