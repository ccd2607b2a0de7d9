//! Step 3, send: the state of an exchange, and the bytes for its upstream.

use crate::request::Outgoing;
use oribi_host::ExchangeId;
use oribi_message::FieldPair;
use oribi_proto::h1::client::Machine;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// The number of bytes that are read from a file at once.
const PIECE: usize = 64 << 10;

/// An exchange with an upstream.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    pub(crate) request: Outgoing,
    /// The number of bytes of the request's first part that have been sent.
    sent: usize,
    /// The number of bytes of its file that have been read.
    read: u64,
    /// A piece of the file, framed, and the number of its bytes that have been sent.
    piece: Vec<u8>,
    piece_sent: usize,
    /// Whether the end of content in a file has been framed.
    ended: bool,
    /// Whether any byte of a response has come.
    pub(crate) answered: bool,
    /// Whether the client gets the final response.
    pub(crate) begun: bool,
    /// Whether the client has the whole response.
    pub(crate) complete: bool,
    /// Whether the client has no room.
    pub(crate) paused: bool,
    /// Whether this is the second attempt.
    pub(crate) repeated: bool,
    pub(crate) trailers: Vec<u8>,
}

impl Exchange {
    pub(crate) fn new(id: ExchangeId, request: Outgoing) -> Self {
        Self {
            id,
            request,
            sent: 0,
            read: 0,
            piece: Vec::new(),
            piece_sent: 0,
            ended: false,
            answered: false,
            begun: false,
            complete: false,
            paused: false,
            repeated: false,
            trailers: Vec::new(),
        }
    }

    /// Goes back to the beginning, for another connection.
    pub(crate) fn rewind(self) -> Self {
        Self { repeated: true, ..Self::new(self.id, self.request) }
    }

    /// Whether no byte of the request has been sent.
    pub(crate) const fn is_unsent(&self) -> bool {
        self.sent == 0
    }

    /// Whether the upstream has been sent the whole request. A machine knows only whether it has been framed.
    pub(crate) const fn is_sent(&self) -> bool {
        let is_framed = self.ended || self.request.file.is_none();
        is_framed && self.sent == self.request.first.len() && self.piece_sent == self.piece.len()
    }

    /// Whether another connection may get the request: it has got none yet, no byte of a response has come, and the upstream
    /// has seen nothing of the request, or may see it twice on a connection that it had kept (RFC 9110, section 9.2.2; RFC 9112,
    /// section 9.3.1).
    pub(crate) const fn may_repeat(&self, kept: bool) -> bool {
        !self.repeated && !self.answered && (self.is_unsent() || (kept && self.request.is_idempotent))
    }

    /// The bytes to send next; empty if the request is complete.
    ///
    /// # Errors
    /// The content cannot be read.
    pub(crate) fn pending(&mut self, machine: &mut Machine) -> io::Result<&[u8]> {
        if self.sent < self.request.first.len() {
            return Ok(&self.request.first[self.sent..]);
        }
        if self.piece_sent == self.piece.len() {
            self.piece.clear();
            self.piece_sent = 0;
            self.read_piece(machine)?;
        }
        Ok(&self.piece[self.piece_sent..])
    }

    /// Some of the pending bytes have been sent.
    pub(crate) const fn note_sent(&mut self, count: usize) {
        if self.sent < self.request.first.len() {
            self.sent += count;
        } else {
            self.piece_sent += count;
        }
    }

    fn read_piece(&mut self, machine: &mut Machine) -> io::Result<()> {
        let Some(content) = self.request.file.as_ref().filter(|_| !self.ended) else { return Ok(()) };
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if self.read == content.size {
            self.ended = true;
            let trailers: Vec<FieldPair<'_>> = content.trailers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            return machine.finish_request(&trailers, &mut self.piece).map_err(invalid);
        }
        let size = usize::try_from(content.size - self.read).map_or(PIECE, |left| left.min(PIECE));
        let mut bytes = vec![0; size];
        let count = loop {
            match rustix::io::pread(content.file.as_fd(), &mut bytes[..], self.read) {
                Err(Errno::INTR) => {}
                outcome => break outcome?,
            }
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read += count as u64;
        machine.write_content(&bytes[..count], &mut self.piece).map_err(invalid)
    }
}
