//! Freed memory that the allocator keeps for the next allocations.
#![allow(unsafe_code)]

/// Gives freed memory back to the system, page by page; later allocations fault pages in again. The time that this takes grows
/// with the amount of memory: some 10 milliseconds for 100 MiB, in which other threads may have to wait for the allocator. Does
/// nothing if the C library is not glibc.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) locks the allocator as malloc(3) does, so any thread may call it at any time, and it touches
    // only pages without allocations. The argument is the number of bytes to keep at the end of the heap.
    unsafe {
        libc::malloc_trim(0);
    }
}
