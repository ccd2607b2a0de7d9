//! A generation: all workers started from one load of the app, and the mold that forks them.

use super::super::edges::pools;
use super::super::inheritance::{self, GENERATION, LISTENERS, Link, MASTER, News, Word};
use crate::listen::Listener;
use oribi_pool::Memory;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// A mold that has not been waited for yet.
pub(super) struct Generation {
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) pid: Pid,
    pub(super) link: Link,
    pub(super) born: Instant,
    /// Whether its workers accept connections.
    pub(super) ready: bool,
    /// A signal has told it to end, and it waits for another generation to take over.
    pub(super) told: bool,
    /// When to end it, if it was told to finish and has not done so by then. `None`: it was not told.
    pub(super) end_by: Option<Instant>,
}

impl Generation {
    /// Runs `mold`, which inherits a socket to this process and `listeners`, or `pools` in place of these if there are edges.
    pub(super) fn start(number: u64, mold: &mut Command, listeners: &[Listener], pools: &[Memory]) -> io::Result<Self> {
        let (own, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let own_pid = rustix::process::getpid();
        mold.env(MASTER, format!("{}:{own_pid}", given.as_raw_fd()));
        let listeners = if pools.is_empty() { listeners } else { &[] };
        mold.env(LISTENERS, inheritance::describe(listeners));
        mold.env(pools::POOLS, pools::describe(pools));
        mold.env(GENERATION, number.to_string());
        let spawned = {
            let sockets = listeners.iter().flat_map(Listener::sockets).chain([&given]).map(AsFd::as_fd);
            let _inherited = Inheritable::new(sockets.chain(pools.iter().flat_map(Memory::descriptors)))?;
            mold.spawn()?
        };
        let pid = i32::try_from(spawned.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the system gave a process no number"))?;
        Ok(Self { number, pid, link: Link(own), born: Instant::now(), ready: false, told: false, end_by: None })
    }

    /// Whether it has not been told to finish.
    pub(super) fn stays(&self) -> bool {
        self.end_by.is_none()
    }

    /// Whether it has reported since the last call that its workers accept connections.
    pub(super) fn has_become_ready(&mut self) -> bool {
        let before = self.ready;
        // The system reports its end, too, with the reason.
        while let News::Word(word) = self.link.hear() {
            self.ready |= word == Word::Ready;
            self.told |= word == Word::Told;
        }
        self.ready && !before
    }

    /// Tells it that the whole server stops.
    pub(super) fn stop(&self) {
        self.tell(if self.stays() { Word::Stop } else { Word::Retire });
    }

    /// Tells it to finish within `patience`, because another generation serves.
    pub(super) fn leave(&mut self, patience: Duration) {
        self.end_by = Some(Instant::now() + patience);
        self.tell(Word::Retire);
    }

    fn tell(&self, word: Word) {
        self.link.say(word);
        if !self.ready {
            // It may still be loading the app, and then it reads no messages.
            let _ = kill_process(self.pid, Signal::TERM);
        }
    }

    /// Ends it at once; if it still exists at `next`, this is tried again.
    pub(super) fn end(&mut self, next: Instant) {
        log::error!("the mold of generation {} (pid {}) does not stop and is ended", self.number, self.pid);
        // It has not been waited for, so its process id cannot belong to another process.
        let _ = kill_process(self.pid, Signal::KILL);
        self.end_by = Some(next);
    }
}

/// Descriptors that a program executed while this exists inherits.
struct Inheritable<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Inheritable<'a> {
    fn new(descriptors: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let inheritable = Self(descriptors.collect());
        for descriptor in &inheritable.0 {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(inheritable)
    }
}

impl Drop for Inheritable<'_> {
    fn drop(&mut self) {
        for descriptor in &self.0 {
            // It cannot fail for an open descriptor.
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}
