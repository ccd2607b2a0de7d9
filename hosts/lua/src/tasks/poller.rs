//! The descriptors for which scripts wait.
//!
//! Each wait arms its descriptor once (`EPOLLONESHOT`), so a descriptor that no script waits for any more reports at most one
//! event, which is ignored. Closing a descriptor removes it.

use crate::waits::Direction;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// The number of events read at once.
const EVENTS: usize = 128;

/// The name of the lane's own descriptor.
const LANE: u64 = u64::MAX;

/// The number of a task.
pub(super) type TaskId = u64;

/// The tasks that wait for a descriptor.
#[derive(Clone, Copy, Debug, Default)]
struct Waiters {
    reader: Option<TaskId>,
    writer: Option<TaskId>,
}

impl Waiters {
    fn of(&mut self, direction: Direction) -> &mut Option<TaskId> {
        match direction {
            Direction::Read => &mut self.reader,
            Direction::Write => &mut self.writer,
        }
    }

    const fn is_empty(self) -> bool {
        self.reader.is_none() && self.writer.is_none()
    }
}

/// The descriptors, and the lane's own.
pub(super) struct Poller {
    epoll: OwnedFd,
    waiters: HashMap<RawFd, Waiters>,
    lane: Option<RawFd>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, waiters: HashMap::new(), lane: None })
    }

    /// Forgets the lane's descriptor: the next one may be another descriptor with the same number.
    pub(super) const fn forget_lane(&mut self) {
        self.lane = None;
    }

    /// Whether a task waits for a descriptor.
    pub(super) fn is_watching(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Makes `task` wait for a descriptor of its script. Returns `false` if another task waits for it already.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn add(&mut self, descriptor: RawFd, direction: Direction, task: TaskId) -> io::Result<bool> {
        let waiters = self.waiters.entry(descriptor).or_default();
        if waiters.of(direction).is_some() {
            return Ok(false);
        }
        *waiters.of(direction) = Some(task);
        let waiters = *waiters;
        self.arm(descriptor, waiters).inspect_err(|_| self.remove(descriptor, direction))?;
        Ok(true)
    }

    fn arm(&self, descriptor: RawFd, waiters: Waiters) -> io::Result<()> {
        let mut flags = EventFlags::ONESHOT;
        flags.set(EventFlags::IN, waiters.reader.is_some());
        flags.set(EventFlags::OUT, waiters.writer.is_some());
        // SAFETY: the script that waits owns the descriptor; if it has closed it, the calls fail.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let data = EventData::new_u64(u64::from(descriptor.unsigned_abs()));
        match epoll::modify(&self.epoll, borrowed, data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, borrowed, data, flags)?,
            outcome => outcome?,
        }
        Ok(())
    }

    /// The tasks that wait for a descriptor.
    pub(super) fn waiters(&self, descriptor: RawFd) -> [Option<TaskId>; 2] {
        self.waiters.get(&descriptor).map_or([None; 2], |waiters| [waiters.reader, waiters.writer])
    }

    /// Ends a wait.
    pub(super) fn remove(&mut self, descriptor: RawFd, direction: Direction) {
        if let Some(waiters) = self.waiters.get_mut(&descriptor) {
            *waiters.of(direction) = None;
            if waiters.is_empty() {
                self.waiters.remove(&descriptor);
            }
        }
    }

    /// Waits until a descriptor is ready or `lane` is readable, at most for `timeout`. Passes each task whose descriptor is
    /// ready to `found`, and ends its wait.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn wait(
        &mut self,
        lane: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
        mut found: impl FnMut(TaskId),
    ) -> io::Result<()> {
        self.watch_lane(lane)?;
        // The kernel counts whole milliseconds or, with a new call, nanoseconds.
        let timeout = timeout.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let reported = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((reported, _)) => reported,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in reported {
            let (name, flags) = (event.data.u64(), event.flags);
            if name == LANE {
                continue;
            }
            let descriptor = name as RawFd;
            let Some(mut waiters) = self.waiters.get(&descriptor).copied() else { continue };
            let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            for (direction, flag) in [(Direction::Read, EventFlags::IN), (Direction::Write, EventFlags::OUT)] {
                if (failed || flags.contains(flag))
                    && let Some(task) = waiters.of(direction).take()
                {
                    self.remove(descriptor, direction);
                    found(task);
                }
            }
            if !waiters.is_empty() {
                self.arm(descriptor, waiters)?;
            }
        }
        Ok(())
    }

    fn watch_lane(&mut self, lane: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let Some(lane) = lane else { return Ok(()) };
        if self.lane != Some(lane.as_raw_fd()) {
            match epoll::add(&self.epoll, lane, EventData::new_u64(LANE), EventFlags::IN) {
                // It is the one of before.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            self.lane = Some(lane.as_raw_fd());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn found(poller: &mut Poller) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        poller.wait(None, Some(Duration::ZERO), |task| tasks.push(task)).expect("epoll works");
        tasks.sort_unstable();
        tasks
    }

    #[test]
    fn a_reader_and_a_writer_of_one_socket_wait_for_themselves() {
        let mut poller = Poller::new().expect("epoll works");
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        let descriptor = ours.as_raw_fd();
        assert!(poller.add(descriptor, Direction::Read, 1).expect("it is watched"));
        assert!(poller.add(descriptor, Direction::Write, 2).expect("it is watched"));
        assert!(!poller.add(descriptor, Direction::Read, 3).expect("it is watched"), "it has a reader");
        assert_eq!(found(&mut poller), [2]);
        assert!(found(&mut poller).is_empty() && poller.is_watching());
        theirs.write_all(b"x").expect("room");
        assert_eq!(found(&mut poller), [1]);
        assert!(found(&mut poller).is_empty() && !poller.is_watching());
        // The byte is still there: a later wait finds it.
        assert!(poller.add(descriptor, Direction::Read, 4).expect("it is watched"));
        assert_eq!(found(&mut poller), [4]);
        (&ours).read_exact(&mut [0]).expect("a byte");
        assert!(poller.add(descriptor, Direction::Read, 5).expect("it is watched"));
        poller.remove(descriptor, Direction::Read);
        theirs.write_all(b"x").expect("room");
        assert!(found(&mut poller).is_empty(), "nobody waits any more");
        drop(ours);
        assert!(poller.add(descriptor, Direction::Read, 6).is_err() && !poller.is_watching());
    }

    #[test]
    fn the_lane_ends_a_wait() {
        let mut poller = Poller::new().expect("epoll works");
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        theirs.write_all(b"x").expect("room");
        for _ in 0..2 {
            use std::os::fd::AsFd;
            poller.wait(Some(ours.as_fd()), None, |_| panic!("no task waits")).expect("epoll works");
        }
    }
}
