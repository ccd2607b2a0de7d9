//! Memory that is lent to the kernel.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Memory that stays where it is while the kernel reads and writes it behind the back of the language. A `Box` would not do: it
/// promises that nobody else has a pointer to what is in it, anew each time that it is moved or borrowed from. Of this memory
/// there is no reference, but for the moment and the part that nobody else uses then.
pub(super) struct Lent<T: ?Sized>(NonNull<T>);

// SAFETY: it owns what it points to, as a `Box` does, and gives no access by itself.
unsafe impl<T: ?Sized + Send> Send for Lent<T> {}

impl<T: ?Sized> Lent<T> {
    pub(super) fn new(content: Box<T>) -> Self {
        Self(NonNull::from(Box::leak(content)))
    }

    /// Where it begins.
    #[inline]
    pub(super) fn start<U>(&self) -> *mut U {
        self.0.as_ptr().cast()
    }
}

impl<T: ?Sized> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box, once. That the kernel has given the memory back by now is what those promise who
        // lend it: see `Ring`.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
