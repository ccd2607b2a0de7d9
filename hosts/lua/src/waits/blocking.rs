//! Waits that block the thread.

use super::{Direction, Wish};
use crate::vm::Slot;
use mlua::{Error, Lua, Result, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::raw::c_int;
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait: a century.
const LONGEST: Duration = Duration::from_secs(3_153_600_000);

/// Makes a time of a script's number of seconds.
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST).min(LONGEST)
}

/// Waits; returns whether a descriptor is ready. The time limit of the script does not run meanwhile.
pub(super) fn wait(_: &Lua, (kind, first, second): (c_int, Value, Value)) -> Result<bool> {
    // The values of a wait that is refused here need not be numbers.
    let number = |value: Value| match value {
        Value::Integer(number) => Some(number as f64),
        Value::Number(number) => Some(number),
        _ => None,
    };
    match Wish::new(kind, number(first), number(second)) {
        Some(Wish::Sleep(seconds)) => {
            rest(|| thread::sleep(duration(seconds)));
            Ok(true)
        }
        Some(Wish::Descriptor(descriptor, direction, seconds)) => {
            rest(|| is_ready(descriptor, direction, seconds.map(duration))).map_err(Error::external)
        }
        Some(Wish::Room | Wish::Forget(_)) => Ok(true),
        Some(Wish::IsStopping) => Ok(false),
        _ => Err(Error::runtime("tasks need --concurrency, and run only while a request is answered")),
    }
}

fn rest<R>(work: impl FnOnce() -> R) -> R {
    Slot::with_current(|slot| match slot {
        Some(slot) => slot.rest(work),
        None => work(),
    })
}

fn is_ready(descriptor: RawFd, direction: Direction, timeout: Option<Duration>) -> std::io::Result<bool> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let flags = match direction {
        Direction::Read => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    };
    // SAFETY: the script owns the descriptor, and does not run meanwhile.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.map(Timespec::try_from).transpose().map_err(|_| std::io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::from_borrowed_fd(descriptor, flags)], left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
