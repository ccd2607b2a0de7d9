//! Hijacked connections that are encrypted: an app speaks another protocol with the client.
//!
//! The host cannot have the socket, on which only TLS is spoken. It gets one end of a pair of sockets, and a thread decrypts
//! the bytes from the client and encrypts those from the app, until both sides have ended. A process that ends must first
//! pass on the bytes that apps have already sent to such threads: see [`Passages`].

use crate::session::{Over, Session};
use oribi_io::{Attempt, Sent, break_off, receive_from_app};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of one read: a record.
const READ: usize = 16 << 10;

/// The bytes waiting for one side at which reading from the other side stops.
const MOST_WAITING: usize = 64 << 10;

/// The server's part of a hijacked connection: the host's end of the pair, through which the server sends its own bytes.
pub(crate) struct Given(UnixStream);

impl Given {
    /// Sends as if the host had sent it.
    pub(crate) fn send(&self, pieces: &[IoSlice<'_>]) -> Attempt {
        let mut sent = 0;
        for piece in pieces {
            match rustix::net::send(&self.0, piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) if count == piece.len() => sent += count,
                Ok(count) => return Attempt::Done(sent + count),
                Err(_) if sent > 0 => return Attempt::Done(sent),
                // No event would report room, and a host that has filled the socket needs none of these bytes.
                Err(_) => return Attempt::Broken,
            }
        }
        Attempt::Done(sent)
    }

    /// Ends the sending side of the server, and also of the host.
    pub(crate) fn end(&self) {
        let _ = shutdown(&self.0, Shutdown::Write);
    }
}

/// The longest time that the end of a process waits while no client takes anything, and the longest time that it waits at all.
const STALLED: Duration = Duration::from_secs(5);
const LONGEST_END: Duration = Duration::from_secs(30);

/// More than the bytes of an app that can be under way when a process begins to end: those in the pair of sockets and in the
/// passage.
const MOST_UNDER_WAY: u64 = 512 << 10;

/// The hijacked connections of one backend.
#[derive(Debug, Default)]
pub(crate) struct Passages(Vec<Weak<Course>>);

/// The progress of a passage.
#[derive(Debug)]
struct Course {
    /// The end of the pair from which the app's bytes are read.
    app: UnixStream,
    state: AtomicU8,
    /// Bytes read from the app, and bytes sent to the client.
    read: AtomicU64,
    left: AtomicU64,
}

/// No bytes of the app wait for the client.
const QUIET: u8 = 0;
/// Bytes of the app may wait for the client.
const BUSY: u8 = 1;
/// The app has ended, and all of its bytes have left, with close_notify.
const ENDED: u8 = 2;

impl Passages {
    /// Starts the thread of a connection. Returns the server's part of the connection, and the descriptor for the host.
    /// `received` are bytes that have arrived and are not decrypted yet.
    pub(crate) fn pass(&mut self, session: Session, client: OwnedFd, received: Vec<u8>) -> io::Result<(Given, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let kept = theirs.try_clone()?;
        rustix::io::ioctl_fionbio(&client, true)?;
        ours.set_nonblocking(true)?;
        let course =
            Arc::new(Course { app: ours, state: AtomicU8::new(BUSY), read: AtomicU64::new(0), left: AtomicU64::new(0) });
        self.0.retain(|course| course.strong_count() > 0);
        self.0.push(Arc::downgrade(&course));
        pass(session, client, course, received)?;
        Ok((Given(kept), theirs.into()))
    }

    /// Waits until the bytes that apps have sent have left: the process is about to end, and the threads with it. For sockets
    /// without encryption the kernel does that.
    pub(crate) fn finish(&self) {
        let living = self.0.iter().filter_map(Weak::upgrade);
        let courses: Vec<_> = living.map(|course| (course.read.load(SeqCst), course)).collect();
        let (begun, mut moved, mut left) = (Instant::now(), Instant::now(), 0);
        // An app in another process may continue to send; this does not wait for bytes that it sends from now on.
        while courses.iter().any(|(before, course)| !course.has_left(*before)) {
            let now: u64 = courses.iter().map(|(_, course)| course.left.load(SeqCst)).sum();
            if now != left {
                (left, moved) = (now, Instant::now());
            }
            if moved.elapsed() > STALLED || begun.elapsed() > LONGEST_END {
                log::info!(
                    "this process ends and cuts off connections taken over by apps, because their clients have stopped reading"
                );
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Course {
    /// Whether all bytes have left that the app had sent when `before` bytes had been read from it.
    fn has_left(&self, before: u64) -> bool {
        let mut polled = [PollFd::new(&self.app, PollFlags::IN | PollFlags::RDHUP)];
        // The state is read after the socket: the passage marks itself as busy before it reads there.
        let silent = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready == 0);
        match self.state.load(SeqCst) {
            ENDED => true,
            QUIET if silent => true,
            _ => self.read.load(SeqCst) > before + MOST_UNDER_WAY,
        }
    }
}

fn pass(session: Session, client: OwnedFd, course: Arc<Course>, received: Vec<u8>) -> io::Result<()> {
    let passage = Passage {
        session,
        client,
        course,
        to_app: Vec::new(),
        plain: vec![0; READ],
        incoming: Vec::new(),
        app_ended: false,
        app_gone: false,
        client_told: false,
        broken_off: false,
    };
    thread::Builder::new().name("tls".to_owned()).spawn(move || passage.run(received))?;
    Ok(())
}

struct Passage {
    session: Session,
    client: OwnedFd,
    course: Arc<Course>,
    /// Decrypted bytes that the app has not taken yet.
    to_app: Vec<u8>,
    plain: Vec<u8>,
    incoming: Vec<u8>,
    /// The app has ended its sending side.
    app_ended: bool,
    /// The app also no longer reads.
    app_gone: bool,
    /// The end of the client's bytes was passed on to the app.
    client_told: bool,
    /// The app has cut the connection: the client must not take the received bytes for complete.
    broken_off: bool,
}

impl Passage {
    fn run(mut self, mut received: Vec<u8>) {
        self.session.handle(&mut received);
        // When one side has gone, the thread ends, and the other side sees the end of its own socket.
        while self.turn() {}
        // A client may ignore a missing close_notify; a reset shows the cut as well.
        let _ = if self.broken_off { break_off(self.client.as_fd()) } else { shutdown(&self.client, Shutdown::Both) };
        let _ = shutdown(&self.course.app, Shutdown::Both);
        self.course.state.store(ENDED, SeqCst);
    }

    /// Passes bytes on in both directions, and waits once; `false` if the passage has ended.
    fn turn(&mut self) -> bool {
        let room = self.plain.len();
        while self.to_app.len() < MOST_WAITING && self.session.has_decrypted() {
            let count = self.session.take(&mut self.plain[..room]);
            self.to_app.extend_from_slice(&self.plain[..count]);
        }
        let waiting = self.session.waiting.len();
        if !write(self.course.app.as_fd(), &mut self.to_app) || !write(self.client.as_fd(), &mut self.session.waiting) {
            return false;
        }
        self.course.left.fetch_add((waiting - self.session.waiting.len()) as u64, SeqCst);
        if self.session.over == Some(Over::Broken) && self.to_app.is_empty() {
            return false;
        }
        if self.session.over.is_some() && self.to_app.is_empty() && !std::mem::replace(&mut self.client_told, true) {
            let _ = shutdown(&self.course.app, Shutdown::Write);
        }
        if self.session.waiting.is_empty()
            && (self.app_gone || self.broken_off || (self.app_ended && self.session.over.is_some()))
        {
            return false;
        }
        if self.session.waiting.is_empty() {
            self.course.state.store(if self.app_ended { ENDED } else { QUIET }, SeqCst);
        }
        let (client, app) = match self.wait() {
            Ok(found) => found,
            Err(_) => return false,
        };
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        if client.intersects(readable) && self.hears_client() && !self.hear_client() {
            return false;
        }
        if app.intersects(readable) && self.hears_app() && !self.hear_app() {
            return false;
        }
        self.app_gone |= self.app_ended && app.intersects(PollFlags::HUP | PollFlags::ERR);
        true
    }

    fn hears_client(&self) -> bool {
        self.session.over.is_none() && self.to_app.len() < MOST_WAITING
    }

    fn hears_app(&self) -> bool {
        !self.app_ended && self.session.waiting.len() < MOST_WAITING
    }

    /// Waits until one side has bytes, or room for waiting bytes. A side of which neither is needed now is not watched, because
    /// poll would report its end again and again. An app that has ended its sending side is still watched, because it may also
    /// close its receiving side.
    fn wait(&self) -> Result<(PollFlags, PollFlags), Errno> {
        let (mut of_client, mut of_app) = (PollFlags::empty(), PollFlags::empty());
        of_client.set(PollFlags::IN, self.hears_client());
        of_client.set(PollFlags::OUT, !self.session.waiting.is_empty());
        of_app.set(PollFlags::IN, self.hears_app());
        of_app.set(PollFlags::OUT, !self.to_app.is_empty());
        let mut polled = [PollFd::new(&self.course.app, of_app), PollFd::new(&self.client, of_client)];
        let polled = match (self.app_gone, of_client.is_empty()) {
            (true, _) => &mut polled[1..],
            (false, true) => &mut polled[..1],
            (false, false) => &mut polled[..],
        };
        match poll(polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((PollFlags::empty(), PollFlags::empty())),
            Err(error) => return Err(error),
        }
        let (first, last) = (polled[0].revents(), polled[polled.len() - 1].revents());
        Ok(match (self.app_gone, of_client.is_empty()) {
            (true, _) => (last, PollFlags::empty()),
            (false, true) => (PollFlags::empty(), first),
            (false, false) => (last, first),
        })
    }

    fn hear_client(&mut self) -> bool {
        let kept = self.session.restore(&mut self.incoming, READ);
        match rustix::io::read(&self.client, &mut self.incoming[kept..kept + READ]) {
            Ok(0) => self.session.ends_unannounced(),
            Ok(count) => self.session.handle(&mut self.incoming[..kept + count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return false,
        }
        true
    }

    fn hear_app(&mut self) -> bool {
        self.course.state.store(BUSY, SeqCst);
        let mut waiting = std::mem::take(&mut self.session.waiting);
        let goes_on = match receive_from_app(self.course.app.as_fd(), &mut self.plain) {
            Ok(Sent::Bytes(0)) => {
                self.app_ended = true;
                self.session.say_goodbye(&mut waiting);
                true
            }
            Ok(Sent::Cut(count)) => {
                (self.app_ended, self.broken_off) = (true, true);
                count == 0 || self.session.encrypt(&self.plain[..count], &mut waiting)
            }
            Ok(Sent::Bytes(count)) => {
                self.course.read.fetch_add(count as u64, SeqCst);
                self.session.encrypt(&self.plain[..count], &mut waiting)
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        };
        self.session.waiting = waiting;
        goes_on
    }
}

/// Writes as many bytes as there is room for; `false` if the reader has gone.
fn write(to: BorrowedFd<'_>, bytes: &mut Vec<u8>) -> bool {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::net::send(to, &bytes[written..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => written += count,
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    bytes.drain(..written);
    true
}
