//! Memory that a process shares with the children it forks.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::io;
use std::mem::size_of;
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

/// Makes `count` lines, all zero, that this process shares with processes forked from it. They last as long as the process.
///
/// # Errors
/// An error of the system.
pub fn shared_lines(count: usize) -> io::Result<&'static [SharedLine]> {
    let size = count.checked_mul(size_of::<SharedLine>()).filter(|size| *size > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a new mapping, placed by the kernel where nothing else is. It is never unmapped, hence the 'static below. The
    // kernel fills it with zeros, which are valid atomics, and aligns it to pages, which is more than a line needs. Other
    // processes access the memory only through atomics, too.
    unsafe {
        let start = mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        Ok(std::slice::from_raw_parts(start.cast::<SharedLine>(), count))
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
    fn no_lines_at_all_are_refused() {
        assert!(shared_lines(0).is_err());
        assert!(shared_lines(usize::MAX).is_err());
    }
}
