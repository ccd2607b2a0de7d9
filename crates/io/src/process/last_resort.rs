//! An end that nothing in the process can put off.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// A timer that kills this process when its time is over. It belongs to this process alone: a child does not inherit it.
#[derive(Clone, Copy, Debug)]
pub struct LastResort {
    timer: libc::timer_t,
    after: Duration,
}

// SAFETY: what looks like a pointer is the kernel's name for a timer, and is good in every thread of the process. The timer is
// never deleted.
unsafe impl Send for LastResort {}
// SAFETY: the same; the kernel takes calls for one timer one after the other.
unsafe impl Sync for LastResort {}

impl LastResort {
    /// A timer that kills this process so long `after` it was started. It is not started yet.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new(after: Duration) -> io::Result<Self> {
        // SAFETY: all zeros are a valid sigevent, of which two fields are then filled in; both pointers are good for the length
        // of the call, which writes the timer if it succeeds.
        unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            let mut timer = MaybeUninit::uninit();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // A time of zero would stop the timer.
            Ok(Self { timer: timer.assume_init(), after: after.max(Duration::from_nanos(1)) })
        }
    }

    /// Starts it. A signal handler may do so.
    pub fn start(&self) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let seconds = libc::time_t::try_from(self.after.as_secs()).unwrap_or(libc::time_t::MAX);
        let value = libc::timespec { tv_sec: seconds, tv_nsec: self.after.subsec_nanos().into() };
        let setting = libc::itimerspec { it_interval: none, it_value: value };
        // SAFETY: the timer was created by this process or, in a child, is unknown to the kernel, which then says so; the setting
        // is good for the length of the call, and nobody asks for the old one. timer_settime may be called in a signal handler
        // (signal-safety(7)), and errno is what it was before.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::timer_settime(self.timer, 0, &raw const setting, std::ptr::null_mut());
            *errno = before;
        }
    }
}
