//! The part of an output that is in a file instead of memory.

use super::super::spool::{BLOCK_BYTES, Refusal, Spool};
use super::{Output, Segment};
use rustix::fs::fcntl_get_seals;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// The spool for an output, and the bounds.
#[derive(Debug)]
pub(in super::super) struct Destination<'s> {
    pub(in super::super) spool: &'s Arc<Spool>,
    /// The number of bytes that the output may still move to the spool.
    pub(in super::super) room: u64,
    /// The most bytes of all responses of the process in files.
    pub(in super::super) most: u64,
    /// Whether files in memory are also moved.
    pub(in super::super) with_files: bool,
}

impl Output {
    /// Bytes that wait in the spool.
    #[inline]
    pub(in super::super) const fn spooled(&self) -> u64 {
        self.spooled
    }

    /// Bytes that wait in memory: those of the output itself, and those of its files in memory.
    pub(in super::super) fn held(&self) -> u64 {
        self.waiting() as u64 + self.of_files
    }

    /// Counts again how much memory the output holds.
    pub(in super::super) fn recount(&mut self) {
        let held = self.held();
        self.share.set(held);
    }

    /// Gives the share back, because the output has no more waiting bytes.
    pub(in super::super) fn forget_share(&mut self) {
        self.share.set(0);
        (self.was_spooled, self.was_refused, self.unknown_files) = (false, false, false);
    }

    /// Checks which of the files added since the last check are in memory.
    pub(in super::super) fn look_at_files(&mut self) {
        if !std::mem::take(&mut self.unknown_files) {
            return;
        }
        self.of_files = 0;
        for segment in &mut self.closed {
            if let Segment::File { file, left, memory, .. } = segment {
                if *memory == 0 && is_in_memory(file) {
                    *memory = *left;
                }
                self.of_files += *memory;
            }
        }
    }

    /// Moves the waiting bytes in memory to the spool, from front to back. After a refusal the rest stays where it is.
    ///
    /// # Errors
    /// Some of the bytes have not been moved.
    pub(in super::super) fn move_to(&mut self, mut to: Destination<'_>) -> Result<(), Refusal> {
        if !self.tail.is_empty() {
            self.close_tail();
        }
        let mut before = std::mem::take(&mut self.closed);
        let moved = self.move_segments(&mut before, &mut to);
        self.closed.append(&mut before);
        moved
    }

    /// Moves the segments `before`, until one is refused.
    fn move_segments(&mut self, before: &mut VecDeque<Segment>, to: &mut Destination<'_>) -> Result<(), Refusal> {
        while let Some(segment) = before.pop_front() {
            let (moved, rest) = match segment {
                Segment::Bytes(bytes) => {
                    let sent = std::mem::take(&mut self.sent);
                    self.closed_bytes -= bytes.len();
                    let (count, moved) = self.add(&bytes[sent..], to);
                    let (start, end) = (sent + count, bytes.len());
                    (moved, (start < end).then(|| Segment::Part { bytes: Arc::new(bytes), start, end }))
                }
                Segment::Part { bytes, start, end } => {
                    self.closed_bytes -= end - start;
                    let (count, moved) = self.add(&bytes[start..end], to);
                    (moved, (start + count < end).then_some(Segment::Part { bytes, start: start + count, end }))
                }
                Segment::File { file, offset, left, memory } if memory > 0 && to.with_files => {
                    let (count, moved) = self.add_file(&file, offset, left, to);
                    let rest = Segment::File { file, offset: offset + count, left: left - count, memory };
                    if count == left {
                        self.of_files -= memory;
                    }
                    (moved, (count < left).then_some(rest))
                }
                other => (Ok(()), Some(other)),
            };
            if let Some(rest) = rest {
                if let Segment::Part { start, end, .. } = &rest {
                    self.closed_bytes += end - start;
                }
                self.closed.push_back(rest);
            }
            moved?;
        }
        Ok(())
    }

    /// Appends bytes to the spool; returns the number appended.
    fn add(&mut self, bytes: &[u8], to: &mut Destination<'_>) -> (usize, Result<(), Refusal>) {
        let mut added = 0;
        while added < bytes.len() {
            if !matches!(self.closed.back(), Some(Segment::Spooled { block, .. }) if block.room() > 0) {
                self.closed.push_back(Segment::Spooled { block: to.spool.take(), start: 0 });
            }
            let Some(Segment::Spooled { block, start }) = self.closed.back_mut() else { break };
            let room = usize::try_from(to.room).unwrap_or(usize::MAX).min(block.room());
            let count = room.min(bytes.len() - added);
            let appended = if count == 0 { Err(Refusal::Full) } else { block.append(&bytes[added..added + count], to.most) };
            if let Err(refusal) = appended {
                if *start == block.len() {
                    self.closed.pop_back();
                }
                return (added, Err(refusal));
            }
            to.room -= count as u64;
            self.spooled += count as u64;
            added += count;
        }
        (added, Ok(()))
    }

    /// Appends bytes of a file to the spool; returns the number appended.
    fn add_file(&mut self, file: &File, offset: u64, size: u64, to: &mut Destination<'_>) -> (u64, Result<(), Refusal>) {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(BLOCK_BYTES)];
        let mut added = 0;
        while added < size {
            let wanted = usize::try_from(size - added).unwrap_or(usize::MAX).min(bytes.len());
            if let Err(error) = file.read_exact_at(&mut bytes[..wanted], offset + added) {
                // If the file has become shorter, sending the rest of it fails.
                return (added, Err(Refusal::Failed(error)));
            }
            let (count, moved) = self.add(&bytes[..wanted], to);
            added += count as u64;
            if moved.is_err() {
                return (added, moved);
            }
        }
        (added, Ok(()))
    }
}

/// Whether a file without a name is in memory, like the files that workers create for large responses.
fn is_in_memory(file: &File) -> bool {
    let is_nameless = file.metadata().is_ok_and(|data| data.nlink() == 0);
    is_nameless && fcntl_get_seals(file).is_ok()
}
