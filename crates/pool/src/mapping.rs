//! Maps parts of a file as atomics: the only unsafe code of this crate.
#![allow(unsafe_code)]

use crate::shape::WORD;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A mapping, unmapped when it is dropped unless it is kept.
#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
    kept: AtomicBool,
}

// SAFETY: the memory belongs to no thread; it is reached through atomics, or by the unsafe functions below.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `range` of a file. The range must begin at a multiple of the page size, and the file must contain it and be sealed
    /// against shrinking.
    fn new(file: BorrowedFd<'_>, range: Range<usize>, access: ProtFlags) -> io::Result<Self> {
        let words = range.len() / WORD;
        // SAFETY: a new mapping, placed by the kernel where nothing else is.
        let start = unsafe { mmap(null_mut(), range.len(), access, MapFlags::SHARED, file, range.start as u64)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words, kept: AtomicBool::new(false) })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `self.words` words are mapped from `self.start` as long as `self` lives, and the address is aligned to pages.
        // Any bits are a valid atomic. Other processes may change the words at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            return;
        }
        // SAFETY: `new` mapped these bytes, and every reference to them borrows `self`. The call fails only for addresses that
        // are not mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * WORD) };
    }
}

/// Memory that this process may read and write.
#[derive(Debug)]
pub(crate) struct Shared(Mapping);

impl Shared {
    pub(crate) fn map(file: BorrowedFd<'_>, range: Range<usize>) -> io::Result<Self> {
        Mapping::new(file, range, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    /// Some of the words as bytes.
    ///
    /// # Safety
    /// No other process writes to these words while the result lives.
    #[inline]
    pub(crate) unsafe fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let words = &self.0.words()[range];
        // SAFETY: the slice lies in the mapping, which is borrowed for as long as the result lives, and mutably, so that this
        // process has no other reference into it; the caller guarantees that no other process writes there.
        unsafe { std::slice::from_raw_parts_mut(words.as_ptr().cast::<u8>().cast_mut(), words.len() * WORD) }
    }
}

/// Memory that this process may only read: a stray write crashes the process before it does harm.
#[derive(Debug)]
pub(crate) struct Readable(Mapping);

impl Readable {
    pub(crate) fn map(file: BorrowedFd<'_>, range: Range<usize>) -> io::Result<Self> {
        Mapping::new(file, range, ProtFlags::READ).map(Self)
    }

    #[inline]
    pub(crate) fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.words()[word].load(order)
    }

    /// Returns a word, and keeps the mapping until the process ends.
    pub(crate) fn keep(&self, word: usize) -> &'static AtomicU64 {
        let mapping = &self.0;
        mapping.kept.store(true, Ordering::Relaxed);
        // SAFETY: the word lies in the mapping, which stays where it is until the process ends.
        unsafe { &*std::ptr::from_ref(&mapping.words()[word]) }
    }

    /// Returns the words of `range` as bytes: the first `length` bytes, or all if there are fewer.
    ///
    /// # Safety
    /// No process writes to these words while the result lives.
    pub(crate) unsafe fn bytes(&self, range: Range<usize>, length: usize) -> &[u8] {
        let words = &self.0.words()[range];
        // SAFETY: the slice lies in the mapping, which is borrowed for as long as the result lives; the caller guarantees
        // that the bytes do not change.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), length.min(words.len() * WORD)) }
    }
}
