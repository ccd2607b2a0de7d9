//! Requests for metrics by the server's own processes (`--metrics-path`). Processes that own connections ask the first
//! process, which alone has the metrics.
//!
//! All processes inherit one end of a pair of sockets; the first process has the other end. To ask, a process creates a
//! second pair of sockets, sends one end of it to the first process together with the format, and reads the answer from the
//! other end. So each answer reaches only the process that has asked, even if many ask, and a first process that is busy or
//! has ended delays no other process.

use super::text::Format;
use oribi_ipc::handover::{receive_with_descriptor, send_with_descriptor};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The size in bytes of the length before an answer. Without this length, an answer would look complete although the first
/// process was killed while it sent the answer.
const LENGTH_BYTES: usize = 8;
/// The longest answer accepted, in bytes. With all routes and app metrics it has some hundred KiB.
const LONGEST: usize = 16 << 20;
/// The number of bytes read by one call.
const READ_AT_ONCE: usize = 64 << 10;

static METRICS_CLIENT: Mutex<Option<MetricsClient>> = Mutex::new(None);

/// The end of the inherited pair of sockets on which processes ask. It belongs to the process, like its standard error: it is
/// opened once, before other processes are forked.
#[derive(Clone, Debug)]
pub struct MetricsClient(Arc<OwnedFd>);

/// The end of that pair on which the first process receives requests.
#[derive(Debug)]
pub(super) struct Receiver(OwnedFd);

impl MetricsClient {
    /// Returns the asking end of this process, if it has one.
    pub fn of_process() -> Option<Self> {
        METRICS_CLIENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the pair of sockets. Keeps the asking end for this process, and returns the other end.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn open() -> io::Result<Receiver> {
        let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Self::adopt(sender);
        Ok(Receiver(receiver))
    }

    /// Uses the asking end that another process has left for this one.
    pub fn adopt(sender: OwnedFd) {
        *METRICS_CLIENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Self(Arc::new(sender)));
    }

    /// Asks for metrics in this format, without waiting for them.
    ///
    /// # Errors
    /// The first process has ended, too many requests wait for it, or the operating system refused a call.
    pub fn ask(&self, format: Format) -> io::Result<MetricsRequest> {
        let (own, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        send_with_descriptor(&self.0, &[format as u8], Some(given.as_fd()))?;
        Ok(MetricsRequest { socket: own, bytes: Vec::new() })
    }
}

impl AsFd for MetricsClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Receiver {
    /// Returns the next request: the socket for the answer, and the format. `None` if no request waits.
    pub(super) fn next(&self) -> Option<(OwnedFd, Format)> {
        loop {
            let mut format = [0];
            match receive_with_descriptor(&self.0, &mut format) {
                Ok((0, _)) | Err(_) => return None,
                Ok((_, descriptor)) => {
                    let format = Format::ALL.into_iter().find(|known| *known as u8 == format[0]);
                    // An app that handles connections itself has also inherited the socket, and may send anything.
                    if let (Some(descriptor), Some(format)) = (descriptor, format) {
                        return Some((descriptor, format));
                    }
                }
            }
        }
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the answer with these metrics: their length, then the metrics.
pub(super) fn framed(metrics: &[u8]) -> Vec<u8> {
    let length: [u8; LENGTH_BYTES] = (metrics.len() as u64).to_be_bytes();
    [&length, metrics].concat()
}

/// A request for metrics without an answer so far.
#[derive(Debug)]
pub struct MetricsRequest {
    socket: OwnedFd,
    /// The part of the answer received so far.
    bytes: Vec<u8>,
}

/// The state of a request for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'i> {
    /// The answer has not arrived completely.
    Pending,
    /// The metrics in the requested format.
    Metrics(&'i [u8]),
    /// The first process has ended or has dropped the request, or the answer is too long.
    Failed,
}

impl MetricsRequest {
    /// Reads the available part of the answer, without waiting.
    pub fn read(&mut self) -> Outcome<'_> {
        let mut chunk = vec![0; READ_AT_ONCE];
        loop {
            match recv(&self.socket, chunk.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return self.outcome().unwrap_or(Outcome::Failed),
                Ok((_, size)) => self.bytes.extend_from_slice(&chunk[..size]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.outcome().unwrap_or(Outcome::Pending),
                Err(_) => return Outcome::Failed,
            }
            if self.bytes.len() > LENGTH_BYTES + LONGEST {
                return Outcome::Failed;
            }
        }
    }

    /// Returns the result; `None` while the answer is incomplete.
    fn outcome(&self) -> Option<Outcome<'_>> {
        let (length, metrics) = self.bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let length = u64::from_be_bytes(*length);
        (metrics.len() as u64 >= length).then_some(Outcome::Metrics(metrics))
    }
}

impl AsFd for MetricsRequest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendFlags, send};
    use std::fs::File;

    /// Creates both ends of a pair of sockets that only this test uses.
    fn line() -> (MetricsClient, Receiver) {
        let (sender, receiver) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
        (MetricsClient(Arc::new(sender)), Receiver(receiver))
    }

    fn say(socket: &OwnedFd, bytes: &[u8]) {
        assert_eq!(send(socket, bytes, SendFlags::NOSIGNAL).expect("it is open"), bytes.len());
    }

    #[test]
    fn an_answer_reaches_who_has_asked_however_it_is_cut() {
        let (line, receiver) = line();
        let answer = framed(b"a 1\nb 2\n");
        for cut in 0..=answer.len() {
            let mut request = line.ask(Format::Open).expect("there is room");
            let (client, format) = receiver.next().expect("it has come");
            assert_eq!(format, Format::Open);
            assert_eq!(request.read(), Outcome::Pending);
            if cut > 0 {
                say(&client, &answer[..cut]);
            }
            if cut < answer.len() {
                assert_eq!(request.read(), Outcome::Pending, "at {cut}");
                say(&client, &answer[cut..]);
            }
            assert_eq!(request.read(), Outcome::Metrics(b"a 1\nb 2\n"), "at {cut}");
        }
    }

    #[test]
    fn half_an_answer_is_none() {
        let (line, receiver) = line();
        let answer = framed(b"a 1\n");
        for cut in 0..answer.len() {
            let mut request = line.ask(Format::Plain).expect("there is room");
            let (client, _) = receiver.next().expect("it has come");
            if cut > 0 {
                say(&client, &answer[..cut]);
            }
            drop(client);
            assert_eq!(request.read(), Outcome::Failed, "at {cut}");
        }
    }

    #[test]
    fn who_has_ended_is_asked_in_vain_and_what_makes_no_sense_is_passed_over() {
        let (line, receiver) = line();
        say(&line.0, b"p");
        let file = File::open("/dev/null").expect("it is everywhere");
        send_with_descriptor(&line.0, &[77], Some(file.as_fd())).expect("there is room");
        let mut request = line.ask(Format::Binary).expect("there is room");
        let (_client, format) = receiver.next().expect("it is the one that makes sense");
        assert_eq!(format, Format::Binary);
        assert!(receiver.next().is_none());
        assert_eq!(request.read(), Outcome::Pending);
        let mut unread = line.ask(Format::Plain).expect("there is room");
        drop(receiver);
        assert_eq!(unread.read(), Outcome::Failed);
        assert!(line.ask(Format::Plain).is_err());
    }
}
