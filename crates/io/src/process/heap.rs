//! Memory that was freed, but which the allocator keeps for what is allocated next.
#![allow(unsafe_code)]

/// Gives it back to the system, page by page; the next allocations fault pages in again. The time that this takes grows with the memory:
/// some 10 milliseconds for 100 MiB, in which other threads may have to wait for the allocator. With a C library other than glibc
/// it does nothing.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) locks the allocator as malloc(3) does, so any thread may call it at any time, and it touches only pages in
    // which nothing is allocated. The number says how much to keep at the end of the heap.
    unsafe {
        libc::malloc_trim(0);
    }
}
