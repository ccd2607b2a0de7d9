//! One acceptor for each worker, for the study of I/O models: a thread that does nothing but accept connections and hand each to
//! the lane of its worker that has the fewest.
//!
//! Among workers the acceptors share the listeners as lanes do otherwise. A connection goes from hand to hand under one lock, under
//! which a lane that ends closes its line, too, so that none is handed to one who has gone. When the worker is told to stop, its
//! lanes go on until the acceptor has ended.

use super::worker::Post;
use crate::listen::Door;
use crate::scoreboard::WorkerCommand;
use oribi_io::{Accepted, Backend, Epoll, Event, Peer};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the acceptor rests when all lanes are full.
const UNTIL_ROOM: Duration = Duration::from_millis(1);

/// How long it rests when descriptors have run out.
const UNTIL_DESCRIPTORS: Duration = Duration::from_millis(100);

/// A connection, whence it came, and the number of the listener that it came to.
type Handed = (OwnedFd, Peer, usize);

/// What stands between an acceptor and the lanes of its worker.
#[derive(Debug)]
pub struct Handout {
    lines: Mutex<Vec<Line>>,
    /// Readable while a line is not empty.
    bells: Vec<OwnedFd>,
    /// Connections that each lane has, in its line or open.
    loads: Vec<AtomicU32>,
    done: AtomicBool,
}

#[derive(Debug)]
struct Line {
    open: bool,
    waiting: VecDeque<Handed>,
}

/// What became of an attempt to hand a connection out.
enum Outcome {
    Done,
    NobodyWaits,
    Full,
    Exhausted(io::Error),
    /// No lane takes any more.
    Over,
}

/// A lane's end of the handout.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a> {
    handout: &'a Handout,
    lane: usize,
}

impl Handout {
    pub(super) fn new(lanes: usize) -> io::Result<Self> {
        let bell = |_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE);
        let line = || Line { open: true, waiting: VecDeque::new() };
        Ok(Self {
            lines: Mutex::new((0..lanes).map(|_| line()).collect()),
            bells: (0..lanes).map(bell).collect::<Result<_, _>>()?,
            loads: (0..lanes).map(|_| AtomicU32::new(0)).collect(),
            done: AtomicBool::new(false),
        })
    }

    /// The only door of a lane.
    pub(super) fn door(&self, lane: usize) -> Door<'_> {
        let handed = Some(Receiver { handout: self, lane });
        Door { listener: 0, socket: self.bells[lane].as_fd(), shared: false, handed }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts for the lanes of `post` until its worker is told to stop, and with that empties the listeners where they are to be
    /// emptied.
    pub(super) fn accept(&self, post: &Post<'_>) {
        if let Err(error) = self.serve(post) {
            log::error!("worker {}: cannot accept: {error}", post.number);
            post.slot.retire_if_serving();
            let _ = rustix::io::write(&post.notice, &[0]);
        }
        self.done.store(true, Release);
        // The lanes, which have put off what they were told, look again.
        let _ = rustix::io::write(&post.waker, &[0]);
    }

    fn serve(&self, post: &Post<'_>) -> io::Result<()> {
        let mut backend = Epoll::new()?;
        for (number, listener) in post.listeners.iter().enumerate() {
            backend.listen(number, listener.as_fd())?;
        }
        backend.watch(post.wake.as_fd())?;
        let mut events = Vec::new();
        loop {
            match post.slot.command() {
                WorkerCommand::Serve => {}
                WorkerCommand::Drain => return self.empty(post),
                WorkerCommand::Retire | WorkerCommand::Quit => return Ok(()),
            }
            events.clear();
            backend.wait(None, &mut events)?;
            for event in &events {
                let &Event::Connection(number) = event else { continue };
                match self.hand_out(post, number) {
                    Outcome::Done => {
                        let share = post.slot.all_connections.load(Relaxed) as usize / post.settings.workers.max(1);
                        if post.slot.connections.load(Relaxed) as usize > share + share / 8 + 1 {
                            // As lanes do that share listeners: whoever has more than others stands behind them.
                            backend.unlisten(number, post.listeners[number].as_fd())?;
                            backend.listen(number, post.listeners[number].as_fd())?;
                        }
                    }
                    Outcome::NobodyWaits => {}
                    Outcome::Full => std::thread::sleep(UNTIL_ROOM),
                    Outcome::Exhausted(error) => {
                        log::warn!("accepting pauses: {error}");
                        std::thread::sleep(UNTIL_DESCRIPTORS);
                    }
                    Outcome::Over => return Ok(()),
                }
            }
        }
    }

    /// Hands out everything that waits.
    fn empty(&self, post: &Post<'_>) -> io::Result<()> {
        for number in 0..post.listeners.len() {
            loop {
                match self.hand_out(post, number) {
                    Outcome::Done => {}
                    Outcome::NobodyWaits => break,
                    Outcome::Full => std::thread::sleep(UNTIL_ROOM),
                    Outcome::Exhausted(error) => return Err(error),
                    Outcome::Over => return Ok(()),
                }
            }
        }
        Ok(())
    }

    fn hand_out(&self, post: &Post<'_>, number: usize) -> Outcome {
        let mut lines = self.lock();
        let load = |lane: usize| self.loads[lane].load(Relaxed);
        let Some(lane) = (0..lines.len()).filter(|&lane| lines[lane].open).min_by_key(|&lane| load(lane)) else {
            return Outcome::Over;
        };
        // One more than it may have, for which it makes room if it can.
        if load(lane) as usize > post.settings.limits.connections {
            return Outcome::Full;
        }
        match oribi_io::take_connection(post.listeners[number].as_fd()) {
            Accepted::Connection(connection, peer) => {
                lines[lane].waiting.push_back((connection, peer, number));
                self.loads[lane].fetch_add(1, Relaxed);
                // It counts up to more than there are descriptors.
                let _ = rustix::io::write(&self.bells[lane], &1_u64.to_ne_bytes());
                Outcome::Done
            }
            Accepted::None => Outcome::NobodyWaits,
            Accepted::Exhausted(error) => Outcome::Exhausted(error),
        }
    }
}

impl Receiver<'_> {
    /// The next connection.
    pub(crate) fn take(&self) -> Option<Handed> {
        let handed = self.handout.lock()[self.lane].waiting.pop_front()?;
        let _ = rustix::io::read(&self.handout.bells[self.lane], &mut [0; 8]);
        Some(handed)
    }

    /// Takes no more than what waits already.
    pub(crate) fn close(&self) {
        self.handout.lock()[self.lane].open = false;
    }

    /// A connection has gone.
    pub(crate) fn lose_one(&self) {
        self.handout.loads[self.lane].fetch_sub(1, Relaxed);
    }

    /// Whether the acceptor has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.handout.done.load(Acquire)
    }
}
