//! Memory that the kernel may use.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Memory that stays in place while the kernel reads and writes it. A `Box` would not do: whenever a box is moved or borrowed,
/// Rust assumes that no other pointer to its content is in use. References to this memory exist only briefly, and only to a
/// part that nothing else uses at that time.
pub(super) struct Lent<T: ?Sized>(NonNull<T>);

// SAFETY: it owns its memory, as a `Box` does, and gives no access by itself.
unsafe impl<T: ?Sized + Send> Send for Lent<T> {}

impl<T: ?Sized> Lent<T> {
    pub(super) fn new(content: Box<T>) -> Self {
        Self(NonNull::from(Box::leak(content)))
    }

    /// The start of the memory.
    #[inline]
    pub(super) fn start<U>(&self) -> *mut U {
        self.0.as_ptr().cast()
    }
}

impl<T: ?Sized> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box, once. The code that lends the memory promises that the kernel no longer uses
        // it: see `Ring`.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
