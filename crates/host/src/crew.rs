//! Threads of a language that has one lock for all of them (Ruby's, Python's): they answer at one lane together.
//!
//! Which of them waits for news, which rests, which answers and how many there are is the server's to decide. A language brings
//! what only it can do: to let go of its lock, to start a thread, to see to a thread's interrupts.

use crate::Host;

/// The lock of a language, and its threads. All methods are called with the lock held, and return with it held.
pub trait GlobalLock {
    /// The worker begins to serve with up to `most` threads of `crew`, which is good until [`GlobalLock::end`].
    fn begin(&self, crew: &dyn Crew, most: usize);

    /// No thread is in the crew any more, and its lane is about to go.
    fn end(&self);

    /// Makes a context for the calling thread, whose exchanges can still be answered when the thread has left.
    ///
    /// # Errors
    /// What went wrong, in words for the log.
    fn open(&self) -> Result<Box<dyn Host>, String>;

    /// Lets go of the lock, calls [`Wait::wait`], and takes the lock again. When the language has something else for this thread to
    /// do, it calls [`Wait::interrupt`]. `false`: it had before the wait began, so that nothing was called.
    fn without_lock(&self, wait: &dyn Wait) -> bool;

    /// Starts a thread of the language that takes the lock and calls [`Crew::serve`]. `false`: there is none.
    fn start_thread(&self) -> bool;

    /// Called by a thread between two requests: sees to what the language has for this thread to do, and lets others run if it is
    /// their turn. `false`: the thread is to leave the crew.
    fn see_to_interrupts(&self) -> bool {
        true
    }

    /// Called on the thread that loaded the app, which answers nothing where the crew has more than one thread. It sleeps, without
    /// the lock, until [`GlobalLock::wake_main`] or until the language had something to do on it, such as the app's handlers of
    /// signals. `Some(false)`: the app has ended this thread. `None`: the language has no way of its own, and the thread sleeps as
    /// others do, by [`GlobalLock::without_lock`].
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

/// Something to wait for without the lock.
pub trait Wait: Sync {
    /// Waits. Called once.
    fn wait(&self);

    /// Has [`Wait::wait`] end soon, if it has begun or is about to. Called by any thread, with or without the lock; by a signal handler
    /// only where the process has no second thread.
    fn interrupt(&self);
}

/// What the threads of a language do for the server. The lock is held.
pub trait Crew {
    /// The life of a thread of the crew: answers requests until it is not needed any more.
    fn serve(&self);

    /// The calling thread, whether it is of the crew or not, is about to let go of the lock in the middle of an app. It does so even
    /// if this has started or called nobody. To be called where [`GlobalLock::tells_before_unlocking`] says so.
    fn before_unlocking(&self);
}
