//! Fetches descriptors from the edge: files with the content of requests, and the sockets of clients.

use super::Intake;
use oribi_host::ExchangeId;
use oribi_pool::{DescriptorRequest, NotWritten, Taken, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The time within which an edge must send a descriptor. An edge runs no app, so it sends the descriptor within an iteration of
/// its event loop. If the edge has died, the next edge drops the request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval at which the worker checks whether the edge has refused the descriptor, because the edge does not announce a
/// refusal on the socket.
const REFUSED: Duration = Duration::from_millis(20);

/// Asks the edge for a descriptor, and waits for it.
pub(super) fn ask(worker: &mut Worker, taken: &mut Taken, request: DescriptorRequest) -> io::Result<OwnedFd> {
    worker.request_descriptor(taken, request).map_err(|unfit| match unfit {
        NotWritten::Full => io::Error::new(io::ErrorKind::WouldBlock, "earlier parts of the response wait for the client"),
        NotWritten::Never(error) => error,
    })?;
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(descriptor) = worker.take_descriptor(taken)? {
            return Ok(descriptor);
        }
        if worker.orders(taken).gone {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the client has gone"));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = format!("the edge has not sent the socket or the file of the request within {} s", PATIENCE.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        let left = Timespec::try_from(left.min(REFUSED)).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&worker.line(), PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Intake<'_> {
    /// Returns a descriptor of the client's connection, for a host that hijacks it (Rack).
    pub(super) fn take_socket(&mut self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        let Self { opened, pools, .. } = self;
        let open = opened.get_mut(exchange).ok_or(io::ErrorKind::NotConnected)?;
        open.check(pools).map_err(|_| io::ErrorKind::NotConnected)?;
        // The edge would refuse the hijack, and end the exchange.
        if open.shared {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the connection also carries other requests"));
        }
        if !open.backlog.is_empty() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "earlier parts of the response wait for the client"));
        }
        ask(&mut pools[open.pool], &mut open.taken, DescriptorRequest::Socket)
    }
}
