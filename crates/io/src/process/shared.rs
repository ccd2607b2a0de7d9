//! Memory that a process shares with the children it forks.
#![allow(unsafe_code)]

use super::file_size::LiftedFileSize;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A cache line of atomics. They hold plain numbers only: a pointer would mean nothing to the other processes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct SharedLine {
    /// Eight numbers of 32 bits.
    pub halves: [AtomicU32; 8],
    /// Four numbers of 64 bits.
    pub words: [AtomicU64; 4],
}

/// Makes `count` cache lines, all zero, that this process shares with the processes that it forks. They are never freed.
///
/// # Errors
/// An error of the system.
pub fn shared_lines(count: usize) -> io::Result<&'static [SharedLine]> {
    let size = count.checked_mul(size_of::<SharedLine>()).filter(|size| *size > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a new mapping, placed by the kernel where nothing else is. It is never unmapped, hence the 'static below. The
    // kernel fills it with zeros, which are valid atomics, and aligns it to pages, which is more than a line needs. Other
    // processes also access the memory only through atomics.
    unsafe {
        let start = mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        Ok(std::slice::from_raw_parts(start.cast::<SharedLine>(), count))
    }
}

/// Makes `count` words, all zero, that this process shares with the processes that it forks. They begin at a page, and are never
/// freed.
///
/// # Errors
/// An error of the system.
pub fn shared_words(count: usize) -> io::Result<&'static [AtomicU64]> {
    let size = count.checked_mul(size_of::<AtomicU64>()).filter(|size| *size > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: as in `shared_lines`; a word needs no more than the alignment of a page.
    unsafe {
        let start = mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        Ok(std::slice::from_raw_parts(start.cast::<AtomicU64>(), count))
    }
}

/// Makes `count` words as [`shared_words`] does, in a file in memory (a memfd) that processes which exist already can map by
/// [`words_of_file`].
///
/// # Errors
/// An error of the system.
pub fn shared_words_in_file(name: &str, count: usize) -> io::Result<(OwnedFd, &'static [AtomicU64])> {
    let file = shared_file(name, count.div_ceil(size_of::<SharedLine>() / size_of::<AtomicU64>()))?;
    let words = words_of_file(&file, count)?;
    Ok((file, words))
}

/// Maps the words of [`shared_words_in_file`]. The mapping lasts as long as this process.
///
/// # Errors
/// The file has no room for `count` words, the file is not sealed against shrinking, `count` is 0, or the system refuses.
pub fn words_of_file(file: impl AsFd, count: usize) -> io::Result<&'static [AtomicU64]> {
    let lines = lines_of_file(file, count.div_ceil(size_of::<SharedLine>() / size_of::<AtomicU64>()))?;
    // SAFETY: a line consists of atomics without gaps, it is aligned more strictly than a word, and the lines are never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(lines.as_ptr().cast::<AtomicU64>(), count) })
}

/// Creates a file in memory (a memfd) with room for `count` cache lines, all zero, for programs that this process executes. The
/// size of the file is sealed. The kernel shows `name` in /proc.
///
/// # Errors
/// An error of the system.
pub fn shared_file(name: &str, count: usize) -> io::Result<OwnedFd> {
    let size = count.checked_mul(size_of::<SharedLine>()).filter(|size| *size > 0).ok_or(io::ErrorKind::InvalidInput)?;
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let _lifted = LiftedFileSize::new();
    ftruncate(&file, size as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Maps a [`shared_file`] that another process has made, as `count` cache lines that both processes read and write. The mapping
/// lasts as long as this process.
///
/// # Errors
/// The size of the file is not exactly that of `count` cache lines, the file is not sealed against shrinking, `count` is 0, or
/// the system refuses.
pub fn lines_of_file(file: impl AsFd, count: usize) -> io::Result<&'static [SharedLine]> {
    let size = count.checked_mul(size_of::<SharedLine>()).filter(|size| *size > 0).ok_or(io::ErrorKind::InvalidInput)?;
    let found = fstat(&file)?.st_size;
    if u64::try_from(found).ok() != Some(size as u64) || !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: as in `shared_lines`; the file has at least this size for ever, because it is sealed against shrinking, and any
    // bytes in it are valid atomics.
    unsafe {
        let start = mmap(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?;
        Ok(std::slice::from_raw_parts(start.cast::<SharedLine>(), count))
    }
}

/// The lines in a [`shared_file`], for a process whose forked children must not have them: see [`KeptLines::leave`].
#[derive(Debug)]
pub struct KeptLines(&'static [SharedLine]);

impl KeptLines {
    /// Maps the lines like [`lines_of_file`].
    ///
    /// # Errors
    /// Those of [`lines_of_file`].
    pub fn of_file(file: impl AsFd, count: usize) -> io::Result<Self> {
        lines_of_file(file, count).map(Self)
    }

    /// The lines.
    #[must_use]
    pub fn lines(&self) -> &'static [SharedLine] {
        self.0
    }

    /// Replaces the shared lines by private memory, all zero, at the same address. Forked children call this. The file is
    /// unchanged.
    ///
    /// # Errors
    /// An error of the system. Then the lines are still those of the file.
    pub fn leave(&self) -> io::Result<()> {
        let start = self.0.as_ptr().cast_mut().cast();
        // SAFETY: `of_file` has mapped exactly this range for these lines, nothing else is in its pages, and nothing ever
        // unmaps it. The references to the lines stay valid, because the kernel replaces the pages atomically and fills the new
        // ones with zeros, which are valid atomics. (MADV_DONTFORK would leave a hole in children, into which the kernel could
        // put something else.)
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(start, size_of_val(self.0), access, MapFlags::PRIVATE | MapFlags::FIXED)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn lines_begin_as_zeros_and_none_shares_a_cache_line_with_another() {
        let lines = shared_lines(3).expect("a page is to be had");
        assert_eq!(lines.len(), 3);
        assert_eq!(size_of::<SharedLine>(), 64);
        assert_eq!(lines.as_ptr() as usize % 64, 0);
        for line in lines {
            assert!(line.halves.iter().all(|half| half.load(Relaxed) == 0));
            assert!(line.words.iter().all(|word| word.load(Relaxed) == 0));
        }
    }

    #[test]
    fn the_lines_of_a_file_are_those_of_all_who_map_it() {
        let file = shared_file("lines", 3).expect("a file in memory");
        let (one, other) = (lines_of_file(&file, 3).expect("its size"), lines_of_file(&file, 3).expect("its size"));
        one[2].words[3].store(7, Relaxed);
        assert_eq!(other[2].words[3].load(Relaxed), 7);
        let mut bytes = [0; 64];
        rustix::io::pread(&file, &mut bytes, 128).expect("it can be read, too");
        assert_eq!(bytes[56], if cfg!(target_endian = "little") { 7 } else { 0 });
        assert!(lines_of_file(&file, 2).is_err() && lines_of_file(&file, 4).is_err(), "another size");
        let open = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file in memory");
        ftruncate(&open, 192).expect("it is ours");
        assert!(lines_of_file(&open, 3).is_err(), "somebody could shrink it");
        assert!(shared_file("lines", 0).is_err());
    }

    #[test]
    fn who_leaves_the_lines_of_a_file_changes_nothing_there() {
        let file = shared_file("lines", 3).expect("a file in memory");
        let (left, others) = (KeptLines::of_file(&file, 3).expect("its size"), lines_of_file(&file, 3).expect("its size"));
        let word = |lines: &[SharedLine]| lines[2].words[3].load(Relaxed);
        left.lines()[2].words[3].store(7, Relaxed);
        assert_eq!((word(left.lines()), word(others)), (7, 7));
        left.leave().expect("there is memory");
        assert_eq!((word(left.lines()), word(others)), (0, 7));
        left.lines()[2].words[3].store(5, Relaxed);
        assert_eq!((word(left.lines()), word(others)), (5, 7));
    }

    #[test]
    fn no_lines_at_all_are_refused() {
        assert!(shared_lines(0).is_err());
        assert!(shared_lines(usize::MAX).is_err());
    }
}
