//! The file of an engine for responses that wait for slow clients.
//!
//! The file has no name, and is closed when no response has a block in it. All responses share the file, so they need one
//! descriptor in total. A block belongs to one response, and is freed when all of it has been sent, or when the client has
//! disconnected. The room of a free block on the disk is given back to the file system, except for a few blocks that are
//! reused.

use super::bounds::{Share, Sum};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of a block: as many as a segment in memory.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// The most free blocks that keep their room on the disk: 4 MiB.
const KEPT: usize = 64;

/// The file of an engine, with its blocks.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    blocks: Mutex<Blocks>,
    /// The buffer for bytes that are sent to a socket.
    copied: Mutex<Vec<u8>>,
    /// Bytes in files of this process.
    sum: &'static Sum,
}

/// The used and the free blocks of a file.
#[derive(Debug, Default)]
struct Blocks {
    /// The number of blocks that were ever used.
    used: u32,
    /// The number of blocks that belong to responses.
    taken: u32,
    /// Free blocks that may have room on the disk.
    kept: Vec<u32>,
    /// Free blocks without room on the disk.
    holes: Vec<u32>,
}

impl Spool {
    /// Creates a file in `directory`.
    ///
    /// # Errors
    /// The operating system cannot create the file there.
    pub(super) fn new(directory: &Path, sum: &'static Sum) -> io::Result<Arc<Self>> {
        let file = tempfile::tempfile_in(directory)?;
        Ok(Arc::new(Self { file, blocks: Mutex::default(), copied: Mutex::default(), sum }))
    }

    /// Takes an empty block. This alone takes no room on the disk.
    pub(super) fn take(self: &Arc<Self>) -> Block {
        let mut blocks = self.blocks();
        blocks.taken += 1;
        let known = blocks.kept.pop().or_else(|| blocks.holes.pop());
        let number = known.unwrap_or_else(|| {
            blocks.used += 1;
            blocks.used - 1
        });
        drop(blocks);
        Block { spool: Arc::clone(self), number, filled: 0, share: Share::of(self.sum) }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, number: u32) {
        let mut blocks = self.blocks();
        blocks.taken -= 1;
        if blocks.taken == 0 {
            // No response needs the content of the file any longer.
            let all = u64::from(blocks.used) * BLOCK_BYTES as u64;
            if blocks.used as usize > KEPT && self.free(0, all) {
                *blocks = Blocks::default();
                return;
            }
        }
        if blocks.kept.len() < KEPT || !self.free(start_of(number), BLOCK_BYTES as u64) {
            blocks.kept.push(number);
        } else {
            blocks.holes.push(number);
        }
    }

    /// Gives bytes on the disk back to the file system; `false` if the file system cannot do that.
    fn free(&self, start: u64, size: u64) -> bool {
        fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, size).is_ok()
    }
}

fn start_of(number: u32) -> u64 {
    u64::from(number) * BLOCK_BYTES as u64
}

/// The reason why a block refused bytes.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The bound for responses in files is reached.
    Full,
    /// The operating system refused the write, usually because the disk is full.
    Failed(io::Error),
}

/// A part of the file that belongs to one response.
#[derive(Debug)]
pub(super) struct Block {
    spool: Arc<Spool>,
    number: u32,
    filled: usize,
    share: Share,
}

impl Block {
    /// The number of its bytes.
    pub(super) const fn len(&self) -> usize {
        self.filled
    }

    /// The number of bytes that still fit.
    pub(super) const fn room(&self) -> usize {
        BLOCK_BYTES - self.filled
    }

    /// Appends bytes for which there is room, unless all files together would have more than `most`. On failure, the block is
    /// unchanged.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(super) fn append(&mut self, bytes: &[u8], most: u64) -> Result<(), Refusal> {
        debug_assert!(bytes.len() <= self.room(), "a block has its size");
        if !self.share.grow(bytes.len() as u64, most) {
            return Err(Refusal::Full);
        }
        if let Err(error) = self.spool.file.write_all_at(bytes, self.offset(self.filled)) {
            self.share.shrink(bytes.len() as u64);
            return Err(Refusal::Failed(error));
        }
        self.filled += bytes.len();
        Ok(())
    }

    /// Appends `count` bytes of the block to `into`, from `start` on.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(super) fn read(&self, start: usize, count: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let before = into.len();
        into.resize(before + count, 0);
        let read = self.spool.file.read_exact_at(&mut into[before..], self.offset(start));
        if read.is_err() {
            into.truncate(before);
        }
        read
    }

    /// Calls `act` with `count` bytes from `start` on. They are copied, because pages that sendfile(2) passed to a socket would
    /// change in the socket's queue when the block is reused.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(super) fn with_bytes<T>(&self, start: usize, count: usize, act: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let mut bytes = self.spool.copied.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.clear();
        self.read(start, count, &mut bytes)?;
        Ok(act(&bytes))
    }

    /// The offset in the file of the byte at `position`.
    fn offset(&self, position: usize) -> u64 {
        start_of(self.number) + position as u64
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.spool.give_back(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::bounds::Budget;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn spool() -> (Arc<Spool>, &'static Budget) {
        let budget: &'static Budget = Box::leak(Box::default());
        (Spool::new(&std::env::temp_dir(), &budget.spooled).expect("a file is made"), budget)
    }

    fn content(block: &Block) -> Vec<u8> {
        let mut bytes = Vec::new();
        block.read(0, block.len(), &mut bytes).expect("the disk is read");
        bytes
    }

    /// Bytes on the disk.
    fn on_disk(spool: &Spool) -> u64 {
        spool.file.metadata().expect("it is open").blocks() * 512
    }

    #[test]
    fn blocks_keep_their_bytes_apart() {
        let (spool, budget) = spool();
        let mut blocks: Vec<Block> = (0..10).map(|_| spool.take()).collect();
        for round in 0..3_u8 {
            for (number, block) in blocks.iter_mut().enumerate() {
                block.append(&[number as u8 * 3 + round; 1000], u64::MAX).expect("the disk has room");
            }
        }
        for (number, block) in blocks.iter().enumerate() {
            let bytes = content(block);
            assert_eq!(bytes.len(), 3000);
            assert!((0..3).all(|round| bytes[round * 1000..][..1000].iter().all(|byte| *byte == (number * 3 + round) as u8)));
        }
        let mut part = b"before".to_vec();
        blocks[4].read(999, 2, &mut part).expect("the disk is read");
        assert_eq!(part, b"before\x0c\x0d");
        assert_eq!(budget.spooled.bytes(), 30_000);
        drop(blocks);
        assert_eq!(budget.spooled.bytes(), 0);
    }

    #[test]
    fn blocks_that_are_given_back_are_used_again_and_leave_the_disk() {
        let (spool, _) = spool();
        let full = || {
            let mut block = spool.take();
            block.append(&[7; BLOCK_BYTES], u64::MAX).expect("the disk has room");
            block
        };
        let first: Vec<Block> = (0..3 * KEPT).map(|_| full()).collect();
        let keeper = full();
        let most = on_disk(&spool);
        drop(first);
        assert!(on_disk(&spool) < most / 2, "{} of {most} bytes are still on the disk", on_disk(&spool));
        let again: Vec<Block> = (0..3 * KEPT).map(|_| full()).collect();
        assert_eq!(spool.blocks().used as usize, 3 * KEPT + 1, "no block is lost");
        assert!(again.iter().all(|block| content(block) == [7; BLOCK_BYTES]));
        drop((again, keeper));
        assert_eq!(on_disk(&spool), 0);
        assert_eq!(spool.blocks().used, 0);
    }

    #[test]
    fn a_block_that_may_take_nothing_is_as_it_was() {
        let (spool, budget) = spool();
        let mut block = spool.take();
        block.append(b"kept", 10).expect("there is room");
        assert!(matches!(block.append(b"too much", 10), Err(Refusal::Full)));
        assert_eq!((content(&block), budget.spooled.bytes()), (b"kept".to_vec(), 4));
        // A file that is open only for reading refuses writes as a full disk does.
        let file = File::open(std::env::current_exe().expect("a test has a program")).expect("it is there");
        let spool = Arc::new(Spool { file, blocks: Mutex::default(), copied: Mutex::default(), sum: &budget.spooled });
        let mut block = spool.take();
        assert!(matches!(block.append(b"lost", u64::MAX), Err(Refusal::Failed(_))));
        assert_eq!((block.len(), budget.spooled.bytes()), (0, 4));
    }
}
