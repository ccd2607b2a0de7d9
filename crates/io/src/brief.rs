//! Waits of less than a millisecond at epoll. epoll_wait(2) counts whole milliseconds. epoll_pwait2(2) of Linux 5.11 counts
//! nanoseconds, but the safe library (rustix) uses it only if it may assume such a kernel.
#![allow(unsafe_code)]

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::null;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A wait for one doorbell, an eventfd, and for nothing else.
pub struct DoorbellWait {
    epoll: OwnedFd,
    found: Vec<Event>,
}

impl DoorbellWait {
    /// # Errors
    /// An error of the system.
    pub fn new(doorbell: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Each ring makes a new event, so the doorbell need not be read.
        epoll::add(&epoll, doorbell, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, found: Vec::with_capacity(1) })
    }

    /// Waits for the time `most`, which is less than a second, unless the doorbell is rung meanwhile or was rung since the last
    /// wait. A signal may end the wait early.
    pub fn wait(&mut self, most: Duration) {
        self.found.clear();
        let timeout = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
        let _ = wait(self.epoll.as_fd(), &mut self.found, timeout);
    }
}

/// The system has refused epoll_pwait2(2): an older kernel, or a filter of system calls.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Waits for at most `timeout`, which is less than a second, and appends the events to `found`, as many as it has room for. If
/// the system has only waits of whole milliseconds, rounds the timeout up.
pub(crate) fn wait(epoll: BorrowedFd<'_>, found: &mut Vec<Event>, timeout: Timespec) -> Result<(), Errno> {
    if !REFUSED.load(Relaxed) {
        match wait_precisely(epoll, found, timeout) {
            Err(Errno::NOSYS | Errno::PERM) => REFUSED.store(true, Relaxed),
            outcome => return outcome,
        }
    }
    let milliseconds = timeout.tv_nsec.unsigned_abs().div_ceil(1_000_000) as i64;
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds.min(999) * 1_000_000 };
    epoll::wait(epoll, rustix::buffer::spare_capacity(found), Some(&timeout)).map(drop)
}

fn wait_precisely(epoll: BorrowedFd<'_>, found: &mut Vec<Event>, timeout: Timespec) -> Result<(), Errno> {
    let timeout: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: timeout.tv_nsec as _ };
    let room: &mut [MaybeUninit<Event>] = found.spare_capacity_mut();
    let most = room.len().min(i32::MAX as usize);
    // SAFETY: the descriptor is open as long as it is borrowed. The kernel writes at most `most` events into `room`, which
    // has room for these; an event of rustix has the layout of the kernel's. `timeout` outlives the call. The set of signals
    // is null.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            room.as_mut_ptr(),
            most as libc::c_int,
            &raw const timeout,
            null::<libc::sigset_t>(),
            0_usize,
        )
    };
    let Ok(count) = usize::try_from(count) else {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    };
    // SAFETY: the kernel has written that many events after the old ones, at most as many as there was room for.
    unsafe { found.set_len(found.len() + count) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::time::Instant;

    #[test]
    fn a_wait_ends_with_an_event_or_after_its_time() {
        let (epoll, doorbell) = (epoll::create(CreateFlags::CLOEXEC), eventfd(0, EventfdFlags::CLOEXEC));
        let (epoll, doorbell) = (epoll.expect("a descriptor"), doorbell.expect("a descriptor"));
        epoll::add(&epoll, &doorbell, EventData::new_u64(7), EventFlags::IN).expect("an eventfd can be watched");
        let timeout = Timespec { tv_sec: 0, tv_nsec: 200_000 };
        let mut found = Vec::with_capacity(4);
        let begun = Instant::now();
        wait(epoll.as_fd(), &mut found, timeout).expect("a wait");
        assert!(found.is_empty() && begun.elapsed() >= Duration::from_micros(200));
        rustix::io::write(&doorbell, &1_u64.to_ne_bytes()).expect("an eventfd can be written");
        wait(epoll.as_fd(), &mut found, timeout).expect("a wait");
        let data: Vec<u64> = found.iter().map(|event| event.data.u64()).collect();
        assert_eq!(data, [7]);
    }

    #[test]
    fn each_ring_ends_one_wait() {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd is to be had");
        let mut rest = DoorbellWait::new(doorbell.as_fd()).expect("epoll works");
        for _ in 0..2 {
            rustix::io::write(&doorbell, &1_u64.to_ne_bytes()).expect("the count has room");
            let (begun, long, short) = (Instant::now(), Duration::from_millis(900), Duration::from_micros(200));
            rest.wait(long);
            assert!(begun.elapsed() < long, "it was rung");
            let begun = Instant::now();
            rest.wait(short);
            assert!(begun.elapsed() >= short, "and is over");
        }
    }
}
