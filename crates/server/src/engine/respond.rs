//! What hosts ask for: responses, whole or piece by piece.

use super::Engine;
use super::connection::Fate;
use super::fastcgi::Carried;
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::{Attempt, Backend};
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use oribi_proto::h1::{Finish, InvalidResponse, Preset};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

/// Content up to this size is copied behind the head: one buffer costs the kernel less than several.
pub(super) const COPIED_BYTES: u64 = 4 << 10;

/// Parts sent by one gathered call. Content in more parts is mostly small parts, and copied (the kernel's limit is 1024).
const GATHERED_PARTS: usize = 16;

pub(super) const TEXT: &[FieldPair<'_>] = &[(b"Content-Type", b"text/plain")];

/// Whether a connection goes on behind what is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// More may follow.
    More,
    /// It ends when the host returns, which is at once.
    Last,
}

impl<B: Backend> Engine<'_, B> {
    /// Sends a whole response.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::respond`.
    pub fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            return self.respond_carried(carried, exchange, head, None, parts);
        }
        self.respond_with(exchange, head, None, parts)
    }

    #[inline]
    fn respond_with(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        parts: &[&[u8]],
    ) -> Result<(), ReplyError> {
        let size = parts.iter().map(|part| part.len() as u64).sum();
        let index = self.write_head(exchange, head, prepared, Some(size))?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        let admitted = connection.machine.write_content_prefix(size, &mut self.scratch);
        connection.sent = admitted;
        // Content of a known size has nothing behind it, so the end of the response can be settled before it is sent.
        let finish = connection.machine.finish(&mut self.scratch);
        let goes_on = finish == Finish::Reuse && !connection.taken;
        let clear = connection.output_is_empty() && !connection.pipelined && !connection.held;
        // The host returns at once, and then nothing keeps the connection from being closed.
        let ends = finish == Finish::Close && self.prompt && connection.lent && !connection.linger && !connection.taken;
        if goes_on && clear && self.can_hold(admitted) {
            self.hold(index, parts, admitted);
        } else {
            self.emit_as(index, parts, admitted, if ends { Order::Last } else { Order::More })?;
        }
        self.response_finished(index, finish);
        Ok(())
    }

    /// Sends a whole response whose content lies partly in files.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::respond_pieces`.
    pub fn respond_pieces(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        pieces: &[Piece<'_>],
    ) -> Result<(), ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            return self.respond_pieces_carried(carried, exchange, head, None, pieces);
        }
        self.respond_pieces_with(exchange, head, None, pieces)
    }

    /// Sends a whole response with status 200 and fields that were written before.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::respond_prepared`.
    pub fn respond_prepared(
        &mut self,
        exchange: ExchangeId,
        fields: &PreparedFields,
        content: Piece<'_>,
    ) -> Result<(), ReplyError> {
        let head = ResponseHead { status: 200, fields: &[] };
        match (Carried::of(exchange), content) {
            (None, Piece::Bytes(bytes)) => self.respond_with(exchange, head, Some(fields), &[bytes]),
            (None, Piece::File { .. }) => self.respond_pieces_with(exchange, head, Some(fields), &[content]),
            (Some(carried), Piece::Bytes(bytes)) => self.respond_carried(carried, exchange, head, Some(fields), &[bytes]),
            (Some(carried), Piece::File { .. }) => {
                self.respond_pieces_carried(carried, exchange, head, Some(fields), &[content])
            }
        }
    }

    fn respond_pieces_with(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        pieces: &[Piece<'_>],
    ) -> Result<(), ReplyError> {
        let size = pieces.iter().map(Piece::size).sum();
        let index = self.write_head(exchange, head, prepared, Some(size))?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        let admitted = connection.machine.write_content_prefix(size, &mut self.scratch);
        connection.sent = admitted;
        let finish = connection.machine.finish(&mut self.scratch);
        let output = connection.output();
        output.push(&self.scratch);
        let mut left = admitted;
        for piece in pieces {
            left -= output.push_piece(piece, 0, left);
        }
        self.flush(index);
        self.response_finished(index, finish);
        Ok(())
    }

    /// Begins a response whose content follows. The head leaves with the first piece; a piece of no bytes sends it alone.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::start`.
    pub fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            return self.start_carried(carried, exchange, head);
        }
        let index = self.write_head(exchange, head, None, None)?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        connection.output().push(&self.scratch);
        self.open(index);
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        // An app that produces piece by piece wants its pieces to leave, even with another request behind this one.
        connection.pipelined = false;
        Ok(())
    }

    /// Sends a piece of content and tells how many bytes wait for the client now.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::write`.
    pub fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            return self.write_carried(carried, exchange, piece);
        }
        let index = self.find(exchange).ok_or(ReplyError::Gone)?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        self.scratch.clear();
        let admitted = connection.machine.write_content_prefix(piece.len() as u64, &mut self.scratch);
        connection.sent += admitted;
        if admitted > COPIED_BYTES {
            self.emit(index, &[piece], admitted)?;
            self.scratch.clear();
        } else {
            self.scratch.extend_from_slice(&piece[..admitted as usize]);
        }
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        if admitted > 0 {
            connection.machine.write_content_suffix(&mut self.scratch);
        }
        self.emit(index, &[], 0)?;
        self.waiting(exchange)
    }

    /// How many bytes of the response wait for the client.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::write`.
    pub fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            return self.waiting_carried(carried, exchange);
        }
        let index = self.find(exchange).ok_or(ReplyError::Gone)?;
        let connection = self.connections.get(index).ok_or(ReplyError::Gone)?;
        Ok(connection.output.as_ref().map_or(0, |output| output.waiting()))
    }

    /// Ends the content.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::finish`.
    pub fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            return self.finish_carried(carried, exchange);
        }
        let index = self.find(exchange).ok_or(ReplyError::Gone)?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        if !connection.machine.response_started() {
            return Err(ReplyError::Invalid("the content ended before the response began"));
        }
        self.scratch.clear();
        let finish = connection.machine.finish(&mut self.scratch);
        self.emit(index, &[], 0)?;
        self.response_finished(index, finish);
        Ok(())
    }

    /// Gives an exchange up.
    pub fn abandon(&mut self, exchange: ExchangeId) {
        if let Some(carried) = Carried::of(exchange) {
            return self.abandon_carried(carried, exchange);
        }
        let Some(index) = self.find(exchange) else { return };
        let Some(connection) = self.connections.get(index) else { return };
        if connection.machine.response_started() {
            self.cut(index);
        } else if connection.taken {
            self.drop_connection(index);
        } else {
            let head = ResponseHead { status: 500, fields: TEXT };
            // The head is valid, and if the client has gone there is nobody to tell.
            let _ = self.respond(exchange, head, &[b"Internal Server Error\n"]);
        }
    }

    /// Gives up every exchange that is out: the context that held them is going.
    pub fn abandon_all(&mut self) {
        let out: Vec<ExchangeId> = self
            .connections
            .indices()
            .filter_map(|index| self.connections.get(index).map(|connection| (index, connection.serial)))
            .map(|(index, serial)| ExchangeId(u64::from(serial) << 32 | u64::from(index)))
            .chain(self.carried_exchanges())
            .collect();
        out.into_iter().for_each(|exchange| self.abandon(exchange));
    }

    /// Sends an informational response.
    ///
    /// # Errors
    /// As `oribi_host::Outlet::inform`.
    pub fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        if let Some(carried) = Carried::of(exchange) {
            // CGI responses are final ones only (RFC 3875, section 6).
            return self.unfinished(carried, exchange).map(|_| ()).ok_or(ReplyError::Gone);
        }
        let index = self.find(exchange).ok_or(ReplyError::Gone)?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        self.scratch.clear();
        connection
            .machine
            .write_informational(status, fields, &mut self.scratch)
            .map_err(|InvalidResponse(why)| ReplyError::Invalid(why))?;
        self.emit(index, &[], 0)?;
        self.flush(index);
        Ok(())
    }

    /// A second descriptor of the socket.
    ///
    /// # Errors
    /// The system's refusal; an exchange that is over gives `NotConnected`.
    pub fn take_socket(&mut self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        if Carried::of(exchange).is_some() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the connection is a web server's, not the client's"));
        }
        let index = self.find(exchange).ok_or(io::ErrorKind::NotConnected)?;
        self.send_if_held(index);
        // What was promised to earlier requests on the connection leaves before the host speaks for itself.
        self.flush(index);
        self.open(index);
        let connection = self.connections.get_mut(index).ok_or(io::ErrorKind::NotConnected)?;
        let copy = self.backend.duplicate(&mut connection.socket)?;
        connection.taken = true;
        Ok(copy)
    }

    /// Writes a head into the scratch buffer. An invalid one is answered 500 in its place.
    fn write_head(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        size: Option<u64>,
    ) -> Result<u32, ReplyError> {
        let index = self.find(exchange).ok_or(ReplyError::Gone)?;
        let persist = self.connections.get(index).is_some_and(|connection| self.may_persist(connection));
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        self.scratch.clear();
        // A client that would use the connection again may have sent its next request already.
        connection.linger = !connection.machine.must_close();
        let preset = Preset { prepared, ..self.stamp.preset() };
        let written = connection.machine.write_head(head, size, persist, &preset, &mut self.scratch);
        match written {
            Ok(()) => {
                connection.status = head.status;
                Ok(index)
            }
            Err(InvalidResponse(why)) => {
                self.abandon(exchange);
                Err(ReplyError::Invalid(why))
            }
        }
    }

    /// Sends the scratch buffer with `size` bytes of `parts` behind it, or keeps them in the connection's queue.
    #[inline]
    pub(super) fn emit(&mut self, index: u32, parts: &[&[u8]], size: u64) -> Result<(), ReplyError> {
        self.emit_as(index, parts, size, Order::More)
    }

    fn emit_as(&mut self, index: u32, parts: &[&[u8]], size: u64, order: Order) -> Result<(), ReplyError> {
        self.send_if_held(index);
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        let at_once = connection.output_is_empty() && !connection.pipelined;
        if !at_once || size <= COPIED_BYTES || parts.len() > GATHERED_PARTS {
            append(&mut self.scratch, parts, size);
            if !at_once {
                let held_back = connection.pipelined;
                connection.output().push(&self.scratch);
                if !held_back {
                    self.flush(index);
                }
                return if self.connections.get(index).is_some() { Ok(()) } else { Err(ReplyError::Gone) };
            }
            if self.scratch.is_empty() {
                return Ok(());
            }
            let socket = &mut connection.socket;
            let attempt = match order {
                Order::Last => self.backend.send_last(socket, &self.scratch),
                Order::More => self.backend.send(socket, &self.scratch),
            };
            return self.keep_rest(index, attempt, &[], 0);
        }
        let mut slices = [IoSlice::new(&[]); GATHERED_PARTS + 1];
        slices[0] = IoSlice::new(&self.scratch);
        let mut left = size as usize;
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            let count = part.len().min(left);
            *slice = IoSlice::new(&part[..count]);
            left -= count;
        }
        let attempt = self.backend.send_gathered(&mut connection.socket, &slices[..=parts.len()]);
        self.keep_rest(index, attempt, parts, size)
    }

    /// Queues what an attempt did not send.
    fn keep_rest(&mut self, index: u32, attempt: Attempt, parts: &[&[u8]], size: u64) -> Result<(), ReplyError> {
        let sent = match attempt {
            Attempt::Done(count) => count as u64,
            Attempt::Later => 0,
            Attempt::End | Attempt::Broken => {
                self.drop_connection(index);
                return Err(ReplyError::Gone);
            }
        };
        let head = self.scratch.len() as u64;
        if sent == head + size {
            return Ok(());
        }
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        let output = connection.output.get_or_insert_default();
        output.push(&self.scratch[sent.min(head) as usize..]);
        let mut skip = sent.saturating_sub(head) as usize;
        let mut left = size as usize - skip;
        for part in parts {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let count = (part.len() - skipped).min(left);
            left -= count;
            output.push(&part[skipped..skipped + count]);
        }
        self.flush(index);
        if self.connections.get(index).is_some() { Ok(()) } else { Err(ReplyError::Gone) }
    }

    fn response_finished(&mut self, index: u32, finish: Finish) {
        match finish {
            Finish::Short { missing } => {
                log::error!("a response was cut off: {missing} bytes short of its Content-Length");
            }
            Finish::Over => log::error!("a response was cut off: more content than its Content-Length"),
            Finish::Reuse | Finish::Close => {}
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        let reuse = finish == Finish::Reuse && !connection.taken;
        connection.fate = Some(if reuse { Fate::Reuse } else { Fate::Close });
        self.answering -= 1;
        if connection.lent {
            return;
        }
        if let Some(draft) = connection.draft.take() {
            let (remote, sent, began) = (connection.remote, connection.sent, connection.complete_at.time());
            let status = connection.status;
            self.record_draft(&draft, remote, status, sent, began);
        }
        self.settle(index);
    }
}

/// Puts the first `size` bytes of `parts` behind what is in `buffer`.
#[inline]
pub(super) fn append(buffer: &mut Vec<u8>, parts: &[&[u8]], size: u64) {
    let mut left = size as usize;
    for part in parts {
        let count = part.len().min(left);
        buffer.extend_from_slice(&part[..count]);
        left -= count;
    }
}
