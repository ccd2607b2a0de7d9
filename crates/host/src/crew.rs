//! The threads of a language with one lock for all of them (Ruby's, Python's), which share a lane.
//!
//! The server decides how many threads there are, and which of them waits for events, rests or runs the app. The language
//! only releases its lock, starts threads, and handles a thread's interrupts.

use crate::Host;

/// The lock of a language, and its threads. All methods are called with the lock held, and return with it held.
pub trait GlobalLock {
    /// Called when the worker begins to serve, with up to `most` threads of `crew`, which is valid until [`GlobalLock::end`].
    fn begin(&self, crew: &dyn Crew, most: usize);

    /// Called when the last thread has left the crew and its lane is about to be dropped.
    fn end(&self);

    /// Makes a context for the calling thread. The exchanges of the context can still be answered when the thread has left.
    ///
    /// # Errors
    /// A message for the log.
    fn open(&self) -> Result<Box<dyn Host>, String>;

    /// Releases the lock, calls [`Wait::wait`], and takes the lock again. If the language has other work for this thread
    /// meanwhile, the language calls [`Wait::interrupt`]. Returns `false` if the language had such work before the wait began,
    /// so that `wait` was not called.
    fn without_lock(&self, wait: &dyn Wait) -> bool;

    /// Starts a thread of the language that takes the lock and calls [`Crew::serve`]. `false` if no thread could be started.
    fn start_thread(&self) -> bool;

    /// Called by a thread between two requests: handles the language's pending work for this thread, and lets other threads run
    /// if it is their turn. Returns `false` if the thread must leave the crew.
    fn see_to_interrupts(&self) -> bool {
        true
    }

    /// Called on the thread that loaded the app, which runs no requests if the crew has more than one thread. The thread sleeps
    /// without the lock until [`GlobalLock::wake_main`], or until the language has run code on this thread, such as the app's
    /// signal handlers. Returns `Some(false)` if the app has ended this thread. Returns `None` without sleeping if the language
    /// has no special way to sleep: the thread then sleeps like the others, by [`GlobalLock::without_lock`].
    fn rest_main(&self) -> Option<bool> {
        None
    }

    /// Ends [`GlobalLock::rest_main`].
    fn wake_main(&self) {}

    /// Whether the language calls [`Crew::before_unlocking`].
    fn tells_before_unlocking(&self) -> bool {
        false
    }
}

/// A wait without the lock.
pub trait Wait: Sync {
    /// Waits. Called once.
    fn wait(&self);

    /// Makes [`Wait::wait`] end soon, if it has begun or is about to. Any thread may call it, with or without the lock; a
    /// signal handler only if the process has no other thread.
    fn interrupt(&self);
}

/// The server's side of the threads of a language. Called with the lock held.
pub trait Crew {
    /// Runs a thread of the crew: answers requests until the thread is no longer needed.
    fn serve(&self);

    /// Called when the calling thread, which need not belong to the crew, is about to release the lock in the middle of an app.
    /// The thread releases the lock in any case, even if this call has started or woken no other thread. A language must call
    /// this if its [`GlobalLock::tells_before_unlocking`] returns true.
    fn before_unlocking(&self);

    /// Called in the middle of an app that only waits from now on and that a thread of the crew runs, by any thread of the
    /// language: another thread may run an app in its place. Returns `false` if the app answers the boot request, which no
    /// thread of the crew runs.
    fn mark_waiting(&self) -> bool {
        false
    }

    /// Ends that on the thread of the app, when the app has answered. Returns `false` if the thread must leave the crew, because
    /// another one has its place.
    fn unmark_waiting(&self) -> bool {
        true
    }
}
