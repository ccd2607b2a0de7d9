//! Responses of exchanges that a connection carries, whole or piece by piece.

use super::super::Engine;
use super::super::respond::{COPIED_BYTES, TEXT};
use super::Carried;
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::Backend;
use oribi_message::{PreparedFields, ResponseHead};
use oribi_proto::fcgi::{InvalidResponse, Refusal};
use std::io::IoSlice;

/// What a CGI program that has failed exits with.
const FAILURE: u32 = 1;

/// Slices sent by one gathered call: two for each record, and as many as an app gives for its content. 30 records are 2 MiB; what
/// is beyond that waits in the queue.
const GATHERED_SLICES: usize = 64;

/// Where content goes between the bytes of framing in the scratch buffer: behind the first `position` of them.
#[derive(Clone, Copy)]
struct Gap {
    position: usize,
    size: usize,
}

impl<B: Backend> Engine<'_, B> {
    pub(in super::super) fn respond_carried(
        &mut self,
        carried: Carried,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        parts: &[&[u8]],
    ) -> Result<(), ReplyError> {
        let size = parts.iter().map(|part| part.len() as u64).sum();
        let index = self.write_carried_head(carried, exchange, head, prepared, Some(size))?;
        let Some(stream) = self.streams.get_mut(carried.0) else { return Err(ReplyError::Gone) };
        let (mut parts_left, mut gaps) = (Parts::of(parts), Vec::new());
        let mut left = size;
        loop {
            let admitted = stream.exchange.write_content_prefix(left, &mut self.scratch);
            if admitted == 0 {
                break;
            }
            stream.sent += admitted;
            left -= admitted;
            if size <= COPIED_BYTES {
                parts_left.take(admitted as usize, |piece| self.scratch.extend_from_slice(piece));
            } else {
                gaps.push(Gap { position: self.scratch.len(), size: admitted as usize });
            }
            stream.exchange.write_content_suffix(&mut self.scratch);
        }
        let finish = stream.exchange.finish(0, &mut self.scratch);
        let sent = self.emit_between(index, &gaps, Parts::of(parts));
        self.stream_finished(carried.0, finish);
        sent
    }

    pub(in super::super) fn respond_pieces_carried(
        &mut self,
        carried: Carried,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        pieces: &[Piece<'_>],
    ) -> Result<(), ReplyError> {
        let size = pieces.iter().map(Piece::size).sum();
        let index = self.write_carried_head(carried, exchange, head, prepared, Some(size))?;
        let mut left = size;
        let (mut rest, mut skip) = (pieces.iter(), 0);
        let mut present = rest.next();
        loop {
            let Some(stream) = self.streams.get_mut(carried.0) else { return Err(ReplyError::Gone) };
            let admitted = stream.exchange.write_content_prefix(left, &mut self.scratch);
            if admitted == 0 {
                break;
            }
            stream.sent += admitted;
            let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
            let output = connection.output();
            output.push(&self.scratch);
            let mut missing = admitted;
            while let Some(piece) = present
                && missing > 0
            {
                let count = output.push_piece(piece, skip, missing);
                missing -= count;
                skip += count;
                if skip == piece.size() {
                    (present, skip) = (rest.next(), 0);
                }
            }
            self.scratch.clear();
            stream.exchange.write_content_suffix(&mut self.scratch);
            left -= admitted;
        }
        self.end_response(carried, 0)
    }

    pub(in super::super) fn start_carried(
        &mut self,
        carried: Carried,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
    ) -> Result<(), ReplyError> {
        let index = self.write_carried_head(carried, exchange, head, None, None)?;
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        connection.output().push(&self.scratch);
        Ok(())
    }

    pub(in super::super) fn write_carried(
        &mut self,
        carried: Carried,
        exchange: ExchangeId,
        piece: &[u8],
    ) -> Result<usize, ReplyError> {
        let index = self.unfinished(carried, exchange).ok_or(ReplyError::Gone)?.connection;
        let Some(stream) = self.streams.get_mut(carried.0) else { return Err(ReplyError::Gone) };
        self.scratch.clear();
        let (mut rest, mut gaps) = (piece, Vec::new());
        loop {
            let admitted = stream.exchange.write_content_prefix(rest.len() as u64, &mut self.scratch);
            if admitted == 0 {
                break;
            }
            stream.sent += admitted;
            let (record, behind) = rest.split_at(admitted as usize);
            if piece.len() as u64 <= COPIED_BYTES {
                self.scratch.extend_from_slice(record);
            } else {
                gaps.push(Gap { position: self.scratch.len(), size: record.len() });
            }
            stream.exchange.write_content_suffix(&mut self.scratch);
            rest = behind;
        }
        self.emit_between(index, &gaps, Parts::of(&[piece]))?;
        self.waiting_carried(carried, exchange)
    }

    pub(in super::super) fn waiting_carried(&self, carried: Carried, exchange: ExchangeId) -> Result<usize, ReplyError> {
        let stream = self.unfinished(carried, exchange).ok_or(ReplyError::Gone)?;
        let connection = self.connections.get(stream.connection).ok_or(ReplyError::Gone)?;
        Ok(connection.output.as_ref().map_or(0, |output| output.waiting()))
    }

    pub(in super::super) fn finish_carried(&mut self, carried: Carried, exchange: ExchangeId) -> Result<(), ReplyError> {
        let stream = self.unfinished(carried, exchange).ok_or(ReplyError::Gone)?;
        if !stream.exchange.response_started() {
            return Err(ReplyError::Invalid("the content ended before the response began"));
        }
        self.scratch.clear();
        self.end_response(carried, 0)
    }

    pub(in super::super) fn abandon_carried(&mut self, carried: Carried, exchange: ExchangeId) {
        let Some(stream) = self.unfinished(carried, exchange) else { return };
        if !stream.exchange.response_started() {
            let head = ResponseHead { status: 500, fields: TEXT };
            // The head is valid, and if the client has gone there is nobody to tell.
            let _ = self.respond_carried(carried, exchange, head, None, &[b"Internal Server Error\n"]);
            return;
        }
        let index = stream.connection;
        // The end of the connection is the only way to say that content of unknown length is not whole. If it carries others, who
        // are whole, what is left is the status; and content that is shorter than announced says it by itself.
        let alone = self.connections.get(index).and_then(|connection| connection.carrier.as_ref());
        if stream.exchange.is_open_ended() && alone.is_some_and(|carrier| carrier.streams.len() == 1) {
            return self.cut(index);
        }
        self.scratch.clear();
        // If the web server has gone, its connection has too.
        let _ = self.end_response(carried, FAILURE);
    }

    /// Passes a message on to the web server's log; `false` if the exchange is over or is none of a web server's.
    pub fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool {
        let Some(carried) = Carried::of(exchange) else { return false };
        let Some(index) = self.unfinished(carried, exchange).map(|stream| stream.connection) else { return false };
        let Some(stream) = self.streams.get_mut(carried.0) else { return false };
        self.scratch.clear();
        stream.exchange.write_error(message, &mut self.scratch);
        self.emit(index, &[], 0).is_ok()
    }

    /// Answers a request that the server does not pass on. What still comes of it is skipped.
    pub(super) fn refuse_stream(&mut self, place: u32, refusal: Refusal) {
        log::debug!("refused a request: {} {}", refusal.status(), refusal.reason());
        let Some(stream) = self.streams.get_mut(place) else { return };
        self.scratch.clear();
        stream.exchange.write_refusal(refusal, &mut self.scratch);
        let finish = stream.exchange.finish(0, &mut self.scratch);
        let (index, remote) = (stream.connection, stream.remote);
        self.record_refusal(remote.address(), refusal.status());
        // If the web server has gone, the next look at the connection says so.
        let _ = self.emit(index, &[], 0);
        self.stream_finished(place, finish);
    }

    /// Writes a head into the scratch buffer. An invalid one is answered 500 in its place.
    fn write_carried_head(
        &mut self,
        carried: Carried,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        size: Option<u64>,
    ) -> Result<u32, ReplyError> {
        let index = self.unfinished(carried, exchange).ok_or(ReplyError::Gone)?.connection;
        let Some(stream) = self.streams.get_mut(carried.0) else { return Err(ReplyError::Gone) };
        self.scratch.clear();
        match stream.exchange.write_head(head, prepared, size, &mut self.scratch) {
            Ok(()) => {
                stream.status = head.status;
                Ok(index)
            }
            Err(InvalidResponse(why)) => {
                self.abandon_carried(carried, exchange);
                Err(ReplyError::Invalid(why))
            }
        }
    }

    /// Ends a response behind what the scratch buffer holds of it.
    fn end_response(&mut self, carried: Carried, status: u32) -> Result<(), ReplyError> {
        let Some(stream) = self.streams.get_mut(carried.0) else { return Err(ReplyError::Gone) };
        let finish = stream.exchange.finish(status, &mut self.scratch);
        let index = stream.connection;
        let sent = self.emit(index, &[], 0);
        self.stream_finished(carried.0, finish);
        sent
    }

    /// Sends the scratch buffer with content in its gaps, or keeps what does not leave in the connection's queue.
    fn emit_between(&mut self, index: u32, gaps: &[Gap], mut content: Parts<'_>) -> Result<(), ReplyError> {
        if gaps.is_empty() {
            return self.emit(index, &[], 0);
        }
        let Some(connection) = self.connections.get_mut(index) else { return Err(ReplyError::Gone) };
        let mut slices = Vec::with_capacity(GATHERED_SLICES);
        let mut position = 0;
        for gap in gaps {
            slices.push(&self.scratch[position..gap.position]);
            content.take(gap.size, |piece| slices.push(piece));
            position = gap.position;
        }
        slices.push(&self.scratch[position..]);
        let mut sent = 0;
        if connection.output_is_empty() {
            let first: Vec<_> = slices.iter().take(GATHERED_SLICES).map(|slice| IoSlice::new(slice)).collect();
            sent = match self.backend.send_gathered(&mut connection.socket, &first) {
                oribi_io::Attempt::Done(count) => count,
                oribi_io::Attempt::Later => 0,
                oribi_io::Attempt::End | oribi_io::Attempt::Broken => {
                    self.drop_connection(index);
                    return Err(ReplyError::Gone);
                }
            };
        }
        for slice in slices {
            let skipped = sent.min(slice.len());
            sent -= skipped;
            connection.output.get_or_insert_default().push(&slice[skipped..]);
        }
        self.flush(index);
        if self.connections.get(index).is_some() { Ok(()) } else { Err(ReplyError::Gone) }
    }
}

/// Content in parts, taken from front to back.
struct Parts<'a> {
    parts: &'a [&'a [u8]],
    /// Bytes of the first part that are gone.
    taken: usize,
}

impl<'a> Parts<'a> {
    const fn of(parts: &'a [&'a [u8]]) -> Self {
        Self { parts, taken: 0 }
    }

    /// Gives the next `size` bytes to `sink`, piece by piece.
    fn take(&mut self, mut size: usize, mut sink: impl FnMut(&'a [u8])) {
        while let [first, behind @ ..] = self.parts
            && size > 0
        {
            let rest = &first[self.taken..];
            let count = rest.len().min(size);
            if count > 0 {
                sink(&rest[..count]);
            }
            size -= count;
            self.taken += count;
            if self.taken == first.len() {
                (self.parts, self.taken) = (behind, 0);
            }
        }
    }
}
