//! Ends the process in a way that nothing in it can delay.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// A timer that kills this process when it expires. It belongs to this process alone: a child does not inherit it.
#[derive(Clone, Copy, Debug)]
pub struct LastResort {
    timer: libc::timer_t,
    after: Duration,
}

// SAFETY: the pointer is only the kernel's name for a timer, and is valid in every thread of the process. The timer is never
// deleted.
unsafe impl Send for LastResort {}
// SAFETY: the same; the kernel serializes calls for one timer.
unsafe impl Sync for LastResort {}

impl LastResort {
    /// Creates a timer that kills this process when the time `after` has passed since [`LastResort::start`].
    ///
    /// # Errors
    /// An error of the system.
    pub fn new(after: Duration) -> io::Result<Self> {
        // SAFETY: all zeros are a valid sigevent, of which two fields are then filled in; both pointers are valid for the call,
        // which writes the timer if it succeeds.
        unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            let mut timer = MaybeUninit::uninit();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()) != 0 {
                let error = io::Error::last_os_error();
                let why = format!(
                    "cannot create a timer: {error} (raise the limit of pending signals by ulimit -i in a shell, or \
                     LimitSIGPENDING= in systemd)"
                );
                return Err(io::Error::new(error.kind(), why));
            }
            // A time of zero would stop the timer.
            Ok(Self { timer: timer.assume_init(), after: after.max(Duration::from_nanos(1)) })
        }
    }

    /// Starts the timer; if it runs already, its time begins anew. A signal handler may call this.
    pub fn start(&self) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let seconds = libc::time_t::try_from(self.after.as_secs()).unwrap_or(libc::time_t::MAX);
        let value = libc::timespec { tv_sec: seconds, tv_nsec: self.after.subsec_nanos().into() };
        let setting = libc::itimerspec { it_interval: none, it_value: value };
        // SAFETY: the timer was created by this process; in a child the kernel does not know it and returns an error. The
        // setting is valid for the call, and the old one is not asked for. timer_settime may be called in a signal handler
        // (signal-safety(7)), and errno is restored.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::timer_settime(self.timer, 0, &raw const setting, std::ptr::null_mut());
            *errno = before;
        }
    }
}
